//! The result document as JSON.

use serde::Deserialize;

use crate::{REPORT_SCHEMA_VERSION, RunReport};

/// Why a result cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The text is no JSON, or not of this document.
    #[error("this is no result of a run: {0}")]
    Document(#[from] serde_json::Error),
    /// A later version wrote it.
    #[error(
        "the result has schema version {version}, and this program knows versions up to \
         {REPORT_SCHEMA_VERSION}; use a Tailbound that is at least as new as the one that wrote it"
    )]
    Newer {
        /// The version of the document.
        version: u32,
    },
    /// There never was such a version.
    #[error("schema version {version} does not exist; versions start at 1")]
    NoSuchVersion {
        /// The version of the document.
        version: u32,
    },
    /// A time of the run is none.
    #[error("\"{0}\" is no time of a run; write RFC 3339 in UTC, such as 2026-01-15T09:30:00Z")]
    Started(String),
    /// A number is none, such as a share computed from nothing.
    #[error("the result cannot be written as JSON: {0}")]
    Writing(serde_json::Error),
}

#[derive(Deserialize)]
struct Versioned {
    schema_version: u32,
}

impl RunReport {
    /// The document as JSON; durations are integers of nanoseconds in fields that end in `_ns`.
    ///
    /// # Errors
    /// [`ReportError::Writing`].
    pub fn to_json(&self) -> Result<String, ReportError> {
        serde_json::to_string(self).map_err(ReportError::Writing)
    }

    /// Reads a document of this or an earlier version.
    ///
    /// # Errors
    /// [`ReportError`] tells a later version from a text that is no result at all.
    pub fn from_json(text: &str) -> Result<Self, ReportError> {
        let Versioned { schema_version } = serde_json::from_str(text)?;
        match schema_version {
            0 => Err(ReportError::NoSuchVersion { version: 0 }),
            1..=REPORT_SCHEMA_VERSION => Ok(serde_json::from_str(text)?),
            version => Err(ReportError::Newer { version }),
        }
    }
}
