//! What the report of a run says of mode changes: latencies by mode, the changes, and their courses.
//!
//! Modes are a subsystem: [`ModesSection`] stands in the list of sections, and the report itself knows
//! nothing of modes but the latencies that a measurement was split into.

mod tables;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_report::{PictureSection, ReportSection, RunReport, Table, TimelinePicture};
use tailbound_simulator::traces::TimelineTrack;

/// The key of the changes in the result document.
const KEY: &str = "mode_changes";

/// At most so many changes are drawn on a page; the table has all of them.
const MOST_DRAWN: usize = 6;

/// A change of modes that was made while something was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// The variant.
    pub variant: String,
    /// Its repetition, from 1.
    pub repetition: usize,
    /// The mode before.
    pub from: String,
    /// The mode that was asked for.
    pub to: String,
    /// How it ended, in words.
    pub ending: String,
    /// When it began, from the start of the load.
    pub began_after_ns: u64,
    /// From its begin to its end.
    pub latency_ns: Option<u64>,
    /// From its begin to the instant at which the last reservation was in force.
    pub in_force_after_ns: Option<u64>,
    /// Its course, in nanoseconds of CLOCK_MONOTONIC.
    pub tracks: Vec<TimelineTrack>,
}

/// The section of mode changes.
#[derive(Clone, Copy, Debug)]
pub struct ModesSection;

impl ModesSection {
    /// Puts the changes of a run into its document.
    ///
    /// # Errors
    /// A change cannot be written as JSON.
    pub fn put(report: &mut RunReport, changes: &[ModeChange]) -> serde_json::Result<()> {
        let data = serde_json::to_value(changes)?;
        report.sections.insert(KEY.into(), data);
        Ok(())
    }

    /// The changes in a document; none in one without them.
    pub fn changes(report: &RunReport) -> Vec<ModeChange> {
        let data = report.sections.get(KEY);
        data.and_then(|data| Vec::deserialize(data).ok())
            .unwrap_or_default()
    }
}

impl ReportSection for ModesSection {
    fn key(&self) -> &'static str {
        KEY
    }

    fn check(&self, data: &Value) -> serde_json::Result<()> {
        Vec::<ModeChange>::deserialize(data).map(|_| ())
    }

    fn tables(&self, report: &RunReport) -> Vec<Table> {
        let changes = Self::changes(report);
        vec![tables::latencies(report), tables::changes(&changes)]
    }

    fn pictures(&self, report: &RunReport) -> Option<PictureSection> {
        let changes = Self::changes(report);
        let pictures = changes.iter().take(MOST_DRAWN).map(picture).collect();
        let left_out = match changes.len().saturating_sub(MOST_DRAWN) {
            0 => String::new(),
            count => format!(" {count} later ones are in the table and the document only."),
        };
        Some(PictureSection {
            id: "mode-courses",
            title: "Courses of mode changes",
            note: format!(
                "What was done with the tasks and the reservation of each domain.{left_out}"
            ),
            stacks: Vec::new(),
            pictures,
        })
    }
}

fn picture(change: &ModeChange) -> TimelinePicture {
    TimelinePicture {
        title: format!(
            "{} \u{2192} {}, {} run {}",
            change.from, change.to, change.variant, change.repetition
        ),
        about: change.ending.clone(),
        tracks: change.tracks.clone(),
    }
}
