//! What a campaign answers: the cheapest reservation of each condition, and what follows from it.

use std::collections::BTreeMap;

use crate::adaptive::{MOST_FAILURES, cheaper_chance};
use crate::grid::number;
use crate::record::{PointRecord, PromiseOutcome};
use crate::{CampaignTurn, ResponseModel, SampleGrid};

/// `PointSummary` is what the measurements of a point say together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PointSummary {
    /// The logarithm of the quantile over its limit, of each measurement that counts.
    pub ratios: Vec<f64>,
    /// The outcome of each of them.
    pub outcomes: Vec<PromiseOutcome>,
    /// The measurements without a result.
    pub failures: usize,
}

impl PointSummary {
    /// The outcome of all measurements: what one says and none contradicts, not even by a quantile on the other side of the
    /// limit whose interval is wide. `None` for a point without results.
    pub fn outcome(&self) -> Option<PromiseOutcome> {
        let has = |outcome| self.outcomes.contains(&outcome);
        let is_above = |ratio: &f64| *ratio > 0.0;
        if self.outcomes.is_empty() {
            return None;
        }
        let outcome = if has(PromiseOutcome::Kept) && !self.ratios.iter().any(is_above) {
            PromiseOutcome::Kept
        } else if has(PromiseOutcome::Broken) && self.ratios.iter().all(is_above) {
            PromiseOutcome::Broken
        } else {
            PromiseOutcome::Undecided
        };
        Some(outcome)
    }

    /// The median logarithm of the ratio.
    pub fn ratio(&self) -> Option<f64> {
        let mut sorted = self.ratios.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied()
    }
}

/// The summary of each point of a grid.
pub fn summaries(grid: &SampleGrid, records: &[PointRecord]) -> Vec<PointSummary> {
    let mut summaries = vec![PointSummary::default(); grid.len()];
    for record in records {
        let Some(summary) = summaries.get_mut(record.point) else {
            continue;
        };
        if record.counts() {
            summary.ratios.push(record.log_ratio());
            summary.outcomes.push(record.outcome());
        } else {
            summary.failures += 1;
        }
    }
    summaries
}

/// The measured ratios with their places, one for each measurement.
pub fn measured_ratios(grid: &SampleGrid, summaries: &[PointSummary]) -> Vec<(Vec<f64>, f64)> {
    let each = summaries.iter().enumerate();
    each.flat_map(|(point, summary)| {
        let place = grid.place(point);
        summary
            .ratios
            .iter()
            .map(move |ratio| (place.clone(), *ratio))
    })
    .collect()
}

/// `SampledVerdict` is the answer for a condition.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SampledVerdict {
    /// At this point the promises were kept, and at none that is cheaper.
    Cheapest {
        /// The point.
        point: usize,
        /// The probability that a reservation that was not measured keeps them with less bandwidth, by more than the
        /// tolerance; `None` where every point was measured.
        cheaper: Option<f64>,
        /// How often the point was measured.
        measured: usize,
    },
    /// The promises were broken at every period of the highest share: measured, not concluded.
    Unreachable,
    /// No measured point kept the promises, and it is open whether another one does.
    NotFound,
}

/// `ConditionAnswer` is the answer for one combination of the values of all axes but share and period.
#[derive(Clone, Debug, PartialEq)]
pub struct ConditionAnswer {
    /// The keys and values of the condition.
    pub condition: BTreeMap<String, String>,
    /// The answer.
    pub verdict: SampledVerdict,
    /// The period with the least ratio of quantile to limit at each share, of the measured points.
    pub fittest: Vec<FittestPeriod>,
}

/// The fittest period for a share.
#[derive(Clone, Debug, PartialEq)]
pub struct FittestPeriod {
    /// The point.
    pub point: usize,
    /// The logarithm of its ratio.
    pub ratio: f64,
    /// The number of periods that were measured at this share.
    pub measured: usize,
}

/// The answers of all conditions. A point is as likely to be cheaper as `model` says.
pub fn answers(
    grid: &SampleGrid,
    records: &[PointRecord],
    model: Option<&ResponseModel>,
    tolerance: f64,
) -> Vec<ConditionAnswer> {
    let summaries = summaries(grid, records);
    let conditions = grid.conditions().into_iter();
    conditions
        .map(|points| {
            let axes = grid.condition_axes();
            let values = points.first().map(|point| grid.values(*point));
            let values = values.unwrap_or_default();
            let condition = axes
                .iter()
                .map(|axis| (grid.axes()[*axis].key.clone(), values[*axis].to_owned()));
            ConditionAnswer {
                condition: condition.collect(),
                verdict: verdict(grid, &points, &summaries, model, tolerance),
                fittest: fittest(grid, &points, &summaries),
            }
        })
        .collect()
}

fn verdict(
    grid: &SampleGrid,
    points: &[usize],
    summaries: &[PointSummary],
    model: Option<&ResponseModel>,
    tolerance: f64,
) -> SampledVerdict {
    if let Some(point) = cheapest(grid, points, summaries) {
        let cheaper = cheaper_chance(grid, points, summaries, model, tolerance);
        let measured = summaries[point].ratios.len();
        return SampledVerdict::Cheapest {
            point,
            cheaper,
            measured,
        };
    }
    match broken_throughout(grid, points, summaries) {
        true => SampledVerdict::Unreachable,
        false => SampledVerdict::NotFound,
    }
}

/// The answers that were measured less than `1 + confirmations` times. Of many points that are measured once, the cheapest
/// that kept the promises is more likely than any other to have kept them by luck.
pub fn unconfirmed(
    grid: &SampleGrid,
    records: &[PointRecord],
    confirmations: u32,
) -> Vec<CampaignTurn> {
    let summaries = summaries(grid, records);
    let conditions = grid.conditions().into_iter();
    let cheapest = conditions.filter_map(|points| cheapest(grid, &points, &summaries));
    let is_open = |point: &usize| {
        let summary = &summaries[*point];
        summary.failures < MOST_FAILURES && summary.ratios.len() <= confirmations as usize
    };
    let open = cheapest.filter(is_open);
    open.map(CampaignTurn::of_point).collect()
}

/// The point with the least share that kept the promises; of several the one that was measured most often, and of those the
/// one with the least ratio.
pub(crate) fn cheapest(
    grid: &SampleGrid,
    points: &[usize],
    summaries: &[PointSummary],
) -> Option<usize> {
    let kept = points.iter().copied().filter(|point| {
        let outcome = summaries[*point].outcome();
        outcome == Some(PromiseOutcome::Kept)
    });
    let cost = |point: &usize| {
        let summary = &summaries[*point];
        let ratio = summary.ratio().unwrap_or(f64::INFINITY);
        (
            grid.share(*point).unwrap_or(0.0),
            summary.ratios.len(),
            ratio,
        )
    };
    kept.min_by(|one, other| {
        let (one, other) = (cost(one), cost(other));
        let by_share = one.0.total_cmp(&other.0);
        by_share
            .then(other.1.cmp(&one.1))
            .then(one.2.total_cmp(&other.2))
    })
}

/// Whether the promises were broken at every point with the highest share.
pub(crate) fn broken_throughout(
    grid: &SampleGrid,
    points: &[usize],
    summaries: &[PointSummary],
) -> bool {
    let highest = highest_share(grid, points);
    let mut dearest = points
        .iter()
        .filter(|point| grid.share(**point).unwrap_or(0.0) >= highest);
    dearest.all(|point| summaries[*point].outcome() == Some(PromiseOutcome::Broken))
}

pub(crate) fn highest_share(grid: &SampleGrid, points: &[usize]) -> f64 {
    let shares = points.iter().filter_map(|point| grid.share(*point));
    shares.fold(0.0, f64::max)
}

fn fittest(grid: &SampleGrid, points: &[usize], summaries: &[PointSummary]) -> Vec<FittestPeriod> {
    let mut by_share: BTreeMap<Option<usize>, Vec<(usize, f64)>> = BTreeMap::new();
    for &point in points {
        let share = grid.share_axis().map(|axis| grid.positions(point)[axis]);
        if let Some(ratio) = summaries[point].ratio() {
            by_share.entry(share).or_default().push((point, ratio));
        }
    }
    let best = by_share.into_values().filter_map(|measured| {
        let least = measured
            .iter()
            .min_by(|one, other| one.1.total_cmp(&other.1))?;
        Some(FittestPeriod {
            point: least.0,
            ratio: least.1,
            measured: measured.len(),
        })
    });
    best.collect()
}

/// `MarginalCost` is what one more of something costs, such as one more user.
#[derive(Clone, Debug, PartialEq)]
pub struct MarginalCost {
    /// The key that is raised.
    pub key: String,
    /// From this value.
    pub from: String,
    /// To this one.
    pub to: String,
    /// The points of bandwidth for each unit of the key in between.
    pub points_per_unit: f64,
}

/// The costs between neighbours on an axis of numbers, where it is the only one besides share and period, and both
/// have an answer.
pub fn marginal_costs(grid: &SampleGrid, answers: &[ConditionAnswer]) -> Vec<MarginalCost> {
    let axes = grid.condition_axes();
    let &[axis] = axes.as_slice() else {
        return Vec::new();
    };
    let key = &grid.axes()[axis].key;
    let mut shares: Vec<(f64, &String, f64)> = answers
        .iter()
        .filter_map(|answer| {
            let SampledVerdict::Cheapest { point, .. } = answer.verdict else {
                return None;
            };
            let value = answer.condition.get(key)?;
            Some((number(value)?, value, grid.share(point)?))
        })
        .collect();
    shares.sort_by(|one, other| one.0.total_cmp(&other.0));
    let pairs = shares.windows(2);
    pairs
        .map(|pair| MarginalCost {
            key: key.clone(),
            from: pair[0].1.clone(),
            to: pair[1].1.clone(),
            points_per_unit: (pair[1].2 - pair[0].2) / (pair[1].0 - pair[0].0),
        })
        .collect()
}
