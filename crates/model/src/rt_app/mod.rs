//! rt-app workloads: JSON in and out.

use crate::description::Description;
use crate::problem::{Problem, Problems, Severity, Source};

/// A description made from an rt-app workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The description.
    pub description: Description,
    /// What could not be taken over, or was understood in a certain way, with its line.
    pub notes: Vec<Problem>,
}

/// Reads an rt-app workload; `file` names it in problems. Never panics.
///
/// # Errors
/// All that is wrong in it.
pub fn import(text: &str, file: &str) -> Result<Imported, Problems> {
    let source = Source { file, text };
    Err(Problems::new(vec![source.problem(
        Severity::Error,
        0..0,
        "",
        "rt-app workloads cannot be read yet",
        "write the description as TOML",
    )]))
}
