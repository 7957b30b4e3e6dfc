//! What repeated measurements of one cost say: pure functions of the samples.

use serde::Serialize;
use tailbound_time::{Duration, nanoseconds};

/// Samples of one kind, taken in blocks between blocks of other kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Series {
    /// Those of every other block: with [`Series::odd`], one measurement made twice.
    pub even: Vec<Duration>,
    /// Those of the blocks in between.
    pub odd: Vec<Duration>,
}

impl Series {
    /// What all samples say; `None` without one.
    pub fn spread(&self) -> Option<Spread> {
        let mut all = self.even.clone();
        all.extend(&self.odd);
        Spread::of(all)
    }

    /// By how much the median of one half of the blocks is off that of the other half.
    pub fn floor(&self) -> Duration {
        let median = |half: &Vec<Duration>| Spread::of(half.clone()).map(|spread| spread.median);
        match (median(&self.even), median(&self.odd)) {
            (Some(even), Some(odd)) => even.max(odd).saturating_sub(even.min(odd)),
            _ => Duration::ZERO,
        }
    }

    /// The same samples, each a share of what it was: `parts` of them happened in one sample.
    pub fn divided(&self, parts: u64) -> Self {
        let half = |samples: &[Duration]| {
            let share = |sample: &Duration| sample.scaled_down(1, parts);
            samples.iter().map(share).collect()
        };
        Self {
            even: half(&self.even),
            odd: half(&self.odd),
        }
    }
}

/// The least, the middle and the nearly largest of some samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// How many samples there are.
    pub count: u64,
    /// The least.
    #[serde(rename = "min_ns", with = "nanoseconds")]
    pub min: Duration,
    /// The middle one; the lower of the two where their number is even.
    #[serde(rename = "median_ns", with = "nanoseconds")]
    pub median: Duration,
    /// The 99th percentile, by nearest rank.
    #[serde(rename = "p99_ns", with = "nanoseconds")]
    pub p99: Duration,
}

impl Spread {
    /// Of samples in any order; `None` without one.
    pub fn of(mut samples: Vec<Duration>) -> Option<Self> {
        samples.sort_unstable();
        let rank = |per_cent: usize| (samples.len() * per_cent).div_ceil(100).saturating_sub(1);
        Some(Self {
            count: samples.len() as u64,
            min: *samples.first()?,
            median: *samples.get(rank(50))?,
            p99: *samples.get(rank(99))?,
        })
    }
}

/// What an operation costs beyond what it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cost {
    /// The median with the operation less the median without it; zero where that is negative.
    pub value: Duration,
    /// With the operation.
    pub with: Spread,
    /// The same without it.
    pub without: Spread,
    /// What the same measurement is off itself, the larger one of with and without. A value not above
    /// it is not told apart from nothing.
    pub floor: Duration,
}

impl Cost {
    /// Whether the value is told apart from nothing.
    pub fn is_above_floor(&self) -> bool {
        self.value > self.floor
    }

    /// The difference of two series; `None` where one is empty.
    pub fn between(with: &Series, without: &Series) -> Option<Self> {
        let floor = with.floor().max(without.floor());
        let (with, without) = (with.spread()?, without.spread()?);
        Some(Self {
            value: with.median.saturating_sub(without.median),
            with,
            without,
            floor,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn series(samples_ns: &[u64]) -> Series {
        let mut series = Series::default();
        for (place, sample_ns) in samples_ns.iter().enumerate() {
            let half = match place % 2 {
                0 => &mut series.even,
                _ => &mut series.odd,
            };
            half.push(Duration::from_nanos(*sample_ns));
        }
        series
    }

    #[test]
    fn spreads_and_costs_of_known_samples() {
        let spread = series(&[5, 1, 4, 2, 3]).spread().unwrap();
        let expected = [1, 3, 5].map(Duration::from_nanos);
        assert_eq!([spread.min, spread.median, spread.p99], expected);
        assert_eq!(Spread::of(Vec::new()), None);
        let cost = Cost::between(&series(&[100, 130, 100]), &series(&[60, 60])).unwrap();
        assert_eq!(cost.value, Duration::from_nanos(40));
        assert_eq!(cost.floor, Duration::from_nanos(30));
        assert!(cost.is_above_floor());
        assert_eq!(Cost::between(&series(&[1]), &Series::default()), None);
        let less = Cost::between(&series(&[1, 1]), &series(&[2, 2])).unwrap();
        assert_eq!(less.value, Duration::ZERO);
        assert!(!less.is_above_floor());
        assert_eq!(series(&[7, 9]).divided(2), series(&[3, 4]));
    }

    proptest! {
        /// Stalls in less than half of the samples do not move a cost.
        #[test]
        fn stalls_do_not_move_a_cost(
            base_ns in 20_u64..2_000,
            cost_ns in 0_u64..10_000,
            stalls in proptest::collection::vec(5_000_000_u64..50_000_000, 0..40),
        ) {
            let disturbed = |level_ns: u64| {
                let mut samples = vec![level_ns; 100];
                for (place, stall_ns) in stalls.iter().enumerate() {
                    samples[2 * place] += stall_ns;
                }
                let samples: Vec<Duration> =
                    samples.into_iter().map(Duration::from_nanos).collect();
                Series { even: samples[..50].to_vec(), odd: samples[50..].to_vec() }
            };
            let cost = Cost::between(&disturbed(base_ns + cost_ns), &disturbed(base_ns)).unwrap();
            prop_assert_eq!(cost.value.as_nanos(), cost_ns);
            prop_assert_eq!(cost.with.min.as_nanos(), base_ns + cost_ns);
        }
    }
}
