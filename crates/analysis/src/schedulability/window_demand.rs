//! How much tasks ask for in a window, and the window that just holds it: the inner loop of the
//! analyses of fixed priorities.

use super::task::{LONGEST_PARAMETER, SporadicTask};
use super::utilisation::reciprocal_rounded_down;

/// The most steps towards fixed points that are taken for one task.
pub(super) const MOST_STEPS: u64 = 40_000_000;

/// The longest window that is followed, in nanoseconds. The demand in it is below 2^63: parameters
/// are at most 2^60, so is the sum of the execution times, and the utilisation is at most one.
pub(super) const LONGEST_WINDOW: u64 = 1 << 61;

const _: () = assert!(LONGEST_PARAMETER.as_nanos() < LONGEST_WINDOW);

/// What a task asks for in a window, made for speed: the quotient by the period comes from a
/// product with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    period_ns: u64,
    reciprocal: u64,
    execution_ns: u64,
    /// What is added to the window before the division; wraps around for -1.
    reach: u64,
}

impl Demand {
    /// The releases in [0, w): ceil((w + J) / T) = floor((w + J - 1) / T) + 1 jobs, for w above
    /// zero.
    pub(super) fn preemptive(task: &SporadicTask) -> Self {
        Self::reaching(task, task.jitter().as_nanos().wrapping_sub(1))
    }

    /// The releases in [0, w], floor((w + J) / T) + 1 jobs.
    pub(super) fn closed(task: &SporadicTask) -> Self {
        Self::reaching(task, task.jitter().as_nanos())
    }

    fn reaching(task: &SporadicTask, reach: u64) -> Self {
        Self {
            period_ns: task.period().as_nanos(),
            reciprocal: reciprocal_rounded_down(task.period().as_nanos()),
            execution_ns: task.execution().as_nanos(),
            reach,
        }
    }

    fn in_window(&self, window: u64) -> u64 {
        let time = window.wrapping_add(self.reach);
        // The reciprocal is short of 2^64 / T by at most one, so the quotient by at most one, too.
        let quotient = ((u128::from(time) * u128::from(self.reciprocal)) >> 64) as u64;
        let short = time - quotient * self.period_ns >= self.period_ns;
        (quotient + 1 + u64::from(short)) * self.execution_ns
    }
}

/// The fixed point of `base` + the demand of `higher`, from `start`, which must not be above it.
///
/// `None` where it is above `limit`. Counts its steps in `steps`.
pub(super) fn least_fixed_point(
    higher: &[Demand],
    base: u64,
    start: u64,
    limit: u64,
    steps: &mut u64,
) -> Option<u64> {
    let mut window = start;
    while window <= limit {
        let demand: u64 = higher.iter().map(|one| one.in_window(window)).sum();
        let next = base + demand;
        if next <= window {
            return Some(window);
        }
        window = next;
        *steps += 1;
        if *steps > MOST_STEPS {
            return None;
        }
    }
    None
}
