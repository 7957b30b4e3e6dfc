//! Why a sweep could not be made.

use std::io;
use std::path::PathBuf;

use tailbound_analysis::resolution::ResolutionError;
use tailbound_model::{AxisError, Problem, Problems, Severity};
use tailbound_simulator::host::HostError;

/// Why a sweep could not be made.
#[derive(Debug, thiserror::Error)]
pub enum SweepError {
    /// A text varies nothing.
    #[error(transparent)]
    Axis(#[from] AxisError),
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
    /// An axis varies the seed, which each point has several of anyway.
    #[error(
        "seed is no key to vary: each point is simulated with several seeds; leave it out and give \
             how many (--seeds 10, seeds=10), which count on from the description's"
    )]
    SeedVaried,
    /// Two points are the same description.
    #[error("{first} and {second} are the same description; leave one of the values out")]
    SamePoint {
        /// One of them.
        first: String,
        /// The other one.
        second: String,
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
    #[error("there is no variant \"{name}\"; the experiment has: {variants}")]
    NoVariant {
        /// What was asked for.
        name: String,
        /// What there is.
        variants: String,
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
    /// At a point it is not known what the domains get.
    #[error("{point}: {cause}")]
    Resolution {
        /// The point.
        point: String,
        /// Why not.
        cause: ResolutionError,
    },
    /// A point cannot be simulated.
    #[error("{point}: {cause}")]
    Simulation {
        /// The point.
        point: String,
        /// Why not.
        cause: Box<HostError>,
    },
    /// Results are asked for before all units are there.
    #[error("{finished} of {units} units are finished; add the others first")]
    Unfinished {
        /// How many are there.
        finished: usize,
        /// How many there are to be.
        units: usize,
    },
    /// Bytes that are no sweep, or a sweep that cannot be packed.
    #[error("the parcel of a sweep: {what}")]
    Parcel {
        /// What is wrong.
        what: String,
    },
    /// The journal belongs to another sweep.
    #[error(
        "{} is the journal of another sweep (another description, version, engine or question); remove it, \
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
    let line = |problem: &Problem| match problem.key.as_str() {
        "" => problem.to_string(),
        key => format!("{key}: {}; {}", problem.message, problem.remedy),
    };
    let errors = problems
        .iter()
        .filter(|one| one.severity == Severity::Error);
    let errors: Vec<String> = errors.map(line).collect();
    errors.join("\n")
}
