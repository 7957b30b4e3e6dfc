//! What of the host a reservation may touch, as text that can be compared.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use tailbound_linux::cgroup::{cgroups_below, hierarchies};
use tailbound_linux::host_facts::HostFacts;
use tailbound_linux::{process, scheduling};

pub type Snapshot = BTreeMap<String, String>;

/// The threads of `pids`, the cgroups of domains whose names begin with `prefix`, and what is the whole
/// host's.
pub fn snapshot(pids: &[u32], prefix: &str) -> Snapshot {
    let mut state = Snapshot::new();
    for &pid in pids {
        let threads = process::threads_of(pid).unwrap_or_default();
        state.insert(
            format!("process {pid}"),
            format!("{} threads", threads.len()),
        );
        for tid in threads {
            let groups = fs::read_to_string(format!("/proc/{tid}/cgroup"));
            let thread = (
                scheduling::scheduling_of(tid),
                scheduling::affinity_of(tid),
                groups.unwrap_or_default().replace('\n', " "),
            );
            if let (Ok(policy), Ok(affinity), groups) = thread {
                state.insert(
                    format!("thread {tid}"),
                    format!("{policy:?} {affinity:?} {groups}"),
                );
            }
        }
    }
    let facts = HostFacts::of_this_host();
    state.insert("throttling".into(), format!("{:?}", facts.throttling()));
    state.insert("CPUs".into(), format!("{:?}", facts.online_cpus()));
    for group in groups() {
        let name = group.file_name().unwrap_or_default().to_string_lossy();
        if name.starts_with(prefix) || name.starts_with("tailbound-cpu") {
            state.insert(group.display().to_string(), "is there".into());
        }
    }
    state
}

/// What differs, in words.
pub fn differences(before: &Snapshot, now: &Snapshot) -> Vec<String> {
    let keys = before.keys().chain(now.keys());
    let keys: std::collections::BTreeSet<&String> = keys.collect();
    let value_of = |state: &Snapshot, key: &String| {
        state.get(key).map_or("nothing", String::as_str).to_owned()
    };
    keys.into_iter()
        .filter(|key| before.get(*key) != now.get(*key))
        .map(|key| {
            format!(
                "{key} was {}, is {}",
                value_of(before, key),
                value_of(now, key)
            )
        })
        .collect()
}

fn groups() -> Vec<PathBuf> {
    let mut left: Vec<PathBuf> = hierarchies()
        .unwrap_or_default()
        .into_iter()
        .map(|hierarchy| hierarchy.root)
        .collect();
    let mut groups = Vec::new();
    while let Some(directory) = left.pop() {
        left.extend(cgroups_below(&directory).unwrap_or_default());
        groups.push(directory);
    }
    groups
}

/// The journals that are left in a state directory.
pub fn journals_in(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files
        .map(|file| file.path())
        .filter(|path| path.extension().is_some_and(|last| last == "journal"))
        .collect()
}

/// The living processes of our programs that name `directory` as an argument.
pub fn processes_with(directory: &Path) -> Vec<u32> {
    let directory = directory.as_os_str().as_encoded_bytes();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = processes.filter_map(|one| one.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| *pid != std::process::id())
        .filter(|pid| {
            let arguments = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            arguments
                .windows(directory.len())
                .any(|part| part == directory)
        })
        .collect()
}
