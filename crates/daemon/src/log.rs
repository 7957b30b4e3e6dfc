//! The daemon's log: lines on standard error, which is a file, a journal or a terminal.

use std::fmt::Display;
use std::io::{self, Write};

/// Writes one line. A log that cannot be written to never stops the daemon, so nothing is reported
/// (`eprintln!` would panic).
pub fn note(line: impl Display) {
    let text = format!("tailboundd[{}]: {line}\n", std::process::id());
    let _ = io::stderr().write_all(text.as_bytes());
}
