//! Cgroups by the names that a service manager or a container runtime gives them.
//!
//! systemd names the cgroup of a unit like the unit. A container's cgroup is told by the state that its OCI runtime
//! keeps (runc, crun), and the container's name by the state of the engine above (podman, docker, nerdctl). All of it
//! is read from files, so that no program is run, and only from directories in which root alone writes: anybody may
//! call a container of his own like one of root's.

mod database_labels;
mod engines;
mod oci_state;
mod pods;
mod units;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use crate::cgroup::Hierarchy;
use database_labels::DatabaseLabels;
use engines::EngineName;
use oci_state::OciState;

/// The number of containers of the system's runtimes that run below `host`.
pub fn running_containers(host: &Path) -> usize {
    oci_state::all(host).iter().filter(|one| one.runs()).count()
}

/// The longest file of a runtime that is read, in bytes: a state with a hundred mounts has 100 kB.
const LONGEST_STATE: u64 = 4 << 20;
/// The most names that an error lists.
const MOST_CANDIDATES: usize = 8;
/// The containers that have a label, as an error calls them.
const LABELLED: &str = "container with the label";
/// The containers of a pod, as an error calls them.
const OF_POD: &str = "container of the pod";
/// The digits of an identifier by which people name a container.
const SHOWN_DIGITS: usize = 12;

/// The labels of a container, by their keys.
type Labels = BTreeMap<String, String>;

/// Why a name is not that of one cgroup.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing has the name.
    #[error("there is no {kind} \"{name}\" that runs{}", listed(.candidates))]
    Absent {
        /// The kind of thing that has such names: a container or a unit.
        kind: &'static str,
        /// The name.
        name: String,
        /// The names of those that run.
        candidates: Vec<String>,
        /// The advice for the user.
        remedy: String,
    },
    /// Something has the name and does not run.
    #[error("{kind} \"{name}\" does not run{place}")]
    NotRunning {
        /// The kind of thing that has such names.
        kind: &'static str,
        /// The name.
        name: String,
        /// The engine that knows the name, in brackets.
        place: String,
    },
    /// Several have the name.
    #[error("{kind} \"{name}\" may be any of: {}", .candidates.join(", "))]
    Ambiguous {
        /// The kind of thing that has such names.
        kind: &'static str,
        /// The name.
        name: String,
        /// Those that it may be.
        candidates: Vec<String>,
    },
    /// Cgroup v2, in which the groups are, is not mounted.
    #[error("there is no cgroup v2 here, in which {kind} \"{name}\" could be found")]
    NoHierarchy {
        /// The kind of thing that has such names.
        kind: &'static str,
        /// The name.
        name: String,
    },
}

impl NameError {
    /// The error that nothing of a kind can be found by its name.
    pub fn without_hierarchy(kind: &'static str, name: &str) -> Self {
        Self::NoHierarchy {
            kind,
            name: name.to_owned(),
        }
    }

    /// The advice for the user.
    pub fn remedy(&self) -> &str {
        match self {
            Self::Ambiguous { kind, .. } if *kind == LABELLED => {
                "a reservation is for one container: name that one, or give a label that it alone has"
            }
            Self::Ambiguous { kind, .. } if *kind == OF_POD => {
                "a reservation is for one container: write NAMESPACE/POD/CONTAINER"
            }
            Self::Absent { remedy, .. } => remedy,
            Self::NotRunning { .. } => "start it first",
            Self::Ambiguous { .. } => "write more of the identifier, or the whole name",
            Self::NoHierarchy { .. } => "see tailbound doctor",
        }
    }
}

fn listed(candidates: &[String]) -> String {
    match candidates.len() {
        0 => String::new(),
        1..=MOST_CANDIDATES => format!("; there is {}", candidates.join(", ")),
        all => {
            let first = candidates[..MOST_CANDIDATES].join(", ");
            format!("; there is {first} and {} more", all - MOST_CANDIDATES)
        }
    }
}

/// The name of a unit of the system's service manager with its type, `.service` where none is written.
pub fn full_unit_name(name: &str) -> String {
    units::full_name(name)
}

/// The name of the unit of the system's service manager that a cgroup, by its path from the root of cgroup v2, is or
/// lies in: a service or a scope.
pub fn unit_holding(cgroup: &Path) -> Option<&str> {
    units::holding(cgroup)
}

/// Whether a cgroup, by its path from the root of cgroup v2, is that of a login, whose processes are of no service: of a
/// session, or of an application in the scope that the manager of a user gave it.
pub fn is_of_login(cgroup: &Path) -> bool {
    units::is_of_login(cgroup)
}

/// The directory of the unit of the system's service manager that has a name, in the hierarchy of cgroup v2.
///
/// # Errors
/// [`NameError`]: no such unit has a cgroup.
pub fn unit(hierarchy: &Hierarchy, name: &str) -> Result<PathBuf, NameError> {
    units::directory(&hierarchy.root, name)
}

/// The directory of the container that has a name or identifier, in the hierarchy of cgroup v2. `host` is the root of
/// the file system that has the states of the runtimes.
///
/// # Errors
/// [`NameError`]: there is no such container, or several, or it does not run.
pub fn container(hierarchy: &Hierarchy, host: &Path, name: &str) -> Result<PathBuf, NameError> {
    let states = oci_state::all(host);
    let names = engines::names(host);
    let state = chosen(&states, &names, host, name)?;
    directory_of(state, hierarchy, "container", name)
}

/// The directory of the one running container that has a label (`key=value`, or `key` for any value), in the hierarchy of
/// cgroup v2: a label of docker, podman or containerd, a label of its pod under containerd, or an annotation that the
/// container has in its runtime. podman and containerd are asked by their programs, `podman` and `ctr`.
///
/// # Errors
/// [`NameError`]: no container that runs has the label, or several have it.
pub fn labelled_container(
    hierarchy: &Hierarchy,
    host: &Path,
    label: &str,
) -> Result<PathBuf, NameError> {
    let states = oci_state::all(host);
    let state = database_labels::with_asked(|asked| {
        asked.update(&states, &database_labels::ask_program);
        labelled(&states, host, label, asked)
    })?;
    directory_of(state, hierarchy, LABELLED, label)
}

/// The directory of the one running container of a pod of Kubernetes (`namespace/pod`), or of that one of them which
/// has a name (`namespace/pod/container`), in the hierarchy of cgroup v2. The sandbox of the pod is not counted.
///
/// # Errors
/// [`NameError`]: no such container runs, or the pod has several.
pub fn pod(hierarchy: &Hierarchy, host: &Path, path: &str) -> Result<PathBuf, NameError> {
    let states = oci_state::all(host);
    let state = pods::container(&states, path)?;
    directory_of(state, hierarchy, OF_POD, path)
}

/// The directory of a container that is meant by a name.
fn directory_of(
    state: &OciState,
    hierarchy: &Hierarchy,
    kind: &'static str,
    name: &str,
) -> Result<PathBuf, NameError> {
    let directory = hierarchy.cgroup_of(state.init);
    let directory = directory.map_err(|_| NameError::NotRunning {
        kind,
        name: name.to_owned(),
        place: String::new(),
    })?;
    Ok(state.own_directory(&hierarchy.root, &directory))
}

/// The one container that runs and has a label.
fn labelled<'a>(
    states: &'a [OciState],
    host: &Path,
    label: &str,
    in_databases: &DatabaseLabels,
) -> Result<&'a OciState, NameError> {
    let (key, value) = match label.split_once('=') {
        Some((key, value)) => (key, Some(value)),
        None => (label, None),
    };
    let has_it = |labels: &Labels| {
        let given = labels.get(key);
        given.is_some_and(|given| value.is_none_or(|value| given == value))
    };
    let of_engines = engines::labels(host);
    let is_meant = |state: &&OciState| {
        if !state.runs() {
            return false;
        }
        let of_engine = of_engines.get(&state.id);
        let annotations = state.annotations();
        let has_label = of_engine.is_some_and(has_it)
            || has_it(&annotations)
            || has_it(&in_databases.of(state, &annotations));
        has_label && !pods::is_sandbox(&annotations)
    };
    let meant: Vec<&OciState> = states.iter().filter(is_meant).collect();
    let names = engines::names(host);
    match meant.as_slice() {
        [one] => Ok(one),
        [] => Err(NameError::Absent {
            kind: LABELLED,
            name: label.to_owned(),
            candidates: Vec::new(),
            remedy: "write a label as `docker inspect`, `podman inspect` or `ctr containers info` shows it, a label of a \
                     pod, or an annotation as the container has it in runc or crun"
                .into(),
        }),
        several => Err(NameError::Ambiguous {
            kind: LABELLED,
            name: label.to_owned(),
            candidates: several.iter().map(|one| shown(one, &names)).collect(),
        }),
    }
}

/// The name by which people know the container with an identifier: that of its engine, or else the identifier as engines
/// show it. `host` is the root of the file system that has the states of the engines.
pub fn shown_name(host: &Path, id: &str) -> String {
    let names = engines::names(host);
    let given = names.into_iter().find(|one| one.id == id);
    given.map_or_else(|| short(id).to_owned(), |given| given.name)
}

/// The container that is meant: one of that name, or of that identifier, or of one that begins so.
fn chosen<'a>(
    states: &'a [OciState],
    names: &[EngineName],
    host: &Path,
    name: &str,
) -> Result<&'a OciState, NameError> {
    let named: Vec<&EngineName> = names.iter().filter(|one| one.name == name).collect();
    let is_named = |state: &&OciState| named.iter().any(|one| one.id == state.id);
    let by_name: Vec<&OciState> = states.iter().filter(is_named).collect();
    let by_id = || -> Vec<&OciState> { states.iter().filter(|state| state.id == name).collect() };
    let by_digits = || -> Vec<&OciState> {
        let begins = |state: &&OciState| state.id.starts_with(name);
        states.iter().filter(begins).collect()
    };
    let meanings = [by_name, by_id(), by_digits()];
    let Some(meant) = meanings.into_iter().find(|states| !states.is_empty()) else {
        return Err(absent(states, names, host, name, &named));
    };
    let running: Vec<&OciState> = meant.iter().copied().filter(|one| one.runs()).collect();
    match running.as_slice() {
        [one] => Ok(one),
        [] => Err(NameError::NotRunning {
            kind: "container",
            name: name.to_owned(),
            place: format!(" ({})", shown(meant[0], names)),
        }),
        several => Err(NameError::Ambiguous {
            kind: "container",
            name: name.to_owned(),
            candidates: several.iter().map(|one| shown(one, names)).collect(),
        }),
    }
}

fn absent(
    states: &[OciState],
    names: &[EngineName],
    host: &Path,
    name: &str,
    named: &[&EngineName],
) -> NameError {
    if let Some(given) = named.first() {
        return NameError::NotRunning {
            kind: "container",
            name: name.to_owned(),
            place: format!(
                " under runc or crun ({} knows it as {})",
                given.engine,
                short(&given.id)
            ),
        };
    }
    let running = states.iter().filter(|state| state.runs());
    let remedy = match oci_state::has_rootless(host) {
        true => {
            "containers of ordinary users have no name here, since anybody may take any name: give the `cgroup` of \
             such a one (the line of /proc/PID/cgroup that begins with 0::)"
        }
        false => {
            "write a name or identifier as `podman ps`, `docker ps`, `runc list` or `crun list` shows it; of another \
             runtime's container, give its `cgroup`"
        }
    };
    NameError::Absent {
        kind: "container",
        name: name.to_owned(),
        candidates: running.map(|state| shown(state, names)).collect(),
        remedy: remedy.into(),
    }
}

/// A container as an error names it.
fn shown(state: &OciState, names: &[EngineName]) -> String {
    match names.iter().find(|one| one.id == state.id) {
        Some(given) => format!("{} ({} {})", given.name, given.engine, short(&state.id)),
        None => format!("{} ({})", short(&state.id), state.runtime),
    }
}

/// An identifier of 64 digits as the engines show it; any other one whole.
fn short(id: &str) -> &str {
    match id.len() == 64 && id.is_ascii() {
        true => &id[..SHOWN_DIGITS],
        false => id,
    }
}

/// A file of JSON; `None` where it is none, is no regular file, or is too long.
fn json(path: &Path) -> Option<Json> {
    let text = text(path).ok()?;
    serde_json::from_str(&text).ok()
}

fn text(path: &Path) -> io::Result<String> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut text = String::new();
    file.take(LONGEST_STATE).read_to_string(&mut text)?;
    Ok(text)
}

/// What is in a directory, sorted; nothing where it is not there.
fn entries(directory: &Path) -> Vec<PathBuf> {
    let Ok(listed) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let mut paths: Vec<PathBuf> = listed.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

/// The last part of a path, where it is text.
fn file_name(path: &Path) -> Option<&str> {
    path.file_name()?.to_str()
}

#[cfg(test)]
mod tests;
