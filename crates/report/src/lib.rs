//! Results of a run: one document, rendered as JSON, HTML, SVG and PNG.

pub mod run_report;

pub use run_report::*;
