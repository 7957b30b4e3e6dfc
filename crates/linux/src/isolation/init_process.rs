//! A process that waits for another: it reaps whatever ends below it, and hands signals on.

use std::io;
use std::mem;
use std::ptr;

use crate::system_call::check;

/// The signals that are handed on to a program.
const FORWARDED: [libc::c_int; 7] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGCONT,
];

/// The exit status of a program that a signal has killed is that signal above this, as shells have it.
const KILLED: i32 = 128;

/// Signals that wait until they are taken, in this process and those that it forks.
pub(super) struct SignalHold {
    held: libc::sigset_t,
    /// The signals that were held back before.
    before: libc::sigset_t,
}

impl SignalHold {
    /// Holds them back from now on.
    pub fn begin() -> io::Result<Self> {
        // SAFETY: all zeros are a value of the type, the calls fill it, and the numbers are those of signals.
        let held = unsafe {
            let mut held: libc::sigset_t = mem::zeroed();
            libc::sigemptyset(&raw mut held);
            for number in FORWARDED.into_iter().chain([libc::SIGCHLD]) {
                libc::sigaddset(&raw mut held, number);
            }
            held
        };
        // SAFETY: the numbers are those of a signal and of its usual effect: one that ignores it would take no exit status.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
        let mut before = held;
        // SAFETY: both sets live through the call.
        check(unsafe { libc::sigprocmask(libc::SIG_BLOCK, &raw const held, &raw mut before) })?;
        Ok(Self { held, before })
    }

    /// Lets them take effect in this process, which is to become a program: exec leaves them as they are.
    pub fn end(&self) -> io::Result<()> {
        // SAFETY: the set is the one that the kernel gave, and lives through the call.
        let ended = unsafe {
            libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, ptr::null_mut())
        };
        check(ended).map(drop)
    }

    /// The next one.
    fn take(&self) -> io::Result<libc::c_int> {
        loop {
            // SAFETY: the set lives through the call, which writes nothing without a place for it.
            match check(unsafe { libc::sigwaitinfo(&raw const self.held, ptr::null_mut()) }) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                taken => return taken,
            }
        }
    }
}

/// Waits until a child ends; its exit status. Signals go to the child's process group, and SIGKILL goes there once this process
/// `is_orphan`.
pub(super) fn wait_and_forward(
    signals: &SignalHold,
    child: libc::pid_t,
    is_orphan: impl Fn() -> bool,
) -> io::Result<i32> {
    loop {
        // A child may have ended, and a parent died, before the first signal is taken.
        if let Some(status) = reap(child)? {
            return Ok(status);
        }
        if is_orphan() {
            signal_group(child, libc::SIGKILL);
        }
        let number = signals.take()?;
        if number != libc::SIGCHLD && !is_orphan() {
            signal_group(child, number);
        }
    }
}

/// Takes the exit statuses of all children that have ended; that of `child` if it is among them.
fn reap(child: libc::pid_t) -> io::Result<Option<i32>> {
    let mut status_of_child = None;
    loop {
        let mut status = 0;
        // SAFETY: the kernel writes one number.
        match check(unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG) }) {
            Ok(0) => return Ok(status_of_child),
            Ok(pid) if pid == child => status_of_child = Some(exit_status(status)),
            Ok(_) => {}
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR) => {}
                Some(libc::ECHILD) => return Ok(status_of_child),
                _ => return Err(error),
            },
        }
    }
}

fn exit_status(status: libc::c_int) -> i32 {
    match libc::WIFSIGNALED(status) {
        true => KILLED + libc::WTERMSIG(status),
        false => libc::WEXITSTATUS(status),
    }
}

fn signal_group(leader: libc::pid_t, signal: libc::c_int) {
    // SAFETY: kill takes numbers; a negative one means a process group.
    // One that has ended needs no signal.
    let _gone = unsafe { libc::kill(-leader, signal) };
}
