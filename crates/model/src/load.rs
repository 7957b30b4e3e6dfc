//! From a text or a file to a description.

use std::path::{Path, PathBuf};

use crate::description::Description;
use crate::problem::{Problems, Severity, Source};

/// A description and where it came from.
#[derive(Clone, Debug)]
pub struct LoadedDescription {
    /// The description.
    pub description: Description,
    /// The file.
    pub path: PathBuf,
    /// The file's text.
    pub text: String,
    /// Warnings about it; no errors.
    pub warnings: Problems,
}

impl LoadedDescription {
    /// The folder that relative paths in the description start from.
    pub fn base(&self) -> &Path {
        match self.path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        }
    }
}

/// Why a description could not be loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}: {source}; name a description file (TOML) that you may read", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// The file is not a description.
    #[error("{problems}")]
    Problems {
        /// The file's text, for rendering; lossy where it is not UTF-8.
        text: String,
        /// All that is wrong.
        problems: Problems,
    },
}

/// What a text says, and all that is wrong with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// The description; there if no problem is an error.
    pub description: Option<Description>,
    /// Errors and warnings.
    pub problems: Problems,
}

/// Reads `text` as a description; `file` names it in problems. Never panics.
pub fn check(text: &str, file: &str) -> Checked {
    let source = Source { file, text };
    match toml::from_str(text) {
        Ok(description) => Checked {
            description: Some(description),
            problems: Problems::default(),
        },
        Err(error) => Checked {
            description: None,
            problems: Problems::new(vec![source.problem(
                Severity::Error,
                error.span().unwrap_or(0..0),
                "",
                error.message(),
                "",
            )]),
        },
    }
}

/// Reads `text` as a description; `file` names it in problems. Warnings are dropped: [`check`]
/// keeps them.
///
/// # Errors
/// All that is wrong in it.
pub fn parse(text: &str, file: &str) -> Result<Description, Problems> {
    let Checked {
        description,
        problems,
    } = check(text, file);
    description.ok_or(problems)
}

/// Reads the description in the file `path`.
///
/// # Errors
/// If the file cannot be read, or all that is wrong in it.
pub fn load(path: impl AsRef<Path>) -> Result<LoadedDescription, LoadError> {
    let path = path.as_ref();
    let text = std::fs::read_to_string(path).map_err(|source| LoadError::Read {
        path: path.to_owned(),
        source,
    })?;
    let Checked {
        description,
        problems,
    } = check(&text, &path.display().to_string());
    match description {
        Some(description) => Ok(LoadedDescription {
            description,
            path: path.to_owned(),
            text,
            warnings: problems,
        }),
        None => Err(LoadError::Problems { text, problems }),
    }
}
