//! The simulation of the hosts of a description.

use std::cell::RefCell;

use pyo3::prelude::*;
use tailbound_assessment::AssessmentError;
use tailbound_assessment::simulation::{self, SimulationQuery};
use tailbound_simulator::host::{
    DomainResult, Growth, HostError, HostQuery, HostSimulation, TaskResult, lay_out, simulate_host,
    simulate_layout,
};
use tailbound_simulator::traces::{Detail, ScheduleWindow};
use tailbound_time::Duration;

use crate::assessment::{inputs, unanswered};
use crate::chains::{self, ChainRow, TopicRow};
use crate::description::Description;
use crate::interruption::interruptible;
use crate::refusal::invalid;
use crate::response::Answer;

/// Name, CPU time used in nanoseconds, share of a CPU, depletions, whether it is in the background, and
/// why its work piles up, if it does.
type DomainRow = (String, u64, f64, u64, bool, Option<String>);
/// Domain, service, name, virtual CPU; jobs released, not done, late; deadline, longest response and
/// both ends of the percentiles in nanoseconds; share of a CPU; response times, if jobs were done.
type TaskRow = (
    (String, Option<String>, String, Option<usize>),
    (u64, u64, u64),
    (Option<u64>, Option<u64>, Vec<Option<(u64, Option<u64>)>>),
    f64,
    Option<Answer>,
);
/// Name, seed, domains, tasks, CPUs (number, busy share, overhead share, context switches), what is
/// taken for granted.
type HostRow = (
    String,
    u64,
    Vec<DomainRow>,
    Vec<TaskRow>,
    Vec<(u32, f64, f64, u64)>,
    Vec<String>,
);

/// How long it is simulated and counted, and what is simulated before that, in nanoseconds.
pub type Span = (u64, u64);

/// A piece of a schedule: CPU, task and number of its job (none of the operating system), from, until.
type BlockRow = (u32, Option<(usize, u64)>, u64, u64);
/// A job: task, number, release, deadline, completion, whether it was late.
type JobRow = (usize, u64, u64, Option<u64>, Option<u64>, bool);
/// The window of a schedule: its title, the names of its tasks, what ran when, the jobs, and where it
/// begins and ends.
type ScheduleRow = (String, Vec<String>, Vec<BlockRow>, Vec<JobRow>, (u64, u64));

/// Hosts, windows of their schedules, and chains with the messages of topics.
type SimulationRow = (
    Vec<HostRow>,
    Vec<ScheduleRow>,
    (Vec<ChainRow>, Vec<TopicRow>),
);

/// As many pieces, jobs and changes of budgets as a window may have.
const MOST_PIECES: usize = 1_000_000;

/// Simulates each host of a description, and records a window of each schedule where that is asked for.
///
/// # Errors
/// All that is wrong in the file, with places and remedies, or why a host cannot be simulated.
#[pyfunction]
#[pyo3(signature = (description, mode, variant, seed, span_ns, probabilities, window_ns))]
#[allow(clippy::too_many_arguments)]
pub fn simulate(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    mode: Option<String>,
    variant: Option<String>,
    seed: Option<u64>,
    span_ns: Span,
    probabilities: Vec<f64>,
    window_ns: Option<(u64, u64)>,
) -> PyResult<SimulationRow> {
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let simulated = interruptible(python, move || -> Result<_, Failed> {
        let query = SimulationQuery {
            mode: mode.as_deref(),
            variant: variant.as_deref(),
            seed,
            warm_up: Duration::from_nanos(span_ns.1),
            duration: Duration::from_nanos(span_ns.0),
        };
        let schedules = RefCell::new(Vec::new());
        let each = |host: &HostQuery<'_>| match window_ns {
            None => simulate_host(host).map_err(Failed::from),
            Some(window) => recorded(host, window, &mut schedules.borrow_mut()),
        };
        let answer = simulation::simulate(&description, &inputs, &query, each)?;
        Ok((answer, schedules.into_inner()))
    })?;
    let (answer, schedules) = simulated.map_err(|failed| match failed {
        Failed::Assessment(error) => unanswered(python, &error),
        Failed::Window(what) => invalid(python, what),
    })?;
    let hosts = answer.hosts.iter().map(|host| row(host, &probabilities));
    let hosts = hosts.collect();
    let chains = answer.chains.into_iter().map(chains::simulated);
    let topics = answer.topics.into_iter().map(chains::counted);
    Ok((hosts, schedules, (chains.collect(), topics.collect())))
}

/// Why there is no simulation.
enum Failed {
    Assessment(AssessmentError),
    Window(String),
}

impl From<AssessmentError> for Failed {
    fn from(error: AssessmentError) -> Self {
        Self::Assessment(error)
    }
}

impl From<HostError> for Failed {
    fn from(error: HostError) -> Self {
        Self::Assessment(error.into())
    }
}

/// Simulates a host and adds a window of the schedule of each of its plans.
fn recorded(
    query: &HostQuery<'_>,
    (from, until): (u64, u64),
    schedules: &mut Vec<ScheduleRow>,
) -> Result<HostSimulation, Failed> {
    let layout = lay_out(query.description, query.host, query.inputs)?;
    let windows = layout.plans.iter();
    let windows = windows.map(|laid| ScheduleWindow::new(laid.setting(), from, until, MOST_PIECES));
    let windows: Result<Vec<_>, _> = windows.collect();
    let mut windows = windows.map_err(|error| Failed::Window(error.to_string()))?;
    let simulation = simulate_layout(query, &layout, &mut windows)?;
    for (laid, window) in layout.plans.iter().zip(windows) {
        let slice = window.finish(simulation.ended_ns);
        let Detail::Exact(exact) = slice.detail else {
            let what = format!("more than {MOST_PIECES} things happen in the window; shorten it");
            return Err(Failed::Window(what));
        };
        let names = slice.setting.tasks().iter().map(|task| task.name.clone());
        let blocks = exact.blocks.iter().filter_map(|block| {
            let cpu = laid.cpus.get(block.cpu)?;
            Some((cpu.0, block.job, block.from, block.until))
        });
        let jobs = exact.jobs.iter().map(|job| {
            let (release, completion) = (job.release, job.completion);
            (
                job.task, job.number, release, job.due, completion, job.missed,
            )
        });
        schedules.push((
            laid.title(query.host),
            names.collect(),
            blocks.collect(),
            jobs.collect(),
            (slice.from, slice.until),
        ));
    }
    Ok(simulation)
}

fn row(host: &HostSimulation, probabilities: &[f64]) -> HostRow {
    let domains = host.domains.iter();
    let tasks = domains.clone().flat_map(|(name, domain)| {
        let tasks = domain.tasks.iter();
        tasks.map(|task| task_row(name, task, probabilities))
    });
    let cpus = host.cpus.iter();
    let cpus = cpus.map(|it| {
        (
            it.cpu,
            it.busy_share,
            it.overhead_share,
            it.context_switches,
        )
    });
    (
        host.host.clone(),
        host.seed,
        domains
            .map(|(name, domain)| domain_row(name, domain))
            .collect(),
        tasks.collect(),
        cpus.collect(),
        host.assumptions.clone(),
    )
}

fn domain_row(name: &str, domain: &DomainResult) -> DomainRow {
    let growth = domain.growth.map(|growth| match growth {
        Growth::Demand { needed, given } => {
            format!("needs {needed:.4} of a CPU and gets {given:.4} at most")
        }
        Growth::Measured { before, after } => format!("{before} jobs wait, later {after}"),
        Growth::CutOff { at_ns } => {
            let at = Duration::from_nanos(at_ns);
            format!("so many jobs wait that none are released from {at} on")
        }
    });
    (
        name.to_owned(),
        domain.used_ns,
        domain.cpu_share,
        domain.depletions,
        domain.background,
        growth,
    )
}

fn task_row(domain: &str, task: &TaskResult, probabilities: &[f64]) -> TaskRow {
    let quantile = |probability: &f64| {
        let interval = task.response_times.as_ref()?.quantile(*probability)?;
        Some((
            interval.low.as_nanos(),
            interval.high.map(Duration::as_nanos),
        ))
    };
    (
        (
            domain.to_owned(),
            task.service.clone(),
            task.name.clone(),
            task.vcpu,
        ),
        (task.released, task.unfinished, task.missed),
        (
            task.deadline_ns,
            task.longest_ns,
            probabilities.iter().map(quantile).collect(),
        ),
        task.cpu_share,
        task.response_times.clone().map(Answer::of_distribution),
    )
}
