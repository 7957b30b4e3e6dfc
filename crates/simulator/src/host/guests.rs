//! Guests with one queue for several virtual CPUs.

use tailbound_model::{Domain, Placement};

use super::layout::{GuestNode, Node};
use super::mapping::{Mapping, node};
use super::problem::HostError;
use super::supply::Supply;

impl<'a> Mapping<'a> {
    /// Whether the tasks of a domain share one queue for several virtual CPUs.
    pub(super) fn has_one_queue(&self, domain: &Domain) -> bool {
        domain.placement == Placement::Global && self.description.vcpus_of(domain) > 1
    }

    /// The domains of this host of which that is so.
    pub(super) fn guests(&self) -> impl Iterator<Item = (&'a str, &'a Domain)> {
        self.directly_in(None)
            .filter(|(_, domain)| self.has_one_queue(domain) && !domain.tasks.is_empty())
    }

    pub(super) fn has_guests(&self) -> bool {
        self.guests().next().is_some()
    }

    /// The virtual CPUs and the tasks of such a domain.
    pub(super) fn guest(&self, name: &'a str, domain: &'a Domain) -> Result<Node, HostError> {
        let mut vcpus = Vec::new();
        for vcpu in 0..self.description.vcpus_of(domain) {
            match self.supply(name, domain, vcpu, None)? {
                (group, Supply::Guaranteed) => vcpus.push(group),
                (_, Supply::Rest) => {
                    let domain = name.to_owned();
                    return Err(HostError::GuestWithoutReservation { domain });
                }
            }
        }
        let tasks = domain.tasks.iter();
        let tasks =
            tasks.map(|(task, known)| node(name, None, task, None, domain.scheduling, known));
        Ok(Node::Guest(GuestNode {
            vcpus,
            tasks: tasks.collect(),
        }))
    }
}
