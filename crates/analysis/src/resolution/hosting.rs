//! Whole hosts: a description as one mode and one variant have it, and what of it only simulation
//! knows.

use std::collections::BTreeSet;

use tailbound_model::{
    BackendKind, Description, Domain, DomainKind, HostScheduling, PercentagePoints, Placement,
    Protocol, Service, Variant,
};

use super::{ResolutionError, resolve};

/// The description in one mode (the initial one if none is named) and one variant (as described if
/// none is named), with every budget told.
///
/// # Errors
/// There is no such mode, or a derivation fails.
pub fn as_hosted(
    description: &Description,
    mode: Option<&str>,
    variant: Option<&Variant>,
) -> Result<Description, ResolutionError> {
    let mode = mode.or(description.initial_mode.as_deref());
    let mut hosted = match mode {
        None => description.clone(),
        Some(name) => description
            .in_mode(name)
            .ok_or_else(|| ResolutionError::UnknownMode {
                name: name.into(),
                known: names(description),
            })?,
    };
    let as_described = as_described();
    let variant = variant.unwrap_or(&as_described);
    let resolved = resolve(&hosted, variant)?;
    for (name, domain) in &mut hosted.domains {
        let (Some(reservation), Some(one)) = (&mut domain.reservation, resolved.get(name)) else {
            continue;
        };
        let has_budget = !matches!(one.backend, BackendKind::Dedicated | BackendKind::None);
        reservation.backend = one.backend;
        reservation.budget = has_budget.then_some(one.interface.budget);
        reservation.period = has_budget.then_some(one.interface.period);
        reservation.derive = None;
        reservation.margin_points = PercentagePoints::default();
        if !has_budget {
            reservation.server = None;
        }
    }
    if !variant.neighbours {
        without_neighbours(&mut hosted);
    }
    Ok(hosted)
}

/// Takes away the domains without a reservation, and the work of those that reserved ones are inside
/// of: these stay, since what they give to the inner ones does.
fn without_neighbours(hosted: &mut Description) {
    let domains = &hosted.domains;
    let runs =
        |domain: &Domain| domain.reservation.is_some() || domain.kind == DomainKind::TimePartition;
    let mut kept = BTreeSet::new();
    for (name, _) in domains.iter().filter(|(_, domain)| runs(domain)) {
        let mut at = Some(name);
        // Ends at what is kept already, even where a description was not checked for circles.
        while let Some(name) = at.filter(|name| kept.insert((*name).clone())) {
            at = domains.get(name).and_then(|domain| domain.inside.as_ref());
        }
    }
    hosted.domains.retain(|name, _| kept.contains(name));
    for domain in hosted.domains.values_mut().filter(|domain| !runs(domain)) {
        domain.tasks.clear();
        domain.aperiodic = None;
        domain.locks.clear();
        domain.cpu_bound = false;
        domain.builtin = None;
    }
    let domains = &hosted.domains;
    hosted
        .services
        .retain(|_, service| domains.get(&service.domain).is_some_and(runs));
}

fn names(description: &Description) -> String {
    let names: Vec<&str> = description.modes.keys().map(String::as_str).collect();
    match names.is_empty() {
        true => "none".into(),
        false => names.join(", "),
    }
}

/// The variant in which everything is as described.
pub fn as_described() -> Variant {
    Variant {
        name: "as described".into(),
        backend: None,
        neighbours: true,
        margin_points: None,
        repetitions: 1,
    }
}

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
    if domain.kind == DomainKind::TimePartition {
        return Some("it is a time partition, which is only simulated".into());
    }
    if domain.aperiodic.is_some() {
        return Some(
            "it has soft tasks beside hard ones (`aperiodic`), which is only simulated".into(),
        );
    }
    let (name, host) = description.host_of(domain)?;
    let of_xen = domain.reservation.as_ref();
    if of_xen.is_some_and(|reservation| reservation.backend == BackendKind::XenRtds) {
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
        && others.is_some_and(|reservation| reservation.backend != BackendKind::Deadline)
    {
        return Some(format!(
            "host `{name}` orders reservations by deadlines, which back end deadline alone does; \
             choose that, or simulate"
        ));
    }
    None
}

/// Why a description cannot be enforced as it is written, if so, and what can be done.
pub fn unenforceable(description: &Description) -> Option<String> {
    description.domains.iter().find_map(|(name, domain)| {
        let why = only_simulated(description, name).or_else(|| {
            let what = not_there(domain)?;
            Some(format!("domain \"{name}\": {what}"))
        })?;
        Some(format!(
            "{why} (`tailbound simulate` answers for it; nothing here enforces it)"
        ))
    })
}

/// What of a domain there is nothing to enforce on.
fn not_there(domain: &Domain) -> Option<&'static str> {
    match domain.kind {
        DomainKind::QemuVm | DomainKind::LibvirtVm if domain.machine.is_none() => {
            Some("nothing tells which virtual machine it is; give `machine`")
        }
        DomainKind::XenVm => {
            let reservation = domain.reservation.as_ref()?;
            (reservation.backend != BackendKind::XenRtds).then_some(
                "a Xen domain gets its CPU time from Xen alone; write backend = \"xen-rtds\"",
            )
        }
        DomainKind::Process
            if domain.command.is_empty() && domain.builtin.is_none() && domain.pids.is_empty() =>
        {
            Some("it has no program; give `command`, `builtin` or `pids`")
        }
        DomainKind::Container if domain.cgroup.is_none() => {
            Some("nothing tells its cgroup; give `cgroup`")
        }
        _ => None,
    }
}

/// A domain's own tasks in the form of a service, for rules that go by tasks; `None` if it has none.
pub fn own_tasks(name: &str, domain: &Domain) -> Option<Service> {
    (!domain.tasks.is_empty()).then(|| Service {
        domain: name.to_owned(),
        protocol: Protocol::Synthetic,
        endpoint: String::new(),
        scheduling: domain.scheduling,
        max_in_flight: None,
        setup: Vec::new(),
        tasks: domain.tasks.clone(),
        slos: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use tailbound_time::Duration;

    const HOST: &str = r#"
        schema_version = 1
        name = "host"
        initial_mode = "fast"
        hosts.here.cpus = [0]

        [domains.loop]
        kind = "process"
        command = ["loop"]
        reservation = { derive = "virtualization-agnostic", cpus = [0] }
        tasks.often = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "1ms" } }
        tasks.seldom = { arrivals = { kind = "periodic", period = "40ms" }, execution_time = { kind = "constant", value = "8ms" } }

        [domains.box]
        kind = "container"
        inside = "loop"
        cpu_bound = true

        [domains.hog]
        kind = "process"
        builtin = "cpu-hog"

        [modes.fast]
        [modes.slow]
        tasks = ["loop.seldom"]
    "#;

    #[test]
    fn budgets_come_from_the_tasks_of_the_mode() {
        let description = tailbound_model::parse(HOST, "host.toml").unwrap();
        let budget = |mode| {
            let hosted = as_hosted(&description, mode, None).unwrap();
            let reservation = hosted.domains["loop"].reservation.clone().unwrap();
            (reservation.budget.unwrap(), reservation.period.unwrap())
        };
        let ms = Duration::from_millis;
        assert_eq!(budget(None), (ms(12), ms(40)));
        assert_eq!(budget(Some("slow")), (ms(8), ms(40)));
        assert!(as_hosted(&description, Some("off"), None).is_err());
    }

    #[test]
    fn a_variant_without_neighbours_leaves_reservations() {
        let description = tailbound_model::parse(HOST, "host.toml").unwrap();
        let mut variant = as_described();
        variant.neighbours = false;
        variant.backend = Some(BackendKind::Dedicated);
        let hosted = as_hosted(&description, None, Some(&variant)).unwrap();
        let left: Vec<&String> = hosted.domains.keys().collect();
        assert_eq!(left, ["loop"]);
        assert_eq!(
            hosted.domains["loop"].reservation.clone().unwrap().budget,
            None
        );
    }

    /// What a reserved domain is inside of stays, at every depth, but does no work of its own.
    #[test]
    fn without_neighbours_reserved_domains_stay_where_they_are() {
        let text = r#"
            schema_version = 1
            name = "host"
            hosts.here.cpus = [0]
            [domains.a]
            kind = "qemu-vm"
            cpus = [0]
            [domains.b]
            kind = "container"
            inside = "a"
            reservation = { budget = "5ms", period = "10ms", cpus = [0] }
            [domains.c]
            kind = "container"
            inside = "b"
            reservation = { budget = "2ms", period = "10ms", cpus = [0] }
            tasks.loop = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "1ms" } }
            [domains.d]
            kind = "container"
            inside = "a"
            cpus = [0]
            cpu_bound = true
        "#;
        let mut description = tailbound_model::parse(text, "host.toml").unwrap();
        let own = description.domains["c"].tasks.clone();
        let outer = description.domains.get_mut("a").unwrap();
        (outer.cpu_bound, outer.tasks) = (true, own);
        let mut variant = as_described();
        variant.neighbours = false;
        let hosted = as_hosted(&description, None, Some(&variant)).unwrap();
        let left: Vec<&String> = hosted.domains.keys().collect();
        assert_eq!(left, ["a", "b", "c"]);
        assert_eq!(hosted.domains["c"], description.domains["c"]);
        let outer = &hosted.domains["a"];
        assert!(outer.tasks.is_empty() && !outer.cpu_bound);
        // Even domains inside of each other in a circle come to an end.
        let outer = description.domains.get_mut("a").unwrap();
        outer.inside = Some("c".into());
        assert_eq!(
            as_hosted(&description, None, Some(&variant))
                .unwrap()
                .domains
                .len(),
            3
        );
    }

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
