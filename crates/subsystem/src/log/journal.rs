//! systemd's journal as the log: entries by its native protocol, which has fields.

use std::env;
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixDatagram;

use tailbound_linux::host_managers::DAEMON_UNIT;
use tailbound_linux::named_cgroup::full_unit_name;

use super::LogEntry;

/// The socket of the journal's native protocol.
const SOCKET: &str = "/run/systemd/journal/socket";

/// The variable by which systemd tells which file its journal reads, as device and inode (systemd.exec(5)).
const STREAM_VARIABLE: &str = "JOURNAL_STREAM";

/// A field by which `journalctl --unit` finds an entry about a unit. The daemon is in no cgroup of its unit, by which
/// the journal would know it.
const UNIT_FIELD: &str = "OBJECT_SYSTEMD_UNIT";

/// The journal that standard error is.
pub(super) struct SystemdJournal(UnixDatagram);

impl SystemdJournal {
    /// The journal, if standard error goes there.
    pub fn of_standard_error() -> Option<Self> {
        if !goes_to_journal() {
            return None;
        }
        let socket = UnixDatagram::unbound().ok()?;
        socket.set_nonblocking(true).ok()?;
        Some(Self(socket))
    }

    /// Sends an entry, unless that would wait; whether it was taken.
    pub fn send(&self, urgency: u8, entry: &LogEntry) -> bool {
        self.0.send_to(&encoded(urgency, entry), SOCKET).is_ok()
    }
}

/// An entry in the native protocol (systemd.io/JOURNAL_NATIVE_PROTOCOL).
fn encoded(urgency: u8, entry: &LogEntry) -> Vec<u8> {
    let mut bytes = Vec::new();
    add(&mut bytes, "PRIORITY", &urgency.to_string());
    add(&mut bytes, "SYSLOG_IDENTIFIER", "tailboundd");
    add(&mut bytes, UNIT_FIELD, DAEMON_UNIT);
    add(&mut bytes, "MESSAGE", &entry.message);
    for (name, value) in &entry.fields {
        add(
            &mut bytes,
            &format!("TAILBOUND_{}", name.to_uppercase()),
            value,
        );
        if *name == "unit" {
            add(&mut bytes, UNIT_FIELD, &full_unit_name(value));
        }
    }
    bytes
}

fn add(bytes: &mut Vec<u8>, name: &str, value: &str) {
    bytes.extend(name.as_bytes());
    if value.contains('\n') {
        bytes.push(b'\n');
        bytes.extend((value.len() as u64).to_le_bytes());
    } else {
        bytes.push(b'=');
    }
    bytes.extend(value.as_bytes());
    bytes.push(b'\n');
}

/// An entry without fields as lines of standard error: the journal takes each line for a message, so that each has its
/// urgency in front (sd-daemon(3)).
pub(super) fn lines(urgency: u8, message: &str) -> String {
    let lines = message.lines().map(|line| format!("<{urgency}>{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether standard error is systemd's journal: it may have been sent elsewhere since the variable was set.
fn goes_to_journal() -> bool {
    let Ok(stream) = env::var(STREAM_VARIABLE) else {
        return false;
    };
    let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
    file.and_then(|file| file.metadata())
        .is_ok_and(|file| is_stream(&stream, file.dev(), file.ino()))
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_encoded_with_their_fields() {
        let entry = LogEntry {
            message: "not restored:\n  cpu.max".into(),
            fields: vec![("domain", "redis".into()), ("unit", "redis-server".into())],
        };
        let mut expected: Vec<u8> = Vec::new();
        expected.extend(
            b"PRIORITY=4\nSYSLOG_IDENTIFIER=tailboundd\nOBJECT_SYSTEMD_UNIT=tailboundd.service\n",
        );
        expected.extend(
            b"MESSAGE\n\x17\0\0\0\0\0\0\0not restored:\n  cpu.max\nTAILBOUND_DOMAIN=redis\n",
        );
        expected.extend(b"TAILBOUND_UNIT=redis-server\nOBJECT_SYSTEMD_UNIT=redis-server.service\n");
        assert_eq!(encoded(4, &entry), expected);
    }

    #[test]
    fn each_line_without_fields_has_its_urgency() {
        assert_eq!(lines(6, "ready"), "<6>ready");
        let refusal = "not restored:\n  cpu.max";
        assert_eq!(lines(4, refusal), "<4>not restored:\n<4>  cpu.max");
    }

    #[test]
    fn standard_error_is_the_journal_only_if_it_is_the_file_that_was_named() {
        assert!(is_stream("8:21011", 8, 21_011));
        assert!(!is_stream("8:21011", 8, 21_012));
        assert!(!is_stream("8:21011", 9, 21_011));
        assert!(!is_stream("", 8, 21_011));
    }
}
