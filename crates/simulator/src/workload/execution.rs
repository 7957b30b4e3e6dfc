//! How long jobs run.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_model::{ExecutionTime, InputFiles, SampleCount};
use tailbound_time::Duration;

use super::{Purpose, Release, Stream, WorkloadError, check_range};

/// Where a task's execution times come from.
pub(super) enum Source<'a> {
    Constant(Duration),
    Uniform(Duration, Duration),
    /// The values, each with the count of it and of all before it.
    Samples(&'a [SampleCount], Vec<u64>),
    Unknown,
}

impl<'a> Source<'a> {
    pub(super) fn of(
        task: &str,
        execution_time: &ExecutionTime,
        inputs: &'a InputFiles,
    ) -> Result<Self, WorkloadError> {
        Ok(match execution_time {
            ExecutionTime::Constant { value } => Self::Constant(*value),
            ExecutionTime::Uniform { min, max } => {
                check_range(task, ("min", *min), ("max", *max))?;
                Self::Uniform(*min, *max)
            }
            ExecutionTime::Samples { file } => {
                let (task, file) = (task.to_string(), file.clone());
                match inputs.samples(&file) {
                    None => return Err(WorkloadError::InputMissing { task, file }),
                    Some(samples) => match cumulative(samples) {
                        Some(counts) => Self::Samples(samples, counts),
                        None => return Err(WorkloadError::NoSamples { task, file }),
                    },
                }
            }
            ExecutionTime::Calibrated { .. } => Self::Unknown,
        })
    }

    pub(super) fn draw(&self, stream: &mut Stream) -> Option<Duration> {
        match self {
            Self::Constant(value) => Some(*value),
            Self::Uniform(min, max) => Some(stream.uniform(*min, *max)),
            Self::Samples(samples, counts) => {
                let drawn = stream.below(counts.last().copied().unwrap_or(1));
                let index = counts.partition_point(|count| *count <= drawn);
                samples.get(index).map(|sample| sample.value)
            }
            Self::Unknown => None,
        }
    }
}

/// The running total of the counts; `None` if it is zero or beyond all bounds.
fn cumulative(samples: &[SampleCount]) -> Option<Vec<u64>> {
    let mut total = 0_u64;
    let mut totals = Vec::with_capacity(samples.len());
    for sample in samples {
        total = total.checked_add(sample.count)?;
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
    let mut streams: BTreeMap<(String, u32), Stream> = BTreeMap::new();
    for release in releases {
        let Some(distribution) = execution_times.get(&release.task) else {
            continue;
        };
        let stream = streams
            .entry((release.task.clone(), release.client))
            .or_insert_with(|| Stream::of(seed, &release.task, release.client, Purpose::Redraw));
        release.execution = Some(draw_from(distribution, stream).ok_or_else(|| {
            WorkloadError::NoExecutionTimes {
                task: release.task.clone(),
            }
        })?);
    }
    Ok(())
}

fn draw_from(distribution: &Distribution, stream: &mut Stream) -> Option<Duration> {
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

fn invert(curve: &StepCdf, stream: &mut Stream) -> Option<Duration> {
    let last = curve.steps().last().map(|(at, _)| *at);
    curve.quantile(stream.unit()).or(last)
}
