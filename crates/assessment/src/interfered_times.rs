//! Interference in predictions of queues: execution times in the time that the CPU leaves to the service.
//!
//! A CPU that loses the share u to interference executes work of length C in C / (1 - u) in the mean, and where the
//! time of the interference is charged to the domain, that much of the budget is used, too. So execution times are
//! stretched by 1 / (1 - u). That is the fluid limit: exact in the long run (utilisations and stability), an estimate of
//! the distribution, since events come in pieces.

use std::collections::BTreeMap;

use tailbound_model::{Description, InputFiles};

use crate::set_points::stretched;

/// The largest share that a stretch is calculated with; a CPU that is lost to more of it is overloaded all the same.
const MOST_SHARE: f64 = 0.999;

/// `InterferedTimes` is a description whose execution times have the interference on the services' CPUs in them.
#[derive(Clone, Debug)]
pub(crate) struct InterferedTimes {
    pub(crate) description: Description,
    pub(crate) inputs: InputFiles,
    /// By service, what is taken for granted of the interference on its CPUs.
    assumptions: BTreeMap<String, String>,
}

impl InterferedTimes {
    /// The times on hosts with interference.
    pub(crate) fn of(description: &Description, inputs: &InputFiles) -> Self {
        let mut times = Self {
            description: description.clone(),
            inputs: inputs.clone(),
            assumptions: BTreeMap::new(),
        };
        for service in description.services.keys() {
            let share = mean_share(description, service).min(MOST_SHARE);
            if share <= 0.0 {
                continue;
            }
            let factor = 1.0 / (1.0 - share);
            (times.description, times.inputs) =
                stretched(&times.description, &times.inputs, service, factor);
            let assumption = format!(
                "interference takes {:.2}% of the CPU evenly, so that execution times are {factor:.4} times as long; single \
                 events and bursts of it are left out",
                share * 100.0
            );
            times.assumptions.insert(service.clone(), assumption);
        }
        times
    }

    /// Assumptions of the answer for a service.
    pub(crate) fn assumption(&self, service: &str) -> Option<&String> {
        self.assumptions.get(service)
    }
}

/// The share of the CPU of a service that interference takes in the mean; of several CPUs, of the one that loses most.
fn mean_share(description: &Description, service: &str) -> f64 {
    let domain = description.services.get(service);
    let domain = domain.and_then(|service| description.domains.get(&service.domain));
    let Some(domain) = domain else {
        return 0.0;
    };
    let Some((_, host)) = description.host_of(domain) else {
        return 0.0;
    };
    let cpus = description.cpus_of(domain).into_iter();
    let shares = cpus.map(|cpu| {
        let sources = host.interference_on(cpu);
        sources
            .filter_map(|source| source.mean_share())
            .sum::<f64>()
    });
    shares.fold(0.0, f64::max)
}
