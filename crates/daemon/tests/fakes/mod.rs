//! Reservations and protection without a kernel.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Barrier, Mutex};

use tailbound_control::{Refusal, RefusalKind, ReservationControl, WatchdogStatus};
use tailbound_daemon::leases::LeasedReservations;
use tailbound_daemon::service::Protection;
use tailbound_enforcement::{
    Changed, DomainStatus, EnforcementStatus, Inheritance, Plan, ReservationChange,
    ReservationRequest, Target,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, Cpu, CpuSet, Priority, ResourceInterface,
};
use tailbound_time::Duration;

/// A request for `domain` that every host of the fakes admits.
pub fn request(domain: &str) -> ReservationRequest {
    ReservationRequest {
        domain: domain.to_owned(),
        target: Target::Processes(vec![4711]),
        interface: ResourceInterface {
            budget: Duration::from_millis(4),
            period: Duration::from_millis(10),
            priority: Priority(50),
            cpus: [Cpu(1)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        backend: BackendKind::DsFreeze,
        options: BackendOptions::default(),
        interference: Default::default(),
    }
}

/// How the fake behaves next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// The kernel refuses the last change of an apply.
    pub apply_fails: bool,
    /// ... and the first domain of it cannot be taken back.
    pub leaves_a_part: bool,
    /// Nothing can be taken back.
    pub revert_fails: bool,
}

/// What is reserved, seen from outside.
#[derive(Clone, Debug, Default)]
pub struct FakeKernel(pub Arc<Mutex<FakeState>>);

#[derive(Debug, Default)]
pub struct FakeState {
    pub active: BTreeMap<String, ReservationRequest>,
    pub trouble: Trouble,
    pub applied: u64,
}

impl FakeKernel {
    pub fn active(&self) -> BTreeSet<String> {
        self.0.lock().unwrap().active.keys().cloned().collect()
    }

    pub fn set_trouble(&self, trouble: Trouble) {
        self.0.lock().unwrap().trouble = trouble;
    }
}

fn plan_for(request: &ReservationRequest) -> Plan {
    Plan {
        request: request.clone(),
        changes: vec![],
        managers: vec![],
        mapping: vec![],
        inheritance: Inheritance::default(),
    }
}

impl ReservationControl for FakeKernel {
    fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal> {
        let plan = self.change(change.domain, change.interface)?;
        let in_force_at = Some(change.not_before);
        Ok(Changed { plan, in_force_at })
    }

    fn begin_changes(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn end_changes(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn boost(
        &mut self,
        _domain: &str,
        _at_most: Duration,
        _if_exhausted: bool,
    ) -> Result<(), Refusal> {
        Ok(())
    }

    fn unboost(&mut self, _domain: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

impl LeasedReservations for FakeKernel {
    fn host(&self) -> HostCapabilities {
        HostCapabilities::default()
    }

    fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        let state = self.0.lock().unwrap();
        let mut names = BTreeSet::new();
        for request in requests {
            if state.active.contains_key(&request.domain) || !names.insert(&request.domain) {
                return Err(Refusal::new(RefusalKind::Duplicate, "there is one"));
            }
        }
        Ok(requests.iter().map(plan_for).collect())
    }

    fn apply(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        let plans = self.plan(requests)?;
        let mut state = self.0.lock().unwrap();
        if state.trouble.apply_fails {
            if let Some(first) = requests.first().filter(|_| state.trouble.leaves_a_part) {
                state.active.insert(first.domain.clone(), first.clone());
            }
            return Err(Refusal::new(RefusalKind::Kernel, "refused"));
        }
        for request in requests {
            state.active.insert(request.domain.clone(), request.clone());
        }
        state.applied += 1;
        Ok(plans)
    }

    fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal> {
        let mut state = self.0.lock().unwrap();
        let request = state
            .active
            .get_mut(domain)
            .ok_or_else(|| Refusal::new(RefusalKind::NotActive, "none"))?;
        request.interface = interface.clone();
        Ok(plan_for(request))
    }

    fn revert(&mut self, domain: &str) -> Result<(), Refusal> {
        let mut state = self.0.lock().unwrap();
        if !state.active.contains_key(domain) {
            return Err(Refusal::new(RefusalKind::NotActive, "none"));
        }
        if state.trouble.revert_fails {
            return Err(Refusal::new(RefusalKind::NotRestored, "busy"));
        }
        state.active.remove(domain);
        Ok(())
    }

    fn active(&self) -> BTreeSet<String> {
        FakeKernel::active(self)
    }

    fn status(&self) -> EnforcementStatus {
        let state = self.0.lock().unwrap();
        let domains = state
            .active
            .values()
            .map(|request| DomainStatus {
                domain: request.domain.clone(),
                target: request.target.clone(),
                interface: request.interface.clone(),
                backend: request.backend,
                options: BackendOptions::default(),
                interference: Default::default(),
                threads: 1,
                ledger: None,
                audit: None,
            })
            .collect();
        EnforcementStatus { domains }
    }
}

/// A watchdog that is always there.
pub struct AlwaysProtected;

impl Protection for AlwaysProtected {
    fn ensure(&self) -> Result<(), Refusal> {
        Ok(())
    }

    fn serves(&self, _cpus: &CpuSet) {}

    fn status(&self) -> WatchdogStatus {
        WatchdogStatus {
            pid: Some(1),
            ..WatchdogStatus::default()
        }
    }
}

/// A watchdog that takes long to start: each request waits at the first barrier when it asks for the watchdog,
/// and goes on from the second.
#[derive(Clone)]
pub struct SlowlyProtected {
    pub asked: Arc<Barrier>,
    pub started: Arc<Barrier>,
}

impl SlowlyProtected {
    /// One that two threads meet at: who asks for a reservation, and the test.
    pub fn new() -> Self {
        Self {
            asked: Arc::new(Barrier::new(2)),
            started: Arc::new(Barrier::new(2)),
        }
    }
}

impl Protection for SlowlyProtected {
    fn ensure(&self) -> Result<(), Refusal> {
        self.asked.wait();
        self.started.wait();
        Ok(())
    }

    fn serves(&self, _cpus: &CpuSet) {}

    fn status(&self) -> WatchdogStatus {
        WatchdogStatus::default()
    }
}

/// A watchdog that cannot be started.
pub struct NeverProtected;

impl Protection for NeverProtected {
    fn ensure(&self) -> Result<(), Refusal> {
        Err(Refusal::new(RefusalKind::Unprotected, "no watchdog"))
    }

    fn serves(&self, _cpus: &CpuSet) {}

    fn status(&self) -> WatchdogStatus {
        WatchdogStatus::default()
    }
}
