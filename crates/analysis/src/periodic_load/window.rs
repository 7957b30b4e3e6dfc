//! The CPU time that a load takes in a window, and the phases at which it takes most.
//!
//! A window of length P in which a CPU of its own works longest may be taken to start with a
//! release and with nothing left over (docs/concepts/interfaces.md). With φᵢ from the start to the
//! first release of task i, the CPU works in it for
//!
//! ```text
//! min over u in [0, P] of ( Σ Cᵢ ⌈(u − φᵢ)⁺ / Tᵢ⌉ + P − u ),
//! ```
//!
//! which falls in each φᵢ. Phases occur together if and only if φᵢ − φⱼ ≡ Aᵢ − Aⱼ modulo
//! gcd(Tᵢ, Tⱼ) for each pair (the Chinese remainder theorem), so nothing here ever needs the
//! hyperperiod.

use num_integer::gcd;

use super::PeriodicTask;

/// The most releases that are looked at in the search for the worst phases.
const MOST_STEPS: u64 = 20_000_000;
/// Binary digits of the fraction in a rounded utilisation.
const FRACTION: u32 = 40;

/// A task as seen from a window; `period_ns` is above zero.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskStream {
    offset: Option<u64>,
    execution: u64,
    period_ns: u64,
}

impl TaskStream {
    pub(super) fn of(task: &PeriodicTask) -> Self {
        Self {
            offset: task.offset.map(|offset| offset.as_nanos()),
            execution: task.execution.as_nanos(),
            period_ns: task.period.as_nanos(),
        }
    }
}

/// The worst phases could not be settled within the limit of steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unsettled {
    /// The most found so far: the truth is not below.
    pub at_least: u64,
    /// What no phases exceed.
    pub at_most: u64,
}

/// The time worked in the `length` from the start, with nothing left over there and each task's
/// first release after its phase. The load is at most one CPU. Only the last releases of the
/// window are looked at, and counted in `steps`; `None` where they are too many.
pub(super) fn worked(
    streams: &[TaskStream],
    phases: &[u64],
    length: u64,
    steps: &mut u64,
) -> Option<u64> {
    let whole = u128::from(length);
    let mut left: Vec<u64> = Vec::with_capacity(streams.len());
    // All rounded so that the load after u is never more than what is really left out.
    let (mut demand, mut utilisation, mut delayed) = (0_u128, 0_u128, 0_u128);
    for (stream, phase) in streams.iter().zip(phases) {
        let count = length.saturating_sub(*phase).div_ceil(stream.period_ns);
        left.push(count);
        demand += u128::from(count) * u128::from(stream.execution);
        let share = (u128::from(stream.execution) << FRACTION) / u128::from(stream.period_ns);
        utilisation += share;
        delayed += (((share + 1) * u128::from(*phase)) >> FRACTION) + 1;
    }
    let idle_share = (1_u128 << FRACTION).saturating_sub(utilisation);
    let mut least = whole.min(demand);
    loop {
        let last = |((stream, phase), count): ((&TaskStream, &u64), &u64)| {
            Some(phase + count.checked_sub(1)? * stream.period_ns)
        };
        let latest = streams.iter().zip(phases).zip(&left).map(last).enumerate();
        let Some((index, Some(at))) = latest.max_by_key(|(_, at)| *at) else {
            break;
        };
        // Up to here the sum is at least P − (1 − U) u − Σ Uᵢ φᵢ.
        let idle = ((u128::from(at) * idle_share) >> FRACTION) + 1;
        if whole.saturating_sub(idle + delayed) >= least {
            break;
        }
        *steps += 1;
        if *steps > MOST_STEPS {
            return None;
        }
        left[index] -= 1;
        demand -= u128::from(streams[index].execution);
        least = least.min(demand + whole - u128::from(at));
    }
    // At most `length`, so that it fits.
    Some(least as u64)
}

/// Whether all periodic tasks are released together at some time.
pub(super) fn ever_together(streams: &[TaskStream]) -> bool {
    let agree = |a: &TaskStream, b: &TaskStream| match (a.offset, b.offset) {
        (Some(first), Some(second)) => first.abs_diff(second) % gcd(a.period_ns, b.period_ns) == 0,
        _ => true,
    };
    let pairs = streams.iter().enumerate();
    pairs
        .flat_map(|(i, a)| streams.iter().skip(i + 1).map(move |b| (a, b)))
        .all(|(a, b)| agree(a, b))
}

/// The most time worked in any window of `length`, over all phases that occur: branch and bound,
/// with the phase of one task after the other settled, and the rest at the least that agrees.
pub(super) fn most_worked(streams: &[TaskStream], length: u64) -> Result<u64, Unsettled> {
    let mut order: Vec<TaskStream> = streams.to_vec();
    // Sporadic tasks come at the start; then the longest jobs, which matter most.
    order.sort_by_key(|stream| (stream.offset.is_some(), std::cmp::Reverse(stream.execution)));
    let sporadic = order.iter().take_while(|one| one.offset.is_none()).count();
    let mut steps = 0;
    let unbounded = Unsettled {
        at_least: 0,
        at_most: length,
    };
    let at_most = worked(&order, &vec![0; order.len()], length, &mut steps).ok_or(unbounded)?;
    if ever_together(&order) {
        return Ok(at_most);
    }
    let mut search = PhaseSearch {
        length,
        best: 0,
        steps,
    };
    for first in sporadic..order.len() {
        // This task is released at the start of the window.
        let mut streams = order.clone();
        streams[sporadic..=first].rotate_right(1);
        let mut classes = vec![Class::ANY; streams.len()];
        settle(&streams, &mut classes, sporadic, 0);
        let settled = search.descend(&streams, &classes, sporadic + 1);
        if settled.is_none() {
            return Err(Unsettled {
                at_least: search.best,
                at_most,
            });
        }
    }
    Ok(search.best)
}

/// The phases of a task that agree with what is settled: `residue` modulo `modulus`, which
/// divides the task's period.
#[derive(Clone, Copy, Debug)]
struct Class {
    residue: u64,
    modulus: u64,
}

impl Class {
    const ANY: Self = Self {
        residue: 0,
        modulus: 1,
    };

    /// What is in both; they share an element because all settled phases occur together.
    fn and(self, other: Self) -> Self {
        let shared = gcd(self.modulus, other.modulus);
        let factor = other.modulus / shared;
        if factor == 1 {
            return self;
        }
        // self.residue + k self.modulus ≡ other.residue modulo other.modulus.
        let (own, theirs) = (u128::from(self.residue), u128::from(other.residue));
        let modulus = u128::from(other.modulus);
        let difference = ((theirs + modulus - own % modulus) % modulus) / u128::from(shared);
        let inverse = inverse(self.modulus / shared % factor, factor);
        let count = difference * u128::from(inverse) % u128::from(factor);
        Self {
            // Below the new modulus, which divides a period.
            residue: (own + count * u128::from(self.modulus)) as u64,
            modulus: self.modulus * factor,
        }
    }
}

/// The inverse of `number` modulo `modulus`; they have no common divisor.
fn inverse(number: u64, modulus: u64) -> u64 {
    let (mut rest, mut next_rest) = (i128::from(modulus), i128::from(number));
    let (mut factor, mut next_factor) = (0_i128, 1_i128);
    while next_rest != 0 {
        let quotient = rest / next_rest;
        (rest, next_rest) = (next_rest, rest - quotient * next_rest);
        (factor, next_factor) = (next_factor, factor - quotient * next_factor);
    }
    factor.rem_euclid(i128::from(modulus)) as u64
}

/// Takes `phase` for the task at `index`, and narrows the classes of those after it.
fn settle(streams: &[TaskStream], classes: &mut [Class], index: usize, phase: u64) {
    let settled = streams[index];
    classes[index] = Class {
        residue: phase,
        modulus: settled.period_ns,
    };
    let Some(settled_offset) = settled.offset else {
        return;
    };
    for (stream, class) in streams.iter().zip(classes.iter_mut()).skip(index + 1) {
        let Some(offset) = stream.offset else {
            continue;
        };
        let modulus = gcd(settled.period_ns, stream.period_ns);
        let ahead = (offset % modulus + modulus - settled_offset % modulus) % modulus;
        let residue = (phase % modulus + ahead) % modulus;
        *class = class.and(Class { residue, modulus });
    }
}

/// How far the phases of a class go until they repeat for all tasks after `index`.
fn told_apart(streams: &[TaskStream], class: Class, index: usize) -> u64 {
    let later = streams.iter().skip(index + 1);
    later
        .filter(|stream| stream.offset.is_some())
        .map(|stream| gcd(streams[index].period_ns, stream.period_ns))
        // All divide the period, and so does their multiple.
        .fold(class.modulus, |multiple, modulus| {
            multiple / gcd(multiple, modulus) * modulus
        })
}

struct PhaseSearch {
    length: u64,
    best: u64,
    steps: u64,
}

impl PhaseSearch {
    /// Settles the tasks from `index` on; `None` where the steps have run out.
    fn descend(&mut self, streams: &[TaskStream], classes: &[Class], index: usize) -> Option<()> {
        let mut classes = classes.to_vec();
        let Some(stream) = streams.get(index) else {
            let bound = self.bound(streams, &classes)?;
            self.best = self.best.max(bound);
            return Some(());
        };
        let original = classes.clone();
        let mut phase = original[index].residue;
        // What is left to settle knows this phase by its remainder only, so that of those with the
        // same one the first will do.
        let until = phase.saturating_add(told_apart(streams, original[index], index));
        while phase < until.min(stream.period_ns) {
            // Later phases of this task leave less work, with the others at their least or not.
            classes.copy_from_slice(&original);
            classes[index].residue = phase;
            if self.bound(streams, &classes)? <= self.best {
                break;
            }
            settle(streams, &mut classes, index, phase);
            self.descend(streams, &classes, index + 1)?;
            phase = phase.saturating_add(original[index].modulus);
        }
        Some(())
    }

    fn bound(&mut self, streams: &[TaskStream], classes: &[Class]) -> Option<u64> {
        let phases: Vec<u64> = classes.iter().map(|class| class.residue).collect();
        self.steps += 1;
        worked(streams, &phases, self.length, &mut self.steps)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::super::busy::BusyCycle;
    use super::super::{PeriodicLoad, PeriodicTask};
    use super::*;
    use proptest::prelude::*;
    use tailbound_time::Duration;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn the_search_finds_what_the_whole_hyperperiod_shows(
            tasks in proptest::collection::vec(
                (0_u64..100, 0_u64..6, prop::sample::select(vec![4_u64, 6, 8, 9, 10, 12, 15, 20, 24, 30, 36])),
                1..8,
            ),
            long in 60_u64..900,
        ) {
            let task = |&(offset, execution, period): &(u64, u64, u64)| PeriodicTask {
                offset: Some(Duration::from_nanos(offset)),
                execution: Duration::from_nanos(execution),
                period: Duration::from_nanos(period),
            };
            let load = PeriodicLoad { tasks: tasks.iter().map(task).collect() };
            prop_assume!(load.utilisation() < 0.9999);
            let streams = load.streams();
            let cycle = BusyCycle::of(&load).unwrap();
            for window in (0..60).chain([long]) {
                let most = most_worked(&streams, window).unwrap();
                prop_assert_eq!(most, cycle.most_in(window), "{}", window);
                if ever_together(&streams) {
                    let phases = vec![0; streams.len()];
                    prop_assert_eq!(worked(&streams, &phases, window, &mut 0), Some(most));
                }
            }
        }
    }
}
