//! Why a sweep could not be made.

use std::io;
use std::path::PathBuf;

use tailbound_model::{Problem, Problems, Severity};

use crate::ExperimentError;

/// Why a sweep could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// What is varied was not told.
    #[error("{text:?} varies nothing: {what}; write KEY=V1,V2 or KEY=START..END/STEP")]
    Axis {
        /// What was written.
        text: String,
        /// What is wrong with it.
        what: String,
    },
    /// The description is not TOML.
    #[error("{0}")]
    Description(Problems),
    /// The description has no such key.
    #[error("the description has no {key}: {remedy}")]
    NoKey {
        /// The key, as far as it does not exist.
        key: String,
        /// What would be right.
        remedy: String,
    },
    /// Two axes vary the same key.
    #[error("{key} is varied twice; write all its values into one --vary")]
    VariedTwice {
        /// The key.
        key: String,
    },
    /// A point is no valid description.
    #[error("{point}: {}", in_words(problems))]
    Point {
        /// The point.
        point: String,
        /// What is wrong.
        problems: Problems,
    },
    /// A point has no such variant.
    #[error("there is no variant \"{name}\"; the experiment has: {known}")]
    NoVariant {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// Nothing to simulate, or more than a sweep holds.
    #[error("{units} simulations; a sweep has from 1 to {most}: points times seeds")]
    Units {
        /// How many were asked for.
        units: usize,
        /// The most.
        most: usize,
    },
    /// A unit that the sweep does not have.
    #[error("there is no unit {unit}; the sweep has {units}, counted from 0")]
    NoUnit {
        /// What was asked for.
        unit: usize,
        /// How many there are.
        units: usize,
    },
    /// A point cannot be simulated.
    #[error("{point}: {cause}")]
    Simulation {
        /// The point.
        point: String,
        /// Why not.
        cause: Box<ExperimentError>,
    },
    /// The journal belongs to another sweep.
    #[error(
        "{} is the journal of another sweep (another description, version or question); remove it, \
         or write to another file",
        journal.display()
    )]
    OtherSweep {
        /// The journal.
        journal: PathBuf,
    },
    /// Another process writes the same results.
    #[error("another sweep is writing {}; wait for it, or write to another file", journal.display())]
    Busy {
        /// The journal.
        journal: PathBuf,
    },
    /// A file cannot be read or written.
    #[error("cannot write {}: {cause}", file.display())]
    File {
        /// Which.
        file: PathBuf,
        /// What the system says.
        cause: io::Error,
    },
}

/// What is wrong with a point. Lines would be those of a text that nobody sees, but those of files
/// that it names are told.
fn in_words(problems: &Problems) -> String {
    let told = |problem: &Problem| match problem.key.as_str() {
        "" => problem.to_string(),
        key => format!("{key}: {}; {}", problem.message, problem.remedy),
    };
    let errors = problems
        .iter()
        .filter(|one| one.severity == Severity::Error);
    let errors: Vec<String> = errors.map(told).collect();
    errors.join("\n")
}
