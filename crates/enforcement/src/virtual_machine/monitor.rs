//! The little of QEMU's machine protocol (QMP) that tells the threads of virtual CPUs.
//!
//! A monitor serves one client, and may be stuck or somebody else: every wait is bounded in time, and
//! everything read is bounded in length.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tailbound_linux::control_socket::connect_non_blocking;
use tailbound_linux::control_socket::{PeerCredentials, peer_credentials};

/// How long a monitor may take for all that it is asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest message, in bytes; a virtual CPU takes some 200.
const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// So many events may come before an answer.
const EVENTS_MAX: usize = 1_000;

/// Why a monitor does not tell.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MonitorError {
    /// It cannot be reached, or talked to.
    #[error("{0}; is the machine running, with `-qmp unix:PATH,server=on,wait=off`?")]
    Unreachable(#[from] io::Error),
    /// It does not answer in time.
    #[error("no answer within 5 s; a monitor serves one client at a time, so end the other one")]
    Silent,
    /// It has closed the connection.
    #[error("it closed the connection")]
    Closed,
    /// It says more than a monitor does.
    #[error("it says more than any QMP monitor does")]
    TooMuch,
    /// It says something else.
    #[error("this is no QMP monitor: {0}")]
    NotQmp(String),
    /// It refuses.
    #[error("it refuses `{command}`: {reason}")]
    Refused {
        /// What was asked.
        command: &'static str,
        /// Why not.
        reason: String,
    },
}

/// A connection to a monitor.
#[derive(Debug)]
pub struct Monitor {
    stream: UnixStream,
    listener: PeerCredentials,
    until: Instant,
    received: Vec<u8>,
}

impl Monitor {
    /// Connects, and agrees on what is spoken.
    ///
    /// # Errors
    /// If nobody is there, or somebody else.
    pub fn connect(path: &Path) -> Result<Self, MonitorError> {
        let stream = connect_non_blocking(path)?;
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let listener = peer_credentials(&stream)?;
        let mut monitor = Self {
            stream,
            listener,
            until: Instant::now() + PATIENCE,
            received: Vec::new(),
        };
        let greeting = monitor.message()?;
        if greeting.get("QMP").is_none() {
            return Err(MonitorError::NotQmp(shown(&greeting)));
        }
        monitor.ask("qmp_capabilities")?;
        Ok(monitor)
    }

    /// Who listens at the socket, by what the kernel says.
    pub fn listener(&self) -> PeerCredentials {
        self.listener
    }

    /// The threads of the virtual CPUs, in their order. It may say what it likes: whose threads they are
    /// is to be looked up.
    ///
    /// # Errors
    /// If it does not tell.
    pub fn vcpus(&mut self) -> Result<Vec<u32>, MonitorError> {
        let answer = self.ask("query-cpus-fast")?;
        threads(&answer).ok_or_else(|| MonitorError::NotQmp(shown(&answer)))
    }

    fn ask(&mut self, command: &'static str) -> Result<Value, MonitorError> {
        let line = format!("{}\n", json!({ "execute": command }));
        self.stream.write_all(line.as_bytes()).map_err(in_time)?;
        for _ in 0..EVENTS_MAX {
            let mut message = self.message()?;
            if let Some(answer) = message.get_mut("return") {
                return Ok(answer.take());
            }
            if let Some(error) = message.get("error") {
                let reason = error.get("desc").and_then(Value::as_str);
                let reason = reason.map_or_else(|| shown(error), str::to_owned);
                return Err(MonitorError::Refused { command, reason });
            }
            if message.get("event").is_none() {
                return Err(MonitorError::NotQmp(shown(&message)));
            }
        }
        Err(MonitorError::TooMuch)
    }

    fn message(&mut self) -> Result<Value, MonitorError> {
        let mut bytes = [0; 16 * 1024];
        loop {
            if let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.received.drain(..=end).collect();
                return message_in(&line);
            }
            if self.received.len() > MESSAGE_BYTES_MAX {
                return Err(MonitorError::TooMuch);
            }
            let left = self.until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(MonitorError::Silent);
            }
            self.stream.set_read_timeout(Some(left))?;
            match self.stream.read(&mut bytes) {
                Ok(0) => return Err(MonitorError::Closed),
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(in_time(error)),
            }
        }
    }
}

fn in_time(error: io::Error) -> MonitorError {
    match error.kind() {
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => MonitorError::Silent,
        _ => MonitorError::Unreachable(error),
    }
}

fn message_in(line: &[u8]) -> Result<Value, MonitorError> {
    serde_json::from_slice(line).map_err(|_| {
        let text = String::from_utf8_lossy(line);
        MonitorError::NotQmp(text.chars().take(80).collect())
    })
}

fn shown(value: &Value) -> String {
    value.to_string().chars().take(80).collect()
}

/// The threads in an answer to `query-cpus-fast`.
pub(super) fn threads(answer: &Value) -> Option<Vec<u32>> {
    let mut vcpus = Vec::new();
    for one in answer.as_array()? {
        let index = one.get("cpu-index")?.as_u64()?;
        let thread = u32::try_from(one.get("thread-id")?.as_u64()?).ok()?;
        vcpus.push((index, thread));
    }
    vcpus.sort_unstable();
    (!vcpus.is_empty()).then(|| vcpus.into_iter().map(|(_, thread)| thread).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::os::unix::net::UnixListener;

    use proptest::prelude::*;

    use super::*;

    const GREETING: &str =
        r#"{"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": ["oob"]}}"#;
    const CPUS: &str = r#"{"return": [
        {"cpu-index": 1, "qom-path": "/machine/1", "thread-id": 41, "target": "x86_64"},
        {"cpu-index": 0, "qom-path": "/machine/0", "thread-id": 40, "target": "x86_64"}]}"#;

    /// What a monitor that says `lines` tells.
    fn vcpus_from(lines: &[u8]) -> Result<Vec<u32>, MonitorError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("qmp");
        let listener = UnixListener::bind(&path).unwrap();
        let lines = lines.to_vec();
        let monitor = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _left = stream.write_all(&lines);
            let _closed = stream.shutdown(std::net::Shutdown::Write);
            let _said = io::copy(&mut stream, &mut io::sink());
        });
        let vcpus = Monitor::connect(&path).and_then(|mut monitor| monitor.vcpus());
        monitor.join().unwrap();
        vcpus
    }

    fn lines(texts: &[&str]) -> Vec<u8> {
        let one_line = |text: &&str| text.replace('\n', " ") + "\r\n";
        texts.iter().map(one_line).collect::<String>().into_bytes()
    }

    #[test]
    fn threads_come_in_the_order_of_their_vcpus() {
        let event = r#"{"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 2}}"#;
        let all = lines(&[GREETING, event, r#"{"return": {}}"#, event, CPUS]);
        assert_eq!(vcpus_from(&all).unwrap(), [40, 41]);
    }

    #[test]
    fn what_is_no_monitor_is_told() {
        let ended = vcpus_from(b"").unwrap_err();
        assert!(matches!(ended, MonitorError::Closed), "{ended}");
        let other = vcpus_from(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap_err();
        assert!(other.to_string().contains("HTTP/1.1"), "{other}");
        let refused = lines(&[
            GREETING,
            r#"{"error": {"class": "GenericError", "desc": "busy"}}"#,
        ]);
        let refused = vcpus_from(&refused).unwrap_err();
        assert_eq!(refused.to_string(), "it refuses `qmp_capabilities`: busy");
        let endless = vcpus_from(&vec![b' '; 2 * MESSAGE_BYTES_MAX]).unwrap_err();
        assert!(matches!(endless, MonitorError::TooMuch), "{endless}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn nothing_that_a_monitor_says_panics(
            cut in 0_usize..400,
            changed in any::<u8>(),
            rest in prop::collection::vec(any::<u8>(), 0..60),
        ) {
            let mut all = lines(&[GREETING, r#"{"return": {}}"#, CPUS]);
            let place = cut.min(all.len() - 1);
            all[place] = changed;
            all.extend(rest);
            let _told = vcpus_from(&all);
        }
    }
}
