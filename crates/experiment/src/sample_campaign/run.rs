//! The run of a campaign: point after point, each into the journal before the next one begins.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_linux::clock::Monotonic;
use tailbound_model::{InputFiles, LoadedDescription, Variant};
use tailbound_sampling::{
    AdaptiveDesign, CampaignTurn, PointFlag, PointRecord, SamplingDesign, factorial_turns,
    unconfirmed,
};
use tailbound_sweep::UnitJournal;
use tailbound_time::{Clock, Duration};

use super::SampleError;
use super::data_set::write_raw;
use super::fitted_queue::fitted_queues;
use super::plan::{CampaignPlan, PlannedPoint};
use super::point::PointRun;
use super::reports::ReportSource;
use super::result::{CampaignEnd, SampledCampaign};
use crate::calibrations::{Calibrating, Calibrations, RoundCounts};
use crate::programs::{Surroundings, absolute};
use crate::testbed::Testbed;
use crate::{ExperimentError, ExperimentStep, Observer};

/// The journal in the folder of a campaign.
pub(super) const JOURNAL_FILE: &str = "points.journal";
/// The most measurements of a campaign.
const MOST_TURNS: usize = 1_000_000;
/// Points without a result, one after the other, that end a campaign: the next one would have none either.
const MOST_FAILURES: usize = 3;
/// The part of a usual calibration that an application with `{busy:...}` in its requests gets.
const CALIBRATION_SCALE: f64 = 0.2;

/// How a campaign is run.
#[derive(Clone, Debug)]
pub struct SampleOptions {
    /// The folder of the journal and the results.
    pub out: PathBuf,
    /// Our own executable, for the built-in programs.
    pub executable: PathBuf,
    /// The seed, in place of the description's.
    pub seed: Option<u64>,
    /// The time after which no other point begins, in place of the description's.
    pub time_budget: Option<Duration>,
    /// Axes of which only some values are measured, with these.
    pub only: Vec<(String, String)>,
    /// The wall clock: the time now, RFC 3339 in UTC.
    pub now: fn() -> String,
    /// The wall clock in milliseconds since 1970, UTC.
    pub now_ms: fn() -> i64,
}

/// Measures the points of the campaign of a description, and answers by them. Points that the folder has already are
/// not measured again.
///
/// # Errors
/// The description has no campaign, a point cannot be enforced here, the application does not start, or the folder
/// cannot be written. Points that were measured before stay in the journal.
pub fn sample(
    loaded: &LoadedDescription,
    inputs: &InputFiles,
    options: &SampleOptions,
    stop: &AtomicBool,
    observer: &mut dyn Observer,
) -> Result<SampledCampaign, SampleError> {
    let plan = CampaignPlan::of(loaded, inputs, &options.only)?;
    plan.check_host()?;
    let seed = options.seed.unwrap_or(loaded.description.seed);
    let metrics = &plan.campaign.metrics;
    let reports = ReportSource::new(metrics, absolute(loaded.base()), options.now_ms)?;
    let (journal, records) = open_journal(&options.out, &plan.title(seed))?;
    if !records.is_empty() {
        observer.remark(&format!(
            "{} points are in {} already",
            records.len(),
            options.out.display()
        ));
    }
    let mut run = CampaignRun {
        design: PointChoice::of(&plan, seed),
        plan: &plan,
        options,
        reports,
        seed,
        stop,
        journal,
        records,
        calibrations: None,
    };
    let end = run.measure_all(observer)?;
    let CampaignRun { records, .. } = run;
    let queues = fitted_queues(&plan, &records);
    let points = (plan.campaign, plan.grid, records);
    Ok(SampledCampaign::of(loaded, points, end, queues))
}

/// Opens the journal of a folder, and returns the records in it.
fn open_journal(out: &Path, title: &str) -> Result<(UnitJournal, Vec<PointRecord>), SampleError> {
    std::fs::create_dir_all(out).map_err(|cause| ExperimentError::Write {
        file: out.display().to_string(),
        cause: cause.to_string(),
    })?;
    let path = out.join(JOURNAL_FILE);
    let opened = UnitJournal::open(&path, title, MOST_TURNS);
    let (journal, units) =
        opened.map_err(|error| SampleError::of_journal(error, out.to_owned()))?;
    let mut records = Vec::new();
    for (unit, text) in units {
        let record = serde_json::from_str(&text).map_err(|cause| SampleError::Record {
            journal: path.clone(),
            unit,
            cause: cause.to_string(),
        })?;
        records.push(record);
    }
    Ok((journal, records))
}

/// What is measured next.
enum PointChoice {
    Factorial(Vec<CampaignTurn>),
    Adaptive(AdaptiveDesign),
}

impl PointChoice {
    fn of(plan: &CampaignPlan<'_>, seed: u64) -> Self {
        let campaign = &plan.campaign;
        match campaign.design {
            SamplingDesign::Factorial => Self::Factorial(factorial_turns(
                &plan.grid,
                campaign.repeats,
                campaign.control_distance,
                seed,
            )),
            SamplingDesign::Adaptive => Self::Adaptive(AdaptiveDesign {
                grid: plan.grid.clone(),
                confidence: campaign.confidence.probability(),
                tolerance: campaign.tolerance_points.0,
                repeats: campaign.repeats,
                control_distance: campaign.control_distance,
                seed,
            }),
        }
    }

    fn next(&self, records: &[PointRecord]) -> Option<CampaignTurn> {
        match self {
            Self::Factorial(turns) => turns.get(records.len()).copied(),
            Self::Adaptive(design) => design.next(records),
        }
    }

    /// The number of measurements, where it is fixed.
    fn count(&self) -> Option<usize> {
        match self {
            Self::Factorial(turns) => Some(turns.len()),
            Self::Adaptive(_) => None,
        }
    }
}

struct CampaignRun<'a> {
    plan: &'a CampaignPlan<'a>,
    design: PointChoice,
    options: &'a SampleOptions,
    /// Where the application's own reports are.
    reports: ReportSource<'a>,
    seed: u64,
    stop: &'a AtomicBool,
    journal: UnitJournal,
    records: Vec<PointRecord>,
    /// How long `{busy:...}` takes, measured once for all points.
    calibrations: Option<Calibrations>,
}

impl CampaignRun<'_> {
    fn measure_all(&mut self, observer: &mut dyn Observer) -> Result<CampaignEnd, SampleError> {
        loop {
            let turn = match self.next_turn() {
                Ok(turn) => turn,
                Err(end) => return Ok(end),
            };
            let staged = self.plan.point(turn.point)?;
            observer.step(&self.step("starting the application", true));
            let mut testbed = self.testbed(&staged)?;
            self.calibrate(&staged, &mut testbed, observer)?;
            testbed.start_neighbours()?;
            let outcome = self.measure_stage(&staged, &mut testbed, observer);
            self.calibrations = Some(std::mem::take(&mut testbed.calibrations));
            outcome?;
        }
    }

    /// The next measurement, or why there is none. Answers are confirmed last; where the time is limited, as they come in
    /// the second half of it, so that there is time to look on from one that was lucky.
    fn next_turn(&self) -> Result<CampaignTurn, CampaignEnd> {
        if self.stop.load(Ordering::SeqCst) {
            return Err(CampaignEnd::Stopped);
        }
        let confirmations = self.plan.campaign.confirmations;
        let unconfirmed = unconfirmed(&self.plan.grid, &self.records, confirmations);
        let confirmation = unconfirmed.first().copied();
        let left = self.time_left();
        let next = match left.is_some_and(|left| left <= self.spent()) {
            true => confirmation.or_else(|| self.next_point()),
            false => self.next_point().or(confirmation),
        };
        match (next, left) {
            (None, _) => Err(CampaignEnd::Complete),
            (Some(_), Some(left)) if left.is_zero() => Err(CampaignEnd::TimeOver),
            (Some(turn), _) => Ok(turn),
        }
    }

    fn next_point(&self) -> Option<CampaignTurn> {
        self.design.next(&self.records)
    }

    /// What is left of the time in which points may begin; `None` where it is not limited.
    fn time_left(&self) -> Option<Duration> {
        let budget = self.options.time_budget.or(self.plan.campaign.time_budget);
        budget.map(|budget| budget.saturating_sub(self.spent()))
    }

    fn spent(&self) -> Duration {
        let each = self.records.iter().map(|record| record.taken);
        each.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// Measures points one after the other, as long as the running application will do for them.
    fn measure_stage(
        &mut self,
        staged: &PlannedPoint,
        testbed: &mut Testbed<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(), SampleError> {
        let mut begin = Monotonic.now();
        while let Ok(turn) = self.next_turn() {
            let planned = self.plan.point(turn.point)?;
            if planned.stage != staged.stage {
                return Ok(());
            }
            let what = self.plan.grid.in_words(turn.point);
            observer.step(&self.step(&what, true));
            let run = PointRun {
                planned: &planned,
                campaign: &self.plan.campaign,
                turn,
                seed: self.seed_of(self.records.len()),
                reports: &self.reports,
                stop: self.stop,
            };
            let mut measured = run.measure(testbed, (self.options.now)())?;
            let number = self.records.len();
            write_raw(&self.options.out, number, &measured)?;
            let end = Monotonic.now();
            measured.record.taken = end.saturating_since(begin);
            begin = end;
            let has_failed = measured.record.flags.contains(&PointFlag::Failed);
            self.keep(measured.record, observer)?;
            if has_failed {
                // The application is started anew.
                return self.check_failures();
            }
        }
        Ok(())
    }

    /// The seed of the arrivals of a measurement: its own, so that no two measurements share their luck.
    fn seed_of(&self, number: usize) -> u64 {
        self.seed.wrapping_add((number as u64 + 1) << 8)
    }

    fn keep(
        &mut self,
        record: PointRecord,
        observer: &mut dyn Observer,
    ) -> Result<(), SampleError> {
        let text = serde_json::to_string(&record).map_err(|cause| ExperimentError::Write {
            file: self.options.out.join(JOURNAL_FILE).display().to_string(),
            cause: cause.to_string(),
        })?;
        let added = self.journal.add(self.records.len(), &text);
        added
            .and_then(|()| self.journal.sync())
            .map_err(SampleError::Journal)?;
        if let Some(failure) = &record.failure {
            let point = self.plan.grid.in_words(record.point);
            observer.remark(&format!("{point}: {failure}"));
        }
        self.records.push(record);
        Ok(())
    }

    fn check_failures(&self) -> Result<(), SampleError> {
        let failed = self.records.iter().rev();
        let failed = failed.take_while(|one| one.flags.contains(&PointFlag::Failed));
        let points = failed.count();
        let last = self.records.last().and_then(|one| one.failure.clone());
        match points >= MOST_FAILURES {
            true => Err(SampleError::Failing {
                points,
                cause: last.unwrap_or_default(),
            }),
            false => Ok(()),
        }
    }

    fn testbed<'t>(&self, staged: &'t PlannedPoint) -> Result<Testbed<'t>, SampleError> {
        let mut file = staged.loaded.path.clone();
        if !staged.stage.is_empty() {
            // Built-in programs read their tasks from the description.
            file = self.options.out.join("stage.toml");
            std::fs::write(&file, &staged.loaded.text).map_err(|cause| ExperimentError::Write {
                file: file.display().to_string(),
                cause: cause.to_string(),
            })?;
        }
        let surroundings = Surroundings {
            file,
            base: absolute(staged.loaded.base()),
            out: absolute(&self.options.out),
            executable: self.options.executable.clone(),
        };
        Ok(Testbed::start(
            (&staged.loaded, &staged.inputs),
            surroundings,
            self.seed,
            self.stop,
        )?)
    }

    /// Measures how long `{busy:...}` takes, if a request has it and that is not known yet.
    fn calibrate(
        &mut self,
        staged: &PlannedPoint,
        testbed: &mut Testbed<'_>,
        observer: &mut dyn Observer,
    ) -> Result<(), SampleError> {
        if let Some(calibrations) = self.calibrations.take() {
            testbed.calibrations = calibrations;
            return Ok(());
        }
        let services = staged.loaded.description.services.values();
        let mut requests = services.flat_map(|service| service.tasks.values());
        if !requests.any(|task| format!("{:?}", task.request).contains("{busy:")) {
            return Ok(());
        }
        let variant = Variant::as_described();
        testbed.calibration_scale = CALIBRATION_SCALE;
        let calibrating = Calibrating {
            variants: vec![(&variant, &staged.deployment)],
            seed: self.seed,
            rounds: RoundCounts::for_scale(CALIBRATION_SCALE),
            supply_span: Duration::ZERO,
            stop: self.stop,
        };
        testbed.calibrations = calibrating.carry_out(testbed, observer)?;
        Ok(())
    }

    /// How far the campaign is, with the time that is left at the pace so far.
    fn step(&self, what: &str, begins: bool) -> ExperimentStep {
        let finished = self.records.len();
        let spent = self.spent().as_secs_f64();
        let by_time = self.time_left().map(Duration::as_secs_f64);
        let by_count = self.design.count().map(|count| {
            let campaign = &self.plan.campaign;
            let guess = campaign.least_time.saturating_add(campaign.warm_up);
            let pace = match finished {
                0 => guess.as_secs_f64(),
                _ => spent / finished as f64,
            };
            pace * count.saturating_sub(finished) as f64
        });
        let left = match (by_time, by_count) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        let done = left.map_or(0.0, |left| spent / (spent + left).max(1e-9));
        let of_all = self
            .design
            .count()
            .filter(|count| finished < *count)
            .map_or(String::new(), |count| format!(" of {count}"));
        let left = left.map_or(String::new(), |left| format!(", {} left", in_minutes(left)));
        ExperimentStep {
            what: format!("point {}{of_all}{left}: {what}", finished + 1),
            done,
            begins,
        }
    }
}

fn in_minutes(seconds: f64) -> String {
    match seconds {
        short if short < 90.0 => format!("{short:.0} s"),
        long => format!("{:.0} min", long / 60.0),
    }
}
