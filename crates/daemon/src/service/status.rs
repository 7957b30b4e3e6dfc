//! What the service says of itself.

use std::collections::BTreeMap;

use serde_json::Value;

use super::DaemonService;
use crate::leases::LeasedReservations;
use tailbound_control::protocol::{DaemonStatus, HeldBy, ReservationStatus};

impl<R: LeasedReservations + Send + 'static> DaemonService<R> {
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
                held_by: owners
                    .get(&enforced.domain)
                    .map_or(HeldBy::Daemon, |owner| owner.held_by()),
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
            watchdog: self.core.protection.status(),
            recovered: self.recovered.clone(),
            ended,
            subsystems: self.sections(),
        }
    }

    fn sections(&self) -> BTreeMap<String, Value> {
        let sections = self.subsystems.iter();
        let sections = sections.filter_map(|one| Some((one.name().to_owned(), one.status()?)));
        sections.collect()
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
