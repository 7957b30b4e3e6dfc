//! Reservations without a kernel.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use tailbound_control::{HeldBy, Refusal, RefusalKind, ReservationControl, SharedControl};
use tailbound_enforcement::{
    Changed, DomainStatus, EnforcementStatus, Inheritance, LedgerSummary, Plan, ReservationChange,
    ReservationRequest, Target,
};
use tailbound_model::{BackendKind, BackendOptions, BudgetScope, Cpu, Priority, ResourceInterface};
use tailbound_subsystem::ReservationHost;
use tailbound_subsystem::process_identity::StartTimes;
use tailbound_time::Duration;

use crate::division::lock;

/// A reservation of the fake.
#[derive(Clone, Debug)]
pub(crate) struct FakeReservation {
    pub request: ReservationRequest,
    pub threads: usize,
    pub held_by: HeldBy,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct FakeReservations(BTreeMap<String, FakeReservation>);

/// `FakeReservationHost` is a host whose reservations a test makes and takes back.
#[derive(Default)]
pub(crate) struct FakeReservationHost(Arc<Mutex<FakeReservations>>);

impl FakeReservationHost {
    pub fn reserve(&self, domain: &str, budget: Duration) {
        let reservation = FakeReservation {
            request: ReservationRequest {
                domain: domain.to_owned(),
                target: Target::Processes(vec![4711]),
                interface: ResourceInterface {
                    budget,
                    period: Duration::from_millis(100),
                    priority: Priority(1),
                    cpus: [Cpu(0)].into(),
                    budget_scope: BudgetScope::AllCpus,
                    windows: Vec::new(),
                    slack: Vec::new(),
                },
                backend: BackendKind::default(),
                options: BackendOptions::default(),
                interference: Default::default(),
            },
            threads: 1,
            held_by: HeldBy::Nobody,
        };
        self.all().0.insert(domain.to_owned(), reservation);
    }

    /// The processes of a domain die.
    pub fn kill(&self, domain: &str) {
        let mut all = self.all();
        for one in all
            .0
            .values_mut()
            .filter(|one| one.request.domain == domain)
        {
            one.threads = 0;
        }
    }

    /// Another process has the domain's name from now on.
    pub fn become_somebody_else(&self, domain: &str) {
        let mut all = self.all();
        for one in all
            .0
            .values_mut()
            .filter(|one| one.request.domain == domain)
        {
            one.request.target = Target::Processes(vec![4712]);
        }
    }

    pub fn revert(&self, domain: &str) {
        self.all().0.remove(domain);
    }

    pub fn budget(&self, domain: &str) -> Option<Duration> {
        let all = self.all();
        Some(all.0.get(domain)?.request.interface.budget)
    }

    fn all(&self) -> MutexGuard<'_, FakeReservations> {
        lock(&self.0)
    }
}

impl ReservationControl for FakeReservations {
    fn begin_changes(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn end_changes(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal> {
        let none = || Refusal::new(RefusalKind::NotActive, "there is none");
        let one = self.0.get_mut(change.domain).ok_or_else(none)?;
        one.request.interface = change.interface.clone();
        let plan = Plan {
            request: one.request.clone(),
            changes: Vec::new(),
            managers: Vec::new(),
            mapping: Vec::new(),
            inheritance: Inheritance::default(),
        };
        let in_force_at = None;
        Ok(Changed { plan, in_force_at })
    }

    fn boost(&mut self, _: &str, _: Duration, _: bool) -> Result<(), Refusal> {
        Ok(())
    }

    fn unboost(&mut self, _: &str) -> Result<(), Refusal> {
        Ok(())
    }
}

impl ReservationHost for FakeReservationHost {
    fn control(&self) -> SharedControl {
        let control: Arc<Mutex<dyn ReservationControl>> =
            Arc::<Mutex<FakeReservations>>::clone(&self.0);
        control
    }

    fn standing(&self) -> EnforcementStatus {
        let all = self.all();
        let domains = all.0.values().map(|one| DomainStatus {
            domain: one.request.domain.clone(),
            target: one.request.target.clone(),
            interface: one.request.interface.clone(),
            backend: one.request.backend,
            options: one.request.options,
            interference: one.request.interference.clone(),
            threads: one.threads,
            ledger: None,
            audit: None,
        });
        let domains = domains.collect();
        EnforcementStatus { domains }
    }

    fn ledger(&self, _: &str) -> Option<LedgerSummary> {
        None
    }

    fn holder(&self, domain: &str) -> Option<HeldBy> {
        let all = self.all();
        Some(all.0.get(domain)?.held_by)
    }

    fn start_times(&self) -> StartTimes {
        StartTimes::new()
    }

    fn restore(&self, _: &[ReservationRequest], _: &StartTimes) -> Result<(), Refusal> {
        Err(Refusal::new(RefusalKind::Target, "nothing is restored"))
    }

    fn release(&self, domain: &str) -> Result<(), Refusal> {
        self.revert(domain);
        Ok(())
    }

    fn revert_all(&self) -> Result<(), Refusal> {
        self.all().0.clear();
        Ok(())
    }
}
