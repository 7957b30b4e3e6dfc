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
        let mut reservations: Vec<ReservationStatus> = leases
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
                dropped: Vec::new(),
                enforced,
            })
            .collect();
        let tables = leases.reservations().topic_tables();
        let connections = leases.connections().len();
        let ended = leases.endings().list();
        drop(leases);
        for table in tables {
            let mut held = reservations.iter_mut();
            if let Some(one) = held.find(|one| one.enforced.domain == table.domain) {
                // A table that somebody removes at this moment has dropped nothing that could be said.
                one.dropped = table.dropped().unwrap_or_default();
            }
        }
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
