//! What tasks need in the long run.

use tailbound_model::{Arrivals, ExecutionTime, InputFiles, Task};

/// The share of a CPU of full speed that a task needs, all its clients together; `None` where a
/// description does not tell (a trace, samples that were not loaded).
pub(super) fn utilisation(task: &Task, inputs: &InputFiles) -> Option<f64> {
    let mean_seconds = match &task.execution_time {
        ExecutionTime::Constant { value } => value.as_secs_f64(),
        ExecutionTime::Uniform { min, max } => (min.as_secs_f64() + max.as_secs_f64()) / 2.0,
        ExecutionTime::Calibrated { expected } => (*expected)?.as_secs_f64(),
        ExecutionTime::Samples { file } => {
            let samples = inputs.samples(file)?;
            let count: f64 = samples.iter().map(|sample| sample.count as f64).sum();
            let sum = samples.iter();
            let sum: f64 = sum
                .map(|sample| sample.value.as_secs_f64() * sample.count as f64)
                .sum();
            sum / count
        }
    };
    let rate = task.mean_rate()?;
    Some(rate.as_per_second() * mean_seconds)
}

/// Whether nothing about a task is random.
pub(super) fn is_regular(task: &Task) -> bool {
    let regular_arrivals = match &task.arrivals {
        Arrivals::Periodic { .. } => true,
        Arrivals::Sporadic {
            min_gap, max_gap, ..
        } => min_gap == max_gap,
        Arrivals::Poisson { .. } | Arrivals::Trace { .. } => false,
    };
    regular_arrivals && matches!(task.execution_time, ExecutionTime::Constant { .. })
}
