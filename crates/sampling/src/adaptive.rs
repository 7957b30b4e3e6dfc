//! The choice of the next point: the one that says most about the least bandwidth at which the promises are kept.
//!
//! For each condition the campaign looks for the least share at which some period keeps the promises. The model of
//! the points so far draws functions that could be the true one, monotonic in the share; a point's worth is the
//! bandwidth that it is expected to save, its chance of keeping the promises times its distance below the cheapest
//! point that did (expected improvement under a constraint: Gardner and others, Bayesian optimization with
//! inequality constraints, 2014, where the cost is known exactly). The condition is settled when functions in which
//! a point is cheaper by more than the tolerance are rarer than the confidence allows.

use nalgebra::{DMatrix, DVector};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::answer::{
    PointSummary, broken_throughout, cheapest, highest_share, measured_ratios, summaries,
};
use crate::monotony::nearest_falling;
use crate::record::{PointRecord, PromiseOutcome};
use crate::turn::{CampaignTurn, shuffle};
use crate::{ResponseModel, SampleGrid};

/// Functions that are drawn for a decision.
const DRAWS: usize = 200;
/// Measurements without a result after which a point is left alone.
pub(crate) const MOST_FAILURES: usize = 2;
/// The chance below which a point is not expected to keep the promises.
const HOPELESS: f64 = 5e-3;
/// The level of the model's intervals, whatever the confidence of the answer: that of the residuals.
const LEVEL: f64 = 0.9;

/// `AdaptiveDesign` chooses the points of a campaign one after the other.
#[derive(Clone, Debug)]
pub struct AdaptiveDesign {
    /// The points that can be measured.
    pub grid: SampleGrid,
    /// The confidence of the answer, between 0 and 1.
    pub confidence: f64,
    /// The difference of shares that does not matter, in percent of a CPU.
    pub tolerance: f64,
    /// The number of times that a point is measured.
    pub repeats: u32,
    /// The number of measurements between two of the control point; 0 for none.
    pub control_distance: u32,
    /// The seed of all random choices.
    pub seed: u64,
}

impl AdaptiveDesign {
    /// The next measurement after those so far; `None` if every condition is settled. The choice follows from the
    /// design and the records alone, so that a campaign that was cut off goes on as it would have.
    pub fn next(&self, records: &[PointRecord]) -> Option<CampaignTurn> {
        let since_control = records.iter().rev().take_while(|one| !one.is_control);
        let is_due = since_control.count() >= self.control_distance as usize
            || !records.iter().any(|one| one.is_control);
        let summaries = summaries(&self.grid, records);
        let chosen = self.choose(records, &summaries)?;
        if self.control_distance > 0 && is_due {
            return Some(CampaignTurn {
                point: self.grid.middle(),
                is_control: true,
            });
        }
        Some(CampaignTurn::of_point(chosen))
    }

    fn choose(&self, records: &[PointRecord], summaries: &[PointSummary]) -> Option<usize> {
        let is_open = |point: &usize| {
            let summary = &summaries[*point];
            summary.ratios.is_empty() && summary.failures < MOST_FAILURES
        };
        // A point that was measured once, and is to be measured more often.
        let last = records
            .last()
            .filter(|last| last.counts() && !last.is_control);
        if let Some(last) = last
            && summaries[last.point].ratios.len() < self.repeats as usize
        {
            return Some(last.point);
        }
        if let Some(first) = self.first_points().into_iter().find(is_open) {
            return Some(first);
        }
        let model = ResponseModel::fit(&measured_ratios(&self.grid, summaries), LEVEL)?;
        let conditions = self.grid.conditions();
        let worths = conditions
            .iter()
            .enumerate()
            .filter_map(|(number, points)| {
                let seed = self.seed ^ ((records.len() as u64) << 32) ^ number as u64;
                self.best_of(points, summaries, &model, seed)
            });
        let best = worths.max_by(|one, other| one.1.total_cmp(&other.1));
        best.map(|(point, _)| point)
    }

    /// The points that are measured before there is a model: one with the highest share, and others that are spread
    /// over all axes (a Latin hypercube).
    fn first_points(&self) -> Vec<usize> {
        let axes = self.grid.axes();
        let varied = axes.iter().filter(|axis| axis.values.len() > 1).count();
        let count = (2 * varied + 1).min(self.grid.len());
        let mut random = ChaCha8Rng::seed_from_u64(self.seed);
        let orders: Vec<Vec<usize>> = axes
            .iter()
            .map(|axis| {
                let mut strata: Vec<usize> = (0..count)
                    .map(|stratum| (2 * stratum + 1) * axis.values.len() / (2 * count))
                    .collect();
                shuffle(&mut strata, &mut random);
                strata
            })
            .collect();
        let spread = (0..count).map(|index| {
            let positions: Vec<usize> = orders.iter().map(|order| order[index]).collect();
            self.grid.point(&positions)
        });
        let mut points = vec![self.anchor()];
        for point in spread {
            if !points.contains(&point) {
                points.push(point);
            }
        }
        points
    }

    /// The point in the middle of all axes but the share, with the highest one.
    fn anchor(&self) -> usize {
        let mut positions = self.grid.positions(self.grid.middle());
        if let Some(axis) = self.grid.share_axis() {
            let values = &self.grid.axes()[axis].values;
            let share = |at: &usize| values[*at].parse::<f64>().unwrap_or(0.0);
            let highest =
                (0..values.len()).max_by(|one, other| share(one).total_cmp(&share(other)));
            positions[axis] = highest.unwrap_or(0);
        }
        self.grid.point(&positions)
    }

    /// The point of a condition that is worth most, and its worth; `None` if the condition is settled.
    fn best_of(
        &self,
        points: &[usize],
        summaries: &[PointSummary],
        model: &ResponseModel,
        seed: u64,
    ) -> Option<(usize, f64)> {
        let open: Vec<usize> = points
            .iter()
            .copied()
            .filter(|point| {
                summaries[*point].ratios.is_empty() && summaries[*point].failures < MOST_FAILURES
            })
            .collect();
        if open.is_empty() {
            return None;
        }
        let draws = Draws::of(&self.grid, points, summaries, model, seed);
        let share = |point: usize| self.grid.share(point).unwrap_or(0.0);
        let Some(best) = cheapest(&self.grid, points, summaries) else {
            return self.towards_any(points, &open, summaries, &draws);
        };
        if draws.cheaper(share(best) - self.tolerance) <= 1.0 - self.confidence {
            return None;
        }
        let worth = |point: &usize| draws.chance(*point) * (share(best) - share(*point)).max(0.0);
        let most = open
            .iter()
            .copied()
            .max_by(|one, other| worth(one).total_cmp(&worth(other)));
        most.map(|point| (point, worth(&point)))
    }

    /// The point that may be the first to keep the promises.
    fn towards_any(
        &self,
        points: &[usize],
        open: &[usize],
        summaries: &[PointSummary],
        draws: &Draws,
    ) -> Option<(usize, f64)> {
        if broken_throughout(&self.grid, points, summaries) {
            return None;
        }
        let highest = highest_share(&self.grid, points);
        let share = |point: usize| self.grid.share(point).unwrap_or(0.0);
        let worth = |point: &usize| {
            draws.chance(*point) * (highest + self.tolerance.max(1.0) - share(*point))
        };
        let likely = open
            .iter()
            .copied()
            .filter(|point| draws.chance(*point) > HOPELESS);
        let most = likely.max_by(|one, other| worth(one).total_cmp(&worth(other)));
        if let Some(point) = most {
            return Some((point, worth(&point)));
        }
        // Nothing is likely: only the highest share can show that nothing keeps the promises.
        let mut dearest = open
            .iter()
            .copied()
            .filter(|point| share(*point) >= highest);
        dearest.next().map(|point| (point, 0.0))
    }
}

/// The probability that a point that was not measured keeps the promises with less bandwidth than the cheapest one
/// that does, by more than the tolerance; `None` without such a point, or without anything left to measure.
pub(crate) fn cheaper_chance(
    grid: &SampleGrid,
    points: &[usize],
    summaries: &[PointSummary],
    model: Option<&ResponseModel>,
    tolerance: f64,
) -> Option<f64> {
    let best = cheapest(grid, points, summaries)?;
    let open = points
        .iter()
        .any(|point| summaries[*point].ratios.is_empty());
    let draws = Draws::of(grid, points, summaries, model.filter(|_| open)?, 0);
    Some(draws.cheaper(grid.share(best)? - tolerance))
}

/// Functions that could be the true one, at the points of a condition.
struct Draws {
    points: Vec<usize>,
    shares: Vec<f64>,
    /// Whether the point was not measured yet.
    open: Vec<bool>,
    /// Whether each function keeps the promises at each point: functions by points.
    kept: Vec<Vec<bool>>,
}

impl Draws {
    fn of(
        grid: &SampleGrid,
        points: &[usize],
        summaries: &[PointSummary],
        model: &ResponseModel,
        seed: u64,
    ) -> Self {
        let places: Vec<Vec<f64>> = points.iter().map(|point| grid.place(*point)).collect();
        let (mean, factor) = model.process().joint(&places, model.widening());
        let columns = columns_by_share(grid, points);
        let is_monotonic = !contradicts_monotony(grid, points, summaries);
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let kept = (0..DRAWS).map(|_| {
            let mut values = drawn(&mean, &factor, &mut random);
            if is_monotonic {
                for column in &columns {
                    let falling: Vec<f64> = column.iter().map(|at| values[*at]).collect();
                    for (at, value) in column.iter().zip(nearest_falling(&falling)) {
                        values[*at] = value;
                    }
                }
            }
            values.iter().map(|value| *value <= 0.0).collect()
        });
        Self {
            points: points.to_vec(),
            shares: points
                .iter()
                .map(|point| grid.share(*point).unwrap_or(0.0))
                .collect(),
            open: points
                .iter()
                .map(|point| summaries[*point].ratios.is_empty())
                .collect(),
            kept: kept.collect(),
        }
    }

    /// The share of the functions that keep the promises at a point.
    fn chance(&self, point: usize) -> f64 {
        let Some(at) = self.points.iter().position(|one| *one == point) else {
            return 0.0;
        };
        let kept = self.kept.iter().filter(|kept| kept[at]).count();
        kept as f64 / self.kept.len() as f64
    }

    /// The share of the functions that keep the promises at a point below this share that was not measured.
    fn cheaper(&self, share: f64) -> f64 {
        let is_cheaper = |at: &usize| self.open[*at] && self.shares[*at] < share - 1e-9;
        let below: Vec<usize> = (0..self.points.len()).filter(is_cheaper).collect();
        let cheaper = self
            .kept
            .iter()
            .filter(|kept| below.iter().any(|at| kept[*at]))
            .count();
        cheaper as f64 / self.kept.len() as f64
    }
}

/// The indexes of points that differ in their share alone, in ascending order of it.
fn columns_by_share(grid: &SampleGrid, points: &[usize]) -> Vec<Vec<usize>> {
    let Some(axis) = grid.share_axis() else {
        return Vec::new();
    };
    let mut columns: std::collections::BTreeMap<Vec<usize>, Vec<usize>> =
        std::collections::BTreeMap::new();
    for (index, point) in points.iter().enumerate() {
        let mut positions = grid.positions(*point);
        positions[axis] = 0;
        columns.entry(positions).or_default().push(index);
    }
    let share = |index: &usize| grid.share(points[*index]).unwrap_or(0.0);
    let mut columns: Vec<Vec<usize>> = columns.into_values().collect();
    for column in &mut columns {
        column.sort_by(|one, other| share(one).total_cmp(&share(other)));
    }
    columns
}

/// Whether measurements of points that differ in their share alone contradict each other: more of a CPU kept fewer
/// promises.
fn contradicts_monotony(grid: &SampleGrid, points: &[usize], summaries: &[PointSummary]) -> bool {
    let columns = columns_by_share(grid, points);
    columns.iter().any(|column| {
        let outcomes = column.iter().map(|at| summaries[points[*at]].outcome());
        let mut was_kept = false;
        outcomes.into_iter().any(|outcome| {
            was_kept |= outcome == Some(PromiseOutcome::Kept);
            was_kept && outcome == Some(PromiseOutcome::Broken)
        })
    })
}

fn drawn(mean: &DVector<f64>, factor: &DMatrix<f64>, random: &mut ChaCha8Rng) -> DVector<f64> {
    let normal = DVector::from_fn(mean.len(), |_, _| normal_draw(random));
    mean + factor * normal
}

/// A standard normal value, by the method of Box and Muller.
fn normal_draw(random: &mut ChaCha8Rng) -> f64 {
    let mut uniform = || ((random.next_u64() >> 11) as f64 + 0.5) / 2f64.powi(53);
    let radius = (-2.0 * uniform().ln()).sqrt();
    radius * (2.0 * std::f64::consts::PI * uniform()).cos()
}
