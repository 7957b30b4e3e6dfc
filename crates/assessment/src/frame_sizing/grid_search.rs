//! The search over frames, lengths and places on the grid, from the least share on.

use tailbound_time::Duration;
use tailbound_topics::{Chains, TaskName};

use super::{FrameSetting, FrameSizing, FrameSizingError, SizedWindow};
use crate::AssessmentError;
use crate::chains::{ChainVerdict, judge_some_chains};
use crate::schedulability::{DeadlineVerdict, ModeVerdict, judge};

/// A frame with so many steps more in all windows than their least lengths.
#[derive(Clone, Debug)]
struct FrameCandidate {
    units: u64,
    least: Vec<u64>,
    more: u64,
}

impl FrameCandidate {
    fn total(&self) -> u64 {
        self.least.iter().sum::<u64>() + self.more
    }

    /// Whether it comes before another one: a lesser share, then a longer frame.
    fn comes_before(&self, other: &Self) -> bool {
        let own = u128::from(self.total()) * u128::from(other.units);
        let others = u128::from(other.total()) * u128::from(self.units);
        (own, other.units) < (others, self.units)
    }
}

/// A chain with the partitions that have to be placed before it can be judged.
struct PlacedChain {
    name: String,
    last: usize,
}

/// The search.
pub(super) struct GridSearch<'a> {
    setting: FrameSetting<'a>,
    candidates: Vec<FrameCandidate>,
    chains: Vec<PlacedChain>,
    placements: u64,
    most_placements: u64,
    /// The verdict that refuted a placement last.
    refuted_by: Option<String>,
}

/// The end of the search within a candidate.
enum PlacementEnd {
    At(Vec<(u64, u64)>),
    Nowhere,
    Unfinished,
}

impl<'a> GridSearch<'a> {
    pub(super) fn new(setting: FrameSetting<'a>, frames: Vec<(u64, Vec<u64>)>) -> Self {
        let chains: Chains = setting.description.section();
        let limited = chains
            .0
            .iter()
            .filter(|(_, chain)| chain.data_age.is_some() || chain.reaction_time.is_some());
        let placed = limited.filter_map(|(name, chain)| {
            let tasks: Vec<TaskName> = chain.tasks().map(|(_, task)| task).collect();
            let places = tasks.iter().filter_map(|task| {
                setting
                    .partitions
                    .iter()
                    .position(|name| *name == task.domain)
            });
            let name = name.clone();
            Some(PlacedChain {
                name,
                last: places.max()?,
            })
        });
        let chains = placed.collect();
        let candidates = frames.into_iter().map(|(units, least)| FrameCandidate {
            units,
            least,
            more: 0,
        });
        Self {
            most_placements: setting.query.most_placements,
            candidates: candidates.collect(),
            setting,
            chains,
            placements: 0,
            refuted_by: None,
        }
    }

    pub(super) fn answer(mut self) -> Result<FrameSizing, FrameSizingError> {
        while let Some(candidate) = self.take_least() {
            match self.divide(&candidate, &candidate.least.clone(), 0, candidate.more)? {
                PlacementEnd::At(windows) => {
                    return Ok(self.sizing(&candidate, &windows, share_of(&candidate)));
                }
                PlacementEnd::Unfinished => return self.without_proof(&candidate),
                PlacementEnd::Nowhere => {}
            }
            if candidate.more < self.room(&candidate) {
                let more = candidate.more + 1;
                self.candidates.push(FrameCandidate { more, ..candidate });
            }
        }
        Err(FrameSizingError::Infeasible {
            grid: self.setting.query.grid,
            why: self
                .refuted_by
                .unwrap_or_else(|| "the windows do not fit into any frame".into()),
        })
    }

    fn take_least(&mut self) -> Option<FrameCandidate> {
        let mut least = 0;
        for (index, candidate) in self.candidates.iter().enumerate() {
            if candidate.comes_before(&self.candidates[least]) {
                least = index;
            }
        }
        (!self.candidates.is_empty()).then(|| self.candidates.swap_remove(least))
    }

    /// The most steps that may be added in all windows.
    fn room(&self, candidate: &FrameCandidate) -> u64 {
        let most = candidate.units * candidate.least.len() as u64;
        most.saturating_sub(candidate.least.iter().sum())
    }

    /// Divides the steps that are left among the windows from one on, in every way.
    fn divide(
        &mut self,
        candidate: &FrameCandidate,
        lengths: &[u64],
        from: usize,
        left: u64,
    ) -> Result<PlacementEnd, AssessmentError> {
        if from + 1 == lengths.len() || left == 0 {
            let mut lengths = lengths.to_vec();
            lengths[from] += left;
            return match lengths[from] <= candidate.units {
                true => self.place_all(candidate.units, &lengths),
                false => Ok(PlacementEnd::Nowhere),
            };
        }
        for own in (0..=left).rev() {
            let mut lengths = lengths.to_vec();
            lengths[from] += own;
            if lengths[from] > candidate.units {
                continue;
            }
            match self.divide(candidate, &lengths, from + 1, left - own)? {
                PlacementEnd::Nowhere => {}
                end => return Ok(end),
            }
        }
        Ok(PlacementEnd::Nowhere)
    }

    /// Places windows of these lengths in every way, if the CPUs hold them and the tasks meet their deadlines.
    fn place_all(&mut self, units: u64, lengths: &[u64]) -> Result<PlacementEnd, AssessmentError> {
        let Some(packed) = self.packed(units, lengths) else {
            return Ok(PlacementEnd::Nowhere);
        };
        let frame = self.setting.time(units);
        if let Some(host) = self.setting.description.hosts.get_mut(&self.setting.host) {
            host.major_frame = Some(frame);
        }
        for (index, (offset, length)) in packed.iter().enumerate() {
            self.set_window(index, *offset, *length);
        }
        // Response times hold wherever the windows lie.
        let verdicts = judge(&self.setting.description, self.setting.query.inputs)?;
        if !self.holds(&verdicts) {
            return Ok(PlacementEnd::Nowhere);
        }
        let mut placed = Vec::new();
        Ok(self.place(units, lengths, &verdicts, &mut placed))
    }

    /// The windows one after the other on each CPU; `None` where they do not fit.
    fn packed(&self, units: u64, lengths: &[u64]) -> Option<Vec<(u64, u64)>> {
        let mut placed: Vec<(u64, u64)> = Vec::new();
        for length in lengths {
            let offset = (0..=units.checked_sub(*length)?)
                .find(|offset| self.is_free(&placed, *offset, *length))?;
            placed.push((offset, *length));
        }
        Some(placed)
    }

    /// Whether a window of the next partition overlaps with none of those that are placed on its CPUs.
    fn is_free(&self, placed: &[(u64, u64)], offset: u64, length: u64) -> bool {
        let domains = &self.setting.description.domains;
        let cpus = |index: usize| {
            let domain = domains.get(&self.setting.partitions[index])?;
            domain.reservation.as_ref().map(|it| &it.cpus)
        };
        let own = cpus(placed.len());
        placed
            .iter()
            .enumerate()
            .all(|(index, (other, others_length))| {
                let apart = other + others_length <= offset || offset + length <= *other;
                let shared = own
                    .zip(cpus(index))
                    .is_some_and(|(own, other)| !own.is_disjoint(other));
                apart || !shared
            })
    }

    fn set_window(&mut self, index: usize, offset: u64, length: u64) {
        let Some(window) = self.setting.usable(offset, length) else {
            return;
        };
        let domain = self
            .setting
            .description
            .domains
            .get_mut(&self.setting.partitions[index]);
        if let Some(reservation) = domain.and_then(|domain| domain.reservation.as_mut()) {
            reservation.windows = vec![window];
        }
    }

    /// Whether the tasks of the partitions meet their deadlines, and the CPUs of the host hold the windows.
    fn holds(&self, verdicts: &[ModeVerdict]) -> bool {
        let is_here = |domain: &String| self.setting.partitions.contains(domain);
        verdicts.iter().all(|verdict| {
            let mut tasks = verdict.tasks.iter().filter(|task| is_here(&task.domain));
            let mut cpus = verdict
                .cpus
                .iter()
                .filter(|cpu| cpu.host == self.setting.host);
            tasks.all(|task| task.verdict == DeadlineVerdict::Met) && cpus.all(|cpu| cpu.admitted)
        })
    }

    /// Places the windows from the first one without a place on.
    fn place(
        &mut self,
        units: u64,
        lengths: &[u64],
        verdicts: &[ModeVerdict],
        placed: &mut Vec<(u64, u64)>,
    ) -> PlacementEnd {
        let index = placed.len();
        let Some(length) = lengths.get(index).copied() else {
            return PlacementEnd::At(placed.clone());
        };
        for offset in 0..=units - length {
            if !self.is_free(placed, offset, length) {
                continue;
            }
            if self.placements >= self.most_placements {
                return PlacementEnd::Unfinished;
            }
            self.placements += 1;
            self.set_window(index, offset, length);
            if !self.chains_are_kept(index, verdicts) {
                continue;
            }
            placed.push((offset, length));
            match self.place(units, lengths, verdicts, placed) {
                PlacementEnd::Nowhere => placed.pop(),
                end => return end,
            };
        }
        PlacementEnd::Nowhere
    }

    /// Whether the chains are kept of which this partition is the last one to be placed.
    fn chains_are_kept(&mut self, index: usize, verdicts: &[ModeVerdict]) -> bool {
        let due = |name: &str| {
            let mut chains = self.chains.iter();
            chains.any(|chain| chain.last == index && chain.name == name)
        };
        let judged = judge_some_chains(&self.setting.description, verdicts, due);
        let refuted = judged.iter().find_map(ChainVerdict::objection);
        let is_kept = refuted.is_none();
        self.refuted_by = refuted.or(self.refuted_by.take());
        is_kept
    }

    fn sizing(
        &self,
        candidate: &FrameCandidate,
        windows: &[(u64, u64)],
        least_share: f64,
    ) -> FrameSizing {
        let total: u64 = windows.iter().map(|(_, length)| length).sum();
        let share = total as f64 / candidate.units as f64;
        let windows = self.setting.partitions.iter().zip(windows);
        let mut windows: Vec<SizedWindow> = windows
            .map(|(domain, (offset, length))| SizedWindow {
                domain: domain.clone(),
                offset: self.setting.time(*offset),
                length: self.setting.time(*length),
            })
            .collect();
        windows.sort_by_key(|window| (window.offset, window.domain.clone()));
        let frame: Duration = self.setting.time(candidate.units);
        FrameSizing {
            host: self.setting.host.clone(),
            frame,
            windows,
            share,
            least_share,
            is_least: share <= least_share,
            grid: self.setting.query.grid,
            switch: self.setting.switch,
            placements: self.placements,
        }
    }

    /// An answer without proof: in each frame windows that divide half of the rest of the frame, or all of it, evenly. What
    /// was refuted before is the gap.
    fn without_proof(
        mut self,
        stopped_at: &FrameCandidate,
    ) -> Result<FrameSizing, FrameSizingError> {
        let judged = self.placements;
        let least_share = share_of(stopped_at);
        let mut frames = std::mem::take(&mut self.candidates);
        frames.push(stopped_at.clone());
        frames.sort_by(|a, b| share_of(a).total_cmp(&share_of(b)));
        for candidate in frames {
            let count = candidate.least.len() as u64;
            let rest = candidate.units.saturating_sub(candidate.total());
            for part in [rest / 2 / count, rest / count] {
                let lengths: Vec<u64> = candidate.least.iter().map(|least| least + part).collect();
                self.most_placements = self.placements + judged / 16 + 1;
                if let PlacementEnd::At(windows) = self.place_all(candidate.units, &lengths)? {
                    return Ok(self.sizing(&candidate, &windows, least_share));
                }
            }
        }
        Err(FrameSizingError::Exhausted {
            placements: self.placements,
        })
    }
}

fn share_of(candidate: &FrameCandidate) -> f64 {
    candidate.total() as f64 / candidate.units as f64
}
