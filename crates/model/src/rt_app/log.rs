//! What is to be said about a workload.

use std::ops::Range;

use crate::problem::{Problem, Severity, SourceText};

/// Collects notes and errors with their places.
pub(super) struct Log<'a> {
    source: SourceText<'a>,
    said: Vec<Problem>,
}

impl<'a> Log<'a> {
    /// Nothing said yet about `source`.
    pub fn new(source: SourceText<'a>) -> Self {
        Self {
            source,
            said: Vec::new(),
        }
    }

    /// Something that must be right before the workload can be taken over.
    pub fn error(
        &mut self,
        span: &Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.say(Severity::Error, span, key, message, remedy);
    }

    /// Something that was left out and may matter.
    pub fn warn(
        &mut self,
        span: &Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.say(Severity::Warning, span, key, message, remedy);
    }

    /// Something that was understood in a certain way.
    pub fn note(
        &mut self,
        span: &Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        self.say(Severity::Note, span, key, message, remedy);
    }

    /// Any of these.
    pub fn say(
        &mut self,
        severity: Severity,
        span: &Range<usize>,
        key: impl Into<String>,
        message: impl Into<String>,
        remedy: &str,
    ) {
        let key: String = key.into().chars().take(200).collect();
        self.said.push(
            self.source
                .problem(severity, span.clone(), key, message, remedy),
        );
    }

    /// How many errors there are.
    pub fn errors(&self) -> usize {
        self.said
            .iter()
            .filter(|said| said.severity == Severity::Error)
            .count()
    }

    /// All that was said.
    pub fn into_said(self) -> Vec<Problem> {
        self.said
    }
}
