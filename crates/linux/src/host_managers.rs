//! The other managers of a host, who start, stop and limit its services: systemd, container runtimes and engines; and the
//! layout of the cgroups that they share with reservations.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::cgroup::Hierarchy;
use crate::named_cgroup::running_containers;

/// The directories of a host's programs.
const PROGRAM_DIRECTORIES: [&str; 6] = [
    "usr/local/sbin",
    "usr/local/bin",
    "usr/sbin",
    "usr/bin",
    "sbin",
    "bin",
];
/// The directories of systemd's units (systemd.unit(5)).
pub const UNIT_DIRECTORIES: [&str; 5] = [
    "etc/systemd/system",
    "run/systemd/system",
    "usr/local/lib/systemd/system",
    "usr/lib/systemd/system",
    "lib/systemd/system",
];
/// The directories of hooks that podman and CRI-O read (oci-hooks(5)).
const HOOK_DIRECTORIES: [&str; 2] = [
    "etc/containers/oci/hooks.d",
    "usr/share/containers/oci/hooks.d",
];
/// The unit of the daemon.
pub const DAEMON_UNIT: &str = "tailboundd.service";
/// The runtimes and engines that are looked for.
const CONTAINER_PROGRAMS: [&str; 6] =
    ["runc", "crun", "podman", "dockerd", "containerd", "nerdctl"];

/// One manager, or what managers share.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostManager {
    /// Its name.
    pub name: String,
    /// The state in which it is on this host.
    pub state: String,
    /// The consequence for reservations.
    pub consequence: String,
}

impl HostManager {
    fn new(name: &str, state: impl Into<String>, consequence: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            state: state.into(),
            consequence: consequence.into(),
        }
    }
}

/// The managers of the host below `root`, whose cgroup hierarchies are mounted as given.
pub fn managers(root: &Path, hierarchies: &[Hierarchy]) -> Vec<HostManager> {
    vec![cgroups(hierarchies), systemd(root), containers(root)]
}

/// Whether systemd runs below `root`: sd_booted(3) tells it by this directory.
pub fn runs_systemd(root: &Path) -> bool {
    root.join("run/systemd/system").is_dir()
}

/// Whether systemd has the unit of the daemon below `root`; one that is masked is there, too.
pub fn has_daemon_unit(root: &Path) -> bool {
    let mut directories = UNIT_DIRECTORIES.iter();
    directories.any(|one| root.join(one).join(DAEMON_UNIT).symlink_metadata().is_ok())
}

fn cgroups(hierarchies: &[Hierarchy]) -> HostManager {
    let legacy: Vec<&str> = hierarchies
        .iter()
        .filter(|one| !one.unified)
        .flat_map(|one| one.controllers.iter().map(String::as_str))
        .filter(|name| !name.starts_with("name="))
        .collect();
    let unified = hierarchies.iter().find(|one| one.unified);
    let (state, consequence) = match (unified, legacy.is_empty()) {
        (None, true) => (
            "none mounted".into(),
            "only back ends that need no cgroup work",
        ),
        (None, false) => (
            "v1 alone".into(),
            "no group can be stopped: see the feature cgroup-v2",
        ),
        (Some(one), true) => (
            format!("v2 alone, at {}", one.root.display()),
            "quotas, weights and CPUs are set in v2; real-time budgets of groups need v1",
        ),
        (Some(one), false) => (
            format!(
                "v2 at {}, and v1 for {}",
                one.root.display(),
                legacy.join(", ")
            ),
            "groups are stopped in v2; quotas, weights and CPUs are set in v1",
        ),
    };
    HostManager::new("cgroups", state, consequence)
}

fn systemd(root: &Path) -> HostManager {
    let (state, consequence) = match (runs_systemd(root), has_daemon_unit(root)) {
        (true, true) => (
            format!("runs this host, with {DAEMON_UNIT}"),
            "services are named by `unit`; systemd starts the daemon for whoever needs it",
        ),
        (true, false) => (
            format!("runs this host, without {DAEMON_UNIT}"),
            "services are named by `unit`; whoever needs the daemon starts it, until the package or `make install` \
             brings the unit",
        ),
        (false, _) => (
            "does not run this host".into(),
            "there are no units; whoever needs the daemon starts it",
        ),
    };
    HostManager::new("systemd", state, consequence)
}

fn containers(root: &Path) -> HostManager {
    let is_there = |program: &&str| {
        let mut directories = PROGRAM_DIRECTORIES.iter();
        directories.any(|one| root.join(one).join(program).is_file())
    };
    let programs = CONTAINER_PROGRAMS.into_iter().filter(is_there);
    let programs: Vec<&str> = programs.collect();
    let running = running_containers(root);
    if programs.is_empty() && running == 0 {
        return HostManager::new(
            "containers",
            "no runtime",
            "there is nothing to name by `container`",
        );
    }
    let mut directories = HOOK_DIRECTORIES.iter();
    let has_hook = directories.any(|one| root.join(one).join("tailbound.json").is_file());
    let hook = match has_hook {
        true => "; annotations reserve for them when they start",
        false => "",
    };
    HostManager::new(
        "containers",
        format!("{}; {running} run", programs.join(", ")),
        format!("those of root are named by `container`{hook}"),
    )
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    /// A host with these empty files.
    fn host(files: &[&str]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for file in files {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, "").unwrap();
        }
        root
    }

    fn state(files: &[&str], name: &str) -> (String, String) {
        let root = host(files);
        let managers = managers(root.path(), &[]);
        let one = managers.into_iter().find(|one| one.name == name).unwrap();
        (one.state, one.consequence)
    }

    const BOOTED: &str = "run/systemd/system/some.service";

    #[test]
    fn the_unit_counts_in_each_directory_of_systemd() {
        for directory in UNIT_DIRECTORIES {
            let unit = format!("{directory}/{DAEMON_UNIT}");
            let (state, _) = state(&[BOOTED, &unit], "systemd");
            assert_eq!(
                state, "runs this host, with tailboundd.service",
                "{directory}"
            );
        }
        assert_eq!(
            state(&[BOOTED], "systemd").0,
            "runs this host, without tailboundd.service"
        );
        let unit = "usr/lib/systemd/system/tailboundd.service";
        assert_eq!(state(&[unit], "systemd").0, "does not run this host");
    }

    #[test]
    fn a_masked_unit_is_there() {
        let root = host(&[BOOTED, "etc/systemd/system/other.service"]);
        symlink(
            "/dev/null",
            root.path().join("etc/systemd/system").join(DAEMON_UNIT),
        )
        .unwrap();
        assert!(has_daemon_unit(root.path()) && runs_systemd(root.path()));
    }

    #[test]
    fn runtimes_are_told_by_their_programs() {
        let (none, consequence) = state(&["usr/bin/runcible"], "containers");
        assert_eq!(
            (none.as_str(), consequence.as_str()),
            ("no runtime", "there is nothing to name by `container`")
        );
        let (some, consequence) = state(&["usr/bin/podman", "usr/sbin/runc"], "containers");
        assert_eq!(some, "runc, podman; 0 run");
        assert!(!consequence.contains("annotations"), "{consequence}");
        let hook = "usr/share/containers/oci/hooks.d/tailbound.json";
        let (_, consequence) = state(&["usr/bin/crun", hook], "containers");
        assert!(consequence.contains("annotations"), "{consequence}");
    }

    #[test]
    fn the_layout_of_cgroups_is_told_by_what_is_mounted() {
        let hierarchy = |root: &str, controllers: &[&str]| Hierarchy {
            root: root.into(),
            mounted: "/".into(),
            unified: controllers.is_empty(),
            controllers: controllers.iter().map(|one| (*one).to_owned()).collect(),
        };
        let unified = hierarchy("/sys/fs/cgroup", &[]);
        let cpu = hierarchy("/sys/fs/cgroup/cpu", &["cpu", "cpuacct"]);
        let named = hierarchy("/sys/fs/cgroup/systemd", &["name=systemd"]);
        let layout = |mounted: &[&Hierarchy]| {
            let mounted: Vec<Hierarchy> = mounted.iter().copied().cloned().collect();
            cgroups(&mounted).state
        };
        assert_eq!(layout(&[]), "none mounted");
        assert_eq!(layout(&[&cpu]), "v1 alone");
        assert_eq!(layout(&[&unified, &named]), "v2 alone, at /sys/fs/cgroup");
        assert_eq!(
            layout(&[&unified, &cpu, &named]),
            "v2 at /sys/fs/cgroup, and v1 for cpu, cpuacct"
        );
    }
}
