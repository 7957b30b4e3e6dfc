//! Pairs of modes, patterns of their releases around a request, and their schedules by the simulator.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::{DedicatedCpu, PeriodicSupply, SupplyBound};
use tailbound_analysis::schedulability::mode_change::{ModePair, ModeTask, Supplies};
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Level, LevelMember, PlannedReservation, PlannedTask, Rank,
    Rule, ServerKind, simulate_plan,
};
use tailbound_time::Duration;

/// No period is longer.
pub const LONGEST_PERIOD_NS: u64 = 30;

pub fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

pub fn mode_task(name: &str, rank: u64, numbers: (u64, u64, u64)) -> ModeTask {
    let (execution, period, deadline) = numbers;
    ModeTask {
        name: name.into(),
        rank,
        task: SporadicTask::new(ns(execution), ns(period), ns(deadline)).unwrap(),
    }
}

pub fn generator(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

/// An old and a new mode.
#[derive(Clone, Debug)]
pub struct Modes {
    pub old: Vec<ModeTask>,
    pub new: Vec<ModeTask>,
}

impl Modes {
    pub fn pair<'a>(&'a self, supply: &'a dyn SupplyBound) -> ModePair<'a> {
        ModePair::new(&self.old, &self.new, Supplies::Same(supply)).unwrap()
    }

    /// Some tasks of the old mode go, some stay, some change, and others come; of both modes up to
    /// so many thousandths of a CPU are asked for.
    pub fn any(random: &mut ChaCha8Rng, most_permille: u64) -> Self {
        let old_count = random.random_range(1..=4);
        let by_deadline = random.random_bool(0.7);
        let shares = shares(random, old_count, most_permille);
        let old: Vec<ModeTask> = (0..)
            .zip(&shares)
            .map(|(index, share)| any_task(random, &format!("o{index}"), *share, by_deadline))
            .collect();
        let new_count = random.random_range(1..=3);
        let mut new = Vec::new();
        for one in &old {
            match random.random_range(0..10) {
                0..=3 => new.push(one.clone()),
                4..=5 => {
                    let share = random.random_range(50..=most_permille / 2);
                    new.push(any_task(random, &one.name, share, by_deadline));
                }
                _ => {}
            }
        }
        let shares = self::shares(random, new_count, most_permille);
        for (index, share) in (0..).zip(&shares) {
            new.push(any_task(
                random,
                &format!("n{index}"),
                share / 2 + 1,
                by_deadline,
            ));
        }
        Self { old, new }
    }

    pub fn is_unchanged(&self, task: &ModeTask) -> bool {
        self.old.contains(task) && self.new.contains(task)
    }

    /// The place of a task of the new mode among the members of the plan.
    fn position_of_new(&self, index: usize) -> usize {
        let same = self.old.iter().position(|old| *old == self.new[index]);
        same.unwrap_or(self.old.len() + index)
    }

    /// All members of the plan, and before them one that comes before all others, to use budget up.
    fn ranks(&self) -> impl Iterator<Item = u64> {
        let tasks = self.old.iter().chain(&self.new);
        [0].into_iter().chain(tasks.map(|task| task.rank + 1))
    }
}

fn shares(random: &mut ChaCha8Rng, count: usize, most_permille: u64) -> Vec<u64> {
    let all = random.random_range(most_permille / 3..=most_permille);
    let raw: Vec<u64> = (0..count).map(|_| random.random_range(1..=100)).collect();
    let sum: u64 = raw.iter().sum();
    raw.iter().map(|one| one * all / sum).collect()
}

fn any_task(random: &mut ChaCha8Rng, name: &str, permille: u64, by_deadline: bool) -> ModeTask {
    let period = random.random_range(4..=LONGEST_PERIOD_NS);
    let execution = (permille * period / 1_000).clamp(1, period);
    let deadline = match random.random_bool(0.3) {
        true => random.random_range(execution..=period),
        false => period,
    };
    let rank = match by_deadline {
        true => deadline,
        // With equals among them.
        false => random.random_range(0..5),
    };
    mode_task(name, rank, (execution, period, deadline))
}

/// What the tasks run on.
#[derive(Clone, Debug)]
pub enum Ground {
    Cpu,
    Reserved {
        rule: Rule,
        budget_ns: u64,
        period_ns: u64,
        phase: u64,
    },
}

impl Ground {
    pub fn any_reservation(random: &mut ChaCha8Rng) -> Self {
        let period_ns = random.random_range(2..=6);
        let rules = [
            Rule::Server(ServerKind::Deferrable),
            Rule::Server(ServerKind::Periodic),
            Rule::Server(ServerKind::Polling),
        ];
        Self::Reserved {
            rule: rules[random.random_range(0..rules.len())].clone(),
            budget_ns: random.random_range(1..=period_ns),
            period_ns,
            phase: random.random_range(0..period_ns),
        }
    }

    pub fn permille(&self) -> u64 {
        match self {
            Self::Cpu => 1_000,
            Self::Reserved {
                budget_ns,
                period_ns,
                ..
            } => budget_ns * 1_000 / period_ns,
        }
    }

    pub fn supply(&self) -> Box<dyn SupplyBound> {
        let Self::Reserved {
            rule,
            budget_ns,
            period_ns,
            ..
        } = self
        else {
            return Box::new(DedicatedCpu);
        };
        let (budget, period, alone) = (ns(*budget_ns), ns(*period_ns), Duration::ZERO);
        match rule {
            Rule::Server(ServerKind::Deferrable) => {
                Box::new(PeriodicSupply::deferrable(budget, period, Duration::ZERO).unwrap())
            }
            Rule::Server(ServerKind::Polling) => {
                Box::new(PeriodicSupply::polling(budget, period, alone).unwrap())
            }
            _ => Box::new(PeriodicSupply::somewhere(budget, period).unwrap()),
        }
    }

    fn plan(&self, modes: &Modes) -> HierarchyPlan {
        let member = |rank| LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank)));
        let inside = Level::of(modes.ranks().map(member).collect());
        let Self::Reserved {
            rule,
            budget_ns,
            period_ns,
            phase,
        } = self
        else {
            return HierarchyPlan::on_one_cpu(inside);
        };
        HierarchyPlan::on_one_cpu(Level::of(vec![LevelMember::Reservation(
            PlannedReservation {
                rank: Rank::Fixed(0),
                rule: rule.clone(),
                budget: ns(*budget_ns),
                period: ns(*period_ns),
                phase: ns(*phase),
                inside,
            },
        )]))
    }
}

/// A job of a mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeJob {
    /// Whether it is of a task that the old mode does not have in the same way.
    pub only_new: bool,
    /// The index of the task: in the new mode where only that has it, or else in the old one.
    pub task: usize,
    pub release: u64,
    pub work: u64,
}

/// Jobs with their ends.
pub type Schedule = Vec<(ModeJob, u64)>;

/// When the new mode starts, and whose releases stop when.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// Completed tasks release nothing from here on.
    pub completed_end: u64,
    /// Unchanged tasks release nothing from here on, until the new mode starts.
    pub unchanged_end: u64,
    /// The start of the new mode.
    pub start: u64,
}

impl Change {
    /// Completed tasks stop at the request, new ones start later by the offset.
    pub fn after(request: u64, offset: u64) -> Self {
        Self {
            completed_end: request + 1,
            unchanged_end: u64::MAX,
            start: request + offset,
        }
    }

    /// All tasks of the old mode stop at the request.
    pub fn of_all_after(request: u64, offset: u64) -> Self {
        Self {
            unchanged_end: request + 1,
            ..Self::after(request, offset)
        }
    }

    /// The new mode takes the place of the old one at an instant.
    pub fn at(instant: u64) -> Self {
        Self {
            completed_end: instant,
            unchanged_end: u64::MAX,
            start: instant,
        }
    }
}

/// The releases of the tasks of the old mode, as if it went on for ever, and a request.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    pub modes: &'a Modes,
    pub request: u64,
    /// Releases and work, per task of the old mode.
    old: Vec<Vec<(u64, u64)>>,
    horizon: u64,
}

impl<'a> Scenario<'a> {
    /// All tasks of the old mode together from `origin` on, as often and as long as they can.
    pub fn synchronous(modes: &'a Modes, origin: u64, request: u64) -> Self {
        let horizon = request + 5 * LONGEST_PERIOD_NS;
        let old = modes
            .old
            .iter()
            .map(|one| stream(&one.task, origin, horizon, None));
        Self {
            modes,
            request,
            old: old.collect(),
            horizon,
        }
    }

    /// Any phases, some gaps longer and some jobs shorter than they may be; the request at a release
    /// in half of the scenarios.
    pub fn any(modes: &'a Modes, random: &mut ChaCha8Rng) -> Self {
        let request = random.random_range(0..2 * LONGEST_PERIOD_NS);
        let horizon = request + 5 * LONGEST_PERIOD_NS;
        let together = random.random_bool(0.3);
        let mut old: Vec<Vec<(u64, u64)>> = Vec::new();
        for one in &modes.old {
            let first = match together {
                true => 0,
                false => random.random_range(0..one.task.period().as_nanos()),
            };
            old.push(stream(&one.task, first, horizon, Some(random)));
        }
        let task = random.random_range(0..2 * old.len());
        let after = |jobs: &Vec<(u64, u64)>| jobs.iter().map(|job| job.0).find(|at| *at >= request);
        let request = old.get(task).and_then(after).unwrap_or(request);
        Self {
            modes,
            request,
            old,
            horizon,
        }
    }

    /// The old mode as if there were no request.
    pub fn without_change(&self) -> Vec<ModeJob> {
        self.old_jobs(u64::MAX, u64::MAX)
    }

    fn old_jobs(&self, completed_end: u64, unchanged_end: u64) -> Vec<ModeJob> {
        let mut jobs = Vec::new();
        for (task, releases) in self.old.iter().enumerate() {
            let end = match self.modes.is_unchanged(&self.modes.old[task]) {
                true => unchanged_end,
                false => completed_end,
            };
            let kept = releases.iter().filter(|(release, _)| *release < end);
            jobs.extend(kept.map(|(release, work)| ModeJob {
                only_new: false,
                task,
                release: *release,
                work: *work,
            }));
        }
        jobs
    }

    /// The jobs of both modes; tasks that start, start at once or a little later.
    pub fn with_change(&self, change: Change, mut random: Option<&mut ChaCha8Rng>) -> Vec<ModeJob> {
        let mut jobs = self.old_jobs(change.completed_end, change.unchanged_end);
        for (index, one) in self.modes.new.iter().enumerate() {
            let same = self.modes.old.iter().position(|old| old == one);
            if same.is_some() && change.unchanged_end == u64::MAX {
                continue;
            }
            let later = random
                .as_deref_mut()
                .map_or(0, |random| random.random_range(0..12_u64).saturating_sub(8));
            let first = change.start + later;
            let releases = stream(&one.task, first, self.horizon, random.as_deref_mut());
            jobs.extend(releases.into_iter().map(|(release, work)| ModeJob {
                only_new: same.is_none(),
                task: same.unwrap_or(index),
                release,
                work,
            }));
        }
        jobs
    }
}

/// Releases with their work; none from the horizon on.
fn stream(
    task: &SporadicTask,
    first: u64,
    horizon: u64,
    mut random: Option<&mut ChaCha8Rng>,
) -> Vec<(u64, u64)> {
    let (period_ns, work) = (task.period().as_nanos(), task.execution().as_nanos());
    let mut jobs = Vec::new();
    let mut release = first;
    while release < horizon {
        let (mut work, mut more) = (work, 0);
        if let Some(random) = random.as_deref_mut() {
            if random.random_bool(0.1) {
                work = random.random_range(1..=work);
            }
            more = random.random_range(0..20_u64).saturating_sub(16);
        }
        jobs.push((release, work));
        release += period_ns + more;
    }
    jobs
}

/// Schedules jobs; `drained` first uses the budget of a reservation up from the origin on.
pub fn schedule(modes: &Modes, ground: &Ground, jobs: &[ModeJob], drained: u64) -> Schedule {
    let of = |(number, job): (u64, &ModeJob)| Job {
        delay_ns: 0,
        task: 1 + match job.only_new {
            true => modes.position_of_new(job.task),
            false => job.task,
        },
        number,
        release: job.release,
        work: job.work,
    };
    let mut listed: Vec<Job> = (0..).zip(jobs).map(of).collect();
    if drained > 0 {
        listed.push(Job {
            delay_ns: 0,
            task: 0,
            number: u64::MAX,
            release: 0,
            work: drained,
        });
    }
    listed.sort_by_key(|job| job.release);
    let mut ends: Vec<Completion> = Vec::new();
    let outcome = simulate_plan(&ground.plan(modes), &mut &listed[..], &mut ends, None).unwrap();
    assert_eq!(outcome.unfinished, 0);
    ends.retain(|end| end.number != u64::MAX);
    let job = |number: u64| jobs[usize::try_from(number).unwrap()];
    ends.iter().map(|end| (job(end.number), end.end)).collect()
}

/// The first instant, at the request or after it, at which all has been done that was released before
/// it, and by the old mode up to the request.
pub fn first_idle_instant(schedule: &Schedule, request: u64) -> u64 {
    let mut idle = request;
    loop {
        let counts =
            |job: &ModeJob| job.release < idle || (job.release <= request && !job.only_new);
        let before = schedule.iter().filter(|(job, _)| counts(job));
        match before.map(|(_, end)| *end).max() {
            Some(end) if end > idle => idle = end,
            _ => return idle,
        }
    }
}

/// Whether a job ends after its deadline.
pub fn misses(modes: &Modes, schedule: &Schedule) -> bool {
    schedule.iter().any(|(job, end)| {
        let mode = if job.only_new { &modes.new } else { &modes.old };
        end - job.release > mode[job.task].task.deadline().as_nanos()
    })
}
