//! What becomes of promises in a simulation.

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;
use tailbound_model::{Description, Slo};
use tailbound_time::Duration;

use super::result::{HostSimulation, TaskResult};

/// A promise and whether the simulation keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SimulatedPromise {
    /// The service that it is about.
    pub service: String,
    /// The task; all tasks of the service together without one.
    pub task: Option<String>,
    /// The percentile, in percent.
    pub percentile: f64,
    /// The latency within which it is to lie.
    pub latency_ns: u64,
    /// The percentile that was found, at least.
    pub found_low_ns: Option<u64>,
    /// The percentile that was found, at most.
    pub found_high_ns: Option<u64>,
    /// Whether it is kept.
    pub outcome: SimulatedOutcome,
}

/// Whether a promise is kept, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SimulatedOutcome {
    /// The percentile lies within the latency.
    Met,
    /// No job was done.
    NothingToTell,
    /// The latency lies within the class of response times that the percentile is in.
    Undecided,
    /// The percentile lies beyond the latency.
    Missed,
}

/// Every promise of a description, by service and in the order of the file, and what the simulation
/// of its hosts found of it.
pub fn promises(description: &Description, hosts: &[HostSimulation]) -> Vec<SimulatedPromise> {
    let services = description.services.iter();
    let all = services.flat_map(|(name, service)| service.slos.iter().map(move |slo| (name, slo)));
    all.map(|(name, slo)| {
        let responses = match &slo.task {
            None => hosts
                .iter()
                .find_map(|host| host.services.get(name)?.as_ref()),
            Some(task) => {
                task_of(hosts, name, task).and_then(|result| result.response_times.as_ref())
            }
        };
        promise(name, slo, responses)
    })
    .collect()
}

fn task_of<'a>(hosts: &'a [HostSimulation], service: &str, task: &str) -> Option<&'a TaskResult> {
    let domains = hosts.iter().flat_map(|host| host.domains.values());
    domains
        .flat_map(|domain| &domain.tasks)
        .find(|result| result.service.as_deref() == Some(service) && result.name == task)
}

fn promise(service: &str, slo: &Slo, responses: Option<&Distribution>) -> SimulatedPromise {
    let quantile = responses.and_then(|responses| responses.quantile(slo.percentile.probability()));
    let low = quantile.map(|interval| interval.low);
    let high = quantile.and_then(|interval| interval.high);
    let outcome = match (low, high) {
        (None, _) => SimulatedOutcome::NothingToTell,
        (Some(low), _) if low > slo.latency => SimulatedOutcome::Missed,
        (_, Some(high)) if high <= slo.latency => SimulatedOutcome::Met,
        _ => SimulatedOutcome::Undecided,
    };
    SimulatedPromise {
        service: service.to_owned(),
        task: slo.task.clone(),
        percentile: slo.percentile.0,
        latency_ns: slo.latency.as_nanos(),
        found_low_ns: low.map(Duration::as_nanos),
        found_high_ns: high.map(Duration::as_nanos),
        outcome,
    }
}
