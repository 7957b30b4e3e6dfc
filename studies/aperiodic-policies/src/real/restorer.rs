//! A process that outlives this one, if it must, and takes back what enforcement has changed.
//!
//! Enforcement writes a journal before it changes anything, from which the next one that starts restores
//! the host. After `kill -9` nobody may start one, so that this waits for it.

use std::io::{self, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};

use tailbound_enforcement::{recover, state_directory};
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::control_socket::ProcessHandle;
use tailbound_linux::process::parent_of;
use tailbound_time::{Clock, Duration};

use super::Role;

/// A killed process takes a moment to leave its cgroup: so often, so far apart, is tried.
const ATTEMPTS: u32 = 50;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(100);

/// A killed process closes its files a moment before it has ended, and until it has, its journal is that
/// of a living one. If it has not for so long, restoring begins anyway.
const KILLED_WITHIN: Duration = Duration::from_secs(10);

/// What the restorer is told by a process that has taken back its changes itself.
const DONE: &[u8] = b"done";

/// The process, as long as it waits.
#[derive(Debug)]
pub struct Restorer(Child);

impl Restorer {
    /// Starts it. It is in a process group of its own, so that Ctrl-C does not reach it.
    pub fn start() -> io::Result<Self> {
        Command::new(std::env::current_exe()?)
            .args(Role::Restorer.arguments())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn()
            .map(Self)
    }

    /// Ends it, which restores the host if something is left to restore.
    ///
    /// # Errors
    /// If it could not; what is left is in its message on stderr.
    pub fn finish(mut self) -> io::Result<()> {
        let status = self.end()?;
        match status.success() {
            true => Ok(()),
            false => Err(io::Error::other(status.to_string())),
        }
    }

    /// The end of its input is the end of our need; one that comes without a word is our death.
    fn end(&mut self) -> io::Result<ExitStatus> {
        if let Some(mut input) = self.0.stdin.take() {
            // If it hears nothing it has ended, and its status tells.
            let _unheard = input.write_all(DONE);
        }
        self.0.wait()
    }
}

impl Drop for Restorer {
    /// After an error or a panic, of which more is to be told than of what the restorer says itself.
    fn drop(&mut self) {
        let _reaped = self.end();
    }
}

/// The restorer's side: waits until its parent has ended or needs it no more.
pub fn restore() -> io::Result<()> {
    let parent = ProcessHandle::open(parent_of(std::process::id())?);
    let mut heard = Vec::new();
    io::stdin().read_to_end(&mut heard)?;
    if let (Ok(parent), true) = (parent, heard != DONE)
        && !parent.wait_ended(KILLED_WITHIN)?
    {
        eprintln!("restorer: the process that started it does not end");
    }
    let mut last = Ok(());
    for _ in 0..ATTEMPTS {
        match recover(&state_directory()) {
            Ok(recovery) if recovery.failures.is_empty() => return Ok(()),
            Ok(recovery) => last = Err(io::Error::other(recovery.failures.join("; "))),
            Err(error) => last = Err(io::Error::other(error)),
        }
        sleep_until(Monotonic.now() + BETWEEN_ATTEMPTS)?;
    }
    last
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_restorer_that_fails_is_told() {
        let ends_with = |program: &str| {
            let mut command = Command::new(program);
            Restorer(command.stdin(Stdio::piped()).spawn().unwrap()).finish()
        };
        assert!(ends_with("true").is_ok());
        let error = ends_with("false").unwrap_err().to_string();
        assert!(error.contains("exit status: 1"), "{error}");
    }
}
