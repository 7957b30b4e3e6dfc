//! Xen domains that were started anew.
//!
//! To Xen a guest that reboots is another domain, with what RTDS gives every new one. So it is looked now
//! and then what the virtual CPUs have whose names something is reserved for, and those that have something
//! else get it. It is not enough to look for new ones: `xl` sets what it likes when it has built a domain,
//! which by then may have got what is reserved.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::xen::{Vcpu, VcpuSetting, vcpus};
use tailbound_model::{Precedence, ResourceInterface};

use crate::leases::{LeasedReservations, Leases, SharedLeases};
use tracing::warn;

/// How often it is looked. A look is a call of `xl`, which takes CPU time of dom0.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// The thread that looks, once there is a reason.
#[derive(Debug, Default)]
pub struct XenRenewal {
    looks: AtomicBool,
}

impl XenRenewal {
    /// Looks from now on if one of these requests is for a Xen domain.
    pub fn watch<R: LeasedReservations + Send + 'static>(
        &self,
        requests: &[ReservationRequest],
        leases: &SharedLeases<R>,
    ) {
        let is_xen =
            |request: &ReservationRequest| request.backend.precedence() == Precedence::Hypervisor;
        if !requests.iter().any(is_xen) || self.looks.swap(true, Ordering::SeqCst) {
            return;
        }
        let leases = Arc::downgrade(leases);
        let thread = std::thread::Builder::new().name("xen-renewal".into());
        let started = thread.spawn(move || {
            let mut trouble = Trouble::default();
            while look(&leases, &mut trouble) {
                std::thread::sleep(LOOK_AFTER);
            }
        });
        if let Err(error) = started {
            self.looks.store(false, Ordering::SeqCst);
            warn!("Xen domains that are started anew are not noticed: no thread: {error}");
        }
    }
}

/// The last trouble, which is told once.
#[derive(Debug, Default)]
struct Trouble(String);

impl Trouble {
    fn report(&mut self, trouble: String) {
        if trouble != self.0 {
            warn!("{trouble}");
            self.0 = trouble;
        }
    }
}

/// What is reserved for a Xen domain.
#[derive(Clone, Debug)]
struct XenReservation {
    domain: String,
    /// Its name in Xen.
    name: String,
    interface: ResourceInterface,
}

impl XenReservation {
    /// Whether one of its virtual CPUs has something else. One that is down has none.
    fn is_lacking(&self, vcpus: &[Vcpu]) -> bool {
        let reserved = VcpuSetting {
            period_us: self.interface.period.as_nanos() / 1_000,
            budget_us: self.interface.budget.as_nanos() / 1_000,
            extratime: false,
        };
        let mut own = vcpus.iter().filter(|one| one.domain == self.name);
        own.any(|one| one.setting != reserved)
    }
}

fn reserved<R: LeasedReservations>(leases: &Leases<R>) -> Vec<XenReservation> {
    let held = leases.reservations().status().domains.into_iter();
    held.filter_map(|one| match one.target {
        Target::XenDomain(name) => Some(XenReservation {
            domain: one.domain,
            name,
            interface: one.interface,
        }),
        _ => None,
    })
    .collect()
}

/// Looks once; false when there is nobody left to look for.
fn look<R: LeasedReservations>(leases: &Weak<Mutex<Leases<R>>>, trouble: &mut Trouble) -> bool {
    let Some(leases) = leases.upgrade() else {
        return false;
    };
    let lock = || leases.lock().unwrap_or_else(PoisonError::into_inner);
    let before = reserved(&lock());
    if before.is_empty() {
        return true;
    }
    // Nobody waits for this call.
    let vcpus = match vcpus() {
        Ok(vcpus) => vcpus,
        Err(error) => {
            trouble.report(format!("looking for Xen domains started anew: {error}"));
            return true;
        }
    };
    for lacking in before.iter().filter(|one| one.is_lacking(&vcpus)) {
        let mut leases = lock();
        let same = |now: &XenReservation| {
            now.domain == lacking.domain && now.interface == lacking.interface
        };
        // One that was changed meanwhile has what it was changed to, or is seen at the next look.
        if !reserved(&leases).iter().any(same) {
            continue;
        }
        if let Err(refusal) = leases.change(&lacking.domain, &lacking.interface) {
            trouble.report(format!(
                "Xen domain \"{}\" was started anew and lacks the budget of \"{}\": {refusal}",
                lacking.name, lacking.domain
            ));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use tailbound_model::{BudgetScope, Cpu, Priority};
    use tailbound_time::Duration;

    use super::*;

    fn vcpu(domain: &str, id: u32, vcpu: u32, budget_us: u64, extratime: bool) -> Vcpu {
        Vcpu {
            pool: "Pool-0".into(),
            domain: domain.into(),
            id,
            vcpu,
            setting: VcpuSetting {
                period_us: 10_000,
                budget_us,
                extratime,
            },
        }
    }

    #[test]
    fn a_domain_lacks_its_budget_until_all_its_virtual_cpus_have_it() {
        let robot = XenReservation {
            domain: "robot".into(),
            name: "arm".into(),
            interface: ResourceInterface {
                budget: Duration::from_millis(8),
                period: Duration::from_millis(10),
                priority: Priority(1),
                cpus: [Cpu(0)].into(),
                budget_scope: BudgetScope::EachCpu,
                windows: Vec::new(),
                slack: Vec::new(),
            },
        };
        let camera = vcpu("camera", 2, 0, 4_000, true);
        let had = |one: Vcpu| robot.is_lacking(&[one, camera.clone()]);
        // As every new one is, then what is reserved, then what `xl` sets when it has built it.
        assert!(had(vcpu("arm", 3, 0, 4_000, true)));
        assert!(!had(vcpu("arm", 3, 0, 8_000, false)));
        assert!(had(vcpu("arm", 3, 0, 4_000, false)));
        assert!(had(vcpu("arm", 3, 0, 8_000, true)));
        let mut both = [
            vcpu("arm", 3, 0, 8_000, false),
            vcpu("arm", 3, 1, 4_000, true),
        ];
        assert!(robot.is_lacking(&both));
        both[1].setting = both[0].setting;
        assert!(!robot.is_lacking(&both));
        // It is down.
        assert!(!robot.is_lacking(std::slice::from_ref(&camera)));
    }
}
