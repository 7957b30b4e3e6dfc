//! The whole experiment: predict, simulate, then measure every variant, interleaved.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_control::ClientError;
use tailbound_linux::HostCapabilities;
use tailbound_measurement::{AdviceQuery, Noise, advice, fingerprint, fingerprint_line, noise};
use tailbound_model::{CpuSet, Description, InputFiles, LoadedDescription, Variant};
use tailbound_modes::table::ModeTable;
use tailbound_report::Warning;
use tailbound_time::Duration;

use crate::band_history::BandHistory;
use crate::calibration_record::CalibrationRecord;
use crate::calibrations::{Calibrating, Condition, RoundCounts};
use crate::chain_runs::remove_job_logs;
use crate::host_check::{Obstacle, obstacle_of_run};
use crate::host_set::HostSet;
use crate::programs::Surroundings;
use crate::recorded_run::{EndedRecording, RecordingPlan};
use crate::repetition::{Bench, Repetition, RepetitionSlot};
use crate::results::{Findings, Results};
use crate::testbed::Testbed;
use crate::{ExperimentError, ExperimentStep, Observer};
use tailbound_analysis::resolution::{Deployment, unenforceable};
use tailbound_assessment::execution_times::{ServiceTimes, execution_times};

/// How long each CPU's noise is sampled before a run.
const NOISE_SAMPLE: Duration = Duration::from_millis(300);

/// How long the supply of the CPUs is sampled before a run: stalls that come once in some seconds do not show in
/// less.
const SUPPLY_SPAN: Duration = Duration::from_secs(30);

/// Why a run ended early at Ctrl-C.
const STOPPED_BY_USER: &str = "the user asked to stop";

/// The share of lost time that needs no warning.
const TOLERATED_NOISE: f64 = 0.01;

/// How an experiment is run.
#[derive(Clone, Debug)]
pub struct CampaignOptions {
    /// The folder of the results.
    pub out: PathBuf,
    /// Our own executable, for the built-in programs.
    pub executable: PathBuf,
    /// Factor on the duration and the warm-up.
    pub duration_scale: f64,
    /// The seed, in place of the description's.
    pub seed: Option<u64>,
    /// Predict and simulate only.
    pub simulate_only: bool,
    /// The commands that repeat the run.
    pub commands: Vec<String>,
    /// When the run begins, RFC 3339 in UTC.
    pub started_at: String,
    /// The file with what earlier bands of this host were worth; `None` leaves bands uncorrected, and keeps nothing.
    pub history: Option<PathBuf>,
    /// The modes of the description, to be changed while it is measured as described.
    pub modes: Option<ModeTable>,
    /// Record the kernel's events while it is measured, for `tailbound explain`.
    pub trace: bool,
}

/// Runs the experiment of `loaded` and returns what it found out.
///
/// Where the host cannot enforce the first variant, the run predicts and simulates only, and says
/// why; another variant that it refuses is left unmeasured, with a warning. A service or a daemon
/// that dies ends the run, and what was measured until then is reported.
///
/// # Errors
/// The first variant asks for more than there is, or nothing could be predicted or measured at all.
pub fn run(
    loaded: &LoadedDescription,
    inputs: &InputFiles,
    options: &CampaignOptions,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<Results, ExperimentError> {
    if let Some(reason) = unenforceable(&loaded.description) {
        return Err(ExperimentError::Unenforceable { reason });
    }
    refuse_delays(&loaded.description)?;
    let seed = seed(loaded, options);
    let mut findings = Findings::new(loaded, inputs, seed, &options.out);
    let deployments = deployments(loaded)?;
    let simulated_only =
        options.simulate_only || !host_is_fit(&loaded.description, &mut findings, observer)?;
    findings.warnings.extend(scale_warning(options));
    let bench = bench(loaded, inputs, options, stop);
    let (mut testbed, mut record) = (None, None);
    if !simulated_only {
        findings.warnings.extend(host_warnings(loaded, observer));
        findings.history = history(options, observer);
        let calibrating = Calibrating {
            variants: measurable(loaded, &deployments, &findings),
            seed,
            rounds: RoundCounts::for_scale(options.duration_scale),
            supply_span: supply_span(&bench),
            stop,
        };
        let ready = calibrated_testbed((loaded, inputs), options, &calibrating, observer)?;
        record = Some(findings.note_calibrations(&ready.calibrations));
        testbed = Some(ready);
    } else if options.simulate_only {
        findings.warnings.push(Warning {
            what: "nothing was measured: this run predicts and simulates only".into(),
            advice: "run it without --simulate-only on a host that `tailbound doctor` passes"
                .into(),
        });
    }
    observer.step(&step("predicting and simulating", 0.05));
    predict_all(
        &bench,
        &deployments,
        record.as_ref(),
        &mut findings,
        observer,
    )?;
    if let Some(testbed) = &mut testbed {
        let mut rig = Rig {
            bench: &bench,
            testbed,
        };
        measure_all(&mut rig, &deployments, &mut findings, observer);
    }
    // The programs write their logs when they end.
    drop(testbed);
    findings.note_chains();
    Ok(findings.into_results(options))
}

/// The seed of the options, or that of the description.
fn seed(loaded: &LoadedDescription, options: &CampaignOptions) -> u64 {
    options.seed.unwrap_or(loaded.description.seed)
}

/// What all repetitions share.
fn bench<'a>(
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    options: &'a CampaignOptions,
    stop: &'a AtomicBool,
) -> Bench<'a> {
    let experiment = &loaded.description.experiment;
    Bench {
        loaded,
        inputs,
        duration: scaled(experiment.duration, options.duration_scale),
        warm_up: scaled(experiment.warm_up, options.duration_scale),
        seed: seed(loaded, options),
        stop,
        modes: options.modes.as_ref(),
        recordings: options.trace.then(|| RecordingPlan {
            folder: options.out.join("raw"),
            started_at: options.started_at.clone(),
        }),
    }
}

/// The history of the bands of this host.
fn history(options: &CampaignOptions, observer: &mut dyn Observer) -> BandHistory {
    let host = fingerprint_line(&fingerprint());
    let (history, remarks) = BandHistory::read_or_none(options.history.as_deref(), &host);
    remarks.iter().for_each(|remark| observer.remark(remark));
    history
}

/// Refuses services with tasks whose jobs have delays that neither load nor prediction of a run has.
fn refuse_delays(description: &Description) -> Result<(), ExperimentError> {
    let mut services = description.services.iter();
    let delayed = services.find_map(|(name, service)| Some((name, service.delayed_task()?)));
    match delayed {
        None => Ok(()),
        Some((service, (task, key))) => Err(ExperimentError::Unenforceable {
            reason: format!(
                "services.{service}.tasks.{task}.{key}: only `tailbound analyze` and `interface` know this key; leave it \
                 out to run"
            ),
        }),
    }
}

/// How long the supply of the CPUs is sampled at least: half a minute, or twice the run where that is shorter.
fn supply_span(bench: &Bench<'_>) -> Duration {
    SUPPLY_SPAN.min(bench.duration * 2)
}

/// Predicts and simulates every variant, and says of each what the run will show.
fn predict_all(
    bench: &Bench<'_>,
    deployments: &BTreeMap<String, Deployment>,
    record: Option<&CalibrationRecord>,
    findings: &mut Findings<'_>,
    observer: &mut dyn Observer,
) -> Result<(), ExperimentError> {
    for variant in &bench.loaded.description.experiment.variants {
        let deployment = &deployments[&variant.name];
        let place = (variant, deployment);
        let times = known_times(bench.loaded, bench.inputs, place, record)?;
        findings.predict(variant, deployment, &times, bench)?;
        if let Some(record) = record {
            let lines = findings.predict_bands(variant, deployment, (&times, record), bench)?;
            lines.iter().for_each(|line| observer.remark(line));
        }
    }
    Ok(())
}

/// The deployment of each variant, by its name.
fn deployments(
    loaded: &LoadedDescription,
) -> Result<BTreeMap<String, Deployment>, ExperimentError> {
    let variants = loaded.description.experiment.variants.iter();
    variants
        .map(|variant| {
            let deployment = Deployment::of_run(&loaded.description, variant)?;
            Ok((variant.name.clone(), deployment))
        })
        .collect()
}

/// What is known of every service's execution times in one variant.
pub(crate) fn known_times(
    loaded: &LoadedDescription,
    inputs: &InputFiles,
    (variant, deployment): (&Variant, &Deployment),
    record: Option<&CalibrationRecord>,
) -> Result<BTreeMap<String, ServiceTimes>, ExperimentError> {
    let mut all = BTreeMap::new();
    for (name, service) in &loaded.description.services {
        let condition = Condition::of(variant, deployment.reserved.get(&service.domain));
        let calibration = record.and_then(|record| record.times(name, condition));
        let times = execution_times(name, service, inputs, calibration)?;
        all.insert(name.clone(), times);
    }
    Ok(all)
}

/// The variants that the host does not refuse.
fn measurable<'a>(
    loaded: &'a LoadedDescription,
    deployments: &'a BTreeMap<String, Deployment>,
    findings: &Findings<'_>,
) -> Vec<(&'a Variant, &'a Deployment)> {
    let variants = &loaded.description.experiment.variants;
    variants
        .iter()
        .filter(|variant| !findings.refused(&variant.name))
        .map(|variant| (variant, &deployments[&variant.name]))
        .collect()
}

/// The domains, started, and the execution times of their services, measured.
fn calibrated_testbed<'a>(
    (loaded, inputs): (&'a LoadedDescription, &'a InputFiles),
    options: &CampaignOptions,
    calibrating: &Calibrating<'_>,
    observer: &mut dyn Observer,
) -> Result<Testbed<'a>, ExperimentError> {
    observer.step(&step("starting the domains", 0.0));
    let surroundings = Surroundings {
        file: loaded.path.clone(),
        base: crate::programs::absolute(loaded.base()),
        out: crate::programs::absolute(&options.out),
        executable: options.executable.clone(),
    };
    remove_job_logs(&surroundings.out)?;
    let (seed, stop) = (calibrating.seed, calibrating.stop);
    let mut testbed = Testbed::start((loaded, inputs), surroundings, seed, stop)?;
    testbed.calibration_scale = options.duration_scale;
    testbed.calibrations = calibrating.carry_out(&mut testbed, observer)?;
    Ok(testbed)
}

/// Whether the described system, the first variant, can be enforced here; if not, that is told, and
/// nothing shall be started. Other variants that cannot are refused one by one.
///
/// # Errors
/// The first variant asks for more than there is, which no rights and no other kernel would mend.
fn host_is_fit(
    description: &Description,
    findings: &mut Findings<'_>,
    observer: &mut dyn Observer,
) -> Result<bool, ExperimentError> {
    let host = HostCapabilities::probe();
    let hosts = HostSet::with_only_here(description, &host);
    for (index, variant) in description.experiment.variants.iter().enumerate() {
        let obstacle = obstacle_of_run(description, variant, &hosts)?;
        match (obstacle, index) {
            (None, _) => {}
            (Some(Obstacle::TooMuch(reason)), 0) => {
                let variant = variant.name.clone();
                return Err(ExperimentError::DoesNotFit { variant, reason });
            }
            (Some(Obstacle::Lacking(reason)), 0) => {
                let what = format!(
                    "nothing was measured, only predicted and simulated: variant {} cannot be \
                     enforced here: {reason}",
                    variant.name
                );
                let advice = if host.uid == 0 {
                    "`tailbound doctor` tells what this host lacks and what to do"
                } else {
                    "run it as root (sudo); `tailbound doctor` tells what else this host lacks"
                };
                observer.remark(&format!("{what}; {advice}"));
                let advice = advice.into();
                findings.warnings.push(Warning { what, advice });
                return Ok(false);
            }
            (Some(obstacle), _) => {
                let reason = obstacle.to_string();
                observer.remark(&format!("{} is not measured: {reason}", variant.name));
                findings.refuse(&variant.name, &reason);
            }
        }
    }
    Ok(true)
}

/// What a campaign asks of the running system.
trait Measurable {
    /// Measures a variant once.
    fn repeat(
        &mut self,
        variant: &Variant,
        deployment: &Deployment,
        observer: &mut dyn Observer,
        slot: RepetitionSlot,
    ) -> Result<Repetition, ExperimentError>;

    /// Whether every program that should run still does.
    fn check_alive(&mut self) -> Result<(), ExperimentError>;

    /// Whether the user wants to end.
    fn is_stopped(&self) -> bool;
}

/// The running system under its reservations and its load.
struct Rig<'a, 'b> {
    bench: &'a Bench<'a>,
    testbed: &'a mut Testbed<'b>,
}

impl Measurable for Rig<'_, '_> {
    fn repeat(
        &mut self,
        variant: &Variant,
        deployment: &Deployment,
        observer: &mut dyn Observer,
        slot: RepetitionSlot,
    ) -> Result<Repetition, ExperimentError> {
        let Self { bench, testbed } = self;
        bench.repeat(testbed, variant, deployment, observer, slot)
    }

    fn check_alive(&mut self) -> Result<(), ExperimentError> {
        self.testbed.check_alive()
    }

    fn is_stopped(&self) -> bool {
        self.bench.stop.load(Ordering::SeqCst)
    }
}

/// Measures every repetition of every variant: first the first of each, then the second of each,
/// so that a host that drifts does not favour one.
fn measure_all(
    rig: &mut dyn Measurable,
    deployments: &BTreeMap<String, Deployment>,
    findings: &mut Findings<'_>,
    observer: &mut dyn Observer,
) {
    let variants = findings.variants();
    let order = interleaved(variants);
    let count = order.len() as f64;
    for (index, variant) in order.iter().enumerate() {
        let earlier = order[..index].iter().filter(|one| one.name == variant.name);
        let slot = RepetitionSlot {
            number: earlier.count() + 1,
            done: (
                0.06 + 0.94 * index as f64 / count,
                0.06 + 0.94 * (index + 1) as f64 / count,
            ),
        };
        if rig.is_stopped() {
            findings
                .interrupted
                .get_or_insert_with(|| STOPPED_BY_USER.into());
            return;
        }
        if findings.refused(&variant.name) {
            continue;
        }
        match rig.repeat(variant, &deployments[&variant.name], observer, slot) {
            Ok(repetition) => {
                let ended_early = ended_early(&repetition);
                for line in repetition
                    .recording
                    .iter()
                    .flat_map(EndedRecording::overhead)
                {
                    observer.remark(&line);
                }
                findings.add(&variant.name, repetition);
                if ended_early.is_some() {
                    let by_user = rig.is_stopped();
                    findings.interrupted = by_user.then(|| STOPPED_BY_USER.into()).or(ended_early);
                }
            }
            // Without what the description is about there is little to compare with.
            Err(ExperimentError::Daemon(ClientError::Refused(refusal)))
                if Some(*variant) != variants.first() =>
            {
                observer.remark(&format!("{} is not measured: {refusal}", variant.name));
                findings.refuse(&variant.name, &refusal.to_string());
            }
            Err(error) => {
                findings.interrupted = Some(format!("variant {}: {error}", variant.name));
            }
        }
        if let Err(dead) = rig.check_alive() {
            findings.interrupted = Some(dead.to_string());
        }
        if findings.interrupted.is_some() {
            return;
        }
    }
}

fn ended_early(repetition: &Repetition) -> Option<String> {
    repetition.measured.iter().find_map(|(service, measured)| {
        measured
            .interrupted
            .as_ref()
            .map(|why| format!("{service}: {why}"))
    })
}

/// The variants in the order in which they are measured.
fn interleaved(variants: &[Variant]) -> Vec<&Variant> {
    let rounds = variants
        .iter()
        .map(|variant| variant.repetitions)
        .max()
        .unwrap_or(0);
    (0..rounds)
        .flat_map(|round| {
            variants
                .iter()
                .filter(move |variant| variant.repetitions > round)
        })
        .collect()
}

fn scaled(length: Duration, factor: f64) -> Duration {
    Duration::from_secs_f64_nearest(length.as_secs_f64() * factor)
}

fn step(what: &str, done: f64) -> ExperimentStep {
    ExperimentStep {
        what: what.into(),
        done,
        begins: true,
    }
}

/// That the run is not of the described length.
fn scale_warning(options: &CampaignOptions) -> Option<Warning> {
    let factor = options.duration_scale;
    (factor != 1.0).then(|| Warning {
        what: format!("the run was scaled to {factor} of its duration"),
        advice: "run it without --duration-scale before you rely on its tail".into(),
    })
}

/// What on this host may spoil the result.
fn host_warnings(loaded: &LoadedDescription, observer: &mut dyn Observer) -> Vec<Warning> {
    let description = &loaded.description;
    let reserved = description
        .domains
        .values()
        .filter_map(|domain| domain.reservation.as_ref());
    let served: CpuSet = reserved
        .flat_map(|reservation| reservation.cpus.clone())
        .collect();
    let housekeeping: CpuSet = description
        .hosts
        .values()
        .flat_map(|host| host.housekeeping.clone())
        .collect();
    let mut sampled: Vec<Noise> = Vec::new();
    for cpu in served.union(&housekeeping) {
        match noise(*cpu, NOISE_SAMPLE) {
            Ok(noise) => sampled.push(noise),
            Err(error) => observer.remark(&format!("no noise sample of CPU {cpu}: {error}")),
        }
    }
    let query = AdviceQuery {
        served,
        housekeeping,
        noise: &sampled,
        tolerated_noise: TOLERATED_NOISE,
    };
    let advised = advice(&query).into_iter().map(|advice| Warning {
        what: advice.what,
        advice: advice.advice,
    });
    advised.collect()
}

/// The host's fingerprint, for the report.
pub(crate) fn host() -> BTreeMap<String, String> {
    fingerprint()
}

#[cfg(test)]
mod tests;
