//! Looks now and then whether the reserved domains have members, and does what follows:
//! [`crate::occupancy`] decides it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time;

use tailbound_enforcement::{KernelView, LinuxKernel, Probe, ReservationRequest, Target};
use tailbound_linux::clock::Monotonic;
use tailbound_model::WhenEmpty;
use tailbound_time::{Clock, Instant};

use super::DaemonService;
use crate::leases::{LeaseOwner, LeasedReservations};
use crate::occupancy::{Observation, Occupancy, OccupancyStep, VacancyRule};
use tailbound_control::Presence;
use tailbound_control::origin::EndReason;
use tailbound_control::protocol::Selection;
use tracing::{info, warn};

/// How often the members are looked at: a container that is started anew is bound within two looks.
const LOOK_EVERY: time::Duration = time::Duration::from_millis(400);

/// What is known of the members of all reservations.
#[derive(Debug, Default)]
pub struct MemberWatch(Mutex<Knowledge>);

#[derive(Debug, Default)]
struct Knowledge {
    occupancy: Occupancy,
    /// What was asked for, where that is not the default.
    rules: BTreeMap<String, WhenEmpty>,
    /// The last trouble with a domain, which is told once.
    trouble: BTreeMap<String, String>,
}

impl MemberWatch {
    fn lock(&self) -> MutexGuard<'_, Knowledge> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is to become of new reservations without members.
    pub(super) fn applied(
        &self,
        requests: &[ReservationRequest],
        when_empty: BTreeMap<String, WhenEmpty>,
    ) {
        let mut members = self.lock();
        for request in requests {
            members.rules.remove(&request.domain);
            // One of that name before it has nothing to do with it.
            members.occupancy.bound(&request.domain);
        }
        members.rules.extend(when_empty);
    }

    /// Whether the reservation of `domain` holds for anybody.
    pub(super) fn presence(&self, domain: &str) -> Presence {
        self.lock().occupancy.presence(domain, Monotonic.now())
    }
}

/// Looks from now on, until `owner` is dropped.
pub fn start<T, R>(owner: &Arc<T>, service: fn(&T) -> &DaemonService<R>)
where
    T: Send + Sync + 'static,
    R: LeasedReservations + Send + 'static,
{
    let owner = Arc::downgrade(owner);
    let look = move || {
        let kernel = match LinuxKernel::new() {
            Ok(kernel) => kernel,
            Err(error) => return warn!("members are not looked at: {error}"),
        };
        while let Some(owner) = owner.upgrade() {
            service(&owner).look_at_members(&kernel);
            drop(owner);
            std::thread::sleep(LOOK_EVERY);
        }
    };
    let thread = std::thread::Builder::new().name("members".into());
    if let Err(error) = thread.spawn(look) {
        warn!("members are not looked at: no thread: {error}");
    }
}

impl<R: LeasedReservations + Send + 'static> DaemonService<R> {
    /// Looks once at the members of all reservations, and does what follows.
    pub fn look_at_members(&self, kernel: &dyn KernelView) {
        let (probes, owners) = {
            let leases = self.leases();
            (leases.reservations().probes(), leases.owners().clone())
        };
        let kept = self.kept_domains();
        let observe = |probe: &Probe| Observation {
            domain: probe.domain.clone(),
            rule: self.rule(probe, owners.get(&probe.domain), &kept),
            sight: probe.look(kernel),
        };
        // Without a lock: a domain may have many members.
        let seen: Vec<Observation> = probes.iter().map(observe).collect();
        let now = kernel.now();
        let steps = self.members.lock().occupancy.look(now, &seen);
        if steps.is_empty() {
            return;
        }
        for (domain, step) in steps {
            if let Some(probe) = probes.iter().find(|probe| probe.domain == domain) {
                self.carry_out_step(probe, step, now);
            }
        }
        self.core.tell_served_cpus();
    }

    fn rule(
        &self,
        probe: &Probe,
        owner: Option<&LeaseOwner>,
        kept: &BTreeSet<String>,
    ) -> VacancyRule {
        let is_kept = kept.contains(&probe.domain);
        let is_named = matches!(probe.target, Target::NamedCgroup(_));
        match owner {
            Some(LeaseOwner::Persistent) if !is_kept => {}
            // Whoever holds it for a unit or container holds it through restarts.
            Some(LeaseOwner::Connection(_)) if !is_kept && is_named => {
                return VacancyRule::Keep;
            }
            _ => return VacancyRule::Hold,
        }
        let given = self.members.lock().rules.get(&probe.domain).copied();
        let by_target = match probe.target.cgroup() {
            Some(_) => WhenEmpty::Keep,
            None => WhenEmpty::Release,
        };
        match given.unwrap_or(by_target) {
            WhenEmpty::Release => VacancyRule::Release,
            WhenEmpty::Keep => VacancyRule::Keep,
        }
    }

    fn carry_out_step(&self, probe: &Probe, step: OccupancyStep, now: Instant) {
        let domain = probe.domain.as_str();
        let mut leases = self.leases();
        // It was reverted meanwhile, or there is another one of that name.
        if !leases.reservations().probes().contains(probe) {
            return;
        }
        let outcome = match step {
            OccupancyStep::Release => {
                let selection = Selection::Domain(domain.to_owned());
                let reverted = leases.revert_because(&selection, &EndReason::Empty {});
                reverted.map(|_| info!(domain, "released \"{domain}\": it has no members"))
            }
            OccupancyStep::Detach => leases.detach(domain),
            OccupancyStep::Bind => leases.bind(domain),
        };
        drop(leases);
        let mut members = self.members.lock();
        match (step, &outcome) {
            (OccupancyStep::Bind, Ok(())) => {
                members.occupancy.bound(domain);
                info!(
                    domain,
                    "\"{domain}\" has members again, and its reservation"
                );
            }
            // It is booked, and holds for nobody.
            (OccupancyStep::Detach, Ok(())) | (OccupancyStep::Bind, Err(_)) => {
                members.occupancy.detached(domain, now)
            }
            _ => {}
        }
        match outcome {
            Ok(()) => {
                members.trouble.remove(domain);
            }
            Err(refusal) => {
                let text = refusal.to_string();
                let previous = members.trouble.insert(domain.to_owned(), text.clone());
                if previous.as_ref() != Some(&text) {
                    warn!(domain, "the members of \"{domain}\": {text}");
                }
            }
        }
    }
}
