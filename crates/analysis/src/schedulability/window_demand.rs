//! How much tasks ask for in a window, and the window that just holds it: the inner loop of the
//! analyses of fixed priorities.

use super::utilisation::reciprocal_rounded_down;
use crate::sporadic_task::{LONGEST_PARAMETER, SporadicTask};

/// The most steps towards fixed points that are taken for one task.
pub(super) const MOST_STEPS: u64 = 4_000_000;

/// The longest window that is followed, in nanoseconds. The demand in it is below 2^63: parameters
/// are at most 2^60, so is the sum of the execution times, and the utilisation is at most one.
pub(super) const LONGEST_WINDOW: u64 = 1 << 61;

const _: () = assert!(LONGEST_PARAMETER.as_nanos() < LONGEST_WINDOW);

/// What a task asks for in a window, made for speed: the quotient by the period comes from a
/// product with its reciprocal.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowDemand {
    period_ns: u64,
    reciprocal: u64,
    execution_ns: u64,
    /// What is added to the window before the division; wraps around for -1.
    reach: u64,
    /// Windows below this are short for this task and all before it.
    short_ns: u64,
}

/// Which releases count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Releases {
    /// Those in [0, w): ceil((w + J) / T) = floor((w + J - 1) / T) + 1 jobs, for w above zero.
    BeforeEnd,
    /// Those in [0, w]: floor((w + J) / T) + 1 jobs.
    UpToEnd,
}

impl WindowDemand {
    /// Puts the demands of `tasks` in the place of what `demands` holds.
    pub(super) fn fill(demands: &mut Vec<Self>, tasks: &[SporadicTask], releases: Releases) {
        let mut short_ns = u64::MAX;
        demands.clear();
        demands.extend(tasks.iter().map(|task| {
            let jitter_ns = task.jitter().as_nanos();
            let mut demand = Self {
                period_ns: task.period().as_nanos(),
                reciprocal: reciprocal_rounded_down(task.period().as_nanos()),
                execution_ns: task.execution().as_nanos(),
                reach: match releases {
                    Releases::BeforeEnd => jitter_ns.wrapping_sub(1),
                    Releases::UpToEnd => jitter_ns,
                },
                short_ns,
            };
            short_ns = short_ns.min(demand.longest_short_window(jitter_ns));
            demand.short_ns = short_ns;
            demand
        }));
    }

    /// Below this window, the time to divide and the period multiply to less than 2^64; never, for
    /// a period of 1.
    fn longest_short_window(&self, jitter_ns: u64) -> u64 {
        if self.period_ns == 1 {
            return 0;
        }
        // The reciprocal is at most 2^64 - 1 over the period.
        self.reciprocal.saturating_sub(jitter_ns)
    }

    fn in_window(&self, window: u64) -> u64 {
        let time_ns = window.wrapping_add(self.reach);
        // The reciprocal is short of 2^64 / T by at most one, so the quotient by at most one, too.
        let quotient = high_half(time_ns, self.reciprocal);
        let short = time_ns - quotient * self.period_ns >= self.period_ns;
        (quotient + 1 + u64::from(short)) * self.execution_ns
    }

    /// The same for windows below `short_ns`, with less work.
    fn in_short_window(&self, window: u64) -> u64 {
        let time_ns = window.wrapping_add(self.reach);
        // One more than the reciprocal exceeds 2^64 / T by e / T with 0 <= e <= T. The product with
        // a time below 2^64 / T is too large by less than 1 / T, which no quotient notices.
        let quotient = high_half(time_ns, self.reciprocal + 1);
        (quotient + 1) * self.execution_ns
    }
}

/// The product over 2^64, rounded down.
fn high_half(a: u64, b: u64) -> u64 {
    ((u128::from(a) * u128::from(b)) >> 64) as u64
}

/// The fixed point of `base` + the demand of `higher`, from `start`, which must not be above it.
///
/// `None` where it is above `limit`. Counts its steps in `steps`.
pub(super) fn least_fixed_point(
    higher: &[WindowDemand],
    base: u64,
    start: u64,
    limit: u64,
    steps: &mut u64,
) -> Option<u64> {
    let short_ns = higher.last().map_or(0, |last| last.short_ns);
    let mut window = start;
    while window <= limit {
        let demand: u64 = if window < short_ns {
            higher.iter().map(|one| one.in_short_window(window)).sum()
        } else {
            higher.iter().map(|one| one.in_window(window)).sum()
        };
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use tailbound_time::Duration;

    use super::*;

    fn demands(period_ns: u64, jitter_ns: u64, releases: Releases) -> WindowDemand {
        let ns = Duration::from_nanos;
        let task = SporadicTask::implicit(ns(1), ns(period_ns)).unwrap();
        let mut demands = Vec::new();
        let task = task.with_jitter(ns(jitter_ns)).unwrap();
        WindowDemand::fill(&mut demands, &[task], releases);
        demands[0]
    }

    /// Numbers of all sizes up to 2^60, and those next to powers of two.
    fn any_size() -> impl Strategy<Value = u64> {
        let near = |(bits, below): (u32, bool)| (1 << bits) - u64::from(below && bits > 0);
        prop_oneof![
            (0_u32..60, any::<u64>()).prop_map(|(bits, any)| (any >> (63 - bits)).max(1)),
            (0_u32..=60, any::<bool>()).prop_map(near),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn quotients_are_exact(
            period_ns in any_size(),
            jitter_ns in prop_oneof![Just(0), any_size()],
            window in any_size(),
            multiple in 0_u64..50,
        ) {
            // Also right at and beside multiples of the period, where a quotient would slip first.
            let near = (period_ns.saturating_mul(multiple)).saturating_sub(jitter_ns);
            let near = near.min(LONGEST_WINDOW - 1);
            for window in [window, near.max(1), near + 1, near.saturating_sub(1).max(1)] {
                let time = u128::from(window) + u128::from(jitter_ns);
                let period = u128::from(period_ns);
                for (releases, jobs) in [
                    (Releases::BeforeEnd, time.div_ceil(period)),
                    (Releases::UpToEnd, time / period + 1),
                ] {
                    let demand = demands(period_ns, jitter_ns, releases);
                    prop_assert_eq!(u128::from(demand.in_window(window)), jobs);
                    if window < demand.short_ns {
                        prop_assert_eq!(u128::from(demand.in_short_window(window)), jobs);
                    }
                }
            }
        }
    }

    #[test]
    fn usual_windows_are_short() {
        let ms = |count: u64| count * 1_000_000;
        let demand = demands(ms(1_000), ms(100), Releases::BeforeEnd);
        assert!(demand.short_ns > ms(10_000));
        assert_eq!(demands(1, 0, Releases::UpToEnd).short_ns, 0);
    }
}
