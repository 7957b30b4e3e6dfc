//! One set under one policy on the kernel.

use tailbound_enforcement::{
    EnforcementError, Enforcer, ReservationRequest, Target, state_directory,
};
use tailbound_linux::HostCapabilities;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::thread::ThreadError;
use tailbound_model::{BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_reservation::ReservationError;
use tailbound_simulator::hierarchy::Job;
use tailbound_time::{Clock, Duration, Instant};

use super::busy::BusyWork;
use super::manager::{Band, BudgetAccount, Manager, PromotionManager, ServerManager};
use super::means::Means;
use super::sets::Set;
use super::threads::{self, Ran, Setup, Span, priority};
use super::worker::Worker;

/// From the last preparation to the critical instant.
const HEAD_START: Duration = Duration::from_millis(100);
/// The domain's name.
const DOMAIN: &str = "aperiodic-policies";

/// Why a set could not be executed.
#[derive(Debug, thiserror::Error)]
pub enum ExecutionError {
    /// A thread cannot be what it has to be.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// Enforcement refuses the reservation, or could not restore the host.
    #[error(transparent)]
    Enforcement(#[from] EnforcementError),
    /// The budget is none.
    #[error(transparent)]
    Budget(#[from] ReservationError),
    /// The process of the soft jobs.
    #[error("the process of the soft jobs: {0}")]
    Worker(#[from] std::io::Error),
}

impl ExecutionError {
    /// Whether this means is not for this set or this host, and others may be.
    pub fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Enforcement(
                EnforcementError::Missing { .. }
                    | EnforcementError::Refused(_)
                    | EnforcementError::Unplannable(_)
            )
        )
    }
}

/// Where, and with what.
#[derive(Debug)]
pub struct Stage {
    /// What the host can do.
    pub host: HostCapabilities,
    /// The only CPU.
    pub cpu: u32,
    /// The loop.
    pub busy: BusyWork,
    /// What the kernel takes for a job that comes and goes.
    pub per_job: Duration,
}

/// Executes a set.
pub fn execute(set: &Set, means: Means, stage: &Stage) -> Result<Ran, ExecutionError> {
    let hard_tasks = set.application.tasks.len();
    let jobs_of = |task: usize| -> Vec<Job> {
        let jobs = set.application.jobs.iter().copied();
        jobs.filter(|job| job.task == task).collect()
    };
    let hard: Vec<Vec<Job>> = (0..hard_tasks).map(jobs_of).collect();
    let soft = jobs_of(hard_tasks);
    let reserved = means.backend().is_some();
    let setup = Setup {
        cpu: stage.cpu,
        hard: &hard,
        soft: (!reserved).then_some(soft.as_slice()),
        promotions: means.promotions(&set.feasibility),
        manager: manager(set, means, &soft)?,
        busy: stage.busy,
    };
    match reserved {
        true => execute_reserved(set, means, stage, setup, &soft),
        false => threads::run(setup, || Ok(span(set, Monotonic.now()))),
    }
}

/// Who changes ranks.
fn manager(set: &Set, means: Means, soft: &[Job]) -> Result<Option<Manager>, ReservationError> {
    if let Some(promotions) = means.promotions(&set.feasibility) {
        let periods = set.application.tasks.iter().map(|task| task.period());
        let tasks = periods.zip(promotions.iter().copied());
        return Ok(Some(Manager::Promotions(PromotionManager::new(tasks))));
    }
    match (means.rule(), means.server(&set.feasibility)) {
        (Some(rule), Some(budget)) if means.backend().is_none() => {
            let account = BudgetAccount::new(rule, &budget)?;
            let arrivals = soft.iter().map(|job| Instant::from_nanos(job.release));
            let server = ServerManager::new(account, arrivals.collect());
            Ok(Some(Manager::Server(server)))
        }
        _ => Ok(None),
    }
}

/// From a multiple of the servers' period, soon: there lies the grid of `ds-freeze`, whose budgets are
/// to be full at the critical instant as all others are.
fn span(set: &Set, now: Instant) -> Span {
    let grid = set.feasibility.server_period.as_nanos();
    let earliest = now.saturating_add(HEAD_START).as_nanos();
    let start = Instant::from_nanos(earliest.div_ceil(grid) * grid);
    Span {
        start,
        end: start.saturating_add(set.application.length),
    }
}

fn execute_reserved(
    set: &Set,
    means: Means,
    stage: &Stage,
    setup: Setup<'_>,
    soft: &[Job],
) -> Result<Ran, ExecutionError> {
    // In this order: on the way out the reservation ends before the process that is under it.
    let mut worker = Worker::start(stage.cpu)?;
    let mut enforcer = Enforcer::with_host(stage.host.clone(), state_directory())?;
    let mut end = Monotonic.now();
    let begin = || -> Result<Span, ExecutionError> {
        if let Some(request) = request(set, means, stage.cpu, worker.pid()) {
            enforcer.apply(&[request])?;
        }
        let span = span(set, Monotonic.now());
        end = span.end;
        worker.begin(soft, span, stage.busy)?;
        Ok(span)
    };
    let ran = threads::run(setup, begin);
    // Hard threads may be done before the soft jobs' time is over.
    let slept = sleep_until(end);
    let ledger = enforcer
        .status()
        .domains
        .pop()
        .and_then(|domain| domain.ledger);
    enforcer.revert_all()?;
    let mut ran = ran?;
    slept?;
    let executed = worker.finish()?;
    ran.completions.extend(executed.completions);
    ran.soft_used = executed.used;
    ran.stalls = ran.stalls.and(executed.stalls);
    ran.soft_on_cpu = executed.on_cpu;
    if let Some(ledger) = ledger {
        ran.manager_used = ledger.manager_time;
        ran.manager_looks = ledger.wake_ups;
        ran.refused = ledger.failures;
    }
    Ok(ran)
}

fn request(set: &Set, means: Means, cpu: u32, pid: u32) -> Option<ReservationRequest> {
    let server = means.server(&set.feasibility)?;
    Some(ReservationRequest {
        domain: DOMAIN.into(),
        target: Target::Processes(vec![pid]),
        interface: ResourceInterface {
            budget: server.budget,
            period: server.period,
            priority: Priority(priority(Band::Server, 0)),
            cpus: [Cpu(cpu)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        backend: means.backend()?,
        options: BackendOptions::default(),
        interference: Default::default(),
    })
}
