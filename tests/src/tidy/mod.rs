//! The checks of the house style that no compiler makes.
//!
//! Each check takes text and returns findings, so that a test can show the check failing.

pub mod back_ends;
pub mod layers;
pub mod licences;
pub mod metric_names;
pub mod modules;
pub mod names;
pub mod ratchet;
pub mod sizes;
pub mod source;
pub mod test_programs;
pub mod wording;

use std::fmt;

/// Something that the house style forbids.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// The file, from the top folder.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The problem, and the remedy.
    pub message: String,
}

impl Finding {
    /// A finding at a line of a file.
    pub fn new(file: &str, line: usize, message: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            line,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}:{}: {}", self.file, self.line, self.message)
    }
}

/// Fails with every finding, one a line.
pub fn assert_none(mut findings: Vec<Finding>) {
    findings.sort();
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings:\n{}",
        lines.len(),
        lines.join("\n")
    );
}
