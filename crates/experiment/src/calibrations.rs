//! Execution times, calibrated under every condition that something is predicted for.
//!
//! The same request takes another time on an idle CPU, which has to wake up first, than beside
//! neighbours, which keep the CPU awake and its caches full. So each service is calibrated under
//! the back end of each variant, beside the neighbours of that variant, in rounds that take turns:
//! a machine that is slow for a while is then slow for a round of each.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use tailbound_control::ClientError;
use tailbound_enforcement::ReservationRequest;
use tailbound_linux::clock::Monotonic;
use tailbound_measurement::{
    BusyRate, Calibration, CalibrationPlan, CalibrationRound, SupplySampler, SupplyTrace, alike,
    calibration_round, counting, fingerprint, fingerprint_line,
};
use tailbound_model::{BackendKind, CpuSet, Description, Variant};
use tailbound_time::{Clock, Duration, Instant};

use crate::bands::{service_process, supply_process};
use crate::calibration_record::{CalibratedService, CalibrationRecord, CpuSupply};
use crate::reservation_lease::ReservationLease;
use crate::testbed::Testbed;
use crate::{ExperimentError, ExperimentStep, Observer};
use tailbound_analysis::resolution::{Deployment, ResolvedDomain};

/// Rounds that are always made, unless the run is a shortened one.
const ROUNDS: usize = 5;
/// Rounds that are made in the shortest run: two show whether they are alike.
const FEWEST_ROUNDS: usize = 2;
/// Rounds that are made at most while the supply of the CPUs is sampled.
const ROUNDS_FOR_SUPPLY: usize = 30;
/// The part of a period that a calibrated service may use, in hundredths: more than it needs, so
/// that its requests are hardly ever throttled, and less than where real-time throttling begins.
const ROOM: u64 = 90;

/// What a service runs under and beside while it is calibrated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Condition {
    /// What enforces its reservation.
    pub backend: BackendKind,
    /// Whether the domains without a reservation run.
    pub neighbours: bool,
}

impl Condition {
    /// Alone on an idle CPU, without a reservation.
    pub const PLAIN: Self = Self {
        backend: BackendKind::UNRESERVED,
        neighbours: false,
    };

    /// The condition of a domain in a variant. Where the kernel promises nothing, nothing is
    /// predicted, and the plain one does.
    pub fn of(variant: &Variant, domain: Option<&ResolvedDomain>) -> Self {
        match domain {
            Some(domain) if domain.server().is_some() => Self {
                backend: domain.backend,
                neighbours: variant.neighbours,
            },
            _ => Self::PLAIN,
        }
    }

    /// For people.
    pub fn in_words(self) -> String {
        let under = match self.backend {
            backend if !backend.enforces() => "without a reservation".to_owned(),
            backend if !backend.has_budget() => "on CPUs of its own".to_owned(),
            backend => format!("under {backend} with {ROOM}% of each period"),
        };
        let beside = if self.neighbours {
            "beside the neighbours"
        } else {
            "nothing else running"
        };
        format!("{under}, {beside}")
    }
}

/// One thing to calibrate: a service under a condition, with its reservation there.
#[derive(Clone, Debug)]
struct Case {
    service: String,
    condition: Condition,
    domain: Option<ResolvedDomain>,
}

/// What calibration found, by service and condition.
#[derive(Debug, Default)]
pub struct Calibrations {
    calibrations: BTreeMap<(String, Condition), Calibration>,
    rounds: BTreeMap<(String, Condition), Vec<CalibrationRound>>,
    busy: BTreeMap<String, BusyRate>,
    /// The supply of each reserved CPU meanwhile, where it could be sampled.
    supply: Vec<SupplyTrace>,
}

impl Calibrations {
    /// What was found of `service` under `condition`.
    pub fn of(&self, service: &str, condition: Condition) -> Option<&Calibration> {
        self.calibrations.get(&(service.to_owned(), condition))
    }

    /// What predictions rest on, for `description`.
    pub(crate) fn record(&self, description: &str) -> CalibrationRecord {
        let service = |(key, calibration): (&(String, Condition), &Calibration)| {
            let rounds = self.rounds.get(key).map_or(&[][..], Vec::as_slice);
            CalibratedService {
                service: key.0.clone(),
                condition: key.1,
                execution_times: calibration.execution_times.clone(),
                round_trips: calibration.round_trips.clone(),
                dispatch_overhead: calibration.dispatch_overhead.clone(),
                process: service_process(calibration, rounds),
            }
        };
        let supply = self.supply.iter().map(|trace| CpuSupply {
            cpu: trace.cpu,
            process: supply_process(trace),
        });
        CalibrationRecord::new(
            fingerprint_line(&fingerprint()),
            description.into(),
            self.calibrations.iter().map(service).collect(),
            supply.collect(),
        )
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Condition, &Calibration)> {
        self.calibrations
            .iter()
            .map(|((service, condition), calibration)| (service.as_str(), *condition, calibration))
    }

    /// How many loop iterations `{busy:...}` stands for in the requests to `service`: one number
    /// for all variants, since it is part of the load.
    pub fn busy(&self, service: &str) -> Option<BusyRate> {
        self.busy.get(service).copied()
    }

    /// Every request of every round as CSV.
    ///
    /// # Errors
    /// `out` cannot be written.
    pub fn write_csv(&self, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "service,condition,round,counts,task,round_trip_ns,process_ns"
        )?;
        for ((service, condition), rounds) in &self.rounds {
            let condition = condition.in_words().replace(',', ";");
            let kept = counting(rounds);
            for (index, round) in rounds.iter().enumerate() {
                let counts = kept.iter().any(|one| std::ptr::eq(*one, round));
                let trivial = round.trivial.iter().map(|request| ("", request));
                let tasks = round
                    .tasks
                    .iter()
                    .flat_map(|(task, all)| all.iter().map(|request| (task.as_str(), request)));
                for (task, request) in trivial.chain(tasks) {
                    let process = request.process.map(|time| time.as_nanos().to_string());
                    writeln!(
                        out,
                        "{service},{condition},{},{counts},{task},{},{}",
                        index + 1,
                        request.round_trip.as_nanos(),
                        process.unwrap_or_default()
                    )?;
                }
            }
        }
        Ok(())
    }

    /// By which factor the round trips in `round` are longer than those of the calibration, by
    /// their medians.
    pub fn drift(
        &self,
        service: &str,
        condition: Condition,
        round: &CalibrationRound,
    ) -> Option<f64> {
        let calibration = self.of(service, condition)?;
        let (mut before, mut after) = (0.0, 0.0);
        for (task, median) in round.median_round_trips() {
            let reference = calibration.round_trips.get(&task)?.quantile(0.5)?.low;
            before += reference.as_secs_f64();
            after += median.as_secs_f64();
        }
        (before > 0.0).then(|| after / before)
    }
}

/// `CalibrationRig` is what calibrating needs of the running system.
trait CalibrationRig {
    /// Starts the domains without a reservation or a service.
    fn start_neighbours(&mut self) -> Result<(), ExperimentError>;

    /// Ends them.
    fn stop_neighbours(&mut self);

    /// What all rounds of a case have in common.
    fn plan(&self, case: &Case) -> Result<CalibrationPlan, ExperimentError>;

    /// Makes a round by this plan, under the reservation of the case if it has one.
    fn round(
        &mut self,
        case: &Case,
        plan: &CalibrationPlan,
    ) -> Result<CalibrationRound, ExperimentError>;

    /// Whether the supply of the CPUs was sampled for long enough.
    fn is_supply_known(&self) -> bool;

    /// Ends sampling the supply of the CPUs.
    fn supply(&mut self) -> Result<Vec<SupplyTrace>, ExperimentError>;
}

/// Numbers of rounds of a calibration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoundCounts {
    /// Rounds that are always made.
    least: usize,
    /// Rounds that are made at most, where they differ.
    most: usize,
}

impl RoundCounts {
    /// Those of a run that is shortened by this factor; as many as usual where it is 1 or more.
    pub fn for_scale(scale: f64) -> Self {
        let least = (ROUNDS as f64 * scale).ceil() as usize;
        let least = least.clamp(FEWEST_ROUNDS, ROUNDS);
        Self {
            least,
            most: 2 * least,
        }
    }
}

/// How a calibration is made.
pub struct Calibrating<'a> {
    /// The variants that will be measured, with what their domains get.
    pub variants: Vec<(&'a Variant, &'a Deployment)>,
    /// The seed of the requests.
    pub seed: u64,
    /// How many rounds are made.
    pub rounds: RoundCounts,
    /// How long the supply of the CPUs is sampled at least, if rounds can fill that time.
    pub supply_span: Duration,
    /// Raised when the user wants to end.
    pub stop: &'a AtomicBool,
}

impl Calibrating<'_> {
    /// Calibrates every service under the condition of every variant.
    ///
    /// # Errors
    /// A service or a program fails at it, or the user asks to stop.
    pub fn carry_out(
        &self,
        testbed: &mut Testbed<'_>,
        observer: &mut dyn Observer,
    ) -> Result<Calibrations, ExperimentError> {
        let cases = self.cases(testbed.description());
        let cpus = cases.iter().filter_map(|case| case.domain.as_ref());
        let cpus: CpuSet = cpus
            .flat_map(|domain| domain.interface.cpus.clone())
            .collect();
        let mut rig = TestbedRig {
            testbed,
            seed: self.seed,
            stop: self.stop,
            sampler: Some(SupplySampler::start(&cpus)?),
            supply_known_at: Monotonic.now().saturating_add(self.supply_span),
        };
        calibrate(cases, self.rounds, &mut rig, observer)
    }

    /// Every service with every condition, each once.
    fn cases(&self, description: &Description) -> Vec<Case> {
        let mut cases: Vec<Case> = Vec::new();
        for (name, service) in &description.services {
            for (variant, deployment) in &self.variants {
                let domain = deployment.reserved.get(&service.domain);
                let condition = Condition::of(variant, domain);
                let is_same = |case: &Case| case.service == *name && case.condition == condition;
                if !cases.iter().any(is_same) {
                    cases.push(Case {
                        service: name.clone(),
                        condition,
                        domain: domain.cloned(),
                    });
                }
            }
            // Where something is predicted, the plain condition has nobody to serve.
            let promised = |case: &Case| case.condition != Condition::PLAIN;
            if cases
                .iter()
                .any(|case| case.service == *name && promised(case))
            {
                cases.retain(|case| case.service != *name || promised(case));
            }
        }
        cases
    }
}

/// Calibrates all cases in turns, until the rounds of each are alike.
fn calibrate(
    mut cases: Vec<Case>,
    RoundCounts { least, most }: RoundCounts,
    rig: &mut dyn CalibrationRig,
    observer: &mut dyn Observer,
) -> Result<Calibrations, ExperimentError> {
    let mut calibrations = Calibrations::default();
    let mut rounds: Vec<Vec<CalibrationRound>> = vec![Vec::new(); cases.len()];
    for round in 0..ROUNDS_FOR_SUPPLY {
        let sampled = rig.is_supply_known();
        let always = round < least;
        let unlike = round < most && !rounds.iter().all(|rounds| alike(rounds));
        if !always && !unlike && sampled {
            break;
        }
        observer.step(&ExperimentStep {
            what: match (always, sampled) {
                (true, _) => format!("measuring execution times, round {} of {least}", round + 1),
                (false, true) => {
                    format!("measuring execution times, round {} of {most}", round + 1)
                }
                (false, false) => format!(
                    "measuring execution times, round {}, and when the host takes the CPU away",
                    round + 1
                ),
            },
            done: 0.01 + 0.001 * round as f64,
            begins: true,
        });
        for (case, rounds) in cases.iter_mut().zip(&mut rounds) {
            if !always && sampled && alike(rounds) {
                continue;
            }
            let busy = calibrations.busy(&case.service);
            let measured = calibrate_once(case, busy, rig, observer)?;
            if let Some(busy) = measured.busy {
                calibrations
                    .busy
                    .entry(case.service.clone())
                    .or_insert(busy);
            }
            rounds.push(measured);
        }
    }
    match rig.supply() {
        Ok(supply) => calibrations.supply = supply,
        // Without it there is still all that was there before.
        Err(error) => observer.remark(&format!(
            "bands take the CPU as never taken away, since {error}"
        )),
    }
    let traces: Vec<&SupplyTrace> = calibrations.supply.iter().collect();
    for (case, mut rounds) in cases.into_iter().zip(rounds) {
        // A stall of another CPU does not prolong a request.
        let own = |trace: &&&SupplyTrace| {
            let cpus = case.domain.as_ref().map(|domain| &domain.interface.cpus);
            cpus.is_some_and(|cpus| cpus.contains(&trace.cpu))
        };
        let own: Vec<&SupplyTrace> = traces.iter().filter(own).copied().collect();
        rounds.iter_mut().for_each(|round| round.mark_stalled(&own));
        let calibration = Calibration::of_rounds(&rig.plan(&case)?, &rounds);
        let key = (case.service, case.condition);
        calibrations.calibrations.insert(key.clone(), calibration);
        calibrations.rounds.insert(key, rounds);
    }
    Ok(calibrations)
}

/// One round of one case. A reservation with so much room may be refused where the described
/// one is not: then the case goes on without one, for this and all later rounds.
fn calibrate_once(
    case: &mut Case,
    busy: Option<BusyRate>,
    rig: &mut dyn CalibrationRig,
    observer: &mut dyn Observer,
) -> Result<CalibrationRound, ExperimentError> {
    let plan = CalibrationPlan {
        busy,
        ..rig.plan(case)?
    };
    if case.condition.neighbours {
        rig.start_neighbours()?;
    }
    let outcome = rig.round(case, &plan);
    rig.stop_neighbours();
    match outcome {
        Err(ExperimentError::Daemon(ClientError::Refused(refusal))) => {
            observer.remark(&format!(
                "{}: calibrated without a reservation, since {refusal}",
                case.service
            ));
            case.domain = None;
            calibrate_once(case, busy, rig, observer)
        }
        other => other,
    }
}

/// The system under test, for calibrating.
struct TestbedRig<'a, 'b> {
    testbed: &'a mut Testbed<'b>,
    seed: u64,
    stop: &'a AtomicBool,
    /// The sampler of the supply, until it has ended.
    sampler: Option<SupplySampler>,
    /// When the supply has been sampled for long enough.
    supply_known_at: Instant,
}

impl CalibrationRig for TestbedRig<'_, '_> {
    fn start_neighbours(&mut self) -> Result<(), ExperimentError> {
        self.testbed.start_neighbours()
    }

    fn stop_neighbours(&mut self) {
        self.testbed.stop_neighbours();
    }

    fn plan(&self, case: &Case) -> Result<CalibrationPlan, ExperimentError> {
        let service = &self.testbed.description().services[&case.service];
        Ok(CalibrationPlan {
            surroundings: case.condition.in_words(),
            seed: self.seed,
            ..self.testbed.calibration_plan(&case.service, service)?
        })
    }

    fn round(
        &mut self,
        case: &Case,
        plan: &CalibrationPlan,
    ) -> Result<CalibrationRound, ExperimentError> {
        let requests = match (&case.domain, case.condition.backend) {
            (Some(domain), backend) if backend.enforces() => {
                let service = &self.testbed.description().services[&case.service];
                let name = service.domain.clone();
                let mut interface = domain.interface.clone();
                interface.budget = interface
                    .budget
                    .max(interface.period.scaled_down(ROOM, 100));
                let target = self.testbed.target(&name)?;
                let request = target.map(|target| ReservationRequest {
                    target,
                    domain: name,
                    interface,
                    backend,
                    options: domain.options,
                    // The described interference was checked with the budget of the service, not with that of a calibration.
                    interference: Default::default(),
                });
                request.into_iter().collect()
            }
            _ => Vec::new(),
        };
        let lease = ReservationLease::take(&requests, BTreeSet::new(), None, self.stop)?;
        let round = calibration_round(plan, self.stop)?;
        lease.release()?;
        Ok(round)
    }

    fn is_supply_known(&self) -> bool {
        Monotonic.now() >= self.supply_known_at
    }

    fn supply(&mut self) -> Result<Vec<SupplyTrace>, ExperimentError> {
        let sampler = self.sampler.take();
        Ok(sampler.map_or_else(|| Ok(Vec::new()), SupplySampler::finish)?)
    }
}

#[cfg(test)]
mod tests;
