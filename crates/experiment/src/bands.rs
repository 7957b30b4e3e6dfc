//! Prediction bands of the runs that are about to be measured, from what calibration saw of the host.

use std::collections::BTreeMap;

use tailbound_analysis::resolution::{Deployment, ResolvedDomain};
use tailbound_assessment::band::{
    BAND_COVERAGE, BandError, BandQuery, IntervalQuery, LateLook, MeasuredInterval, PastQuantile,
    ProcessRound, RequestTime, RunRecord, RunSetting, ServiceProcess, SupplyProcess,
    affordable_runs, measured_intervals, predict_band,
};
use tailbound_assessment::execution_times::ServiceTimes;
use tailbound_distribution::Distribution;
use tailbound_measurement::supply::LOOK_DISTANCE;
use tailbound_measurement::{Calibration, CalibrationRound, RoundRequest, SupplyTrace};
use tailbound_model::{Cpu, Description, InputFiles, ReservationServer, Service, Variant};
use tailbound_report::{
    CONFIDENCE, HistoryNote, MeasuredRun, ServiceBand, VariantResult, forecast_line, readable,
};
use tailbound_simulator::workload::{Release, releases};
use tailbound_time::{Duration, Instant};

use crate::ExperimentError;
use crate::band_history::BandHistory;
use crate::calibration_record::CalibrationRecord;
use crate::calibrations::Condition;
use crate::measured_sample::MeasuredSample;
use crate::repetition::Bench;

/// The service whose band is wanted, in a variant.
pub(crate) struct BandSubject<'a> {
    /// The variant's name.
    pub variant: &'a str,
    /// The service's name.
    pub name: &'a str,
    /// The service.
    pub service: &'a Service,
    /// Its domain with what it gets.
    pub domain: &'a ResolvedDomain,
    /// The condition under which it was calibrated.
    pub condition: Condition,
    /// Its execution times, as the model's answer has them.
    pub times: &'a ServiceTimes,
}

impl BandSubject<'_> {
    /// The queue whose runs can be simulated.
    ///
    /// # Errors
    /// [`NoQueue`] says what is missing.
    pub(crate) fn queue(
        &self,
        record: &CalibrationRecord,
        bench: &Bench<'_>,
    ) -> Result<ServiceQueue, NoQueue> {
        let server = self.domain.server().ok_or(NoQueue::NoGuarantee)?;
        if self.domain.shares_guarantee() {
            return Err(NoQueue::SeveralCpus);
        }
        if !self.is_alone(&bench.loaded.description) {
            return Err(NoQueue::Shared);
        }
        let whole_trips = self.times.trip_and_execution.is_some();
        let process = record.process(self.name, self.condition, whole_trips);
        let process = process.ok_or(NoQueue::NotCalibrated(self.condition))?;
        let cpu = single_cpu(self.domain);
        Ok(ServiceQueue {
            variant: self.variant.into(),
            service: self.name.into(),
            server: self.times.as_seen(server),
            process,
            cpu,
            supply: cpu.and_then(|cpu| record.supply(cpu)),
            warm_up: bench.warm_up,
            duration: bench.duration,
        })
    }

    /// The band of the run; `None` where nothing of it can be predicted.
    ///
    /// # Errors
    /// The releases of the run cannot be made.
    pub(crate) fn band(
        &self,
        queue: &ServiceQueue,
        history: &BandHistory,
        bench: &Bench<'_>,
    ) -> Result<Option<ServiceBand>, ExperimentError> {
        // Its runs have releases of their own, and users ask by what they are answered.
        if self.service.users.is_some() {
            return Ok(None);
        }
        let runs = self.runs(queue.clone(), history, bench)?;
        match predict_band(&runs.query()) {
            Ok(band) => Ok(Some(ServiceBand {
                variant: self.variant.into(),
                service: self.name.into(),
                cpu: queue.cpu,
                band,
                runs: Vec::new(),
                history: history.file().map(|file| HistoryNote {
                    file: file.display().to_string(),
                    earlier: runs.earlier_runs,
                }),
            })),
            // The model's answer says so, too.
            Err(BandError::NotCalibrated { .. } | BandError::NoReleases { .. }) => Ok(None),
            Err(error) => Err(tailbound_assessment::AssessmentError::from(error).into()),
        }
    }

    /// The runs of the queue, as bands and sizes have them.
    ///
    /// # Errors
    /// The releases of the run cannot be made.
    pub(crate) fn runs(
        &self,
        queue: ServiceQueue,
        history: &BandHistory,
        bench: &Bench<'_>,
    ) -> Result<PlannedRuns, ExperimentError> {
        let description = &bench.loaded.description;
        let past = history.earlier(&description.name, self.name, self.domain.backend);
        let horizon = bench.warm_up.saturating_add(bench.duration);
        let releases = releases(self.service, horizon, bench.seed, bench.inputs)?;
        Ok(PlannedRuns {
            queue,
            service: self.service.clone(),
            releases,
            earlier: past.iter().flat_map(|run| run.quantiles.clone()).collect(),
            earlier_runs: past.len(),
            seed: bench.seed,
        })
    }

    /// Whether nothing else uses the budget of the domain.
    fn is_alone(&self, description: &Description) -> bool {
        let services = description.services.values();
        let same = services.filter(|other| other.domain == self.service.domain);
        same.count() == 1
    }
}

/// Why the runs of a service cannot be simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoQueue {
    /// The back end promises nothing.
    #[error("the back end guarantees the domain no CPU time")]
    NoGuarantee,
    /// Several CPUs spend the budget.
    #[error("several CPUs share the budget of its domain")]
    SeveralCpus,
    /// Another service spends the budget, too.
    #[error("another service is in the same domain")]
    Shared,
    /// There are no execution times of this condition.
    #[error("the service was not calibrated {}", .0.in_words())]
    NotCalibrated(Condition),
}

/// The bands of the services in a variant, with the queues that they are of; of a service without one, why.
pub(crate) struct VariantBands {
    /// The bands with their queues.
    pub bands: Vec<(ServiceBand, ServiceQueue)>,
    /// The services without a band that has a reservation, each with the reason.
    pub missing: Vec<(String, NoQueue)>,
}

impl VariantBands {
    /// Predicts the bands of the run that `bench` is about. Modes that change meanwhile are no part of a band.
    ///
    /// # Errors
    /// The description makes no sense to simulation.
    pub(crate) fn predict(
        (variant, deployment): (&Variant, &Deployment),
        times: &BTreeMap<String, ServiceTimes>,
        (record, history): (&CalibrationRecord, &BandHistory),
        bench: &Bench<'_>,
    ) -> Result<Self, ExperimentError> {
        let (mut bands, mut missing) = (Vec::new(), Vec::new());
        for (name, service) in &bench.loaded.description.services {
            let domain = deployment.reserved.get(&service.domain);
            let (Some(domain), Some(times)) = (domain, times.get(name)) else {
                continue;
            };
            let subject = BandSubject {
                variant: &variant.name,
                name,
                service,
                domain,
                condition: Condition::of(variant, Some(domain)),
                times,
            };
            match subject.queue(record, bench) {
                Err(why) => missing.push((name.clone(), why)),
                Ok(queue) => {
                    let band = subject.band(&queue, history, bench)?;
                    bands.extend(band.map(|band| (band, queue)));
                }
            }
        }
        Ok(Self { bands, missing })
    }
}

/// `ServiceQueue` is the queue of a service in a variant, as its runs are simulated.
#[derive(Clone, Debug)]
pub(crate) struct ServiceQueue {
    /// The variant.
    pub variant: String,
    /// The service.
    pub service: String,
    server: ReservationServer,
    process: ServiceProcess,
    /// The CPU whose supply counts; `None` for a domain with several.
    cpu: Option<Cpu>,
    supply: Option<SupplyProcess>,
    warm_up: Duration,
    duration: Duration,
}

impl ServiceQueue {
    fn setting<'a>(&'a self, service: &'a Service) -> RunSetting<'a> {
        RunSetting {
            name: &self.service,
            service,
            server: self.server,
            process: &self.process,
            supply: self.supply.as_ref(),
            warm_up: self.warm_up,
            duration: self.duration,
        }
    }

    /// The intervals of what was measured of the queue: those of all percentiles in a report and of the promises, of
    /// all tasks together and of each.
    ///
    /// # Errors
    /// [`BandError`] says why there are none.
    pub(crate) fn measured_intervals(
        &self,
        service: &Service,
        inputs: &InputFiles,
        (result, sample): (&VariantResult, &MeasuredSample),
        seed: u64,
    ) -> Result<Vec<MeasuredInterval>, BandError> {
        let tasks = sample.tasks.iter();
        let tasks: Vec<(&str, &Distribution)> =
            tasks.map(|(task, all)| (task.as_str(), all)).collect();
        let requests = result.measured.iter().map(|run| run.sent).max();
        measured_intervals(&IntervalQuery {
            setting: self.setting(service),
            inputs,
            measured: &sample.overall,
            tasks: &tasks,
            percentiles: &sample.percentiles,
            confidence: CONFIDENCE,
            runs: affordable_runs(requests.unwrap_or(0) as usize),
            seed,
        })
    }
}

/// `PlannedRuns` are the runs of a service that is about to be measured, with what corrects their bands.
pub(crate) struct PlannedRuns {
    /// The queue.
    pub queue: ServiceQueue,
    service: Service,
    releases: Vec<Release>,
    earlier: Vec<PastQuantile>,
    /// The number of earlier runs that correct the bands.
    earlier_runs: usize,
    seed: u64,
}

impl PlannedRuns {
    /// The question for the band of the runs.
    pub(crate) fn query(&self) -> BandQuery<'_> {
        BandQuery {
            setting: self.queue.setting(&self.service),
            releases: &self.releases,
            promises: &self.service.slos,
            runs: affordable_runs(self.releases.len()),
            coverage: BAND_COVERAGE,
            seed: self.seed,
            earlier: &self.earlier,
        }
    }
}

/// The CPU of a domain that has one.
fn single_cpu(domain: &ResolvedDomain) -> Option<Cpu> {
    let mut cpus = domain.interface.cpus.iter();
    match (cpus.next(), cpus.next()) {
        (Some(cpu), None) => Some(*cpu),
        _ => None,
    }
}

/// What a band says, in lines for people, before anything is measured.
pub(crate) fn forecast_lines(one: &ServiceBand) -> Vec<String> {
    let ServiceBand {
        variant, service, ..
    } = one;
    let promises = one.band.promises.iter();
    let promises = promises.map(|promise| forecast_line(one, promise));
    let p99 = one.band.quantile(99.0).map(|quantile| {
        format!(
            "{variant}: p99 of {service} will lie between {} and {} with {:.0}%",
            readable(quantile.low),
            readable(quantile.high),
            one.band.coverage * 100.0
        )
    });
    p99.into_iter().chain(promises).collect()
}

/// Holds a measured run against its band.
pub(crate) fn judge(
    one: &mut ServiceBand,
    run: &MeasuredRun,
    budget: Option<Duration>,
    level: Option<f64>,
    supply: Option<&SupplyProcess>,
) {
    let ledger = run.ledger.as_ref();
    let of_ledger = |ns: fn(&tailbound_report::LedgerTotals) -> u64| {
        ledger.map(|ledger| Duration::from_nanos(ns(ledger)))
    };
    let lateness = run.lateness.quantile(0.99);
    let record = RunRecord {
        lateness: lateness.map(|interval| interval.high.unwrap_or(interval.low)),
        level,
        supply,
        overrun: of_ledger(|ledger| ledger.overrun_p99_ns),
        budget,
        held: of_ledger(|ledger| ledger.held_ns),
    };
    one.judge(&run.overall, &record);
}

/// The supply of a CPU, as bands have it.
pub(crate) fn supply_process(trace: &SupplyTrace) -> SupplyProcess {
    let late = trace.gaps.iter().map(|gap| LateLook {
        due: gap.due.saturating_since(trace.begin),
        late: gap.late,
    });
    SupplyProcess {
        span: trace.end.saturating_since(trace.begin),
        distance: LOOK_DISTANCE,
        late: late.collect(),
    }
}

/// The rounds of a calibration as a process in time: all of them, since a run sees slow ones, too, and of each the
/// requests during which the CPU was not taken away.
pub(crate) fn service_process(
    calibration: &Calibration,
    rounds: &[CalibrationRound],
) -> ServiceProcess {
    let requests = |round: &CalibrationRound| -> Vec<RoundRequest> {
        round.tasks.values().flatten().copied().collect()
    };
    let begin = rounds.iter().flat_map(requests).map(|one| one.sent).min();
    let begin = begin.unwrap_or(Instant::ORIGIN);
    let time = |request: &RoundRequest| {
        let busy = calibration.execution(request);
        RequestTime {
            busy,
            beside: request.round_trip.saturating_sub(busy),
            asked: request.asked,
        }
    };
    let rounds = rounds.iter().map(|round| {
        let all = requests(round);
        let first = all.iter().map(|one| one.sent).min().unwrap_or(begin);
        let ends = all
            .iter()
            .map(|one| one.sent.saturating_add(one.round_trip));
        let tasks = round.tasks.iter().map(|(task, all)| {
            let calm = all.iter().filter(|request| !request.stalled);
            (task.clone(), calm.map(time).collect())
        });
        ProcessRound {
            begin: first.saturating_since(begin),
            end: ends.max().unwrap_or(first).saturating_since(begin),
            tasks: tasks.collect::<BTreeMap<String, Vec<RequestTime>>>(),
        }
    });
    ServiceProcess::new(rounds.collect())
}

#[cfg(test)]
mod tests;
