//! A queueing model of a sampled application: one queue on a reservation, with demands that are fitted to the same
//! measurements as the regression of [`crate::ResponseModel`], beside which it is printed.
//!
//! The queue serves at the speed of the share. With users who think it is a closed network of two stations, the queue and
//! the users, whose mean response time follows exactly from mean value analysis (Reiser and Lavenberg, Mean-value
//! analysis of closed multichain queuing networks, 1980); with requests that come by themselves it is an M/M/1 queue. Waits
//! for a budget to come back are a delay, a part of the time in a period without one. A quantile is a multiple of the time
//! in the queue, which is fitted, too.

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use crate::response_model::{
    INTERVAL_LEVEL, LEAST_CALIBRATED, ModelCoverage, PredictedRatio, conformal_factor, flattened,
    unflattened,
};

/// The utilisation from which an open queue counts as full.
const FULL: f64 = 0.999;
/// The most fits that leave points out: points beyond this number share them.
const MOST_FITS: usize = 20;
/// Steps of a search, and its restarts from other demands.
const STEPS: usize = 240;
const DEMAND_STARTS: [f64; 4] = [0.1, 0.3, 0.6, 0.9];
/// Fewer points than this fit four parameters to noise.
const LEAST_POINTS: usize = 8;
/// The parameters: demand, delay, tail and floor.
const PARAMETERS: usize = 4;

/// The load that a point has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind", deny_unknown_fields)]
pub enum QueueLoad {
    /// Users who wait for answers, and think.
    Closed {
        /// Their number.
        users: u32,
        /// The mean time that they think, in seconds.
        think_seconds: f64,
    },
    /// Requests that come by themselves.
    Open {
        /// Their number a second.
        rate_per_second: f64,
    },
}

/// `QueuedPoint` is a measured point as the queue sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct QueuedPoint {
    /// The load.
    pub load: QueueLoad,
    /// The share of a CPU, of all reservations together.
    pub share: f64,
    /// The period of the reservations, in seconds.
    pub period_seconds: f64,
    /// The promised latency, in seconds.
    pub limit_seconds: f64,
    /// The logarithm of the measured quantile over the promised latency.
    pub log_ratio: f64,
}

/// `QueueingFit` is the fitted queue, with how far it and the regression are from points that were left out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueueingFit {
    /// The CPU time that a request takes on average.
    #[serde(rename = "demand_ns", with = "nanoseconds")]
    pub demand: Duration,
    /// The wait for a budget, as a part of the time in a period without one.
    pub wait_per_gap: f64,
    /// The promised quantile over the mean time in the queue: at least that of an exponential law, and at least 1 for
    /// percentiles above its mean.
    pub tail_factor: f64,
    /// The part of the latency that no share shortens.
    #[serde(rename = "floor_ns", with = "nanoseconds")]
    pub floor: Duration,
    /// The number of points.
    pub points: usize,
    /// The factor between predicted and measured quantile, at the median of points that were left out.
    pub error_factor: f64,
    /// Half the width of intervals of 90%, as a logarithm of a ratio: the error of left-out points that so many of them
    /// do not exceed.
    pub half_width: f64,
    /// The left-out points within the intervals that the errors of the others give.
    pub covered: usize,
}

impl QueueingFit {
    /// The prediction at a point, whose measured ratio does not count.
    pub(crate) fn predict(&self, point: &QueuedPoint) -> PredictedRatio {
        let parameters = QueueParameters {
            demand_seconds: self.demand.as_secs_f64(),
            wait_per_gap: self.wait_per_gap,
            tail_factor: self.tail_factor,
            floor_seconds: self.floor.as_secs_f64(),
        };
        let middle = flattened(parameters.log_ratio(point));
        PredictedRatio {
            middle: unflattened(middle),
            low: unflattened(middle - self.half_width),
            high: unflattened(middle + self.half_width),
        }
    }

    /// The coverage of left-out points; `None` for too few points.
    pub(crate) fn coverage(&self) -> Option<ModelCoverage> {
        (self.points >= LEAST_CALIBRATED).then_some(ModelCoverage {
            points: self.points,
            covered: self.covered,
        })
    }
}

/// The parameters of the queue; logarithms are searched.
#[derive(Clone, Copy, Debug, PartialEq)]
struct QueueParameters {
    demand_seconds: f64,
    wait_per_gap: f64,
    tail_factor: f64,
    floor_seconds: f64,
}

impl QueueParameters {
    fn of(logarithms: &[f64; PARAMETERS], least_tail: f64) -> Self {
        let [demand_seconds, wait_per_gap, tail_rest, floor_seconds] =
            logarithms.map(|one| one.clamp(-40.0, 10.0).exp());
        Self {
            demand_seconds,
            wait_per_gap,
            tail_factor: least_tail + tail_rest,
            floor_seconds,
        }
    }

    /// The predicted logarithm of the quantile over the limit.
    fn log_ratio(&self, point: &QueuedPoint) -> f64 {
        let gap = (1.0 - point.share).max(0.0) * point.period_seconds;
        let delay = self.floor_seconds + self.wait_per_gap * gap;
        let service_seconds = self.demand_seconds / point.share;
        let queued = match point.load {
            QueueLoad::Closed {
                users,
                think_seconds,
            } => closed_response(service_seconds, think_seconds + delay, users),
            QueueLoad::Open { rate_per_second } => {
                let utilisation = (rate_per_second * service_seconds).min(FULL);
                service_seconds / (1.0 - utilisation)
            }
        };
        ((delay + self.tail_factor * queued) / point.limit_seconds).ln()
    }

    fn error(&self, points: &[&QueuedPoint]) -> f64 {
        let residual = |point: &&QueuedPoint| {
            let residual = flattened(self.log_ratio(point)) - flattened(point.log_ratio);
            residual * residual
        };
        points.iter().map(residual).sum()
    }
}

/// The mean time in the one queue of a closed network, by mean value analysis.
fn closed_response(service_seconds: f64, elsewhere_seconds: f64, users: u32) -> f64 {
    let (mut queue, mut response) = (0.0, 0.0);
    for present in 1..=users {
        response = service_seconds * (1.0 + queue);
        queue = f64::from(present) * response / (elsewhere_seconds + response);
    }
    response
}

/// The queue that fits measured quantiles of a share of the requests best; `None` for too few points.
pub fn fit_queue(points: &[QueuedPoint], probability: f64) -> Option<QueueingFit> {
    if points.len() < LEAST_POINTS {
        return None;
    }
    let all: Vec<&QueuedPoint> = points.iter().collect();
    // Without this bound a floor explains latencies that hardly change, and the queue nothing.
    let least_tail = (-(1.0 - probability).max(1e-9).ln()).min(1.0);
    let parameters = fitted(&all, least_tail);
    let folds = points.len().min(MOST_FITS);
    let mut errors: Vec<f64> = (0..folds)
        .flat_map(|fold| {
            let is_left_out = move |index: usize| index % folds == fold;
            let kept: Vec<&QueuedPoint> = (0..points.len())
                .filter(|index| !is_left_out(*index))
                .map(|index| &points[index])
                .collect();
            let model = fitted(&kept, least_tail);
            let left_out = (0..points.len()).filter(move |index| is_left_out(*index));
            left_out.map(move |index| {
                let point = &points[index];
                (flattened(model.log_ratio(point)) - flattened(point.log_ratio)).abs()
            })
        })
        .collect();
    errors.sort_by(f64::total_cmp);
    let covered = (0..errors.len()).filter(|&own| {
        let mut others = errors.clone();
        others.remove(own);
        errors[own] <= conformal_factor(&mut others, INTERVAL_LEVEL)
    });
    let covered = covered.count();
    Some(QueueingFit {
        demand: Duration::from_secs_f64_nearest(parameters.demand_seconds),
        wait_per_gap: parameters.wait_per_gap,
        tail_factor: parameters.tail_factor,
        floor: Duration::from_secs_f64_nearest(parameters.floor_seconds),
        points: points.len(),
        error_factor: errors[errors.len() / 2].exp(),
        half_width: conformal_factor(&mut errors, INTERVAL_LEVEL),
        covered,
    })
}

fn fitted(points: &[&QueuedPoint], least_tail: f64) -> QueueParameters {
    let demands = points.iter().map(|point| match point.load {
        QueueLoad::Closed {
            users,
            think_seconds,
        } => point.share * think_seconds.max(1e-3) / f64::from(users.max(1)),
        QueueLoad::Open { rate_per_second } => point.share / rate_per_second.max(1e-9),
    });
    // At this demand the point with the least room is full.
    let full = demands.fold(f64::INFINITY, f64::min);
    let starts = DEMAND_STARTS.iter().map(|part| {
        let floor: f64 = 1e-4;
        [(full * part).ln(), 0.5f64.ln(), 3.0f64.ln(), floor.ln()]
    });
    let best = starts
        .map(|start| {
            descend(start, |at| {
                QueueParameters::of(at, least_tail).error(points)
            })
        })
        .min_by(|one, other| one.1.total_cmp(&other.1));
    let start = [full.ln(), 0.0, 0.0, 0.0];
    QueueParameters::of(&best.map_or(start, |(at, _)| at), least_tail)
}

/// The least of a function near a start, by the simplex search of Nelder and Mead (1965).
fn descend(
    start: [f64; PARAMETERS],
    of: impl Fn(&[f64; PARAMETERS]) -> f64,
) -> ([f64; PARAMETERS], f64) {
    let with_value = |at: [f64; PARAMETERS]| (at, of(&at));
    let mut simplex = vec![with_value(start)];
    for coordinate in 0..PARAMETERS {
        let mut corner = start;
        corner[coordinate] += 0.5;
        simplex.push(with_value(corner));
    }
    for _ in 0..STEPS {
        simplex.sort_by(|one, other| one.1.total_cmp(&other.1));
        let worst = simplex[PARAMETERS];
        let middle: [f64; PARAMETERS] = std::array::from_fn(|coordinate| {
            let others = simplex[..PARAMETERS].iter();
            others.map(|(at, _)| at[coordinate]).sum::<f64>() / PARAMETERS as f64
        });
        let along = |step: f64| {
            with_value(std::array::from_fn(|coordinate| {
                middle[coordinate] + step * (worst.0[coordinate] - middle[coordinate])
            }))
        };
        let reflected = along(-1.0);
        let next = if reflected.1 < simplex[0].1 {
            let further = along(-2.0);
            if further.1 < reflected.1 {
                further
            } else {
                reflected
            }
        } else if reflected.1 < simplex[PARAMETERS - 1].1 {
            reflected
        } else {
            along(0.5)
        };
        if next.1 < worst.1 {
            simplex[PARAMETERS] = next;
            continue;
        }
        let best = simplex[0].0;
        for corner in &mut simplex[1..] {
            let nearer: [f64; PARAMETERS] =
                std::array::from_fn(|coordinate| (corner.0[coordinate] + best[coordinate]) / 2.0);
            *corner = with_value(nearer);
        }
    }
    simplex.sort_by(|one, other| one.1.total_cmp(&other.1));
    simplex[0]
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Published by Reiser and Lavenberg's recursion for one user: nobody waits. For many users the queue is full, and each
    /// waits for all others less the time that they think.
    #[test]
    fn closed_networks_have_their_limits() {
        assert!((closed_response(0.02, 1.0, 1) - 0.02).abs() < 1e-12);
        let many = closed_response(0.02, 1.0, 400);
        assert!((many - (400.0 * 0.02 - 1.0)).abs() < 0.05, "{many}");
    }

    fn points(load: impl Fn(usize) -> QueueLoad) -> (QueueParameters, Vec<QueuedPoint>) {
        let truth = QueueParameters {
            demand_seconds: 2e-3,
            wait_per_gap: 0.6,
            tail_factor: 2.5,
            floor_seconds: 5e-4,
        };
        let points = (0..48).map(|index| {
            let mut point = QueuedPoint {
                load: load(index),
                share: 0.3 + 0.1 * (index % 6) as f64,
                period_seconds: 0.01 * (1 + index / 6 % 4) as f64,
                limit_seconds: 0.05,
                log_ratio: 0.0,
            };
            point.log_ratio = truth.log_ratio(&point);
            point
        });
        (truth, points.collect())
    }

    #[test]
    fn a_queue_is_recovered_from_its_own_points() {
        let closed = |index: usize| QueueLoad::Closed {
            users: 20 + 20 * (index % 3) as u32,
            think_seconds: 0.4,
        };
        let open = |index: usize| QueueLoad::Open {
            rate_per_second: 40.0 + 30.0 * (index % 3) as f64,
        };
        for (truth, points) in [points(closed), points(open)] {
            let fit = fit_queue(&points, 0.95).unwrap();
            let demand_seconds = fit.demand.as_secs_f64();
            assert!(
                (demand_seconds / truth.demand_seconds - 1.0).abs() < 0.05,
                "{fit:?}"
            );
            assert!(fit.error_factor < 1.03, "{fit:?}");
        }
    }

    #[test]
    fn few_points_and_odd_ones_are_no_trouble() {
        let (_, mut points) = points(|_| QueueLoad::Open {
            rate_per_second: 0.0,
        });
        assert_eq!(fit_queue(&points[..7], 0.95), None);
        points[3].log_ratio = f64::INFINITY;
        let fit = fit_queue(&points, 0.95).unwrap();
        assert!(fit.error_factor.is_finite());
    }
}
