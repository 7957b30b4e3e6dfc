//! The jobs of a service: which, when, and how long.
//!
//! The simulator and the load generator take the same sequence, so that a simulated and a
//! measured run differ by the machine alone. Every task and client has random streams of its
//! own, derived from the seed and the task's name: adding a task changes no other task's jobs.

mod execution;
mod streams;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_model::{Arrivals, InputFiles, Service, Task};
use tailbound_time::{Duration, Instant, Rate};

pub use execution::draw_execution_times;
use streams::{Purpose, Stream};

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
/// clients releases 3 r jobs per second, and three periodic clients release at the same times.
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
        let execution = execution::Source::of(name, &task.execution_time, inputs)?;
        for client in 0..task.clients {
            let stream = |purpose| Stream::of(seed, name, client, purpose);
            let times = release_times(name, task, horizon, stream(Purpose::Arrival), inputs)?;
            if all.len() + times.len() > MOST_RELEASES {
                return Err(WorkloadError::TooMany {
                    limit: MOST_RELEASES,
                });
            }
            let mut work = stream(Purpose::Execution);
            all.extend(times.into_iter().map(|at| Release {
                task: name.clone(),
                client,
                at,
                execution: execution.draw(&mut work),
            }));
        }
    }
    // Stable: jobs of one client at one instant keep their order, tasks and clients are sorted.
    all.sort_by_key(|release| release.at);
    Ok(all)
}

fn release_times(
    name: &str,
    task: &Task,
    horizon: Duration,
    mut stream: Stream,
    inputs: &InputFiles,
) -> Result<Vec<Instant>, WorkloadError> {
    let zero_gap = |key| WorkloadError::ZeroGap {
        task: name.into(),
        key,
    };
    match &task.arrivals {
        Arrivals::Periodic { period, .. } if period.is_zero() => Err(zero_gap("period")),
        Arrivals::Periodic { period, offset } => collect(horizon, *offset, || *period),
        Arrivals::Sporadic { max_gap, .. } if max_gap.is_zero() => Err(zero_gap("max_gap")),
        Arrivals::Sporadic {
            min_gap,
            max_gap,
            offset,
        } => {
            check_range(name, ("min_gap", *min_gap), ("max_gap", *max_gap))?;
            let first = stream.uniform(Duration::ZERO, *min_gap);
            collect(horizon, offset.saturating_add(first), || {
                stream.uniform(*min_gap, *max_gap)
            })
        }
        Arrivals::Poisson { rate } => poisson(horizon, *rate, stream),
        Arrivals::Trace { file } => {
            let trace = inputs
                .trace(file)
                .ok_or_else(|| WorkloadError::InputMissing {
                    task: name.into(),
                    file: file.clone(),
                })?;
            let within = trace.iter().filter(|at| **at < horizon);
            let mut times: Vec<_> = within
                .map(|at| Instant::from_nanos(at.as_nanos()))
                .collect();
            times.sort_unstable();
            Ok(times)
        }
    }
}

/// Release times from `first` on, each `gap()` after the one before it.
fn collect(
    horizon: Duration,
    first: Duration,
    mut gap: impl FnMut() -> Duration,
) -> Result<Vec<Instant>, WorkloadError> {
    let mut times = Vec::new();
    let mut at = first;
    while at < horizon {
        push(&mut times, at)?;
        at = at.saturating_add(gap());
    }
    Ok(times)
}

/// A Poisson process. The sum of the gaps is kept as a float, so that rounding each release to
/// nanoseconds does not add up to another rate.
fn poisson(
    horizon: Duration,
    rate: Rate,
    mut stream: Stream,
) -> Result<Vec<Instant>, WorkloadError> {
    let mean_gap_ns = 1e9 / rate.as_per_second();
    let horizon_ns = horizon.as_nanos() as f64;
    let mut times = Vec::new();
    let mut at_ns = mean_gap_ns * stream.exponential();
    while at_ns < horizon_ns {
        push(&mut times, Duration::from_nanos(at_ns as u64))?;
        at_ns += mean_gap_ns * stream.exponential();
    }
    Ok(times)
}

fn push(times: &mut Vec<Instant>, at: Duration) -> Result<(), WorkloadError> {
    if times.len() >= MOST_RELEASES {
        return Err(WorkloadError::TooMany {
            limit: MOST_RELEASES,
        });
    }
    times.push(Instant::from_nanos(at.as_nanos()));
    Ok(())
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
