//! Intervals as they pass, in a file of CSV.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use tailbound_balance::{HoldReason, LevelReport};
use tailbound_time::Duration;

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
    pub fn write(
        &mut self,
        at: Duration,
        names: &[&str],
        held: &[Duration],
        reports: &[Result<LevelReport, HoldReason>],
    ) -> Result<(), Failure> {
        let each = names.iter().zip(held).zip(reports);
        let lines = each.map(|((name, capacity), report)| {
            let number = |number: Option<f64>| number.map_or(String::new(), |one| one.to_string());
            let measured = report.as_ref().ok();
            format!(
                "{},{name},{},{},{},{},{}\n",
                at.as_nanos(),
                capacity.as_nanos(),
                number(measured.map(|one| one.matching_value.as_f64())),
                number(measured.and_then(|one| one.service_level)),
                measured
                    .and_then(|one| one.latency)
                    .map_or(String::new(), |latency| latency.as_nanos().to_string()),
                report.as_ref().err().map_or(String::new(), quoted)
            )
        });
        self.append(&lines.collect::<String>())
    }

    fn append(&mut self, text: &str) -> Result<(), Failure> {
        self.file.write_all(text.as_bytes()).map_err(|error| {
            Failure::error(format!("cannot write {}: {error}", self.path.display()))
        })
    }
}

/// A reason as a field of CSV.
fn quoted(reason: &HoldReason) -> String {
    format!("\"{}\"", reason.to_string().replace('"', "\"\""))
}
