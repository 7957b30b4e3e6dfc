//! Starting programs that run on given CPUs and die with us.

use std::collections::BTreeSet;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::process::die_with_parent;
use crate::scheduling::{mask_of, set_mask};
use crate::system_call::{check, descriptor};

/// Starts `command` on `cpus` (the caller's own if empty), in a process group of its own, to be
/// killed by the kernel when the calling *thread* ends: call it from a thread that outlives the
/// program, such as the main one.
///
/// # Errors
/// What the kernel says: the program is not there, may not be run, or no such CPU is allowed.
pub fn spawn_on(command: &mut Command, cpus: &BTreeSet<u32>) -> io::Result<Child> {
    let mask = match cpus.is_empty() {
        true => None,
        false => Some(mask_of(cpus)?),
    };
    die_with_parent(command.process_group(0));
    let pin = move || mask.as_ref().map_or(Ok(()), |mask| set_mask(0, mask));
    // SAFETY: the closure makes one system call, which is async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(pin) };
    command.spawn()
}

/// Has the program of `command` inherit descriptors under the numbers that they have here, as none does otherwise. They
/// must be open when the command starts.
pub fn pass_on<'a>(
    command: &mut Command,
    descriptors: impl Iterator<Item = BorrowedFd<'a>>,
) -> &mut Command {
    let numbers: Vec<i32> = descriptors.map(|one| one.as_raw_fd()).collect();
    let inherit = move || {
        for number in &numbers {
            // SAFETY: fcntl takes numbers, and refuses one that is no descriptor.
            check(unsafe { libc::fcntl(*number, libc::F_SETFD, 0) })?;
        }
        Ok(())
    };
    // SAFETY: the closure makes system calls that are async-signal-safe, and allocates nothing.
    unsafe { command.pre_exec(inherit) }
}

/// A copy of the descriptor with this number, which the program before this one left open across exec. Neither is inherited
/// further from then on.
///
/// # Errors
/// EBADF if no descriptor has the number.
pub fn inherited_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes numbers, and refuses one that is no descriptor.
    check(unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) })?;
    copy_of_descriptor(number)
}

/// A copy of the descriptor with this number, closed on exec, whoever owns that one.
///
/// # Errors
/// EBADF if no descriptor has the number.
pub fn copy_of_descriptor(number: i32) -> io::Result<OwnedFd> {
    // SAFETY: fcntl takes numbers, and refuses one that is no descriptor; the copy is new, and nobody else's.
    unsafe { descriptor(libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3)) }
}

/// Runs a program that answers a question, and returns what it says: standard output first, then errors, each up to
/// `bytes_max`. The program is killed after `patience`.
///
/// # Errors
/// The program cannot be run, or `TimedOut`.
pub fn answer(command: &mut Command, patience: Duration, bytes_max: u64) -> io::Result<String> {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = die_with_parent(command).spawn()?;
    let (sender, receiver) = mpsc::channel();
    let (out, errors) = (child.stdout.take(), child.stderr.take());
    std::thread::spawn(move || {
        let mut said = String::new();
        let streams: [Option<Box<dyn Read + Send>>; 2] = [
            out.map(|stream| Box::new(stream) as Box<dyn Read + Send>),
            errors.map(|stream| Box::new(stream) as Box<dyn Read + Send>),
        ];
        for stream in streams.into_iter().flatten() {
            // What cannot be read, or is no text, is no answer either.
            let _unread = stream.take(bytes_max).read_to_string(&mut said);
        }
        let _nobody_waits = sender.send(said);
    });
    let said = receiver.recv_timeout(patience);
    // It has ended, or is to.
    let _ended = child.kill();
    let _reaped = child.wait();
    said.map_err(|_| io::ErrorKind::TimedOut.into())
}

/// Sends SIGTERM to the process group that [`spawn_on`] made for `child`.
///
/// # Errors
/// The group is gone already.
pub fn terminate_group(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGTERM)
}

/// Sends SIGKILL to the process group that [`spawn_on`] made for `child`.
///
/// # Errors
/// The group is gone already.
pub fn kill_group(child: &Child) -> io::Result<()> {
    signal_group(child, libc::SIGKILL)
}

fn signal_group(child: &Child, signal: libc::c_int) -> io::Result<()> {
    let group = i32::try_from(child.id()).map_err(io::Error::other)?;
    // SAFETY: kill takes plain integers; a negative id means the process group.
    check(unsafe { libc::kill(-group, signal) }).map(drop)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_child_runs_where_told() {
        let mut command = Command::new("grep");
        command.args(["Cpus_allowed_list", "/proc/self/status"]);
        command.stdout(std::process::Stdio::piped());
        let child = spawn_on(&mut command, &BTreeSet::from([0])).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(
            String::from_utf8(output.stdout).unwrap().trim(),
            "Cpus_allowed_list:\t0"
        );
    }

    #[test]
    fn a_cpu_beyond_all_sets_is_refused() {
        let refused = spawn_on(&mut Command::new("true"), &BTreeSet::from([1_000_000]));
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
