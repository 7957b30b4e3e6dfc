//! Reservations that refuse nothing and forget nothing: an overload, or a boost that was left, fails the
//! test.

use std::collections::{BTreeMap, BTreeSet};

use tailbound_enforcement::ReservationChange;
use tailbound_linux::clock::Monotonic;
use tailbound_model::ResourceInterface;
use tailbound_modes::manager::Reservations;
use tailbound_time::{Clock, Duration, Instant};

/// The interfaces of each domain, each from an instant on.
pub struct Ledger {
    held: BTreeMap<String, Vec<(Instant, ResourceInterface)>>,
    boosted: BTreeSet<String>,
}

impl Ledger {
    pub fn new<'a>(initial: impl IntoIterator<Item = (&'a str, ResourceInterface)>) -> Self {
        let initial = initial.into_iter();
        Self {
            held: initial
                .map(|(domain, held)| (domain.to_owned(), vec![(Instant::ORIGIN, held)]))
                .collect(),
            boosted: BTreeSet::new(),
        }
    }

    pub fn expect_no_boost(&self) {
        assert!(self.boosted.is_empty(), "left: {:?}", self.boosted);
    }

    /// At no instant from now on more is in force than there is.
    fn expect_no_overload(&self, now: Instant) {
        let begins = self.held.values().flatten().map(|(from, _)| *from);
        for at in begins.chain([now]).filter(|at| *at >= now) {
            let in_force = self.held.values().map(|held| {
                let mut before = held.iter().rev();
                &before
                    .find(|(from, _)| *from <= at)
                    .expect("one from the start")
                    .1
            });
            // All periods are the same here.
            let sum: u64 = in_force.clone().map(|one| one.budget.as_nanos()).sum();
            let period = in_force.map(|one| one.period.as_nanos()).max();
            assert!(Some(sum) <= period, "{sum} ns at {at:?}: {:?}", self.held);
        }
    }
}

impl Reservations for Ledger {
    fn change(&mut self, change: ReservationChange<'_>) -> Result<Instant, String> {
        let (domain, interface) = (change.domain, change.interface);
        let now = Monotonic.now();
        // As the next replenishment.
        let from = (now + Duration::from_millis(1)).max(change.not_before);
        let held = self.held.get_mut(domain).expect("a domain of the table");
        held.retain(|(begins, _)| *begins < from);
        held.push((from, interface.clone()));
        self.expect_no_overload(now);
        Ok(from)
    }

    fn can_wait(&self, _: &str) -> bool {
        true
    }

    fn boost(&mut self, domain: &str, _: Duration, _: bool) {
        self.boosted.insert(domain.to_owned());
    }

    fn unboost(&mut self, domain: &str) {
        self.boosted.remove(domain);
    }
}
