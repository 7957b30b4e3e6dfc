//! The simulation of one service on one reservation server.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{ReservationServer, Service};
use tailbound_time::{ClockId, Duration, Instant};

use crate::hierarchy::{
    self, Completion, HierarchyError, HierarchyPlan, Job, Level, LevelMember, PlannedReservation,
    Rank, Sink, simulate_plan,
};
use crate::host::rank;
use crate::workload::Release;

/// What is simulated.
#[derive(Clone, Debug)]
pub struct ServiceSimulationQuery<'a> {
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

/// A stretch of time in which the host takes the CPU away from everything on it: a hypervisor that runs
/// another guest, or the firmware.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stall {
    /// When it begins.
    pub begin: Instant,
    /// How long it lasts.
    #[serde(rename = "length_ns", with = "tailbound_time::nanoseconds")]
    pub length: Duration,
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
    /// The reservation makes no sense, or time does not suffice.
    #[error(transparent)]
    Plan(#[from] HierarchyError),
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
    /// The stalls are out of order.
    #[error("stall {index} lies before the one in front of it; sort them by time")]
    StallOutOfOrder {
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
    query: &ServiceSimulationQuery<'_>,
    releases: &[Release],
) -> Result<Simulation, SimulationError> {
    simulate_with_stalls(query, releases, &[])
}

/// The same on a CPU that the host takes away during `stalls`, in order of their begin. A stall comes before
/// everything else and uses no budget; stalls that overlap follow each other.
///
/// # Errors
/// As [`simulate`]; or the stalls are out of order.
pub fn simulate_with_stalls(
    query: &ServiceSimulationQuery<'_>,
    releases: &[Release],
    stalls: &[Stall],
) -> Result<Simulation, SimulationError> {
    let positions: BTreeMap<&str, usize> = query
        .service
        .tasks
        .keys()
        .enumerate()
        .map(|(position, name)| (name.as_str(), position))
        .collect();
    let mut jobs = Vec::with_capacity(releases.len() + stalls.len());
    let mut before = Instant::ORIGIN;
    for (index, release) in releases.iter().enumerate() {
        let task = || release.task.clone();
        let position = *positions
            .get(release.task.as_str())
            .ok_or_else(|| SimulationError::UnknownTask { task: task() })?;
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
            delay_ns: 0,
            task: position,
            number: index as u64,
            release: release.at.as_nanos(),
            work: work.as_nanos(),
        });
    }
    add_stalls(&mut jobs, stalls)?;
    let mut log = CompletionLog {
        jobs: releases.len(),
        ..CompletionLog::default()
    };
    let plan = plan(query, !stalls.is_empty());
    simulate_plan(&plan, &mut jobs.as_slice(), &mut log, None)?;
    Ok(collect(query, releases, log.depletions, log.records))
}

/// Adds the stalls as jobs of the first task of the plan, ahead of those of the service.
fn add_stalls(jobs: &mut Vec<Job>, stalls: &[Stall]) -> Result<(), SimulationError> {
    if stalls.is_empty() {
        return Ok(());
    }
    jobs.iter_mut().for_each(|job| job.task += 1);
    let first = jobs.len() as u64;
    for (index, stall) in stalls.iter().enumerate() {
        if index > 0 && stall.begin < stalls[index - 1].begin {
            return Err(SimulationError::StallOutOfOrder { index });
        }
        jobs.push(Job {
            delay_ns: 0,
            task: 0,
            number: first + index as u64,
            release: stall.begin.as_nanos(),
            work: stall.length.as_nanos(),
        });
    }
    // Stable: jobs of the service that are released at one instant keep their order.
    jobs.sort_by_key(|job| job.release);
    Ok(())
}

/// Completions and shortages, as they come.
#[derive(Default)]
struct CompletionLog {
    /// The number of jobs of the service; those with a higher number are stalls.
    jobs: usize,
    records: Vec<JobRecord>,
    depletions: u64,
}

impl Sink for CompletionLog {
    const WHOLE_PIECES: bool = true;

    fn completed(&mut self, completion: &Completion) {
        let release = completion.number as usize;
        if release >= self.jobs {
            return;
        }
        self.records.push(JobRecord {
            release,
            completed: Instant::from_nanos(completion.end),
        });
    }

    fn ran_out(&mut self, _reservation: usize, _at: u64) {
        self.depletions += 1;
    }
}

/// The service's tasks inside of its reservation, which is alone on its CPU but for stalls.
fn plan(query: &ServiceSimulationQuery<'_>, with_stalls: bool) -> HierarchyPlan {
    let inside = Level::of(
        query
            .service
            .tasks
            .values()
            .map(|task| {
                LevelMember::Task(hierarchy::PlannedTask::of_rank(rank(
                    query.service.scheduling,
                    task,
                )))
            })
            .collect(),
    );
    let budget_and_period = query.server.budget_and_period();
    if budget_and_period.is_none() && !with_stalls {
        return HierarchyPlan::on_one_cpu(inside);
    }
    let (rule, (budget, period)) = match budget_and_period {
        Some(amounts) => (query.server.into(), amounts),
        // Without a meaning for unlimited use.
        None => (
            hierarchy::Rule::Unlimited,
            (Duration::from_nanos(1), Duration::from_nanos(1)),
        ),
    };
    let mut members = Vec::new();
    if with_stalls {
        members.push(LevelMember::Task(hierarchy::PlannedTask::of_rank(
            Rank::Fixed(0),
        )));
    }
    members.push(LevelMember::Reservation(PlannedReservation {
        rank: Rank::Fixed(1),
        rule,
        budget,
        period,
        phase: query.grid_phase,
        inside,
    }));
    HierarchyPlan::on_one_cpu(Level::of(members))
}

fn collect(
    query: &ServiceSimulationQuery<'_>,
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

fn assumptions(query: &ServiceSimulationQuery<'_>) -> Vec<String> {
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
