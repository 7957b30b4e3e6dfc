//! The instant that the offsets of tasks count from.

use num_integer::Integer;
use tailbound_time::{Duration, Instant};

/// The longest grid that programs of one system share.
const LONGEST_GRID: Duration = Duration::from_secs(10);

/// The first instant after `now` on the grid of all periods: a multiple, on the clock, of their least common multiple. Programs
/// that start at different times on one host so agree on the phases of all tasks without a word between them. Without a
/// common multiple of at most ten seconds, the grid is whole seconds, and phases hold within one program alone.
pub fn epoch(now: Instant, periods: impl IntoIterator<Item = Duration>) -> Instant {
    let second = Duration::from_secs(1).as_nanos();
    let grid = periods.into_iter().try_fold(1_u64, |grid, period| {
        let period = period.as_nanos().max(1);
        let multiple = (grid / grid.gcd(&period)).checked_mul(period)?;
        (multiple <= LONGEST_GRID.as_nanos()).then_some(multiple)
    });
    let grid = grid.filter(|grid| *grid > 1).unwrap_or(second);
    let next = (now.as_nanos() / grid + 1).saturating_mul(grid);
    Instant::from_nanos(next)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn programs_agree_on_all_phases(
            periods in prop::collection::vec(1_u64..20, 1..5),
            first in 0_u64..1_000_000_000_000,
            later in 0_u64..60_000_000_000,
        ) {
            let milliseconds = || periods.iter().copied().map(Duration::from_millis);
            let one = epoch(Instant::from_nanos(first), milliseconds());
            let other = epoch(Instant::from_nanos(first + later), milliseconds());
            prop_assert!(one.as_nanos() > first);
            let grid = periods.iter().fold(1, |grid: u64, period| grid.lcm(period)) * 1_000_000;
            if grid <= LONGEST_GRID.as_nanos() {
                for period in milliseconds() {
                    prop_assert_eq!((other.as_nanos() - one.as_nanos()) % period.as_nanos(), 0);
                }
                prop_assert!(one.as_nanos() - first <= grid);
            } else {
                prop_assert_eq!(one.as_nanos() % 1_000_000_000, 0);
            }
        }
    }
}
