//! What of each CPU is taken, and from when on.

use std::collections::BTreeMap;

use tailbound_enforcement::admission::Fraction;
use tailbound_model::{Cpu, ResourceInterface};
use tailbound_time::Instant;

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
        let found = self.by_cpu.get(&cpu).copied();
        found.unwrap_or_else(|| Fraction::new(0, 1))
    }
}

/// More than a CPU has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "domain \"{domain}\": CPU {cpu} would have to give {asked} with it, and reservations may have \
     {limit} there"
)]
pub struct Overload {
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
struct Held {
    now: ResourceInterface,
    /// What was accepted and is in force from an instant on.
    later: Option<(Instant, ResourceInterface)>,
}

fn share(interface: &ResourceInterface) -> Fraction {
    Fraction::new(interface.budget.as_nanos(), interface.period.as_nanos())
}

impl Held {
    /// What it may take of a CPU at an instant or after it.
    fn share_from(&self, cpu: Cpu, at: Instant) -> Fraction {
        let none = Fraction::new(0, 1);
        let of = |interface: &ResourceInterface| match interface.cpus.contains(&cpu) {
            true => share(interface),
            false => none,
        };
        match &self.later {
            None => of(&self.now),
            Some((from, later)) if *from <= at => of(later),
            Some((_, later)) => {
                let (now, later) = (of(&self.now), of(later));
                if now > later { now } else { later }
            }
        }
    }
}

/// The account of all domains of a transition.
#[derive(Clone, Debug)]
pub(super) struct Capacity {
    limits: Limits,
    held: BTreeMap<String, Held>,
}

impl Capacity {
    pub(super) fn new(limits: Limits) -> Self {
        let held = BTreeMap::new();
        Self { limits, held }
    }

    /// Takes note of what a domain has.
    pub(super) fn hold(&mut self, domain: &str, interface: &ResourceInterface) {
        let now = interface.clone();
        self.held
            .insert(domain.to_owned(), Held { now, later: None });
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
    ) -> Result<Instant, Overload> {
        let promised = self.held.values().filter_map(|held| held.later.as_ref());
        let mut instants: Vec<Instant> = promised.map(|(from, _)| (*from).max(now)).collect();
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
    ) -> Result<(), Overload> {
        for cpu in &interface.cpus {
            let others = self.held.iter().filter(|(name, _)| *name != domain);
            let sum = others.fold(share(interface), |sum, (_, held)| {
                sum + held.share_from(*cpu, at)
            });
            let limit = self.limits.of(*cpu);
            if sum > limit {
                return Err(Overload {
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
        self.accept(domain, interface, from);
    }

    /// What was promised is refused.
    pub(super) fn refuse(&mut self, domain: &str) {
        if let Some(held) = self.held.get_mut(domain) {
            held.later = None;
        }
    }

    /// An interface was accepted, and is in force from an instant on.
    pub(super) fn accept(&mut self, domain: &str, interface: &ResourceInterface, from: Instant) {
        if let Some(held) = self.held.get_mut(domain) {
            held.later = Some((from, interface.clone()));
        }
    }

    /// What was promised is in force by now.
    pub(super) fn pass(&mut self, now: Instant) {
        for held in self.held.values_mut() {
            if let Some((_, later)) = held.later.take_if(|(from, _)| *from <= now) {
                held.now = later;
            }
        }
    }
}
