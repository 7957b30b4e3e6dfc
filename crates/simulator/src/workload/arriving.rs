//! When the jobs of one client are released, one after the other.

use tailbound_model::{Arrivals, Gaps, InputFiles, Task};
use tailbound_time::Duration;

use super::streams::Stream;
use super::{WorkloadError, check_range};

/// The release times of one client of a task, in order.
pub(super) enum Arriving {
    /// Each a period after the one before.
    Periodic { next: u64, period_ns: u64 },
    /// Each after a gap drawn from a law.
    Sporadic {
        next: u64,
        gaps: Gaps,
        stream: Stream,
    },
    /// Several close together, the bursts after gaps drawn from a law.
    Bursts {
        burst: Burst,
        gaps: Gaps,
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

/// Where a task is in its bursts.
pub(super) struct Burst {
    start: u64,
    spacing_ns: u64,
    jobs: u64,
    released: u64,
}

/// A gap of that law.
fn draw_gap(gaps: &Gaps, stream: &mut Stream) -> u64 {
    match gaps {
        Gaps::Uniform { min, max } => stream.uniform(*min, *max).as_nanos(),
        Gaps::Exponential { min, mean } => {
            let mean_rest_ns = mean.saturating_sub(*min).as_nanos() as f64;
            let rest = (mean_rest_ns * stream.exponential()).round() as u64;
            min.as_nanos().saturating_add(rest)
        }
    }
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
                let gaps = Gaps::Uniform {
                    min: *min_gap,
                    max: *max_gap,
                };
                Ok(Self::sporadic(gaps, *offset, stream))
            }
            Arrivals::SporadicExponential { mean_gap, .. } if mean_gap.is_zero() => {
                Err(zero_gap("mean_gap"))
            }
            Arrivals::SporadicExponential {
                min_gap,
                mean_gap,
                offset,
            } => {
                check_range(name, ("min_gap", *min_gap), ("mean_gap", *mean_gap))?;
                let gaps = Gaps::Exponential {
                    min: *min_gap,
                    mean: *mean_gap,
                };
                Ok(Self::sporadic(gaps, *offset, stream))
            }
            Arrivals::Bursts { gaps, .. } if gaps.mean().is_zero() => Err(zero_gap("gaps")),
            Arrivals::Bursts {
                jobs,
                spacing,
                gaps,
                offset,
            } => Self::bursts(name, (*jobs, *spacing), *gaps, *offset, stream),
            Arrivals::Poisson { rate } => {
                let mean_gap_ns = 1e9 / rate.as_per_second();
                Ok(Self::Poisson {
                    next: mean_gap_ns * stream.exponential(),
                    mean_gap_ns,
                    stream,
                })
            }
            Arrivals::Trace { file } => {
                let missing = || WorkloadError::InputMissing {
                    task: name.into(),
                    file: file.clone(),
                };
                let trace = inputs.trace(file).ok_or_else(missing)?;
                let times = trace.iter().map(|job| job.release.as_nanos()).collect();
                Ok(Self::Trace { times, next: 0 })
            }
        }
    }

    /// The first burst starts within the shortest gap after the offset.
    fn bursts(
        name: &str,
        (jobs, spacing): (u32, Duration),
        gaps: Gaps,
        offset: Duration,
        mut stream: Stream,
    ) -> Result<Self, WorkloadError> {
        let length = spacing.checked_mul(u64::from(jobs.saturating_sub(1)));
        let length = length.unwrap_or(Duration::MAX);
        check_range(
            name,
            ("(jobs - 1) x spacing", length),
            ("gap", gaps.least()),
        )?;
        let first = stream.uniform(Duration::ZERO, gaps.least());
        Ok(Self::Bursts {
            burst: Burst {
                start: offset.saturating_add(first).as_nanos(),
                spacing_ns: spacing.as_nanos(),
                jobs: u64::from(jobs),
                released: 0,
            },
            gaps,
            stream,
        })
    }

    /// The first release lies within the shortest gap after the offset.
    fn sporadic(gaps: Gaps, offset: Duration, mut stream: Stream) -> Self {
        let first = stream.uniform(Duration::ZERO, gaps.least());
        Self::Sporadic {
            next: offset.saturating_add(first).as_nanos(),
            gaps,
            stream,
        }
    }

    /// The next release; `None` if there is none.
    #[inline]
    pub(super) fn next(&self) -> Option<u64> {
        match self {
            Self::Periodic { next, .. } | Self::Sporadic { next, .. } => Some(*next),
            Self::Bursts { burst, .. } => {
                let since = burst.spacing_ns.saturating_mul(burst.released);
                Some(burst.start.saturating_add(since))
            }
            Self::Poisson { next, .. } => Some(*next as u64),
            Self::Trace { times, next } => times.get(*next).copied(),
        }
    }

    /// Goes on to the release after the next one.
    #[inline]
    pub(super) fn advance(&mut self) {
        match self {
            Self::Periodic { next, period_ns } => *next = next.saturating_add(*period_ns),
            Self::Sporadic { next, gaps, stream } => {
                *next = next.saturating_add(draw_gap(gaps, stream));
            }
            Self::Bursts {
                burst,
                gaps,
                stream,
            } => {
                burst.released += 1;
                if burst.released >= burst.jobs {
                    burst.released = 0;
                    burst.start = burst.start.saturating_add(draw_gap(gaps, stream));
                }
            }
            Self::Poisson {
                next,
                mean_gap_ns,
                stream,
            } => *next += *mean_gap_ns * stream.exponential(),
            Self::Trace { next, .. } => *next += 1,
        }
    }
}
