//! The states that OCI runtimes keep of their containers.

use std::path::{Path, PathBuf};

use serde_json::Value as Json;

use super::engines::texts;
use super::{Labels, entries, file_name, json};
use crate::process::process_started;

/// A container, as its runtime knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OciState {
    /// Its identifier.
    pub id: String,
    /// The runtime.
    pub runtime: &'static str,
    /// Its first process.
    pub init: u32,
    /// When that one was started, in ticks since boot.
    started: u64,
    /// The directory in which its runtime keeps its state.
    directory: PathBuf,
    /// Its cgroups, as the runtime found the hierarchies mounted.
    cgroups: Vec<PathBuf>,
}

impl OciState {
    /// Whether its first process lives.
    pub fn runs(&self) -> bool {
        process_started(self.init).is_ok_and(|started| started == self.started)
    }

    /// The namespace of containerd that it is in, if that has made it by itself.
    pub fn containerd_namespace(&self) -> Option<&str> {
        let namespace = self.directory.parent()?;
        let is_of_containerd = namespace.parent()?.ends_with("run/containerd/runc");
        is_of_containerd.then(|| file_name(namespace)).flatten()
    }

    /// The annotations that it was made with: runc has them in its state, crun in its copy of the configuration.
    pub fn annotations(&self) -> Labels {
        if let Some(configuration) = json(&self.directory.join("config.json")) {
            return texts(&configuration["annotations"]);
        }
        let state = json(&self.directory.join("state.json")).unwrap_or_default();
        let pairs = state["config"]["labels"].as_array().into_iter().flatten();
        let pairs = pairs.filter_map(|pair| pair.as_str()?.split_once('='));
        pairs
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    /// The directory that the runtime has made for it, where its first process is in `directory`: that one, or one
    /// above, where the process has been moved to a group of its own. `root` is that of the hierarchy.
    pub fn own_directory(&self, root: &Path, directory: &Path) -> PathBuf {
        let below = directory.strip_prefix(root).unwrap_or(directory);
        let is_of_runtime = |path: &&Path| {
            let is_root = path.as_os_str().is_empty();
            !is_root && self.cgroups.iter().any(|cgroup| cgroup.ends_with(path))
        };
        let own = below.ancestors().find(is_of_runtime);
        own.map_or_else(|| directory.to_owned(), |own| root.join(own))
    }
}

/// The containers of all runtimes.
pub(super) fn all(host: &Path) -> Vec<OciState> {
    let run = host.join("run");
    let of_namespaces = |directory: PathBuf| entries(&directory);
    let roots = [run.join("runc")].into_iter();
    let roots = roots.chain(of_namespaces(run.join("docker/runtime-runc")));
    let roots = roots.chain(of_namespaces(run.join("containerd/runc")));
    let runc = roots.flat_map(|root| entries(&root));
    let runc = runc.filter_map(|directory| {
        let state = json(&directory.join("state.json"))?;
        runc_state(&directory, &state)
    });
    let crun = entries(&run.join("crun")).into_iter();
    let crun = crun.filter_map(|directory| {
        let status = json(&directory.join("status"))?;
        crun_state(&directory, &status)
    });
    runc.chain(crun).collect()
}

/// Whether ordinary users have containers, or had some.
pub(super) fn has_rootless(host: &Path) -> bool {
    let users = entries(&host.join("run/user")).into_iter();
    let mut directories = users.filter(|user| file_name(user) != Some("0"));
    directories.any(|user| ["crun", "runc"].iter().any(|name| user.join(name).is_dir()))
}

fn runc_state(directory: &Path, state: &Json) -> Option<OciState> {
    let cgroups = state["cgroup_paths"].as_object()?.values();
    Some(OciState {
        id: file_name(directory)?.to_owned(),
        runtime: "runc",
        directory: directory.to_owned(),
        init: number(&state["init_process_pid"])?,
        started: state["init_process_start"].as_u64()?,
        cgroups: cgroups
            .filter_map(Json::as_str)
            .map(PathBuf::from)
            .collect(),
    })
}

fn crun_state(directory: &Path, status: &Json) -> Option<OciState> {
    Some(OciState {
        id: file_name(directory)?.to_owned(),
        runtime: "crun",
        directory: directory.to_owned(),
        init: number(&status["pid"])?,
        started: status["process-start-time"].as_u64()?,
        cgroups: vec![status["cgroup-path"].as_str()?.into()],
    })
}

fn number(value: &Json) -> Option<u32> {
    u32::try_from(value.as_u64()?).ok()
}
