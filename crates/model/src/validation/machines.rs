//! Virtual machines, and how their agents are reached.

use std::net::SocketAddr;
use std::path::Path;

use super::services::SOCKET_PATH_BYTES_MAX;
use super::{Check, given};
use crate::description::{Domain, DomainKind};
use crate::machine::{AgentLink, Machine, TlsListener};
use crate::parser::KeyPath;

/// Checks the virtual machines, and the links of all agents.
pub(super) fn machines(check: &mut Check<'_>) {
    let description = check.description;
    for (place, name, domain) in check.domains() {
        if let Some(machine) = &domain.machine {
            one(check, &place.key("machine"), domain, machine);
        }
        if let Some(agent) = &domain.agent {
            let place = place.key("agent").key("link");
            link(check, &place, name, domain, &agent.link);
        }
    }
    for (name, host) in &description.hosts {
        let place = KeyPath::root().key("hosts").key(name).key("agents");
        if let Some(tls) = &host.agents.tls {
            listener(check, &place.key("tls"), tls);
        }
    }
}

fn one(check: &mut Check<'_>, place: &KeyPath, domain: &Domain, machine: &Machine) {
    let given = given(&[
        ("qmp", machine.qmp.is_some()),
        ("pid", machine.pid.is_some()),
        ("name", machine.name.is_some()),
    ]);
    let right: &[&str] = match domain.kind {
        DomainKind::QemuVm => &["qmp", "pid"],
        DomainKind::LibvirtVm => &["name"],
        _ => {
            check.error(
                place,
                "`machine` is for virtual machines on Linux",
                "leave it out, or set kind = \"qemu-vm\" or \"libvirt-vm\"",
            );
            return;
        }
    };
    match given.as_slice() {
        [one] if right.contains(one) => {}
        _ => check.error(
            place,
            match given.as_slice() {
                [] => "nothing tells which machine it is".to_owned(),
                given => format!("{} given for this kind", given.join(" and ")),
            },
            format!("give exactly one of: {}", right.join(", ")),
        ),
    }
    if let Some(path) = &machine.qmp {
        socket(check, &place.key("qmp"), path);
    }
    if machine.name.as_deref().is_some_and(|name| !is_plain(name)) {
        check.error(
            &place.key("name"),
            "this is no name of a machine in libvirt",
            "write the name that `virsh list` shows, without a leading dash",
        );
    }
    super::domains::within_host(
        check,
        &place.key("emulator_cpus"),
        domain,
        &machine.emulator_cpus,
    );
    let reserved = domain.reservation.as_ref().map(|one| &one.cpus);
    let shared = reserved.and_then(|cpus| cpus.intersection(&machine.emulator_cpus).next());
    if let Some(cpu) = shared {
        check.error(
            &place.key("emulator_cpus"),
            format!("CPU {cpu} is reserved for the machine's virtual CPUs"),
            "let the emulator's other threads run elsewhere: they come before all domains",
        );
    }
}

/// A name that `virsh` takes for one, and not for an option.
fn is_plain(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-') && !name.chars().any(char::is_control)
}

fn link(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain, link: &AgentLink) {
    let host = check.description.host_of(domain).map(|(_, host)| host);
    let listeners = host.map(|host| host.agents.clone()).unwrap_or_default();
    match link {
        AgentLink::Unix {} => {}
        AgentLink::VirtioSerial { path } => socket(check, &place.key("path"), path),
        AgentLink::Vsock { .. } => {
            if host.is_some() && listeners.vsock_port.is_none() {
                check.error(
                    place,
                    "the host listens at no vsock port",
                    "add `agents = { vsock_port = 7171 }` to the host",
                );
            }
        }
        AgentLink::Tls {} => {
            if host.is_some() && listeners.tls.is_none() {
                check.error(
                    place,
                    "the host listens for no certificates",
                    "add `agents.tls` to the host, with listen, certificate, key and authority",
                );
            }
            if !name.split('.').all(is_label) {
                check.error(
                    place,
                    format!("no certificate can name `{name}`"),
                    "give the domain a name that DNS takes: no dash or dot at its end",
                );
            }
        }
    }
}

/// Whether DNS takes it between two dots; other characters than a name's are refused before.
fn is_label(label: &str) -> bool {
    (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
}

fn listener(check: &mut Check<'_>, place: &KeyPath, tls: &TlsListener) {
    if tls.listen.parse::<SocketAddr>().is_err() {
        check.error(
            &place.key("listen"),
            format!("{:?} is no address with a port", tls.listen),
            "write an IP address and a port, such as \"192.0.2.1:7171\"",
        );
    }
    let files = [
        ("certificate", &tls.certificate),
        ("key", &tls.key),
        ("authority", &tls.authority),
    ];
    for (key, path) in files {
        if !path.is_absolute() {
            check.error(
                &place.key(key),
                "the daemon reads it, which has another working directory",
                "write the path from / on",
            );
        }
    }
}

fn socket(check: &mut Check<'_>, place: &KeyPath, path: &Path) {
    let text = path.as_os_str().as_encoded_bytes();
    if !path.is_absolute() || text.contains(&0) || text.len() > SOCKET_PATH_BYTES_MAX {
        check.error(
            place,
            "this is no path of a Unix socket",
            format!("write its path from / on, of at most {SOCKET_PATH_BYTES_MAX} bytes"),
        );
    }
}
