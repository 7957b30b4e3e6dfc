//! The response of an application as a function of share, period and condition, with calibrated intervals.

use serde::{Deserialize, Serialize};

use crate::gaussian_process::GaussianProcess;
use crate::monotony::{nearest_falling, rises};
use crate::normal;

/// The ratio of a quantile to its limit that stands for "far too slow", as a logarithm: how far says nothing of where
/// the promise begins to be kept, and depends on how long the point was measured.
const FAR_TOO_SLOW: f64 = 6.9;
/// The level of the intervals of models.
pub(crate) const INTERVAL_LEVEL: f64 = 0.9;
/// Fewer points than this calibrate nothing.
pub(crate) const LEAST_CALIBRATED: usize = 8;

/// `ResponseModel` is fitted to measured ratios of a quantile to its promised limit, at places of a grid.
#[derive(Clone, Debug)]
pub struct ResponseModel {
    process: GaussianProcess,
    /// The level of the intervals.
    level: f64,
    /// The factor on deviations that makes intervals of that level cover their share of left-out points.
    factor: f64,
    coverage: Option<ModelCoverage>,
}

/// The share of measured points that lie within the intervals that the others predict for them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ModelCoverage {
    /// The number of points.
    pub points: usize,
    /// The points within their interval.
    pub covered: usize,
}

/// A predicted ratio of a quantile to its limit, as a logarithm, with the ends of its interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PredictedRatio {
    /// The likeliest.
    pub middle: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl ResponseModel {
    /// The model of logarithms of ratios at places from 0 to 1, with intervals of a level between 0 and 1; `None`
    /// without points.
    pub fn fit(points: &[(Vec<f64>, f64)], level: f64) -> Option<Self> {
        let inputs = points.iter().map(|(place, _)| place.clone()).collect();
        let values: Vec<f64> = points.iter().map(|(_, ratio)| flattened(*ratio)).collect();
        let process = GaussianProcess::fit(inputs, &values)?;
        let left_out = process.left_out();
        let scores: Vec<f64> = left_out
            .iter()
            .map(|one| one.residual.abs() / one.deviation.max(1e-9))
            .collect();
        let covered = (0..scores.len()).filter(|&own| {
            let mut others = scores.clone();
            others.remove(own);
            scores[own] <= conformal_factor(&mut others, level)
        });
        let coverage = (scores.len() >= LEAST_CALIBRATED).then(|| ModelCoverage {
            points: scores.len(),
            covered: covered.count(),
        });
        Some(Self {
            process,
            level,
            factor: conformal_factor(&mut scores.clone(), level),
            coverage,
        })
    }

    /// The level of the intervals.
    pub fn level(&self) -> f64 {
        self.level
    }

    /// The coverage of left-out points; `None` for too few points.
    pub fn coverage(&self) -> Option<ModelCoverage> {
        self.coverage
    }

    /// The factor between predicted and measured quantile, at the median of points that are left out.
    pub fn error_factor(&self) -> f64 {
        let left_out = self.process.left_out().into_iter();
        let mut residuals: Vec<f64> = left_out.map(|one| one.residual.abs()).collect();
        residuals.sort_by(f64::total_cmp);
        residuals[residuals.len() / 2].exp()
    }

    /// The ratio of a measurement at a place.
    pub fn predict(&self, place: &[f64]) -> PredictedRatio {
        let (mean, deviation) = self.process.at(place);
        let half = self.half_width(deviation);
        PredictedRatio {
            middle: unflattened(mean),
            low: unflattened(mean - half),
            high: unflattened(mean + half),
        }
    }

    /// The ratio of a measurement at one of several places, of which each can only be faster than the one before: the
    /// prediction moves to the nearest falling sequence, and its interval with it.
    pub fn predict_falling(&self, places: &[Vec<f64>], at: usize) -> PredictedRatio {
        let means: Vec<f64> = places
            .iter()
            .map(|place| self.process.at(place).0)
            .collect();
        let (_, deviation) = self.process.at(&places[at]);
        let half = self.half_width(deviation);
        let mean = nearest_falling(&means)[at];
        PredictedRatio {
            middle: unflattened(mean),
            low: unflattened(mean - half),
            high: unflattened(mean + half),
        }
    }

    /// Half the width of an interval where the function has this deviation.
    fn half_width(&self, deviation: f64) -> f64 {
        self.factor * deviation.hypot(self.process.noise())
    }

    /// Whether measured ratios, in ascending order of their share, rise by more than their noise.
    pub(crate) fn is_risen(&self, ratios: &[f64]) -> bool {
        let flat: Vec<f64> = ratios.iter().map(|ratio| flattened(*ratio)).collect();
        rises(&flat, 2.0 * self.half_width(0.0))
    }

    pub(crate) fn process(&self) -> &GaussianProcess {
        &self.process
    }

    /// The factor on deviations of the function, where 1 would be that of a process that is exactly as fitted.
    pub(crate) fn widening(&self) -> f64 {
        (self.factor / normal::two_sided(self.level)).max(1.0)
    }
}

/// The factor on deviations by split-conformal prediction (Lei and others, Distribution-free predictive inference for
/// regression, 2018) over left-out residuals: the least score that the given share of scores, and one more, do not
/// exceed. Too few scores leave that of the normal distribution.
pub(crate) fn conformal_factor(scores: &mut [f64], level: f64) -> f64 {
    scores.sort_by(f64::total_cmp);
    let rank = ((scores.len() + 1) as f64 * level).ceil() as usize;
    match scores.get(rank.max(1) - 1) {
        Some(score) if scores.len() >= LEAST_CALIBRATED => *score,
        _ => normal::two_sided(level).max(scores.last().copied().unwrap_or(0.0)),
    }
}

/// A logarithm of a ratio with what is far above the limit drawn together. The limit itself stays where it is.
pub(crate) fn flattened(ratio: f64) -> f64 {
    let ratio = ratio.min(FAR_TOO_SLOW);
    match ratio > 1.0 {
        true => 1.0 + ratio.ln(),
        false => ratio,
    }
}

pub(crate) fn unflattened(value: f64) -> f64 {
    match value > 1.0 {
        true => (value - 1.0).exp(),
        false => value,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    /// The sum of twelve uniform values, which is nearly normal with variance 1.
    fn normal_draw(random: &mut ChaCha8Rng) -> f64 {
        let uniform = |random: &mut ChaCha8Rng| (random.next_u64() >> 11) as f64 / 2f64.powi(53);
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    fn point(random: &mut ChaCha8Rng) -> (Vec<f64>, f64) {
        let uniform = |random: &mut ChaCha8Rng| (random.next_u64() >> 11) as f64 / 2f64.powi(53);
        let place = vec![uniform(random), uniform(random)];
        let ratio = 0.3 / (0.15 + place[0]) - 1.0 + (2.0 * place[1]).sin();
        (place, ratio + 0.15 * normal_draw(random))
    }

    #[test]
    fn intervals_of_90_percent_cover_as_many_points_that_were_held_out() {
        let (mut covered, mut all, mut stated) = (0, 0, 0);
        for seed in 0..30 {
            let mut random = ChaCha8Rng::seed_from_u64(seed);
            let points: Vec<_> = (0..40).map(|_| point(&mut random)).collect();
            let model = ResponseModel::fit(&points, 0.9).unwrap();
            stated += model.coverage().unwrap().covered;
            for _ in 0..40 {
                let (place, ratio) = point(&mut random);
                let predicted = model.predict(&place);
                covered += u32::from(predicted.low <= ratio && ratio <= predicted.high);
                all += 1;
            }
        }
        let share = f64::from(covered) / f64::from(all);
        assert!((0.85..=0.95).contains(&share), "{share} held out");
        let stated = stated as f64 / (30.0 * 40.0);
        assert!((0.85..=0.95).contains(&stated), "{stated} left out");
    }

    #[test]
    fn flattening_keeps_the_limit_and_the_order() {
        let ratios = [-2.0, -0.1, 0.0, 0.5, 1.0, 1.1, 3.0, 6.0];
        assert!(ratios.is_sorted_by(|one, other| flattened(*one) < flattened(*other)));
        for ratio in ratios {
            assert!((unflattened(flattened(ratio)) - ratio).abs() < 1e-9);
        }
        assert_eq!(flattened(0.0), 0.0);
        assert!(flattened(f64::INFINITY).is_finite());
    }
}
