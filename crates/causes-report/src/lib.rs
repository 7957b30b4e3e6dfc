//! What the report of a run says of causes: what requests waited for, as it was measured beside what the simulation
//! predicts.

mod pictures;
mod tables;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_report::{PictureSection, ReportSection, RunReport, Table};
use tailbound_trace::explain::Explanation;

pub use tables::{CauseLine, band_name, cause_lines, percent};

/// The key of the explanations in the result document.
const KEY: &str = "latency_causes";

/// The explanations of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyCauses {
    /// Of the recordings.
    pub measured: Vec<Explanation>,
    /// Of the simulation of each variant.
    pub simulated: Vec<Explanation>,
}

impl LatencyCauses {
    /// The simulated explanation that a measured one is compared with: that of its service and variant.
    pub fn prediction_of(&self, measured: &Explanation) -> Option<&Explanation> {
        let variant = measured.variant().unwrap_or_default();
        let mut simulated = self.simulated.iter();
        simulated.find(|one| one.subject == measured.subject && one.run == variant)
    }
}

/// The section of causes.
#[derive(Clone, Copy, Debug)]
pub struct CausesSection;

impl CausesSection {
    /// Puts the explanations of a run into its document; nothing where nothing was recorded.
    ///
    /// # Errors
    /// They cannot be written as JSON.
    pub fn put(report: &mut RunReport, causes: &LatencyCauses) -> serde_json::Result<()> {
        if !causes.measured.is_empty() {
            let data = serde_json::to_value(causes)?;
            report.sections.insert(KEY.into(), data);
        }
        Ok(())
    }

    /// The explanations in a document; none in one without them.
    pub fn causes(report: &RunReport) -> LatencyCauses {
        let data = report.sections.get(KEY);
        data.and_then(|data| LatencyCauses::deserialize(data).ok())
            .unwrap_or_default()
    }
}

impl ReportSection for CausesSection {
    fn key(&self) -> &'static str {
        KEY
    }

    fn check(&self, data: &Value) -> serde_json::Result<()> {
        LatencyCauses::deserialize(data).map(|_| ())
    }

    fn tables(&self, report: &RunReport) -> Vec<Table> {
        vec![tables::causes(&Self::causes(report))]
    }

    fn pictures(&self, report: &RunReport) -> Option<PictureSection> {
        Some(pictures::section(&Self::causes(report)))
    }
}
