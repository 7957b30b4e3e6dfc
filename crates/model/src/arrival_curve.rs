//! Arrival curves as minimum distances: how close together the events of a stream come at most.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use crate::workload::{Arrivals, Gaps};

/// The most jobs of a burst whose distances are laid out.
const MOST_OF_BURST: u64 = 1_024;

/// Up to so many events, a curve of instants has a point for each number.
const DENSE: usize = 8;

/// `ArrivalCurve` bounds a stream of events from above by minimum distances: from an event to the k-th event after it no
/// less than the distance of k passes, for some numbers k.
///
/// Between the numbers and beyond them the bound goes on by superadditivity: q k + r events later is at least q times the distance of k plus that of r later (Le
/// Boudec and Thiran, *Network Calculus*, 2001, section 1.2; Richter, *Compositional Scheduling Analysis*, 2005, for
/// minimum distances); and later events come no sooner. Beyond all numbers, k is the one with the lowest rate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "Vec<(u64, Duration)>", into = "Vec<(u64, Duration)>")]
pub struct ArrivalCurve {
    /// Numbers of events, rising, with their distances, which never fall.
    points: Vec<(u64, Duration)>,
    /// The point with the lowest rate.
    slowest: (u64, Duration),
}

impl TryFrom<Vec<(u64, Duration)>> for ArrivalCurve {
    type Error = &'static str;

    fn try_from(points: Vec<(u64, Duration)>) -> Result<Self, Self::Error> {
        Self::new(points).ok_or(
            "numbers of events must rise from above zero, and distances must not fall and must end above zero",
        )
    }
}

impl From<ArrivalCurve> for Vec<(u64, Duration)> {
    fn from(curve: ArrivalCurve) -> Self {
        curve.points
    }
}

impl ArrivalCurve {
    /// The curve of these points; `None` unless the numbers rise from above zero, the distances never fall, and the last
    /// is above zero.
    pub fn new(points: Vec<(u64, Duration)>) -> Option<Self> {
        let first_is_above_zero = points.first().is_some_and(|(events, _)| *events > 0);
        let rises = points.windows(2).all(|pair| match pair {
            [(fewer, shorter), (more, longer)] => fewer < more && shorter <= longer,
            _ => true,
        });
        let product =
            |events: u64, length: Duration| u128::from(events) * u128::from(length.as_nanos());
        let slowest = points
            .iter()
            .copied()
            .max_by(|a, b| product(b.0, a.1).cmp(&product(a.0, b.1)))?;
        let has_rate = !slowest.1.is_zero();
        (first_is_above_zero && rises && has_rate).then_some(Self { points, slowest })
    }

    /// The curve of the distances to the next event, to the one after it, and so on.
    pub fn of_distances(distances: &[Duration]) -> Option<Self> {
        Self::new((1..).zip(distances.iter().copied()).collect())
    }

    /// The curve that a law of arrivals never exceeds; `None` where the law promises no distance, and for a trace, whose
    /// file alone says it.
    pub fn of(arrivals: &Arrivals) -> Option<Self> {
        match arrivals {
            Arrivals::MinimumDistances {
                distances, later, ..
            } => {
                let first = (1..).zip(distances.iter().copied());
                let later = later.iter().map(|one| (one.jobs, one.distance));
                Self::new(first.chain(later).collect())
            }
            Arrivals::Bursts {
                jobs,
                spacing,
                gaps,
                ..
            } => Self::of_distances(&distances_of_bursts(*jobs, *spacing, gaps)?),
            other => Self::of_distances(&[other.least_gap()?]),
        }
    }

    /// The tightest curve that instants in nanoseconds, in order, obey, for numbers of events that grow by halves from
    /// eight on; `None` of fewer than two instants, or where all come at once.
    pub fn of_instants(instants_ns: &[u64]) -> Option<Self> {
        let longest = instants_ns.len().saturating_sub(1);
        let mut points = Vec::new();
        let mut events = 1;
        while events <= longest {
            let pairs = instants_ns.windows(events + 1);
            let lengths = pairs.filter_map(|window| Some(window.last()? - window.first()?));
            points.push((events as u64, Duration::from_nanos(lengths.min()?)));
            events += (events / 2).clamp(1, usize::MAX) * usize::from(events >= DENSE)
                + usize::from(events < DENSE);
        }
        Self::new(points)
    }

    /// The numbers of events with their distances.
    pub fn points(&self) -> &[(u64, Duration)] {
        &self.points
    }

    /// The most events in a half-open window of that length; saturates.
    pub fn most_events(&self, window: Duration) -> u64 {
        let Some(before_end_ns) = window.as_nanos().checked_sub(1) else {
            return 0;
        };
        let (events, length) = self.slowest;
        let whole = (before_end_ns / length.as_nanos()).saturating_mul(events);
        let rest = Duration::from_nanos(before_end_ns % length.as_nanos());
        // A rest is shorter than the slowest point's distance, so that one point at least is longer.
        let repeated = whole.saturating_add(self.most_later(rest).unwrap_or(events));
        let later = self.most_later(Duration::from_nanos(before_end_ns));
        later
            .map_or(repeated, |later| later.min(repeated))
            .saturating_add(1)
    }

    /// The most events that come no more than `distance` after an event; `None` beyond all points.
    ///
    /// Below the next point, and no more than superadditivity lets of the point before: q k + r events come no sooner than
    /// q times the distance of k and that of r.
    fn most_later(&self, distance: Duration) -> Option<u64> {
        let next = self.points.partition_point(|(_, least)| *least <= distance);
        let below_next = self.points.get(next).map(|(events, _)| events - 1)?;
        let before = next
            .checked_sub(1)
            .and_then(|before| self.points.get(before));
        let Some((events, length)) = before.filter(|(_, length)| !length.is_zero()) else {
            return Some(below_next);
        };
        let whole = (distance / *length).saturating_mul(*events);
        // The rest is shorter than the point before, so that this ends.
        let rest = self.most_later(distance % *length)?;
        Some(below_next.min(whole.saturating_add(rest)))
    }

    /// The rate in the long run at most: so many events in each such time, which is above zero.
    pub fn rate(&self) -> (u64, Duration) {
        self.slowest
    }
}

/// The least distances between the jobs of bursts: over every place in a burst that a stretch may begin at.
fn distances_of_bursts(jobs: u32, spacing: Duration, gaps: &Gaps) -> Option<Vec<Duration>> {
    let count = u64::from(jobs.max(1));
    if count > MOST_OF_BURST {
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
        let curve = ArrivalCurve::of_distances(&[us(0), us(10)]).unwrap();
        let most = |window_ns| curve.most_events(Duration::from_nanos(window_ns));
        assert_eq!([0, 1, 10_000, 10_001, 20_001].map(most), [0, 2, 2, 4, 6]);
        assert_eq!(curve.rate(), (2, us(10)));
        // Three at once at most, and of forty in a row no more in a millisecond.
        let sparse = ArrivalCurve::new(vec![(3, us(1)), (40, us(1_000))]).unwrap();
        let most = |window_ns| sparse.most_events(Duration::from_nanos(window_ns));
        assert_eq!(
            [1_000, 1_001, 1_000_000, 1_000_001].map(most),
            [3, 6, 40, 43]
        );
        assert!(ArrivalCurve::of_distances(&[us(5), us(4)]).is_none());
        assert!(ArrivalCurve::of_distances(&[us(0)]).is_none());
    }

    #[test]
    fn laws_of_arrivals_have_the_curves_that_they_promise() {
        let distances = |arrivals: &Arrivals| {
            let curve = ArrivalCurve::of(arrivals)?;
            Some(
                curve
                    .points()
                    .iter()
                    .map(|(_, distance)| *distance)
                    .collect::<Vec<_>>(),
            )
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
            gaps in prop::collection::vec(0_u64..50, 1..60),
            from in 0_u64..400,
            length in 1_u64..400,
        ) {
            let mut at = 0;
            let instants: Vec<u64> = gaps.iter().map(|gap| { at += gap; at }).collect();
            if let Some(curve) = ArrivalCurve::of_instants(&instants) {
                let inside = instants.iter().filter(|at| (from..from + length).contains(*at));
                let bound = curve.most_events(Duration::from_nanos(length));
                prop_assert!(inside.count() as u64 <= bound);
                for (events, distance) in curve.points() {
                    let events = *events as usize;
                    let reached = instants.windows(events + 1).any(|window| {
                        window[events] - window[0] == distance.as_nanos()
                    });
                    prop_assert!(reached, "{events} {distance}");
                    // No window holds fewer than the distances that were seen.
                    let seen = curve.most_events(*distance + Duration::from_nanos(1));
                    prop_assert!(seen > events as u64);
                }
            }
        }
    }
}
