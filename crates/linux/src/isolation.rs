//! Programs with namespaces of their own: a supervisor outside of them, and the first process inside.
//!
//! The supervisor is what the caller starts. It forwards signals, takes the exit status over, and ends what is left. It stays out
//! of the domain's groups, so that a domain that stands still does not hold it up. Whichever of the two is killed, the other
//! ends, and the kernel ends everything in a namespace of processes with its first process.

mod init_process;
mod private_mounts;

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::str::FromStr;

use crate::capabilities;
use crate::memory_group::MemoryGroup;
use crate::network_interface::raise_loopback;
use crate::process::{children_of, threads_of};
use crate::system_call::check;
use init_process::{SignalHold, wait_and_forward};
pub use private_mounts::PRIVATE_FOLDERS;

/// The exit status of a program that could not be started.
const FAILED_TO_START: i32 = 127;

/// A namespace that a program has for itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OwnNamespace {
    /// Mounts.
    Mount,
    /// Processes.
    Pid,
    /// Shared memory, semaphores and queues with keys or names.
    Ipc,
    /// Network interfaces, and sockets with abstract names.
    Network,
}

impl FromStr for OwnNamespace {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        match word {
            "mount" => Ok(Self::Mount),
            "pid" => Ok(Self::Pid),
            "ipc" => Ok(Self::Ipc),
            "network" => Ok(Self::Network),
            _ => Err(format!(
                "{word:?} is no namespace; write mount, pid, ipc or network"
            )),
        }
    }
}

impl OwnNamespace {
    fn flag(self) -> libc::c_int {
        match self {
            Self::Mount => libc::CLONE_NEWNS,
            Self::Pid => libc::CLONE_NEWPID,
            Self::Ipc => libc::CLONE_NEWIPC,
            Self::Network => libc::CLONE_NEWNET,
        }
    }
}

/// A program to be isolated.
#[derive(Clone, Debug)]
pub struct IsolatedProgram {
    /// The namespaces that it has for itself.
    pub namespaces: BTreeSet<OwnNamespace>,
    /// The directory of the group whose memory is limited, if one is.
    pub memory_group: Option<PathBuf>,
    /// The most memory of that group, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Folders and files that stay where they are, also below a folder that is empty otherwise.
    pub kept: Vec<PathBuf>,
    /// The words of the command.
    pub command: Vec<String>,
}

/// The privilege that isolation lacks here, if one: new namespaces take CAP_SYS_ADMIN.
pub fn missing_privilege() -> Option<&'static str> {
    const NEEDED: &str = "CAP_SYS_ADMIN";
    (!capabilities::is_privileged(NEEDED)).then_some(NEEDED)
}

/// The processes of a program that is isolated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IsolatedProcesses {
    /// The first process in the namespaces, of which all others descend.
    pub first: u32,
    /// The process of the program itself.
    pub program: u32,
}

impl IsolatedProcesses {
    /// Those under a supervisor; `None` until the program is started. With a namespace of processes there is one of ours
    /// before the program.
    ///
    /// # Errors
    /// If /proc cannot be read.
    pub fn under(supervisor: u32, has_pid_namespace: bool) -> io::Result<Option<Self>> {
        let Some(first) = children_of(supervisor)?.into_iter().next() else {
            return Ok(None);
        };
        if !has_pid_namespace {
            let program = first;
            return Ok(Some(Self { first, program }));
        }
        let program = children_of(first)?.into_iter().next();
        Ok(program.map(|program| Self { first, program }))
    }
}

/// Runs a program in isolation, to its end; its exit status, which is 128 and the number of the signal where one has killed it.
/// The calling process must have one thread: it forks.
///
/// # Errors
/// What the kernel says. A program that does not start is an exit status, 127, with a line on standard error.
pub fn run(program: &IsolatedProgram) -> io::Result<i32> {
    if threads_of(std::process::id())?.len() != 1 {
        return Err(io::Error::other("the supervisor has several threads"));
    }
    // From here on the death of the parent is noticed, and ends the program; up to here it has killed us.
    let parent = parent_process();
    set_death_signal(libc::SIGTERM)?;
    let signals = SignalHold::begin()?;
    if program.namespaces.contains(&OwnNamespace::Pid) {
        unshare(libc::CLONE_NEWPID)?;
    }
    let (ours, theirs) = UnixStream::pair()?;
    let first = match fork()? {
        0 => {
            drop(ours);
            end_with(enter(program, theirs, &signals));
        }
        child => child,
    };
    drop(theirs);
    lead_own_group(first);
    let is_orphan = || parent_process() != parent;
    let status = wait_and_forward(&signals, first, is_orphan);
    drop(ours);
    end_memory_group(program, is_orphan());
    status
}

/// Says whether the limit on memory has killed anything, and removes its group: with what is left in it where nobody else will.
fn end_memory_group(program: &IsolatedProgram, is_last: bool) {
    let Some(directory) = &program.memory_group else {
        return;
    };
    let group = MemoryGroup::at(directory.clone());
    let killed = group.killed();
    if killed > 0 {
        let limit = program.memory_limit_bytes.unwrap_or_default();
        eprintln!(
            "tailbound: processes killed by the kernel at the memory limit of {limit} bytes: {killed}"
        );
    }
    if is_last {
        // An empty or dying group may resist; the next run removes it.
        let _abandoned = group.remove();
    } else {
        // Another program of the domain may still be in it; the parent removes it.
        let _left_to_parent = group.remove_if_empty();
    }
}

/// The first process isolates itself, and becomes the program, or starts it and waits for it.
fn enter(
    program: &IsolatedProgram,
    supervisor: UnixStream,
    signals: &SignalHold,
) -> io::Result<i32> {
    set_death_signal(libc::SIGKILL)?;
    check_alive(&supervisor)?;
    drop(supervisor);
    lead_own_group(0);
    if let Some(group) = &program.memory_group {
        crate::cgroup::move_process(0, group)
            .map_err(|error| explained("entering the group of the memory limit", &error))?;
    }
    let is_ours = |one: &&OwnNamespace| **one != OwnNamespace::Pid;
    let flags = program.namespaces.iter().filter(is_ours);
    unshare(flags.fold(0, |flags, one| flags | one.flag()))?;
    if program.namespaces.contains(&OwnNamespace::Mount) {
        private_mounts::mount_all(program)?;
    }
    if program.namespaces.contains(&OwnNamespace::Network) {
        raise_loopback().map_err(|error| explained("raising the loopback", &error))?;
    }
    if !program.namespaces.contains(&OwnNamespace::Pid) {
        return Err(become_program(&program.command, signals));
    }
    match fork()? {
        0 => {
            lead_own_group(0);
            Err(become_program(&program.command, signals))
        }
        child => {
            lead_own_group(child);
            close_inherited();
            wait_and_forward(signals, child, || false)
        }
    }
}

/// Refuses to go on without the supervisor, which may have died before its death had a signal.
fn check_alive(mut supervisor: &UnixStream) -> io::Result<()> {
    supervisor.set_nonblocking(true)?;
    match supervisor.read(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        _ => Err(io::Error::other("the supervisor has gone")),
    }
}

/// Replaces this process by the program; why that failed.
fn become_program(words: &[String], signals: &SignalHold) -> io::Error {
    let Some((program, arguments)) = words.split_first() else {
        return io::ErrorKind::InvalidInput.into();
    };
    if let Err(error) = signals.end() {
        return error;
    }
    let error = Command::new(program).args(arguments).exec();
    explained(&format!("starting {program} in isolation"), &error)
}

/// Ends a forked process.
fn end_with(outcome: io::Result<i32>) -> ! {
    let status = outcome.unwrap_or_else(|error| {
        eprintln!("tailbound: {error}");
        FAILED_TO_START
    });
    std::process::exit(status)
}

fn explained(what: &str, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

fn unshare(flags: libc::c_int) -> io::Result<()> {
    // SAFETY: unshare takes a number, and this process has one thread.
    check(unsafe { libc::unshare(flags) })
        .map(drop)
        .map_err(|error| explained("making namespaces", &error))
}

/// Forks this process, which has one thread: 0 in the child.
fn fork() -> io::Result<libc::pid_t> {
    // SAFETY: with one thread no lock is held by another, so that the child may do what the parent may.
    check(unsafe { libc::fork() })
}

/// The parent; 0 where it is in another namespace of processes.
fn parent_process() -> libc::pid_t {
    // SAFETY: getppid takes nothing.
    unsafe { libc::getppid() }
}

fn set_death_signal(signal: libc::c_int) -> io::Result<()> {
    // SAFETY: prctl with this word takes a number.
    check(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) }).map(drop)
}

/// Has a process, 0 for this one, lead a process group. Parent and child both do it, so that it is done for whoever is first; the
/// second may come after the child has become a program, which is refused.
fn lead_own_group(pid: libc::pid_t) {
    // SAFETY: setpgid takes numbers.
    let _done_already = unsafe { libc::setpgid(pid, 0) };
}

/// Closes what was inherited for the program: the process that waits for it needs the standard streams alone.
fn close_inherited() {
    // SAFETY: this process uses no descriptor beyond the standard streams from here on.
    let _old_kernel = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
