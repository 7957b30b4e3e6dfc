//! What the service says of itself.

use std::collections::BTreeMap;

use super::Service;
use crate::leases::{Owner, Reservations};
use crate::protocol::{DaemonStatus, HeldBy, ReservationStatus};

impl<R: Reservations + Send + 'static> Service<R> {
    pub(super) fn tell_served_cpus(&self) {
        let enforced = self.leases().reservations().status();
        let cpus = enforced
            .domains
            .iter()
            .flat_map(|domain| domain.interface.cpus.iter().copied())
            .collect();
        self.protection.serves(&cpus);
    }

    /// The state of the daemon.
    pub fn status(&self) -> DaemonStatus {
        let leases = self.leases();
        let owners = leases.owners();
        let reservations = leases
            .reservations()
            .status()
            .domains
            .into_iter()
            .map(|enforced| ReservationStatus {
                held_by: match owners.get(&enforced.domain) {
                    Some(Owner::Persistent) => HeldBy::Nobody,
                    Some(Owner::Connection(_)) => HeldBy::Connection,
                    Some(Owner::Abandoned) | None => HeldBy::Daemon,
                },
                origin: leases.origins().get(&enforced.domain).cloned(),
                presence: self.members.presence(&enforced.domain),
                enforced,
            })
            .collect();
        let connections = leases.connections().len();
        let ended = leases.endings().list();
        drop(leases);
        DaemonStatus {
            release: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            reservations,
            connections,
            watchdog: self.protection.status(),
            recovered: self.recovered.clone(),
            ended,
        }
    }

    pub(super) fn ledger(&self) -> BTreeMap<String, tailbound_enforcement::LedgerSummary> {
        let enforced = self.leases().reservations().status();
        enforced
            .domains
            .into_iter()
            .filter_map(|domain| Some((domain.domain, domain.ledger?)))
            .collect()
    }
}
