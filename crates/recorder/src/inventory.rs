//! What is there while a recording begins or ends: processes, threads, sockets.

use std::collections::BTreeSet;

use tailbound_linux::cgroup::hierarchies;
use tailbound_linux::process::{parents, thread_name, threads_of};
use tailbound_linux::sockets::sockets_of;
use tailbound_time::Instant;
use tailbound_trace::recording::{RecordedProcess, RecordedSocket, RecordedThread, SocketSnapshot};

/// Every process with its threads; those that end meanwhile are left out.
pub(crate) fn processes() -> Vec<RecordedProcess> {
    // Without the list, threads have the names that events give them.
    let pids = parents().unwrap_or_default();
    let unified = hierarchies().unwrap_or_default();
    let unified = unified.into_iter().find(|hierarchy| hierarchy.unified);
    let cgroup_of = |tid: u32| {
        let unified = unified.as_ref()?;
        let directory = unified.cgroup_of(tid).ok()?;
        let below = directory.strip_prefix(&unified.root).ok()?;
        Some(format!("/{}", below.display()))
    };
    let process = |pid: u32| {
        let threads = threads_of(pid).ok()?;
        let cgroup = cgroup_of(pid).unwrap_or_default();
        let threads = threads.into_iter().map(|tid| RecordedThread {
            tid,
            name: thread_name(tid).unwrap_or_default(),
            cgroup: cgroup_of(tid).filter(|own| *own != cgroup),
        });
        Some(RecordedProcess {
            pid,
            threads: threads.collect(),
            cgroup,
        })
    };
    pids.into_keys().filter_map(process).collect()
}

/// The threads of processes.
pub(crate) fn threads(pids: &BTreeSet<u32>) -> Vec<u32> {
    let threads = pids.iter().filter_map(|pid| threads_of(*pid).ok());
    threads.flatten().collect()
}

/// The connected sockets of processes.
pub(crate) fn socket_snapshot(pids: &BTreeSet<u32>, at: Instant) -> SocketSnapshot {
    let pids: Vec<u32> = pids.iter().copied().collect();
    let sockets = sockets_of(&pids).unwrap_or_default().into_iter();
    let sockets = sockets.map(|socket| RecordedSocket {
        pid: socket.pid,
        descriptor: socket.descriptor,
        peer: socket.peer,
    });
    SocketSnapshot {
        at,
        sockets: sockets.collect(),
    }
}
