//! The reservations of an enforcer, as the host mode manager changes them.

use std::collections::BTreeMap;

use tailbound_enforcement::admission::limits_of;
use tailbound_enforcement::{Changed, EnforcementError, EnforcementStatus, Enforcer};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Cpu, ResourceInterface};
use tailbound_time::{Clock, Duration, Fraction, Instant};

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
    domains: BTreeMap<String, Known>,
}

/// What is known of a domain.
struct Known {
    backend: BackendKind,
    /// The period that holds or will.
    period: Duration,
    /// When nothing of what was before may hold any more.
    settled_at: Instant,
}

impl<E: Enforcing, C: Clock> Enforced<E, C> {
    /// The reservations that stand.
    pub fn new(enforcing: E, standing: &EnforcementStatus, clock: C) -> Self {
        let domains = standing.domains.iter();
        let domains = domains.map(|domain| {
            let known = Known {
                backend: domain.backend,
                period: domain.interface.period,
                settled_at: Instant::ORIGIN,
            };
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
        let now = self.clock.now();
        let Some(known) = self.domains.get_mut(domain) else {
            let by_kernel = now.saturating_add(interface.period);
            return Ok(changed.in_force_at.unwrap_or(by_kernel));
        };
        let old_period = std::mem::replace(&mut known.period, interface.period);
        // The kernel goes over to it at its own next replenishment, which is that of a still older period
        // if the last change is not in force yet.
        let by_kernel = now.saturating_add(old_period).max(known.settled_at);
        let in_force_at = changed.in_force_at.unwrap_or(by_kernel);
        known.settled_at = in_force_at;
        Ok(in_force_at)
    }

    fn can_wait(&self, domain: &str) -> bool {
        let known = self.domains.get(domain);
        known.is_some_and(|known| known.backend.has_manager())
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
    let bounds_of_host = limits_of(host);
    cpus.into_iter().fold(Limits::new(), |limits, cpu| {
        let here = |one: &&tailbound_enforcement::DomainStatus| one.interface.cpus.contains(&cpu);
        let domains: Vec<_> = standing.domains.iter().filter(here).collect();
        let bounds = domains.iter().map(|one| bounds_of_host.bound(one.backend));
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_enforcement::{DomainStatus, Inheritance, Plan, ReservationRequest, Target};
    use tailbound_model::{BackendOptions, Priority};
    use tailbound_time::VirtualClock;

    use super::*;

    fn interface(budget_ms: u64, period_ms: u64) -> ResourceInterface {
        ResourceInterface {
            budget: Duration::from_millis(budget_ms),
            period: Duration::from_millis(period_ms),
            priority: Priority(10),
            cpus: [Cpu(1)].into(),
        }
    }

    fn standing(domains: &[(&str, ResourceInterface)]) -> EnforcementStatus {
        let domains = domains.iter().map(|(domain, interface)| DomainStatus {
            domain: (*domain).to_owned(),
            target: Target::Processes(Vec::new()),
            interface: interface.clone(),
            backend: BackendKind::CfsQuota,
            options: BackendOptions::default(),
            threads: 1,
            ledger: None,
            audit: None,
        });
        EnforcementStatus {
            domains: domains.collect(),
        }
    }

    /// Holds what it is asked for, in force at an instant or when the kernel likes.
    struct Holds(Option<Instant>);

    impl Enforcing for Holds {
        fn begin_changes(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn end_changes(&mut self) -> Result<(), String> {
            Ok(())
        }

        fn change_from(
            &mut self,
            domain: &str,
            interface: &ResourceInterface,
            _not_before: Instant,
        ) -> Result<Changed, String> {
            let plan = Plan {
                request: ReservationRequest {
                    domain: domain.into(),
                    target: Target::Processes(Vec::new()),
                    interface: interface.clone(),
                    backend: BackendKind::CfsQuota,
                    options: BackendOptions::default(),
                },
                changes: Vec::new(),
                managers: Vec::new(),
                mapping: Vec::new(),
                inheritance: Inheritance::default(),
            };
            Ok(Changed {
                plan,
                in_force_at: self.0,
            })
        }

        fn boost(&mut self, _: &str, _: Duration, _: bool) -> Result<(), String> {
            Ok(())
        }

        fn unboost(&mut self, _: &str) -> Result<(), String> {
            Ok(())
        }
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_the_kernel_goes_over_to_is_in_force_a_period_before_the_change_later() {
        let standing = standing(&[("a", interface(5, 100))]);
        let mut enforced = Enforced::new(Holds(None), &standing, VirtualClock::default());
        let change = |enforced: &mut Enforced<_, _>, interface| {
            enforced.change("a", &interface, Instant::ORIGIN).unwrap()
        };
        assert_eq!(change(&mut enforced, interface(1, 10)), at_ms(100));
        // The kernel may be in the first of these periods still.
        enforced.clock.set(at_ms(1));
        assert_eq!(change(&mut enforced, interface(2, 20)), at_ms(100));
        enforced.clock.set(at_ms(200));
        assert_eq!(change(&mut enforced, interface(1, 10)), at_ms(220));
    }

    #[test]
    fn a_manager_knows_when_it_is_in_force() {
        let standing = standing(&[("a", interface(5, 100))]);
        let mut enforced = Enforced::new(Holds(Some(at_ms(7))), &standing, VirtualClock::default());
        let changed = enforced.change("a", &interface(1, 10), Instant::ORIGIN);
        assert_eq!(changed, Ok(at_ms(7)));
    }

    #[test]
    fn the_domains_of_a_table_may_have_what_others_leave() {
        let standing = standing(&[
            ("a", interface(5, 10)),
            ("b", interface(2, 10)),
            ("other", interface(1, 10)),
        ]);
        let host = HostCapabilities::default();
        let takes_part = |domain: &str| domain != "other";
        let found = limits([Cpu(1)], &standing, takes_part, &host);
        let expected = Limits::new().with(Cpu(1), Fraction::new(9, 10));
        assert_eq!(format!("{found:?}"), format!("{expected:?}"));
    }
}
