//! The triggers of another process, switched and recorded through the socket that it serves
//! (`tailbound_trigger::listen`).

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use tailbound_trigger::{TriggerState, socket_name};

use crate::control_socket::{peer_credentials, send_with_descriptors};

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The reason why the triggers of a process cannot be reached, or a request was refused.
#[derive(Debug, thiserror::Error)]
pub enum TriggerControlError {
    /// No process of this number.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A program without triggers.
    #[error(
        "process {0} is built without triggers; build the program with the crate tailbound-trigger, or in C with \
         tailbound_trigger.h"
    )]
    NoTriggers(u32),
    /// A program with triggers that serves no socket.
    #[error(
        "process {0} has triggers, but does not listen; have the program call tailbound_trigger::listen, in C \
         tailbound_trigger_listen"
    )]
    NotListening(u32),
    /// A socket of the right name that another process serves.
    #[error("the socket of the triggers of process {pid} is served by process {server}")]
    Impostor {
        /// The process that was asked for.
        pid: u32,
        /// The process that answered.
        server: u32,
    },
    /// The connection was closed without an answer: to a process of another user.
    #[error("process {0} refuses the connection; only its user and root may switch its triggers")]
    NotAllowed(u32),
    /// The process refused a request.
    #[error("process {pid}: {answer}")]
    Refused {
        /// The process.
        pid: u32,
        /// Its answer.
        answer: String,
    },
    /// The connection failed.
    #[error("process {pid} does not answer: {source}")]
    Connection {
        /// The process.
        pid: u32,
        /// The error of the connection.
        source: io::Error,
    },
}

/// A connection to the triggers of a process. A recording ends with the connection that began it.
#[derive(Debug)]
pub struct TriggerControl {
    pid: u32,
    stream: BufReader<UnixStream>,
}

impl TriggerControl {
    /// Connects to process `pid`, which is in the same network and process namespaces.
    ///
    /// # Errors
    /// [`TriggerControlError`], which says whether the program has triggers.
    pub fn connect(pid: u32) -> Result<Self, TriggerControlError> {
        let failed = |source| TriggerControlError::Connection { pid, source };
        let address = SocketAddr::from_abstract_name(socket_name(pid)).map_err(failed)?;
        let stream = match UnixStream::connect_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Err(without_socket(pid));
            }
            other => other.map_err(failed)?,
        };
        let server = peer_credentials(&stream).map_err(failed)?.pid;
        if server != pid {
            return Err(TriggerControlError::Impostor { pid, server });
        }
        for set in [UnixStream::set_read_timeout, UnixStream::set_write_timeout] {
            set(&stream, Some(PATIENCE)).map_err(failed)?;
        }
        let stream = BufReader::new(stream);
        Ok(Self { pid, stream })
    }

    /// The process.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// The triggers of the process by name.
    ///
    /// # Errors
    /// [`TriggerControlError`].
    pub fn triggers(&mut self) -> Result<Vec<TriggerState>, TriggerControlError> {
        let lines = self.request("list")?;
        let mut states: Vec<TriggerState> = Vec::new();
        let mut parsed: Vec<_> = lines.iter().filter_map(|line| state(line)).collect();
        parsed.sort_by(|one, other| one.name.cmp(&other.name));
        // The library in C names every copy.
        for next in parsed {
            match states.last_mut().filter(|last| last.name == next.name) {
                Some(last) => last.copies += next.copies,
                None => states.push(next),
            }
        }
        Ok(states)
    }

    /// Switches the triggers on that fit `pattern`.
    ///
    /// # Errors
    /// [`TriggerControlError`].
    pub fn enable(&mut self, pattern: &str) -> Result<(), TriggerControlError> {
        self.request(&format!("enable {pattern}")).map(drop)
    }

    /// Switches the triggers off that fit `pattern`.
    ///
    /// # Errors
    /// [`TriggerControlError`].
    pub fn disable(&mut self, pattern: &str) -> Result<(), TriggerControlError> {
        self.request(&format!("disable {pattern}")).map(drop)
    }

    /// Has the process record into `file`, an anonymous one of `RecordingLayout`, until [`Self::stop`] or the end of
    /// this connection.
    ///
    /// # Errors
    /// [`TriggerControlError`], such as while another recording of the process is under way.
    pub fn record(&mut self, file: &File) -> Result<(), TriggerControlError> {
        let pid = self.pid;
        let failed = |source| TriggerControlError::Connection { pid, source };
        send_with_descriptors(self.stream.get_ref(), b"record\n", &[file.as_fd()])
            .map_err(failed)?;
        self.answer().map(drop)
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// [`TriggerControlError`].
    pub fn stop(&mut self) -> Result<(), TriggerControlError> {
        self.request("stop").map(drop)
    }

    fn request(&mut self, line: &str) -> Result<Vec<String>, TriggerControlError> {
        let sent = self
            .stream
            .get_mut()
            .write_all(format!("{line}\n").as_bytes());
        sent.map_err(|source| self.broken(source))?;
        self.answer()
    }

    fn answer(&mut self) -> Result<Vec<String>, TriggerControlError> {
        let mut lines = Vec::new();
        loop {
            let mut line = String::new();
            match self.stream.read_line(&mut line) {
                Ok(0) => return Err(TriggerControlError::NotAllowed(self.pid)),
                Ok(_) => {}
                Err(source) => return Err(self.broken(source)),
            }
            let line = line.trim_end();
            if let Some(answer) = line.strip_prefix("error ") {
                let (pid, answer) = (self.pid, answer.to_owned());
                return Err(TriggerControlError::Refused { pid, answer });
            }
            if line.starts_with("ok ") {
                return Ok(lines);
            }
            lines.push(line.to_owned());
        }
    }

    fn broken(&self, source: io::Error) -> TriggerControlError {
        let pid = self.pid;
        match source.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => {
                TriggerControlError::NotAllowed(pid)
            }
            _ => TriggerControlError::Connection { pid, source },
        }
    }
}

/// The path at which another process of the same user opens a file of this process, for as long as this one runs.
pub fn path_for_others(file: &File) -> PathBuf {
    PathBuf::from(format!(
        "/proc/{}/fd/{}",
        std::process::id(),
        file.as_raw_fd()
    ))
}

/// The trigger of a line `NAME on|off COPIES`.
fn state(line: &str) -> Option<TriggerState> {
    let mut words = line.rsplitn(3, ' ');
    let copies = words.next()?.parse().ok()?;
    let is_enabled = words.next()? == "on";
    let name = words.next()?.to_owned();
    Some(TriggerState {
        name,
        is_enabled,
        copies,
    })
}

/// The reason why a process serves no socket: its program has the note of triggers, or not.
fn without_socket(pid: u32) -> TriggerControlError {
    const NOTE_SECTION: &[u8] = b".note.tailbound";
    match std::fs::read(format!("/proc/{pid}/exe")) {
        Ok(program)
            if program
                .windows(NOTE_SECTION.len())
                .any(|it| it == NOTE_SECTION) =>
        {
            TriggerControlError::NotListening(pid)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            TriggerControlError::NoProcess(pid)
        }
        _ => TriggerControlError::NoTriggers(pid),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::process::die_with_parent;
    use tailbound_trigger::layout::RecordingLayout;
    use tailbound_trigger::{RecordingReader, listen, trigger};

    #[test]
    fn a_process_that_listens_is_switched_and_recorded() {
        let pid = std::process::id();
        let before = TriggerControl::connect(pid).unwrap_err();
        assert!(
            matches!(before, TriggerControlError::NotListening(_)),
            "{before}"
        );
        listen().unwrap();
        let mut control = TriggerControl::connect(pid).unwrap();
        let name = "linux.test";
        let mine = |control: &mut TriggerControl| {
            let triggers = control.triggers().unwrap();
            triggers.into_iter().find(|it| it.name == name).unwrap()
        };
        assert!(!mine(&mut control).is_enabled);
        control.enable("linux.t*").unwrap();
        assert!(mine(&mut control).is_enabled);
        let file = RecordingLayout::default().anonymous_file().unwrap();
        control.record(&file).unwrap();
        let mut second = TriggerControl::connect(pid).unwrap();
        let refusal = second.record(&file).unwrap_err().to_string();
        let expected = "another recording of this process is under way";
        assert_eq!(refusal, format!("process {pid}: {expected}"));
        let open = unsealed();
        assert!(
            second
                .record(&open)
                .unwrap_err()
                .to_string()
                .contains("sealed")
        );
        let refusal = second.enable("no.such").unwrap_err().to_string();
        assert!(
            refusal.contains("no trigger of the program fits \"no.such\""),
            "{refusal}"
        );
        trigger!("linux.test", 5);
        // The recording ends with its connection, and so a second one may begin.
        drop(control);
        let again = RecordingLayout::default().anonymous_file().unwrap();
        let started = (0..1000).find(|_| {
            std::thread::sleep(Duration::from_millis(5));
            second.record(&again).is_ok()
        });
        assert!(started.is_some());
        trigger!("linux.test", 6);
        second.disable("linux.*").unwrap();
        trigger!("linux.test", 7);
        second.stop().unwrap();
        let mut arguments = Vec::new();
        let mut reader = RecordingReader::open(&again).unwrap();
        reader.drain(|event| arguments.push(event.arguments()[0]));
        assert_eq!(arguments, [6]);
    }

    /// Memory that may be shortened under its writers.
    fn unsealed() -> File {
        // SAFETY: the name is a constant string, and the descriptor is new.
        let file = unsafe {
            let raw = libc::memfd_create(c"test".as_ptr(), libc::MFD_CLOEXEC);
            <File as std::os::fd::FromRawFd>::from_raw_fd(raw)
        };
        RecordingLayout::default().prepare(&file).unwrap();
        file
    }

    #[test]
    fn a_program_without_triggers_and_no_program_are_told_apart() {
        let none = TriggerControl::connect(u32::MAX / 4).unwrap_err();
        assert!(matches!(none, TriggerControlError::NoProcess(_)), "{none}");
        let mut sleeper = std::process::Command::new("sleep");
        let mut sleeper = die_with_parent(sleeper.arg("600")).spawn().unwrap();
        let without = TriggerControl::connect(sleeper.id()).unwrap_err();
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(
            matches!(without, TriggerControlError::NoTriggers(_)),
            "{without}"
        );
    }
}
