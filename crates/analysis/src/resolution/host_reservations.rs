//! The reservations of a description, host by host.

use std::collections::BTreeMap;

use tailbound_model::{Description, Host, Precedence};
use tailbound_time::Duration;

use super::ResolvedDomain;
use crate::admission::pool;

/// `HostReservations` are the reservations of the domains on one host of a description.
#[derive(Clone, Debug, PartialEq)]
pub struct HostReservations<'a> {
    /// The name of the host.
    pub name: &'a str,
    /// The host as described.
    pub host: &'a Host,
    /// The reservations by domain.
    pub reserved: BTreeMap<String, ResolvedDomain>,
    /// Budget and period of each virtual CPU that a hypervisor schedules on the host.
    vcpus: Vec<(Duration, Duration)>,
}

impl<'a> HostReservations<'a> {
    /// Those of each host of `description`. The parser sees to it that each domain has a host.
    pub fn of_hosts(
        description: &'a Description,
        reserved: &BTreeMap<String, ResolvedDomain>,
    ) -> Vec<Self> {
        let hosts = description.hosts.iter();
        let each = hosts.map(|(name, host)| Self::of_host(description, name, host, reserved));
        each.collect()
    }

    fn of_host(
        description: &Description,
        name: &'a str,
        host: &'a Host,
        reserved: &BTreeMap<String, ResolvedDomain>,
    ) -> Self {
        let mut here = BTreeMap::new();
        let mut vcpus = Vec::new();
        for (domain, one) in reserved {
            let Some(described) = description.domains.get(domain) else {
                continue;
            };
            if description
                .host_of(described)
                .is_none_or(|(on, _)| on != name)
            {
                continue;
            }
            if one.backend.precedence() == Precedence::Hypervisor {
                let share = (one.interface.budget, one.interface.period);
                vcpus.extend(std::iter::repeat_n(share, one.vcpus));
            }
            here.insert(domain.clone(), one.clone());
        }
        Self {
            name,
            host,
            reserved: here,
            vcpus,
        }
    }

    /// Why the host's hypervisor does not give each virtual CPU its budget, if so.
    pub fn pool_refusal(&self) -> Option<String> {
        let cpus = self.host.working_cpus().len();
        pool::refusal(
            self.name,
            &self.vcpus,
            u32::try_from(cpus).unwrap_or(u32::MAX),
        )
    }
}
