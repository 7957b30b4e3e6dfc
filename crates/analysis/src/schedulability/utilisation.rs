//! Exact comparison of a utilisation with a number of CPUs.

use std::cmp::Ordering;

use crate::rational::{compare, sum};
use crate::sporadic_task::SporadicTask;

/// What 2^64 parts of a CPU are called here: one CPU.
pub(super) const ONE_CPU: u128 = 1 << 64;

/// Compares the utilisation, the sum of execution times divided by periods, with a whole number of
/// CPUs, exactly: no rounding, whatever the periods.
#[must_use]
pub fn compare_utilisation(tasks: &[SporadicTask], cpus: u32) -> Ordering {
    let enclosure = tasks
        .iter()
        .fold(UtilisationEnclosure::default(), |sum, task| sum.plus(task));
    let limit = u128::from(cpus) << 64;
    enclosure.compare(limit).unwrap_or_else(|| {
        let shares = tasks
            .iter()
            .map(|task| (task.execution().as_nanos(), task.period().as_nanos()));
        compare(&sum(shares), (cpus.into(), 1))
    })
}

/// Two numbers of 2^-64 CPUs between which a utilisation lies.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UtilisationEnclosure {
    pub(super) rounded_down: u128,
    pub(super) rounded_up: u128,
}

impl UtilisationEnclosure {
    pub(super) fn plus(self, task: &SporadicTask) -> Self {
        let execution = u128::from(task.execution().as_nanos());
        let reciprocal = u128::from(reciprocal_rounded_down(task.period().as_nanos()));
        // Executions are below 2^61, so that 16 tasks may overload without overflow, and others
        // saturate far above every limit.
        Self {
            rounded_down: self.rounded_down.saturating_add(execution * reciprocal),
            rounded_up: self.rounded_up.saturating_add(execution * (reciprocal + 1)),
        }
    }

    /// How the utilisation compares with `limit`, or `None` where the enclosure cannot tell.
    pub(super) fn compare(self, limit: u128) -> Option<Ordering> {
        if self.rounded_up < limit {
            Some(Ordering::Less)
        } else if self.rounded_down > limit {
            Some(Ordering::Greater)
        } else {
            None
        }
    }
}

/// The largest integer not above (2^64 - 1) / `divisor`: below 2^64 / `divisor` by at most one.
pub(super) const fn reciprocal_rounded_down(divisor: u64) -> u64 {
    u64::MAX / divisor
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_time::Duration;

    use super::*;

    fn task(execution_ns: u64, period_ns: u64) -> SporadicTask {
        let ns = Duration::from_nanos;
        SporadicTask::implicit(ns(execution_ns), ns(period_ns)).unwrap()
    }

    #[test]
    fn a_nanosecond_in_years_decides() {
        // 1/3 + 1/5 + 7/15 = 1, in nanoseconds whose common multiple needs more than 128 bits.
        let scale = [(1 << 50) + 1, (1 << 49) + 3, (1 << 48) + 5];
        let full = [
            task(scale[0], 3 * scale[0]),
            task(scale[1], 5 * scale[1]),
            task(7 * scale[2], 15 * scale[2]),
        ];
        assert_eq!(compare_utilisation(&full, 1), Ordering::Equal);
        for index in 0..3 {
            let mut more = full;
            let (c, t) = (
                full[index].execution().as_nanos(),
                full[index].period().as_nanos(),
            );
            more[index] = task(c + 1, t);
            assert_eq!(compare_utilisation(&more, 1), Ordering::Greater);
            more[index] = task(c, t + 1);
            assert_eq!(compare_utilisation(&more, 1), Ordering::Less);
        }
        assert_eq!(compare_utilisation(&full, 2), Ordering::Less);
        assert_eq!(compare_utilisation(&[], 1), Ordering::Less);
    }

    #[test]
    fn gross_overload_does_not_overflow() {
        let tasks = vec![task(1 << 60, 1); 1_000];
        assert_eq!(compare_utilisation(&tasks, u32::MAX), Ordering::Greater);
    }
}
