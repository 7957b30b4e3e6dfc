//! Arrival curves as minimum distances: how close together the events of a stream come at most.

use tailbound_time::Duration;

use crate::workload::{Arrivals, Gaps};

/// The most minimum distances of a curve.
pub const MOST_DISTANCES: usize = 1_024;

/// `ArrivalCurve` bounds a stream of events from above: `distances[k - 1]` is the least time from an event to the
/// k-th event after it, for k up to the number m of distances.
///
/// Beyond the list the bound goes on by superadditivity: q m + r events later is at least q times the last distance
/// plus the r-th one later, since each stretch of m events takes the last distance at least (Le Boudec and Thiran,
/// *Network Calculus*, 2001, section 1.2; Richter, *Compositional Scheduling Analysis*, 2005, for minimum distances).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ArrivalCurve {
    distances: Vec<Duration>,
}

impl ArrivalCurve {
    /// The curve of these distances; `None` unless they never fall and the last is above zero.
    pub fn new(distances: Vec<Duration>) -> Option<Self> {
        let rises = distances.is_sorted();
        let ends_above_zero = distances.last().is_some_and(|last| !last.is_zero());
        (rises && ends_above_zero).then_some(Self { distances })
    }

    /// The curve that a law of arrivals never exceeds; `None` where the law promises no distance, and for a trace, whose
    /// file alone says it.
    pub fn of(arrivals: &Arrivals) -> Option<Self> {
        match arrivals {
            Arrivals::MinimumDistances { distances, .. } => Self::new(distances.clone()),
            Arrivals::Bursts {
                jobs,
                spacing,
                gaps,
                ..
            } => Self::new(distances_of_bursts(*jobs, *spacing, gaps)?),
            other => Self::new(vec![other.least_gap()?]),
        }
    }

    /// The tightest curve of up to `most` distances that instants in nanoseconds, in order, obey; `None` of fewer than two
    /// instants, or where all come at once.
    pub fn of_instants(instants_ns: &[u64], most: usize) -> Option<Self> {
        let longest = instants_ns.len().saturating_sub(1).min(most);
        let distance = |gaps: usize| {
            let pairs = instants_ns.windows(gaps + 1);
            let lengths = pairs.filter_map(|window| Some(window.last()? - window.first()?));
            lengths.min().map(Duration::from_nanos)
        };
        Self::new((1..=longest).map_while(distance).collect())
    }

    /// The distances, from one event to the next, to the one after it, and so on.
    pub fn distances(&self) -> &[Duration] {
        &self.distances
    }

    /// The most events in a half-open window of that length; saturates.
    pub fn most_events(&self, window: Duration) -> u64 {
        let Some(before_end_ns) = window.as_nanos().checked_sub(1) else {
            return 0;
        };
        let (events, length) = self.rate();
        let whole = before_end_ns / length.as_nanos();
        let rest = Duration::from_nanos(before_end_ns % length.as_nanos());
        let more = self.distances.partition_point(|distance| *distance <= rest);
        whole
            .saturating_mul(events)
            .saturating_add(more as u64)
            .saturating_add(1)
    }

    /// The rate in the long run at most: so many events in each such time.
    pub fn rate(&self) -> (u64, Duration) {
        let last = self.distances.last().copied();
        let length = last.filter(|last| !last.is_zero());
        (
            self.distances.len() as u64,
            length.unwrap_or(Duration::from_nanos(1)),
        )
    }
}

/// The least distances between the jobs of bursts: over every place in a burst that a stretch may begin at.
fn distances_of_bursts(jobs: u32, spacing: Duration, gaps: &Gaps) -> Option<Vec<Duration>> {
    let count = u64::from(jobs.max(1));
    if count > MOST_DISTANCES as u64 {
        return None;
    }
    let at = |job: u64| {
        let bursts = gaps.least().checked_mul(job / count)?;
        bursts.checked_add(spacing.checked_mul(job % count)?)
    };
    let distance = |later: u64| {
        let stretches = (0..count).map(|first| at(first + later)?.checked_sub(at(first)?));
        stretches
            .collect::<Option<Vec<Duration>>>()?
            .into_iter()
            .min()
    };
    (1..=count).map(distance).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn us(value: u64) -> Duration {
        Duration::from_micros(value)
    }

    #[test]
    fn windows_hold_what_fits_between_the_distances() {
        // Two at once, then nothing for 10 us.
        let curve = ArrivalCurve::new(vec![us(0), us(10)]).unwrap();
        let most = |window_ns| curve.most_events(Duration::from_nanos(window_ns));
        assert_eq!([0, 1, 10_000, 10_001, 20_001].map(most), [0, 2, 2, 4, 6]);
        assert_eq!(curve.rate(), (2, us(10)));
        assert!(ArrivalCurve::new(vec![us(5), us(4)]).is_none());
        assert!(ArrivalCurve::new(vec![us(0)]).is_none());
    }

    #[test]
    fn laws_of_arrivals_have_the_curves_that_they_promise() {
        let distances = |arrivals: &Arrivals| {
            let curve = ArrivalCurve::of(arrivals)?;
            Some(curve.distances().to_vec())
        };
        let bursts = Arrivals::Bursts {
            jobs: 3,
            spacing: us(10),
            gaps: Gaps::Uniform {
                min: us(25),
                max: us(90),
            },
            offset: us(0),
        };
        // The last job of a burst is 5 us in front of the next burst.
        assert_eq!(distances(&bursts), Some(vec![us(5), us(15), us(25)]));
        let rate = "10/s".parse().unwrap();
        assert_eq!(distances(&Arrivals::Poisson { rate }), None);
    }

    proptest! {
        /// The curve of instants bounds every window of them, and no smaller count does.
        #[test]
        fn the_curve_of_instants_is_the_tightest(
            gaps in prop::collection::vec(0_u64..50, 1..30),
            most in 1_usize..8,
            from in 0_u64..400,
            length in 1_u64..400,
        ) {
            let mut at = 0;
            let instants: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            if let Some(curve) = ArrivalCurve::of_instants(&instants, most) {
                let inside = instants.iter().filter(|at| (from..from + length).contains(*at));
                let bound = curve.most_events(Duration::from_nanos(length));
                prop_assert!(inside.count() as u64 <= bound);
                for (index, distance) in curve.distances().iter().enumerate() {
                    let reached = instants.windows(index + 2).any(|window| {
                        window[index + 1] - window[0] == distance.as_nanos()
                    });
                    prop_assert!(reached, "{} {distance}", index + 1);
                }
            }
        }
    }
}
