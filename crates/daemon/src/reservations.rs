//! The enforcer as the daemon uses it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use tailbound_enforcement::ds_freeze::{Heartbeat, HeartbeatRow};
use tailbound_enforcement::managers::FreezeManagers;
use tailbound_enforcement::{
    EnforcementError, EnforcementStatus, Enforcer, LedgerSummary, Plan, Probe, ReservationRequest,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::ResourceInterface;

use crate::leases::LeasedReservations;
use tailbound_control::protocol::Refusal;
use tailbound_subsystem::log::warn;

/// Rows of the heartbeat: one for each CPU with a manager.
const SERVED_CPUS_MAX: usize = 1024;

/// The enforcer of this host with its journal in `journals`, the heartbeat of its managers for the watchdog,
/// and the row in it where the daemon itself shows that it goes on.
///
/// # Errors
/// If the journal cannot be opened, or there is no memory for the heartbeat.
pub fn enforcer_of_this_host(
    journals: &Path,
) -> Result<(Enforcer, OwnedFd, Option<HeartbeatRow>), EnforcementError> {
    let unusable = |source| EnforcementError::Journal {
        path: journals.to_owned(),
        source,
    };
    let heartbeat = Heartbeat::create(SERVED_CPUS_MAX + 1).map_err(unusable)?;
    let descriptor = heartbeat.as_fd().try_clone_to_owned().map_err(unusable)?;
    let row = heartbeat.row(SERVED_CPUS_MAX);
    let managers =
        FreezeManagers::with_heartbeat(heartbeat).with_notice(Arc::new(|line| warn(line)));
    let enforcer = Enforcer::with_managers(
        HostCapabilities::probe(),
        Box::new(managers),
        journals.to_owned(),
    )?;
    Ok((enforcer, descriptor, row))
}

impl LeasedReservations for Enforcer {
    fn host(&self) -> HostCapabilities {
        Enforcer::host(self).clone()
    }

    fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        Ok(Enforcer::plan(self, requests)?)
    }

    fn apply(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        Ok(Enforcer::apply(self, requests)?)
    }

    fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal> {
        Ok(Enforcer::change(self, domain, interface)?)
    }

    fn revert(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(Enforcer::revert(self, domain)?)
    }

    fn clean(&mut self) -> Result<(), Refusal> {
        Ok(Enforcer::revert_all(self)?)
    }

    fn detach(&mut self, domain: &str) -> Result<(), Refusal> {
        Ok(Enforcer::detach(self, domain)?)
    }

    fn bind(&mut self, domain: &str) -> Result<(), Refusal> {
        Enforcer::bind(self, domain)?;
        Ok(())
    }

    fn probes(&self) -> Vec<Probe> {
        Enforcer::probes(self)
    }

    fn active(&self) -> BTreeSet<String> {
        let status = Enforcer::status(self);
        status.domains.into_iter().map(|one| one.domain).collect()
    }

    fn status(&self) -> EnforcementStatus {
        Enforcer::status(self)
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        Enforcer::ledger(self, domain)
    }
}
