//! Rate-monotonic priorities on one CPU: sufficient tests that look at utilisations only.

use num_bigint::BigUint;

use super::utilisation::exact_utilisation;
use crate::AnalysisError;
use crate::sporadic_task::SporadicTask;

/// What both bounds take for granted.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "rate-monotonic priorities, preemption at no cost",
    "deadlines no shorter than the periods",
    "no jitter, no blocking; tasks do not suspend themselves",
    "sufficient: a set that is not accepted may be schedulable",
];

/// The verdict of a sufficient test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SufficientVerdict {
    /// The method by name, with its source.
    pub method: &'static str,
    /// What the method takes for granted.
    pub assumptions: &'static [&'static str],
    /// Whether the test proves that every job meets its deadline. `false` proves nothing.
    pub accepted: bool,
}

/// The bound of Liu & Layland (*Scheduling algorithms for multiprogramming in a hard-real-time
/// environment*, Journal of the ACM 20(1), 1973, Theorem 5): U <= n (2^(1/n) - 1). Decided exactly,
/// as (n + U)^n <= 2 n^n.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a task with jitter or a deadline shorter than its period.
pub fn sufficient_liu_layland(tasks: &[SporadicTask]) -> Result<SufficientVerdict, AnalysisError> {
    check_applicable(tasks)?;
    // More tasks than that number fit no memory.
    let count = u32::try_from(tasks.len()).unwrap_or(u32::MAX);
    let (numerator, denominator) = exact_utilisation(tasks).into_raw();
    let scaled = denominator * count;
    let left = (&scaled + numerator).pow(count);
    let right = scaled.pow(count) * 2_u8;
    Ok(SufficientVerdict {
        method: "utilisation bound (Liu & Layland 1973)",
        assumptions: ASSUMPTIONS,
        accepted: left <= right,
    })
}

/// The hyperbolic bound (Bini, Buttazzo & Buttazzo, *Rate monotonic analysis: the hyperbolic
/// bound*, IEEE Transactions on Computers 52(7), 2003): the product of all U_i + 1 is at
/// most 2. Decided exactly. Accepts all that the bound of Liu & Layland does.
///
/// # Errors
/// As of [`sufficient_liu_layland`].
pub fn sufficient_hyperbolic(tasks: &[SporadicTask]) -> Result<SufficientVerdict, AnalysisError> {
    check_applicable(tasks)?;
    let mut left = BigUint::from(1_u8);
    let mut right = BigUint::from(2_u8);
    for task in tasks {
        let period = task.period().as_nanos();
        // Both are at most 2^60.
        left *= period + task.execution().as_nanos();
        right *= period;
    }
    Ok(SufficientVerdict {
        method: "hyperbolic bound (Bini, Buttazzo & Buttazzo 2003)",
        assumptions: ASSUMPTIONS,
        accepted: left <= right,
    })
}

fn check_applicable(tasks: &[SporadicTask]) -> Result<(), AnalysisError> {
    for (index, task) in tasks.iter().enumerate() {
        if task.deadline() < task.period() || !task.jitter().is_zero() {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "a utilisation bound is for deadlines no shorter than the periods and no \
                     jitter, and task {index} has period {}, deadline {}, jitter {}; \
                     use response times",
                    task.period(),
                    task.deadline(),
                    task.jitter()
                ),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use tailbound_time::Duration;

    use super::super::priority_assignment::rate_monotonic;
    use super::super::response_time::response_times;
    use super::*;

    fn task(execution_ns: u64, period_ns: u64) -> SporadicTask {
        let ns = Duration::from_nanos;
        SporadicTask::implicit(ns(execution_ns), ns(period_ns)).unwrap()
    }

    #[test]
    fn the_edge_is_exact() {
        // 4/3 times 3/2 is 2.
        let edge = [task(1, 3), task(1, 2)];
        assert!(sufficient_hyperbolic(&edge).unwrap().accepted);
        assert!(!sufficient_liu_layland(&edge).unwrap().accepted);
        let above = [task(1 << 40, 3 << 40), task((1 << 40) + 1, 2 << 40)];
        assert!(!sufficient_hyperbolic(&above).unwrap().accepted);
        // 2 (sqrt 2 - 1) lies between 0.8284271247461900 and 0.8284271247461901.
        let half = 1_000_000_000_000_000;
        let below = [
            task(414_213_562_373_095, half),
            task(414_213_562_373_095, half),
        ];
        assert!(sufficient_liu_layland(&below).unwrap().accepted);
        let above = [
            task(414_213_562_373_095, half),
            task(414_213_562_373_096, half),
        ];
        assert!(!sufficient_liu_layland(&above).unwrap().accepted);
        assert!(sufficient_liu_layland(&[task(5, 5)]).unwrap().accepted);
        assert!(sufficient_liu_layland(&[]).unwrap().accepted);
    }

    #[test]
    fn what_the_bounds_are_not_for_is_refused() {
        let ns = Duration::from_nanos;
        let short = SporadicTask::new(ns(1), ns(5), ns(4)).unwrap();
        assert!(sufficient_hyperbolic(&[short]).is_err());
        assert!(sufficient_liu_layland(&[task(1, 5).with_jitter(ns(1)).unwrap()]).is_err());
    }

    proptest! {
        #[test]
        fn what_is_accepted_is_schedulable(
            numbers in prop::collection::vec((1_u64..30, 5_u64..120), 1..6),
        ) {
            let tasks: Vec<_> = numbers.into_iter().map(|(c, t)| task(c.min(t), t)).collect();
            let exact = response_times(&tasks, &rate_monotonic(&tasks), &[]).unwrap();
            let schedulable = exact.schedulable();
            let hyperbolic = sufficient_hyperbolic(&tasks).unwrap().accepted;
            prop_assert!(schedulable || !hyperbolic);
            prop_assert!(hyperbolic || !sufficient_liu_layland(&tasks).unwrap().accepted);
        }
    }
}
