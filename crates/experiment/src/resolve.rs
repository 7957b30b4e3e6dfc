//! What a run asks of enforcement, from what each domain gets.

use std::collections::BTreeMap;

use tailbound_analysis::resolution::resolve;
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_model::{BackendKind, Description, Domain, Service};

use crate::ExperimentError;

/// The requests that a run of the first variant would make, with the processes `stand_ins` (one of
/// each domain's) in place of the programs that it would start. A domain without one is left out.
///
/// # Errors
/// As [`resolve`].
pub fn rehearsal(
    description: &Description,
    stand_ins: &BTreeMap<String, u32>,
) -> Result<Vec<ReservationRequest>, ExperimentError> {
    let Some(variant) = description.experiment.variants.first() else {
        return Ok(Vec::new());
    };
    let resolved = resolve(description, variant)?;
    let mut requests = Vec::new();
    for (domain, one) in resolved {
        let described = &description.domains[&domain];
        let target = match (&described.cgroup, stand_ins.get(&domain)) {
            (Some(cgroup), _) => Target::Cgroup(cgroup.clone()),
            (None, _) if !described.pids.is_empty() => Target::Processes(described.pids.clone()),
            (None, Some(pid)) => Target::Processes(vec![*pid]),
            (None, None) => continue,
        };
        if one.backend != BackendKind::None {
            requests.push(ReservationRequest {
                domain,
                target,
                interface: one.interface,
                backend: one.backend,
            });
        }
    }
    Ok(requests)
}

/// The domain that `service` runs in, with its name.
///
/// # Errors
/// The description has no such domain.
pub fn domain_of<'a>(
    description: &'a Description,
    service: &Service,
) -> Result<(&'a str, &'a Domain), ExperimentError> {
    description
        .domains
        .get_key_value(&service.domain)
        .map(|(name, domain)| (name.as_str(), domain))
        .ok_or_else(|| ExperimentError::Unknown {
            kind: "domain",
            name: service.domain.clone(),
            known: names(description.domains.keys()),
        })
}

/// The names, for an error.
pub fn names<'a>(known: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<&str> = known.map(String::as_str).collect();
    if list.is_empty() {
        "none".into()
    } else {
        list.join(", ")
    }
}
