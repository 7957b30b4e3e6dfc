//! Xen domains that were started anew.
//!
//! To Xen a guest that reboots is another domain, with what RTDS gives every new one. So it is looked now
//! and then which virtual CPUs have the names that something is reserved for, and new ones get it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::xen::{Vcpu, vcpus};
use tailbound_model::BackendKind;

use crate::leases::{Leases, Reservations};
use crate::log::note;
use crate::modes::SharedLeases;

/// How often it is looked. A look is a call of `xl`, which takes CPU time of dom0.
const LOOK_AFTER: Duration = Duration::from_secs(5);

/// The thread that looks, once there is a reason.
#[derive(Debug, Default)]
pub struct XenRenewal {
    looks: AtomicBool,
}

impl XenRenewal {
    /// Looks from now on if one of these requests is for a Xen domain.
    pub fn watch<R: Reservations + Send + 'static>(
        &self,
        requests: &[ReservationRequest],
        leases: &SharedLeases<R>,
    ) {
        let is_xen = |request: &ReservationRequest| request.backend == BackendKind::XenRtds;
        if !requests.iter().any(is_xen) || self.looks.swap(true, Ordering::SeqCst) {
            return;
        }
        let leases = Arc::downgrade(leases);
        let thread = std::thread::Builder::new().name("xen-renewal".into());
        let started = thread.spawn(move || {
            let mut renewed = Renewed::default();
            while look(&leases, &mut renewed) {
                std::thread::sleep(LOOK_AFTER);
            }
        });
        if let Err(error) = started {
            self.looks.store(false, Ordering::SeqCst);
            note(format_args!(
                "Xen domains that are started anew are not noticed: no thread: {error}"
            ));
        }
    }
}

/// The virtual CPUs of each domain that have what is reserved.
#[derive(Debug, Default)]
struct Renewed {
    vcpus: BTreeMap<String, BTreeSet<(u32, u32)>>,
    /// The last trouble, which is told once.
    trouble: String,
}

impl Renewed {
    /// Which of the reserved domains (each with its name in Xen) have virtual CPUs that are new.
    fn lacking(&mut self, reserved: &[(String, String)], vcpus: &[Vcpu]) -> Vec<String> {
        let is_reserved = |domain: &String| reserved.iter().any(|(name, _)| name == domain);
        self.vcpus.retain(|domain, _| is_reserved(domain));
        let mut lacking = Vec::new();
        for (domain, name) in reserved {
            let are = vcpus_of(name, vcpus);
            let known = self.vcpus.entry(domain.clone()).or_default();
            // Numbers are never given twice: those that have gone need not be kept.
            known.retain(|vcpu| are.contains(vcpu));
            if *known != are {
                lacking.push(domain.clone());
            }
        }
        lacking
    }

    fn told(&mut self, trouble: String) {
        if trouble != self.trouble {
            note(&trouble);
            self.trouble = trouble;
        }
    }
}

fn vcpus_of(name: &str, vcpus: &[Vcpu]) -> BTreeSet<(u32, u32)> {
    let own = vcpus.iter().filter(|one| one.domain == name);
    own.map(|one| (one.id, one.vcpu)).collect()
}

/// Looks once; false when there is nobody left to look for.
fn look<R: Reservations>(leases: &Weak<Mutex<Leases<R>>>, renewed: &mut Renewed) -> bool {
    let Some(leases) = leases.upgrade() else {
        return false;
    };
    let lock = || leases.lock().unwrap_or_else(PoisonError::into_inner);
    let reserved: Vec<(String, String)> = lock()
        .reservations()
        .status()
        .domains
        .into_iter()
        .filter_map(|one| match one.target {
            Target::XenDomain(name) => Some((one.domain, name)),
            _ => None,
        })
        .collect();
    if reserved.is_empty() {
        return true;
    }
    // Nobody waits for this call.
    let vcpus = match vcpus() {
        Ok(vcpus) => vcpus,
        Err(error) => {
            renewed.told(format!("looking for Xen domains started anew: {error}"));
            return true;
        }
    };
    for domain in renewed.lacking(&reserved, &vcpus) {
        let mut leases = lock();
        let status = leases.reservations().status();
        let Some(held) = status.domains.into_iter().find(|one| one.domain == domain) else {
            continue;
        };
        match leases.change(&domain, &held.interface) {
            Ok(_) => {
                let name = reserved.iter().find(|(reserved, _)| *reserved == domain);
                let own = name.map(|(_, name)| vcpus_of(name, &vcpus));
                renewed.vcpus.insert(domain, own.unwrap_or_default());
            }
            Err(refusal) => renewed.told(format!(
                "Xen domain of \"{domain}\" was started anew and lacks its budget: {refusal}"
            )),
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use tailbound_linux::xen::VcpuSetting;

    use super::*;

    fn vcpu(domain: &str, id: u32, vcpu: u32) -> Vcpu {
        Vcpu {
            pool: "Pool-0".into(),
            domain: domain.into(),
            id,
            vcpu,
            setting: VcpuSetting {
                period_us: 10_000,
                budget_us: 4_000,
                extratime: true,
            },
        }
    }

    #[test]
    fn what_is_new_lacks_its_budget_until_it_was_given() {
        let mut renewed = Renewed::default();
        let reserved = [("robot".to_owned(), "arm".to_owned())];
        let are = [vcpu("arm", 1, 0), vcpu("camera", 2, 0)];
        assert_eq!(renewed.lacking(&reserved, &are), ["robot"]);
        renewed.vcpus.insert("robot".into(), vcpus_of("arm", &are));
        assert!(renewed.lacking(&reserved, &are).is_empty());
        // It is down, and comes up as another one.
        assert!(renewed.lacking(&reserved, &are[1..]).is_empty());
        let anew = [vcpu("arm", 3, 0), vcpu("camera", 2, 0)];
        assert_eq!(renewed.lacking(&reserved, &anew), ["robot"]);
        assert_eq!(
            renewed.lacking(&reserved, &anew),
            ["robot"],
            "not yet given"
        );
        // It gets a virtual CPU more.
        renewed.vcpus.insert("robot".into(), vcpus_of("arm", &anew));
        let more = [vcpu("arm", 3, 0), vcpu("arm", 3, 1)];
        assert_eq!(renewed.lacking(&reserved, &more), ["robot"]);
        assert!(renewed.lacking(&[], &more).is_empty());
        assert!(renewed.vcpus.is_empty());
    }
}
