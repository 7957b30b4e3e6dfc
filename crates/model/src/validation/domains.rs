//! Domains.

use std::path::{Component, Path};

use super::{Check, given, health, isolation};
use crate::description::{Domain, DomainKind};
use crate::interface::CpuSet;
use crate::parser::KeyPath;

/// Names that the kernel gives to files in every cgroup v1 folder.
const KERNEL_FILES: [&str; 3] = ["tasks", "notify_on_release", "release_agent"];

/// Checks the domains, their reservations excepted.
pub(super) fn domains(check: &mut Check<'_>) {
    for (place, name, domain) in check.domains() {
        if KERNEL_FILES.contains(&name) {
            let message = format!("`{name}` is a file of the kernel's in every cgroup");
            check.error(&place, message, "give the domain another name");
        }
        host(check, &place, domain);
        cpus(check, &place, domain);
        match domain.kind {
            DomainKind::Process => process(check, &place, name, domain),
            DomainKind::Container => container(check, &place, name, domain),
            // The load of a domain that something else runs, or that is only simulated, is described by tasks,
            // services and `cpu_bound`.
            DomainKind::QemuVm | DomainKind::LibvirtVm => {
                programs(
                    check,
                    &place,
                    domain,
                    "something else runs a domain of this kind",
                );
            }
            DomainKind::XenVm => programs(check, &place, domain, "xl runs the Xen domain"),
        }
        instances(check, &place, name, domain);
        network_namespace(check, &place, domain);
        isolation::isolation(check, &place, name, domain);
        health::responses(check, &place, name, domain);
        cpu_bound(check, &place, name, domain);
    }
}

fn network_namespace(check: &mut Check<'_>, place: &KeyPath, domain: &Domain) {
    let Some(name) = &domain.network_namespace else {
        return;
    };
    let here = place.key("network_namespace");
    if domain.command.is_empty() && domain.builtin.is_none() {
        check.error(
            &here,
            "nothing is started that could run there",
            "give `command` or `builtin`, or leave it out: what runs already stays where it is",
        );
    } else if name.is_empty() || name.contains(['/', '\0']) || name == "." || name == ".." {
        check.error(
            &here,
            format!("{name:?} is no name of a network namespace"),
            "write the name of one that `ip netns list` shows, such as \"board1\"",
        );
    }
}

fn host(check: &mut Check<'_>, place: &KeyPath, domain: &Domain) {
    let hosts = check.names("hosts");
    match &domain.host {
        Some(name) => check.reference(&place.key("host"), "host", name, &hosts),
        None if hosts.len() > 1 => check.error(
            &place.key("host"),
            "there are several hosts, and the domain does not say which it runs on",
            format!("add `host`, one of: {}", hosts.join(", ")),
        ),
        None => {}
    }
}

fn cpus(check: &mut Check<'_>, place: &KeyPath, domain: &Domain) {
    if domain.reservation.is_some() && !domain.cpus.is_empty() {
        check.error(
            &place.key("cpus"),
            "the domain has a reservation, which names its CPUs",
            "leave `cpus` out here; those of `reservation` hold",
        );
    }
    within_host(check, &place.key("cpus"), domain, &domain.cpus);
}

/// Complains of CPUs that the domain's host does not have.
pub(super) fn within_host(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, cpus: &CpuSet) {
    let Some(host) = check.host_cpus(domain).filter(|host| !host.is_empty()) else {
        return;
    };
    if let Some(cpu) = cpus.difference(host).next() {
        let there: Vec<String> = host.iter().map(ToString::to_string).collect();
        let message = format!("CPU {cpu} is not among the CPUs of the domain's host");
        check.error(
            place,
            message,
            format!("the host has: {}", there.join(", ")),
        );
    }
}

fn process(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    match given(&started(domain)).as_slice() {
        [_] => {}
        [] if check.is_described_within(name, domain) => {}
        [] => check.error(
            place,
            "nothing says what runs in this domain",
            "give exactly one of `command`, `builtin` and `pids`; or, to simulate it, `tasks` of its \
own",
        ),
        several => check.error(
            place,
            format!("{} contradict each other", several.join(" and ")),
            "give exactly one of `command`, `builtin` and `pids`",
        ),
    }
    let message = |key: &str| format!("`{key}` is for containers and units");
    let remedy = "leave it out, or set kind = \"container\"";
    check.none_of(place, &running(domain), message, remedy);
    if domain.command.first().is_some_and(String::is_empty) {
        check.error(
            &place.key("command").index(0),
            "the program's name is empty",
            "name a program, such as \"redis-server\"",
        );
    }
    if let Some(index) = domain.command.iter().position(|word| word.contains('\0')) {
        check.error(
            &place.key("command").index(index),
            "an argument has a NUL character in it",
            "no program can be given one; take it out",
        );
    }
    pids(check, &place.key("pids"), &domain.pids);
}

/// Refuses a process that is named twice.
pub(super) fn pids(check: &mut Check<'_>, place: &KeyPath, pids: &[u32]) {
    let message = |pid: &u32| format!("process {pid} is there twice");
    check.no_repetition(place, pids, message, "name each process once");
}

fn container(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let message =
        |key: &str| format!("`{key}` is for processes; something else runs the container");
    let remedy = "leave it out, or set kind = \"process\"";
    check.none_of(place, &started(domain), message, remedy);
    match given(&running(domain)).as_slice() {
        [_] => {}
        [] if check.is_described_within(name, domain) => {}
        [] => check.error(
            place,
            "nothing tells which container or unit it is",
            "give exactly one of `container`, `container_label`, `pod`, `unit` and `cgroup`; or, to simulate it, `tasks` of its own",
        ),
        several => check.error(
            place,
            format!("{} contradict each other", several.join(" and ")),
            "give exactly one of `container`, `container_label`, `pod`, `unit` and `cgroup`",
        ),
    }
    if let Some(path) = &domain.cgroup {
        below_root(check, &place.key("cgroup"), path, "docker-1f.scope");
    }
    if let Some(unit) = domain.unit.as_ref().filter(|unit| !is_unit(unit)) {
        check.error(
            &place.key("unit"),
            format!("{unit:?} is no unit that processes run in"),
            "name a service, scope or slice as `systemctl status` does, such as \"redis.service\"",
        );
    }
    if let Some(container) = domain.container.as_ref().filter(|one| !is_container(one)) {
        check.error(
            &place.key("container"),
            format!("{container:?} is neither a name nor an identifier of a container"),
            "write letters, digits, `_`, `.` and `-`, as `podman ps` or `docker ps` prints them",
        );
    }
    if let Some(label) = domain.container_label.as_ref().filter(|one| !is_label(one)) {
        check.error(
            &place.key("container_label"),
            format!("{label:?} is no label"),
            "write a key and its value, such as \"app=redis\"",
        );
    }
    if let Some(pod) = domain.pod.as_ref().filter(|one| !is_pod(one)) {
        check.error(
            &place.key("pod"),
            format!("{pod:?} is no container of a pod"),
            "write its namespace, its name and, where it has several containers, the container's, such as \
             \"default/redis-0/redis\"",
        );
    }
}

/// Whether it may be a label: a key, and a value behind a `=`.
fn is_label(label: &str) -> bool {
    let key = label.split('=').next().unwrap_or_default();
    let is_blank = |letter: char| letter.is_whitespace() || letter.is_control();
    !key.is_empty() && !key.contains(is_blank) && !label.contains(char::is_control)
}

/// Whether it may be a container of a pod: two or three names of Kubernetes.
fn is_pod(path: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-.".contains(&byte);
    let is_name = |name: &str| (1..=253).contains(&name.len()) && name.bytes().all(allowed);
    let names: Vec<&str> = path.split('/').collect();
    (2..=3).contains(&names.len()) && names.into_iter().all(is_name)
}

/// Whether it may be the name of a unit with processes: of those types, or of a service without its type.
fn is_unit(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.\\@".contains(&byte);
    let kind = name.rsplit_once('.').map(|(_, kind)| kind);
    let has_no_processes = [
        "automount",
        "device",
        "mount",
        "path",
        "socket",
        "swap",
        "target",
        "timer",
    ];
    (1..=255).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.starts_with('.')
        && !kind.is_some_and(|kind| has_no_processes.contains(&kind))
}

/// Whether it may be a name or identifier, as podman, docker, containerd, runc and crun allow them.
fn is_container(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.+-".contains(&byte);
    (1..=1024).contains(&name.len())
        && name.bytes().all(allowed)
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
}

/// The keys that name what something else runs, and whether they are given.
fn running(domain: &Domain) -> [(&'static str, bool); 5] {
    [
        ("container", domain.container.is_some()),
        ("container_label", domain.container_label.is_some()),
        ("pod", domain.pod.is_some()),
        ("unit", domain.unit.is_some()),
        ("cgroup", domain.cgroup.is_some()),
    ]
}

/// The keys that say how the processes of a domain come about, and whether they are given.
fn started(domain: &Domain) -> [(&'static str, bool); 3] {
    [
        ("command", !domain.command.is_empty()),
        ("builtin", domain.builtin.is_some()),
        ("pids", !domain.pids.is_empty()),
    ]
}

/// Refuses programs where the host runs none for the domain.
fn programs(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, why: &str) {
    let message = |key: &str| format!("`{key}` is for processes and containers; {why}");
    let remedy = "leave it out, and describe `tasks`, or write cpu_bound = true";
    check.none_of(place, &started(domain), message, remedy);
    check.none_of(place, &running(domain), message, remedy);
}

/// Refuses the path of a cgroup that leaves the root of cgroup v2; `example` is a good one in `system.slice`.
pub(super) fn below_root(check: &mut Check<'_>, place: &KeyPath, path: &Path, example: &str) {
    if !is_inside(path) {
        let shown = path.display().to_string();
        check.error(
            place,
            format!("{shown:?} does not stay below the cgroup v2 root"),
            format!("write a relative path without `..`, such as \"system.slice/{example}\""),
        );
    }
}

/// `cpu_bound` says what nothing else does.
fn cpu_bound(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    if !domain.cpu_bound {
        return;
    }
    let mut services = check.description.services.iter();
    let service = services.find(|(_, service)| service.domain == name);
    let (what, remedy) = if domain.builtin.is_some() {
        ("its `builtin` tells its load already", "leave it out")
    } else if !domain.tasks.is_empty() || service.is_some() {
        (
            "the domain's tasks tell its load already",
            "leave it out, or describe a domain of its own for what uses all CPU time",
        )
    } else {
        return;
    };
    check.error(&place.key("cpu_bound"), what, remedy);
}

/// Whether the path goes down only, and somewhere.
fn is_inside(path: &Path) -> bool {
    let mut components = path.components().peekable();
    let text = path.as_os_str().as_encoded_bytes();
    components.peek().is_some()
        && !text.contains(&0)
        && components.all(|component| matches!(component, Component::Normal(_)))
}

fn instances(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    if domain.instances == 1 {
        return;
    }
    let here = place.key("instances");
    if domain.command.is_empty() && domain.builtin.is_none() {
        check.error(
            &here,
            "what already runs cannot be started several times",
            "leave `instances` out",
        );
    }
    let service = check
        .description
        .services
        .iter()
        .find(|(_, s)| s.domain == name);
    if let Some((service, _)) = service {
        check.error(
            &here,
            format!("the service `{service}` listens in this domain, and only one copy can"),
            "leave `instances` out, or describe a domain per copy",
        );
    }
}
