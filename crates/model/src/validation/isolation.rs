//! The isolation of domains in space: where it cannot hold, and where it would cut off what the description joins.

use super::Check;
use crate::description::{Domain, Service};
use crate::isolation::{IsolatedNamespace, Isolation, MemorySize};
use crate::members::Members;
use crate::parser::KeyPath;

/// The least memory in which a program can start.
const LEAST_MEMORY: MemorySize = MemorySize::from_bytes(1 << 20);
/// Folders that are empty to an isolated program.
const PRIVATE_FOLDERS: [&str; 3] = ["/tmp/", "/var/tmp/", "/dev/shm/"];

/// Checks the isolation of a domain.
pub(super) fn isolation(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let Some(isolation) = &domain.isolation else {
        return;
    };
    let here = place.key("isolation");
    if !matches!(domain.members(name), Members::Started { .. }) {
        check.error(
            &here,
            "nothing is started that could be isolated",
            "give `command` or `builtin`, or leave it out: containers and units have the isolation that their runtime or \
             systemd gives them, and what runs already keeps what it sees",
        );
        return;
    }
    namespaces(check, &here, domain, isolation);
    if let Some(limit) = isolation.memory_limit.filter(|limit| *limit < LEAST_MEMORY) {
        check.error(
            &here.key("memory_limit"),
            format!("no program starts in {limit}"),
            format!("write {LEAST_MEMORY} or more, such as \"64MiB\""),
        );
    }
    let services = check.description.services.iter();
    let services = services.filter(|(_, service)| service.domain == name);
    for (service_name, service) in services {
        let place = KeyPath::root().key("services").key(service_name);
        reachable(check, &place.key("endpoint"), isolation, service);
    }
}

fn namespaces(check: &mut Check<'_>, here: &KeyPath, domain: &Domain, isolation: &Isolation) {
    let has = |namespace| isolation.has(namespace);
    if isolation.namespaces.is_empty() && isolation.memory_limit.is_none() {
        check.error(
            here,
            "it isolates from nothing",
            "name `namespaces` or a `memory_limit`, or leave `namespaces` out for all of them",
        );
    }
    if has(IsolatedNamespace::Pid) && !has(IsolatedNamespace::Mount) {
        check.error(
            &here.key("namespaces"),
            "`pid` needs `mount`: /proc would still show the processes of the host",
            "add \"mount\", or leave \"pid\" out",
        );
    }
    if let Some(network) = &domain.network_namespace
        && has(IsolatedNamespace::Network)
    {
        check.error(
            &here.key("namespaces"),
            format!("`network` and network_namespace = \"{network}\" contradict each other"),
            "leave `network_namespace` out, or name the other namespaces alone: [\"mount\", \"pid\", \"ipc\"]",
        );
    }
}

/// Complains of an endpoint that the load generator cannot reach.
fn reachable(check: &mut Check<'_>, here: &KeyPath, isolation: &Isolation, service: &Service) {
    let endpoint = service.endpoint.as_str();
    let domain = &service.domain;
    let has = |namespace| isolation.has(namespace);
    match endpoint.strip_prefix("unix:") {
        Some(path) => {
            let is_private = PRIVATE_FOLDERS.iter().any(|one| path.starts_with(one));
            if is_private && has(IsolatedNamespace::Mount) {
                check.error(
                    here,
                    format!("`{domain}` has folders of its own in place of those of {path:?}"),
                    "write a path in the folder of the description, such as \"unix:service.sock\"",
                );
            }
        }
        None if has(IsolatedNamespace::Network) => check.error(
            here,
            format!("`{domain}` is in a network of its own, which nobody outside of it reaches"),
            format!(
                "write \"unix:PATH\", or leave \"network\" out of domains.{domain}.isolation.namespaces"
            ),
        ),
        None if endpoint.starts_with("topic:shared-memory:") && has(IsolatedNamespace::Mount) => {
            check.error(
                here,
                format!("`{domain}` shares no memory with others"),
                "choose another transport, or leave `isolation` out",
            );
        }
        None => {}
    }
}
