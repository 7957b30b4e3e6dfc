//! One repetition of one variant: reserve, drive, measure, take back.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration as Pause;

use tailbound_enforcement::{LedgerSummary, ReservationRequest, Target};
use tailbound_linux::clock::Monotonic;
use tailbound_measurement::{
    Calibration, Measurement, Progress, SupplySampler, SupplyTrace, calibration_round,
};
use tailbound_model::{Cpu, CpuSet, InputFiles, LoadedDescription, Service, Variant};
use tailbound_modes::manager::Report;
use tailbound_modes::table::ModeTable;
use tailbound_time::{Clock, Duration, Instant};

use crate::bands::supply_process;
use crate::calibrations::{Calibrations, Condition};
use crate::health_watch::{HealthTotals, HealthWatch, LOOK_EVERY, monitored_domains};
use crate::load_run::{LoadRun, generator_cpu};
use crate::mode_changes::ModeChangeWatch;
use crate::recorded_run::{EndedRecording, RecordingPlan, RunRecording, recorded_domain};
use crate::reservation_lease::ReservationLease;
use crate::testbed::Testbed;
use crate::{ExperimentError, ExperimentStep, Observer};
use tailbound_analysis::resolution::Deployment;
use tailbound_assessment::band::SupplyProcess;

/// How often it is said how much of a repetition without services has passed.
const STEP_OF_TIME: Duration = Duration::from_millis(250);

/// What one repetition yields, by service.
#[derive(Debug, Default)]
pub struct Repetition {
    /// The latencies.
    pub measured: BTreeMap<String, Measurement>,
    /// What the reservation's manager has seen, where there is one.
    pub ledgers: BTreeMap<String, LedgerSummary>,
    /// By which factor requests take longer afterwards than when they were calibrated.
    pub drifts: BTreeMap<String, f64>,
    /// The changes of modes meanwhile.
    pub mode_changes: Vec<Report>,
    /// The events of the health of monitored domains, and the responses.
    pub health: BTreeMap<String, HealthTotals>,
    /// The time that counts, of CLOCK_MONOTONIC: after the warm-up, to the end.
    pub span: Option<(Instant, Instant)>,
    /// The supply of the reserved CPUs while services were driven; empty where it could not be sampled.
    pub supply: Vec<SupplyTrace>,
    /// The kernel's events, where they were recorded.
    pub recording: Option<EndedRecording>,
}

/// The reservations, the health of domains and the recording, which are looked after while services are driven.
type RunAttendants<'a, 'b> = (
    &'a mut ReservationLease,
    &'a mut HealthWatch<'b>,
    Option<&'a mut RunRecording>,
);

/// The place of a repetition in a campaign.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RepetitionSlot {
    /// The repetition of its variant, from 1.
    pub number: usize,
    /// From which share of the campaign to which it lasts.
    pub done: (f64, f64),
}

impl Repetition {
    /// The supply of a CPU, where it was sampled.
    pub fn supply_of(&self, cpu: Cpu) -> Option<SupplyProcess> {
        let mut traces = self.supply.iter();
        traces.find(|trace| trace.cpu == cpu).map(supply_process)
    }
}

/// What all repetitions share.
pub struct Bench<'a> {
    /// The description and its folder.
    pub loaded: &'a LoadedDescription,
    /// The files that it names.
    pub inputs: &'a InputFiles,
    /// How long releases count.
    pub duration: Duration,
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// The seed of the arrivals: the same in every repetition, so that they are paired.
    pub seed: u64,
    /// Raised when the user wants to end.
    pub stop: &'a AtomicBool,
    /// The modes, if there are any.
    pub modes: Option<&'a ModeTable>,
    /// The recordings of the kernel's events, if they are asked for.
    pub recordings: Option<RecordingPlan>,
}

impl Bench<'_> {
    /// Runs `variant` once. Whatever happens, its reservations are taken back and its neighbours
    /// ended before this returns: by us, or by the daemon when our connection closes.
    ///
    /// # Errors
    /// The reservation is refused, or a program or service fails before anything is measured.
    pub fn repeat(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        deployment: &Deployment,
        observer: &mut dyn Observer,
        slot: RepetitionSlot,
    ) -> Result<Repetition, ExperimentError> {
        if variant.neighbours {
            testbed.start_neighbours()?;
        }
        let outcome = self.under_reservation(testbed, variant, deployment, observer, slot);
        testbed.stop_neighbours();
        outcome
    }

    fn under_reservation(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        deployment: &Deployment,
        observer: &mut dyn Observer,
        slot: RepetitionSlot,
    ) -> Result<Repetition, ExperimentError> {
        testbed.revive()?;
        let requests = testbed.requests(deployment)?;
        let modes = self.modes.filter(|_| variant.has_modes());
        let description = &self.loaded.description;
        let monitored = monitored_domains(description);
        let mut lease = ReservationLease::take(&requests, monitored, modes, self.stop)?;
        let run = (variant.name.as_str(), slot.number);
        let mut health = HealthWatch::begin(description, &requests, run, testbed.out());
        let watch = modes.map(|_| ModeChangeWatch::begin()).transpose()?;
        let sampler = SupplySampler::start(&reserved_cpus(deployment))?;
        let mut recording = self.begin_recording(testbed, variant, &requests, slot)?;
        let begin = Monotonic.now().saturating_add(self.warm_up);
        let watched = (&mut lease, &mut health, recording.as_mut());
        let measured = self.drive_all(testbed, variant, watched, observer, slot.done);
        let end = Monotonic.now();
        // What could not be sampled while services were calibrated was said then.
        let supply = sampler.finish().unwrap_or_default();
        let mode_changes = watch.map_or_else(Vec::new, ModeChangeWatch::end);
        let measured = measured?;
        health.look_now(testbed, &mut lease, observer)?;
        let calibrations = (&testbed.calibrations, deployment);
        let recording = recording.map(|recording| {
            self.end_recording(recording, &measured, calibrations, variant, slot, &supply)
        });
        let mut repetition = Repetition {
            measured,
            span: (begin <= end).then_some((begin, end)),
            mode_changes,
            health: health.into_totals(),
            recording: recording.transpose()?,
            supply,
            ..Repetition::default()
        };
        // Before anything else runs under the reservations, so that they tell of the load only.
        let seen = lease.ledgers();
        let calm = !self.stop.load(Ordering::SeqCst)
            && repetition
                .measured
                .values()
                .all(|one| one.interrupted.is_none());
        if calm && seen.is_ok() {
            repetition.drifts = self.drifts(testbed, variant, deployment)?;
        }
        if let Some(loss) = lease.loss() {
            repetition.span = None;
            for one in repetition.measured.values_mut() {
                one.interrupted = Some(format!("invalid: {loss} during the measurement"));
            }
            return Ok(repetition);
        }
        self.keep_ledgers(
            &mut repetition,
            seen.and_then(|seen| lease.release().map(|()| seen)),
        );
        Ok(repetition)
    }

    /// Keeps the ledger of each service, or why the reservations did not last.
    fn keep_ledgers(
        &self,
        repetition: &mut Repetition,
        seen: Result<BTreeMap<String, LedgerSummary>, ExperimentError>,
    ) {
        match seen {
            Ok(mut seen) => {
                for (name, service) in &self.loaded.description.services {
                    if let Some(ledger) = seen.remove(&service.domain) {
                        repetition.ledgers.insert(name.clone(), ledger);
                    }
                }
            }
            // What was measured stays worth telling, though not as a whole run.
            Err(error) => {
                for one in repetition.measured.values_mut() {
                    let why = format!("the reservation did not last to the end: {error}");
                    one.interrupted.get_or_insert(why);
                }
            }
        }
    }

    /// By which factor each service's requests take longer than when they were calibrated: a
    /// prediction is for the machine as it was then.
    fn drifts(
        &self,
        testbed: &Testbed<'_>,
        variant: &Variant,
        deployment: &Deployment,
    ) -> Result<BTreeMap<String, f64>, ExperimentError> {
        let mut drifts = BTreeMap::new();
        for (name, service) in &self.loaded.description.services {
            let condition = Condition::of(variant, deployment.reserved.get(&service.domain));
            if condition == Condition::PLAIN {
                continue;
            }
            let mut plan = testbed.calibration_plan(name, service)?;
            plan.seed = self.seed;
            plan.busy = testbed.calibrations.busy(name);
            let round = calibration_round(&plan, self.stop)?;
            if let Some(drift) = testbed.calibrations.drift(name, condition, &round) {
                drifts.insert(name.clone(), drift);
            }
        }
        Ok(drifts)
    }

    /// Begins to record the kernel's events, if that is asked for.
    fn begin_recording(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        requests: &[ReservationRequest],
        slot: RepetitionSlot,
    ) -> Result<Option<RunRecording>, ExperimentError> {
        let Some(plan) = &self.recordings else {
            return Ok(None);
        };
        let mut domains = Vec::new();
        for name in self.loaded.description.domains.keys() {
            let neighbour = testbed.neighbour(name).map(Target::Processes);
            let target = neighbour.or_else(|| testbed.target(name).unwrap_or_default());
            let request = requests.iter().find(|request| request.domain == *name);
            domains.push(recorded_domain(name, target.as_ref(), request));
        }
        let services = self.loaded.description.services.values();
        let mut generators =
            services.map(|service| generator_cpu(&self.loaded.description, service));
        let own_cpu = generators.next().flatten().map(|cpu| cpu.0);
        let name = format!("{}-{}", variant.name, slot.number);
        RunRecording::begin(plan, &name, domains, own_cpu).map(Some)
    }

    /// Writes the loads into a recording and ends it.
    fn end_recording(
        &self,
        recording: RunRecording,
        measured: &BTreeMap<String, Measurement>,
        (calibrations, deployment): (&Calibrations, &Deployment),
        variant: &Variant,
        slot: RepetitionSlot,
        supply: &[SupplyTrace],
    ) -> Result<EndedRecording, ExperimentError> {
        let run = format!("{}, repetition {}", variant.name, slot.number);
        for (name, service) in &self.loaded.description.services {
            let Some(measured) = measured.get(name) else {
                continue;
            };
            let condition = Condition::of(variant, deployment.reserved.get(&service.domain));
            let calibration = calibrations.of(name, condition);
            let calibrated = calibration.and_then(|one| mean_execution(measured, one));
            recording.note_load(measured, &service.domain, &run, calibrated)?;
        }
        recording.end(&run, supply)
    }

    /// The load of a service.
    fn load_run<'a>(
        &'a self,
        name: &'a str,
        service: &'a Service,
        testbed: &Testbed<'_>,
    ) -> LoadRun<'a> {
        let description = &self.loaded.description;
        LoadRun {
            description,
            base: self.loaded.base(),
            inputs: self.inputs,
            name,
            service,
            duration: self.duration,
            warm_up: self.warm_up,
            seed: self.seed,
            cpu: generator_cpu(description, service),
            busy: testbed.calibrations.busy(name),
        }
    }

    /// Lets the tasks of domains run for the time of a repetition, where there is no service to drive.
    fn pass_time(
        &self,
        (testbed, variant): (&mut Testbed<'_>, &Variant),
        (lease, health): (&mut ReservationLease, &mut HealthWatch<'_>),
        observer: &mut dyn Observer,
        done: (f64, f64),
    ) -> Result<(), ExperimentError> {
        let total = self.warm_up.saturating_add(self.duration);
        let begin = Monotonic.now();
        let mut next_step = begin;
        loop {
            let now = Monotonic.now();
            let elapsed = now.saturating_since(begin);
            let left = total.saturating_sub(elapsed);
            if left.is_zero() || self.stop.load(Ordering::SeqCst) || lease.loss().is_some() {
                return Ok(());
            }
            if now >= next_step {
                next_step = now.saturating_add(STEP_OF_TIME);
                let share = elapsed.as_secs_f64() / total.as_secs_f64().max(1e-9);
                observer.step(&ExperimentStep {
                    what: format!("letting the tasks of {} run", variant.name),
                    done: done.0 + (done.1 - done.0) * share,
                    begins: elapsed < STEP_OF_TIME,
                });
            }
            health.look(testbed, lease, observer)?;
            std::thread::sleep(Pause::from_nanos(left.min(LOOK_EVERY).as_nanos()));
        }
    }

    /// Drives every service at the same time, each from its own generator. Without services, the tasks of domains run for as
    /// long.
    fn drive_all(
        &self,
        testbed: &mut Testbed<'_>,
        variant: &Variant,
        (lease, health, mut recording): RunAttendants<'_, '_>,
        observer: &mut dyn Observer,
        done: (f64, f64),
    ) -> Result<BTreeMap<String, Measurement>, ExperimentError> {
        let description = &self.loaded.description;
        if description.services.is_empty() {
            let attended = (lease, health);
            self.pass_time((testbed, variant), attended, observer, done)?;
            return Ok(BTreeMap::new());
        }
        let (sender, received) = mpsc::channel();
        let mut failure = None;
        let results = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (index, (name, service)) in description.services.iter().enumerate() {
                let drive = self.load_run(name, service, testbed);
                let (stop, sender) = (self.stop, sender.clone());
                running.push(scope.spawn(move || {
                    let measured = drive.carry_out(stop, &mut |progress| {
                        // The first generator speaks for all; nobody listening is no harm.
                        let _heard = if index == 0 {
                            sender.send(progress)
                        } else {
                            Ok(())
                        };
                    });
                    (name.clone(), measured)
                }));
            }
            drop(sender);
            let mut loss = None;
            for (index, progress) in received.iter().enumerate() {
                if let Some(recording) = &mut recording {
                    recording.note_progress(&progress);
                }
                if loss.is_none() {
                    loss = lease.loss();
                    if let Some(loss) = &loss {
                        observer.remark(&format!("{loss}; this measurement is not valid"));
                    }
                }
                tell(observer, &variant.name, progress, index == 0, done);
                if failure.is_none() {
                    failure = health.look(testbed, lease, observer).err();
                }
            }
            running
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect::<Vec<_>>()
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let mut all = BTreeMap::new();
        for result in results {
            match result {
                Ok((name, measured)) => {
                    all.insert(name, measured?);
                }
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        Ok(all)
    }
}

/// The CPUs on which domains have a reservation.
pub(crate) fn reserved_cpus(deployment: &Deployment) -> CpuSet {
    let reserved = deployment.reserved.values();
    reserved
        .flat_map(|domain| domain.interface.cpus.clone())
        .collect()
}

/// Tells the observer how far the first generator is, as part of the whole from `done.0` on.
fn tell(
    observer: &mut dyn Observer,
    variant: &str,
    progress: Progress,
    begins: bool,
    done: (f64, f64),
) {
    let share = progress.elapsed.as_secs_f64() / progress.total.as_secs_f64().max(1e-9);
    observer.step(&ExperimentStep {
        what: format!("measuring {variant}: {} answered", progress.answered),
        done: done.0 + (done.1 - done.0) * share.min(1.0),
        begins,
    });
}

/// The mean calibrated execution time of the requests that were measured: that of their tasks.
fn mean_execution(measured: &Measurement, calibration: &Calibration) -> Option<Duration> {
    let means = measured.tasks.iter().map(|task| {
        let times = calibration.execution_times.get(task)?;
        Some(times.mean()?.low.as_nanos())
    });
    let means: Vec<Option<u64>> = means.collect();
    let requests = measured.records.iter();
    let each = requests.map(|record| means.get(record.task as usize).copied().flatten());
    let sum: Option<u128> = each.map(|mean| mean.map(u128::from)).sum();
    let count = measured.records.len().max(1) as u128;
    sum.map(|sum| Duration::from_nanos((sum / count) as u64))
}
