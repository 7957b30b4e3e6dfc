//! Numbers of recorded jobs and events: distributions, distances, periods and autocorrelation.

use serde::Serialize;
use tailbound_time::{Duration, nanoseconds};

use crate::arrival_curve::ArrivalCurve;
use crate::workload::{Arrivals, Bin, LaterDistance};

/// The most bins of a distribution.
const MOST_BINS: usize = 32;

/// The most of the longest distances that are derived.
const MOST_LONGEST_DISTANCES: usize = 16;

/// The lags of autocorrelations.
const LAGS: usize = 10;

/// The fewest values of which an autocorrelation says anything.
const FEWEST_CORRELATED: usize = 20;

/// `Autocorrelation` is that of a sequence of values at lags from 1 on.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Autocorrelation {
    /// By lag, from 1 on; empty of fewer than twenty values.
    pub lags: Vec<f64>,
    /// Values of no correlation at all lie within this distance from zero in 95 of 100 cases, about: 1.96 / sqrt(n)
    /// (Bartlett 1946).
    pub band: f64,
}

impl Autocorrelation {
    /// The autocorrelation of values in nanoseconds.
    pub fn of(values_ns: &[u64]) -> Self {
        let count = values_ns.len();
        let mean = values_ns.iter().map(|value| *value as f64).sum::<f64>() / count.max(1) as f64;
        let apart: Vec<f64> = values_ns.iter().map(|value| *value as f64 - mean).collect();
        let variance: f64 = apart.iter().map(|one| one * one).sum();
        let at = |lag: usize| {
            let pairs = apart.iter().zip(apart.iter().skip(lag));
            let sum: f64 = pairs.map(|(one, later)| one * later).sum();
            if variance > 0.0 { sum / variance } else { 0.0 }
        };
        let lags = match count >= FEWEST_CORRELATED {
            true => (1..=LAGS).map(at).collect(),
            false => Vec::new(),
        };
        Self {
            lags,
            band: 1.96 / (count.max(1) as f64).sqrt(),
        }
    }

    /// The first lag whose correlation lies outside of the band by twice its width: none of eleven lags does so by
    /// chance in one of a thousand sequences.
    pub fn first_dependence(&self) -> Option<(usize, f64)> {
        let mut lags = self.lags.iter().copied().enumerate();
        let first = lags.find(|(_, value)| value.abs() > 2.0 * self.band)?;
        Some((first.0 + 1, first.1))
    }
}

/// `PeriodFit` is the grid that instants keep to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PeriodFit {
    /// The distance between the points of the grid.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// The largest delay of an instant behind its point of the grid, the earliest instant being on it.
    #[serde(rename = "jitter_ns", with = "nanoseconds")]
    pub jitter: Duration,
}

impl PeriodFit {
    /// The grid by least squares, of which points may be left out; `None` of fewer than three instants, and where they
    /// lie half a period or more away.
    pub fn of(instants_ns: &[u64]) -> Option<Self> {
        let mut gaps: Vec<u64> = gaps(instants_ns).collect();
        gaps.sort_unstable();
        let middle = *gaps.get(gaps.len() / 2).filter(|gap| **gap > 0)?;
        let first = *instants_ns.first()?;
        if instants_ns.len() < 3 {
            return None;
        }
        // Which point of the grid each instant belongs to.
        let mut index = 0_u64;
        let mut points = vec![(0.0, 0.0)];
        for (gap, at) in gaps_of(instants_ns) {
            // Two instants at one point are no grid.
            let points_on = (gap + middle / 2)
                .checked_div(middle)
                .filter(|on| *on > 0)?;
            index += points_on;
            points.push((index as f64, (at - first) as f64));
        }
        let period = slope(&points)?;
        let rounded = Duration::from_nanos(period.round() as u64);
        let apart = points
            .iter()
            .map(|(index, at)| at - index * rounded.as_nanos() as f64);
        let (least, most) = apart.fold((f64::MAX, f64::MIN), |(least, most), one| {
            (least.min(one), most.max(one))
        });
        let jitter = Duration::from_nanos((most - least) as u64);
        (jitter < rounded / 2 && !rounded.is_zero()).then_some(Self {
            period: rounded,
            jitter,
        })
    }
}

fn gaps(instants_ns: &[u64]) -> impl Iterator<Item = u64> {
    gaps_of(instants_ns).map(|(gap, _)| gap)
}

/// Each gap with the instant at its end.
fn gaps_of(instants_ns: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let pairs = instants_ns.iter().zip(instants_ns.iter().skip(1));
    pairs.map(|(before, after)| (after.saturating_sub(*before), *after))
}

/// The slope of the line through points by least squares.
fn slope(points: &[(f64, f64)]) -> Option<f64> {
    let count = points.len() as f64;
    let (x, y) = points
        .iter()
        .fold((0.0, 0.0), |(x, y), point| (x + point.0, y + point.1));
    let (x, y) = (x / count, y / count);
    let (mut along, mut across) = (0.0, 0.0);
    for point in points {
        along += (point.0 - x) * (point.0 - x);
        across += (point.0 - x) * (point.1 - y);
    }
    (along > 0.0 && across > 0.0).then(|| across / along)
}

/// The bins of values in nanoseconds: about as many values in each, from its least to its largest one.
pub(super) fn bins_of(values_ns: &[u64]) -> Vec<Bin> {
    let mut sorted = values_ns.to_vec();
    sorted.sort_unstable();
    let size = sorted.len().div_ceil(MOST_BINS).max(1);
    let bin = |values: &[u64]| {
        let (from, to) = (*values.first()?, *values.last()?);
        Some(Bin {
            from: Duration::from_nanos(from),
            to: Duration::from_nanos(to),
            count: values.len() as u64,
        })
    };
    let mut bins: Vec<Bin> = Vec::new();
    for next in sorted.chunks(size).filter_map(bin) {
        match bins.last_mut() {
            // Many equal values make one bin.
            Some(last) if last.from == last.to && (last.from, last.to) == (next.from, next.to) => {
                last.count += next.count;
            }
            _ => bins.push(next),
        }
    }
    bins
}

/// The arrivals by minimum distances of instants in order, with their mean gap; `None` where there is no curve.
pub(super) fn spaced_arrivals(instants_ns: &[u64]) -> Option<Arrivals> {
    let curve = ArrivalCurve::of_instants(instants_ns)?;
    let (events, length) = curve.rate();
    let (first, last) = (instants_ns.first()?, instants_ns.last()?);
    let mean_gap = Duration::from_nanos((last - first) / (instants_ns.len() as u64 - 1));
    let points = curve.points().iter().zip(1..);
    let (next, later): (Vec<_>, Vec<_>) = points.partition(|((events, _), place)| events == place);
    let later = later
        .into_iter()
        .map(|((jobs, distance), _)| LaterDistance {
            jobs: *jobs,
            distance: *distance,
        });
    Some(Arrivals::MinimumDistances {
        // As close as the distances allow, where the mean is no longer.
        mean_gap: (mean_gap * events > length).then_some(mean_gap),
        distances: next
            .into_iter()
            .map(|((_, distance), _)| *distance)
            .collect(),
        later: later.collect(),
    })
}

/// The longest distances from one instant to the next, to the one after it, and so on.
pub(super) fn longest_distances(instants_ns: &[u64]) -> Vec<Duration> {
    let most = instants_ns
        .len()
        .saturating_sub(1)
        .min(MOST_LONGEST_DISTANCES);
    let longest = |gaps: usize| {
        let windows = instants_ns.windows(gaps + 1);
        let lengths = windows.filter_map(|window| Some(window.last()? - window.first()?));
        lengths.max().map(Duration::from_nanos)
    };
    (1..=most).map_while(longest).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_grid_with_gaps_is_recognised() {
        // Every 1000, late by up to 30; the fourth instant is missing.
        let instants = [5, 1_030, 2_000, 4_012, 5_021, 6_000];
        let fit = PeriodFit::of(&instants).unwrap();
        assert!(fit.period.as_nanos().abs_diff(1_000) <= 3, "{fit:?}");
        assert!(fit.jitter.as_nanos() <= 40, "{fit:?}");
        assert_eq!(PeriodFit::of(&[0, 10, 1_000, 1_010, 2_500]), None);
        assert_eq!(PeriodFit::of(&[0, 10]), None);
    }

    #[test]
    fn alternating_lengths_depend_on_each_other() {
        let alternating: Vec<u64> = (0..200).map(|job| 100 + job % 2 * 50).collect();
        let correlation = Autocorrelation::of(&alternating);
        assert!(correlation.lags[0] < -0.9 && correlation.lags[1] > 0.9);
        assert_eq!(correlation.first_dependence().unwrap().0, 1);
        let constant = Autocorrelation::of(&[7; 100]);
        assert_eq!(constant.first_dependence(), None);
        assert!(Autocorrelation::of(&[1, 2, 3]).lags.is_empty());
        // A sequence without dependence: digits of a multiplicative generator.
        let mut state = 1_u64;
        let digits = (0..2_000).map(|_| {
            state = state * 48_271 % 2_147_483_647;
            state % 1_000
        });
        let independent = Autocorrelation::of(&digits.collect::<Vec<_>>());
        assert_eq!(independent.first_dependence(), None, "{independent:?}");
    }

    #[test]
    fn bins_hold_every_value_and_reach_the_longest() {
        let values: Vec<u64> = (0..1_000).map(|value| value * value).collect();
        let bins = bins_of(&values);
        assert!(bins.len() <= MOST_BINS);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<u64>(), 1_000);
        assert_eq!(bins.last().unwrap().to, Duration::from_nanos(999 * 999));
        let equal = bins_of(&[5; 100]);
        assert_eq!((equal.len(), equal[0].count), (1, 100));
    }

    #[test]
    fn distances_are_the_least_and_the_longest() {
        let instants = [0, 10, 12, 40, 50];
        let spaced = spaced_arrivals(&instants).unwrap();
        let ns = |list: &[u64]| {
            list.iter()
                .copied()
                .map(Duration::from_nanos)
                .collect::<Vec<_>>()
        };
        let expected = Arrivals::MinimumDistances {
            distances: ns(&[2, 12, 40, 50]),
            later: Vec::new(),
            mean_gap: None,
        };
        assert_eq!(spaced, expected);
        assert_eq!(longest_distances(&instants), ns(&[28, 38, 40, 50]));
        assert_eq!(spaced_arrivals(&[7]), None);
    }
}
