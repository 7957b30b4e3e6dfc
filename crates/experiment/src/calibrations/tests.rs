#![allow(clippy::unwrap_used)]

use tailbound_control::{Refusal, RefusalKind};
use tailbound_measurement::{Endpoint, RoundRequest, ServiceTimeSource, SupplyGap};
use tailbound_model::{Cpu, LoadedDescription, Service};
use tailbound_time::Duration;

use super::*;

/// A store with a reservation, and a batch that runs beside it where a variant says so.
const TEXT: &str = r#"
    schema_version = 1
    name = "store"

    [hosts.here]
    cpus = [0]

    [domains.store]
    kind = "process"
    builtin = "synthetic-service"
    reservation = { budget = "4ms", period = "10ms", cpus = [0] }

    [domains.batch]
    kind = "process"
    builtin = "cpu-hog"

    [services.store]
    domain = "store"
    protocol = "synthetic"
    endpoint = "unix:store.sock"
    tasks.get = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "constant", value = "1ms" } }
"#;

const VARIANTS: &str = r#"
    [[experiment.variants]]
    name = "reserved"

    [[experiment.variants]]
    name = "again"

    [[experiment.variants]]
    name = "alone"
    neighbours = false

    [[experiment.variants]]
    name = "dedicated"
    backend = "dedicated"
    neighbours = false

    [[experiment.variants]]
    name = "unreserved"
    backend = "none"
"#;

/// A running system that answers with recorded rounds.
struct RecordedRig {
    service: Service,
    /// The round trip of the requests of a round: of which case, which round of it.
    round_trip_us: fn(&Case, usize) -> u64,
    /// Whether the daemon refuses reservations.
    refuses: bool,
    /// The round that fails.
    failing: Option<usize>,
    /// The rate of `{busy:...}` that the first round finds.
    busy: Option<BusyRate>,
    /// The case of each round, and whether it was reserved and had neighbours.
    log: Vec<String>,
    /// The rates that rounds were asked to take.
    rates: Vec<Option<BusyRate>>,
    neighbours: bool,
    /// The number of rounds after which the supply was sampled for long enough.
    supply_known_after: usize,
    /// What the sampler has seen; none where it was refused.
    supply: Option<Vec<SupplyTrace>>,
}

impl RecordedRig {
    fn new(loaded: &LoadedDescription) -> Self {
        Self {
            service: loaded.description.services["store"].clone(),
            round_trip_us: |_, _| 1_200,
            refuses: false,
            failing: None,
            busy: None,
            log: Vec::new(),
            rates: Vec::new(),
            neighbours: false,
            supply_known_after: 0,
            supply: Some(Vec::new()),
        }
    }
}

impl CalibrationRig for RecordedRig {
    fn start_neighbours(&mut self) -> Result<(), ExperimentError> {
        self.neighbours = true;
        Ok(())
    }

    fn stop_neighbours(&mut self) {
        self.neighbours = false;
    }

    fn plan(&self, case: &Case) -> Result<CalibrationPlan, ExperimentError> {
        let endpoint = Endpoint::resolve(&self.service.endpoint, "/".as_ref())?;
        let mut plan = CalibrationPlan::new(&case.service, self.service.clone(), endpoint);
        plan.surroundings = case.condition.in_words();
        Ok(plan)
    }

    fn round(
        &mut self,
        case: &Case,
        plan: &CalibrationPlan,
    ) -> Result<CalibrationRound, ExperimentError> {
        assert_eq!(self.neighbours, case.condition.neighbours);
        if self.refuses && case.domain.is_some() {
            let refusal = Refusal {
                message: "no room".into(),
                kind: RefusalKind::Admission,
                reason: None,
            };
            return Err(ClientError::Refused(refusal).into());
        }
        let entry = format!("{} {}", case.condition.backend, self.neighbours);
        let earlier = self.log.iter().filter(|one| **one == entry).count();
        self.log.push(entry);
        self.rates.push(plan.busy);
        if self.failing == Some(self.log.len()) {
            return Err(ExperimentError::Stopped);
        }
        let trip = Duration::from_micros((self.round_trip_us)(case, earlier));
        let request = RoundRequest {
            sent: tailbound_time::Instant::ORIGIN,
            asked: Duration::ZERO,
            stalled: false,
            round_trip: trip,
            process: Some(trip.saturating_sub(Duration::from_micros(200))),
        };
        Ok(CalibrationRound {
            trivial: Vec::new(),
            tasks: [("get".to_owned(), vec![request; 2])].into(),
            process_told: true,
            busy: plan.busy.or(self.busy),
            remarks: Vec::new(),
        })
    }

    fn is_supply_known(&self) -> bool {
        self.log.len() >= self.supply_known_after
    }

    fn supply(&mut self) -> Result<Vec<SupplyTrace>, ExperimentError> {
        match self.supply.take() {
            Some(supply) => Ok(supply),
            None => Err(ExperimentError::Stopped),
        }
    }
}

/// The steps and remarks of a calibration.
#[derive(Default)]
struct RecordingObserver {
    steps: Vec<String>,
    remarks: Vec<String>,
}

impl Observer for RecordingObserver {
    fn step(&mut self, step: &ExperimentStep) {
        self.steps.push(step.what.clone());
    }

    fn remark(&mut self, text: &str) {
        self.remarks.push(text.into());
    }
}

fn loaded(variants: &str) -> LoadedDescription {
    tailbound_analysis::FORMAT
        .load_text(format!("{TEXT}{variants}"), "store.toml")
        .unwrap()
}

fn cases(loaded: &LoadedDescription) -> Vec<Case> {
    let variants = &loaded.description.experiment.variants;
    let deployments = variants.iter();
    let deployments = deployments.map(|one| Deployment::of_run(&loaded.description, one).unwrap());
    let deployments: Vec<Deployment> = deployments.collect();
    let calibrating = Calibrating {
        variants: variants.iter().zip(&deployments).collect(),
        seed: 1,
        rounds: RoundCounts::for_scale(1.0),
        supply_span: Duration::ZERO,
        stop: &AtomicBool::new(false),
    };
    calibrating.cases(&loaded.description)
}

/// Calibrates the variants with a rig that `alter` has changed.
fn calibrated(
    variants: &str,
    alter: impl FnOnce(&mut RecordedRig),
) -> (
    Result<Calibrations, ExperimentError>,
    RecordedRig,
    RecordingObserver,
) {
    let loaded = loaded(variants);
    let (mut rig, mut record) = (RecordedRig::new(&loaded), RecordingObserver::default());
    alter(&mut rig);
    let outcome = calibrate(
        cases(&loaded),
        RoundCounts::for_scale(1.0),
        &mut rig,
        &mut record,
    );
    (outcome, rig, record)
}

fn reserved(neighbours: bool) -> Condition {
    Condition {
        backend: BackendKind::default(),
        neighbours,
    }
}

#[test]
fn each_condition_is_calibrated_once_and_the_plain_one_only_where_nothing_is_predicted() {
    let conditions = |variants: &str| -> Vec<Condition> {
        let cases = cases(&loaded(variants)).into_iter();
        cases.map(|case| case.condition).collect()
    };
    let dedicated = conditions(VARIANTS)[2];
    assert_eq!(
        conditions(VARIANTS),
        [reserved(true), reserved(false), dedicated]
    );
    assert!(!dedicated.backend.has_budget() && !dedicated.neighbours);
    let plain = VARIANTS.rfind("[[").unwrap();
    assert_eq!(conditions(&VARIANTS[plain..]), [Condition::PLAIN]);
}

#[test]
fn rounds_take_turns_and_end_when_they_are_alike() {
    let (outcome, rig, record) = calibrated(VARIANTS, |_| {});
    assert_eq!(rig.log.len(), 3 * ROUNDS);
    assert!(rig.log.chunks(3).all(|turn| turn == &rig.log[..3]));
    assert_eq!(record.steps.len(), ROUNDS);
    assert!(record.remarks.is_empty() && !rig.neighbours);
    let calibrations = outcome.unwrap();
    let calibration = calibrations.of("store", reserved(true)).unwrap();
    assert_eq!(calibration.source, ServiceTimeSource::ProcessCpuTime);
    let execution = &calibration.execution_times["get"];
    assert_eq!(execution.count(), Some(2 * ROUNDS as u64));
    let median = execution.quantile(0.5).unwrap();
    assert_eq!(median.low, Duration::from_millis(1));
    assert!(execution.provenance.method.len() > 1 && calibration.remarks.is_empty());
}

#[test]
fn a_shortened_run_makes_fewer_rounds() {
    let counts = |scale| {
        let RoundCounts { least, most } = RoundCounts::for_scale(scale);
        (least, most)
    };
    assert_eq!([counts(1.0), counts(3.0)], [(ROUNDS, 2 * ROUNDS); 2]);
    assert_eq!(counts(0.5), (3, 6));
    assert_eq!(
        [counts(0.3), counts(0.01)],
        [(FEWEST_ROUNDS, 2 * FEWEST_ROUNDS); 2]
    );
}

#[test]
fn only_cases_whose_rounds_differ_get_more_of_them() {
    let (outcome, rig, record) = calibrated(VARIANTS, |rig| {
        rig.round_trip_us = |case, earlier| match case.condition.neighbours {
            true => 1_000 + 100 * (earlier as u64 % 4),
            false => 1_200,
        };
    });
    let of_neighbours = rig.log.iter().filter(|one| one.ends_with("true")).count();
    assert_eq!(of_neighbours, 2 * ROUNDS);
    assert_eq!(rig.log.len(), 2 * ROUNDS + 2 * ROUNDS);
    assert_eq!(record.steps.len(), 2 * ROUNDS);
    let calibrations = outcome.unwrap();
    let remarks = |condition| &calibrations.of("store", condition).unwrap().remarks;
    assert!(remarks(reserved(true))[0].contains("the machine's speed changes"));
    assert!(remarks(reserved(false)).is_empty());
}

#[test]
fn a_disturbed_round_does_not_count() {
    let (outcome, _, _) = calibrated(VARIANTS, |rig| {
        rig.round_trip_us = |_, earlier| if earlier == 1 { 9_000 } else { 1_200 };
    });
    let calibrations = outcome.unwrap();
    let calibration = calibrations.of("store", reserved(true)).unwrap();
    let times = &calibration.execution_times["get"];
    assert_eq!(times.count(), Some(2 * (ROUNDS as u64 - 1)));
    let mut csv = Vec::new();
    calibrations.write_csv(&mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    let rows = |counts: &str| csv.matches(counts).count();
    // Three conditions, two requests a round.
    assert_eq!(rows(",2,false,get,9000000,8800000"), 3 * 2);
    assert_eq!(rows(",true,get,1200000,1000000"), 3 * 2 * (ROUNDS - 1));
}

#[test]
fn a_refused_reservation_is_left_out_from_then_on() {
    let (outcome, rig, record) = calibrated(VARIANTS, |rig| rig.refuses = true);
    assert_eq!(rig.log.len(), 3 * ROUNDS);
    assert_eq!(record.remarks.len(), 3);
    assert!(record.remarks[0].contains("calibrated without a reservation, since no room"));
    assert!(outcome.unwrap().of("store", reserved(true)).is_some());
}

#[test]
fn a_failure_ends_the_calibration_and_the_neighbours() {
    let (outcome, rig, _) = calibrated(VARIANTS, |rig| rig.failing = Some(4));
    assert!(matches!(outcome, Err(ExperimentError::Stopped)));
    assert_eq!((rig.log.len(), rig.neighbours), (4, false));
}

#[test]
fn the_rate_of_busy_requests_is_that_of_the_first_round_in_every_condition() {
    let rate = BusyRate {
        iterations_per_millisecond: 123.0,
    };
    let (outcome, rig, _) = calibrated(VARIANTS, |rig| rig.busy = Some(rate));
    assert_eq!(rig.rates[0], None);
    assert!(rig.rates[1..].iter().all(|one| *one == Some(rate)));
    assert_eq!(outcome.unwrap().busy("store"), Some(rate));
}

#[test]
fn drift_compares_with_the_calibration_of_the_same_condition() {
    let (outcome, mut rig, _) = calibrated(VARIANTS, |_| {});
    let calibrations = outcome.unwrap();
    let case = &cases(&loaded(VARIANTS))[1];
    rig.round_trip_us = |_, _| 1_800;
    let plan = rig.plan(case).unwrap();
    let round = rig.round(case, &plan).unwrap();
    let drift = calibrations.drift("store", case.condition, &round).unwrap();
    assert!((drift - 1.5).abs() < 1e-9, "{drift}");
    assert_eq!(calibrations.drift("store", Condition::PLAIN, &round), None);
    // A condition without a calibration of its own takes the times of another condition, and has no process.
    let record = calibrations.record("synthetic");
    assert!(record.times("store", Condition::PLAIN).is_some());
    assert!(record.process("store", Condition::PLAIN, false).is_none());
    assert!(record.process("store", case.condition, false).is_some());
    assert!(record.times("other", Condition::PLAIN).is_none());
}

#[test]
fn a_record_is_read_as_it_was_written() {
    let (outcome, _, _) = calibrated(VARIANTS, |_| {});
    let record = outcome.unwrap().record("synthetic");
    let folder = tempfile::tempdir().unwrap();
    crate::result_folder::write_record(&record, folder.path()).unwrap();
    assert_eq!(CalibrationRecord::read(folder.path()).unwrap(), record);
    let file = folder.path().join(crate::calibration_record::RECORD_FILE);
    let text = std::fs::read_to_string(&file).unwrap();
    let later = text.replacen("\"schema_version\":1", "\"schema_version\":2", 1);
    assert_ne!(text, later);
    std::fs::write(&file, later).unwrap();
    let error = CalibrationRecord::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("it is of version 2"), "{error}");
    std::fs::remove_file(&file).unwrap();
    let error = CalibrationRecord::read(folder.path()).unwrap_err();
    assert!(
        error.to_string().contains("name the result folder"),
        "{error}"
    );
}

#[test]
fn rounds_go_on_until_the_supply_is_known() {
    let (outcome, rig, record) = calibrated(VARIANTS, |rig| rig.supply_known_after = 3 * 7);
    assert_eq!(rig.log.len(), 3 * 7);
    let step = record.steps.last().unwrap();
    assert!(step.contains("when the host takes the CPU away"), "{step}");
    let record = outcome.unwrap().record("synthetic");
    assert!(record.supply(Cpu(0)).is_none());
    // A host so slow that rounds do not fill the time gets no more of them than this.
    let (_, rig, _) = calibrated(VARIANTS, |rig| rig.supply_known_after = usize::MAX);
    assert_eq!(rig.log.len(), 3 * ROUNDS_FOR_SUPPLY);
}

#[test]
fn a_stall_of_the_reserved_cpu_is_no_execution() {
    let trace = |cpu| SupplyTrace {
        cpu: Cpu(cpu),
        begin: Instant::ORIGIN,
        end: Instant::from_nanos(1_000_000_000),
        gaps: vec![SupplyGap {
            due: Instant::ORIGIN,
            late: Duration::from_millis(3),
        }],
    };
    let stalled = |supply| {
        let (outcome, _, _) = calibrated(VARIANTS, |rig| rig.supply = Some(supply));
        let calibrations = outcome.unwrap();
        let remarks = &calibrations.of("store", reserved(true)).unwrap().remarks;
        remarks.iter().any(|one| one.contains("took the CPU away"))
    };
    assert!(stalled(vec![trace(0)]));
    assert!(!stalled(vec![trace(1)]));
}

#[test]
fn without_a_sampler_the_calibration_goes_on_and_says_what_bands_lack() {
    let (outcome, _, record) = calibrated(VARIANTS, |rig| rig.supply = None);
    assert!(record.remarks[0].contains("bands take the CPU as never taken away"));
    let record = outcome.unwrap().record("synthetic");
    let process = |condition| record.process("store", condition, false);
    assert!(process(reserved(true)).is_some());
    assert!(process(Condition::PLAIN).is_none());
    assert!(record.supply(Cpu(0)).is_none());
}
