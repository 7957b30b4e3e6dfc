//! The daemon's log: lines on standard error, which is a file, systemd's journal, a pipe or a terminal.

use std::env;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use tailbound_linux::control_socket::takes_short_write;

/// The longest line, in bytes: what a pipe takes at once or not at all.
const LINE_BYTES_MAX: usize = 4096;

/// The variable by which systemd tells which file its journal reads, as device and inode (systemd.exec(5)).
const JOURNAL_VARIABLE: &str = "JOURNAL_STREAM";

/// The urgency of a line, by its number in syslog(3).
#[derive(Clone, Copy)]
enum Urgency {
    Warning = 4,
    Information = 6,
}

/// Writes one line about what was done.
pub fn note(line: impl Display) {
    write(Urgency::Information, &line);
}

/// Writes one line about what is not as it should be.
pub fn warn(line: impl Display) {
    write(Urgency::Warning, &line);
}

/// Writes one line, unless that would wait. A log that nobody reads must hold up neither the daemon
/// nor its watchdog, so such lines are lost, and errors with them (`eprintln!` would panic).
fn write(urgency: Urgency, line: &dyn Display) {
    let mut text = match goes_to_journal() {
        true => in_journal(urgency, line),
        false => format!("tailboundd[{}]: {line}", std::process::id()),
    }
    .into_bytes();
    text.truncate(LINE_BYTES_MAX - 1);
    text.push(b'\n');
    let mut stderr = io::stderr().lock();
    if takes_short_write(stderr.as_fd()) {
        let _ = stderr.write_all(&text);
    }
}

/// A line as the journal takes it: it has the name and the number of the process by itself, and takes each line of
/// a text for a message, so that each has its urgency in front (sd-daemon(3)).
fn in_journal(urgency: Urgency, line: &dyn Display) -> String {
    let number = urgency as u8;
    let text = line.to_string();
    let lines = text.lines().map(|line| format!("<{number}>{line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// Whether standard error is systemd's journal: it may have been sent elsewhere since the variable was set.
fn goes_to_journal() -> bool {
    static ANSWER: OnceLock<bool> = OnceLock::new();
    *ANSWER.get_or_init(|| {
        let Ok(stream) = env::var(JOURNAL_VARIABLE) else {
            return false;
        };
        let file = io::stderr().as_fd().try_clone_to_owned().map(File::from);
        file.and_then(|file| file.metadata())
            .is_ok_and(|file| is_stream(&stream, file.dev(), file.ino()))
    })
}

fn is_stream(stream: &str, device: u64, inode: u64) -> bool {
    stream == format!("{device}:{inode}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_in_the_journal_has_its_urgency() {
        assert_eq!(in_journal(Urgency::Information, &"ready"), "<6>ready");
        let refusal = "not restored:\n  cpu.max";
        assert_eq!(
            in_journal(Urgency::Warning, &refusal),
            "<4>not restored:\n<4>  cpu.max"
        );
    }

    #[test]
    fn standard_error_is_the_journal_only_if_it_is_the_file_that_was_named() {
        assert!(is_stream("8:21011", 8, 21_011));
        assert!(!is_stream("8:21011", 8, 21_012));
        assert!(!is_stream("8:21011", 9, 21_011));
        assert!(!is_stream("", 8, 21_011));
    }
}
