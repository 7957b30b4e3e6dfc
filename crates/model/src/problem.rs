//! What is wrong in a file, where, and what would be right.

use std::fmt;
use std::ops::Range;

use serde::{Deserialize, Serialize};

/// How much a problem matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Something was left out or understood in a certain way; the result is usable.
    Note,
    /// It can be used, but not as one would wish.
    Warning,
    /// It cannot be used.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(match self {
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Error => "error",
        })
    }
}

/// One thing that is wrong in a file.
///
/// Its plain rendering is `FILE:LINE:COLUMN: SEVERITY: KEY: MESSAGE`, then `  help: REMEDY` on a
/// line of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Problem {
    /// How much it matters.
    pub severity: Severity,
    /// The file, as the caller named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
    /// The bytes of the file that it is about; within the file, on character boundaries.
    pub span: Range<usize>,
    /// The key that it is about, such as `domains.cache.reservation.budget`; empty for the whole
    /// file.
    pub key: String,
    /// What is wrong.
    pub message: String,
    /// What would be right; empty if nothing can be advised.
    pub remedy: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (file, line, column) = (&self.file, self.line, self.column);
        write!(out, "{file}:{line}:{column}: {}: ", self.severity)?;
        if !self.key.is_empty() {
            write!(out, "{}: ", self.key)?;
        }
        out.write_str(&self.message)?;
        if !self.remedy.is_empty() {
            write!(out, "\n  help: {}", self.remedy)?;
        }
        Ok(())
    }
}

/// All that is wrong in a file, in the order of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Those problems, sorted by file and place.
    pub fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort_by(|a, b| {
            let place = |p: &Problem| (p.file.clone(), p.span.start, p.span.end);
            place(a).cmp(&place(b))
        });
        problems.dedup();
        Self(problems)
    }

    /// Whether one of them is an error.
    pub fn has_errors(&self) -> bool {
        self.iter().any(|p| p.severity == Severity::Error)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Each of them.
    pub fn iter(&self) -> std::slice::Iter<'_, Problem> {
        self.0.iter()
    }

    /// Those and these, sorted again.
    pub fn merged(self, other: Self) -> Self {
        Self::new(self.0.into_iter().chain(other.0).collect())
    }
}

impl IntoIterator for Problems {
    type Item = Problem;
    type IntoIter = std::vec::IntoIter<Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Problems {
    type Item = &'a Problem;
    type IntoIter = std::slice::Iter<'a, Problem>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.iter().enumerate() {
            if index > 0 {
                out.write_str("\n")?;
            }
            write!(out, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

/// A text and its name, from which problems get their lines and columns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SourceText<'a> {
    /// The file, as the caller named it.
    pub file: &'a str,
    /// Its text.
    pub text: &'a str,
}

impl SourceText<'_> {
    /// A problem at `span`, which is first cut to the text and its character boundaries.
    pub fn problem(
        &self,
        severity: Severity,
        span: Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Problem {
        let length = self.text.len();
        let is_boundary = |at: &usize| self.text.is_char_boundary(*at);
        let start = (0..=span.start.min(length))
            .rev()
            .find(is_boundary)
            .unwrap_or(0);
        let end = (span.end.clamp(start, length)..=length)
            .find(is_boundary)
            .unwrap_or(length);
        let before = &self.text[..start];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        Problem {
            severity,
            file: self.file.to_owned(),
            line: before.bytes().filter(|byte| *byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            span: start..end,
            key: key.into(),
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}
