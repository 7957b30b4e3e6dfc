//! What of the kernel's state a reservation may touch, as text that can be compared.

use std::collections::BTreeMap;
use std::fs;

use tailbound_linux::cgroup::{self, hierarchies};
use tailbound_linux::host_facts::HostFacts;
use tailbound_linux::{process, scheduling};

/// The state of the threads of `pids`, and of our groups everywhere.
pub fn snapshot(pids: &[u32]) -> BTreeMap<String, String> {
    let mut state = BTreeMap::new();
    let threads = pids
        .iter()
        .flat_map(|&pid| process::threads_of(pid).unwrap_or_default());
    for tid in threads {
        let thread_state = (
            scheduling::scheduling_of(tid),
            scheduling::affinity_of(tid),
            fs::read_to_string(format!("/proc/{tid}/cgroup")),
        );
        // A thread may end while it is looked at.
        if let (Ok(policy), Ok(affinity), Ok(groups)) = thread_state {
            state.insert(
                format!("thread {tid}"),
                format!("{policy:?} {affinity:?} {groups}"),
            );
        }
    }
    let throttling = HostFacts::of_this_host().throttling();
    state.insert("real-time throttling".into(), format!("{throttling:?}"));
    for hierarchy in hierarchies().unwrap() {
        let root = hierarchy.root;
        for file in ["cgroup.subtree_control", "cpuset.sched_load_balance"] {
            if let Ok(text) = cgroup::read_control(&root.join(file)) {
                state.insert(root.join(file).display().to_string(), text);
            }
        }
        let below = cgroup::cgroups_below(&root).unwrap_or_default();
        let inner = root.join("tailbound");
        let inner = cgroup::cgroups_below(&inner).unwrap_or_default();
        for group in below.into_iter().chain(inner) {
            let name = group.display().to_string();
            // Others may probe or enforce meanwhile; the names of ours are told by the domain.
            if name.contains(super::checks::DOMAIN) || name.contains("tailbound-cpu") {
                state.insert(name, "is there".into());
            }
        }
    }
    state
}
