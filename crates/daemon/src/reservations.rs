//! The enforcer as the daemon uses it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use tailbound_enforcement::ds_freeze::{Heartbeat, HeartbeatRow};
use tailbound_enforcement::managers::FreezeManagers;
use tailbound_enforcement::{
    Changed, EnforcementError, EnforcementStatus, Enforcer, LedgerSummary, Plan, Probe,
    ReservationRequest,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::ResourceInterface;
use tailbound_time::{Duration, Instant};

use crate::leases::Reservations;
use crate::log::note;
use crate::protocol::Refusal;

/// Rows of the heartbeat: one for each CPU with a manager.
const SERVED_CPUS_MAX: usize = 1024;

/// The enforcer of this host.
pub struct EnforcerReservations {
    enforcer: Enforcer,
}

impl EnforcerReservations {
    /// An enforcer with its journal in `journals`, the heartbeat of its managers for the watchdog, and the
    /// row in it where the daemon itself shows that it goes on.
    ///
    /// # Errors
    /// If the journal cannot be opened, or there is no memory for the heartbeat.
    pub fn on_this_host(
        journals: &Path,
    ) -> Result<(Self, OwnedFd, Option<HeartbeatRow>), EnforcementError> {
        let unusable = |source| EnforcementError::Journal {
            path: journals.to_owned(),
            source,
        };
        let heartbeat = Heartbeat::create(SERVED_CPUS_MAX + 1).map_err(unusable)?;
        let descriptor = heartbeat.as_fd().try_clone_to_owned().map_err(unusable)?;
        let row = heartbeat.row(SERVED_CPUS_MAX);
        let managers = FreezeManagers::with_heartbeat(heartbeat)
            .with_notice(Arc::new(|line| note(format_args!("{line}"))));
        let enforcer = Enforcer::with_managers(
            HostCapabilities::probe(),
            Box::new(managers),
            journals.to_owned(),
        )?;
        Ok((Self { enforcer }, descriptor, row))
    }
}

impl Reservations for EnforcerReservations {
    fn host(&self) -> HostCapabilities {
        self.enforcer.host().clone()
    }

    fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        Ok(self.enforcer.plan(requests)?)
    }

    fn apply(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        Ok(self.enforcer.apply(requests)?)
    }

    fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal> {
        Ok(self.enforcer.change(domain, interface)?)
    }

    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, Refusal> {
        Ok(self.enforcer.change_from(domain, interface, not_before)?)
    }

    fn begin_changes(&mut self) -> Result<(), Refusal> {
        Ok(self.enforcer.begin_changes()?)
    }

    fn end_changes(&mut self) -> Result<(), Refusal> {
        Ok(self.enforcer.end_changes()?)
    }

    fn boost(
        &mut self,
        domain: &str,
        at_most: Duration,
        if_exhausted: bool,
    ) -> Result<(), Refusal> {
        Ok(self.enforcer.boost(domain, at_most, if_exhausted)?)
    }

    fn unboost(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(self.enforcer.unboost(domain)?)
    }

    fn revert(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(self.enforcer.revert(domain)?)
    }

    fn clean(&mut self) -> Result<(), Refusal> {
        Ok(self.enforcer.revert_all()?)
    }

    fn detach(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(self.enforcer.detach(domain)?)
    }

    fn bind(&mut self, domain: &str) -> Result<(), Refusal> {
        self.enforcer.bind(domain)?;
        Ok(())
    }

    fn probes(&self) -> Vec<Probe> {
        self.enforcer.probes()
    }

    fn active(&self) -> BTreeSet<String> {
        let status = self.enforcer.status();
        status.domains.into_iter().map(|one| one.domain).collect()
    }

    fn status(&self) -> EnforcementStatus {
        self.enforcer.status()
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        self.enforcer.ledger(domain)
    }
}
