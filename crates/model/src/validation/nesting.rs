//! Domains inside of others, and where virtual CPUs are.

use std::collections::BTreeSet;

use super::Check;
use crate::description::Domain;
use crate::host::Placement;
use crate::parser::KeyPath;

/// Checks what each domain is inside of, and how many virtual CPUs it has.
pub(super) fn nesting(check: &mut Check<'_>) {
    let description = check.description;
    for (place, name, domain) in check.domains() {
        if let Some(outer) = &domain.inside {
            let here = place.key("inside");
            let domains = check.names("domains");
            check.reference(&here, "domain", outer, &domains);
            if let Some(outer_domain) = description.domains.get(outer) {
                circle(check, &here, name);
                within(check, &here, domain, outer, outer_domain);
            }
        }
    }
    for (place, name, reservation) in check.reservations() {
        let Some(domain) = description.domains.get(name) else {
            continue;
        };
        let placement = description.host_of(domain).map(|(_, host)| host.placement);
        if reservation.vcpus.is_some() && placement == Some(Placement::Partitioned) {
            check.error(
                &place.key("vcpus"),
                "each virtual CPU is pinned to one of `cpus` here, so there are as many",
                "leave it out, or write placement = \"global\" at the host",
            );
        }
    }
}

fn circle(check: &mut Check<'_>, place: &KeyPath, name: &str) {
    let domains = &check.description.domains;
    let mut seen = BTreeSet::new();
    let mut way = vec![name];
    let mut at = name;
    while let Some(outer) = domains.get(at).and_then(|domain| domain.inside.as_deref()) {
        way.push(outer);
        if outer == name {
            check.error(
                place,
                format!("the domain is inside of itself: {}", way.join(" in ")),
                "leave `inside` out for the outermost of them",
            );
            return;
        }
        if !seen.insert(outer) {
            return;
        }
        at = outer;
    }
}

fn within(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, name: &str, outer: &Domain) {
    let description = check.description;
    let host = |domain| description.host_of(domain).map(|(name, _)| name);
    if let (Some(mine), Some(theirs)) = (host(domain), host(outer))
        && mine != theirs
    {
        check.error(
            place,
            format!("`{name}` runs on `{theirs}`, and this domain on `{mine}`"),
            "a domain is on the host of the one that it is inside of; change one of them",
        );
        return;
    }
    let (mine, theirs) = (description.cpus_of(domain), description.cpus_of(outer));
    if let Some(cpu) = mine.difference(&theirs).next() {
        let there: Vec<String> = theirs.iter().map(ToString::to_string).collect();
        check.error(
            place,
            format!("CPU {cpu} of this domain is not among those of `{name}`"),
            format!("`{name}` has: {}", there.join(", ")),
        );
    }
    if description.vcpus_of(domain) > description.vcpus_of(outer) {
        check.error(
            place,
            format!(
                "the domain has {} virtual CPUs, and `{name}` {}",
                description.vcpus_of(domain),
                description.vcpus_of(outer)
            ),
            "each runs on one of the outer domain; lower `vcpus`, or raise that of the outer one",
        );
    }
}
