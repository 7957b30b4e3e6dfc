//! The two instances of a recording, with their clock, buffers and events.

use std::collections::BTreeMap;
use std::io;

use tailbound_linux::process::own_thread;
use tailbound_linux::system_calls::number_of;
use tailbound_linux::tracefs::{FunctionProbes, TraceFs, TraceInstance};
use tailbound_trace::kernel::{DECODED_EVENTS, LOCK_FUNCTIONS};

use crate::RecorderError;

/// The clock of every recording: that of programs' own measurements.
pub(crate) const CLOCK: &str = "mono";

/// Events of locks of the kernel, which are many.
const CONTENTION_EVENTS: [&str; 2] = ["lock/contention_begin", "lock/contention_end"];
/// Events of system calls.
pub(crate) const CALL_EVENTS: [&str; 2] = ["raw_syscalls/sys_enter", "raw_syscalls/sys_exit"];

/// System calls that say which request a thread works on, and what it waits for.
const CALLS: [&str; 38] = [
    "read",
    "readv",
    "pread64",
    "recvfrom",
    "recvmsg",
    "recvmmsg",
    "write",
    "writev",
    "pwrite64",
    "sendto",
    "sendmsg",
    "sendmmsg",
    "sendfile",
    "splice",
    "accept",
    "accept4",
    "close",
    "poll",
    "ppoll",
    "select",
    "pselect6",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "futex",
    "futex_waitv",
    "nanosleep",
    "clock_nanosleep",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "io_getevents",
    "io_uring_enter",
    "wait4",
    "waitid",
    "flock",
    "semtimedop",
    "msgrcv",
];

/// An instance whose clock is ours.
pub(crate) fn make_instance(
    fs: &TraceFs,
    kib_per_cpu: u64,
) -> Result<TraceInstance, RecorderError> {
    let failed = |what: &str| {
        let what = what.to_string();
        move |cause| RecorderError::tracefs(what, cause)
    };
    let instance = fs
        .make_instance()
        .map_err(failed("making an instance of tracefs"))?;
    let write = |path: &str, text: &str| {
        let failed = failed(&format!("writing \"{text}\" to {path} of tracefs"));
        instance.write(path, text).map_err(failed)
    };
    write("tracing_on", "0")?;
    write("trace_clock", CLOCK)?;
    write("buffer_size_kb", &kib_per_cpu.to_string())?;
    Ok(instance)
}

/// Switches on what all threads do; the layouts of the events that are there. Those that the kernel lacks are told in
/// `missing`, and without switches of threads nothing can be said.
pub(crate) fn enable_scheduling(
    instance: &TraceInstance,
    contention: bool,
    missing: &mut Vec<String>,
) -> Result<Vec<String>, RecorderError> {
    let mut formats = Vec::new();
    let wanted = CONTENTION_EVENTS.into_iter().filter(|_| contention);
    for event in DECODED_EVENTS.into_iter().chain(wanted) {
        match enable(instance, event) {
            Ok(format) => formats.push(format),
            Err(cause) if event == DECODED_EVENTS[0] => {
                return Err(RecorderError::tracefs(
                    format!("switching {event} on"),
                    cause,
                ));
            }
            Err(cause) => missing.push(format!("events {event}: {cause}")),
        }
    }
    Ok(formats)
}

/// Probes the functions of locks; the layouts of their events. Functions that the kernel does not have as functions are
/// told in `missing`, together.
pub(crate) fn enable_locks(
    fs: &TraceFs,
    instance: &TraceInstance,
    missing: &mut Vec<String>,
) -> Result<(FunctionProbes, Vec<String>), RecorderError> {
    let mut probes = fs.make_probes().map_err(RecorderError::Probes)?;
    let mut formats = Vec::new();
    let mut unseen = Vec::new();
    let mut refusal = None;
    for function in LOCK_FUNCTIONS {
        for (name, is_return) in function.probes() {
            let added = probes
                .add(&name, function.name, is_return)
                .and_then(|()| enable(instance, &probes.event(&name)));
            match added {
                Ok(format) => formats.push(format),
                Err(cause) => {
                    unseen.push(function.name);
                    refusal.get_or_insert(cause);
                }
            }
        }
    }
    match refusal {
        Some(cause) if formats.is_empty() => return Err(RecorderError::Probes(cause)),
        Some(cause) => {
            unseen.dedup();
            missing.push(format!("locks by {}: {cause}", unseen.join(", ")));
        }
        None => {}
    }
    Ok((probes, formats))
}

/// The threads whose system calls are recorded, as the kernel takes them. An empty list would mean the whole host, the recorder
/// included, and the recording of its own writes has no end: the thread that asks stands there alone then.
pub(crate) fn event_threads(threads: &[u32]) -> String {
    let own = [own_thread()];
    let threads = if threads.is_empty() {
        &own[..]
    } else {
        threads
    };
    let threads: Vec<String> = threads.iter().map(u32::to_string).collect();
    threads.join(" ")
}

/// Switches on the system calls of threads; the layouts of their events, and the calls' names.
pub(crate) fn enable_calls(
    instance: &TraceInstance,
    threads: &[u32],
    missing: &mut Vec<String>,
) -> (Vec<String>, BTreeMap<u64, String>) {
    let numbers: BTreeMap<u64, String> = CALLS
        .into_iter()
        .filter_map(|name| Some((number_of(name)?, name.to_string())))
        .collect();
    let filter: Vec<String> = numbers
        .keys()
        .map(|number| format!("id=={number}"))
        .collect();
    let filter = filter.join("||");
    let mut formats = Vec::new();
    let limited = instance
        .write("set_event_pid", &event_threads(threads))
        .and_then(|()| instance.write("options/event-fork", "1"));
    if let Err(cause) = limited {
        missing.push(format!(
            "system calls: they cannot be limited to processes: {cause}"
        ));
        return (formats, numbers);
    }
    for event in CALL_EVENTS {
        let enabled = instance
            .write(&format!("events/{event}/filter"), &filter)
            .and_then(|()| enable(instance, event));
        match enabled {
            Ok(format) => formats.push(format),
            Err(cause) => missing.push(format!("events {event}: {cause}")),
        }
    }
    (formats, numbers)
}

fn enable(instance: &TraceInstance, event: &str) -> io::Result<String> {
    let format = instance.read(&format!("events/{event}/format"))?;
    instance.enable(event)?;
    Ok(format)
}
