//! Who answers for which reservation.
//!
//! A pure state machine above [`LeasedReservations`]: the daemon gives it the enforcer, the tests a fake.
//! Its invariant: after every operation each active reservation has an owner, and an owner is
//! either nobody in particular (`Persistent`), or a connection that is open, or this daemon, which
//! goes on trying to take back what it could not (`abandoned`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use tailbound_enforcement::{
    Changed, EnforcementStatus, LedgerSummary, Plan, Probe, ReservationChange, ReservationRequest,
    TopicTables,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::ResourceInterface;
use tailbound_time::Duration;

use tailbound_control::ReservationControl;
use tailbound_control::origin::{EarlyEnding, EndReason, Endings, Origin, Peer};
use tailbound_control::protocol::{HeldBy, Lease, Refusal, RefusalKind, Selection};

/// What carries reservations out: the enforcer, or a fake under test.
pub trait LeasedReservations: ReservationControl {
    /// The changes that [`LeasedReservations::apply`] would make, without making them.
    ///
    /// # Errors
    /// Why it would be refused.
    fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal>;

    /// Makes all of `requests` or none of them.
    ///
    /// # Errors
    /// Why nothing was made. What could not be taken back stays in [`LeasedReservations::active`].
    fn apply(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal>;

    /// Changes what an active reservation gives.
    ///
    /// # Errors
    /// Why the old one still holds.
    fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal>;

    /// Takes the reservation of `domain` back.
    ///
    /// # Errors
    /// The changes that could not be restored; the domain stays in [`LeasedReservations::active`] if trying again
    /// makes sense.
    fn revert(&mut self, domain: &str) -> Result<(), Refusal>;

    /// Removes what is left of reservations that were taken back, such as a journal on a file system that could
    /// not be written to then; only called while there is no reservation.
    ///
    /// # Errors
    /// What stays.
    fn clean(&mut self) -> Result<(), Refusal> {
        Ok(())
    }

    /// Takes back what the reservation of `domain` changed, and keeps its budget booked.
    ///
    /// # Errors
    /// What could not be restored.
    fn detach(&mut self, domain: &str) -> Result<(), Refusal> {
        let _ = domain;
        Ok(())
    }

    /// Puts the reservation of `domain` in force for the members that it has now.
    ///
    /// # Errors
    /// Why it stays as it is, or is booked only.
    fn bind(&mut self, domain: &str) -> Result<(), Refusal> {
        let _ = domain;
        Ok(())
    }

    /// Where the members of the domains are looked for.
    fn probes(&self) -> Vec<Probe> {
        Vec::new()
    }

    /// The domains with a reservation, whole or in part.
    fn active(&self) -> BTreeSet<String>;

    /// What is enforced now.
    fn status(&self) -> EnforcementStatus;

    /// The host as reservations are planned for it.
    fn host(&self) -> HostCapabilities;

    /// The tables of nftables that are in force.
    fn topic_tables(&self) -> Vec<TopicTables> {
        Vec::new()
    }

    /// What the manager of a domain has seen, where there is one.
    fn ledger(&self, domain: &str) -> Option<LedgerSummary> {
        let domains = self.status().domains.into_iter();
        let mut of_it = domains.filter(|one| one.domain == domain);
        of_it.next()?.ledger
    }
}

/// A connection as the daemon counts them; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// Who answers for a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseOwner {
    /// Nobody: it stays until it is reverted.
    Persistent,
    /// A connection; the reservation ends with it.
    Connection(ConnectionId),
    /// The daemon: the owner is gone, and taking the reservation back failed so far.
    Abandoned,
}

impl LeaseOwner {
    /// The same for clients, who need not know which connection it is.
    pub fn held_by(self) -> HeldBy {
        match self {
            Self::Persistent => HeldBy::Nobody,
            Self::Connection(_) => HeldBy::Connection,
            Self::Abandoned => HeldBy::Daemon,
        }
    }
}

/// The reservations with their owners.
#[derive(Debug)]
pub struct Leases<R> {
    reservations: R,
    owners: BTreeMap<String, LeaseOwner>,
    origins: BTreeMap<String, Origin>,
    connections: BTreeSet<ConnectionId>,
    peers: BTreeMap<ConnectionId, Peer>,
    announcements: BTreeMap<ConnectionId, Announcement>,
    endings: Endings,
    next_connection: u64,
    next_origin: u64,
    closing: bool,
}

/// Reservations that a connection has asked for, and that wait for a watchdog before they are made.
#[derive(Debug)]
struct Announcement {
    domains: BTreeSet<String>,
    /// The first of them that was reverted meanwhile.
    reverted: Option<String>,
}

/// Leases that several threads use.
pub type SharedLeases<R> = Arc<Mutex<Leases<R>>>;

impl<R: LeasedReservations> Leases<R> {
    /// No connections; what `reservations` holds already is abandoned and will be taken back.
    pub fn new(reservations: R) -> Self {
        let mut leases = Self {
            reservations,
            owners: BTreeMap::new(),
            origins: BTreeMap::new(),
            connections: BTreeSet::new(),
            peers: BTreeMap::new(),
            announcements: BTreeMap::new(),
            endings: Endings::default(),
            next_connection: 0,
            next_origin: 1,
            closing: false,
        };
        leases.reconcile();
        leases
    }

    /// Counts a new connection, of the daemon itself.
    pub fn connect(&mut self) -> ConnectionId {
        self.connect_as(Peer::daemon())
    }

    /// Counts a new connection of somebody.
    pub fn connect_as(&mut self, peer: Peer) -> ConnectionId {
        let id = ConnectionId(self.next_connection);
        self.next_connection += 1;
        self.connections.insert(id);
        self.peers.insert(id, peer);
        id
    }

    /// Ends a connection and takes back what was leased to it. What cannot be taken back now is
    /// abandoned, and tried again by [`Leases::retry_abandoned`].
    pub fn disconnect(&mut self, id: ConnectionId) -> Vec<Refusal> {
        self.connections.remove(&id);
        self.peers.remove(&id);
        self.announcements.remove(&id);
        for owner in self.owners.values_mut() {
            if *owner == LeaseOwner::Connection(id) {
                *owner = LeaseOwner::Abandoned;
            }
        }
        self.retry_abandoned()
    }

    /// What `requests` would change.
    ///
    /// # Errors
    /// Why they would be refused.
    pub fn plan(&mut self, requests: &[ReservationRequest]) -> Result<Vec<Plan>, Refusal> {
        self.reservations.plan(requests)
    }

    /// Notes that the connection `id` asks for `requests`, which [`Leases::apply`] is to make: a revert
    /// that comes before then takes them back all the same.
    pub fn announce(&mut self, id: ConnectionId, requests: &[ReservationRequest]) {
        let domains = requests.iter().map(|request| request.domain.clone());
        let announcement = Announcement {
            domains: domains.collect(),
            reverted: None,
        };
        self.announcements.insert(id, announcement);
    }

    /// Forgets an announcement that [`Leases::apply`] will not follow.
    pub fn withdraw(&mut self, id: ConnectionId) {
        self.announcements.remove(&id);
    }

    /// Makes all of `requests` for the connection `id`, or none.
    ///
    /// # Errors
    /// Why none was made. A connection that has ended gets nothing: what it asked for just before
    /// would have no owner. Nor does one whose announcement was reverted.
    pub fn apply(
        &mut self,
        id: ConnectionId,
        requests: &[ReservationRequest],
        lease: Lease,
    ) -> Result<Vec<Plan>, Refusal> {
        if self.closing {
            return Err(Refusal::shutting_down());
        }
        if !self.connections.contains(&id) {
            return Err(Refusal::new(
                RefusalKind::NotConnected,
                "the connection that asked has ended; connect again",
            ));
        }
        let announcement = self.announcements.remove(&id);
        if let Some(domain) = announcement.and_then(|announcement| announcement.reverted) {
            return Err(Refusal::new(
                RefusalKind::NotActive,
                format!(
                    "domain \"{domain}\" was reverted while its reservation waited for a watchdog, so \
                     nothing was reserved; ask again"
                ),
            ));
        }
        let result = self.reservations.apply(requests);
        if result.is_ok() {
            let owner = match lease {
                Lease::Persistent => LeaseOwner::Persistent,
                Lease::Connection => LeaseOwner::Connection(id),
            };
            let peer = self.peers.get(&id).cloned();
            let origin = Origin {
                number: self.next_origin,
                peer: peer.unwrap_or_else(Peer::daemon),
            };
            self.next_origin += 1;
            for request in requests {
                self.owners.insert(request.domain.clone(), owner);
                self.origins.insert(request.domain.clone(), origin.clone());
            }
        }
        self.reconcile();
        result
    }

    /// Changes what the reservation of `domain` gives; its owner stays.
    ///
    /// # Errors
    /// Why the old one still holds.
    pub fn change(&mut self, domain: &str, interface: &ResourceInterface) -> Result<Plan, Refusal> {
        if self.closing {
            return Err(Refusal::shutting_down());
        }
        let result = self.reservations.change(domain, interface);
        self.reconcile();
        result
    }

    /// Takes back what `selection` names.
    ///
    /// # Errors
    /// If a named domain holds no reservation, or something could not be restored; the rest is
    /// taken back all the same.
    pub fn revert(&mut self, selection: &Selection) -> Result<Vec<String>, Refusal> {
        self.revert_because(selection, &EndReason::Daemon {})
    }

    /// As [`Leases::revert`], for the connection `id`.
    ///
    /// # Errors
    /// As there.
    pub fn revert_for(
        &mut self,
        id: ConnectionId,
        selection: &Selection,
    ) -> Result<Vec<String>, Refusal> {
        let by = self.peers.get(&id).cloned();
        let by = by.unwrap_or_else(Peer::daemon);
        let own = self.owners.iter();
        let own = own.filter(|(_, owner)| **owner == LeaseOwner::Connection(id));
        let own: BTreeSet<String> = own.map(|(domain, _)| domain.clone()).collect();
        let result = self.revert_because(selection, &EndReason::Reverted { by });
        // Who ends what was leased to it knows that.
        self.endings.forget(|ending| own.contains(&ending.domain));
        result
    }

    /// As [`Leases::revert`], and remembers why for those who ask.
    ///
    /// # Errors
    /// As there.
    pub fn revert_because(
        &mut self,
        selection: &Selection,
        reason: &EndReason,
    ) -> Result<Vec<String>, Refusal> {
        let domains: Vec<String> = match selection {
            Selection::All => self.reservations.active().into_iter().rev().collect(),
            Selection::Domain(domain) => vec![domain.clone()],
            Selection::Domains(domains) => domains.iter().rev().cloned().collect(),
        };
        // What has no members was there; what is announced is not yet.
        let mut announced = match reason {
            EndReason::Empty {} => BTreeSet::new(),
            EndReason::Reverted { .. } | EndReason::Daemon {} => self.revert_announced(selection),
        };
        let mut reverted = Vec::new();
        let mut failures = Vec::new();
        if self.reservations.active().is_empty() {
            failures.extend(self.reservations.clean().err());
        }
        for domain in domains {
            match self.reservations.revert(&domain) {
                Ok(()) => {
                    self.endings.add(EarlyEnding {
                        origin: self.origins.get(&domain).cloned(),
                        reason: reason.clone(),
                        domain: domain.clone(),
                    });
                    announced.remove(&domain);
                    reverted.push(domain);
                }
                Err(refusal)
                    if refusal.kind == RefusalKind::NotActive && announced.contains(&domain) => {}
                Err(refusal) => failures.push(refusal),
            }
        }
        reverted.extend(announced);
        self.reconcile();
        match Refusal::join(failures) {
            None => Ok(reverted),
            Some(refusal) => Err(refusal),
        }
    }

    /// Reverts what is announced and named by `selection`: none of such an announcement will be made.
    fn revert_announced(&mut self, selection: &Selection) -> BTreeSet<String> {
        let mut reverted = BTreeSet::new();
        for announcement in self.announcements.values_mut() {
            let named = announcement.domains.iter();
            for domain in named.filter(|domain| selection.includes(domain)) {
                announcement.reverted.get_or_insert_with(|| domain.clone());
                reverted.insert(domain.clone());
            }
        }
        reverted
    }

    /// Takes back what the reservation of `domain` changed, and keeps its budget booked.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn detach(&mut self, domain: &str) -> Result<(), Refusal> {
        let result = self.reservations.detach(domain);
        self.reconcile();
        result
    }

    /// Puts the reservation of `domain` in force for the members that it has now; its owner stays.
    ///
    /// # Errors
    /// Why it is not in force.
    pub fn bind(&mut self, domain: &str) -> Result<(), Refusal> {
        if self.closing {
            return Err(Refusal::shutting_down());
        }
        let result = self.reservations.bind(domain);
        self.reconcile();
        result
    }

    /// Whom the active reservations come from.
    pub fn origins(&self) -> &BTreeMap<String, Origin> {
        &self.origins
    }

    /// The latest reservations that ended before whoever asked for them wanted it.
    pub fn endings(&self) -> &Endings {
        &self.endings
    }

    /// Tries again to take back what is abandoned; returns what failed once more.
    pub fn retry_abandoned(&mut self) -> Vec<Refusal> {
        let abandoned: Vec<String> = self
            .owners
            .iter()
            .filter(|(_, owner)| **owner == LeaseOwner::Abandoned)
            .map(|(domain, _)| domain.clone())
            .collect();
        let failures = abandoned
            .iter()
            .rev()
            .filter_map(|domain| self.reservations.revert(domain).err())
            .collect();
        self.reconcile();
        failures
    }

    /// Refuses everything new from here on, and takes everything back.
    ///
    /// # Errors
    /// What could not be restored.
    pub fn close(&mut self) -> Result<Vec<String>, Refusal> {
        self.closing = true;
        self.revert(&Selection::All)
    }

    /// Closes for new requests if there are no connections and no reservations, and tells whether
    /// it did.
    pub fn close_if_idle(&mut self) -> bool {
        if self.is_idle() {
            self.closing = true;
        }
        self.closing
    }

    /// Whether there are neither connections nor reservations.
    pub fn is_idle(&self) -> bool {
        self.connections.is_empty() && self.owners.is_empty()
    }

    /// Whether something is to be tried again.
    pub fn has_abandoned(&self) -> bool {
        self.owners
            .values()
            .any(|owner| *owner == LeaseOwner::Abandoned)
    }

    /// Who answers for each active reservation.
    pub fn owners(&self) -> &BTreeMap<String, LeaseOwner> {
        &self.owners
    }

    /// The open connections.
    pub fn connections(&self) -> &BTreeSet<ConnectionId> {
        &self.connections
    }

    /// Whether a reservation ends with the connection `id`.
    pub fn holds_lease(&self, id: ConnectionId) -> bool {
        self.owners
            .values()
            .any(|owner| *owner == LeaseOwner::Connection(id))
    }

    /// What carries the reservations out.
    pub fn reservations(&self) -> &R {
        &self.reservations
    }

    /// Lets the owners follow what is active: an owner of nothing goes, and what is active without
    /// an owner (left over from a failed apply) becomes ours to take back.
    fn reconcile(&mut self) {
        let active = self.reservations.active();
        self.owners.retain(|domain, _| active.contains(domain));
        self.origins.retain(|domain, _| active.contains(domain));
        for domain in active {
            self.owners.entry(domain).or_insert(LeaseOwner::Abandoned);
        }
    }
}

impl<R: LeasedReservations> ReservationControl for Leases<R> {
    fn begin_changes(&mut self) -> Result<(), Refusal> {
        self.reservations.begin_changes()
    }

    fn end_changes(&mut self) -> Result<(), Refusal> {
        self.reservations.end_changes()
    }

    fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal> {
        if self.closing {
            return Err(Refusal::shutting_down());
        }
        // No owner comes or goes, and looking for that would take longer than the change.
        self.reservations.change_from(change)
    }

    fn boost(
        &mut self,
        domain: &str,
        at_most: Duration,
        if_exhausted: bool,
    ) -> Result<(), Refusal> {
        self.reservations.boost(domain, at_most, if_exhausted)
    }

    fn unboost(&mut self, domain: &str) -> Result<(), Refusal> {
        self.reservations.unboost(domain)
    }
}
