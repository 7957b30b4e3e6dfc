//! Utilisation bounds for rate-monotonic priorities on one CPU, preemptive: sufficient tests.
//!
//! Liu & Layland, *Scheduling algorithms for multiprogramming in a hard-real-time environment*,
//! Journal of the ACM 20(1), 1973, Theorem 5; Bini, Buttazzo & Buttazzo, *Rate monotonic analysis:
//! the hyperbolic bound*, IEEE Transactions on Computers 52(7), 2003, Theorem 1; blocking as of Sha,
//! Rajkumar & Lehoczky, *Priority inheritance protocols*, IEEE Transactions on Computers 39(9), 1990,
//! Theorem 16.
//!
//! With U the utilisation of the first i tasks by period and B the blocking of the last of them:
//!
//! ```text
//! Liu & Layland:  U_1 + ... + U_i + B_i / T_i <= i (2^(1/i) - 1)
//! hyperbolic:     (U_1 + 1) ... (U_(i-1) + 1) (U_i + B_i / T_i + 1) <= 2
//! ```
//!
//! Without blocking the condition of the last task is the strictest one. The second test accepts all
//! that the first does.

use num_bigint::BigUint;
use num_rational::Ratio;
use tailbound_time::Duration;

use super::global_edf::SufficientVerdict;
use super::priority_assignment::rate_monotonic;
use crate::AnalysisError;
use crate::rational::sum;
use crate::sporadic_task::{SporadicTask, check_range};

/// The assumptions of both tests.
pub const ASSUMPTIONS: &[&str] = &[
    "one CPU that is always available",
    "rate-monotonic priorities, preemption at no cost",
    "no release jitter, deadlines not below the periods",
    "tasks are independent but for the given blocking, and do not suspend themselves",
    "sufficient: a set that is not accepted may be schedulable",
];

/// The widest integer, in bits, that the exact comparison raises to a power; beyond it utilisations
/// are rounded up to 2^-64 of a CPU, which accepts less and never more.
const WIDEST_POWER: u64 = 1 << 19;

/// The test of Liu & Layland 1973, with blocking as of Sha, Rajkumar & Lehoczky 1990. `blocking` is
/// per task; it may be empty for none.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a task with jitter or with a deadline below its period, and for
/// blocking of another number of tasks; [`AnalysisError::OutOfRange`] for blocking beyond
/// [`LONGEST_PARAMETER`](crate::LONGEST_PARAMETER).
pub fn sufficient_liu_layland(
    tasks: &[SporadicTask],
    blocking: &[Duration],
) -> Result<SufficientVerdict, AnalysisError> {
    let ranked = RankedSet::of(tasks, blocking)?;
    let within = |count: usize| {
        let shares = ranked.shares(count);
        below_liu_layland(&sum(shares.into_iter()), count)
    };
    Ok(SufficientVerdict {
        method: "utilisation bound n (2^(1/n) - 1) for rate-monotonic priorities (Liu & Layland 1973)",
        assumptions: ASSUMPTIONS,
        accepted: ranked.strictest().all(within),
    })
}

/// The hyperbolic bound of Bini, Buttazzo & Buttazzo 2003, decided exactly. `blocking` is per task;
/// it may be empty for none.
///
/// # Errors
/// As of [`sufficient_liu_layland`].
pub fn sufficient_hyperbolic(
    tasks: &[SporadicTask],
    blocking: &[Duration],
) -> Result<SufficientVerdict, AnalysisError> {
    let ranked = RankedSet::of(tasks, blocking)?;
    let within = |count: usize| {
        let one = BigUint::from(1_u8);
        let before = ranked.utilisations(count.saturating_sub(1));
        let mut factors: Vec<Ratio<BigUint>> =
            before.map(|share| sum([share].into_iter())).collect();
        factors.extend(ranked.last_share(count));
        let (above, below) = factors
            .iter()
            .fold((one.clone(), one), |(above, below), share| {
                (
                    above * (share.numer() + share.denom()),
                    below * share.denom(),
                )
            });
        above <= below * 2_u8
    };
    Ok(SufficientVerdict {
        method: "hyperbolic bound for rate-monotonic priorities (Bini, Buttazzo & Buttazzo 2003)",
        assumptions: ASSUMPTIONS,
        accepted: ranked.strictest().all(within),
    })
}

/// Whether a utilisation is at most n (2^(1/n) - 1), that is (U / n + 1)^n <= 2.
fn below_liu_layland(utilisation: &Ratio<BigUint>, count: usize) -> bool {
    let Ok(exponent) = u32::try_from(count) else {
        return false;
    };
    let fits = utilisation.denom().bits().saturating_mul(count as u64) <= WIDEST_POWER;
    let (part, whole) = match fits {
        true => (utilisation.numer().clone(), utilisation.denom().clone()),
        false => {
            let scaled = utilisation.numer() << 64_u8;
            let rounded_up = (scaled + utilisation.denom() - 1_u8) / utilisation.denom();
            (rounded_up, BigUint::from(1_u8) << 64_u8)
        }
    };
    let whole = whole * exponent;
    (&whole + part).pow(exponent) <= whole.pow(exponent) * 2_u8
}

/// Tasks by period, with their blocking.
struct RankedSet {
    tasks: Vec<SporadicTask>,
    blocking: Vec<Duration>,
}

impl RankedSet {
    fn of(tasks: &[SporadicTask], blocking: &[Duration]) -> Result<Self, AnalysisError> {
        let unfit =
            |task: &SporadicTask| !task.jitter().is_zero() || task.deadline() < task.period();
        if let Some((index, task)) = tasks.iter().enumerate().find(|(_, task)| unfit(task)) {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "utilisation bounds are for tasks without jitter and with deadlines not below \
                     their periods, and task {index} has period {}, deadline {}, jitter {}; use \
                     response times",
                    task.period(),
                    task.deadline(),
                    task.jitter()
                ),
            });
        }
        for one in blocking {
            check_range(*one, "blocking of a task")?;
        }
        let order = rate_monotonic(tasks);
        Ok(Self {
            blocking: order.ranked_blocking(blocking)?,
            tasks: order.ranked(tasks)?,
        })
    }

    /// The numbers of tasks whose conditions have to hold.
    fn strictest(&self) -> impl Iterator<Item = usize> {
        let blocked = self.blocking.iter().any(|one| !one.is_zero());
        let count = self.tasks.len();
        let from = match blocked {
            true => 1,
            false => count.max(1),
        };
        from..=count
    }

    /// The utilisations of the first tasks.
    fn utilisations(&self, count: usize) -> impl Iterator<Item = (u64, u64)> {
        let tasks = self.tasks.iter().take(count);
        tasks.map(|task| (task.execution().as_nanos(), task.period().as_nanos()))
    }

    /// The same, and the blocking of the last of them over its period.
    fn shares(&self, count: usize) -> Vec<(u64, u64)> {
        let blocking = self.blocking_share(count);
        self.utilisations(count).chain(blocking).collect()
    }

    fn blocking_share(&self, count: usize) -> Option<(u64, u64)> {
        let last = count.checked_sub(1)?;
        let (task, blocking) = (self.tasks.get(last)?, self.blocking.get(last)?);
        (!blocking.is_zero()).then(|| (blocking.as_nanos(), task.period().as_nanos()))
    }

    /// The utilisation of the last of so many tasks, with its blocking.
    fn last_share(&self, count: usize) -> Option<Ratio<BigUint>> {
        let task = self.tasks.get(count.checked_sub(1)?)?;
        let own = (task.execution().as_nanos(), task.period().as_nanos());
        Some(sum([own].into_iter().chain(self.blocking_share(count))))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::super::nanosecond_task::task;
    use super::super::response_time::response_times;
    use super::*;

    fn accepted(tasks: &[SporadicTask]) -> (bool, bool) {
        (
            sufficient_liu_layland(tasks, &[]).unwrap().accepted,
            sufficient_hyperbolic(tasks, &[]).unwrap().accepted,
        )
    }

    #[test]
    fn one_task_may_take_its_whole_period() {
        assert_eq!(accepted(&[task(7, 7, 7)]), (true, true));
        assert_eq!(accepted(&[task(8, 7, 7)]), (false, false));
        assert_eq!(accepted(&[]), (true, true));
    }

    #[test]
    fn two_tasks_reach_the_published_bounds() {
        // 2 (sqrt 2 - 1) = 0.828427...
        let liu = |ppm: u64| {
            accepted(&[
                task(414_213, 1_000_000, 1_000_000),
                task(ppm, 1_000_000, 1_000_000),
            ])
        };
        assert_eq!(liu(414_214), (true, true));
        assert_eq!(liu(414_215), (false, false));
        // (1/2 + 1) (1/3 + 1) = 2: on the hyperbola, above the line.
        assert_eq!(accepted(&[task(1, 2, 2), task(1, 3, 3)]), (false, true));
        assert_eq!(
            accepted(&[task(1, 2, 2), task(100_001, 300_000, 300_000)]),
            (false, false)
        );
    }

    #[test]
    fn blocking_counts_once_at_each_priority() {
        let ns = Duration::from_nanos;
        let tasks = [task(1, 4, 4), task(1, 8, 8)];
        // 1/4 + 3/4 = 1 at the first priority; a nanosecond more is too much.
        let with = |first| {
            sufficient_hyperbolic(&tasks, &[ns(first), ns(0)])
                .unwrap()
                .accepted
        };
        assert!(with(3));
        assert!(!with(4));
    }

    #[test]
    fn a_thousand_tasks_are_decided() {
        // Utilisation 1,000 / 1,443 = 0.693 is just below ln 2 = 0.693147.
        let below: Vec<_> = (0..1_000)
            .map(|index| task(1_000, 1_443_000 + index, 2_000_000))
            .collect();
        assert_eq!(accepted(&below), (true, true));
        let above: Vec<_> = (0..1_000)
            .map(|index| task(1_000, 1_440_000 + index, 2_000_000))
            .collect();
        assert_eq!(accepted(&above), (false, false));
    }

    #[test]
    fn tasks_outside_the_theorem_are_refused() {
        let jittery = task(1, 4, 4).with_jitter(Duration::from_nanos(1)).unwrap();
        for wrong in [jittery, task(1, 4, 3)] {
            assert!(sufficient_liu_layland(&[wrong], &[]).is_err());
            assert!(sufficient_hyperbolic(&[wrong], &[]).is_err());
        }
    }

    proptest! {
        /// Liu & Layland accept less than the hyperbolic bound, and both less than response times.
        #[test]
        fn bounds_accept_only_schedulable_sets(
            raw in prop::collection::vec((1_u64..30, 2_u64..60, 0_u64..20), 1..6),
        ) {
            let tasks: Vec<_> = raw.iter().map(|(c, t, _)| task(*c, *t, *t)).collect();
            let blocking: Vec<_> = raw.iter().map(|(_, _, b)| Duration::from_nanos(*b)).collect();
            for blocking in [&[][..], &blocking] {
                let liu = sufficient_liu_layland(&tasks, blocking).unwrap().accepted;
                let hyperbolic = sufficient_hyperbolic(&tasks, blocking).unwrap().accepted;
                let responses = response_times(&tasks, &rate_monotonic(&tasks), blocking).unwrap();
                prop_assert!(!liu || hyperbolic);
                prop_assert!(!hyperbolic || responses.schedulable());
            }
        }
    }
}
