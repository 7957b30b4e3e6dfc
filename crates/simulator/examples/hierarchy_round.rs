//! Simulates the settings that bench/simulator compares, one a line on standard input, and says how
//! long each took.
//!
//! A line is a setting and a number of jobs. The answer has nanoseconds, then of the last task p50 and
//! p99 (middles of their bounds), and of all tasks the longest response time, in seconds. Settings that
//! begin with `described-` are descriptions, simulated as `tailbound simulate` does it.
//!
//! A line `ends-POLICY MICROSECONDS PERIOD,OFFSET,WORK ...` is answered by the end of each job before
//! that time, as `TASK:JOB:NANOSECONDS`; periods, offsets and work are in microseconds, too.
#![allow(missing_docs)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use tailbound_distribution::{Evidence, Provenance};
use tailbound_model::{Arrivals, ExecutionTime, InputFiles, Service, parse};
use tailbound_simulator::hierarchy::{
    Completion, HierarchyError, HierarchyPlan, JobSource, Level, LevelMember, PeriodicJobs,
    PeriodicSource, Piece, PlannedReservation, PlannedTask, Rank, Rule, ServerKind, Sink,
    simulate_plan,
};
use tailbound_simulator::host::{HostQuery, Kept, MOST_EVENTS, Nothing, simulate_host};
use tailbound_simulator::traces::Tee;
use tailbound_simulator::workload::DrawnJobs;
use tailbound_simulator::{ResponseTimes, Tally};
use tailbound_time::{Duration, Rate};

/// Ten tasks with periods of 2 to 11 ms, each with 7 % of a CPU.
fn periods_ns() -> impl Iterator<Item = u64> + Clone {
    (2..12).map(|period_ms| period_ms * 1_000_000)
}

fn level(members: impl Iterator<Item = LevelMember>) -> Level {
    Level::of(members.collect())
}

fn by_rank(period_ns: u64) -> LevelMember {
    LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(period_ns)))
}

fn by_deadline(period_ns: u64) -> LevelMember {
    LevelMember::Task(PlannedTask::of_rank(Rank::Deadline(Duration::from_nanos(
        period_ns,
    ))))
}

fn deferrable(rank: u64, budget: Duration, period: Duration, inside: Level) -> LevelMember {
    LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(rank),
        rule: Rule::Server(ServerKind::Deferrable),
        budget,
        period,
        phase: Duration::ZERO,
        inside,
    })
}

/// Two reservations of 45 %, one with the five shorter periods and one with the others.
fn two_reservations() -> Level {
    let (budget, period) = (Duration::from_micros(450), Duration::from_millis(1));
    let half = |skipped| level(periods_ns().skip(skipped).take(5).map(by_rank));
    let members = [0, 5].map(|skipped| deferrable(skipped as u64, budget, period, half(skipped)));
    level(members.into_iter())
}

/// One task in a reservation; without one, on a CPU of its own.
fn queue(reserved: Option<(Duration, Duration)>) -> Level {
    let inside = level([by_rank(0)].into_iter());
    match reserved {
        Some((budget, period)) => level([deferrable(0, budget, period, inside)].into_iter()),
        None => inside,
    }
}

/// Execution times of one second and 0.4 of them a second.
fn queue_service(rate: Rate) -> Service {
    let task = tailbound_model::Task::of(
        Arrivals::Poisson { rate },
        ExecutionTime::Constant {
            value: Duration::from_secs(1),
        },
    );
    Service::of("benchmark", "unix:none", [("job", task)])
}

struct Round {
    took_ns: u128,
    per_task: Vec<Tally>,
}

fn timed(
    plan: &HierarchyPlan,
    tasks: usize,
    jobs: impl JobSource,
) -> Result<Round, HierarchyError> {
    timed_with(plan, tasks, jobs, Nothing)
}

/// Simulates a plan for its response times and for another sink.
fn timed_with(
    plan: &HierarchyPlan,
    tasks: usize,
    mut jobs: impl JobSource,
    other: impl Sink,
) -> Result<Round, HierarchyError> {
    let mut sink = Tee(ResponseTimes::new(tasks, Duration::ZERO), other);
    let start = Instant::now();
    simulate_plan(plan, &mut jobs, &mut sink, None)?;
    Ok(Round {
        took_ns: start.elapsed().as_nanos(),
        per_task: sink.0.per_task,
    })
}

/// Asks for each piece in the order of time, as a trace does, and keeps none.
struct Piecewise;

impl Sink for Piecewise {
    fn completed(&mut self, _completion: &Completion) {}

    fn ran(&mut self, piece: &Piece) {
        std::hint::black_box(piece);
    }
}

fn periodic(root: Level, jobs: u64) -> Result<Round, HierarchyError> {
    let tasks = periods_ns().map(|period_ns| PeriodicSource {
        offset: 0,
        period_ns,
        work: period_ns * 7 / 100,
    });
    let tasks: Vec<PeriodicSource> = tasks.collect();
    let plan = HierarchyPlan::on_one_cpu(root);
    timed(&plan, tasks.len(), PeriodicJobs::new(tasks, jobs))
}

/// Four tasks for each CPU, under global earliest deadline first, with 70 % of the CPUs together.
fn global_periods_us(cpus: u64) -> impl Iterator<Item = u64> {
    (0..4 * cpus).map(|index| 2_000 + index % 64 * 200)
}

fn global_tasks(cpus: u64) -> Vec<PeriodicSource> {
    let periods = global_periods_us(cpus).map(|period_us| period_us * 1_000);
    let tasks = periods.map(|period_ns| PeriodicSource {
        offset: 0,
        period_ns,
        work: period_ns * 175 / 1_000,
    });
    tasks.collect()
}

/// The tasks on the host, each piece of every CPU reported, as traces need it, or each in a reservation
/// of its own.
fn global(cpus: u64, jobs: u64, kind: Global) -> Result<Round, HierarchyError> {
    let tasks = global_tasks(cpus);
    let members = tasks.iter().map(|task| match kind {
        Global::Plain | Global::Traced => by_deadline(task.period_ns),
        Global::Reserved => LevelMember::Reservation(PlannedReservation {
            rank: Rank::Deadline(Duration::from_nanos(task.period_ns)),
            rule: Rule::Server(ServerKind::ConstantBandwidth),
            budget: Duration::from_nanos(task.work),
            period: Duration::from_nanos(task.period_ns),
            phase: Duration::ZERO,
            inside: level([by_rank(0)].into_iter()),
        }),
    });
    let plan = HierarchyPlan::global(cpus as usize, level(members));
    let count = tasks.len();
    let jobs = PeriodicJobs::new(tasks, jobs);
    match kind {
        Global::Plain | Global::Reserved => timed(&plan, count, jobs),
        Global::Traced => timed_with(&plan, count, jobs, Piecewise),
    }
}

/// What is simulated of a host with one queue for all its CPUs.
#[derive(Clone, Copy)]
enum Global {
    Plain,
    Traced,
    Reserved,
}

fn poisson(root: Level, jobs: u64) -> Result<Round, Box<dyn Error>> {
    let rate = Rate::per_second(0.4).ok_or("the rate is not above zero")?;
    let service = queue_service(rate);
    let horizon = Duration::from_secs_f64_nearest(jobs as f64 / rate.as_per_second());
    let inputs = InputFiles::default();
    let jobs = DrawnJobs::new(&service, horizon, 7, &inputs)?;
    Ok(timed(&HierarchyPlan::on_one_cpu(root), 1, jobs)?)
}

/// The tasks of a domain, with these periods in microseconds and this share of a CPU each.
fn described_tasks(periods_us: impl Iterator<Item = u64>, permille: u64) -> String {
    let task = |(index, period_us): (usize, u64)| {
        let work_us = period_us * permille / 1000;
        format!(
            "tasks.t{index} = {{ arrivals = {{ kind = \"periodic\", period = \"{period_us}us\" }}, \
             execution_time = {{ kind = \"constant\", value = \"{work_us}us\" }} }}\n"
        )
    };
    periods_us.enumerate().map(task).collect()
}

fn ten_periods_us() -> impl Iterator<Item = u64> {
    periods_ns().map(|period_ns| period_ns / 1_000)
}

fn described_alone(scheduling: &str) -> String {
    format!(
        "hosts.here.cpus = [0]\n[domains.one]\nkind = \"process\"\ncommand = [\"one\"]\n\
         scheduling = \"{scheduling}\"\n{}",
        described_tasks(ten_periods_us(), 70)
    )
}

fn described_reservations() -> String {
    let half = |(name, skipped, priority)| {
        format!(
            "[domains.{name}]\nkind = \"process\"\ncommand = [\"{name}\"]\n\
             scheduling = \"rate-monotonic\"\nreservation = {{ budget = \"450us\", period = \"1ms\", \
             priority = {priority}, cpus = [0] }}\n{}",
            described_tasks(ten_periods_us().skip(skipped).take(5), 70)
        )
    };
    let halves: String = [("one", 0, 2), ("two", 5, 1)]
        .into_iter()
        .map(half)
        .collect();
    format!("hosts.here.cpus = [0]\n{halves}")
}

fn described_global(cpus: u64) -> String {
    let list: Vec<String> = (0..cpus).map(|cpu| cpu.to_string()).collect();
    let list = list.join(", ");
    format!(
        "hosts.here.cpus = [{list}]\n[domains.one]\nkind = \"qemu-vm\"\nplacement = \"global\"\n\
         scheduling = \"earliest-deadline-first\"\n\
         reservation = {{ backend = \"dedicated\", cpus = [{list}] }}\n{}",
        described_tasks(global_periods_us(cpus), 175)
    )
}

/// Simulates a description with about so many jobs.
fn described(setting: &str, jobs: u64) -> Result<String, Box<dyn Error>> {
    let text = match setting {
        "fixed-priority" => described_alone("rate-monotonic"),
        "earliest-deadline" => described_alone("earliest-deadline-first"),
        "two-reservations" => described_reservations(),
        other => match other.strip_prefix("global-") {
            Some(cpus) => described_global(cpus.parse()?),
            None => return Err(format!("there is no description `{other}`").into()),
        },
    };
    let text = format!("schema_version = 1\nname = \"speed\"\n{text}");
    let description = parse(&text, setting)?;
    let domains = description.domains.values();
    let rates = domains.flat_map(|domain| domain.tasks.values());
    let rates = rates.filter_map(tailbound_model::Task::mean_rate);
    let per_second: f64 = rates.map(Rate::as_per_second).sum();
    let query = HostQuery {
        description: &description,
        host: "here",
        inputs: &InputFiles::default(),
        seed: 7,
        warm_up: Duration::ZERO,
        duration: Duration::from_secs_f64_nearest(jobs as f64 / per_second),
        kept: Kept::Classes,
        most_events: MOST_EVENTS,
    };
    let start = Instant::now();
    let simulation = simulate_host(&query)?;
    let took_ns = start.elapsed().as_nanos();
    let domains = simulation.domains.values();
    let tasks: Vec<_> = domains.flat_map(|domain| &domain.tasks).collect();
    let released: u64 = tasks.iter().map(|task| task.released).sum();
    let longest_ns = tasks.iter().filter_map(|task| task.longest_ns).max();
    let longest = longest_ns.unwrap_or(0) as f64 / 1e9;
    Ok(format!("{took_ns} nan nan {longest:.9} {released}"))
}

/// The ends of the jobs of each task, which are in the order of their releases.
struct Ends(Vec<Vec<u64>>);

impl Sink for Ends {
    fn completed(&mut self, completion: &Completion) {
        self.0[completion.task].push(completion.end);
    }
}

fn ends(policy: &str, description: &str) -> Result<String, Box<dyn Error>> {
    let mut words = description.split_whitespace();
    let until: u64 = words.next().ok_or("how long?")?.parse()?;
    let mut tasks = Vec::new();
    for word in words {
        let numbers = word.split(',').map(|it| it.parse::<u64>());
        let numbers = numbers.collect::<Result<Vec<u64>, _>>()?;
        let [period_us, offset_us, work_us] = numbers[..] else {
            return Err(format!("`{word}` is no period, offset and work").into());
        };
        tasks.push(PeriodicSource {
            offset: offset_us * 1_000,
            period_ns: period_us * 1_000,
            work: work_us * 1_000,
        });
    }
    let rank = match policy {
        "fixed-priority" => by_rank,
        "earliest-deadline" => by_deadline,
        other => return Err(format!("there is no policy `{other}`").into()),
    };
    let plan = HierarchyPlan::on_one_cpu(level(tasks.iter().map(|task| rank(task.period_ns))));
    let mut ends = Ends(vec![Vec::new(); tasks.len()]);
    let mut jobs = PeriodicJobs::new(tasks, u64::MAX);
    let horizon = Duration::from_micros(until);
    simulate_plan(&plan, &mut jobs, &mut ends, Some(horizon))?;
    let mut parts = Vec::new();
    for (task, ends) in ends.0.iter().enumerate() {
        let before = ends.iter().filter(|end| **end < horizon.as_nanos());
        parts.extend(
            before
                .enumerate()
                .map(|(job, end)| format!("{task}:{job}:{end}")),
        );
    }
    Ok(parts.join(" "))
}

fn answered(line: &str) -> Result<String, Box<dyn Error>> {
    let (setting, jobs) = line
        .split_once(' ')
        .ok_or("a line is a setting and a number")?;
    if let Some(policy) = setting.strip_prefix("ends-") {
        return ends(policy, jobs);
    }
    let jobs = jobs.trim().parse()?;
    if let Some(setting) = setting.strip_prefix("described-") {
        return described(setting, jobs);
    }
    let ms = Duration::from_millis;
    let round = match setting {
        "fixed-priority" => periodic(level(periods_ns().map(by_rank)), jobs)?,
        "earliest-deadline" => periodic(level(periods_ns().map(by_deadline)), jobs)?,
        "two-reservations" => periodic(two_reservations(), jobs)?,
        "queue-reserved" => poisson(queue(Some((ms(2_800), ms(4_000)))), jobs)?,
        "queue-alone" => poisson(queue(None), jobs)?,
        other => {
            let (kind, cpus) = [
                ("global-", Global::Plain),
                ("traced-global-", Global::Traced),
                ("reserved-global-", Global::Reserved),
            ]
            .into_iter()
            .find_map(|(prefix, kind)| Some((kind, other.strip_prefix(prefix)?)))
            .ok_or_else(|| format!("there is no setting `{other}`"))?;
            global(cpus.parse()?, jobs, kind)?
        }
    };
    let longest = round.per_task.iter().map(|tally| tally.longest()).max();
    let longest = longest.unwrap_or(Duration::ZERO).as_secs_f64();
    let provenance = Provenance::new(Evidence::Estimate, setting, "simulated");
    let last = round
        .per_task
        .last()
        .and_then(|it| it.distribution(provenance));
    let quantile = |share| {
        let between = last.as_ref().and_then(|it| it.quantile(share))?;
        let high = between.high.unwrap_or(between.low);
        Some(0.5 * (between.low.as_secs_f64() + high.as_secs_f64()))
    };
    let [p50, p99] = [0.5, 0.99].map(|share| quantile(share).unwrap_or(f64::NAN));
    Ok(format!("{} {p50:.9} {p99:.9} {longest:.9}", round.took_ns))
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        println!("{}", answered(&line?)?);
        stdout().flush()?;
    }
    Ok(())
}
