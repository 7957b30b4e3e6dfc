//! The reservations of an enforcer, as the host mode manager changes them.

use std::collections::BTreeMap;

use tailbound_enforcement::admission::{Fraction, bound};
use tailbound_enforcement::{Changed, EnforcementError, EnforcementStatus, Enforcer};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Cpu, ResourceInterface};
use tailbound_time::{Clock, Duration, Instant};

use crate::manager::Reservations;
use crate::transition::Limits;

/// What holds reservations: an [`Enforcer`], or what is in front of one.
pub trait Enforcing {
    /// As [`Enforcer::begin_changes`].
    ///
    /// # Errors
    /// As there.
    fn begin_changes(&mut self) -> Result<(), String>;

    /// As [`Enforcer::end_changes`].
    ///
    /// # Errors
    /// As there.
    fn end_changes(&mut self) -> Result<(), String>;

    /// As [`Enforcer::change_from`].
    ///
    /// # Errors
    /// As there.
    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, String>;

    /// As [`Enforcer::boost`].
    ///
    /// # Errors
    /// As there.
    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) -> Result<(), String>;

    /// As [`Enforcer::unboost`].
    ///
    /// # Errors
    /// As there.
    fn unboost(&mut self, domain: &str) -> Result<(), String>;
}

fn told(error: EnforcementError) -> String {
    error.to_string()
}

impl Enforcing for Enforcer {
    fn begin_changes(&mut self) -> Result<(), String> {
        Enforcer::begin_changes(self).map_err(told)
    }

    fn end_changes(&mut self) -> Result<(), String> {
        Enforcer::end_changes(self).map_err(told)
    }

    fn change_from(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Changed, String> {
        Enforcer::change_from(self, domain, interface, not_before).map_err(told)
    }

    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) -> Result<(), String> {
        Enforcer::boost(self, domain, at_most, if_exhausted).map_err(told)
    }

    fn unboost(&mut self, domain: &str) -> Result<(), String> {
        Enforcer::unboost(self, domain).map_err(told)
    }
}

/// Reservations that are enforced.
pub struct Enforced<E, C> {
    enforcing: E,
    clock: C,
    /// Of each domain its back end, and the period that holds or will.
    domains: BTreeMap<String, (BackendKind, Duration)>,
}

impl<E: Enforcing, C: Clock> Enforced<E, C> {
    /// The reservations that stand.
    pub fn new(enforcing: E, standing: &EnforcementStatus, clock: C) -> Self {
        let domains = standing.domains.iter();
        let domains = domains.map(|domain| {
            let known = (domain.backend, domain.interface.period);
            (domain.domain.clone(), known)
        });
        Self {
            domains: domains.collect(),
            enforcing,
            clock,
        }
    }

    /// What holds them.
    pub fn enforcing(&mut self) -> &mut E {
        &mut self.enforcing
    }
}

impl<E: Enforcing, C: Clock> Reservations for Enforced<E, C> {
    fn begin_changes(&mut self) {
        // Without it every change takes its own turn.
        let _slower = self.enforcing.begin_changes();
    }

    fn end_changes(&mut self) {
        // What could not be written is written with the next change.
        let _later = self.enforcing.end_changes();
    }

    fn change(
        &mut self,
        domain: &str,
        interface: &ResourceInterface,
        not_before: Instant,
    ) -> Result<Instant, String> {
        let changed = self.enforcing.change_from(domain, interface, not_before)?;
        let known = self.domains.get_mut(domain);
        let old_period = known.map(|(_, period)| std::mem::replace(period, interface.period));
        Ok(changed.in_force_at.unwrap_or_else(|| {
            // The kernel goes over to it at its own next replenishment.
            let wait = old_period.unwrap_or(interface.period);
            self.clock.now().saturating_add(wait)
        }))
    }

    fn can_wait(&self, domain: &str) -> bool {
        let known = self.domains.get(domain);
        known.is_some_and(|(backend, _)| *backend == BackendKind::DsFreeze)
    }

    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) {
        // Without a boost the agent answers at the next replenishment.
        let _answers_later = self.enforcing.boost(domain, at_most, if_exhausted);
    }

    fn unboost(&mut self, domain: &str) {
        // A boost ends by itself in any case.
        let _ends_by_itself = self.enforcing.unboost(domain);
    }
}

/// What the domains of a mode table may have together of each of these CPUs: the bound of the back
/// ends there, less what reservations have that take no part.
pub fn limits(
    cpus: impl IntoIterator<Item = Cpu>,
    standing: &EnforcementStatus,
    takes_part: impl Fn(&str) -> bool,
    host: &HostCapabilities,
) -> Limits {
    cpus.into_iter().fold(Limits::new(), |limits, cpu| {
        let here = |one: &&tailbound_enforcement::DomainStatus| one.interface.cpus.contains(&cpu);
        let domains: Vec<_> = standing.domains.iter().filter(here).collect();
        let bounds = domains.iter().map(|one| bound(one.backend, host));
        let least = bounds.min_by(Fraction::cmp);
        let least = least.unwrap_or_else(|| Fraction::new(1, 1));
        let others = domains.iter().filter(|one| !takes_part(&one.domain));
        let left = others.fold(least, |left, one| {
            let interface = &one.interface;
            left.saturating_sub(Fraction::new(
                interface.budget.as_nanos(),
                interface.period.as_nanos(),
            ))
        });
        limits.with(cpu, left)
    })
}
