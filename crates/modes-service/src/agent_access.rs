//! How agents come in, and who may.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use tailbound_enforcement::{EnforcementStatus, Target};
use tailbound_linux::HostCapabilities;
use tailbound_linux::control_socket::PeerCredentials;
use tailbound_linux::process::{effective_uid, user_of};
use tailbound_modes::links::Ways;
use tailbound_modes::table::ModeTable;
use tailbound_subsystem::process_identity::{StartTimes, is_same};

/// Root, the daemon's own user, and the processes of a domain may be its agent.
pub(crate) fn authority(
    standing: &EnforcementStatus,
    started: StartTimes,
) -> tailbound_modes::links::Authority {
    let targets = standing.domains.iter();
    let targets: BTreeMap<String, Target> = targets
        .map(|one| (one.domain.clone(), one.target.clone()))
        .collect();
    let own = effective_uid();
    Box::new(move |peer: &PeerCredentials, domain: &str| {
        let Some(target) = targets.get(domain) else {
            return Err(format!("there is no domain \"{domain}\" with modes"));
        };
        let is_member = match target {
            // A number alone may be another process's by now.
            Target::Processes(pids) => {
                let started = started.get(domain);
                pids.contains(&peer.pid) && started.is_some_and(|them| is_same(peer.pid, them))
            }
            Target::Threads(_)
            | Target::Machine(_)
            | Target::Cgroup(_)
            | Target::NamedCgroup(_)
            | Target::XenDomain(_)
            | Target::Interrupts(_)
            | Target::Topics(_) => false,
        };
        match peer.uid == 0 || peer.uid == own || is_member {
            true => Ok(()),
            false => Err(format!(
                "user {} may not be the agent of \"{domain}\"",
                peer.uid
            )),
        }
    })
}

/// How agents come to this host; the user of a virtual machine may hold its port.
pub(crate) fn ways(table: &ModeTable, standing: &EnforcementStatus) -> Ways {
    let owners = standing.domains.iter().filter_map(|one| match &one.target {
        Target::Machine(machine) => {
            let user = user_of(*machine.vcpus.first()?).ok()?;
            Some((one.domain.clone(), user))
        }
        _ => None,
    });
    Ways {
        links: table.links().clone(),
        listeners: table.listeners().clone(),
        owners: owners.collect(),
    }
}

/// Listens where everybody may connect; who may be an agent is checked then.
pub(crate) fn listen(socket: &Path) -> io::Result<UnixListener> {
    match fs::remove_file(socket) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(socket)?;
    fs::set_permissions(socket, fs::Permissions::from_mode(0o666))?;
    Ok(listener)
}

/// The CPUs of the host on which nothing is reserved.
pub(crate) fn cpus_without_domains(
    host: &HostCapabilities,
    standing: &EnforcementStatus,
) -> BTreeSet<u32> {
    let reserved = standing.domains.iter().flat_map(|one| &one.interface.cpus);
    let reserved: BTreeSet<u32> = reserved.map(|cpu| cpu.0).collect();
    host.online_cpus.difference(&reserved).copied().collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_linux::process::process_started;

    use super::*;
    use crate::standing_arm::standing_arm;

    #[test]
    fn a_process_with_the_number_of_one_that_has_ended_is_no_agent() {
        let pid = std::process::id();
        let standing = standing_arm();
        let at = process_started(pid).unwrap();
        let may = |started: Option<u64>, uid: u32| {
            let started = started.map(|at| ("arm".to_owned(), [(pid, at)].into()));
            let authority = authority(&standing, started.into_iter().collect());
            authority(&PeerCredentials { pid, uid, gid: uid }, "arm").is_ok()
        };
        // Neither root nor the daemon's user.
        let stranger = effective_uid() + 1;
        assert!(may(Some(at), stranger));
        assert!(!may(Some(at + 1), stranger) && !may(None, stranger));
        assert!(may(None, 0) && may(None, effective_uid()));
    }
}
