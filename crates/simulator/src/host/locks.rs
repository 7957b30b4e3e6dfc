//! Locks that tasks of a domain share.

use std::collections::BTreeMap;

use super::mapping::Mapping;
use super::problem::HostError;
use super::subsystems::SimulatedSubsystem;

/// `Locks` are the locks of domains, each for the tasks of one virtual CPU.
pub(super) struct Locks;

impl SimulatedSubsystem for Locks {
    /// Refuses locks that tasks on several virtual CPUs share.
    fn check(&self, mapping: &Mapping<'_>) -> Result<(), HostError> {
        for (name, domain) in &mapping.description.domains {
            let mut users: BTreeMap<&str, usize> = BTreeMap::new();
            for (task, content) in &domain.tasks {
                let Some(vcpu) = mapping.placed.get(&(name.clone(), task.clone())) else {
                    continue;
                };
                for section in &content.sections {
                    if users
                        .insert(&section.lock, *vcpu)
                        .is_some_and(|it| it != *vcpu)
                    {
                        return Err(HostError::LockAcrossVcpus {
                            place: format!("domains.{name}.tasks.{task}"),
                            lock: section.lock.clone(),
                        });
                    }
                }
            }
        }
        Ok(())
    }
}
