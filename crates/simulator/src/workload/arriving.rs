//! When the jobs of one client are released, one after the other.

use tailbound_model::{Arrivals, InputFiles, Task};
use tailbound_time::Duration;

use super::streams::Stream;
use super::{WorkloadError, check_range};

/// The release times of one client of a task, in order.
pub(super) enum Arriving {
    /// Each a period after the one before.
    Periodic { next: u64, period_ns: u64 },
    /// Each after a gap drawn from a range.
    Sporadic {
        next: u64,
        min_gap: Duration,
        max_gap: Duration,
        stream: Stream,
    },
    /// A Poisson process. The sum of the gaps is kept as a float, so that rounding each release to
    /// nanoseconds does not add up to another rate.
    Poisson {
        next: f64,
        mean_gap_ns: f64,
        stream: Stream,
    },
    /// From a list, the first of them next.
    Trace { times: Vec<u64>, next: usize },
}

impl Arriving {
    pub(super) fn new(
        name: &str,
        task: &Task,
        mut stream: Stream,
        inputs: &InputFiles,
    ) -> Result<Self, WorkloadError> {
        let zero_gap = |key| WorkloadError::ZeroGap {
            task: name.into(),
            key,
        };
        match &task.arrivals {
            Arrivals::Periodic { period, .. } if period.is_zero() => Err(zero_gap("period")),
            Arrivals::Periodic { period, offset } => Ok(Self::Periodic {
                next: offset.as_nanos(),
                period_ns: period.as_nanos(),
            }),
            Arrivals::Sporadic { max_gap, .. } if max_gap.is_zero() => Err(zero_gap("max_gap")),
            Arrivals::Sporadic {
                min_gap,
                max_gap,
                offset,
            } => {
                check_range(name, ("min_gap", *min_gap), ("max_gap", *max_gap))?;
                let first = stream.uniform(Duration::ZERO, *min_gap);
                Ok(Self::Sporadic {
                    next: offset.saturating_add(first).as_nanos(),
                    min_gap: *min_gap,
                    max_gap: *max_gap,
                    stream,
                })
            }
            Arrivals::Poisson { rate } => {
                let mean_gap_ns = 1e9 / rate.as_per_second();
                Ok(Self::Poisson {
                    next: mean_gap_ns * stream.exponential(),
                    mean_gap_ns,
                    stream,
                })
            }
            Arrivals::Trace { file } => {
                let trace = inputs
                    .trace(file)
                    .ok_or_else(|| WorkloadError::InputMissing {
                        task: name.into(),
                        file: file.clone(),
                    })?;
                let mut times: Vec<u64> = trace.iter().map(|at| at.as_nanos()).collect();
                times.sort_unstable();
                Ok(Self::Trace { times, next: 0 })
            }
        }
    }

    /// The next release; `None` if there is none.
    pub(super) fn next(&self) -> Option<u64> {
        match self {
            Self::Periodic { next, .. } | Self::Sporadic { next, .. } => Some(*next),
            Self::Poisson { next, .. } => Some(*next as u64),
            Self::Trace { times, next } => times.get(*next).copied(),
        }
    }

    /// Goes on to the release after the next one.
    pub(super) fn advance(&mut self) {
        match self {
            Self::Periodic { next, period_ns } => *next = next.saturating_add(*period_ns),
            Self::Sporadic {
                next,
                min_gap,
                max_gap,
                stream,
            } => *next = next.saturating_add(stream.uniform(*min_gap, *max_gap).as_nanos()),
            Self::Poisson {
                next,
                mean_gap_ns,
                stream,
            } => *next += *mean_gap_ns * stream.exponential(),
            Self::Trace { next, .. } => *next += 1,
        }
    }
}
