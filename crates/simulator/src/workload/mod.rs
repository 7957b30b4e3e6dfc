//! The jobs of a service: which, when, and how long.
//!
//! The simulator and the load generator take the same sequence, so that a simulated and a
//! measured run differ by the machine alone. Every task and client has random streams of its
//! own, derived from the seed and the task's name: adding a task changes no other task's jobs.

mod arrivals;
mod execution;
mod random_jobs;
mod spaced_releases;
pub(crate) mod streams;
mod users;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_model::{InputFiles, Service};
use tailbound_time::{Duration, Instant};

use arrivals::ClientReleases;
pub use execution::draw_execution_times;
pub use random_jobs::DrawnJobs;
use streams::{Purpose, RandomStream};
pub(crate) use users::mean_pause;
pub use users::{UserRequest, UserRequests};

/// One job of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    /// The task that it belongs to.
    pub task: String,
    /// Which of the task's clients sends it, from 0.
    pub client: u32,
    /// When it is released: the intended send time, from the start of the run.
    pub at: Instant,
    /// How long it runs on a CPU of its own; `None` where the description leaves that to a
    /// calibration.
    pub execution: Option<Duration>,
}

/// Why there is no sequence of jobs.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// The file that a task names was not loaded.
    #[error(
        "task \"{task}\" needs {file}, which was not loaded; load the description's inputs first"
    )]
    InputMissing {
        /// The task.
        task: String,
        /// The file that it names.
        file: PathBuf,
    },
    /// The file of execution times is empty.
    #[error(
        "task \"{task}\" draws from {file}, which holds no execution time; it needs at least one"
    )]
    NoSamples {
        /// The task.
        task: String,
        /// The file that it names.
        file: PathBuf,
    },
    /// A distance between releases is zero, which would release jobs without end.
    #[error(
        "task \"{task}\" releases jobs with no time between them; its {key} must be above zero"
    )]
    ZeroGap {
        /// The task.
        task: String,
        /// The key in the description.
        key: &'static str,
    },
    /// The ends of a range are in the wrong order.
    #[error("task \"{task}\": {low_key} {low} is above {high_key} {high}; swap or correct them")]
    RangeReversed {
        /// The task.
        task: String,
        /// The key of the lower end.
        low_key: &'static str,
        /// Its value.
        low: Duration,
        /// The key of the upper end.
        high_key: &'static str,
        /// Its value.
        high: Duration,
    },
    /// An empty distribution of execution times.
    #[error("the execution times given for task \"{task}\" hold no value; give at least one")]
    NoExecutionTimes {
        /// The task.
        task: String,
    },
    /// Execution times that only a calibration can tell.
    #[error(
        "task \"{task}\" has no execution time; calibrate it, or give `expected` in its \
         execution_time, and draw execution times from that"
    )]
    ExecutionTimeUnknown {
        /// The task.
        task: String,
    },
    /// A step of a session that asks a task which there is not.
    #[error("the session of the users asks task \"{task}\", which the service does not have")]
    NoSuchTask {
        /// The task.
        task: String,
    },
    /// Users who ask nothing.
    #[error("no task of the service is released by its users; give one arrivals of the kind users")]
    NoSession,
    /// More jobs than a run can hold.
    #[error(
        "the service would release more than {limit} jobs; lower the rate or shorten the horizon"
    )]
    TooMany {
        /// The most that is made.
        limit: usize,
    },
}

/// The most jobs in one sequence; above it, memory rather than patience would run out.
pub const MOST_RELEASES: usize = 50_000_000;

/// All jobs of `service` released before `horizon`, in order of release; of those released at
/// once, in order of task name and client.
///
/// The same arguments yield the same sequence, and a longer horizon only appends to it. Each of a
/// task's clients follows the task's arrivals on its own: a Poisson task of rate r with three
/// clients releases 3 r jobs per second, and three periodic clients release at the same times. When a job of a task with
/// jitter becomes ready, only [`DrawnJobs`] tells.
///
/// # Errors
/// [`WorkloadError`] names the task and what is wrong with it.
pub fn releases(
    service: &Service,
    horizon: Duration,
    seed: u64,
    inputs: &InputFiles,
) -> Result<Vec<Release>, WorkloadError> {
    let mut all = Vec::new();
    for (name, task) in &service.tasks {
        for client in 0..task.clients {
            let mut execution = execution::ExecutionSource::of(name, task, inputs)?;
            let stream = |purpose| RandomStream::of(seed, name, client, purpose);
            let mut arriving = ClientReleases::new(name, task, stream(Purpose::Arrival), inputs)?;
            let mut work = stream(Purpose::Execution);
            while let Some(at) = arriving.next().filter(|at| *at < horizon.as_nanos()) {
                if all.len() >= MOST_RELEASES {
                    return Err(WorkloadError::TooMany {
                        limit: MOST_RELEASES,
                    });
                }
                all.push(Release {
                    task: name.clone(),
                    client,
                    at: Instant::from_nanos(at),
                    execution: execution.draw(&mut work),
                });
                arriving.advance();
            }
        }
    }
    // Stable: jobs of one client at one instant keep their order, tasks and clients are sorted.
    all.sort_by_key(|release| release.at);
    Ok(all)
}

/// An error if the range is empty.
fn check_range(
    task: &str,
    (low_key, low): (&'static str, Duration),
    (high_key, high): (&'static str, Duration),
) -> Result<(), WorkloadError> {
    if low <= high {
        return Ok(());
    }
    Err(WorkloadError::RangeReversed {
        task: task.into(),
        low_key,
        low,
        high_key,
        high,
    })
}

#[cfg(test)]
mod tests;
