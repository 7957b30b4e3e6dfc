//! The simulation of the hosts of a description.

use pyo3::prelude::*;
use tailbound_analysis::resolution::Deployment;
use tailbound_model::Variant;
use tailbound_simulator::host::{
    DomainResult, Growth, HostQuery, HostSimulation, Kept, MOST_EVENTS, TaskResult, simulate_host,
};
use tailbound_time::Duration;

use crate::description::Description;
use crate::refusal::invalid;
use crate::response::Answer;

/// Name, CPU time used in nanoseconds, share of a CPU, depletions, whether it is in the background, and
/// why its work piles up, if it does.
type DomainRow = (String, u64, f64, u64, bool, Option<String>);
/// Domain, service, name, virtual CPU; jobs released, not done, late; deadline, longest response and
/// both ends of the percentiles in nanoseconds; share of a CPU; response times, if jobs were done.
type TaskRow = (
    (String, Option<String>, String, Option<usize>),
    (u64, u64, u64),
    (Option<u64>, Option<u64>, Vec<Option<(u64, Option<u64>)>>),
    f64,
    Option<Answer>,
);
/// Name, seed, domains, tasks, CPUs (number, busy share, overhead share, context switches), what is
/// taken for granted.
type HostRow = (
    String,
    u64,
    Vec<DomainRow>,
    Vec<TaskRow>,
    Vec<(u32, f64, f64, u64)>,
    Vec<String>,
);

/// How long it is simulated and counted, and what is simulated before that, in nanoseconds.
pub type Span = (u64, u64);

/// Simulates each host of a description.
///
/// # Errors
/// All that is wrong in the file, with places and remedies, or why a host cannot be simulated.
#[pyfunction]
#[pyo3(signature = (description, mode, variant, seed, span_ns, probabilities))]
pub fn simulate(
    python: Python<'_>,
    description: PyRef<'_, Description>,
    mode: Option<&str>,
    variant: Option<&str>,
    seed: Option<u64>,
    span_ns: Span,
    probabilities: Vec<f64>,
) -> PyResult<Vec<HostRow>> {
    let loaded = &description.loaded;
    let inputs = loaded.inputs().map_err(|error| invalid(python, error))?;
    let variant = variant.map(|name| variant_named(python, &loaded.description, name));
    let as_described = Variant::as_described();
    let variant = variant.transpose()?.unwrap_or(&as_described);
    let deployment = Deployment::of(&loaded.description, mode, variant)
        .map_err(|error| invalid(python, error))?;
    let description = deployment.description;
    let simulated = python.detach(|| {
        let each = description.hosts.keys().map(|host| {
            simulate_host(&HostQuery {
                description: &description,
                host,
                inputs: &inputs,
                seed: seed.unwrap_or(description.seed),
                warm_up: Duration::from_nanos(span_ns.1),
                duration: Duration::from_nanos(span_ns.0),
                kept: Kept::Classes,
                most_events: MOST_EVENTS,
            })
        });
        each.collect::<Result<Vec<HostSimulation>, _>>()
    });
    let hosts = simulated.map_err(|error| invalid(python, error))?;
    Ok(hosts.iter().map(|host| row(host, &probabilities)).collect())
}

fn variant_named<'a>(
    python: Python<'_>,
    description: &'a tailbound_model::Description,
    name: &str,
) -> PyResult<&'a Variant> {
    let variants = &description.experiment.variants;
    let found = variants.iter().find(|variant| variant.name == name);
    found.ok_or_else(|| {
        let known: Vec<&str> = variants.iter().map(|one| one.name.as_str()).collect();
        let known = known.join(", ");
        let what = format!("there is no variant \"{name}\"; the experiment has: {known}");
        invalid(python, what)
    })
}

fn row(host: &HostSimulation, probabilities: &[f64]) -> HostRow {
    let domains = host.domains.iter();
    let tasks = domains.clone().flat_map(|(name, domain)| {
        let tasks = domain.tasks.iter();
        tasks.map(|task| task_row(name, task, probabilities))
    });
    let cpus = host.cpus.iter();
    let cpus = cpus.map(|it| {
        (
            it.cpu,
            it.busy_share,
            it.overhead_share,
            it.context_switches,
        )
    });
    (
        host.host.clone(),
        host.seed,
        domains
            .map(|(name, domain)| domain_row(name, domain))
            .collect(),
        tasks.collect(),
        cpus.collect(),
        host.assumptions.clone(),
    )
}

fn domain_row(name: &str, domain: &DomainResult) -> DomainRow {
    let growth = domain.growth.map(|growth| match growth {
        Growth::Demand { needed, given } => {
            format!("needs {needed:.4} of a CPU and gets {given:.4} at most")
        }
        Growth::Measured { before, after } => format!("{before} jobs wait, later {after}"),
        Growth::CutOff { at_ns } => {
            let at = Duration::from_nanos(at_ns);
            format!("so many jobs wait that none are released from {at} on")
        }
    });
    (
        name.to_owned(),
        domain.used_ns,
        domain.cpu_share,
        domain.depletions,
        domain.background,
        growth,
    )
}

fn task_row(domain: &str, task: &TaskResult, probabilities: &[f64]) -> TaskRow {
    let quantile = |probability: &f64| {
        let found = task.response_times.as_ref()?.quantile(*probability)?;
        Some((found.low.as_nanos(), found.high.map(Duration::as_nanos)))
    };
    (
        (
            domain.to_owned(),
            task.service.clone(),
            task.name.clone(),
            task.vcpu,
        ),
        (task.released, task.unfinished, task.missed),
        (
            task.deadline_ns,
            task.longest_ns,
            probabilities.iter().map(quantile).collect(),
        ),
        task.cpu_share,
        task.response_times.clone().map(Answer::simulated),
    )
}
