//! Generated sets as rows of fields.

use super::GeneratedTask;

/// The columns of a table of generated sets.
pub const COLUMNS: [&str; 7] = [
    "set",
    "task",
    "utilisation",
    "execution_ns",
    "period_ns",
    "deadline_ns",
    "offset_ns",
];

impl GeneratedTask {
    /// Execution time / period, after the execution time was rounded.
    pub fn utilisation_rounded(&self) -> f64 {
        self.execution.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    /// The fields of the task `name` of set number `set`, which counts from 1, in the order of
    /// [`COLUMNS`].
    pub fn fields(&self, set: u32, name: &str) -> [String; 7] {
        [
            set.to_string(),
            name.to_owned(),
            self.utilisation_rounded().to_string(),
            self.execution.as_nanos().to_string(),
            self.period.as_nanos().to_string(),
            self.deadline.as_nanos().to_string(),
            self.offset.as_nanos().to_string(),
        ]
    }
}
