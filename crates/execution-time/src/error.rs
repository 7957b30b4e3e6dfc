//! Why recorded data or a model cannot be used.

/// Why a recording cannot be read: the file, the place in it, and the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}{}: {what}; {right}", line_text(.line.as_ref()), key_text(.key.as_ref()))]
pub struct RecordingError {
    /// The file by its name.
    pub file: String,
    /// The line, counted from 1, where one is at fault.
    pub line: Option<u64>,
    /// The column or the event, where one is at fault.
    pub key: Option<String>,
    /// What is wrong.
    pub what: String,
    /// What would be right.
    pub right: String,
}

fn line_text(line: Option<&u64>) -> String {
    line.map_or_else(String::new, |line| format!(", line {line}"))
}

fn key_text(key: Option<&String>) -> String {
    key.map_or_else(String::new, |key| format!(", `{key}`"))
}

impl RecordingError {
    /// An error of a whole file.
    pub(crate) fn of_file(file: &str, what: impl Into<String>, right: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            key: None,
            what: what.into(),
            right: right.into(),
        }
    }

    /// The same error at a line.
    #[must_use]
    pub(crate) fn at_line(mut self, line: u64) -> Self {
        self.line = Some(line);
        self
    }

    /// The same error of a column or an event.
    #[must_use]
    pub(crate) fn of_key(mut self, key: &str) -> Self {
        self.key = Some(key.to_owned());
        self
    }
}

/// Why there is no model, or no answer from one.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The recording holds too little for a regression.
    #[error("{file}: {what}; {right}")]
    TooLittle {
        /// The recording.
        file: String,
        /// What is missing.
        what: String,
        /// What would be enough.
        right: String,
    },
    /// A file is no model.
    #[error(
        "{file} is no frequency model: {cause}; `tailbound model frequency DATA --out {file}` writes one"
    )]
    NoModel {
        /// The file.
        file: String,
        /// Why it cannot be read.
        cause: serde_json::Error,
    },
    /// A model of another version.
    #[error(
        "{file} has schema_version {version}; this program reads {supported}: fit the model again"
    )]
    Version {
        /// The file.
        file: String,
        /// Its version.
        version: u32,
        /// The version that can be read.
        supported: u32,
    },
    /// A model that contradicts itself.
    #[error("{file}, `{key}`: {what}; {right}")]
    Contradiction {
        /// The file.
        file: String,
        /// The field at fault.
        key: String,
        /// What is wrong.
        what: String,
        /// What would be right.
        right: String,
    },
    /// The counted workload lacks an event of the model.
    #[error(
        "{file} does not count `{counter}`, which the model needs; it has {present}: record again with that event"
    )]
    CounterMissing {
        /// The file with the counts.
        file: String,
        /// The missing event.
        counter: String,
        /// The events that are there.
        present: String,
    },
    /// A clock of the model is missing, or one is named that the model does not have.
    #[error("{what}; {right}")]
    SetPoint {
        /// What is wrong.
        what: String,
        /// What would be right.
        right: String,
    },
    /// The workload has been counted on another host, and no term of the model covers it.
    #[error("{0}")]
    Elsewhere(String),
}
