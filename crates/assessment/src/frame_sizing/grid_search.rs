//! The search over frames, lengths and places on the grid, from the least share on.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_model::Description;
use tailbound_time::Duration;
use tailbound_topics::{Chains, TaskName};

use super::frame_candidate::{EvenWindows, FrameCandidate};
use super::{FrameSetting, FrameSizing, FrameSizingError, SizedWindow};
use crate::AssessmentError;
use crate::chains::{ChainVerdict, judge_some_chains};
use crate::schedulability::{ModeVerdict, judge};

/// The most frames that are tried without a proof.
const MOST_GUESSES: usize = 200;

/// A chain with the partitions that have to be placed before it can be judged.
pub(super) struct PlacedChain {
    name: String,
    /// The last of them.
    pub(super) last: usize,
}

/// The chains with limits.
pub(super) fn placed_chains(setting: &FrameSetting<'_>) -> Vec<PlacedChain> {
    let chains: Chains = setting.description.section();
    let limited = chains
        .0
        .iter()
        .filter(|(_, chain)| chain.data_age.is_some() || chain.reaction_time.is_some());
    let placed = limited.filter_map(|(name, chain)| {
        let tasks: Vec<TaskName> = chain.tasks().map(|(_, task)| task).collect();
        let places = tasks.iter().filter_map(|task| {
            let mut partitions = setting.partitions.iter();
            partitions.position(|name| *name == task.domain)
        });
        let name = name.clone();
        Some(PlacedChain {
            name,
            last: places.max()?,
        })
    });
    placed.collect()
}

/// The chain that cannot be in time, of those of which the partition of that number is the last one to be placed.
pub(super) fn refuting_chain(
    description: &Description,
    chains: &[PlacedChain],
    index: usize,
    verdicts: &[ModeVerdict],
) -> Option<String> {
    let due = |name: &str| {
        let mut chains = chains.iter();
        chains.any(|chain| chain.last == index && chain.name == name)
    };
    let judged = judge_some_chains(description, verdicts, due);
    judged.iter().find_map(ChainVerdict::objection)
}

/// The search.
pub(super) struct GridSearch<'a> {
    setting: FrameSetting<'a>,
    candidates: BinaryHeap<Reverse<FrameCandidate>>,
    chains: Vec<PlacedChain>,
    placements: u64,
    most_placements: u64,
    /// The verdict that refuted a placement last.
    refuted_by: Option<String>,
}

/// The windows of a partition with the begin of the first one.
type PlacedWindows = (u64, EvenWindows);

/// The end of the search within a candidate.
enum PlacementEnd {
    At(Vec<PlacedWindows>),
    Nowhere,
    Unfinished,
}

impl<'a> GridSearch<'a> {
    pub(super) fn new(setting: FrameSetting<'a>, candidates: Vec<FrameCandidate>) -> Self {
        let chains = placed_chains(&setting);
        Self {
            most_placements: setting.query.most_placements,
            candidates: candidates.into_iter().map(Reverse).collect(),
            setting,
            chains,
            placements: 0,
            refuted_by: None,
        }
    }

    pub(super) fn answer(mut self) -> Result<FrameSizing, FrameSizingError> {
        while let Some(Reverse(candidate)) = self.candidates.pop() {
            match self.divide(&candidate, &candidate.least.clone(), 0, candidate.more)? {
                PlacementEnd::At(windows) => {
                    return Ok(self.sizing(&candidate, &windows, candidate.share()));
                }
                PlacementEnd::Unfinished => return self.without_proof(&candidate),
                PlacementEnd::Nowhere => {}
            }
            if candidate.more < candidate.room() {
                let more = candidate.more + 1;
                self.candidates
                    .push(Reverse(FrameCandidate { more, ..candidate }));
            }
        }
        Err(FrameSizingError::Infeasible {
            grid: self.setting.query.grid,
            why: self
                .refuted_by
                .unwrap_or_else(|| "the windows do not fit into any frame".into()),
        })
    }

    /// Divides the steps that are left among the windows from one partition on, in every way.
    fn divide(
        &mut self,
        candidate: &FrameCandidate,
        windows: &[EvenWindows],
        from: usize,
        left: u64,
    ) -> Result<PlacementEnd, AssessmentError> {
        let EvenWindows { count, length } = windows[from];
        let is_last = from + 1 == windows.len() || left == 0;
        let most = left / count;
        for own in (0..=most).rev() {
            let rest = left - own * count;
            if is_last && rest > 0 {
                // All of the others, or the last one of them, cannot have the rest.
                return Ok(PlacementEnd::Nowhere);
            }
            let mut windows = windows.to_vec();
            windows[from].length = length + own;
            if windows[from].length > windows[from].room(candidate.units) {
                continue;
            }
            let end = match is_last {
                true => self.place_all(candidate.units, &windows)?,
                false => self.divide(candidate, &windows, from + 1, rest)?,
            };
            if is_last || !matches!(end, PlacementEnd::Nowhere) {
                return Ok(end);
            }
        }
        Ok(PlacementEnd::Nowhere)
    }

    /// Places windows of these lengths in every way, if the CPUs hold them and the tasks meet their deadlines.
    fn place_all(
        &mut self,
        units: u64,
        windows: &[EvenWindows],
    ) -> Result<PlacementEnd, AssessmentError> {
        let Some(packed) = self.packed(units, windows) else {
            return Ok(PlacementEnd::Nowhere);
        };
        let frame = self.setting.time(units);
        if let Some(host) = self.setting.description.hosts.get_mut(&self.setting.host) {
            host.major_frame = Some(frame);
        }
        for (index, placed) in packed.iter().enumerate() {
            self.set_windows(units, index, *placed);
        }
        // Response times hold wherever the windows lie.
        let verdicts = judge(&self.setting.description, self.setting.query.inputs)?;
        if !self.setting.holds(&verdicts) {
            return Ok(PlacementEnd::Nowhere);
        }
        let mut placed = Vec::new();
        Ok(self.place(units, windows, &verdicts, &mut placed))
    }

    /// The windows one after the other on each CPU; `None` where they do not fit.
    fn packed(&self, units: u64, windows: &[EvenWindows]) -> Option<Vec<PlacedWindows>> {
        let mut placed: Vec<PlacedWindows> = Vec::new();
        for own in windows {
            let offset = (0..=own.room(units).checked_sub(own.length)?)
                .find(|offset| self.is_free(units, &placed, (*offset, *own)))?;
            placed.push((offset, *own));
        }
        Some(placed)
    }

    /// Whether windows of the next partition overlap with none of those that are placed on its CPUs.
    fn is_free(&self, units: u64, placed: &[PlacedWindows], next: PlacedWindows) -> bool {
        let domains = &self.setting.description.domains;
        let cpus = |index: usize| {
            let domain = domains.get(&self.setting.partitions[index])?;
            domain.reservation.as_ref().map(|it| &it.cpus)
        };
        let own = cpus(placed.len());
        placed.iter().enumerate().all(|(index, other)| {
            let shared = own
                .zip(cpus(index))
                .is_some_and(|(own, other)| !own.is_disjoint(other));
            !shared || are_apart(units, *other, next)
        })
    }

    fn set_windows(&mut self, units: u64, index: usize, (offset, even): PlacedWindows) {
        let Some(windows) = self.setting.windows(units, even, offset) else {
            return;
        };
        let domain = self
            .setting
            .description
            .domains
            .get_mut(&self.setting.partitions[index]);
        if let Some(reservation) = domain.and_then(|domain| domain.reservation.as_mut()) {
            reservation.windows = windows;
        }
    }

    /// Places the windows from the first one without a place on.
    fn place(
        &mut self,
        units: u64,
        windows: &[EvenWindows],
        verdicts: &[ModeVerdict],
        placed: &mut Vec<PlacedWindows>,
    ) -> PlacementEnd {
        let index = placed.len();
        let Some(own) = windows.get(index).copied() else {
            return PlacementEnd::At(placed.clone());
        };
        for offset in 0..=own.room(units) - own.length {
            if !self.is_free(units, placed, (offset, own)) {
                continue;
            }
            if self.placements >= self.most_placements {
                return PlacementEnd::Unfinished;
            }
            self.placements += 1;
            self.set_windows(units, index, (offset, own));
            if !self.chains_are_kept(index, verdicts) {
                continue;
            }
            placed.push((offset, own));
            match self.place(units, windows, verdicts, placed) {
                PlacementEnd::Nowhere => placed.pop(),
                end => return end,
            };
        }
        PlacementEnd::Nowhere
    }

    /// Whether the chains are kept of which this partition is the last one to be placed.
    fn chains_are_kept(&mut self, index: usize, verdicts: &[ModeVerdict]) -> bool {
        let description = &self.setting.description;
        let refuted = refuting_chain(description, &self.chains, index, verdicts);
        let is_kept = refuted.is_none();
        self.refuted_by = refuted.or(self.refuted_by.take());
        is_kept
    }

    fn sizing(
        &self,
        candidate: &FrameCandidate,
        placed: &[PlacedWindows],
        least_share: f64,
    ) -> FrameSizing {
        let total: u64 = placed.iter().map(|(_, own)| own.total()).sum();
        let share = total as f64 / candidate.units as f64;
        let partitions = self.setting.partitions.iter().zip(placed);
        let windows = partitions.flat_map(|(domain, (offset, own))| {
            let offsets = own.offsets(candidate.units, *offset);
            offsets.map(|offset| SizedWindow {
                domain: domain.clone(),
                offset: self.setting.time(offset),
                length: self.setting.time(own.length),
            })
        });
        let mut windows: Vec<SizedWindow> = windows.collect();
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
        let least_share = stopped_at.share();
        let mut frames: Vec<FrameCandidate> =
            self.candidates.drain().map(|Reverse(one)| one).collect();
        frames.push(stopped_at.clone());
        frames.sort();
        frames.truncate(MOST_GUESSES);
        for candidate in frames {
            let rest = candidate.units.saturating_sub(candidate.total());
            let count = candidate.switches();
            for part in [rest / 2 / count, rest / count] {
                let mut windows = candidate.least.clone();
                for own in &mut windows {
                    own.length = (own.length + part).min(own.room(candidate.units));
                }
                self.most_placements = self.placements + judged / 16 + 1;
                if let PlacementEnd::At(placed) = self.place_all(candidate.units, &windows)? {
                    return Ok(self.sizing(&candidate, &placed, least_share));
                }
            }
        }
        Err(FrameSizingError::Exhausted {
            placements: self.placements,
        })
    }
}

/// Whether no window of one partition overlaps with one of another in a frame.
fn are_apart(units: u64, one: PlacedWindows, other: PlacedWindows) -> bool {
    let each = |(offset, own): PlacedWindows| {
        let offsets = own.offsets(units, offset);
        offsets.map(move |begin| (begin, begin + own.length))
    };
    each(one).all(|(begin, end)| {
        each(other).all(|(others_begin, others_end)| end <= others_begin || others_end <= begin)
    })
}
