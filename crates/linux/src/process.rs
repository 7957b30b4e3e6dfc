//! Processes: listing threads and children, telling them apart, children that die with us.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::str::FromStr;

use tailbound_time::Duration;

use crate::cgroup::hierarchies;

/// The effective user of this process.
pub fn effective_uid() -> u32 {
    // SAFETY: geteuid takes nothing, cannot fail and touches no memory of ours.
    unsafe { libc::geteuid() }
}

/// Whether this process is in a user namespace, where root is an ordinary user of the host, as in rootless containers.
///
/// # Errors
/// If /proc cannot be read.
pub fn is_in_user_namespace() -> io::Result<bool> {
    Ok(!maps_all_users(&read_proc("/proc/self/uid_map")?))
}

/// Whether a map of users (user_namespaces(7)) is that of the host: every user is itself.
fn maps_all_users(map: &str) -> bool {
    let words: Vec<&str> = map.split_whitespace().collect();
    words == ["0", "0", "4294967295"]
}

/// The calling thread.
pub fn own_thread() -> u32 {
    // SAFETY: gettid takes nothing, cannot fail and touches no memory of ours.
    (unsafe { libc::gettid() }).unsigned_abs()
}

/// Reads a file of /proc; a process that vanishes meanwhile (ESRCH) is `NotFound` as well.
fn read_proc(path: &str) -> io::Result<String> {
    let bytes = fs::read(path).map_err(gone)?;
    // The name of a process may be any bytes.
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub(crate) fn gone(error: io::Error) -> io::Error {
    match error.raw_os_error() {
        Some(libc::ESRCH) => io::Error::new(io::ErrorKind::NotFound, "no such process"),
        _ => error,
    }
}

fn malformed(path: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("{path} is not as expected"),
    )
}

pub(crate) fn numbered_entries(directory: &str) -> io::Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(gone)? {
        let name = entry.map_err(gone)?.file_name();
        numbers.extend(name.to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// The threads of process `pid`, in ascending order.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn threads_of(pid: u32) -> io::Result<Vec<u32>> {
    numbered_entries(&format!("/proc/{pid}/task"))
}

/// The process of thread `tid`.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn process_of(tid: u32) -> io::Result<u32> {
    let path = format!("/proc/{tid}/status");
    let status = read_proc(&path)?;
    let line = status.lines().find_map(|line| line.strip_prefix("Tgid:"));
    line.and_then(|text| text.trim().parse().ok())
        .ok_or_else(|| malformed(&path))
}

/// The user that thread `tid` runs as.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn user_of(tid: u32) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(fs::metadata(format!("/proc/{tid}")).map_err(gone)?.uid())
}

/// The name of thread `tid`, as it gave itself; of at most 15 bytes.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn thread_name(tid: u32) -> io::Result<String> {
    let name = read_proc(&format!("/proc/{tid}/comm"))?;
    Ok(name.trim_end_matches('\n').to_owned())
}

/// The words that process `pid` was started with; none for a thread of the kernel.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn command_line(pid: u32) -> io::Result<Vec<String>> {
    let text = read_proc(&format!("/proc/{pid}/cmdline"))?;
    let words = text.trim_end_matches('\0').split('\0');
    Ok(words
        .filter(|_| !text.is_empty())
        .map(str::to_owned)
        .collect())
}

/// The fields of /proc/TID/stat from the third on: the second, the name, may hold anything.
fn stat_fields(tid: u32) -> io::Result<Vec<String>> {
    let path = format!("/proc/{tid}/stat");
    let stat = read_proc(&path)?;
    let (_, rest) = stat.rsplit_once(')').ok_or_else(|| malformed(&path))?;
    Ok(rest.split_whitespace().map(str::to_owned).collect())
}

/// A field of /proc/TID/stat, counted from the third on.
fn stat_field<T: FromStr>(fields: &[String], place: usize) -> io::Result<T> {
    let field = fields.get(place).and_then(|text| text.parse().ok());
    field.ok_or_else(|| malformed("/proc/TID/stat"))
}

/// The parent of process `pid`.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn parent_of(pid: u32) -> io::Result<u32> {
    stat_field(&stat_fields(pid)?, 1)
}

/// When thread `tid` started, in clock ticks since boot; with the number it names one thread for
/// as long as the machine is up.
///
/// # Errors
/// `NotFound` if it has gone, or is a zombie: such a one can be neither moved nor run again.
pub fn started(tid: u32) -> io::Result<u64> {
    let fields = stat_fields(tid)?;
    if has_exited(&fields) {
        return Err(exited());
    }
    stat_field(&fields, 19)
}

/// What a thread has had of CPUs since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// The CPU time that it used.
    pub used: Duration,
    /// The time that it was ready to run and did not.
    pub waited: Duration,
}

/// What thread `tid` has had, in nanoseconds as the scheduler counts them.
///
/// # Errors
/// `NotFound` if it has gone; `InvalidData` from a kernel without CONFIG_SCHED_INFO.
pub fn run_times(tid: u32) -> io::Result<RunTimes> {
    let text = read_proc(&format!("/proc/{tid}/schedstat"))?;
    let mut fields = text.split_whitespace().map(|field| field.parse().ok());
    match (fields.next().flatten(), fields.next().flatten()) {
        (Some(used), Some(waited)) => Ok(RunTimes {
            used: Duration::from_nanos(used),
            waited: Duration::from_nanos(waited),
        }),
        _ => Err(malformed("/proc/TID/schedstat")),
    }
}

/// The memory of process `pid` that is in RAM, in bytes.
///
/// # Errors
/// `NotFound` if the process has gone; `InvalidData` for one without memory of its own, such as a kernel thread.
pub fn resident_bytes(pid: u32) -> io::Result<u64> {
    let text = read_proc(&format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes
        .map(|kibibytes| kibibytes * 1024)
        .ok_or_else(|| malformed("/proc/PID/status"))
}

/// When process `pid` started, as [`started`]; but a process lives for as long as any of its
/// threads, even if its first one has exited. Until the last one has, its files and sockets are
/// open, its locks are held, and its system calls may be under way.
///
/// # Errors
/// `NotFound` if it has gone: every thread has exited, reaped or not.
pub fn process_started(pid: u32) -> io::Result<u64> {
    let fields = stat_fields(pid)?;
    let threads: u64 = stat_field(&fields, 17)?;
    // A zombie counts itself until it is reaped, a thread that has exited is not counted.
    if has_exited(&fields) && threads <= 1 {
        return Err(exited());
    }
    stat_field(&fields, 19)
}

fn has_exited(stat: &[String]) -> bool {
    matches!(stat.first().map(String::as_str), Some("Z" | "X"))
}

fn exited() -> io::Error {
    io::Error::new(io::ErrorKind::NotFound, "it has exited")
}

/// Why a process goes on no more by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoppedBy {
    /// SIGSTOP or another signal that stops (state `T`).
    Signal,
    /// A debugger or tracer (state `t`).
    Debugger,
    /// The freezer of the cgroup that it is in: the kernel shows its threads as sleeping or waiting.
    Freezer,
}

/// What has stopped all threads of process `pid`; `None` if one of them may go on. A thread in a wait that
/// no signal ends stops only after it; it counts as stopped beside others that are. The freezer is asked for
/// the cgroup of the first thread, which all have in common unless the cgroup is a threaded one.
///
/// # Errors
/// `NotFound` if it has gone.
pub fn stopped_by(pid: u32) -> io::Result<Option<StoppedBy>> {
    let mut stopper = None;
    for tid in threads_of(pid)? {
        let state = match stat_fields(tid) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            outcome => outcome?.into_iter().next(),
        };
        match state.as_deref() {
            Some("T") => stopper = Some(StoppedBy::Signal),
            Some("t") => stopper = stopper.or(Some(StoppedBy::Debugger)),
            Some("D" | "Z" | "X") => {}
            _ => return Ok(is_frozen(pid).then_some(StoppedBy::Freezer)),
        }
    }
    match stopper {
        None if is_frozen(pid) => Ok(Some(StoppedBy::Freezer)),
        stopper => Ok(stopper),
    }
}

/// Whether a freezer, of cgroup v1 or v2, holds the cgroup of process `pid`. Where that cannot be read, no
/// freezer is known to.
fn is_frozen(pid: u32) -> bool {
    let hierarchies = hierarchies().unwrap_or_default();
    hierarchies.iter().any(|hierarchy| {
        let (file, word) = match hierarchy.unified {
            true => ("cgroup.events", "frozen 1"),
            false if hierarchy.controllers.iter().any(|name| name == "freezer") => {
                ("freezer.state", "FROZEN")
            }
            false => return false,
        };
        let state = hierarchy
            .cgroup_of(pid)
            .and_then(|cgroup| fs::read_to_string(cgroup.join(file)));
        state.is_ok_and(|state| state.lines().any(|line| line == word))
    })
}

/// The state of the first thread of process `pid`, as a letter (proc(5)).
///
/// # Errors
/// `NotFound` if it has gone.
pub fn state_letter(pid: u32) -> io::Result<char> {
    stat_field(&stat_fields(pid)?, 0)
}

/// The processes that have taken a lock of `file` by flock(2), while the lock is held; a process that was
/// handed a copy of the descriptor is not told.
///
/// # Errors
/// If /proc/locks cannot be read.
pub fn lock_holders(file: &fs::File) -> io::Result<Vec<u32>> {
    use std::os::unix::fs::MetadataExt;
    let inode = file.metadata()?.ino();
    let locks = read_proc("/proc/locks")?;
    // Such as "1: FLOCK  ADVISORY  WRITE 4711 00:1a:1234 0 EOF"; the device there is that of the file
    // system, which stat(2) names otherwise on some.
    let holders = locks.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let at = fields.iter().position(|field| *field == "FLOCK")?;
        let (_, number) = fields.get(at + 4)?.rsplit_once(':')?;
        let is_holder = fields.get(1) != Some(&"->") && number.parse() == Ok(inode);
        fields.get(at + 3).filter(|_| is_holder)?.parse().ok()
    });
    Ok(holders.collect())
}

/// Whether process `pid` has `file` open.
///
/// # Errors
/// `NotFound` if it has gone; `PermissionDenied` if it is another user's.
pub fn has_open(pid: u32, file: &fs::File) -> io::Result<bool> {
    use std::os::unix::fs::MetadataExt;
    let wanted = file.metadata()?;
    for entry in fs::read_dir(format!("/proc/{pid}/fd")).map_err(gone)? {
        // It may be closed meanwhile.
        let Ok(metadata) = entry.and_then(|entry| fs::metadata(entry.path())) else {
            continue;
        };
        if (metadata.dev(), metadata.ino()) == (wanted.dev(), wanted.ino()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The processes that have `file` open, as far as we may look.
///
/// # Errors
/// If /proc cannot be read.
pub fn processes_with_open(file: &fs::File) -> io::Result<Vec<u32>> {
    let all = numbered_entries("/proc")?;
    let has_it = |pid: &u32| has_open(*pid, file).unwrap_or(false);
    Ok(all.into_iter().filter(has_it).collect())
}

/// The living children of process `pid`, in ascending order.
///
/// # Errors
/// If /proc cannot be read.
pub fn children_of(pid: u32) -> io::Result<Vec<u32>> {
    // /proc/PID/task/TID/children needs CONFIG_PROC_CHILDREN; parents work everywhere.
    let children = parents()?.into_iter().filter(|(_, parent)| *parent == pid);
    Ok(children.map(|(child, _)| child).collect())
}

/// The parent of every process, in one look at /proc.
///
/// # Errors
/// If /proc cannot be read.
pub fn parents() -> io::Result<BTreeMap<u32, u32>> {
    let all = numbered_entries("/proc")?;
    // A process that ends meanwhile has no parent any more.
    let parents = all
        .into_iter()
        .filter_map(|pid| Some((pid, parent_of(pid).ok()?)));
    Ok(parents.collect())
}

/// These processes and all that they have made, as far as those live.
///
/// # Errors
/// If /proc cannot be read.
pub fn with_descendants(pids: &BTreeSet<u32>) -> io::Result<BTreeSet<u32>> {
    let parents = parents()?;
    let mut all = BTreeSet::new();
    let mut open: Vec<u32> = pids.iter().copied().collect();
    while let Some(pid) = open.pop() {
        if all.insert(pid) {
            let children = parents.iter().filter(|(_, parent)| **parent == pid);
            open.extend(children.map(|(child, _)| *child));
        }
    }
    Ok(all)
}

/// Names the present boot of the machine.
///
/// # Errors
/// If /proc cannot be read.
pub fn boot_id() -> io::Result<String> {
    Ok(read_proc("/proc/sys/kernel/random/boot_id")?
        .trim()
        .to_owned())
}

/// Makes the child of `command` get SIGKILL when the thread that spawns it ends, however it ends.
pub fn die_with_parent(command: &mut Command) -> &mut Command {
    let parent = std::process::id();
    // SAFETY: between fork and exec only prctl, getppid and _exit are called, all of them
    // async-signal-safe.
    unsafe {
        command.pre_exec(move || {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            // The parent may have died before the call above.
            if libc::getppid().unsigned_abs() != parent {
                libc::_exit(1);
            }
            Ok(())
        })
    }
}

/// Sends `signal` (a number of signal(7)) to process `pid`.
///
/// # Errors
/// `NotFound` if it has gone; else what kill says.
pub fn send_signal(pid: u32, signal: i32) -> io::Result<()> {
    let target = match libc::pid_t::try_from(pid) {
        Ok(target) if target > 0 => target,
        // 0 and below would mean whole groups.
        _ => return Err(io::Error::new(io::ErrorKind::NotFound, "no such process")),
    };
    // SAFETY: kill takes two numbers and touches no memory of ours.
    match unsafe { libc::kill(target, signal) } {
        0 => Ok(()),
        _ => Err(gone(io::Error::last_os_error())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::process::Stdio;

    use super::*;

    #[test]
    fn the_map_of_a_user_namespace_is_told_from_the_hosts() {
        assert!(maps_all_users("         0          0 4294967295\n"));
        assert!(!maps_all_users("         0       1000          1\n"));
        assert!(!maps_all_users("0 1000 1\n1 100000 65536\n"));
        assert!(!maps_all_users(""));
    }

    #[test]
    fn knows_ourselves() {
        let own = std::process::id();
        assert!(threads_of(own).unwrap().contains(&own_thread()));
        assert_eq!(process_of(own_thread()).unwrap(), own);
        assert!(started(own).unwrap() > 0);
        assert!(!boot_id().unwrap().is_empty());
    }

    #[test]
    fn a_child_is_listed_and_told_when_it_has_gone() {
        let mut command = Command::new("sleep");
        let mut child = die_with_parent(command.arg("30")).spawn().unwrap();
        assert!(
            children_of(std::process::id())
                .unwrap()
                .contains(&child.id())
        );
        assert_eq!(parent_of(child.id()).unwrap(), std::process::id());
        child.kill().unwrap();
        // A zombie counts as gone, before and after it is reaped.
        while started(child.id()).is_ok() || process_started(child.id()).is_ok() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
        assert!(process_started(child.id()).is_err());
        assert_eq!(
            threads_of(child.id()).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
        assert_eq!(
            send_signal(child.id(), 0).unwrap_err().kind(),
            io::ErrorKind::NotFound
        );
    }

    /// Ends the first thread of this process, from another.
    fn end_first_thread() {
        extern "C" fn exit_thread(_: libc::c_int) {
            // SAFETY: ends the thread that is interrupted, with what is on its stack left in place.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        let first = std::process::id();
        assert_ne!(own_thread(), first);
        let handler = exit_thread as *const () as libc::sighandler_t;
        // SAFETY: the handler makes one system call, and the signal goes to the thread meant.
        unsafe {
            libc::signal(libc::SIGUSR1, handler);
            libc::syscall(libc::SYS_tgkill, first, first, libc::SIGUSR1);
        }
    }

    #[test]
    fn a_process_lives_for_as_long_as_one_of_its_threads() {
        const VARIABLE: &str = "TAILBOUND_TEST_FIRST_THREAD_EXITS";
        if std::env::var_os(VARIABLE).is_some() {
            end_first_thread();
            let _ = io::stdin().read_line(&mut String::new());
            std::process::exit(0);
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        let name = "process::tests::a_process_lives_for_as_long_as_one_of_its_threads";
        command
            .args(["--exact", name])
            .env(VARIABLE, "")
            .stdin(Stdio::piped())
            .stdout(Stdio::null());
        let mut child = die_with_parent(&mut command).spawn().unwrap();
        let began = process_started(child.id()).unwrap();
        while let Ok(first_began) = started(child.id()) {
            assert_eq!(first_began, began);
            std::thread::yield_now();
        }
        assert_eq!(process_started(child.id()).unwrap(), began);
        drop(child.stdin.take());
        while process_started(child.id()).is_ok() {
            std::thread::yield_now();
        }
        child.wait().unwrap();
    }

    #[test]
    fn whole_groups_cannot_be_signalled_by_mistake() {
        assert!(send_signal(0, 0).is_err());
        assert!(send_signal(u32::MAX, 0).is_err());
    }
}
