//! The daemon's log: lines on standard error, which is a file, a journal, a pipe or a terminal.

use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::AsFd;

use tailbound_linux::control_socket::takes_short_write;

/// The longest line, in bytes: what a pipe takes at once or not at all.
const LINE_BYTES_MAX: usize = 4096;

/// Writes one line, unless that would wait. A log that nobody reads must hold up neither the daemon
/// nor its watchdog, so such lines are lost, and errors with them (`eprintln!` would panic).
pub fn note(line: impl Display) {
    let mut text = format!("tailboundd[{}]: {line}", std::process::id()).into_bytes();
    text.truncate(LINE_BYTES_MAX - 1);
    text.push(b'\n');
    let mut stderr = io::stderr().lock();
    if takes_short_write(stderr.as_fd()) {
        let _ = stderr.write_all(&text);
    }
}
