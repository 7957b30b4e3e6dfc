//! From what was found out to the result document.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use tailbound_analysis::{Prediction, SearchWatch, SharpPoints, Unwatched};
use tailbound_causes_report::{CausesSection, LatencyCauses};
use tailbound_chains_report::{ChainRow, ChainsSection};
use tailbound_distribution::{Distribution, merge};
use tailbound_enforcement::LedgerSummary;
use tailbound_measurement::Measurement;
use tailbound_model::{BackendKind, CpuPromise, InputFiles, LoadedDescription, Variant};
use tailbound_report::{
    BandsSection, Comparison, Labelled, MeasuredRun, RawData, RunReport, SchedulePicture,
    ServiceBand, VariantResult, Verdict, Warning, compare, noise_floor,
};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::band_history::{BandHistory, HistoryRun};
use crate::bands::{ServiceQueue, VariantBands, forecast_lines, judge};
use crate::calibration_record::CalibrationRecord;
use crate::calibrations::Calibrations;
use crate::campaign::{CampaignOptions, host};
use crate::chain_runs::{
    MeasuredSpan, bound_rows, chain_rows, has_job_logs, predicted_rows, simulated_rows,
};
use crate::measured_sample::MeasuredSample;
use crate::mode_changes::{ModeHistory, SeenChange};
use crate::recorded_run::EndedRecording;
use crate::repetition::{Bench, Repetition};
use crate::result_folder::{requests_path, write_calibrations, write_record, write_requests};
use tailbound_analysis::resolution::{Deployment, ResolvedDomain};
use tailbound_assessment::execution_times::ServiceTimes;
use tailbound_assessment::prediction::{FAITHFUL, predict_service};
use tailbound_assessment::service_simulation::{SimulatedSpan, simulated};

/// How much the time of a request may change from its calibration to the end of a run.
const TOLERATED_DRIFT: f64 = 0.1;

/// What an experiment has found out.
#[derive(Clone, Debug)]
pub struct Results {
    /// The result document.
    pub report: RunReport,
    /// Windows of simulated schedules, which are part of the page only.
    pub schedules: Vec<SchedulePicture>,
    /// The changes of modes while something was measured, as the daemon tells them.
    pub mode_changes: Vec<SeenChange>,
}

/// What an experiment has found out so far.
pub struct Findings<'a> {
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    seed: u64,
    results: Vec<VariantResult>,
    /// Windows of the schedules of the first variant that has any.
    schedules: Vec<SchedulePicture>,
    refusals: BTreeSet<String>,
    /// The folder of the results.
    out: PathBuf,
    /// The files with every request, as they were written.
    request_files: Vec<RawData>,
    /// The changes of modes so far.
    mode_changes: Vec<SeenChange>,
    /// What requests waited for, as far as it was recorded, and in simulation.
    causes: LatencyCauses,
    /// The prediction bands, with the runs so far.
    bands: Vec<ServiceBand>,
    /// The queues of which there are bands.
    queues: Vec<ServiceQueue>,
    /// The parts of the run that count.
    spans: Vec<MeasuredSpan>,
    /// The chains of tasks.
    chains: Vec<ChainRow>,
    /// How long a repetition is.
    duration: Duration,
    /// What earlier bands of this host were worth.
    pub history: BandHistory,
    /// What may spoil the result.
    pub warnings: Vec<Warning>,
    /// Why the run ended early, if it did.
    pub interrupted: Option<String>,
}

fn labelled(predictions: Vec<(&str, Prediction)>) -> Vec<Labelled> {
    let each = predictions.into_iter().map(|(label, prediction)| Labelled {
        label: label.into(),
        distribution: prediction.overall,
    });
    each.collect()
}

impl<'a> Findings<'a> {
    /// Nothing yet.
    pub fn new(
        loaded: &'a LoadedDescription,
        inputs: &'a InputFiles,
        seed: u64,
        out: &Path,
    ) -> Self {
        Self {
            loaded,
            inputs,
            seed,
            results: Vec::new(),
            schedules: Vec::new(),
            causes: LatencyCauses::default(),
            refusals: BTreeSet::new(),
            out: out.to_owned(),
            request_files: Vec::new(),
            mode_changes: Vec::new(),
            bands: Vec::new(),
            queues: Vec::new(),
            spans: Vec::new(),
            chains: Vec::new(),
            duration: Duration::ZERO,
            history: BandHistory::default(),
            warnings: Vec::new(),
            interrupted: None,
        }
    }

    /// The variants of the experiment, in their order.
    pub fn variants(&self) -> &'a [Variant] {
        &self.loaded.description.experiment.variants
    }

    /// Keeps what calibration has to say about itself, and writes its requests and its record to the
    /// result folder; returns the record.
    pub fn note_calibrations(&mut self, calibrations: &Calibrations) -> CalibrationRecord {
        let record = calibrations.record(&self.loaded.description.name);
        let path = "raw/calibration.csv".to_owned();
        let written = write_calibrations(calibrations, &self.out.join(&path));
        match written.and_then(|()| write_record(&record, &self.out)) {
            Ok(()) => self.request_files.push(RawData {
                label: "every request of the calibration".into(),
                path,
            }),
            Err(error) => self.warnings.push(Warning {
                what: error.to_string(),
                advice: "the predictions rest on it all the same".into(),
            }),
        }
        for (service, condition, calibration) in calibrations.iter() {
            let words = condition.in_words();
            self.warnings
                .extend(calibration.remarks.iter().map(|remark| Warning {
                    what: format!("calibration of {service}, {words}: {remark}"),
                    advice: "predictions rest on it: a quiet machine makes them better".into(),
                }));
        }
        record
    }

    /// Predicts and simulates every service in one variant.
    ///
    /// # Errors
    /// The description makes no sense to analysis or simulation.
    pub fn predict(
        &mut self,
        variant: &Variant,
        deployment: &Deployment,
        times: &BTreeMap<String, ServiceTimes>,
        bench: &Bench<'_>,
    ) -> Result<(), ExperimentError> {
        self.duration = bench.duration;
        let span = SimulatedSpan {
            warm_up: bench.warm_up,
            duration: bench.duration,
            seed: self.seed,
        };
        let description = &self.loaded.description;
        let simulated = simulated(deployment, &variant.name, times, self.inputs, span)?;
        let mut responses = simulated.services;
        self.causes.simulated.extend(simulated.explanations);
        // Those of the other variants would hide this one.
        if self.schedules.is_empty() {
            let windows = simulated.schedules.into_iter();
            self.schedules = windows
                .map(|(title, slice)| SchedulePicture { title, slice })
                .collect();
        }
        for (name, service) in &description.services {
            let domain = deployment.reserved.get(&service.domain);
            let server = domain.and_then(ResolvedDomain::server);
            let points = SharpPoints::default();
            let asked: (_, &dyn SearchWatch) = (&points, &Unwatched);
            let prediction = predict_service((name, service), &times[name], deployment, asked)?;
            if let (Some(refusal), Some(_)) = (&prediction.refused, server) {
                self.warnings.push(Warning {
                    what: format!(
                        "no prediction of {name} in variant {}: {}",
                        variant.name, refusal.why
                    ),
                    advice: "read the measured and simulated curves alone there".into(),
                });
            }
            self.results.push(VariantResult {
                variant: variant.name.clone(),
                service: name.clone(),
                backend: domain.map_or(BackendKind::UNRESERVED, |domain| domain.backend),
                interface: domain.and_then(ResolvedDomain::enforced_interface),
                neighbours: variant.neighbours,
                predicted: labelled(prediction.cases),
                simulated: responses.remove(name),
                measured: Vec::new(),
                intervals: Vec::new(),
                verdicts: Vec::new(),
            });
        }
        Ok(())
    }

    /// Predicts the bands of every service in one variant, for the runs that are about to be measured: what they
    /// say, in lines for people. Modes that change meanwhile are no part of a band.
    ///
    /// # Errors
    /// The description makes no sense to simulation.
    pub fn predict_bands(
        &mut self,
        variant: &Variant,
        deployment: &Deployment,
        (times, record): (&BTreeMap<String, ServiceTimes>, &CalibrationRecord),
        bench: &Bench<'_>,
    ) -> Result<Vec<String>, ExperimentError> {
        let mut lines = Vec::new();
        if self.refused(&variant.name) || (bench.modes.is_some() && variant.has_modes()) {
            return Ok(lines);
        }
        let from = (record, &self.history);
        let bands = VariantBands::predict((variant, deployment), times, from, bench)?;
        for (band, queue) in bands.bands {
            lines.extend(forecast_lines(&band));
            self.bands.push(band);
            self.queues.push(queue);
        }
        Ok(lines)
    }

    /// Whether the host refused a variant before.
    pub fn refused(&self, variant: &str) -> bool {
        self.refusals.contains(variant)
    }

    /// The host refuses a variant: it stays unmeasured.
    pub fn refuse(&mut self, variant: &str, why: &str) {
        self.refusals.insert(variant.into());
        self.warnings.push(Warning {
            what: format!("variant {variant} was not measured: {why}"),
            advice: "`tailbound doctor` tells what this host lacks and what to do".into(),
        });
    }

    /// Explains the requests of a recording.
    fn explain(&mut self, recording: &EndedRecording) {
        self.request_files.push(RawData {
            label: format!("{}: the kernel's events", recording.run),
            path: format!("raw/{}", recording.file_name()),
        });
        match recording.explain() {
            Ok(explanations) => self.causes.measured.extend(explanations),
            Err(cause) => self.warnings.push(Warning {
                what: format!("{} cannot be explained: {cause}", recording.run),
                advice: "`tailbound trace report` tells what the recording holds".into(),
            }),
        }
    }

    /// Notes the part of the run that a repetition counts for.
    fn note_span(&mut self, variant: &str, repetition: &Repetition) {
        if let Some((begin, end)) = repetition.span {
            let earlier = self.spans.iter().filter(|span| span.variant == variant);
            self.spans.push(MeasuredSpan {
                variant: variant.to_owned(),
                repetition: earlier.count() + 1,
                begin,
                end,
            });
        }
    }

    /// Reads the logs of jobs, once the programs have written them.
    pub fn note_chains(&mut self) {
        let description = &self.loaded.description;
        let as_described = self
            .variants()
            .iter()
            .find(|variant| variant.backend.is_none() && variant.margin_points.is_none());
        if let Some(variant) = as_described {
            let bounds = bound_rows(description, self.inputs, &variant.name);
            self.chains.extend(bounds);
        }
        for variant in self.variants() {
            let predicted = predicted_rows(description, self.inputs, &variant.name);
            self.chains.extend(predicted);
            let course = (self.seed, self.duration);
            let simulated = simulated_rows(description, self.inputs, &variant.name, course);
            self.chains.extend(simulated);
        }
        if self.spans.is_empty() || !has_job_logs(description) {
            return;
        }
        match chain_rows(description, &self.out, &self.spans) {
            Ok(rows) => self.chains.extend(rows),
            Err(error) => self.warnings.push(Warning {
                what: format!("the chains were not measured: {error}"),
                advice: "look into the logs of the programs, in the folder of the results".into(),
            }),
        }
    }

    /// Warns of the events of the health of domains.
    fn note_health(&mut self, variant: &str, repetition: &Repetition) {
        for (domain, totals) in &repetition.health {
            if let Some(events) = totals.in_words() {
                self.warnings.push(Warning {
                    what: format!("domain \"{domain}\" of variant {variant}: {events}"),
                    advice: "logs/health.jsonl in the folder of the results has each event".into(),
                });
            }
        }
    }

    /// Adds one repetition of a variant, and writes its requests to the result folder at once, so
    /// that they outlive whatever comes later.
    pub fn add(&mut self, variant: &str, mut repetition: Repetition) {
        let initial = self.loaded.description.initial_mode.as_deref();
        let course = ModeHistory::of(initial.unwrap_or_default(), &repetition.mode_changes);
        self.note_changes(variant, &repetition);
        self.note_span(variant, &repetition);
        self.note_health(variant, &repetition);
        if let Some(recording) = &repetition.recording {
            self.explain(recording);
        }
        for result in self
            .results
            .iter_mut()
            .filter(|result| result.variant == variant)
        {
            let Some(measured) = repetition.measured.remove(&result.service) else {
                continue;
            };
            let ledger = repetition.ledgers.remove(&result.service);
            let label = format!("{} of variant {variant}", result.service);
            let drift = repetition.drifts.get(&result.service);
            self.warnings
                .extend(drift.and_then(|factor| drift_warning(&label, *factor)));
            let held = ledger.as_ref().map(|seen| seen.held);
            self.warnings
                .extend(held.and_then(|held| held_warning(&label, held)));
            for remark in &measured.remarks {
                let what = format!("{label}: {remark}");
                let advice = "see `tailbound doctor`".to_owned();
                if !self.warnings.iter().any(|warning| warning.what == what) {
                    self.warnings.push(Warning { what, advice });
                }
            }
            for (text, times) in &measured.failures {
                self.warnings.push(Warning {
                    what: format!("{label}: {times} requests failed: {text}"),
                    advice: "look at the service's log in the result folder".into(),
                });
            }
            let index = result.measured.len();
            let file = requests_path(result, index);
            match write_requests(&measured, &self.out.join(&file)) {
                Ok(()) => self.request_files.push(RawData {
                    label: format!("{}: every request", run_label(result, index)),
                    path: file,
                }),
                Err(error) => self.warnings.push(Warning {
                    what: error.to_string(),
                    advice: "the distributions are kept all the same".into(),
                }),
            }
            let mut run = measured_run(&measured, ledger);
            let mut bands = self.bands.iter_mut();
            let band = bands.find(|one| one.variant == variant && one.service == result.service);
            if let Some(band) = band.filter(|_| run.interrupted.is_none()) {
                let supply = band.cpu.and_then(|cpu| repetition.supply_of(cpu));
                let budget = result.interface.as_ref().map(|interface| interface.budget);
                judge(band, &run, budget, drift.copied(), supply.as_ref());
            }
            if !repetition.mode_changes.is_empty() {
                run.per_mode = course.split(&measured);
            }
            result.measured.push(run);
        }
    }

    /// Keeps the changes of modes in a repetition, of which predictions know nothing.
    fn note_changes(&mut self, variant: &str, repetition: &Repetition) {
        let started_at = repetition.measured.values().map(|one| one.started_at);
        let (Some(started_at), false) = (started_at.min(), repetition.mode_changes.is_empty())
        else {
            return;
        };
        let mut results = self.results.iter();
        let earlier = results.find(|result| result.variant == variant);
        let number = earlier.map_or(0, |result| result.measured.len()) + 1;
        for report in &repetition.mode_changes {
            let began = report.timeline.began_at.unwrap_or(started_at);
            self.mode_changes.push(SeenChange {
                variant: variant.into(),
                repetition: number,
                began_after: began.saturating_since(started_at),
                report: report.clone(),
            });
        }
        let what = format!("modes were changed while variant {variant} was measured");
        if !self.warnings.iter().any(|warning| warning.what == what) {
            self.warnings.push(Warning {
                what,
                advice: "predictions and simulations are of the described reservations, without \
                         changes; compare them with the table of latencies by mode"
                    .into(),
            });
        }
    }

    /// The measured runs with their bands, for the host's history.
    fn history_runs(&self, started_at: &str) -> Vec<HistoryRun> {
        let name = &self.loaded.description.name;
        let of_band = |one: &ServiceBand| {
            let mut results = self.results.iter();
            let result = results
                .find(|result| result.variant == one.variant && result.service == one.service);
            let backend = result.map_or(BackendKind::UNRESERVED, |result| result.backend);
            let runs = one.past().into_iter().map(|quantiles| {
                let subject = (one.service.as_str(), backend);
                self.history
                    .entry((started_at, name), subject, one.band.duration, quantiles)
            });
            runs.collect::<Vec<HistoryRun>>()
        };
        self.bands.iter().flat_map(of_band).collect()
    }

    /// Finds the intervals of what was measured: by a queue where there is one that fits, else by batches of requests.
    fn find_intervals(&mut self) {
        for result in &mut self.results {
            let service = self.loaded.description.services.get(&result.service);
            let sample = service.and_then(|service| MeasuredSample::of(result, service));
            let (Some(service), Some(sample)) = (service, sample) else {
                continue;
            };
            let mut queues = self.queues.iter();
            let queue =
                queues.find(|one| one.variant == result.variant && one.service == result.service);
            let fitted = queue.map(|queue| {
                queue.measured_intervals(service, self.inputs, (result, &sample), self.seed)
            });
            result.intervals = match fitted {
                Some(Ok(intervals)) => intervals,
                Some(Err(error)) => {
                    self.warnings.push(Warning {
                        what: format!(
                            "no queue fits what was measured of {} of variant {}: {error}",
                            result.service, result.variant
                        ),
                        advice: "its confidence intervals come from batches of its requests, and are wider"
                            .into(),
                    });
                    sample.intervals(self.duration)
                }
                None => sample.intervals(self.duration),
            };
        }
    }

    /// The verdicts on all promises.
    fn decide(&mut self) {
        for result in &mut self.results {
            let Some(service) = self.loaded.description.services.get(&result.service) else {
                continue;
            };
            let predicted = faithful(&result.predicted);
            let overall = result.measured_together();
            let verdicts = service.slos.iter().map(|slo| {
                // A service with one task has the latencies of that one alone, under no name.
                let task = slo.task.as_deref().filter(|_| result.has_tasks());
                let interval = result.interval(task, slo.percentile.0);
                match &slo.task {
                    None => Verdict::decide(slo, predicted, overall.as_ref(), interval),
                    Some(task) => {
                        let measured = pooled_task(&result.measured, task);
                        Verdict::decide(slo, None, measured.as_ref(), interval)
                    }
                }
            });
            result.verdicts = verdicts.collect();
        }
    }

    /// The result document, with verdicts and comparisons.
    pub fn into_results(mut self, options: &CampaignOptions) -> Results {
        self.find_intervals();
        self.decide();
        if let Err(cause) = self.history.append(&self.history_runs(&options.started_at)) {
            let file = self.history.file().unwrap_or(Path::new(""));
            self.warnings.push(Warning {
                what: format!(
                    "what the bands were worth is not kept: cannot write {}: {cause}",
                    file.display()
                ),
                advice: "name a file that you may write with --history, or choose --no-history"
                    .into(),
            });
        }
        let comparisons = comparisons(&self.results);
        let mut raw_data = raw_data(&self.results);
        raw_data.extend(self.request_files);
        let mut report = RunReport {
            name: self.loaded.description.name.clone(),
            description_toml: self.loaded.text.clone(),
            started_at: options.started_at.clone(),
            seed: self.seed,
            host: host(),
            commands: options.commands.clone(),
            warnings: self.warnings,
            variants: self.results,
            comparisons,
            interrupted: self.interrupted,
            raw_data,
            ..RunReport::default()
        };
        if let Err(cause) = CausesSection::put(&mut report, &self.causes) {
            report.warnings.push(Warning {
                what: format!("what requests waited for is not in the report: {cause}"),
                advice: "`tailbound explain` tells it from the recordings".into(),
            });
        }
        if let Err(cause) = ChainsSection::put(&mut report, &self.chains) {
            report.warnings.push(Warning {
                what: format!("the chains are not in the report: {cause}"),
                advice: "the logs of jobs in the folder of the results have their data".into(),
            });
        }
        if let Err(cause) = BandsSection::put(&mut report, &self.bands) {
            report.warnings.push(Warning {
                what: format!("the prediction bands are not in the report: {cause}"),
                advice: "the other tables do not need them".into(),
            });
        }
        Results {
            report,
            schedules: self.schedules,
            mode_changes: self.mode_changes,
        }
    }
}

/// That requests take another time than when they were calibrated.
fn drift_warning(label: &str, factor: f64) -> Option<Warning> {
    let changed = (factor - 1.0).abs() > TOLERATED_DRIFT;
    changed.then(|| Warning {
        what: format!(
            "{label}: after the run a single request took {factor:.2} times as long as when it was \
             calibrated: the prediction is for the machine as it was then"
        ),
        advice: "run it again on a quieter machine before you blame or praise the prediction"
            .into(),
    })
}

/// That the domain was stopped while it had budget, which no prediction knows of.
fn held_warning(label: &str, held: Duration) -> Option<Warning> {
    (!held.is_zero()).then(|| Warning {
        what: format!(
            "{label}: its domain was stopped for {held} in all although it had budget, since it \
             was busy for so long that the kernel's real-time throttling was near; the prediction \
             does not know of it"
        ),
        advice: "a shorter period with the same bandwidth never comes near".into(),
    })
}

/// The files that [`crate::write`] makes, for the page to link to.
fn raw_data(results: &[VariantResult]) -> Vec<RawData> {
    let runs = results.iter().flat_map(|result| {
        (0..result.measured.len()).map(move |index| RawData {
            label: run_label(result, index),
            path: format!("raw/{}.csv", crate::result_folder::raw_name(result, index)),
        })
    });
    runs.collect()
}

fn run_label(result: &VariantResult, index: usize) -> String {
    format!(
        "{} of {}, run {}",
        result.service,
        result.variant,
        index + 1
    )
}

/// The account of windows as the report has it.
fn window_ledger(ledger: &LedgerSummary) -> Option<tailbound_report::WindowLedger> {
    ledger
        .windows
        .as_ref()
        .map(|windows| tailbound_report::WindowLedger {
            late_by_host: windows.late_by_host.edges,
            late_by_partition: windows.late_by_partition.edges,
            late_by_manager: windows.late_by_manager.edges,
            missed: ledger.skipped,
            overruns: windows.overruns,
            worst_start_ns: windows.worst_start.as_nanos(),
        })
}

fn measured_run(measured: &Measurement, ledger: Option<LedgerSummary>) -> MeasuredRun {
    let per_task = if measured.per_task.len() > 1 {
        measured.per_task.clone()
    } else {
        BTreeMap::new()
    };
    MeasuredRun {
        overall: measured.overall.clone(),
        per_task,
        per_mode: BTreeMap::new(),
        lateness: measured.lateness.clone(),
        sent: measured.counts.sent,
        answered: measured.counts.answered,
        failed: measured.counts.failed(),
        connections: Some(tailbound_report::ConnectionTotals {
            at_start: measured.connection_counts.at_start,
            replacements: measured.connection_counts.replacements,
            streams_at_once: measured.connection_counts.streams_at_once,
        }),
        ledger: ledger.map(|ledger| tailbound_report::LedgerTotals {
            periods: ledger.periods,
            depletions: ledger.depletions,
            used_ns: ledger.consumed.as_nanos(),
            reserved_ns: ledger.reserved.as_nanos(),
            overrun_p50_ns: ledger.overrun_p50.map_or(0, Duration::as_nanos),
            overrun_p99_ns: ledger.overrun_p99.map_or(0, Duration::as_nanos),
            overrun_max_ns: ledger.largest_overrun.as_nanos(),
            held_ns: ledger.held.as_nanos(),
            manager_ns: ledger.manager_time.as_nanos(),
            windows: window_ledger(&ledger),
        }),
        interrupted: measured.interrupted.clone(),
    }
}

fn pooled_task(measured: &[MeasuredRun], task: &str) -> Option<Distribution> {
    let parts: Vec<&Distribution> = measured
        .iter()
        .filter_map(|run| run.per_task.get(task).or(Some(&run.overall)))
        .collect();
    merge(&parts).ok()
}

/// Every variant against the dedicated CPU, and every variant against its own prediction and
/// simulation. The noise floor is the distance between two runs on the dedicated CPU.
fn comparisons(results: &[VariantResult]) -> Vec<Comparison> {
    let mut all = Vec::new();
    let services: BTreeSet<&str> = results
        .iter()
        .map(|result| result.service.as_str())
        .collect();
    for service in services {
        let of_service: Vec<&VariantResult> = results
            .iter()
            .filter(|result| result.service == service)
            .collect();
        let dedicated = of_service
            .iter()
            .find(|result| result.backend.promise() == CpuPromise::WholeCpus);
        let floor = dedicated.and_then(|dedicated| {
            let runs: Vec<&Distribution> =
                dedicated.measured.iter().map(|run| &run.overall).collect();
            noise_floor(&runs)
        });
        let baseline = dedicated.and_then(|dedicated| dedicated.measured.first());
        for result in &of_service {
            let Some(measured) = result.measured_together() else {
                continue;
            };
            let label = |kind: &str| format!("{} ({kind})", result.variant);
            if let Some(predicted) = faithful(&result.predicted) {
                let labels = (label("predicted"), label("measured"));
                all.extend(pair(service, labels, (predicted, &measured), floor));
            }
            if let Some(simulated) = &result.simulated {
                let labels = (label("simulated"), label("measured"));
                all.extend(pair(service, labels, (simulated, &measured), floor));
            }
            let Some(baseline) = baseline else { continue };
            for (index, run) in result.measured.iter().enumerate() {
                if result.backend.promise() == CpuPromise::WholeCpus && index == 0 {
                    continue;
                }
                let right = format!("{} (run {})", result.variant, index + 1);
                let labels = ("dedicated (run 1)".to_owned(), right);
                all.extend(pair(
                    service,
                    labels,
                    (&baseline.overall, &run.overall),
                    floor,
                ));
            }
        }
    }
    all
}

/// A comparison; none where too much of a distribution's tail is not known.
fn pair(
    service: &str,
    labels: (String, String),
    distributions: (&Distribution, &Distribution),
    floor: Option<Duration>,
) -> Option<Comparison> {
    compare(
        service,
        (&labels.0, distributions.0),
        (&labels.1, distributions.1),
        floor,
    )
    .ok()
}

/// The distribution that a verdict is compared with: the prediction from all that is known.
fn faithful(predicted: &[Labelled]) -> Option<&Distribution> {
    let mut predicted = predicted.iter();
    let labelled = predicted.find(|labelled| labelled.label == FAITHFUL);
    labelled.map(|labelled| &labelled.distribution)
}
