//! The least reservations on which tasks keep their deadlines: of tasks, and of the domains of a
//! description.

use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_analysis::notation::BandwidthRange;
use tailbound_assessment::interface::description::{
    DescriptionQuery, DomainOrder, description_interfaces,
};
use tailbound_assessment::interface::{
    ComponentOrder, InterfaceAnswer, InterfaceQuery, SupplyKind, TaskComponent, least_interfaces,
    longest_delays,
};
use tailbound_time::Duration;

use crate::assessment::{inputs, unanswered};
use crate::description::Description;
use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};
use crate::tasks::{SporadicRow, SporadicSet};

/// The reservation that is asked for: the model by name, the periods, jitter, deadline and overhead in
/// nanoseconds, and the most CPUs.
type Asked = (String, Vec<u64>, u64, Option<u64>, u64, u32);

fn query(python: Python<'_>, asked: Asked) -> PyResult<InterfaceQuery> {
    let (model, periods_ns, jitter_ns, deadline_ns, overhead_ns, cpus) = asked;
    let mut kinds = SupplyKind::ALL.into_iter();
    let kind = kinds.find(|kind| kind.name() == model).ok_or_else(|| {
        let names = SupplyKind::ALL.map(SupplyKind::name).join(", ");
        let what = format!("there is no resource model '{model}' here; there are: {names}");
        invalid(python, what)
    })?;
    let ns = Duration::from_nanos;
    Ok(InterfaceQuery {
        kind,
        periods: periods_ns.into_iter().map(ns).collect(),
        jitter: ns(jitter_ns),
        deadline: deadline_ns.map(ns),
        overhead: ns(overhead_ns),
        cpus,
    })
}

fn component_order(python: Python<'_>, policy: &str) -> PyResult<ComponentOrder> {
    let mut orders = ComponentOrder::ALL.into_iter();
    let order = orders.find(|order| order.name() == policy);
    order.ok_or_else(|| {
        let names = ComponentOrder::ALL.map(ComponentOrder::name).join(", ");
        let what = format!("there is no policy '{policy}' for interfaces; there are: {names}");
        invalid(python, what)
    })
}

/// Asks about tasks on a thread of its own, and gives the answer as the JSON of the command line.
fn answered(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    policy: &str,
    ask: impl FnOnce(&TaskComponent) -> Result<InterfaceAnswer, Refused> + Send + 'static,
) -> PyResult<String> {
    let order = component_order(python, policy)?;
    let answer = interruptible(python, move || {
        let set = SporadicSet::of(tasks_ns)?;
        if !set.blocking.is_empty() {
            return Err(Refused::Invalid {
                what: "interfaces do not look at blocking; add it to the execution time".into(),
            });
        }
        ask(&TaskComponent::new(set.tasks, order)?)
    })?;
    let answer = answer.map_err(|error| refused(python, &error))?;
    serde_json::to_string(&answer).map_err(|error| invalid(python, error))
}

/// The least budget of each period, as the JSON of the command line.
///
/// # Errors
/// What the analysis refuses, and a model or policy that there is none of.
#[pyfunction]
pub fn interface(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    policy: &str,
    asked: Asked,
) -> PyResult<String> {
    let query = query(python, asked)?;
    answered(python, tasks_ns, policy, move |component| {
        least_interfaces(component, &query)
    })
}

/// The longest delay of each bandwidth of a range, as the JSON of the command line.
///
/// # Errors
/// What the analysis refuses, and what is no bandwidth.
#[pyfunction]
pub fn bounded_delay(
    python: Python<'_>,
    tasks_ns: Vec<SporadicRow>,
    policy: &str,
    bandwidth: &str,
    points: u32,
) -> PyResult<String> {
    let range: Result<BandwidthRange, _> = bandwidth.parse();
    let range = range.map_err(|error| invalid(python, format!("bandwidth: {error}")))?;
    answered(python, tasks_ns, policy, move |component| {
        longest_delays(component, &range.spread(points))
    })
}

/// The least interfaces of the domains of a description, and of its CPUs, as the JSON of the command line,
/// with what stands against it.
///
/// # Errors
/// All that is wrong with the description, its files or the question.
#[pyfunction]
pub fn interface_description(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    domain: Option<String>,
    policy: &str,
    compose_ns: Option<u64>,
    asked: Asked,
) -> PyResult<(String, Vec<String>)> {
    let order = match component_order(python, policy)? {
        ComponentOrder::EarliestDeadlineFirst => DomainOrder::EarliestDeadlineFirst,
        ComponentOrder::RateMonotonic => DomainOrder::RateMonotonic,
        ComponentOrder::DeadlineMonotonic => DomainOrder::DeadlineMonotonic,
        ComponentOrder::AsGiven | ComponentOrder::FirstComeFirstServed => {
            let what = "of a description, policy is the order of the domains on each CPU: \"edf\", \"rm\" or \"dm\"; the \
                        order of the tasks of a service is its scheduling";
            return Err(invalid(python, what));
        }
    };
    let question = DescriptionQuery {
        query: query(python, asked)?,
        domain,
        order,
        compose: compose_ns.map(Duration::from_nanos),
    };
    let inputs = inputs(python, &description)?;
    let description = description.loaded.description.clone();
    let answer = interruptible(python, move || {
        description_interfaces(&description, &inputs, &question)
    })?;
    let answer = answer.map_err(|error| unanswered(python, &error))?;
    let document = serde_json::to_string(&answer).map_err(|error| invalid(python, error))?;
    Ok((document, answer.objections()))
}
