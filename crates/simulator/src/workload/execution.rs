//! How long jobs run.

use std::collections::BTreeMap;
use std::path::Path;

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{
    Arrivals, Bin, ContinuousLaw, ExecutionTime, InputFiles, SampleCount, Task, TracedJob,
};
use tailbound_time::Duration;

use super::{Purpose, RandomStream, Release, WorkloadError, check_range};

/// Where a task's execution times come from.
pub(super) enum ExecutionSource<'a> {
    Constant(Duration),
    Uniform(Duration, Duration),
    Continuous(ContinuousLaw),
    /// The values, each with the count of it and of all before it.
    Samples(&'a [SampleCount], Vec<u64>),
    /// The bins, each with the count of it and of all before it.
    Histogram(Vec<Bin>, Vec<u64>),
    /// Those of the jobs of a trace, the next one first.
    Trace(std::slice::Iter<'a, TracedJob>),
    Unknown,
}

impl<'a> ExecutionSource<'a> {
    pub(super) fn of(
        task: &str,
        described: &Task,
        inputs: &'a InputFiles,
    ) -> Result<Self, WorkloadError> {
        if let Some(reversal) = described.execution_time.reversals().first() {
            return Err(WorkloadError::RangeReversed {
                task: task.into(),
                low_key: reversal.lower.0,
                low: reversal.lower.1,
                high_key: reversal.upper.0,
                high: reversal.upper.1,
            });
        }
        Ok(match &described.execution_time {
            ExecutionTime::Constant { value } => Self::Constant(*value),
            ExecutionTime::Uniform { min, max } => Self::Uniform(*min, *max),
            law @ (ExecutionTime::Exponential { .. } | ExecutionTime::Lognormal { .. }) => {
                ContinuousLaw::of(law).map_or(Self::Unknown, Self::Continuous)
            }
            ExecutionTime::Samples { file } => {
                let (task, file) = (task.to_string(), file.clone());
                match inputs.samples(&file) {
                    None => return Err(WorkloadError::InputMissing { task, file }),
                    Some(samples) => match cumulative(samples.iter().map(|one| one.count)) {
                        Some(counts) => Self::Samples(samples, counts),
                        None => return Err(WorkloadError::NoSamples { task, file }),
                    },
                }
            }
            ExecutionTime::Histogram { bins, file } => {
                histogram(task, bins, file.as_deref(), inputs)?
            }
            ExecutionTime::Trace {} => {
                Self::Trace(traced(task, &described.arrivals, inputs)?.iter())
            }
            ExecutionTime::Calibrated { .. } => Self::Unknown,
        })
    }

    #[inline]
    pub(super) fn draw(&mut self, stream: &mut RandomStream) -> Option<Duration> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Uniform(min, max) => Some(stream.uniform(*min, *max)),
            Self::Continuous(law) => Some(law.exceeded_by(stream.unit())),
            Self::Samples(samples, counts) => {
                let drawn = stream.below(counts.last().copied().unwrap_or(1));
                let index = counts.partition_point(|count| *count <= drawn);
                samples.get(index).map(|sample| sample.value)
            }
            Self::Histogram(bins, counts) => {
                let drawn = stream.below(counts.last().copied().unwrap_or(1));
                let index = counts.partition_point(|count| *count <= drawn);
                bins.get(index).map(|bin| stream.uniform(bin.from, bin.to))
            }
            Self::Trace(jobs) => jobs.next().and_then(|job| job.execution),
            Self::Unknown => None,
        }
    }
}

fn histogram<'a>(
    task: &str,
    bins: &[Bin],
    file: Option<&Path>,
    inputs: &InputFiles,
) -> Result<ExecutionSource<'a>, WorkloadError> {
    let bins = match file {
        None => bins,
        Some(file) => inputs
            .histogram(file)
            .ok_or_else(|| WorkloadError::InputMissing {
                task: task.into(),
                file: file.into(),
            })?,
    };
    for bin in bins {
        check_range(task, ("from", bin.from), ("to", bin.to))?;
    }
    let counts = cumulative(bins.iter().map(|bin| bin.count));
    let counts = counts.ok_or_else(|| WorkloadError::NoExecutionTimes { task: task.into() })?;
    Ok(ExecutionSource::Histogram(bins.to_vec(), counts))
}

/// The jobs of the trace that releases the task's jobs.
fn traced<'a>(
    task: &str,
    arrivals: &Arrivals,
    inputs: &'a InputFiles,
) -> Result<&'a [TracedJob], WorkloadError> {
    let Arrivals::Trace { file } = arrivals else {
        return Err(WorkloadError::ExecutionTimeUnknown { task: task.into() });
    };
    let missing = || WorkloadError::InputMissing {
        task: task.into(),
        file: file.clone(),
    };
    let jobs = inputs.trace(file).ok_or_else(missing)?;
    match jobs.iter().all(|job| job.execution.is_some()) {
        true => Ok(jobs),
        false => Err(WorkloadError::ExecutionTimeUnknown { task: task.into() }),
    }
}

/// The running total of the counts; `None` if it is zero or beyond all bounds.
pub(super) fn cumulative(counts: impl ExactSizeIterator<Item = u64>) -> Option<Vec<u64>> {
    let mut total = 0_u64;
    let mut totals = Vec::with_capacity(counts.len());
    for count in counts {
        total = total.checked_add(count)?;
        totals.push(total);
    }
    (total > 0).then_some(totals)
}

/// Draws the execution times of the tasks named in `execution_times` anew, job by job, from those
/// distributions; the other tasks keep theirs. With a measured distribution (a calibration) the
/// same release times can so be simulated with the execution times of the real machine.
///
/// Of a bracket the pessimistic end is taken; mass beyond a curve's last step falls on that step.
///
/// # Errors
/// [`WorkloadError::NoExecutionTimes`] if a distribution is empty.
pub fn draw_execution_times(
    releases: &mut [Release],
    execution_times: &BTreeMap<String, Distribution>,
    seed: u64,
) -> Result<(), WorkloadError> {
    let mut streams: BTreeMap<(String, u32), RandomStream> = BTreeMap::new();
    for release in releases {
        let Some(distribution) = execution_times.get(&release.task) else {
            continue;
        };
        let stream = streams
            .entry((release.task.clone(), release.client))
            .or_insert_with(|| {
                RandomStream::of(seed, &release.task, release.client, Purpose::Redraw)
            });
        release.execution = Some(draw_from(distribution, stream).ok_or_else(|| {
            WorkloadError::NoExecutionTimes {
                task: release.task.clone(),
            }
        })?);
    }
    Ok(())
}

fn draw_from(distribution: &Distribution, stream: &mut RandomStream) -> Option<Duration> {
    match &distribution.shape {
        Shape::Samples(samples) => samples
            .get(stream.below(samples.len() as u64) as usize)
            .copied(),
        // A value known only from below counts as just that: nothing longer is known.
        Shape::Censored { samples, censored } => {
            let drawn = stream.below((samples.len() + censored.len()) as u64) as usize;
            samples.iter().chain(censored).nth(drawn).copied()
        }
        Shape::Curve(curve) => invert(curve, stream),
        Shape::Bracket { pessimistic, .. } => invert(pessimistic, stream),
    }
}

fn invert(curve: &StepCdf, stream: &mut RandomStream) -> Option<Duration> {
    let last = curve.steps().last().map(|(at, _)| *at);
    curve.quantile(stream.unit()).or(last)
}
