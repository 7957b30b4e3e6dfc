//! One measurement of a point: reserve, warm up, measure in slices, take back.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{resident_bytes, with_descendants};
use tailbound_measurement::Measurement;
use tailbound_model::LoadedDescription;
use tailbound_sampling::{CampaignTurn, PointFlag, PointRecord, SamplingCampaign, SamplingDesign};
use tailbound_time::Duration;

use super::plan::PlannedPoint;
use super::reports::ReportSource;
use super::slices::{ServiceSlices, WantedPrecision};
use crate::ExperimentError;
use crate::load_run::{LoadRun, generator_cpu};
use crate::reservation_lease::ReservationLease;
use crate::testbed::Testbed;

/// Growth of the memory of a domain within a point that is reported: by this factor and by so many bytes.
const MEMORY_FACTOR: f64 = 1.2;
const MEMORY_BYTES: u64 = 4 << 20;
/// The most slices of a point.
const MOST_SLICES: u64 = 64;
/// The share of a slice that runs before it counts, of those after the first: a load that begins anew finds the
/// application warm, and its queue empty.
const LATER_WARM_UP: f64 = 0.2;

/// How long it is waited for an answer before it is looked whether the application works at all.
const LOOKED_FOR: Duration = Duration::from_secs(5);
/// An application that uses less than this part of one CPU does not work off a queue.
const IDLE_PART: u64 = 50;
/// How often it is looked: a queue may take so long as it is several times a usual point.
const MOST_LOOKS: u64 = 24;

/// `PointRun` measures one point of a campaign.
pub(super) struct PointRun<'a> {
    /// The point.
    pub planned: &'a PlannedPoint,
    /// The table of the campaign.
    pub campaign: &'a SamplingCampaign,
    /// The measurement of the campaign.
    pub turn: CampaignTurn,
    /// The seed of the arrivals in the first slice; those of later ones follow.
    pub seed: u64,
    /// Where the application's own reports are.
    pub reports: &'a ReportSource<'a>,
    /// Raised when the user wants to end: nothing is reserved then.
    pub stop: &'a AtomicBool,
}

/// `SpentTime` is the time under load at a point.
#[derive(Clone, Copy, Debug, Default)]
struct SpentTime {
    /// Before it counted.
    warmed: Duration,
    /// While it counted.
    measured: Duration,
}

/// A measured point with the latencies of each service.
pub(super) struct MeasuredPoint<'a> {
    /// What the journal keeps.
    pub record: PointRecord,
    /// The measurements by service.
    pub slices: BTreeMap<&'a str, ServiceSlices<'a>>,
}

impl<'a> PointRun<'a> {
    /// Measures the point. A failure of the application or the loss of a reservation is in the record.
    ///
    /// # Errors
    /// The daemon refuses the reservations, or cannot be reached.
    pub(super) fn measure(
        &self,
        testbed: &mut Testbed<'_>,
        begun_at: String,
    ) -> Result<MeasuredPoint<'a>, ExperimentError> {
        let mut record = PointRecord {
            point: self.turn.point,
            is_control: self.turn.is_control,
            begun_at,
            ..PointRecord::default()
        };
        let services = &self.planned.loaded.description.services;
        let mut slices: BTreeMap<&str, ServiceSlices<'_>> = services
            .iter()
            .map(|(name, service)| (name.as_str(), ServiceSlices::new(service)))
            .collect();
        let requests = testbed.requests(&self.planned.deployment)?;
        let before = memory(testbed, &self.planned.loaded);
        let earlier = self.reports.before();
        let lease = ReservationLease::take(&requests, BTreeSet::new(), None, self.stop)?;
        let outcome = self.measure_slices(testbed, &lease, &mut slices);
        let loss = lease.loss();
        let released = lease.release();
        match outcome {
            Ok(spent) => (record.warmed, record.measured) = (spent.warmed, spent.measured),
            Err(error) => fail(&mut record, PointFlag::Failed, error.to_string()),
        }
        for (domain, bytes) in memory(testbed, &self.planned.loaded) {
            if let Some(earlier) = before.get(&domain) {
                record.memory_bytes.insert(domain, (*earlier, bytes));
            }
        }
        self.judge(&mut record, &slices);
        self.reports.enter(&earlier, &mut record);
        if let Err(ended) = testbed.check_alive() {
            fail(&mut record, PointFlag::Failed, ended.to_string());
        }
        self.check_stuck(testbed, &mut record);
        match (loss, released) {
            (Some(loss), _) => fail(&mut record, PointFlag::LostReservation, loss),
            (None, Err(error)) => {
                fail(&mut record, PointFlag::LostReservation, error.to_string());
            }
            (None, Ok(())) => {}
        }
        Ok(MeasuredPoint { record, slices })
    }

    /// Tells a service that is stuck from one whose reservation is too little: the latter works off what has queued, now
    /// without load and without a reservation.
    fn check_stuck(&self, testbed: &mut Testbed<'_>, record: &mut PointRecord) {
        let results = record.services.iter();
        let unanswered = results.filter(|(_, result)| result.unanswered > 0);
        let names: Vec<String> = unanswered.map(|(name, _)| name.clone()).collect();
        for name in names {
            if let Some(why) = self.stuck(testbed, &name) {
                fail(record, PointFlag::Failed, why);
            }
        }
    }

    /// Why a service counts as stuck: it does not answer, and the application does not work, or works for too long.
    fn stuck(&self, testbed: &mut Testbed<'_>, name: &str) -> Option<String> {
        let mut used = cpu_time(testbed, &self.planned.loaded);
        for _ in 0..MOST_LOOKS {
            let error = testbed
                .check_answers(name, LOOKED_FOR, self.stop)
                .err()
                .filter(|_| !self.stop.load(Ordering::SeqCst))?;
            let before = std::mem::replace(&mut used, cpu_time(testbed, &self.planned.loaded));
            if used.saturating_sub(before) < LOOKED_FOR.scaled_down(1, IDLE_PART) {
                return Some(format!(
                    "{name} is stuck: without load, too, it does not answer and uses no CPU time; {error}"
                ));
            }
        }
        let waited = LOOKED_FOR.scaled_up(MOST_LOOKS, 1);
        Some(format!(
            "{name} does not answer within {waited} without load"
        ))
    }

    fn wanted(&self) -> WantedPrecision {
        WantedPrecision {
            precision: self.campaign.precision.0 / 100.0,
            confidence: self.campaign.confidence.probability(),
            verdict_suffices: self.campaign.design == SamplingDesign::Adaptive,
        }
    }

    /// Measures until every promise of the campaign is narrow, or the time of the point is over.
    fn measure_slices(
        &self,
        testbed: &Testbed<'_>,
        lease: &ReservationLease,
        slices: &mut BTreeMap<&str, ServiceSlices<'_>>,
    ) -> Result<SpentTime, ExperimentError> {
        let (least, most) = (self.campaign.least_time, self.campaign.most_time);
        let wanted = self.wanted();
        let promised = self.campaign.promised(&self.planned.loaded.description);
        let mut spent = SpentTime::default();
        let (mut length, mut warm_up) = (least, self.campaign.warm_up);
        for number in 0..MOST_SLICES {
            let seed = self.seed.wrapping_add(number);
            for (name, slice) in self.drive(testbed, (warm_up, length), seed)? {
                if let Some(slices) = slices.get_mut(name.as_str()) {
                    slices.add(slice);
                }
            }
            spent.warmed = spent.warmed.saturating_add(warm_up);
            spent.measured = spent.measured.saturating_add(length);
            let left = most.saturating_sub(spent.measured);
            let is_enough = promised.iter().all(|name| slices[name].is_enough(wanted));
            let is_cut_off = slices.values().any(|one| one.interruption().is_some());
            let shortest = least.scaled_down(1, 4);
            if is_enough || is_cut_off || left < shortest || lease.loss().is_some() {
                break;
            }
            let factor = promised
                .iter()
                .map(|name| slices[name].wanted_length(wanted))
                .fold(1.0, f64::max);
            let missing = spent.measured.as_secs_f64() * (factor - 1.0).min(1e6);
            length = Duration::from_secs_f64_nearest(missing)
                .max(shortest)
                .min(left);
            warm_up = Duration::from_secs_f64_nearest(
                self.campaign.warm_up.as_secs_f64() * LATER_WARM_UP,
            );
        }
        Ok(spent)
    }

    /// Drives every service at the same time, each from its own generator.
    fn drive(
        &self,
        testbed: &Testbed<'_>,
        (warm_up, duration): (Duration, Duration),
        seed: u64,
    ) -> Result<Vec<(String, Measurement)>, ExperimentError> {
        let description = &self.planned.loaded.description;
        // A point that has begun is measured to its end.
        let never = AtomicBool::new(false);
        let results: Vec<_> = std::thread::scope(|scope| {
            let mut running = Vec::new();
            for (name, service) in &description.services {
                let load = LoadRun {
                    description,
                    base: self.planned.loaded.base(),
                    inputs: &self.planned.inputs,
                    name,
                    service,
                    duration,
                    warm_up,
                    seed,
                    cpu: generator_cpu(description, service),
                    busy: testbed.calibrations.busy(name),
                };
                let never = &never;
                running.push(scope.spawn(move || {
                    let measured = load.carry_out(never, &mut |_| {});
                    measured.map(|measured| (name.clone(), measured))
                }));
            }
            running
                .into_iter()
                .map(std::thread::ScopedJoinHandle::join)
                .collect()
        });
        let each = results.into_iter();
        each.map(|result| result.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    }

    /// Enters the results of the services, and what is odd about them.
    fn judge(&self, record: &mut PointRecord, slices: &BTreeMap<&str, ServiceSlices<'_>>) {
        let promised = self.campaign.promised(&self.planned.loaded.description);
        for (name, slices) in slices {
            let (mut result, flags) = slices.record(self.wanted());
            let counts = |flag: &PointFlag| {
                *flag != PointFlag::WideInterval || promised.iter().any(|one| one == name)
            };
            record.flags.extend(flags.into_iter().filter(counts));
            if !promised.iter().any(|one| one == name) {
                result.promises.clear();
            }
            record.services.insert((*name).to_owned(), result);
            if let Some(why) = slices.interruption() {
                record.failure = Some(format!("{name}: {why}"));
            }
        }
        let grows = |(before, after): &(u64, u64)| {
            let factor = *after as f64 / (*before).max(1) as f64;
            factor >= MEMORY_FACTOR && after.saturating_sub(*before) >= MEMORY_BYTES
        };
        if record.memory_bytes.values().any(grows) {
            record.flags.insert(PointFlag::GrowingMemory);
        }
    }
}

/// Marks a record that has no result.
fn fail(record: &mut PointRecord, flag: PointFlag, why: String) {
    record.flags.insert(flag);
    record.failure.get_or_insert(why);
}

/// The memory of the processes of each domain that was started, in bytes.
fn memory(testbed: &mut Testbed<'_>, loaded: &LoadedDescription) -> BTreeMap<String, u64> {
    let of_each = processes(testbed, loaded).into_iter();
    let bytes = of_each.map(|(name, pids)| {
        let bytes = pids.iter().filter_map(|pid| resident_bytes(*pid).ok());
        (name, bytes.sum())
    });
    bytes.filter(|(_, bytes)| *bytes > 0).collect()
}

/// The CPU time that the processes of the application have used.
fn cpu_time(testbed: &mut Testbed<'_>, loaded: &LoadedDescription) -> Duration {
    let all = processes(testbed, loaded).into_values().flatten();
    let times = all.filter_map(|pid| cpu_time_of_process(pid).ok());
    times.fold(Duration::ZERO, Duration::saturating_add)
}

/// The processes of each domain that was started and runs through the campaign.
fn processes(
    testbed: &mut Testbed<'_>,
    loaded: &LoadedDescription,
) -> BTreeMap<String, BTreeSet<u32>> {
    let mut processes = BTreeMap::new();
    for name in loaded.description.domains.keys() {
        if let Ok(programs) = testbed.resident(name) {
            let first: BTreeSet<u32> = programs.started().into_iter().collect();
            let all = with_descendants(&first).unwrap_or(first);
            processes.insert(name.clone(), all);
        }
    }
    processes
}
