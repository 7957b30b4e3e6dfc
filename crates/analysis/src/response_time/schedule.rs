//! Periodic tasks with constant execution times: the schedule itself.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_distribution::StepCdf;
use tailbound_model::{ReservationServer, Scheduling, Service, Task};
use tailbound_time::Duration;

use crate::schedulability::priority_assignment::described_rank;
use crate::{AnalysisError, PeriodicLoad};

/// The response times of one hyperperiod in the steady state.
#[derive(Debug)]
pub(super) struct SteadyState {
    /// Of every job: the task's index among the service's, and its response time.
    pub responses: Vec<(usize, Duration)>,
}

impl SteadyState {
    /// The response times of all jobs, or of one task's, as the client sees them.
    pub(super) fn of(&self, task: Option<usize>, overhead: Duration) -> Vec<Duration> {
        self.responses
            .iter()
            .filter(|(owner, _)| task.is_none_or(|task| task == *owner))
            .map(|(_, response)| response.saturating_add(overhead))
            .collect()
    }
}

/// Whose each entry of a service's load is, by the task's index: the load has one per client.
pub(super) fn owners(service: &Service) -> impl Iterator<Item = usize> {
    let tasks = service.tasks.values().enumerate();
    tasks.flat_map(|(index, task)| (0..task.clients).map(move |_| index))
}

/// The reservation under which the schedule is that of a CPU of its own (thesis, Theorem 1).
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] if the budget may run out, with the one that would not.
pub(super) fn check_never_depleted(
    load: &PeriodicLoad,
    server: ReservationServer,
) -> Result<(), AnalysisError> {
    match server.in_effect() {
        ReservationServer::Dedicated => Ok(()),
        ReservationServer::Deferrable { budget, period } => {
            let least = load.least_budget(period)?;
            if least <= budget {
                return Ok(());
            }
            Err(AnalysisError::NotAnalysed {
                reason: format!(
                    "the tasks may use up the budget of {budget} before the next replenishment, \
                     and a budget of {least} per {period} would be needed to rule that out"
                ),
            })
        }
        ReservationServer::Simulated { .. } => Err(AnalysisError::only_simulated()),
        ReservationServer::Periodic { .. }
        | ReservationServer::Polling { .. }
        | ReservationServer::ConstantBandwidth { .. } => Err(AnalysisError::NotAnalysed {
            reason: "periodic tasks are analysed on deferrable servers and dedicated CPUs only"
                .into(),
        }),
    }
}

/// Follows the schedule of a CPU of its own until it repeats, and over one hyperperiod more.
pub(super) fn steady_state(
    service: &Service,
    load: &PeriodicLoad,
) -> Result<SteadyState, AnalysisError> {
    let (work, hyperperiod) = load.work_per_hyperperiod()?;
    let together = load
        .tasks
        .iter()
        .all(|task| task.offset == load.tasks[0].offset);
    if work == hyperperiod && !together {
        return Err(AnalysisError::NotAnalysed {
            reason: "tasks with different offsets that need the whole CPU".into(),
        });
    }
    let from = load.last_offset().saturating_add(hyperperiod);
    let until = from.saturating_add(hyperperiod);
    let owner: Vec<usize> = owners(service).collect();
    let by_task: Vec<u64> = service
        .tasks
        .values()
        .map(|task| rank(service.scheduling, task))
        .collect();
    let ranks: Vec<u64> = owner.iter().map(|task| by_task[*task]).collect();
    // What comes in the hyperperiod after still delays the jobs of this one.
    let releases = load.releases(until.saturating_add(hyperperiod), false)?;
    let steady = from.as_nanos()..until.as_nanos();
    let mut responses = Vec::new();
    let by_job = service.scheduling == Scheduling::EarliestDeadlineFirst;
    run(&releases, &ranks, by_job, |release, end| {
        let (at, index, _) = releases[release];
        if steady.contains(&at) {
            responses.push((owner[index], Duration::from_nanos(end - at)));
        }
    });
    Ok(SteadyState { responses })
}

/// Where a task stands: the lower number first.
fn rank(scheduling: Scheduling, task: &Task) -> u64 {
    let rank = match scheduling {
        Scheduling::EarliestDeadlineFirst => task.relative_deadline().map(Duration::as_nanos),
        _ => described_rank(scheduling, task),
    };
    rank.unwrap_or(u64::from(u8::MAX))
}

/// A CPU of its own: calls `done` with each job's index and the time of its completion. A job's
/// rank is its task's, or, `by_job`, that much after its release: its absolute deadline.
fn run(
    releases: &[(u64, usize, u64)],
    ranks: &[u64],
    by_job: bool,
    mut done: impl FnMut(usize, u64),
) {
    let mut ready = BinaryHeap::new();
    let mut left: Vec<u64> = releases
        .iter()
        .map(|(_, _, execution)| *execution)
        .collect();
    let (mut now, mut next) = (0, 0);
    loop {
        if ready.is_empty() {
            let Some((at, _, _)) = releases.get(next) else {
                break;
            };
            now = now.max(*at);
        }
        while let Some((at, task, _)) = releases.get(next).filter(|(at, _, _)| *at <= now) {
            let from = if by_job { *at } else { 0 };
            ready.push(Reverse((
                ranks[*task].saturating_add(from),
                *at,
                *task,
                next,
            )));
            next += 1;
        }
        let Some(Reverse((_, _, _, job))) = ready.peek().copied() else {
            continue;
        };
        let limit = releases.get(next).map_or(u64::MAX, |(at, _, _)| *at);
        let slice = left[job].min(limit - now);
        now += slice;
        left[job] -= slice;
        if left[job] == 0 {
            ready.pop();
            done(job, now);
        }
    }
}

/// The distribution function of equally likely values.
pub(super) fn curve(mut values: Vec<Duration>) -> Result<StepCdf, AnalysisError> {
    values.sort_unstable();
    let count = values.len() as f64;
    let mut steps = Vec::new();
    for (index, value) in values.iter().enumerate() {
        if values.get(index + 1) != Some(value) {
            steps.push((*value, (index + 1) as f64 / count));
        }
    }
    StepCdf::new(steps).map_err(|error| AnalysisError::Invalid {
        what: format!("no job completes in a hyperperiod ({error}); give the task a client"),
    })
}
