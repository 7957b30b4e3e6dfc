//! The course of the simulation of a host.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{Description, InputFiles};
use tailbound_time::{ClockId, Duration};

use super::course::{Course, Feed, HOG, Kept, NEVER_DUE, Nothing, Responses, Span};
use super::interference::{InterferedJobs, InterferenceEvents};
use super::layout::{LaidPlan, LaidTask, Layout};
use super::mapping::{LONGEST, TURN, lay_out};
use super::messages;
use super::problem::HostError;
use super::result::{CpuResult, HostSimulation, TaskResult};
use super::soft::InDomain;
use super::subsystems::{self, PlanRun};
use super::users::{self, FeedWithUsers, Replies, SimulatedUsers};
use crate::aperiodic::simulate_aperiodic;
use crate::hierarchy::{
    Job, JobSource, Level, LevelMember, Rule, ServerKind, Sink, VirtualCpu, simulate_plan,
};
use crate::tally::Tally;
use crate::traces::Tee;
use crate::workload::DrawnJobs;

/// The most things that happen in a simulation: about an hour of work.
pub const MOST_EVENTS: f64 = 2e10;

/// The most jobs that wait at a time; when there are more, no more are released.
pub const MOST_WAITING: u64 = 5_000_000;

/// The most clients of all tasks.
const MOST_CLIENTS: u64 = 1_000_000;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct HostQuery<'a> {
    /// The system, in one mode and with all budgets told.
    pub description: &'a Description,
    /// Which of its hosts.
    pub host: &'a str,
    /// The files that the description names.
    pub inputs: &'a InputFiles,
    /// The seed of arrivals and execution times.
    pub seed: u64,
    /// Jobs released before this are simulated but not counted.
    pub warm_up: Duration,
    /// How long releases go on and count after it. Jobs that are not done then have as long again,
    /// and the longest deadline at least.
    pub duration: Duration,
    /// What is kept of response times.
    pub kept: Kept,
    /// The most things that may happen; [`MOST_EVENTS`] unless something else is known.
    pub most_events: f64,
}

/// Simulates a host.
///
/// # Errors
/// [`HostError`] says what of the description stands against it.
pub fn simulate_host(query: &HostQuery<'_>) -> Result<HostSimulation, HostError> {
    let layout = lay_out(query.description, query.host, query.inputs)?;
    let mut sinks = vec![Nothing; layout.plans.len()];
    simulate_layout(query, &layout, &mut sinks)
}

/// Simulates a host as it was laid out, and tells a sink for each plan what happens in it.
///
/// # Errors
/// As [`simulate_host`].
pub fn simulate_layout<S: Sink>(
    query: &HostQuery<'_>,
    layout: &Layout,
    sinks: &mut [S],
) -> Result<HostSimulation, HostError> {
    let time = Time::of(query, layout)?;
    check_amount(query, layout, time)?;
    let mut simulation = HostSimulation {
        host: layout.host.clone(),
        seed: query.seed,
        warm_up_ns: query.warm_up.as_nanos(),
        duration_ns: query.duration.as_nanos(),
        ended_ns: 0,
        domains: BTreeMap::new(),
        services: BTreeMap::new(),
        cpus: Vec::new(),
        assumptions: layout.assumptions.clone(),
        job_times: BTreeMap::new(),
    };
    let mut responses = Vec::new();
    for (laid, sink) in layout.plans.iter().zip(sinks) {
        simulate_one(query, laid, time, sink, &mut simulation, &mut responses)?;
    }
    collect(query, responses, &mut simulation);
    Ok(simulation)
}

/// When what ends.
#[derive(Clone, Copy)]
struct Time {
    /// The last release is before this.
    releases: Duration,
    /// The end of everything.
    end: Duration,
}

impl Time {
    fn of(query: &HostQuery<'_>, layout: &Layout) -> Result<Self, HostError> {
        if query.duration.is_zero() {
            return Err(HostError::NoTime);
        }
        let releases = query.warm_up.saturating_add(query.duration);
        let tasks = layout.plans.iter().flat_map(|plan| &plan.tasks);
        let deadlines = tasks.filter_map(|task| task.task.as_ref()?.relative_deadline());
        let longest = deadlines.max().unwrap_or(Duration::ZERO);
        let end = releases.saturating_add(releases.max(longest));
        if end > LONGEST {
            return Err(HostError::TooLong {
                place: "the simulated time, with what jobs get to be done after it".into(),
                length: end,
                limit: LONGEST,
            });
        }
        Ok(Self { releases, end })
    }
}

/// Refuses what would not end, or not fit into memory.
fn check_amount(query: &HostQuery<'_>, layout: &Layout, time: Time) -> Result<(), HostError> {
    let mut clients = 0_u64;
    let mut most_clients = (0, String::new());
    let mut events: Vec<(f64, String)> = Vec::new();
    for laid in &layout.plans {
        for task in &laid.tasks {
            let place = place_of(task);
            let Some(content) = &task.task else {
                events.push((ratio(time.end, TURN), format!("turns of {place}")));
                continue;
            };
            clients += u64::from(content.clients);
            most_clients = most_clients.max((content.clients, place.clone()));
            events.extend(users::events(query.description, task, time.releases));
            if let Some(rate) = content.mean_rate() {
                let jobs = rate.as_per_second() * time.releases.as_secs_f64();
                events.push((jobs, format!("jobs of {place}")));
            }
        }
        changes(&laid.plan.root, laid, &mut 0, time.end, &mut events);
        let subsystems = subsystems::ALL.iter();
        events.extend(subsystems.filter_map(|subsystem| subsystem.events(laid, time.end)));
        if let Some(tick) = laid
            .plan
            .overheads
            .tick
            .filter(|tick| !tick.period.is_zero())
        {
            events.push((ratio(time.end, tick.period), "ticks".into()));
        }
    }
    if clients > MOST_CLIENTS {
        return Err(HostError::TooManyClients {
            place: most_clients.1,
            clients,
            limit: MOST_CLIENTS,
        });
    }
    let sum: f64 = events.iter().map(|(count, _)| count).sum();
    if sum <= query.most_events {
        return Ok(());
    }
    let most = events.into_iter().max_by(|a, b| a.0.total_cmp(&b.0));
    Err(HostError::TooMuch {
        events: sum,
        length: time.end,
        what: most.map(|(_, what)| what).unwrap_or_default(),
        limit: query.most_events,
    })
}

pub(super) fn ratio(length: Duration, step: Duration) -> f64 {
    length.as_secs_f64() / step.as_secs_f64().max(1e-9)
}

/// How often budgets and turns of a level change.
fn changes(
    level: &Level,
    laid: &LaidPlan,
    number: &mut usize,
    length: Duration,
    events: &mut Vec<(f64, String)>,
) {
    let name = |number: usize| match &laid.reservations[number].domain {
        Some(domain) => format!("domains.{domain}"),
        None => "the background".into(),
    };
    if let Some(quantum) = level.quantum.filter(|_| level.members.len() > 1) {
        events.push((
            ratio(length, quantum),
            format!("turns of {}", name(*number)),
        ));
    }
    let count = |vcpu: &VirtualCpu, number: &mut usize, events: &mut Vec<(f64, String)>| {
        *number += 1;
        let often = replenishments(vcpu, length);
        events.push((often, format!("replenishments of {}", name(*number))));
    };
    for member in &level.members {
        match member {
            LevelMember::Task(_) => {}
            LevelMember::Reservation(inner) => {
                count(&inner.supply(), number, events);
                changes(&inner.inside, laid, number, length, events);
            }
            LevelMember::Guest(guest) => {
                for vcpu in &guest.vcpus {
                    count(vcpu, number, events);
                }
            }
        }
    }
}

/// How often a budget changes at most.
fn replenishments(vcpu: &VirtualCpu, length: Duration) -> f64 {
    match &vcpu.rule {
        Rule::Unlimited => 0.0,
        Rule::Windows(windows) => ratio(length, vcpu.period) * 2.0 * windows.len() as f64,
        Rule::WindowsAndSlack { windows, slack } => {
            ratio(length, vcpu.period) * 2.0 * (windows.len() + slack.len()) as f64
        }
        // Each budget is used up before the next one comes.
        Rule::Server(ServerKind::SoftConstantBandwidth) => ratio(length, vcpu.budget),
        _ => ratio(length, vcpu.period),
    }
}

fn place_of(task: &LaidTask) -> String {
    match &task.service {
        Some(service) => format!("services.{service}.tasks.{}", task.name),
        None => format!("domains.{}.tasks.{}", task.domain, task.name),
    }
}

/// The response times of one task of a service, or of a domain.
struct TaskResponses {
    domain: String,
    task: usize,
    responses: Responses,
}

fn simulate_one<S: Sink>(
    query: &HostQuery<'_>,
    laid: &LaidPlan,
    time: Time,
    sink: &mut S,
    simulation: &mut HostSimulation,
    responses: &mut Vec<TaskResponses>,
) -> Result<(), HostError> {
    let waiting = Rc::new(Cell::new(0));
    let cut_off = Rc::new(Cell::new(None));
    let span = Span {
        from: query.warm_up.as_nanos(),
        until: time.releases.as_nanos(),
    };
    let counted: Vec<(u64, usize)> = laid.tasks.iter().map(deadline_and_queue).collect();
    let (reservations, cpus) = (laid.reservations.len(), laid.cpus.len());
    let mut course = Course::new(
        span,
        query.kept,
        &counted,
        reservations,
        cpus,
        Rc::clone(&waiting),
    );
    messages::watch(query.description, laid, &mut course);
    let streams: Vec<String> = laid.tasks.iter().map(LaidTask::stream).collect();
    let drawn = laid.tasks.iter().zip(&streams).enumerate();
    let drawn = drawn
        .filter_map(|(index, (task, stream))| Some((index, stream.as_str(), task.task.as_ref()?)));
    let jobs = DrawnJobs::of_tasks(drawn, time.releases, query.seed, query.inputs)?;
    let endless = laid.tasks.iter().enumerate();
    let endless = endless.filter(|(_, task)| task.task.is_none());
    let endless: Vec<Job> = endless.map(|(index, _)| endless_job(index)).collect();
    let endless = endless.into_iter().rev().collect();
    let cut = Rc::clone(&cut_off);
    let feed = Feed::new(endless, jobs, waiting, MOST_WAITING, cut);
    let events = (!laid.interference.is_empty())
        .then(|| InterferenceEvents::of(laid, time.end, query))
        .transpose()?;
    let users = SimulatedUsers::of(laid, query)?;
    let jobs = FeedWithUsers {
        feed,
        users: users.clone(),
    };
    let mut feed = InterferedJobs { jobs, events };
    let mut replies = Replies { users };
    let mut heard = Tee(&mut course, sink);
    let mut both = Tee(&mut heard, &mut replies);
    let ended = simulate_laid(laid, &mut feed, &mut both, time.end)?;
    simulation.ended_ns = simulation.ended_ns.max(ended.as_nanos());
    course.end();
    let run = PlanRun {
        query,
        laid,
        course: &course,
        cut_off: cut_off.get(),
    };
    for subsystem in subsystems::ALL {
        subsystem.conclude(&run, simulation);
    }
    take_note(query, laid, course, simulation, responses);
    Ok(())
}

/// Simulates one plan up to `end`; when it ended.
fn simulate_laid(
    laid: &LaidPlan,
    source: &mut impl JobSource,
    sink: &mut impl Sink,
    end: Duration,
) -> Result<Duration, HostError> {
    let domains = || {
        let domains = laid.reservations.iter().filter_map(|r| r.domain.as_deref());
        let domains: Vec<&str> = domains.collect();
        format!("domains {}", domains.join(", "))
    };
    if let Some(system) = &laid.aperiodic {
        let outcome = simulate_aperiodic(system, source, &mut InDomain(sink), Some(end));
        return Ok(outcome
            .map_err(|error| HostError::AperiodicSystem {
                places: domains(),
                error,
            })?
            .elapsed);
    }
    let outcome = simulate_plan(&laid.plan, source, sink, Some(end));
    let outcome = outcome.map_err(|error| HostError::Plan {
        places: domains(),
        error,
    })?;
    Ok(outcome.end)
}

/// A job that is not done at the end of the longest simulation on the fastest CPU.
fn endless_job(task: usize) -> Job {
    Job {
        delay_ns: 0,
        task,
        number: 0,
        release: 0,
        work: LONGEST.as_nanos() * 11,
    }
}

fn deadline_and_queue(task: &LaidTask) -> (u64, usize) {
    let deadline = match &task.task {
        None => HOG,
        Some(task) => task
            .relative_deadline()
            .map_or(NEVER_DUE, Duration::as_nanos),
    };
    (deadline, task.reservation)
}

fn take_note(
    query: &HostQuery<'_>,
    laid: &LaidPlan,
    course: Course,
    simulation: &mut HostSimulation,
    responses: &mut Vec<TaskResponses>,
) {
    let whole = query.duration.as_nanos() as f64;
    for (index, cpu) in laid.cpus.iter().enumerate() {
        simulation.cpus.push(CpuResult {
            cpu: cpu.0,
            busy_share: course.busy[index] as f64 / whole,
            overhead_share: course.overhead[index] as f64 / whole,
            context_switches: course.switches[index],
        });
    }
    for (index, reservation) in laid.reservations.iter().enumerate() {
        let Some(name) = &reservation.domain else {
            continue;
        };
        let domain = simulation.domains.entry(name.clone()).or_default();
        domain.depletions += course.depletions[index];
        domain.background |= reservation.background;
    }
    for (task, count) in laid.tasks.iter().zip(course.tasks) {
        let mut at = Some(task.reservation);
        while let Some(reservation) = at {
            if let Some(name) = &laid.reservations[reservation].domain {
                let domain = simulation.domains.entry(name.clone()).or_default();
                domain.used_ns += count.used;
                domain.cpu_share = domain.used_ns as f64 / whole;
            }
            at = laid.reservations[reservation].outer;
        }
        let domain = simulation.domains.entry(task.domain.clone()).or_default();
        let Some(content) = &task.task else { continue };
        let unfinished = count.released - count.done;
        let deadline = content.relative_deadline();
        let late = count.late + deadline.map_or(0, |_| unfinished);
        domain.tasks.push(TaskResult {
            service: task.service.clone(),
            name: task.name.clone(),
            vcpu: task.vcpu,
            released: count.released,
            unfinished,
            deadline_ns: deadline.map(Duration::as_nanos),
            missed: late,
            cpu_share: count.used as f64 / whole,
            longest_ns: None,
            response_times: None,
        });
        responses.push(TaskResponses {
            domain: task.domain.clone(),
            task: domain.tasks.len() - 1,
            responses: count.responses,
        });
    }
}

/// Makes distributions of response times.
fn collect(query: &HostQuery<'_>, responses: Vec<TaskResponses>, simulation: &mut HostSimulation) {
    let mut provenance = Provenance::new(
        Evidence::Estimate,
        "",
        "discrete-event simulation of the host in whole nanoseconds",
    );
    provenance.assumptions.clone_from(&simulation.assumptions);
    provenance.seed = Some(query.seed);
    provenance.clock = Some(ClockId::Virtual);
    provenance.warm_up = Some(query.warm_up);
    let mut services: BTreeMap<String, (Responses, u64)> = BTreeMap::new();
    for one in responses {
        let Some(domain) = simulation.domains.get_mut(&one.domain) else {
            continue;
        };
        let task = &mut domain.tasks[one.task];
        let owner = task.service.as_ref().unwrap_or(&one.domain);
        let subject = format!("response time of {owner}.{}", task.name);
        if let Some(service) = &task.service {
            let empty = || (one.responses.empty(), 0);
            let (sum, unfinished) = services.entry(service.clone()).or_insert_with(empty);
            sum.add(&one.responses);
            *unfinished += task.unfinished;
        }
        task.longest_ns = one.responses.longest().map(Duration::as_nanos);
        task.response_times = one
            .responses
            .distribution(&provenance, subject, task.unfinished);
    }
    for (name, (sum, unfinished)) in services {
        let subject = format!("response time of {name}");
        let distribution = sum.distribution(&provenance, subject, unfinished);
        simulation.services.insert(name, distribution);
    }
}

impl Responses {
    fn empty(&self) -> Self {
        match self {
            Self::Classes(_) => Self::Classes(Tally::default()),
            Self::All(_) => Self::All(Vec::new()),
        }
    }

    fn add(&mut self, other: &Self) {
        match (self, other) {
            (Self::Classes(sum), Self::Classes(more)) => sum.add(more),
            (Self::All(sum), Self::All(more)) => sum.extend_from_slice(more),
            _ => {}
        }
    }

    fn longest(&self) -> Option<Duration> {
        match self {
            Self::Classes(tally) => (tally.total() > 0).then(|| tally.longest()),
            Self::All(all) => all.iter().max().copied().map(Duration::from_nanos),
        }
    }

    fn distribution(
        &self,
        provenance: &Provenance,
        subject: String,
        unfinished: u64,
    ) -> Option<Distribution> {
        let mut provenance = provenance.clone();
        provenance.subject = subject;
        if unfinished > 0 {
            provenance.assumptions.push(format!(
                "{unfinished} jobs were not done at the end and are not counted here"
            ));
        }
        match self {
            Self::Classes(tally) => tally.distribution(provenance),
            Self::All(all) if all.is_empty() => None,
            Self::All(all) => {
                let samples = all.iter().copied().map(Duration::from_nanos).collect();
                Some(Distribution::from_samples(provenance, samples))
            }
        }
    }
}
