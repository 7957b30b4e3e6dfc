//! The reservations of the daemon with all that belongs to them, as its connections and its subsystems use them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tailbound_control::origin::EndReason;
use tailbound_control::protocol::{HeldBy, Lease, Refusal, Selection};
use tailbound_control::{ReservationControl, SharedControl};
use tailbound_enforcement::{EnforcementStatus, LedgerSummary, ReservationRequest};
use tailbound_subsystem::ReservationHost;
use tailbound_subsystem::process_identity::StartTimes;
use tracing::warn;

use super::Protection;
use crate::leases::{ConnectionId, LeasedReservations, Leases, SharedLeases};
use crate::xen_renewal::XenRenewal;

/// `Core` has the leases, and what has to follow them.
pub(super) struct Core<R> {
    leases: SharedLeases<R>,
    started: Mutex<StartTimes>,
    pub(super) protection: Box<dyn Protection>,
    xen: XenRenewal,
}

impl<R: LeasedReservations + Send + 'static> Core<R> {
    pub(super) fn new(reservations: R, protection: Box<dyn Protection>) -> Self {
        Self {
            leases: Arc::new(Mutex::new(Leases::new(reservations))),
            started: Mutex::default(),
            protection,
            xen: XenRenewal::default(),
        }
    }

    /// The leases; a panic of another holder does not lock them for good, since every operation
    /// begins by looking at what is active.
    pub(super) fn leases(&self) -> MutexGuard<'_, Leases<R>> {
        self.leases.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn started(&self) -> MutexGuard<'_, StartTimes> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn end_leases(&self, id: ConnectionId) {
        let failures = self.leases().disconnect(id);
        for failure in failures {
            warn!("taking back what a client left: {failure}");
        }
        self.tell_served_cpus();
    }

    pub(super) fn tell_served_cpus(&self) {
        let enforced = self.standing();
        let domains = enforced.domains.iter();
        let cpus = domains.flat_map(|domain| domain.interface.cpus.iter().copied());
        self.protection.serves(&cpus.collect());
    }

    pub(super) fn watch_xen(&self, requests: &[ReservationRequest]) {
        self.xen.watch(requests, &self.leases);
    }
}

impl<R: LeasedReservations + Send + 'static> ReservationHost for Core<R> {
    fn control(&self) -> SharedControl {
        let leases: Arc<Mutex<dyn ReservationControl>> =
            Arc::<Mutex<Leases<R>>>::clone(&self.leases);
        leases
    }

    fn standing(&self) -> EnforcementStatus {
        self.leases().reservations().status()
    }

    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        self.leases().reservations().ledger(domain)
    }

    fn holder(&self, domain: &str) -> Option<HeldBy> {
        let leases = self.leases();
        leases.owners().get(domain).map(|owner| owner.held_by())
    }

    fn start_times(&self) -> StartTimes {
        self.started().clone()
    }

    fn restore(
        &self,
        requests: &[ReservationRequest],
        started: &StartTimes,
    ) -> Result<(), Refusal> {
        self.protection.ensure()?;
        let id = self.leases().connect();
        let applied = self.leases().apply(id, requests, Lease::Persistent);
        self.end_leases(id);
        applied?;
        self.watch_xen(requests);
        self.started().clone_from(started);
        Ok(())
    }

    fn release(&self, domain: &str) -> Result<(), Refusal> {
        let selection = Selection::Domain(domain.to_owned());
        let reverted = self
            .leases()
            .revert_because(&selection, &EndReason::Empty {});
        reverted?;
        self.tell_served_cpus();
        Ok(())
    }

    fn revert_all(&self) -> Result<(), Refusal> {
        self.leases().revert(&Selection::All).map(|_| ())
    }
}
