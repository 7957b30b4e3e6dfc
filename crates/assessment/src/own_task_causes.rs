//! Causes of the latencies of a domain's own tasks, as a simulation has them.

use std::cell::RefCell;

use tailbound_model::{Description, InputFiles};
use tailbound_simulator::host::{LaidTask, lay_out, simulate_layout};
use tailbound_simulator::traces::ServiceCauses;
use tailbound_time::Duration;
use tailbound_trace::explain::{Explanation, PICTURED_QUANTILES};

use crate::AssessmentError;
use crate::simulation::{SimulationQuery, simulate};

/// How long a description is simulated to split the response times of its tasks.
const SIMULATED: Duration = Duration::from_secs(60);

/// Simulates a description in a variant of its experiment, or as described, and splits the response times of each task
/// that a domain has of its own. The subjects of the explanations are `DOMAIN.TASK`. Each task counts as a thread: other
/// tasks of its domain preempt it. Tasks of domains on several CPUs are left out, as [`ServiceCauses`] leaves them out.
///
/// # Errors
/// The description has no such variant, or a host cannot be simulated.
pub fn own_task_causes(
    description: &Description,
    inputs: &InputFiles,
    variant: Option<&str>,
) -> Result<Vec<Explanation>, AssessmentError> {
    let query = SimulationQuery {
        mode: None,
        variant,
        seed: None,
        warm_up: Duration::ZERO,
        duration: SIMULATED,
    };
    let explanations = RefCell::new(Vec::new());
    simulate(description, inputs, &query, |host| {
        let layout = lay_out(host.description, host.host, host.inputs)?;
        let plans = layout.plans.iter();
        let sinks = plans.map(|laid| {
            let subjects: Vec<Option<String>> = laid.tasks.iter().map(subject_of).collect();
            ServiceCauses::new(laid.setting(), &subjects, 0)
        });
        let mut sinks: Vec<ServiceCauses> = sinks.collect();
        let simulation = simulate_layout(host, &layout, &mut sinks)?;
        let finished = sinks.into_iter();
        let finished = finished.flat_map(|sink| sink.finish(&PICTURED_QUANTILES));
        explanations.borrow_mut().extend(finished);
        Ok::<_, AssessmentError>(simulation)
    })?;
    Ok(explanations.into_inner())
}

/// The name of a task that belongs to its domain and to no service.
fn subject_of(task: &LaidTask) -> Option<String> {
    let is_own = task.service.is_none() && task.task.is_some();
    is_own.then(|| format!("{}.{}", task.domain, task.name))
}
