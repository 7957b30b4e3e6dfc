//! Why a campaign could not be made or finished.

use std::path::PathBuf;

use tailbound_model::Problem;
use tailbound_sweep::{JournalError, SweepError};

use crate::ExperimentError;

/// Why a campaign could not be made or finished. The points that were measured before are in the journal.
#[derive(Debug, thiserror::Error)]
pub enum SampleError {
    /// The description has no campaign.
    #[error(
        "the description has no table [sampling]; add one with `share`, `period` or `axes`, such as \
         share = \"20..90/10\""
    )]
    NoCampaign,
    /// A point is no description, or the host cannot have its reservations.
    #[error("{0}")]
    Point(Box<Problem>),
    /// The values of a point cannot be written.
    #[error(transparent)]
    Values(#[from] SweepError),
    /// The certificates of a metric cannot be read.
    #[error("sampling.metrics.{metric}: {cause}")]
    Certificates {
        /// The metric.
        metric: String,
        /// What is wrong, and what would be right.
        cause: String,
    },
    /// Another campaign writes the same folder.
    #[error("another campaign is writing {}; wait for its end, or write to another folder with --out", folder.display())]
    Busy {
        /// The folder.
        folder: PathBuf,
    },
    /// The folder has the points of another description.
    #[error(
        "{} has the points of another description, seed or version of Tailbound; write to another folder with \
         --out, or remove this one", folder.display()
    )]
    OtherCampaign {
        /// The folder.
        folder: PathBuf,
    },
    /// The journal cannot be kept, such as on a full disk.
    #[error(
        "the journal of the campaign: {0}; the points before are kept, and the same command goes on from there"
    )]
    Journal(JournalError),
    /// The journal holds something that is no record.
    #[error("unit {unit} of {} is no record: {cause}; write to another folder with --out", journal.display())]
    Record {
        /// The journal.
        journal: PathBuf,
        /// The unit.
        unit: usize,
        /// What is wrong with it.
        cause: String,
    },
    /// Nothing could be measured at one point after the other.
    #[error("no result at {points} points one after the other; the last one: {cause}")]
    Failing {
        /// How many.
        points: usize,
        /// Why the last one has none.
        cause: String,
    },
    /// A file is no model of a campaign.
    #[error("{} is no model of a campaign: {cause}; name the model.json of a `tailbound sample`", file.display())]
    Model {
        /// The file.
        file: PathBuf,
        /// What is wrong with it.
        cause: String,
    },
    /// A description has no place in a model.
    #[error("{what}; {remedy}")]
    Question {
        /// What is wrong.
        what: String,
        /// What would be right.
        remedy: String,
    },
    /// The application or the host fails.
    #[error(transparent)]
    Experiment(#[from] ExperimentError),
}

impl SampleError {
    /// The error of a journal in a folder.
    pub(super) fn of_journal(error: JournalError, folder: PathBuf) -> Self {
        match error {
            JournalError::InUse { .. } => Self::Busy { folder },
            JournalError::OtherTitle { .. } => Self::OtherCampaign { folder },
            error @ JournalError::Write { .. } => Self::Journal(error),
        }
    }
}
