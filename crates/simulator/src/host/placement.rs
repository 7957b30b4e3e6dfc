//! Which virtual CPU of its domain a task or service runs on.

use std::collections::BTreeMap;

use tailbound_model::{Description, InputFiles, Placement, Task};

use super::load::utilisation;
use super::problem::HostError;

/// Where each service and each own task runs: on the virtual CPU that it names, or else, in the order
/// of the names, on the one with the least utilisation so far (worst fit). Nothing is placed where the
/// virtual CPUs share one queue.
pub(super) fn placed(
    description: &Description,
    inputs: &InputFiles,
) -> Result<BTreeMap<(String, String), usize>, HostError> {
    let mut placed = BTreeMap::new();
    for (name, domain) in &description.domains {
        let one_queue = domain.placement == Placement::Global;
        let vcpus = description.vcpus_of(domain);
        let mut load = vec![0.0_f64; vcpus.max(1)];
        let load_of = |task: &Task| utilisation(task, inputs).unwrap_or(0.0);
        let own = domain.tasks.iter();
        let own = own.map(|(task, content)| (task, load_of(content), content.vcpu));
        let services = description.services.iter();
        let services = services.filter(|(_, service)| service.domain == *name);
        let services = services.map(|(service, content)| {
            let load = content.tasks.values().map(load_of).sum();
            (service, load, None)
        });
        let all: Vec<(&String, f64, Option<u32>)> = own.chain(services).collect();
        for (item, needs, chosen) in &all {
            let Some(vcpu) = chosen else { continue };
            let Some(at) = load
                .get_mut(*vcpu as usize)
                .filter(|_| (*vcpu as usize) < vcpus)
            else {
                return Err(HostError::NoVcpu {
                    place: format!("domains.{name}.tasks.{item}.vcpu"),
                    vcpu: *vcpu,
                    vcpus,
                });
            };
            *at += needs;
            placed.insert((name.clone(), (*item).clone()), *vcpu as usize);
        }
        if one_queue && vcpus > 1 {
            continue;
        }
        for (item, needs, _) in all.iter().filter(|(_, _, chosen)| chosen.is_none()) {
            let least = (0..load.len()).min_by(|a, b| load[*a].total_cmp(&load[*b]));
            let least = least.unwrap_or(0);
            load[least] += needs;
            placed.insert((name.clone(), (*item).clone()), least);
        }
    }
    Ok(placed)
}
