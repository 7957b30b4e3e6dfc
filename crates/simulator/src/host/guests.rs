//! Guests with one queue for several virtual CPUs.

use tailbound_model::{Domain, Placement};

use super::layout::{GuestNode, LaidPlan, PlanNode};
use super::mapping::{Mapping, node};
use super::problem::HostError;
use super::subsystems::{SimulatedSubsystem, SpreadMember};
use super::supply::{Supply, shares_budget};
use crate::hierarchy::LevelMember;

/// `Guests` are the domains of which all tasks share one queue for several virtual CPUs.
pub(super) struct Guests;

impl SimulatedSubsystem for Guests {
    fn lays_out(&self, mapping: &Mapping<'_>, domain: &Domain) -> bool {
        domain.placement == Placement::Global && mapping.description.vcpus_of(domain) > 1
    }

    fn assumptions(&self, plan: &LaidPlan) -> Option<String> {
        let mut members = plan.plan.root.members.iter();
        let shares = |member: &LevelMember| matches!(member, LevelMember::Guest(guest) if guest.shares_budget);
        members.any(shares).then(|| {
            "where several CPUs share a budget, a job stays on the CPU that it has, also while another domain comes first \
             there"
                .to_owned()
        })
    }

    fn members(&self, mapping: &Mapping<'_>) -> Result<Vec<SpreadMember>, HostError> {
        let guests = mapping.directly_in(None);
        let guests =
            guests.filter(|(_, domain)| self.lays_out(mapping, domain) && !domain.tasks.is_empty());
        guests
            .map(|(name, domain)| {
                Ok(SpreadMember {
                    domain: name.to_owned(),
                    node: guest(mapping, name, domain)?,
                    cpus: mapping.description.cpus_of(domain).into_iter().collect(),
                })
            })
            .collect()
    }
}

/// The virtual CPUs and the tasks of a guest.
fn guest(mapping: &Mapping<'_>, name: &str, domain: &Domain) -> Result<PlanNode, HostError> {
    let mut vcpus = Vec::new();
    for vcpu in 0..mapping.description.vcpus_of(domain) {
        match mapping.supply(name, domain, vcpu, None)? {
            (group, Supply::Guaranteed) => vcpus.push(group),
            (_, Supply::Rest) => {
                let domain = name.to_owned();
                return Err(HostError::GuestWithoutReservation { domain });
            }
        }
    }
    let tasks = domain.tasks.iter();
    let tasks =
        tasks.map(|(task, content)| node(name, None, task, None, domain.scheduling, content));
    Ok(PlanNode::Guest(GuestNode {
        vcpus,
        shares_budget: domain.reservation.as_ref().is_some_and(shares_budget),
        tasks: tasks.collect(),
    }))
}
