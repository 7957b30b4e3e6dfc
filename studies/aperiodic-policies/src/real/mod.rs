//! The study on the real kernel, for a few small sets, with simulated numbers of the same rules beside
//! the measured ones.

mod busy;
mod chart;
mod disturbance;
mod execution;
mod kernel_costs;
mod manager;
mod means;
mod output;
mod restorer;
mod results;
mod sets;
mod threads;
mod worker;

use std::io;
use std::path::PathBuf;

use clap::ValueEnum;
use indicatif::ProgressBar;
use tailbound_linux::HostCapabilities;
use tailbound_linux::capabilities::Feature;
use tailbound_linux::memory::lock_touched_pages;
use tailbound_linux::thread::ThreadError;
use tailbound_measurement::{fingerprint, fingerprint_line};
use tailbound_simulator::aperiodic::AperiodicError;
use tailbound_time::Duration;

use crate::application::ApplicationError;
use crate::output::OutputError;
use crate::settings::Settings;
use crate::study::simulate;
use crate::variants::Variant;
use disturbance::Looked;
use execution::{ExecutionError, Stage, execute};
use kernel_costs::KernelCosts;
use means::{ALL, Means};
use restorer::Restorer;
use results::{Measured, Row, Simulated, Summary};
use sets::{ALLOWANCE, Set, set};

/// Executed before everything and not counted, so that memory and caches are as they will be.
const WARM_UP: Duration = Duration::from_secs(1);

/// So often a set is executed by the same means, if it is disturbed too long.
const MOST_ATTEMPTS: u64 = 3;

/// What of this program's work is done by another process of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Executes soft jobs under a reservation.
    SoftJobs,
    /// Restores the host when this process ends without having done so.
    Restorer,
}

impl Role {
    /// What such a process is started with.
    fn arguments(self) -> [&'static str; 2] {
        let name = match self {
            Self::SoftJobs => "soft-jobs",
            Self::Restorer => "restorer",
        };
        ["--role", name]
    }

    /// Does its work in the calling process.
    pub fn play(self) -> io::Result<()> {
        match self {
            Self::SoftJobs => worker::work(),
            Self::Restorer => restorer::restore(),
        }
    }
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The number of sets.
    pub sets: u32,
    /// How long each is executed by each means.
    pub length: Duration,
    /// The CPU; the last one if not given.
    pub cpu: Option<u32>,
    /// The seed of all sets.
    pub seed: u64,
    /// Where results go.
    pub out: PathBuf,
}

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum RealError {
    /// A privilege is missing.
    #[error(
        "real execution needs {capability}, which is missing ({state}): run as root or grant it; without \
         --real the policies are simulated, which needs nothing"
    )]
    Missing {
        /// The capability.
        capability: &'static str,
        /// What was found instead.
        state: String,
    },
    /// The kernel gives real-time threads too little time.
    #[error(
        "CPU time of real-time threads is limited to {share_percent}% (sched_rt_runtime_us); hard and soft \
         jobs need up to {needed_percent}% of a CPU"
    )]
    Throttled {
        /// What they may have.
        share_percent: u64,
        /// What they need.
        needed_percent: u64,
    },
    /// Nothing bounds real-time threads.
    #[error(
        "the kernel's bound for real-time threads is off ({state}), and a loop that does not end would take \
         its CPU for good; to turn it on: {remedy}"
    )]
    NotThrottled {
        /// What was found.
        state: String,
        /// What to do.
        remedy: String,
    },
    /// A thread cannot be what it has to be.
    #[error(transparent)]
    Thread(#[from] ThreadError),
    /// A set cannot be executed.
    #[error("set {set}, {means}: {cause}")]
    Execution {
        /// Its number.
        set: u32,
        /// By what means.
        means: &'static str,
        /// Why not.
        cause: ExecutionError,
    },
    /// There is no such set.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// It cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] AperiodicError),
    /// Another process of this program cannot be started.
    #[error("cannot start the process that restores the host: {0}")]
    Restorer(#[from] io::Error),
    /// Something is left of what enforcement has changed.
    #[error(
        "the process that restores the host failed ({0}); what it says above is left: take it back by \
         `tailbound revert`"
    )]
    NotRestored(io::Error),
    /// Results cannot be written.
    #[error(transparent)]
    Output(#[from] OutputError),
}

/// The largest load of all sets, and what managers may take.
const NEEDED_PERCENT: u64 = 85;

/// Executes and simulates every set by every means, prints what came of it, and writes it into files.
pub fn run(request: &Request, progress: &ProgressBar) -> Result<(), RealError> {
    let host = HostCapabilities::probe();
    check(&host)?;
    let last = host.online_cpus.last().copied().unwrap_or(0);
    let cpu = request.cpu.unwrap_or(last);
    progress.set_length(u64::from(request.sets) * ALL.len() as u64);
    let costs = KernelCosts::measure(cpu)?;
    // Of the policies that are executed dual priority costs a hard job the most.
    let needed = costs.settings().allowance(Variant::Dual, 1);
    if needed > ALLOWANCE {
        eprintln!(
            "scheduling takes {needed} of every hard job here, and the analysis allows {ALLOWANCE}: deadlines \
             may be missed"
        );
    }
    let stage = Stage {
        host,
        cpu,
        busy: costs.busy,
        per_job: costs.visit,
    };
    let restorer = Restorer::start()?;
    let outcome = execute_all(request, progress, stage, costs);
    // An error of before comes first: the restorer has told its own.
    let restored = restorer.finish().map_err(RealError::NotRestored);
    outcome.and(restored)
}

fn execute_all(
    request: &Request,
    progress: &ProgressBar,
    stage: Stage,
    costs: KernelCosts,
) -> Result<(), RealError> {
    warm_up(request.seed, &stage)?;
    let (mut rows, mut sets) = (Vec::new(), Vec::new());
    for number in 0..request.sets {
        let set = set(number, request.seed, request.length)?;
        for means in order(number) {
            rows.push(row(number, &set, means, &stage, costs.settings())?);
            progress.inc(1);
        }
        sets.push(set.description());
    }
    progress.finish_and_clear();
    rows.sort_by_key(|row| (row.set, row.means));
    let overall = results::overall(&rows);
    let summary = Summary {
        schema_version: 1,
        seed: request.seed,
        cpu: stage.cpu,
        clock: "CLOCK_MONOTONIC".into(),
        length_ns: request.length.as_nanos(),
        warm_up_ns: WARM_UP.as_nanos(),
        allowance_ns: ALLOWANCE.as_nanos(),
        costs,
        kernel: stage.host.kernel_release,
        host: fingerprint_line(&fingerprint()),
        soft_jobs: sets.iter().map(|set| set.soft_jobs).sum(),
        sets,
        repeated: overall.iter().map(|one| one.repeated).sum(),
        largest_mean_difference_by_ranks: results::largest_mean_difference_by_ranks(&overall),
        overall,
        rows,
    };
    output::print(&summary);
    if let Some(error) = output::write(&request.out, &summary)? {
        eprintln!("no PNG file: {error}");
    }
    Ok(())
}

/// What has to be there, and is kept as it is.
fn check(host: &HostCapabilities) -> Result<(), RealError> {
    let missing = |capability, state| RealError::Missing { capability, state };
    if !host.has(Feature::SchedFifo) {
        let state = host.finding(Feature::SchedFifo).state;
        return Err(missing("CAP_SYS_NICE", state));
    }
    check_throttling(host)?;
    lock_touched_pages().map_err(|error| missing("CAP_IPC_LOCK", error.to_string()))
}

/// The kernel's limit leaves enough, and there is one: jobs are bounded by their programs, and those may
/// be wrong.
fn check_throttling(host: &HostCapabilities) -> Result<(), RealError> {
    let finding = host.finding(Feature::RtThrottling);
    let share = host.rt_share();
    let bounds = share.is_some_and(|(time_us, period_us)| time_us < period_us);
    if !finding.works || !bounds {
        return Err(RealError::NotThrottled {
            state: finding.state,
            remedy: finding.remedy,
        });
    }
    if let Some((time_us, period_us)) = share {
        let share_percent = time_us * 100 / period_us;
        if share_percent < NEEDED_PERCENT {
            return Err(RealError::Throttled {
                share_percent,
                needed_percent: NEEDED_PERCENT,
            });
        }
    }
    Ok(())
}

fn warm_up(seed: u64, stage: &Stage) -> Result<(), RealError> {
    let set = set(0, seed, WARM_UP)?;
    match execute(&set, Means::Background, stage) {
        Ok(_not_counted) => Ok(()),
        Err(cause) => Err(RealError::Execution {
            set: 0,
            means: "warm-up",
            cause,
        }),
    }
}

/// The background at both ends, and what is between begins with another one in every set, so that what
/// changes slowly on the machine is in the difference of the backgrounds, and favours nobody.
fn order(number: u32) -> Vec<Means> {
    let ends = [Means::Background, Means::BackgroundAgain];
    let mut between: Vec<Means> = ALL.into_iter().filter(|one| !ends.contains(one)).collect();
    let first = number as usize % between.len();
    between.rotate_left(first);
    [&ends[..1], &between, &ends[1..]].concat()
}

fn row(
    number: u32,
    set: &Set,
    means: Means,
    stage: &Stage,
    costs: Settings,
) -> Result<Row, RealError> {
    let simulated = |settings: &Settings| -> Result<Simulated, AperiodicError> {
        let policy = means.policy(&set.feasibility);
        let (outcome, _) = simulate(&set.application, policy, ALLOWANCE, settings)?;
        Ok(Simulated::of(&outcome))
    };
    let measured = match undisturbed(set, means, stage) {
        Ok(measured) => Ok(measured),
        Err(error) if error.is_refusal() => Err(error.to_string()),
        Err(cause) => {
            return Err(RealError::Execution {
                set: number,
                means: means.label(),
                cause,
            });
        }
    };
    Ok(Row {
        set: number,
        means,
        server: means
            .server(&set.feasibility)
            .map(|server| (server.budget, server.period)),
        simulated: simulated(&Settings::default())?,
        with_overheads: simulated(&costs)?,
        measured,
    })
}

/// Executes a set, and does so again if it was disturbed too long; the execution that was disturbed the
/// least counts.
fn undisturbed(set: &Set, means: Means, stage: &Stage) -> Result<Measured, ExecutionError> {
    let application = &set.application;
    let reserved = means.backend().is_some();
    let jobs = match reserved {
        false => application.jobs.clone(),
        // Soft jobs may wait for budget while the CPU is idle.
        true => {
            let jobs = application.jobs.iter().copied();
            jobs.filter(|job| job.task < application.tasks.len())
                .collect()
        }
    };
    let attempt = |number: u64| -> Result<Measured, ExecutionError> {
        let ran = execute(set, means, stage)?;
        let all = ran.hard_used + ran.soft_used + ran.manager_used;
        let lost = disturbance::lost(&Looked {
            jobs: &jobs,
            completions: &ran.completions,
            length: application.length,
            used: match reserved {
                false => all,
                true => ran.hard_used + ran.manager_used,
            },
            beside: &ran.soft_on_cpu,
            per_job: stage.per_job,
        });
        Ok(Measured::of(application, &ran, lost, number))
    };
    let mut best = attempt(1)?;
    for number in 2..=MOST_ATTEMPTS {
        if !disturbance::is_spoilt(best.disturbed(), application.length) {
            break;
        }
        let again = attempt(number)?;
        best = match again.disturbed() < best.disturbed() {
            true => again,
            false => best,
        };
        best.attempts = number;
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use tailbound_linux::capabilities::Finding;

    use super::*;

    #[test]
    fn every_means_has_its_turn() {
        for number in 0..12 {
            let mut order = order(number);
            assert_eq!(order[0], Means::Background);
            assert_eq!(order[ALL.len() - 1], Means::BackgroundAgain);
            order.sort_unstable();
            assert_eq!(order, ALL);
        }
        assert_ne!(order(0)[1], order(1)[1]);
    }

    #[test]
    fn a_host_without_a_bound_for_real_time_threads_is_refused() {
        let check = |time_us| {
            let finding = Finding {
                works: true,
                state: "a limit".into(),
                remedy: "sysctl".into(),
            };
            let host = HostCapabilities {
                rt_runtime_us: Some(time_us),
                rt_period_us: Some(1_000_000),
                findings: [(Feature::RtThrottling, finding)].into(),
                ..Default::default()
            };
            check_throttling(&host)
        };
        assert!(check(950_000).is_ok());
        assert!(matches!(check(500_000), Err(RealError::Throttled { .. })));
        for off in [-1, 1_000_000] {
            assert!(matches!(check(off), Err(RealError::NotThrottled { .. })));
        }
    }

    #[test]
    fn roles_are_understood() {
        for role in [Role::SoftJobs, Role::Restorer] {
            assert_eq!(Role::from_str(role.arguments()[1], false), Ok(role));
        }
    }
}
