//! What system calls mean for a thread that serves requests.

use std::collections::{BTreeMap, HashMap};

/// The meaning of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallMeaning {
    /// It takes bytes from a descriptor.
    Reads,
    /// It gives bytes to a descriptor.
    Writes,
    /// It waits for work.
    AwaitsWork,
    /// It waits for a lock, or for a thread that hands something over.
    Locks,
    /// It waits for a device.
    Device,
    /// It waits for a time.
    Sleeps,
    /// Anything else.
    Other,
}

/// The meanings of recorded calls by their numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallTable {
    calls: HashMap<u64, (CallMeaning, String)>,
}

impl CallTable {
    /// The table of a recording's calls.
    pub(crate) fn new(names: &BTreeMap<u64, String>) -> Self {
        let calls = names.iter();
        let calls = calls.map(|(number, name)| (*number, (meaning(name), name.clone())));
        Self {
            calls: calls.collect(),
        }
    }

    /// The meaning of a call.
    pub(crate) fn meaning(&self, number: u64) -> CallMeaning {
        self.calls
            .get(&number)
            .map_or(CallMeaning::Other, |(meaning, _)| *meaning)
    }

    /// The name of a call.
    pub(crate) fn name(&self, number: u64) -> &str {
        self.calls
            .get(&number)
            .map_or("a system call", |(_, name)| name)
    }
}

fn meaning(name: &str) -> CallMeaning {
    match name {
        "read" | "readv" | "recvfrom" | "recvmsg" | "recvmmsg" => CallMeaning::Reads,
        "write" | "writev" | "sendto" | "sendmsg" | "sendmmsg" | "sendfile" => CallMeaning::Writes,
        "accept" | "accept4" | "poll" | "ppoll" | "select" | "pselect6" | "epoll_wait"
        | "epoll_pwait" | "epoll_pwait2" => CallMeaning::AwaitsWork,
        "futex" | "futex_waitv" | "flock" | "semtimedop" | "msgrcv" => CallMeaning::Locks,
        "pread64" | "pwrite64" | "fsync" | "fdatasync" | "sync_file_range" | "io_getevents"
        | "io_uring_enter" | "splice" => CallMeaning::Device,
        "nanosleep" | "clock_nanosleep" => CallMeaning::Sleeps,
        _ => CallMeaning::Other,
    }
}
