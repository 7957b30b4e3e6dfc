//! What becomes of promises in a simulation.

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;
use tailbound_model::{Description, Slo};
use tailbound_time::Duration;

use super::result::{HostSimulation, TaskResult};

/// A promise and whether the simulation keeps it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Promise {
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
    pub outcome: Outcome,
}

/// Whether a promise is kept, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
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
pub fn promises(description: &Description, hosts: &[HostSimulation]) -> Vec<Promise> {
    let services = description.services.iter();
    let all = services.flat_map(|(name, service)| service.slos.iter().map(move |slo| (name, slo)));
    all.map(|(name, slo)| {
        let found = match &slo.task {
            None => hosts
                .iter()
                .find_map(|host| host.services.get(name)?.as_ref()),
            Some(task) => {
                task_of(hosts, name, task).and_then(|found| found.response_times.as_ref())
            }
        };
        promise(name, slo, found)
    })
    .collect()
}

fn task_of<'a>(hosts: &'a [HostSimulation], service: &str, task: &str) -> Option<&'a TaskResult> {
    let domains = hosts.iter().flat_map(|host| host.domains.values());
    domains
        .flat_map(|domain| &domain.tasks)
        .find(|found| found.service.as_deref() == Some(service) && found.name == task)
}

fn promise(service: &str, slo: &Slo, found: Option<&Distribution>) -> Promise {
    let quantile = found.and_then(|found| found.quantile(slo.percentile.probability()));
    let low = quantile.map(|found| found.low);
    let high = quantile.and_then(|found| found.high);
    let outcome = match (low, high) {
        (None, _) => Outcome::NothingToTell,
        (Some(low), _) if low > slo.latency => Outcome::Missed,
        (_, Some(high)) if high <= slo.latency => Outcome::Met,
        _ => Outcome::Undecided,
    };
    Promise {
        service: service.to_owned(),
        task: slo.task.clone(),
        percentile: slo.percentile.0,
        latency_ns: slo.latency.as_nanos(),
        found_low_ns: low.map(Duration::as_nanos),
        found_high_ns: high.map(Duration::as_nanos),
        outcome,
    }
}
