//! The simulation of one service on one reservation server.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use serde::{Deserialize, Serialize};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{Arrivals, ReservationServer, Scheduling, Service, Task};
use tailbound_time::{ClockId, Duration, Instant};

use crate::server::{ServerError, ServerState};
use crate::workload::Release;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct SimulationQuery<'a> {
    /// The service's name, for the subject of the result.
    pub name: &'a str,
    /// The service; its order of service and priorities are taken from here.
    pub service: &'a Service,
    /// The rule by which the CPU time is given.
    pub server: ReservationServer,
    /// Where the replenishments lie: at this time and whole periods from it.
    pub grid_phase: Duration,
    /// Jobs released before this are simulated but not counted.
    pub warm_up: Duration,
    /// A constant added to every response: the way from client to service and back.
    pub dispatch_overhead: Duration,
    /// The seed that the releases were drawn with, for the provenance.
    pub seed: u64,
    /// Whether a record of every job is kept.
    pub record_jobs: bool,
}

/// What became of one job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Its index among the releases.
    pub release: usize,
    /// When it was done.
    pub completed: Instant,
}

/// What a simulation found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Simulation {
    /// The response times of all jobs together.
    pub overall: Distribution,
    /// The response times by task.
    pub per_task: BTreeMap<String, Distribution>,
    /// How often work had to wait because the budget was used up.
    pub depletions: u64,
    /// Every job, in the order of completion, if that was asked for.
    pub jobs: Vec<JobRecord>,
}

/// Why there is no simulation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SimulationError {
    /// The reservation makes no sense.
    #[error(transparent)]
    Server(#[from] ServerError),
    /// A job has no execution time.
    #[error(
        "job {index} of task \"{task}\" has no execution time; calibrate the task, or give \
         `expected` in its execution_time, and draw execution times from that"
    )]
    ExecutionTimeUnknown {
        /// The job's index among the releases.
        index: usize,
        /// Its task.
        task: String,
    },
    /// A release names a task that the service does not have.
    #[error("a release names task \"{task}\", which the service does not have")]
    UnknownTask {
        /// The task.
        task: String,
    },
    /// The releases are out of order.
    #[error("release {index} lies before the one in front of it; sort them by time")]
    OutOfOrder {
        /// The index of the later entry.
        index: usize,
    },
}

/// Runs `releases` to the last completion and returns the distribution of their response times.
///
/// Response time is release to completion plus the dispatch overhead; the limit on requests in
/// flight does not matter to it. A task with the shorter period comes first under rate-monotonic
/// order (minimal gap, mean gap), with the shorter relative deadline under deadline-monotonic order,
/// the higher number under fixed priority (none is lowest), and the job with the earlier absolute
/// deadline under earliest deadline first (none is last; the period or the minimal gap stands for a
/// relative deadline that is left out). Among equals the earlier release comes first, and among
/// releases at one instant the one that stands first in `releases`; so nothing preempts its equal.
///
/// # Errors
/// [`SimulationError`] says which job or what of the server is at fault.
pub fn simulate(
    query: &SimulationQuery<'_>,
    releases: &[Release],
) -> Result<Simulation, SimulationError> {
    let ranks = ranks(query.service);
    let mut jobs = Vec::with_capacity(releases.len());
    let mut before = Instant::ORIGIN;
    for (index, release) in releases.iter().enumerate() {
        let task = || release.task.clone();
        let rank = ranks
            .get(release.task.as_str())
            .ok_or_else(|| SimulationError::UnknownTask { task: task() })?
            .of_job(release.at);
        if release.at < before {
            return Err(SimulationError::OutOfOrder { index });
        }
        before = release.at;
        let work = release
            .execution
            .ok_or_else(|| SimulationError::ExecutionTimeUnknown {
                index,
                task: task(),
            })?;
        jobs.push(Job {
            at: release.at,
            rank,
            work,
        });
    }
    let mut server = ServerState::new(query.server, query.grid_phase)?;
    let records = run(&mut server, &mut jobs);
    Ok(collect(query, releases, server.depletions(), records))
}

/// The response times of jobs served first come, first served, in order; for long sequences, made
/// as they go. Each job is a release, not before the one in front of it, and an execution time.
pub fn fifo_response_times(
    mut server: ServerState,
    jobs: impl IntoIterator<Item = (Instant, Duration)>,
) -> impl Iterator<Item = Duration> {
    let mut free = Instant::ORIGIN;
    jobs.into_iter().map(move |(at, work)| {
        if at >= free {
            free = at;
            server.wake(at);
        }
        (free, _) = server.run(free, work, Instant::from_nanos(u64::MAX));
        free.saturating_since(at)
    })
}

struct Job {
    at: Instant,
    rank: u64,
    work: Duration,
}

/// Where the jobs of a task stand: the lower number first.
#[derive(Clone, Copy)]
enum Rank {
    /// All the same.
    OfTask(u64),
    /// By absolute deadlines, this long after their releases.
    ByDeadline(Duration),
}

impl Rank {
    fn of_job(self, release: Instant) -> u64 {
        match self {
            Self::OfTask(rank) => rank,
            Self::ByDeadline(relative) => release.saturating_add(relative).as_nanos(),
        }
    }
}

fn ranks(service: &Service) -> BTreeMap<&str, Rank> {
    let deadline = |task: &Task| task.relative_deadline().unwrap_or(Duration::MAX);
    let rank = |task: &Task| match service.scheduling {
        Scheduling::Fifo => Rank::OfTask(0),
        Scheduling::RateMonotonic => Rank::OfTask(match &task.arrivals {
            Arrivals::Periodic { period, .. } => period.as_nanos(),
            Arrivals::Sporadic { min_gap, .. } => min_gap.as_nanos(),
            Arrivals::Poisson { rate } => rate.mean_gap().as_nanos(),
            Arrivals::Trace { .. } => u64::MAX,
        }),
        Scheduling::DeadlineMonotonic => Rank::OfTask(deadline(task).as_nanos()),
        Scheduling::EarliestDeadlineFirst => Rank::ByDeadline(deadline(task)),
        Scheduling::FixedPriority => Rank::OfTask(
            u64::from(u8::MAX) - task.priority.map_or(0, |priority| u64::from(priority.0)),
        ),
    };
    let tasks = service.tasks.iter();
    tasks
        .map(|(name, task)| (name.as_str(), rank(task)))
        .collect()
}

/// The jobs in the order of completion.
fn run(server: &mut ServerState, jobs: &mut [Job]) -> Vec<JobRecord> {
    let mut ready = BinaryHeap::new();
    let mut records = Vec::with_capacity(jobs.len());
    let mut now = Instant::ORIGIN;
    let mut next = 0;
    loop {
        if ready.is_empty() {
            let Some(job) = jobs.get(next) else { break };
            now = now.max(job.at);
            server.wake(now);
        }
        while let Some(job) = jobs.get(next).filter(|job| job.at <= now) {
            ready.push(Reverse((job.rank, next)));
            next += 1;
        }
        let limit = jobs
            .get(next)
            .map_or(Instant::from_nanos(u64::MAX), |job| job.at);
        let Some(Reverse((_, index))) = ready.peek().copied() else {
            continue;
        };
        let job = &mut jobs[index];
        let (end, left) = server.run(now, job.work, limit);
        (now, job.work) = (end, left);
        if left.is_zero() {
            ready.pop();
            records.push(JobRecord {
                release: index,
                completed: end,
            });
        }
    }
    records
}

fn collect(
    query: &SimulationQuery<'_>,
    releases: &[Release],
    depletions: u64,
    records: Vec<JobRecord>,
) -> Simulation {
    let first = Instant::ORIGIN.saturating_add(query.warm_up);
    let mut overall = Vec::with_capacity(records.len());
    let mut per_task: BTreeMap<&str, Vec<Duration>> = BTreeMap::new();
    for record in &records {
        let release = &releases[record.release];
        if release.at < first {
            continue;
        }
        let response = record.completed.saturating_since(release.at);
        let response = response.saturating_add(query.dispatch_overhead);
        overall.push(response);
        per_task.entry(&release.task).or_default().push(response);
    }
    let distribution = |subject: String, samples| {
        let mut provenance = Provenance::new(
            Evidence::Estimate,
            subject,
            "discrete-event simulation in whole nanoseconds",
        );
        provenance.assumptions = assumptions(query);
        provenance.seed = Some(query.seed);
        provenance.clock = Some(ClockId::Virtual);
        provenance.warm_up = Some(query.warm_up);
        Distribution::from_samples(provenance, samples)
    };
    let subject = |task: &str| format!("response time of {}.{task}", query.name);
    Simulation {
        overall: distribution(format!("response time of {}", query.name), overall),
        per_task: per_task
            .into_iter()
            .map(|(task, samples)| (task.to_string(), distribution(subject(task), samples)))
            .collect(),
        depletions,
        jobs: if query.record_jobs {
            records
        } else {
            Vec::new()
        },
    }
}

fn assumptions(query: &SimulationQuery<'_>) -> Vec<String> {
    let mut assumptions = vec!["scheduling costs nothing".to_string()];
    if query.server != ReservationServer::Dedicated {
        assumptions.push("the reservation has the highest priority on its CPU".into());
        assumptions.push(format!(
            "replenishments lie at {} + k periods",
            query.grid_phase
        ));
    }
    if !query.dispatch_overhead.is_zero() {
        assumptions.push(format!(
            "every response takes {} longer for the way there and back",
            query.dispatch_overhead
        ));
    }
    assumptions
}
