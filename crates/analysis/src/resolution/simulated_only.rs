//! The parts of a description that only simulation knows.

use tailbound_model::{
    BackendKind, Description, Domain, DomainKind, HostScheduling, Members, Placement, Precedence,
    Service,
};

/// Why a domain and what runs in it is known to simulation alone, if so: no analysis and no back end
/// here holds for it.
pub fn only_simulated(description: &Description, name: &str) -> Option<String> {
    let domain = description.domains.get(name)?;
    let what = what_is_simulated(description, domain)?;
    Some(format!("domain \"{name}\": {what}"))
}

fn what_is_simulated(description: &Description, domain: &Domain) -> Option<String> {
    if let Some(outer) = &domain.inside {
        return Some(format!(
            "it is inside of `{outer}`, and only simulation knows nested domains"
        ));
    }
    if domain.aperiodic.is_some() {
        return Some(
            "it has soft tasks beside hard ones (`aperiodic`), which is only simulated".into(),
        );
    }
    let (name, host) = description.host_of(domain)?;
    let of_xen = domain.reservation.as_ref();
    if of_xen.is_some_and(|reservation| reservation.backend.precedence() == Precedence::Hypervisor)
    {
        // Its host is as RTDS schedules, which `check` sees to.
        return None;
    }
    if host.placement == Placement::Global {
        return Some(format!(
            "host `{name}` schedules it on all CPUs (placement = \"global\"), which is only simulated"
        ));
    }
    let others = domain.reservation.as_ref();
    if host.scheduling == HostScheduling::EarliestDeadlineFirst
        && others
            .is_some_and(|reservation| reservation.backend.precedence() != Precedence::Deadline)
    {
        return Some(format!(
            "host `{name}` orders reservations by deadlines, which {} alone does; choose \
             that, or simulate",
            BackendKind::names(|kind| kind.precedence() == Precedence::Deadline)
        ));
    }
    None
}

/// Why a description cannot be enforced as it is written, if so, and what can be done.
pub fn unenforceable(description: &Description) -> Option<String> {
    description.domains.iter().find_map(|(name, domain)| {
        let why = only_simulated(description, name).or_else(|| {
            let what = missing_members(name, domain)?;
            Some(format!("domain \"{name}\": {what}"))
        })?;
        Some(format!(
            "{why} (`tailbound simulate` answers for it; nothing here enforces it)"
        ))
    })
}

/// Why there is nothing to enforce a reservation of the domain on, if so.
fn missing_members(name: &str, domain: &Domain) -> Option<String> {
    let missing = match (domain.members(name), domain.kind) {
        (Members::XenDomain(_), _) => {
            let of_xen = |kind: BackendKind| kind.precedence() == Precedence::Hypervisor;
            let reservation = domain.reservation.as_ref()?;
            return (!of_xen(reservation.backend)).then(|| {
                let right = BackendKind::names(of_xen);
                format!(
                    "a Xen domain gets its CPU time from Xen alone; write backend = \"{right}\""
                )
            });
        }
        (Members::Simulated, DomainKind::QemuVm | DomainKind::LibvirtVm) => {
            Some("nothing tells which virtual machine it is; give `machine`")
        }
        (Members::Simulated, DomainKind::Container) => {
            Some("nothing tells which one it is; give `container`, `unit` or `cgroup`")
        }
        (Members::Simulated, DomainKind::Process) => {
            Some("it has no program; give `command`, `builtin` or `pids`")
        }
        _ => None,
    };
    missing.map(str::to_owned)
}

/// A domain's own tasks in the form of a service, for rules that go by tasks; `None` if it has none.
pub fn own_tasks(name: &str, domain: &Domain) -> Option<Service> {
    (!domain.tasks.is_empty()).then(|| Service {
        scheduling: domain.scheduling,
        ..Service::of(name, "", domain.tasks.clone())
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const HOST: &str = include_str!("nested-host.toml");

    #[test]
    fn what_nothing_enforces_is_told() {
        let mut description = tailbound_model::parse(HOST, "host.toml").unwrap();
        let why = unenforceable(&description).unwrap();
        assert!(why.contains("inside of `loop`"), "{why}");
        description.domains.remove("box");
        assert_eq!(unenforceable(&description), None);
        description.domains.get_mut("loop").unwrap().command.clear();
        assert!(unenforceable(&description).unwrap().contains("no program"));
    }
}
