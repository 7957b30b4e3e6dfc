//! The reservations of a division, as the daemon has them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, MutexGuard, PoisonError};

use tailbound_control::{HeldBy, Refusal, ReservationControl, SharedControl};
use tailbound_enforcement::{DomainStatus, ReservationChange, ReservationRequest, Target};
use tailbound_subsystem::ReservationHost;
use tailbound_time::{Duration, Instant};

use crate::budget_set::BudgetControl;

/// `HostBudgets` changes the budgets of the reservations that a division began with, and sees which of them are left.
pub struct HostBudgets {
    host: Arc<dyn ReservationHost>,
    control: SharedControl,
    requests: BTreeMap<String, ReservationRequest>,
}

impl HostBudgets {
    /// The reservations of `domains` that are in force.
    ///
    /// # Errors
    /// The first domain that has none.
    pub fn of(
        host: &Arc<dyn ReservationHost>,
        domains: impl IntoIterator<Item = String>,
    ) -> Result<Self, String> {
        let standing = host.standing().domains;
        let request = |domain: String| {
            let held = standing.iter().find(|one| one.domain == domain);
            match held.filter(|_| is_held(&**host, &domain)) {
                Some(held) => Ok((domain, held.request())),
                None => Err(domain),
            }
        };
        let requests = domains.into_iter().map(request);
        Ok(Self {
            requests: requests.collect::<Result<_, _>>()?,
            control: host.control(),
            host: Arc::clone(host),
        })
    }

    /// The budget that a domain began with.
    pub fn budget(&self, domain: &str) -> Option<Duration> {
        Some(self.requests.get(domain)?.interface.budget)
    }

    /// The domains whose reservations are still those that the division began with. The reservation of processes that are all dead
    /// is taken back first: its budget is to be free for the others.
    pub fn active(&self) -> BTreeSet<String> {
        let own = self.host.standing().domains.into_iter().filter(|one| {
            let request = self.requests.get(&one.domain);
            let is_same = request.is_some_and(|request| request.target == one.target);
            is_same && is_held(&*self.host, &one.domain)
        });
        let (dead, active): (Vec<_>, Vec<_>) = own.partition(is_dead);
        let names = |domains: Vec<DomainStatus>| domains.into_iter().map(|one| one.domain);
        // What cannot be taken back the daemon tries again, and its budget stays booked meanwhile.
        let left = names(dead).filter(|domain| self.host.release(domain).is_err());
        let left: BTreeSet<String> = left.collect();
        names(active).chain(left).collect()
    }

    /// Makes changes one soon after another, in one turn.
    pub fn in_one_turn<T>(&mut self, change: impl FnOnce(&mut Self) -> T) -> T {
        // Without it every change takes its own turn.
        let _slower = self.lock().begin_changes();
        let changed = change(self);
        // What could not be written is written with the next change.
        let _later = self.lock().end_changes();
        changed
    }

    /// What holds the reservations, which a panic of another holder leaves whole.
    fn lock(&self) -> MutexGuard<'_, dyn ReservationControl + 'static> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BudgetControl for HostBudgets {
    type Error = Refusal;

    fn change(&mut self, domain: &str, budget: Duration) -> Result<(), Refusal> {
        let Some(request) = self.requests.get(domain) else {
            return Ok(());
        };
        let mut interface = request.interface.clone();
        interface.budget = budget;
        let change = ReservationChange {
            domain,
            interface: &interface,
            not_before: Instant::ORIGIN,
        };
        self.lock().change_from(change).map(drop)
    }
}

/// Whether somebody answers for a reservation: a client, or nobody until it is reverted.
fn is_held(host: &dyn ReservationHost, domain: &str) -> bool {
    matches!(
        host.holder(domain),
        Some(HeldBy::Nobody | HeldBy::Connection)
    )
}

/// Whether a reservation is for processes none of which lives. The members of a cgroup may come back.
fn is_dead(reservation: &DomainStatus) -> bool {
    let of_processes = matches!(
        reservation.target,
        Target::Processes(_) | Target::Threads(_)
    );
    of_processes && reservation.threads == 0
}
