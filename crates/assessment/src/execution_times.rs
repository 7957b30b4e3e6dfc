//! How long each task's job runs: described, read from a file, or calibrated.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_model::{Arrivals, Bin, ExecutionTime, InputFiles, ReservationServer, Service};
use tailbound_time::{Duration, Rate};

use crate::AssessmentError;

/// Times of a service that were measured while nothing else asked for it.
#[derive(Clone, Copy, Debug)]
pub struct CalibratedTimes<'a> {
    /// The CPU time of a job, by task.
    pub execution_times: &'a BTreeMap<String, Distribution>,
    /// The time from request to reply, by task.
    pub round_trips: &'a BTreeMap<String, Distribution>,
    /// The way from client to service and back.
    pub dispatch_overhead: &'a Distribution,
}

/// What is known of a service's execution times.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServiceTimes {
    /// By task, where the description alone does not say it exactly.
    pub measured: BTreeMap<String, Distribution>,
    /// The way from client to service and back: the median of what calibration found.
    pub dispatch_overhead: Duration,
    /// Where `measured` holds whole round trips: the means of a trip and of the CPU time in it.
    /// Only the latter uses budget. Means, so that the utilisation of the stretched budget by
    /// trips is that of the budget by CPU time, however trips are distributed.
    pub trip_and_execution: Option<(Duration, Duration)>,
}

impl ServiceTimes {
    /// The same with every distribution replaced by one value of it.
    #[must_use]
    pub fn reduced(&self, label: &str, value: impl Fn(&Distribution) -> Option<Duration>) -> Self {
        let measured = self
            .measured
            .iter()
            .filter_map(|(task, distribution)| {
                let subject = format!("{label} of {}", distribution.provenance.subject);
                let provenance = Provenance::new(Evidence::Estimate, subject, label);
                let value = value(distribution)?;
                Some((
                    task.clone(),
                    Distribution::from_samples(provenance, vec![value]),
                ))
            })
            .collect();
        Self {
            measured,
            dispatch_overhead: self.dispatch_overhead,
            trip_and_execution: self.trip_and_execution,
        }
    }

    /// The reservation server as the queue sees it: while round trips fill the queue, a budget
    /// lasts as much longer as a trip is longer than the CPU time in it. Rounded down to a
    /// thousandth of the period.
    pub fn as_seen(&self, server: ReservationServer) -> ReservationServer {
        let Some((trip, execution)) = self.trip_and_execution else {
            return server;
        };
        let stretched = |budget: Duration, period: Duration| {
            let step = period.as_nanos().div_ceil(1000).max(1);
            let longer = budget.scaled_down(trip.as_nanos(), execution.as_nanos().max(1));
            Duration::from_nanos(longer.as_nanos() / step * step).clamp(budget, period)
        };
        match server {
            ReservationServer::Deferrable { budget, period } => ReservationServer::Deferrable {
                budget: stretched(budget, period),
                period,
            },
            // The others are not made of a budget that waits for work.
            other => other,
        }
    }

    /// Whether any execution time varies.
    pub fn varies(&self) -> bool {
        self.measured
            .values()
            .any(|distribution| distribution.min() != distribution.max())
    }
}

/// The round trips of all tasks, if they were calibrated.
fn one_at_a_time(service: &Service, calibration: CalibratedTimes<'_>) -> Option<ServiceTimes> {
    // Where a rate is not known, each task counts alike.
    let rates: Option<Vec<f64>> = service
        .tasks
        .values()
        .map(|task| task.mean_rate().map(Rate::as_per_second))
        .collect();
    let rates = rates.unwrap_or_else(|| vec![1.0; service.tasks.len()]);
    let all: f64 = rates.iter().sum();
    let mean = |by_task: &BTreeMap<String, Distribution>| {
        let mut mean = 0.0;
        for (task, rate) in service.tasks.keys().zip(&rates) {
            mean += rate / all * by_task.get(task)?.mean()?.high?.as_secs_f64();
        }
        Some(Duration::from_secs_f64_nearest(mean))
    };
    let trip = mean(calibration.round_trips)?;
    let execution = mean(calibration.execution_times)?;
    Some(ServiceTimes {
        measured: calibration.round_trips.clone(),
        dispatch_overhead: Duration::ZERO,
        trip_and_execution: Some((trip, execution.min(trip))),
    })
}

/// What is known of the execution times of `service`, with what calibration found where there was
/// one.
///
/// Where requests go one at a time (`max_in_flight = 1`), the next one waits for the whole round
/// trip of the one before: then round trips take the place of execution times, nothing is left to
/// add as dispatch overhead, and [`Known::as_seen`] says how far a budget goes.
///
/// # Errors
/// A calibrated task without a calibration and without an expected value.
pub fn execution_times(
    name: &str,
    service: &Service,
    inputs: &InputFiles,
    calibration: Option<CalibratedTimes<'_>>,
) -> Result<ServiceTimes, AssessmentError> {
    if let (Some(1), Some(calibration)) = (service.max_in_flight, calibration)
        && let Some(times) = one_at_a_time(service, calibration)
    {
        return Ok(times);
    }
    let mut times = ServiceTimes::default();
    if let Some(calibration) = calibration {
        let overhead = calibration.dispatch_overhead.quantile(0.5);
        times.dispatch_overhead = overhead
            .and_then(|interval| interval.high)
            .unwrap_or(Duration::ZERO);
    }
    for (task_name, task) in &service.tasks {
        let subject = format!("execution time of {name}.{task_name}");
        let distribution = match &task.execution_time {
            ExecutionTime::Constant { .. }
            | ExecutionTime::Uniform { .. }
            | ExecutionTime::Exponential { .. }
            | ExecutionTime::Lognormal { .. } => None,
            ExecutionTime::Histogram { bins, file } => {
                let bins = match file {
                    Some(file) => inputs.histogram(file).unwrap_or_default(),
                    None => bins,
                };
                let provenance = Provenance::new(Evidence::Bound, subject, "histogram");
                between_the_ends(bins)
                    .map(|(low, high)| Distribution::from_bracket(provenance, low, high))
            }
            ExecutionTime::Trace {} => Some(traced(&task.arrivals, subject, inputs)),
            ExecutionTime::Samples { file } => {
                let counted = inputs.samples(file).unwrap_or_default();
                let values = counted
                    .iter()
                    .flat_map(|sample| std::iter::repeat_n(sample.value, sample.count as usize))
                    .collect();
                let method = format!("samples from {}", file.display());
                let provenance = Provenance::new(Evidence::Sample, subject, method);
                Some(Distribution::from_samples(provenance, values))
            }
            ExecutionTime::Calibrated { expected } => {
                let distribution =
                    calibration.and_then(|calibration| calibration.execution_times.get(task_name));
                match (distribution, expected) {
                    (Some(distribution), _) => Some(distribution.clone()),
                    (None, Some(expected)) => {
                        let provenance =
                            Provenance::new(Evidence::Estimate, subject, "as expected");
                        Some(Distribution::from_samples(provenance, vec![*expected]))
                    }
                    (None, None) => {
                        let task = format!("{name}.{task_name}");
                        return Err(AssessmentError::NotCalibrated { task });
                    }
                }
            }
        };
        if let Some(distribution) = distribution {
            times.measured.insert(task_name.clone(), distribution);
        }
    }
    Ok(times)
}

/// The execution times of the jobs of a trace.
fn traced(arrivals: &Arrivals, subject: String, inputs: &InputFiles) -> Distribution {
    let jobs = match arrivals {
        Arrivals::Trace { file } => inputs.trace(file).unwrap_or_default(),
        _ => &[],
    };
    let values = jobs.iter().filter_map(|job| job.execution).collect();
    let provenance = Provenance::new(Evidence::Sample, subject, "trace of jobs");
    Distribution::from_samples(provenance, values)
}

/// The distributions in which every job of a bin takes the shortest, and the longest, time in it:
/// whatever law holds within the bins lies between the two.
fn between_the_ends(bins: &[Bin]) -> Option<(StepCdf, StepCdf)> {
    let all: f64 = bins.iter().map(|bin| bin.count as f64).sum();
    let curve = |end: fn(&Bin) -> Duration| {
        let mut ends: BTreeMap<Duration, f64> = BTreeMap::new();
        for bin in bins.iter().filter(|bin| bin.count > 0) {
            *ends.entry(end(bin)).or_default() += bin.count as f64;
        }
        let mut below = 0.0;
        let steps = ends.into_iter().map(|(end, count)| {
            below += count;
            (end, (below / all).min(1.0))
        });
        StepCdf::new(steps.collect()).ok()
    };
    Some((curve(|bin| bin.from)?, curve(|bin| bin.to)?))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_histogram_lies_between_the_ends_of_its_bins() {
        let us = Duration::from_micros;
        let bin = |from, to, count| Bin {
            from: us(from),
            to: us(to),
            count,
        };
        let bins = [bin(10, 20, 3), bin(20, 50, 0), bin(15, 20, 1)];
        let (low, high) = between_the_ends(&bins).unwrap();
        assert_eq!(low.steps(), [(us(10), 0.75), (us(15), 1.0)]);
        assert_eq!(high.steps(), [(us(20), 1.0)]);
        assert_eq!(between_the_ends(&[bin(1, 2, 0)]), None);
    }

    fn deferrable(budget_us: u64) -> ReservationServer {
        ReservationServer::Deferrable {
            budget: Duration::from_micros(budget_us),
            period: Duration::from_millis(10),
        }
    }

    #[test]
    fn a_budget_lasts_longer_by_what_of_a_round_trip_is_no_execution() {
        let us = Duration::from_micros;
        let times = |trip, execution| ServiceTimes {
            trip_and_execution: Some((us(trip), us(execution))),
            ..ServiceTimes::default()
        };
        assert_eq!(
            times(2_200, 2_000).as_seen(deferrable(6_000)),
            deferrable(6_600)
        );
        // Rounded down to 10 us, never beyond the period, never below the budget.
        assert_eq!(
            times(2_001, 2_000).as_seen(deferrable(6_000)),
            deferrable(6_000)
        );
        assert_eq!(
            times(4_000, 2_000).as_seen(deferrable(6_000)),
            deferrable(10_000)
        );
        assert_eq!(
            times(4_000, 0).as_seen(deferrable(6_000)),
            deferrable(10_000)
        );
        let plain = ServiceTimes::default();
        assert_eq!(plain.as_seen(deferrable(6_000)), deferrable(6_000));
        let dedicated = ReservationServer::Dedicated;
        assert_eq!(times(2_200, 2_000).as_seen(dedicated), dedicated);
    }
}
