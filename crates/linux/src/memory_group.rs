//! Groups of processes whose memory is limited together, in cgroup v1 or v2.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::{self, Hierarchy, hierarchies, processes_in, read_control, write_control};
use crate::process::{process_started, send_signal};

/// The begin of the names of our groups; the number of the process that has made it and the domain's name follow.
const PREFIX: &str = "tailbound-memory-";
/// How long processes that were killed may take to end.
const PATIENCE_STEPS: u32 = 200;
const PATIENCE_STEP: Duration = Duration::from_millis(10);

/// A cgroup with a limit on memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    directory: PathBuf,
}

impl MemoryGroup {
    /// Makes the group of a domain, with a limit in bytes. Groups that processes which have died have left empty are removed.
    ///
    /// # Errors
    /// No hierarchy limits memory here, or the kernel refuses.
    pub fn make(domain: &str, limit_bytes: u64) -> io::Result<Self> {
        let parent = parent_of_groups(&hierarchies()?)?;
        remove_abandoned(&parent);
        let name = format!("{PREFIX}{}-{domain}", std::process::id());
        let group = Self::at(parent.join(name));
        if group.directory.exists() {
            group.remove()?;
        }
        cgroup::make(&group.directory)?;
        let limited = group.limit(limit_bytes);
        if limited.is_err() {
            let _empty = group.remove_if_empty();
        }
        limited.map(|()| group)
    }

    /// The group of a directory.
    pub fn at(directory: PathBuf) -> Self {
        Self { directory }
    }

    /// Its directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    fn limit(&self, bytes: u64) -> io::Result<()> {
        let text = bytes.to_string();
        let (memory, with_swap, swap_text) = match self.is_unified() {
            true => ("memory.max", "memory.swap.max", "0"),
            // This one is on memory and swap together, and cannot be below the other.
            false => (
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                text.as_str(),
            ),
        };
        write_control(&self.directory.join(memory), &text)?;
        let with_swap = self.directory.join(with_swap);
        match with_swap.exists() {
            true => write_control(&with_swap, swap_text),
            false => Ok(()),
        }
    }

    fn is_unified(&self) -> bool {
        self.directory.join("memory.max").exists()
    }

    /// The number of processes that the limit has killed; 0 where the kernel does not count them.
    pub fn killed(&self) -> u64 {
        let file = match self.is_unified() {
            true => "memory.events",
            false => "memory.oom_control",
        };
        let text = read_control(&self.directory.join(file)).unwrap_or_default();
        let count = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        count.and_then(|count| count.parse().ok()).unwrap_or(0)
    }

    /// Removes it, if nobody is in it; whether it is gone.
    pub fn remove_if_empty(&self) -> bool {
        cgroup::remove(&self.directory).is_ok() || !self.directory.exists()
    }

    /// Kills what is in it, and removes it.
    ///
    /// # Errors
    /// What the kernel says; `ResourceBusy` if a process does not end.
    pub fn remove(&self) -> io::Result<()> {
        for _ in 0..PATIENCE_STEPS {
            if self.remove_if_empty() {
                return Ok(());
            }
            for pid in processes_in(&self.directory).unwrap_or_default() {
                // SIGKILL of signal(7). It may have ended.
                let _gone = send_signal(pid, 9);
            }
            std::thread::sleep(PATIENCE_STEP);
        }
        cgroup::remove(&self.directory)
    }
}

/// The directory in which groups are made: our own one of cgroup v1, whose limits go on holding, or else the root of v2, since a
/// group of v2 with processes cannot have limited groups below it.
fn parent_of_groups(hierarchies: &[Hierarchy]) -> io::Result<PathBuf> {
    let is_legacy = |one: &&Hierarchy| one.controllers.iter().any(|name| name == "memory");
    if let Some(legacy) = hierarchies.iter().find(is_legacy) {
        return legacy.cgroup_of(std::process::id());
    }
    let unified = hierarchies.iter().find(|one| one.unified);
    let refused = |message: String| io::Error::new(io::ErrorKind::Unsupported, message);
    let root = &unified
        .ok_or_else(|| refused("no cgroups are mounted".into()))?
        .root;
    let enabled = read_control(&root.join("cgroup.subtree_control"))?;
    match enabled.split_whitespace().any(|name| name == "memory") {
        true => Ok(root.clone()),
        false => Err(refused(format!(
            "cgroups do not limit memory here; echo +memory > {}/cgroup.subtree_control",
            root.display()
        ))),
    }
}

/// Removes groups that processes which have died have left, as far as they are empty.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let maker = name
            .to_str()
            .and_then(|name| name.strip_prefix(PREFIX)?.split('-').next()?.parse().ok());
        if maker.is_some_and(|maker: u32| process_started(maker).is_err()) {
            let _in_use = MemoryGroup::at(entry.path()).remove_if_empty();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::cgroup::parse_hierarchies;

    #[test]
    fn without_a_controller_of_memory_there_is_no_group() {
        let mounts = "30 25 0:26 / /no/such/cpu rw - cgroup cgroup rw,cpu\n";
        let error = parent_of_groups(&parse_hierarchies(mounts)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Unsupported);
    }

    #[test]
    fn a_group_is_made_limited_and_removed() {
        let Ok(group) = MemoryGroup::make("a-group-is-made", 8 << 20) else {
            eprintln!(
                "SKIP a_group_is_made_limited_and_removed: needs a cgroup that limits memory"
            );
            return;
        };
        let limits = ["memory.max", "memory.limit_in_bytes"];
        let limits = limits.map(|file| read_control(&group.directory().join(file)).ok());
        assert!(limits.contains(&Some((8 << 20).to_string())), "{limits:?}");
        assert_eq!(group.killed(), 0);
        let abandoned = group
            .directory()
            .with_file_name(format!("{PREFIX}{}-x", u32::MAX >> 10));
        cgroup::make(&abandoned).unwrap();
        remove_abandoned(group.directory().parent().unwrap());
        assert!(!abandoned.exists());
        assert!(group.directory().exists());
        group.remove().unwrap();
        assert!(!group.directory().exists());
        assert!(group.remove_if_empty());
    }
}
