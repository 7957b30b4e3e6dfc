//! The search over windows of different lengths at any distances, from the least share on.
//!
//! A partition has up to as many windows a frame as the query allows, each with an offset and a length on the grid. For a frame
//! and a sum of all lengths, every division of the sum among the partitions, and every placement of each, is followed; what a
//! partition's own tasks say of windows holds wherever these lie in the frame, so that each form is judged once. The sums begin
//! at the least ones with which every partition can be in time, and the first placement that keeps all deadlines is the least one.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};
use std::rc::Rc;

use tailbound_model::{BackendTraits, Description, Window};
use tailbound_time::Duration;

use super::grid_search::{PlacedChain, placed_chains, refuting_chain};
use super::{FrameSetting, FrameSizing, SizedWindow};
use crate::AssessmentError;
use crate::schedulability::{DeadlineVerdict, ModeVerdict, TaskVerdict, judge};

/// The verdicts on a partition's tasks, all of which are in time; `None` where one is not.
type TimelyTasks = Option<Rc<Vec<TaskVerdict>>>;

/// The longest frame in steps.
const MOST_UNITS: u64 = 128;

/// The most placements of a partition for one sum of lengths.
const MOST_FORMS: usize = 50_000;

/// The steps of the search for each judgement that it may make: overlaps are cheap to see.
const STEPS_FOR_EACH: u64 = 64;

/// The end of the search.
pub(super) enum UnevenEnd {
    /// Windows of a lesser share than the limit, which no others fall below.
    Less(FrameSizing),
    /// No windows have a lesser share than the limit, and what refuted the last ones.
    Nothing(Option<String>),
    /// Judged up to this share, below which there is nothing.
    Unfinished(f64),
}

/// Windows of a partition in a frame.
#[derive(Clone)]
struct PlacedForm {
    /// Begin and length of each, in order.
    windows: Vec<(u64, u64)>,
    /// A bit for each step of the frame.
    mask: u128,
    /// The verdicts on the partition's tasks in these windows.
    tasks: Rc<Vec<TaskVerdict>>,
}

/// The windows of a partition, by the sum of their lengths.
#[derive(Default)]
struct PartitionForms {
    by_sum: BTreeMap<u64, Rc<Vec<PlacedForm>>>,
    /// The least sum with which the tasks are in time.
    least: u64,
}

/// A frame with a sum of the lengths of all windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FrameSum {
    units: u64,
    sum: u64,
}

impl FrameSum {
    fn share(self) -> f64 {
        self.sum as f64 / self.units as f64
    }

    fn is_less(self, (sum, units): (u64, u64)) -> bool {
        u128::from(self.sum) * u128::from(units) < u128::from(sum) * u128::from(self.units)
    }
}

impl Ord for FrameSum {
    /// A lesser share comes first, then a longer frame.
    fn cmp(&self, other: &Self) -> Ordering {
        let own = u128::from(self.sum) * u128::from(other.units);
        own.cmp(&(u128::from(other.sum) * u128::from(self.units)))
            .then_with(|| other.units.cmp(&self.units))
    }
}

impl PartialOrd for FrameSum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The end of a part of the search.
enum PartEnd<T> {
    At(T),
    Nowhere,
    Unfinished,
}

/// The search.
pub(super) struct UnevenSearch<'a> {
    setting: FrameSetting<'a>,
    chains: Vec<PlacedChain>,
    /// The tasks outside of the partitions that are sized.
    others: Vec<ModeVerdict>,
    /// The CPU time that each partition needs of a second, in seconds.
    demands: Vec<f64>,
    judged: u64,
    steps: u64,
    refuted_by: Option<String>,
}

impl<'a> UnevenSearch<'a> {
    pub(super) fn new(setting: FrameSetting<'a>) -> Result<Self, AssessmentError> {
        let mut rest = setting.description.clone();
        rest.domains
            .retain(|name, _| !setting.partitions.contains(name));
        rest.sections = tailbound_model::Sections::default();
        let is_there = |service: &tailbound_model::Service, rest: &Description| {
            rest.domains.contains_key(&service.domain)
        };
        let kept = rest.clone();
        rest.services.retain(|_, service| is_there(service, &kept));
        let others = judge(&rest, setting.query.inputs)?;
        let mut search = Self {
            chains: placed_chains(&setting),
            setting,
            others,
            demands: Vec::new(),
            judged: 0,
            steps: 0,
            refuted_by: None,
        };
        for name in search.setting.partitions.clone() {
            let verdicts = judge(&search.alone(&name), search.setting.query.inputs)?;
            let tasks = verdicts.iter().flat_map(|verdict| &verdict.tasks);
            let demand = tasks.map(|task| {
                let (execution, period) = (task.execution.unwrap_or_default(), task.period);
                let period = period.unwrap_or(Duration::MAX).as_secs_f64();
                execution.as_secs_f64() / period
            });
            let demand = demand.sum();
            search.demands.push(demand);
        }
        Ok(search)
    }

    /// The judgements that were made.
    pub(super) fn judged(&self) -> u64 {
        self.judged
    }

    /// Searches for windows with a lesser share than `limit`, a sum of lengths in a frame of so many steps.
    pub(super) fn below(
        &mut self,
        limit: Option<(u64, u64)>,
    ) -> Result<UnevenEnd, AssessmentError> {
        let frames = self.setting.frames();
        let sums = frames.iter().map(|units| {
            let partitions = 0..self.setting.partitions.len();
            let sum = partitions
                .map(|index| self.least_by_demand(index, *units))
                .sum();
            Reverse(FrameSum { units: *units, sum })
        });
        let mut sums: BinaryHeap<Reverse<FrameSum>> = sums.collect();
        let mut forms: BTreeMap<u64, Vec<PartitionForms>> = BTreeMap::new();
        while let Some(Reverse(next)) = sums.pop() {
            if limit.is_some_and(|limit| !next.is_less(limit)) {
                break;
            }
            if next.units > MOST_UNITS {
                return Ok(UnevenEnd::Unfinished(next.share()));
            }
            let Some(own) = forms.get_mut(&next.units) else {
                match self.least_forms(next.units)? {
                    PartEnd::Unfinished => return Ok(UnevenEnd::Unfinished(next.share())),
                    PartEnd::Nowhere => {}
                    PartEnd::At(own) => {
                        let sum = own.iter().map(|one| one.least).sum::<u64>().max(next.sum);
                        forms.insert(next.units, own);
                        sums.push(Reverse(FrameSum { sum, ..next }));
                    }
                }
                continue;
            };
            match self.fill(next.units, own, next.sum, &mut Vec::new())? {
                PartEnd::At(placed) => {
                    return Ok(UnevenEnd::Less(self.sizing(next, &placed)));
                }
                PartEnd::Unfinished => return Ok(UnevenEnd::Unfinished(next.share())),
                PartEnd::Nowhere => {}
            }
            if next.sum < next.units * self.setting.partitions.len() as u64 {
                let sum = next.sum + 1;
                sums.push(Reverse(FrameSum { sum, ..next }));
            }
        }
        Ok(UnevenEnd::Nothing(self.refuted_by.clone()))
    }

    /// The least sum of a partition's windows: its tasks, and one switch a frame.
    fn least_by_demand(&self, index: usize, units: u64) -> u64 {
        let frame = self.setting.time(units).as_secs_f64();
        let asked = self.demands[index] * frame + self.setting.switch.as_secs_f64();
        // A little less, since floats are rounded.
        let steps = asked / self.setting.query.grid.as_secs_f64() * (1.0 - 1e-9);
        (steps.ceil() as u64).max(1)
    }

    /// A partition and its host, without anything else.
    fn alone(&self, name: &str) -> Description {
        let mut alone = self.setting.description.clone();
        alone.domains.retain(|domain, _| domain == name);
        alone.services.clear();
        alone.sections = tailbound_model::Sections::default();
        alone
    }

    /// The least windows of each partition by its own tasks; nowhere if a whole frame is too little for one.
    fn least_forms(&mut self, units: u64) -> Result<PartEnd<Vec<PartitionForms>>, AssessmentError> {
        let mut all = Vec::new();
        for index in 0..self.setting.partitions.len() {
            let mut forms = PartitionForms::default();
            let least = self.least_by_demand(index, units);
            for sum in least..=units {
                match self.forms(units, index, sum, &mut forms)? {
                    None => return Ok(PartEnd::Unfinished),
                    Some(placed) if placed.is_empty() => {}
                    Some(_) => {
                        forms.least = sum;
                        break;
                    }
                }
            }
            if forms.least == 0 {
                return Ok(PartEnd::Nowhere);
            }
            all.push(forms);
        }
        Ok(PartEnd::At(all))
    }

    /// The windows of a partition with a sum of lengths that are enough for its tasks; `None` where there are too many, or the
    /// judgements are used up.
    fn forms(
        &mut self,
        units: u64,
        index: usize,
        sum: u64,
        forms: &mut PartitionForms,
    ) -> Result<Option<Rc<Vec<PlacedForm>>>, AssessmentError> {
        if let Some(placed) = forms.by_sum.get(&sum) {
            return Ok(Some(Rc::clone(placed)));
        }
        let most = self.setting.query.most_windows;
        let Some(all) = placements(units, sum, most) else {
            return Ok(None);
        };
        let mut verdicts: BTreeMap<Vec<(u64, u64)>, TimelyTasks> = BTreeMap::new();
        let mut placed = Vec::new();
        for windows in all {
            let form = cyclic_form(units, &windows);
            let tasks = match verdicts.get(&form) {
                Some(tasks) => tasks.clone(),
                None if self.judged >= self.setting.query.most_placements => return Ok(None),
                None => {
                    self.judged += 1;
                    let tasks = self.tasks_in(units, index, &windows)?;
                    verdicts.insert(form, tasks.clone());
                    tasks
                }
            };
            placed.extend(tasks.map(|tasks| PlacedForm {
                mask: mask_of(&windows),
                windows,
                tasks,
            }));
        }
        let placed = Rc::new(placed);
        forms.by_sum.insert(sum, Rc::clone(&placed));
        Ok(Some(placed))
    }

    /// The verdicts on a partition's tasks in windows; `None` where a task is not in time.
    fn tasks_in(
        &self,
        units: u64,
        index: usize,
        windows: &[(u64, u64)],
    ) -> Result<TimelyTasks, AssessmentError> {
        let name = &self.setting.partitions[index];
        let mut alone = self.alone(name);
        if let Some(host) = alone.hosts.get_mut(&self.setting.host) {
            host.major_frame = Some(self.setting.time(units));
        }
        let domain = alone.domains.get_mut(name);
        let Some(reservation) = domain.and_then(|domain| domain.reservation.as_mut()) else {
            return Ok(None);
        };
        let BackendTraits {
            smallest_budget, ..
        } = *reservation.backend.traits();
        reservation.windows = self.windows(windows);
        let shortest = reservation.windows.iter().map(|window| window.length).min();
        let shortest = shortest.unwrap_or_default();
        if shortest <= self.setting.switch || shortest < smallest_budget {
            return Ok(None);
        }
        let verdicts = judge(&alone, self.setting.query.inputs)?;
        let tasks = verdicts.into_iter().flat_map(|verdict| verdict.tasks);
        let tasks: Vec<TaskVerdict> = tasks.collect();
        let in_time = tasks
            .iter()
            .all(|task| task.verdict == DeadlineVerdict::Met);
        Ok(in_time.then(|| Rc::new(tasks)))
    }

    fn windows(&self, windows: &[(u64, u64)]) -> Vec<Window> {
        let windows = windows.iter().map(|(begin, length)| Window {
            offset: self.setting.time(*begin),
            length: self.setting.time(*length),
        });
        windows.collect()
    }

    /// Gives windows to each partition without one, with the sum that is left.
    fn fill(
        &mut self,
        units: u64,
        forms: &mut [PartitionForms],
        left: u64,
        placed: &mut Vec<PlacedForm>,
    ) -> Result<PartEnd<Vec<PlacedForm>>, AssessmentError> {
        let index = placed.len();
        if index == forms.len() {
            return Ok(match self.is_good(units, placed)? {
                true => PartEnd::At(placed.clone()),
                false => PartEnd::Nowhere,
            });
        }
        let behind: u64 = forms[index + 1..].iter().map(|one| one.least).sum();
        let Some(most) = left.checked_sub(behind) else {
            return Ok(PartEnd::Nowhere);
        };
        let least = match index + 1 == forms.len() {
            true => most.max(forms[index].least),
            false => forms[index].least,
        };
        for sum in least..=most.min(units) {
            let Some(own) = self.forms(units, index, sum, &mut forms[index])? else {
                return Ok(PartEnd::Unfinished);
            };
            for form in own.iter() {
                self.steps += 1;
                let most_judged = self.setting.query.most_placements;
                if self.judged >= most_judged || self.steps / STEPS_FOR_EACH >= most_judged {
                    return Ok(PartEnd::Unfinished);
                }
                if self.overlaps(form, placed) {
                    continue;
                }
                placed.push(form.clone());
                let end = match self.chains_are_kept(units, placed) {
                    true => self.fill(units, forms, left - sum, placed)?,
                    false => PartEnd::Nowhere,
                };
                placed.pop();
                if !matches!(end, PartEnd::Nowhere) {
                    return Ok(end);
                }
            }
        }
        Ok(PartEnd::Nowhere)
    }

    /// Whether windows of the next partition overlap with some that are placed on its CPUs.
    fn overlaps(&self, next: &PlacedForm, placed: &[PlacedForm]) -> bool {
        let cpus = |index: usize| {
            let domain = self
                .setting
                .description
                .domains
                .get(&self.setting.partitions[index])?;
            domain.reservation.as_ref().map(|it| &it.cpus)
        };
        let own = cpus(placed.len());
        placed.iter().enumerate().any(|(index, other)| {
            let shared = own
                .zip(cpus(index))
                .is_some_and(|(own, other)| !own.is_disjoint(other));
            shared && other.mask & next.mask != 0
        })
    }

    fn set_windows(&mut self, units: u64, index: usize, form: &PlacedForm) {
        let windows = self.windows(&form.windows);
        let frame = self.setting.time(units);
        let description = &mut self.setting.description;
        if let Some(host) = description.hosts.get_mut(&self.setting.host) {
            host.major_frame = Some(frame);
        }
        let domain = description.domains.get_mut(&self.setting.partitions[index]);
        if let Some(reservation) = domain.and_then(|domain| domain.reservation.as_mut()) {
            reservation.windows = windows;
        }
    }

    /// Whether the chains are kept of which the last partition that is placed is the last one.
    fn chains_are_kept(&mut self, units: u64, placed: &[PlacedForm]) -> bool {
        let Some((last, before)) = placed.split_last() else {
            return true;
        };
        let index = before.len();
        self.set_windows(units, index, last);
        if !self.chains.iter().any(|chain| chain.last == index) {
            return true;
        }
        self.judged += 1;
        let mut verdicts = self.others.clone();
        for verdict in &mut verdicts {
            let tasks = placed.iter().flat_map(|form| form.tasks.iter().cloned());
            verdict.tasks.extend(tasks);
        }
        let description = &self.setting.description;
        let refuted = refuting_chain(description, &self.chains, index, &verdicts);
        let is_kept = refuted.is_none();
        self.refuted_by = refuted.or(self.refuted_by.take());
        is_kept
    }

    /// Whether everything holds with all windows in their places.
    fn is_good(&mut self, units: u64, placed: &[PlacedForm]) -> Result<bool, AssessmentError> {
        for (index, form) in placed.iter().enumerate() {
            self.set_windows(units, index, form);
        }
        self.judged += 1;
        let verdicts = judge(&self.setting.description, self.setting.query.inputs)?;
        if !self.setting.holds(&verdicts) {
            return Ok(false);
        }
        let description = &self.setting.description;
        let each = 0..placed.len();
        let mut refuted =
            each.filter_map(|index| refuting_chain(description, &self.chains, index, &verdicts));
        Ok(refuted.next().is_none())
    }

    fn sizing(&self, frame: FrameSum, placed: &[PlacedForm]) -> FrameSizing {
        let partitions = self.setting.partitions.iter().zip(placed);
        let windows = partitions.flat_map(|(domain, form)| {
            let windows = form.windows.iter();
            windows.map(|(begin, length)| SizedWindow {
                domain: domain.clone(),
                offset: self.setting.time(*begin),
                length: self.setting.time(*length),
            })
        });
        let mut windows: Vec<SizedWindow> = windows.collect();
        windows.sort_by_key(|window| (window.offset, window.domain.clone()));
        FrameSizing {
            host: self.setting.host.clone(),
            frame: self.setting.time(frame.units),
            windows,
            share: frame.share(),
            least_share: frame.share(),
            is_least: true,
            grid: self.setting.query.grid,
            switch: self.setting.switch,
            placements: self.judged,
        }
    }
}

/// Every placement of up to `most` windows with a sum of lengths in a frame, none of which touch; fewer windows come first.
/// `None` where there are too many.
fn placements(units: u64, sum: u64, most: u64) -> Option<Vec<Vec<(u64, u64)>>> {
    let mut all = Vec::new();
    for count in 1..=most.min(sum) {
        if !add_placements(&mut all, (0, units), (sum, count), &mut Vec::new()) {
            return None;
        }
    }
    Some(all)
}

/// Adds the placements of so many windows between two instants; whether there is room for them.
fn add_placements(
    all: &mut Vec<Vec<(u64, u64)>>,
    (from, until): (u64, u64),
    (sum, count): (u64, u64),
    before: &mut Vec<(u64, u64)>,
) -> bool {
    if count == 0 {
        all.push(before.clone());
        return all.len() <= MOST_FORMS;
    }
    let lengths = match count {
        1 => sum..=sum,
        _ => 1..=sum - (count - 1),
    };
    for length in lengths {
        // Behind this window there are the others, and a step of time in front of each.
        let behind = (sum - length) + (count - 1);
        let Some(latest) = until.checked_sub(length + behind) else {
            continue;
        };
        for begin in from..=latest {
            before.push((begin, length));
            let end = begin + length + 1;
            let has_room = add_placements(all, (end, until), (sum - length, count - 1), before);
            before.pop();
            if !has_room {
                return false;
            }
        }
    }
    true
}

/// The lengths of windows with the time to the next one, from the window on with which they are the least of all.
fn cyclic_form(units: u64, windows: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let count = windows.len();
    let gaps = windows.iter().enumerate().map(|(index, (begin, length))| {
        let next = windows[(index + 1) % count].0;
        let next = if index + 1 == count {
            next + units
        } else {
            next
        };
        (*length, next - begin - length)
    });
    let gaps: Vec<(u64, u64)> = gaps.collect();
    let turned = (0..count).map(|first| [&gaps[first..], &gaps[..first]].concat());
    turned.min().unwrap_or_default()
}

fn mask_of(windows: &[(u64, u64)]) -> u128 {
    let each = windows
        .iter()
        .flat_map(|(begin, length)| *begin..begin + length);
    each.fold(0, |mask, step| mask | 1 << step)
}
