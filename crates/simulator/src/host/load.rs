//! What tasks need in the long run.

use tailbound_model::{Arrivals, Bin, ExecutionTime, InputFiles, Task};

/// The share of a CPU of full speed that a task needs, all its clients together; `None` where a
/// description does not tell (a trace, a file that was not loaded).
pub(super) fn utilisation(task: &Task, inputs: &InputFiles) -> Option<f64> {
    let mean_seconds = match &task.execution_time {
        ExecutionTime::Samples { file } => {
            let samples = inputs.samples(file)?.iter();
            mean(samples.map(|sample| (sample.value.as_secs_f64(), sample.count)))
        }
        ExecutionTime::Histogram {
            file: Some(file), ..
        } => mean_of_bins(inputs.histogram(file)?),
        ExecutionTime::Histogram { bins, .. } => mean_of_bins(bins),
        ExecutionTime::Uniform { min, max } => (min.as_secs_f64() + max.as_secs_f64()) / 2.0,
        ExecutionTime::Exponential { .. }
        | ExecutionTime::Lognormal { .. }
        | ExecutionTime::Constant { .. }
        | ExecutionTime::Calibrated { .. }
        | ExecutionTime::Trace {} => task.execution_time.mean()?.as_secs_f64(),
    };
    let rate = task.mean_rate()?;
    Some(rate.as_per_second() * mean_seconds)
}

fn mean_of_bins(bins: &[Bin]) -> f64 {
    let middle = |bin: &Bin| (bin.from.as_secs_f64() + bin.to.as_secs_f64()) / 2.0;
    mean(bins.iter().map(|bin| (middle(bin), bin.count)))
}

fn mean(values: impl Iterator<Item = (f64, u64)>) -> f64 {
    let (mut sum, mut all) = (0.0, 0.0);
    for (value, count) in values {
        sum += value * count as f64;
        all += count as f64;
    }
    sum / all
}

/// Whether nothing about a task is random.
pub(super) fn is_regular(task: &Task) -> bool {
    let regular_arrivals = match &task.arrivals {
        Arrivals::Periodic { .. } => true,
        Arrivals::Sporadic {
            min_gap, max_gap, ..
        } => min_gap == max_gap,
        _ => false,
    };
    regular_arrivals && matches!(task.execution_time, ExecutionTime::Constant { .. })
}
