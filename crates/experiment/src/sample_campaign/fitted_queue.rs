//! The queueing models of a campaign: its points with their loads, as a queue sees them.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_model::{Description, LoadedDescription, Service};
use tailbound_sampling::{
    PointRecord, QueueLoad, QueuedPoint, QueueingFit, ResponseModel, SampledQueue,
    described_bandwidth, fit_queue,
};
use tailbound_time::{Duration, nanoseconds};

use super::plan::{CampaignPlan, PlannedPoint};

/// `FittedQueue` is the queueing model of a promise, beside the regression of the same points.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FittedQueue {
    /// The service.
    pub service: String,
    /// The task; all tasks together if left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The percentile.
    pub percentile: f64,
    /// The promised latency.
    #[serde(rename = "limit_ns", with = "nanoseconds")]
    pub limit: Duration,
    /// The queue.
    pub queue: QueueingFit,
    /// The factor between measured quantiles and those of the regression, at the median of points that were left out.
    pub regression_error_factor: f64,
    /// The queue with its loads, for the model; `None` where the description does not state a condition's load.
    #[serde(skip)]
    pub in_model: Option<SampledQueue>,
}

/// A promise: service, task, percentile as text, and limit in nanoseconds.
type PromiseKey = (String, Option<String>, String, u64);

/// The queueing models of the promises of a campaign, where loads and reservations say what a queue needs.
pub(super) fn fitted_queues(plan: &CampaignPlan<'_>, records: &[PointRecord]) -> Vec<FittedQueue> {
    let mut points: BTreeMap<PromiseKey, Vec<(QueuedPoint, Vec<f64>)>> = BTreeMap::new();
    for record in records.iter().filter(|record| record.counts()) {
        let Ok(planned) = plan.point(record.point) else {
            continue;
        };
        let Some((share, period_seconds)) = reservation(plan, &planned.loaded) else {
            continue;
        };
        for (name, measured) in &record.services {
            let service = planned.loaded.description.services.get(name);
            let Some(load) = service.and_then(load) else {
                continue;
            };
            for promise in &measured.promises {
                let key = (
                    name.clone(),
                    promise.task.clone(),
                    promise.percentile.to_string(),
                    promise.limit.as_nanos(),
                );
                let point = QueuedPoint {
                    load,
                    share,
                    period_seconds,
                    limit_seconds: promise.limit.as_secs_f64(),
                    log_ratio: promise.log_ratio(),
                };
                let place = plan.grid.place(record.point);
                points.entry(key).or_default().push((point, place));
            }
        }
    }
    let each = points.into_iter();
    let mut queues: Vec<FittedQueue> = each
        .filter_map(|(key, points)| fitted_queue(key, &points))
        .collect();
    let conditions = plan.grid.conditions();
    let firsts = conditions.iter().filter_map(|points| points.first());
    let described: Option<Vec<_>> = firsts.map(|point| plan.point(*point).ok()).collect();
    for fitted in &mut queues {
        let described = described.as_deref().unwrap_or_default();
        fitted.in_model = queue_in_model(plan, described, fitted);
    }
    queues
}

/// A queue with the load of its service in each condition.
fn queue_in_model(
    plan: &CampaignPlan<'_>,
    conditions: &[PlannedPoint],
    fitted: &FittedQueue,
) -> Option<SampledQueue> {
    let loads: Option<Vec<QueueLoad>> = conditions
        .iter()
        .map(|planned| load(planned.loaded.description.services.get(&fitted.service)?))
        .collect();
    let (share, period_seconds) = reservation(plan, &conditions.first()?.loaded)?;
    Some(SampledQueue {
        fit: fitted.queue,
        loads: loads?,
        share,
        period: Duration::from_secs_f64_nearest(period_seconds),
    })
}

/// The loads of the services of a description, where it alone says what they are on average.
pub fn described_loads(description: &Description) -> BTreeMap<String, QueueLoad> {
    let services = description.services.iter();
    let each = services.filter_map(|(name, service)| Some((name.clone(), load(service)?)));
    each.collect()
}

fn fitted_queue(
    (service, task, percentile, limit_ns): PromiseKey,
    points: &[(QueuedPoint, Vec<f64>)],
) -> Option<FittedQueue> {
    let queued: Vec<QueuedPoint> = points.iter().map(|(point, _)| *point).collect();
    let ratios = points.iter();
    let ratios: Vec<(Vec<f64>, f64)> = ratios
        .map(|(point, place)| (place.clone(), point.log_ratio))
        .collect();
    let regression = ResponseModel::fit(&ratios, super::result::MODEL_LEVEL)?;
    let percentile: f64 = percentile.parse().ok()?;
    Some(FittedQueue {
        service,
        task,
        percentile,
        limit: Duration::from_nanos(limit_ns),
        queue: fit_queue(&queued, percentile / 100.0)?,
        regression_error_factor: regression.error_factor(),
        in_model: None,
    })
}

/// The share and the longest period of the reservations of a campaign.
fn reservation(plan: &CampaignPlan<'_>, loaded: &LoadedDescription) -> Option<(f64, f64)> {
    let domains = plan.domains();
    let reservations: Option<Vec<_>> = domains
        .map(|name| loaded.description.domains.get(name)?.reservation.as_ref())
        .collect();
    let reservations = reservations?;
    let share: Option<f64> = reservations
        .iter()
        .map(|one| described_bandwidth(one))
        .sum();
    let periods = reservations.iter().filter_map(|one| one.period);
    let longest = periods.max()?;
    share
        .filter(|share| *share > 0.0)
        .map(|share| (share, longest.as_secs_f64()))
}

/// The load of a service, where the description alone says what it is on average.
fn load(service: &Service) -> Option<QueueLoad> {
    if let Some(users) = &service.users {
        return match users.changes.is_empty() {
            true => Some(QueueLoad::Closed {
                users: users.count,
                think_seconds: users.think_time.mean()?.as_secs_f64(),
            }),
            false => None,
        };
    }
    let rates: Option<Vec<f64>> = service
        .tasks
        .values()
        .map(|task| Some(task.mean_rate()?.as_per_second()))
        .collect();
    let rate_per_second: f64 = rates?.iter().sum();
    (rate_per_second > 0.0).then_some(QueueLoad::Open { rate_per_second })
}
