//! The enforcer as the daemon uses it.

use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use tailbound_enforcement::ds_freeze::{Heartbeat, HeartbeatRow};
use tailbound_enforcement::managers::FreezeManagers;
use tailbound_enforcement::{
    CgroupName, EnforcementError, EnforcementStatus, Enforcer, LedgerSummary, Plan, Probe,
    ReservationRequest, Target, TopicTables,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::ResourceInterface;

use crate::leases::LeasedReservations;
use tailbound_control::protocol::Refusal;
use tracing::{info, warn};

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
        FreezeManagers::with_heartbeat(heartbeat).with_notice(Arc::new(|line| warn!("{line}")));
    let enforcer = Enforcer::with_managers(
        HostCapabilities::probe(),
        Box::new(managers),
        journals.to_owned(),
    )?;
    Ok((enforcer, descriptor, row))
}

/// Logs a reservation that has been made.
fn log_reserved(request: &ReservationRequest) {
    let domain = request.domain.as_str();
    let back_end = request.backend.to_string();
    let name = match &request.target {
        Target::NamedCgroup(named) => Some(&named.name),
        _ => None,
    };
    let (unit, container, pod) = match name {
        Some(CgroupName::Unit(unit)) => (Some(unit.as_str()), None, None),
        Some(CgroupName::Container(name) | CgroupName::ContainerLabel(name)) => {
            (None, Some(name.as_str()), None)
        }
        Some(CgroupName::Pod(pod)) => (None, None, Some(pod.as_str())),
        None => (None, None, None),
    };
    let ResourceInterface { budget, period, .. } = &request.interface;
    let amount = match request.backend.has_budget() {
        true => format!("{budget} every {period}"),
        false => "no budget".to_owned(),
    };
    info!(
        domain,
        back_end = back_end.as_str(),
        unit,
        container,
        pod,
        "reserved for \"{domain}\": {amount}, {back_end}"
    );
}

impl LeasedReservations for Enforcer {
    fn host(&self) -> HostCapabilities {
        Enforcer::host(self).clone()
    }

    fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        Ok(Enforcer::plan(self, requests)?)
    }

    fn apply(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        let plans = Enforcer::apply(self, requests)?;
        plans.iter().for_each(|plan| log_reserved(&plan.request));
        Ok(plans)
    }

    fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal> {
        Ok(Enforcer::change(self, domain, interface)?)
    }

    fn revert(&mut self, domain: &str) -> Result<(), Refusal> {
        Enforcer::revert(self, domain)?;
        info!(domain, "took back the reservation of \"{domain}\"");
        Ok(())
    }

    fn clean(&mut self) -> Result<(), Refusal> {
        let domains = self.active();
        Enforcer::revert_all(self)?;
        for domain in &domains {
            let domain = domain.as_str();
            info!(domain, "took back the reservation of \"{domain}\"");
        }
        Ok(())
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

    fn topic_tables(&self) -> Vec<TopicTables> {
        Enforcer::topic_tables(self)
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        Enforcer::ledger(self, domain)
    }
}
