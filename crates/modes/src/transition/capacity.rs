//! What of each CPU is taken, and from when on.

use std::collections::BTreeMap;

use tailbound_model::{Cpu, ResourceInterface};
use tailbound_time::{Fraction, Instant};

/// How much of each CPU reservations may have together. CPUs that are not named have none.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    by_cpu: BTreeMap<Cpu, Fraction>,
}

impl Limits {
    /// No CPU yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// With so much of a CPU: its bound, less what takes no part in the transition.
    #[must_use]
    pub fn with(mut self, cpu: Cpu, limit: Fraction) -> Self {
        self.by_cpu.insert(cpu, limit);
        self
    }

    fn of(&self, cpu: Cpu) -> Fraction {
        let limit = self.by_cpu.get(&cpu).copied();
        limit.unwrap_or_else(|| Fraction::new(0, 1))
    }
}

/// More than a CPU has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "domain \"{domain}\": CPU {cpu} would have to give {asked} with it, and reservations may have \
     {limit} there"
)]
pub struct CapacityOverload {
    /// The domain with which it would be too much.
    pub domain: String,
    /// The CPU.
    pub cpu: Cpu,
    /// What all together would have.
    pub asked: Fraction,
    /// What they may have.
    pub limit: Fraction,
}

/// What one domain takes: so much now, and so much from then on.
#[derive(Clone, Debug)]
struct DomainHolding {
    now: ResourceInterface,
    /// What was accepted and is in force from an instant on, each from a later one.
    later: Vec<(Instant, ResourceInterface)>,
    /// What was asked for, and may be in force from an instant on.
    promised: Option<(Instant, ResourceInterface)>,
}

/// What domains have and were promised, from one transition to the next: what one of them has accepted
/// need not be in force when the next one begins.
#[derive(Clone, Debug, Default)]
pub struct Holdings {
    by_domain: BTreeMap<String, DomainHolding>,
}

/// The exact share of each CPU of an interface.
pub(crate) fn share(interface: &ResourceInterface) -> Fraction {
    let budget = interface.budget_on_one_cpu();
    Fraction::new(budget.as_nanos(), interface.period.as_nanos())
}

impl DomainHolding {
    /// The most that it may take of a CPU at an instant or after it.
    fn share_from(&self, cpu: Cpu, at: Instant) -> Fraction {
        let passed = self.later.partition_point(|(from, _)| *from <= at);
        let then = match passed.checked_sub(1) {
            Some(last) => &self.later[last].1,
            None => &self.now,
        };
        let after = self.later[passed..].iter().chain(&self.promised);
        let of = |interface: &ResourceInterface| match interface.cpus.contains(&cpu) {
            true => share(interface),
            false => Fraction::new(0, 1),
        };
        after.fold(of(then), |most, (_, interface)| {
            let share = of(interface);
            if share > most { share } else { most }
        })
    }

    /// Instants at which it changes.
    fn instants(&self) -> impl Iterator<Item = Instant> {
        let all = self.later.iter().chain(&self.promised);
        all.map(|(from, _)| *from)
    }
}

/// The account of all domains of a transition.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    limits: Limits,
    held: BTreeMap<String, DomainHolding>,
}

impl Capacity {
    pub(super) fn new(limits: Limits) -> Self {
        let held = BTreeMap::new();
        Self { limits, held }
    }

    /// Takes note of what a domain has.
    pub(super) fn hold(&mut self, domain: &str, interface: &ResourceInterface) {
        let held = DomainHolding {
            now: interface.clone(),
            later: Vec::new(),
            promised: None,
        };
        self.held.insert(domain.to_owned(), held);
    }

    /// Takes note of what the domains of another account have, in place of what was noted.
    pub(super) fn take_over(&mut self, holdings: &Holdings) {
        for (domain, held) in &mut self.held {
            if let Some(holding) = holdings.by_domain.get(domain) {
                held.clone_from(holding);
            }
        }
    }

    /// What the domains have.
    pub(super) fn holdings(&self) -> Holdings {
        Holdings {
            by_domain: self.held.clone(),
        }
    }

    /// From when on a domain may have an interface, all others having what they have or are promised;
    /// no earlier than `now`.
    ///
    /// # Errors
    /// If it may not at any time, as things stand.
    pub(super) fn room_from(
        &self,
        domain: &str,
        interface: &ResourceInterface,
        now: Instant,
    ) -> Result<Instant, CapacityOverload> {
        let promised = self.held.values().flat_map(DomainHolding::instants);
        let mut instants: Vec<Instant> = promised.map(|from| from.max(now)).collect();
        instants.push(now);
        // Domains of one period have their replenishments, and so their changes, at the same instants.
        instants.sort_unstable();
        instants.dedup();
        let mut last = None;
        for at in instants {
            match self.fits(domain, interface, at) {
                Ok(()) => return Ok(at),
                Err(overload) => last = Some(overload),
            }
        }
        last.map_or(Ok(now), Err)
    }

    /// Whether it fits from an instant on.
    fn fits(
        &self,
        domain: &str,
        interface: &ResourceInterface,
        at: Instant,
    ) -> Result<(), CapacityOverload> {
        for cpu in &interface.cpus {
            let others = self.held.iter().filter(|(name, _)| *name != domain);
            let sum = others.fold(share(interface), |sum, (_, held)| {
                sum + held.share_from(*cpu, at)
            });
            let limit = self.limits.of(*cpu);
            if sum > limit {
                return Err(CapacityOverload {
                    domain: domain.to_owned(),
                    cpu: *cpu,
                    asked: sum,
                    limit,
                });
            }
        }
        Ok(())
    }

    /// A larger interface is asked for, from an instant on: nobody else may count on its share.
    pub(super) fn promise(&mut self, domain: &str, interface: &ResourceInterface, from: Instant) {
        debug_assert!(
            self.fits(domain, interface, from).is_ok(),
            "no more is promised than there is room for"
        );
        if let Some(held) = self.held.get_mut(domain) {
            held.promised = Some((from, interface.clone()));
        }
    }

    /// What was promised is refused.
    pub(super) fn refuse(&mut self, domain: &str) {
        if let Some(held) = self.held.get_mut(domain) {
            held.promised = None;
        }
    }

    /// An interface was accepted, and is in force from an instant on, in place of what would have been
    /// from then on or later.
    pub(super) fn accept(&mut self, domain: &str, interface: &ResourceInterface, from: Instant) {
        if let Some(held) = self.held.get_mut(domain) {
            held.promised = None;
            held.later.retain(|(other, _)| *other < from);
            held.later.push((from, interface.clone()));
            debug_assert!(
                held.later.is_sorted_by_key(|(from, _)| *from),
                "what is accepted is in the order in which it comes into force"
            );
        }
    }

    /// What was accepted is in force by now.
    pub(super) fn pass(&mut self, now: Instant) {
        for held in self.held.values_mut() {
            let passed = held.later.partition_point(|(from, _)| *from <= now);
            if let Some((_, interface)) = held.later.drain(..passed).next_back() {
                held.now = interface;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use tailbound_model::{BudgetScope, Priority};
    use tailbound_time::Duration;

    use super::*;

    fn percent(percent: u64) -> ResourceInterface {
        ResourceInterface {
            budget: Duration::from_micros(percent),
            period: Duration::from_micros(100),
            priority: Priority(10),
            cpus: [Cpu(0)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        }
    }

    fn at(ns: u64) -> Instant {
        Instant::from_nanos(ns)
    }

    #[test]
    fn what_was_accepted_counts_until_the_next_is_in_force() {
        let mut capacity = Capacity::new(Limits::new().with(Cpu(0), Fraction::new(1, 1)));
        capacity.hold("a", &percent(90));
        capacity.hold("b", &percent(10));
        capacity.accept("a", &percent(50), at(10));
        capacity.accept("a", &percent(20), at(20));
        let room = |capacity: &Capacity, wanted, now| {
            let from = capacity.room_from("b", &percent(wanted), at(now));
            from.ok().map(Instant::as_nanos)
        };
        assert_eq!(room(&capacity, 10, 0), Some(0));
        assert_eq!(room(&capacity, 50, 0), Some(10));
        assert_eq!(room(&capacity, 80, 0), Some(20));
        assert_eq!(room(&capacity, 81, 0), None);
        // However much of it has passed at once.
        for now in [9, 10, 15, 20, 25] {
            let mut later = capacity.clone();
            later.pass(at(now));
            assert_eq!(room(&later, 80, now), Some(now.max(20)), "{now}");
        }
        capacity.pass(at(30));
        capacity.accept("a", &percent(60), at(40));
        assert_eq!(room(&capacity, 40, 30), Some(30));
        assert_eq!(
            room(&capacity, 41, 30),
            None,
            "what is to be in force counts now"
        );
    }
}
