//! What a window gets in which a deferrable reservation becomes another one.

use tailbound_time::Duration;

use crate::interfaces::{PeriodicSupply, SupplyBound};

/// The supply of a deferrable server that becomes another one at an instant that nobody knows, where each
/// gets its budgets for as long as it is in force.
///
/// A window of length t with the change inside gets what the first gives at least in its part before, and
/// what the second gives at least in the rest: the least `first(a) + second(t - a)` over all a, which is the
/// min-plus convolution of the two bounds. With a = 0 and a = t it is a bound for windows without the change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AcrossChange {
    first: PeriodicSupply,
    second: PeriodicSupply,
}

impl AcrossChange {
    /// From one deferrable server to the other.
    #[must_use]
    pub fn new(first: PeriodicSupply, second: PeriodicSupply) -> Self {
        Self { first, second }
    }

    /// The longest window that ends with the change and `before`, the rest with `work - before`.
    fn split(&self, before: Duration, work: Duration) -> Duration {
        let rest = self.second.time_to_supply(work - before);
        // The longest time in which the first gives no more than that.
        let more = before.saturating_add(Duration::from_nanos(1));
        let longest = self.first.time_to_supply(more);
        longest
            .saturating_sub(Duration::from_nanos(1))
            .saturating_add(rest)
    }
}

impl SupplyBound for AcrossChange {
    fn supplied_down(&self, window: Duration) -> Duration {
        let (mut given, mut beyond) = (0, window.as_nanos().saturating_add(1));
        while beyond - given > 1 {
            let middle = given + (beyond - given) / 2;
            if self.time_to_supply(Duration::from_nanos(middle)) <= window {
                given = middle;
            } else {
                beyond = middle;
            }
        }
        Duration::from_nanos(given)
    }

    /// The longest split. Between the begins of the first one's budgets, and of the second one's counted from
    /// the end, what the one takes longer the other takes less: only these are looked at.
    fn time_to_supply(&self, work: Duration) -> Duration {
        let Some(before_last) = work.as_nanos().checked_sub(1) else {
            return Duration::ZERO;
        };
        let alone = self.first.time_to_supply(work);
        let (first, second) = (self.first.budget(), self.second.budget());
        if first.is_zero() || second.is_zero() {
            return Duration::MAX;
        }
        let starts = 0..=before_last / first.as_nanos();
        let starts = starts.map(|whole| first * whole);
        let ends = 0..=before_last / second.as_nanos();
        let ends = ends.map(|whole| Duration::from_nanos(before_last) - second * whole);
        let splits = starts.chain(ends).map(|before| self.split(before, work));
        splits.fold(alone, Duration::max)
    }

    fn rate(&self) -> (u64, u64) {
        let (first, second) = (self.first.rate(), self.second.rate());
        let product = |one: u64, other: u64| u128::from(one) * u128::from(other);
        match product(first.0, second.1) <= product(second.0, first.1) {
            true => first,
            false => second,
        }
    }

    fn delay_up(&self) -> Duration {
        self.first.delay_up().saturating_add(self.second.delay_up())
    }

    /// Of the slower one, which long windows are in for the most part.
    fn repeats_after(&self) -> Duration {
        match self.rate() == self.first.rate() {
            true => self.first.repeats_after(),
            false => self.second.repeats_after(),
        }
    }

    fn name(&self) -> &'static str {
        "two deferrable servers, one after the other (min-plus convolution of their bounds)"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    fn server(budget_ns: u64, rest_ns: u64, jitter_ns: u64) -> PeriodicSupply {
        let ns = Duration::from_nanos;
        let (period, jitter) = (ns(budget_ns + rest_ns), ns(jitter_ns.min(rest_ns)));
        PeriodicSupply::deferrable(ns(budget_ns), period, jitter).unwrap()
    }

    proptest! {
        /// The convolution, window by window.
        #[test]
        fn it_gives_the_least_sum(
            first in (1_u64..6, 0_u64..6, 0_u64..6),
            second in (1_u64..6, 0_u64..6, 0_u64..6),
        ) {
            let (first, second) = (server(first.0, first.1, first.2), server(second.0, second.1, second.2));
            let across = AcrossChange::new(first, second);
            let ns = Duration::from_nanos;
            let least = |window: u64| {
                let sums = (0..=window)
                    .map(|a| first.supplied_down(ns(a)) + second.supplied_down(ns(window - a)));
                sums.min().unwrap()
            };
            for window in 0..80 {
                prop_assert_eq!(across.supplied_down(ns(window)), least(window), "{}", window);
            }
            for work in 0..20 {
                let window = across.time_to_supply(ns(work)).as_nanos();
                prop_assert!(least(window) >= ns(work));
                prop_assert!(work == 0 || least(window - 1) < ns(work));
            }
        }
    }
}
