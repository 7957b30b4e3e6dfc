//! Intervals as they pass, in a file of CSV.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tailbound_balance::HoldReason;
use tailbound_balance_manager::{DivisionState, IntervalEntry, PassedInterval};

use super::simulation_answer::STEPS;
use crate::failure::Failure;

/// `IntervalLog` is a file that gets a line for each application at the end of each interval.
pub struct IntervalLog {
    path: PathBuf,
    file: File,
}

impl IntervalLog {
    /// An empty file with a header.
    pub fn create(path: &Path) -> Result<Self, Failure> {
        let file = File::create(path)
            .map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))?;
        let mut log = Self {
            path: path.to_owned(),
            file,
        };
        log.append(&format!("{},hold\n", STEPS.join(",")))?;
        Ok(log)
    }

    /// The capacities that held in an interval, and the reports at its end.
    pub fn write(&mut self, state: &DivisionState, passed: &PassedInterval) -> Result<(), Failure> {
        let names = state.applications.iter().map(|one| one.name.as_str());
        let lines = names
            .zip(&passed.entries)
            .map(|(name, entry)| line(passed.at_ns, name, entry));
        self.append(&lines.collect::<String>())
    }

    fn append(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| {
            Failure::error(format!("cannot write {}: {error}", self.path.display()))
        })
    }
}

fn line(at_ns: u64, name: &str, entry: &IntervalEntry) -> String {
    let number = |number: Option<f64>| number.map_or(String::new(), |one| one.to_string());
    let latency_ns = entry.latency_ns;
    format!(
        "{at_ns},{name},{},{},{},{},{}\n",
        entry.capacity_ns,
        number(entry.matching_value),
        number(entry.service_level),
        latency_ns.map_or(String::new(), |latency_ns| latency_ns.to_string()),
        entry.hold_reason.as_ref().map_or(String::new(), quoted)
    )
}

/// A reason as a field of CSV.
fn quoted(reason: &HoldReason) -> String {
    format!("\"{}\"", reason.to_string().replace('"', "\"\""))
}
