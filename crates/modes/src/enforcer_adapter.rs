//! The reservations of an enforcer, as the host mode manager changes them.

use std::collections::BTreeMap;
use std::sync::{MutexGuard, PoisonError};

use tailbound_control::{ReservationControl, SharedControl};
use tailbound_enforcement::admission::limits_of;
use tailbound_enforcement::{EnforcementStatus, ReservationChange};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Cpu};
use tailbound_time::{Clock, Duration, Fraction, Instant};

use crate::manager::Reservations;
use crate::transition::{Limits, share};

/// Reservations that are enforced.
pub struct EnforcerAdapter<C> {
    control: SharedControl,
    clock: C,
    domains: BTreeMap<String, EnforcedDomain>,
}

/// What is known of a domain.
struct EnforcedDomain {
    backend: BackendKind,
    /// The period that holds or will.
    period: Duration,
    /// When nothing of what was before may hold any more.
    settled_at: Instant,
}

impl<C: Clock> EnforcerAdapter<C> {
    /// The reservations that stand.
    pub fn new(control: SharedControl, standing: &EnforcementStatus, clock: C) -> Self {
        let domains = standing.domains.iter();
        let domains = domains.map(|domain| {
            let enforced = EnforcedDomain {
                backend: domain.backend,
                period: domain.interface.period,
                settled_at: Instant::ORIGIN,
            };
            (domain.domain.clone(), enforced)
        });
        Self {
            domains: domains.collect(),
            control,
            clock,
        }
    }

    /// What holds them, which a panic of another holder leaves whole.
    fn control(&self) -> MutexGuard<'_, dyn ReservationControl + 'static> {
        self.control.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<C: Clock> Reservations for EnforcerAdapter<C> {
    fn begin_changes(&mut self) {
        // Without it every change takes its own turn.
        let _slower = self.control().begin_changes();
    }

    fn end_changes(&mut self) {
        // What could not be written is written with the next change.
        let _later = self.control().end_changes();
    }

    fn change(&mut self, change: ReservationChange<'_>) -> Result<Instant, String> {
        let (domain, interface) = (change.domain, change.interface);
        let changed = self.control().change_from(change);
        let changed = changed.map_err(|refusal| refusal.message)?;
        let now = self.clock.now();
        let Some(enforced) = self.domains.get_mut(domain) else {
            let by_kernel = now.saturating_add(interface.period);
            return Ok(changed.in_force_at.unwrap_or(by_kernel));
        };
        let old_period = std::mem::replace(&mut enforced.period, interface.period);
        // The kernel goes over to it at its own next replenishment, which is that of a still older period
        // if the last change is not in force yet.
        let by_kernel = now.saturating_add(old_period).max(enforced.settled_at);
        let in_force_at = changed.in_force_at.unwrap_or(by_kernel);
        enforced.settled_at = in_force_at;
        Ok(in_force_at)
    }

    fn can_wait(&self, domain: &str) -> bool {
        let enforced = self.domains.get(domain);
        enforced.is_some_and(|enforced| enforced.backend.has_manager())
    }

    fn boost(&mut self, domain: &str, at_most: Duration, if_exhausted: bool) {
        // Without a boost the agent answers at the next replenishment.
        let _answers_later = self.control().boost(domain, at_most, if_exhausted);
    }

    fn unboost(&mut self, domain: &str) {
        // A boost ends by itself in any case.
        let _ends_by_itself = self.control().unboost(domain);
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
            left.saturating_sub(share(&one.interface))
        });
        limits.with(cpu, left)
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::{Arc, Mutex};

    use tailbound_control::Refusal;
    use tailbound_enforcement::{
        Changed, DomainStatus, Inheritance, Plan, ReservationRequest, Target,
    };
    use tailbound_model::{BackendOptions, BudgetScope, Priority, ResourceInterface};
    use tailbound_time::VirtualClock;

    use super::*;

    fn interface(budget_ms: u64, period_ms: u64) -> ResourceInterface {
        ResourceInterface {
            budget: Duration::from_millis(budget_ms),
            period: Duration::from_millis(period_ms),
            priority: Priority(10),
            cpus: [Cpu(1)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        }
    }

    fn standing(domains: &[(&str, ResourceInterface)]) -> EnforcementStatus {
        let domains = domains.iter().map(|(domain, interface)| DomainStatus {
            domain: (*domain).to_owned(),
            target: Target::Processes(Vec::new()),
            interface: interface.clone(),
            backend: BackendKind::CfsQuota,
            options: BackendOptions::default(),
            interference: Default::default(),
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

    impl ReservationControl for Holds {
        fn begin_changes(&mut self) -> Result<(), Refusal> {
            Ok(())
        }

        fn end_changes(&mut self) -> Result<(), Refusal> {
            Ok(())
        }

        fn change_from(&mut self, change: ReservationChange<'_>) -> Result<Changed, Refusal> {
            let plan = Plan {
                request: ReservationRequest {
                    domain: change.domain.into(),
                    target: Target::Processes(Vec::new()),
                    interface: change.interface.clone(),
                    backend: BackendKind::CfsQuota,
                    options: BackendOptions::default(),
                    interference: Default::default(),
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

        fn boost(&mut self, _: &str, _: Duration, _: bool) -> Result<(), Refusal> {
            Ok(())
        }

        fn unboost(&mut self, _: &str) -> Result<(), Refusal> {
            Ok(())
        }
    }

    fn holding(
        from: Option<Instant>,
        standing: &EnforcementStatus,
    ) -> EnforcerAdapter<VirtualClock> {
        let control = Arc::new(Mutex::new(Holds(from)));
        EnforcerAdapter::new(control, standing, VirtualClock::default())
    }

    fn at_once(interface: &ResourceInterface) -> ReservationChange<'_> {
        ReservationChange {
            domain: "a",
            interface,
            not_before: Instant::ORIGIN,
        }
    }

    fn at_ms(ms: u64) -> Instant {
        Instant::from_nanos(ms * 1_000_000)
    }

    #[test]
    fn what_the_kernel_goes_over_to_is_in_force_a_period_before_the_change_later() {
        let standing = standing(&[("a", interface(5, 100))]);
        let mut enforced = holding(None, &standing);
        let change = |enforced: &mut EnforcerAdapter<_>, interface| {
            enforced.change(at_once(&interface)).unwrap()
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
        let mut enforced = holding(Some(at_ms(7)), &standing);
        let changed = enforced.change(at_once(&interface(1, 10)));
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
        let available = limits([Cpu(1)], &standing, takes_part, &host);
        let expected = Limits::new().with(Cpu(1), Fraction::new(9, 10));
        assert_eq!(format!("{available:?}"), format!("{expected:?}"));
    }
}
