//! Budgets in force, changed in an order in which they are never more than the whole.

use std::collections::BTreeSet;

use tailbound_time::Duration;

/// `BudgetControl` changes the budget of a domain's reservation.
pub trait BudgetControl {
    /// Why a budget is not changed.
    type Error;

    /// Gives a domain another budget.
    ///
    /// # Errors
    /// Why the old budget still holds.
    fn change(&mut self, domain: &str, budget: Duration) -> Result<(), Self::Error>;
}

/// `BudgetSet` has the budgets that are in force.
#[derive(Clone, Debug)]
pub struct BudgetSet {
    whole: Duration,
    in_force: Vec<(String, Duration)>,
    /// The domains whose reservations have ended, as that of an application that died.
    ended: BTreeSet<String>,
}

impl BudgetSet {
    /// The budgets of domains, which are in force already.
    pub fn new(whole: Duration, in_force: Vec<(String, Duration)>) -> Self {
        Self {
            whole,
            in_force,
            ended: BTreeSet::new(),
        }
    }

    /// The reservation of a domain has ended: its budget is free, and is not changed any more. Returns whether that is news.
    pub fn end(&mut self, domain: &str) -> bool {
        for (_, budget) in self.in_force.iter_mut().filter(|(name, _)| name == domain) {
            *budget = Duration::ZERO;
        }
        self.ended.insert(domain.to_owned())
    }

    /// Whether the reservations of all domains have ended.
    pub fn is_over(&self) -> bool {
        self.in_force
            .iter()
            .all(|(domain, _)| self.ended.contains(domain))
    }

    /// The domains whose reservations have not ended.
    pub fn active(&self) -> impl Iterator<Item = &str> {
        let names = self.in_force.iter().map(|(domain, _)| domain.as_str());
        names.filter(|domain| !self.ended.contains(*domain))
    }

    /// Whether nothing is to be changed for these budgets.
    pub fn are_in_force(&self, wanted: &[Duration]) -> bool {
        let mut pairs = self.in_force.iter().zip(wanted);
        pairs.all(|((domain, budget), wanted)| budget == wanted || self.ended.contains(domain))
    }

    /// The sum of the budgets in force.
    pub fn total(&self) -> Duration {
        let budgets = self.in_force.iter().map(|(_, budget)| *budget);
        budgets.fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The budgets in force.
    pub fn in_force(&self) -> &[(String, Duration)] {
        &self.in_force
    }

    /// Puts the wanted budgets into force, lower ones first. A budget whose domain could not be lowered stays, and one for which
    /// there is no room then is not raised: a later call tries again.
    pub fn put<C: BudgetControl>(
        &mut self,
        wanted: &[Duration],
        control: &mut C,
    ) -> Vec<(String, C::Error)> {
        assert_eq!(
            wanted.len(),
            self.in_force.len(),
            "one budget for each domain"
        );
        let mut failures = Vec::new();
        for raises in [false, true] {
            for (place, wanted) in wanted.iter().enumerate() {
                let before = self.in_force[place].1;
                let is_due = if raises {
                    *wanted > before
                } else {
                    *wanted < before
                };
                let after = self.total().saturating_sub(before).saturating_add(*wanted);
                let domain = self.in_force[place].0.clone();
                let has_ended = self.ended.contains(&domain);
                if !is_due || has_ended || (raises && after > self.whole) {
                    continue;
                }
                match control.change(&domain, *wanted) {
                    Ok(()) => self.in_force[place].1 = *wanted,
                    Err(error) => failures.push((domain, error)),
                }
            }
        }
        failures
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use proptest::prelude::*;

    use super::*;

    /// A host that refuses the changes of some domains, and watches the sum.
    struct WatchedHost {
        budgets: BTreeMap<String, Duration>,
        stubborn: BTreeSet<String>,
        most: Duration,
    }

    impl BudgetControl for WatchedHost {
        type Error = ();

        fn change(&mut self, domain: &str, budget: Duration) -> Result<(), ()> {
            if self.stubborn.contains(domain) {
                return Err(());
            }
            self.budgets.insert(domain.to_owned(), budget);
            let total = self
                .budgets
                .values()
                .fold(Duration::ZERO, |sum, one| sum.saturating_add(*one));
            self.most = self.most.max(total);
            Ok(())
        }
    }

    #[test]
    fn the_budget_of_an_ended_reservation_is_free_for_others() {
        let nanoseconds = Duration::from_nanos;
        let in_force = ["dead", "alive"].map(|name| (name.to_owned(), nanoseconds(500)));
        let mut host = WatchedHost {
            budgets: in_force.iter().cloned().collect(),
            stubborn: ["dead".to_owned()].into(),
            most: Duration::ZERO,
        };
        let mut set = BudgetSet::new(nanoseconds(1000), in_force.to_vec());
        assert_eq!(
            set.put(&[nanoseconds(300), nanoseconds(700)], &mut host)
                .len(),
            1
        );
        assert_eq!(set.in_force()[1].1, nanoseconds(500), "there is no room");
        assert!(set.end("dead") && !set.end("dead"));
        assert!(
            set.put(&[nanoseconds(300), nanoseconds(700)], &mut host)
                .is_empty()
        );
        assert_eq!(set.in_force()[1].1, nanoseconds(700));
        assert!(!set.is_over());
        set.end("alive");
        assert!(set.is_over());
    }

    proptest! {
        #[test]
        fn the_sum_is_never_more_than_the_whole(
            divisions in prop::collection::vec(prop::collection::vec(0_u64..1000, 6), 1..10),
            stubborn in prop::collection::vec(prop::collection::vec(any::<bool>(), 6), 10),
        ) {
            let whole = Duration::from_nanos(6000);
            let equal = vec![Duration::from_nanos(1000); 6];
            let names: Vec<String> = (0..6).map(|one| format!("domain-{one}")).collect();
            let in_force: Vec<(String, Duration)> = names.iter().cloned().zip(equal).collect();
            let mut host = WatchedHost { budgets: in_force.iter().cloned().collect(), stubborn: BTreeSet::new(), most: whole };
            let mut set = BudgetSet::new(whole, in_force);
            for (division, stubborn) in divisions.iter().zip(&stubborn) {
                // A division of the whole: the last gets the rest.
                let mut wanted: Vec<Duration> = division[..5].iter().map(|one| Duration::from_nanos(*one)).collect();
                let sum: u64 = division[..5].iter().sum();
                wanted.push(Duration::from_nanos(6000 - sum));
                let named = names.iter().zip(stubborn).filter(|(_, stubborn)| **stubborn);
                host.stubborn = named.map(|(name, _)| name.clone()).collect();
                let failures = set.put(&wanted, &mut host);
                prop_assert!(failures.iter().all(|(domain, ())| host.stubborn.contains(domain)));
                prop_assert!(host.most <= whole);
                if host.stubborn.is_empty() {
                    let budgets: Vec<Duration> = set.in_force().iter().map(|(_, budget)| *budget).collect();
                    prop_assert_eq!(budgets, wanted);
                }
            }
        }
    }
}
