//! The seam for subsystems: what one of them adds to the report of a run.

use serde_json::Value;

use crate::{Plot, ReportError, RunReport, StackedPicture, Table, TimelinePicture, plots};

/// `ReportSection` is what a subsystem has in the report of a run: data in the document, tables for the
/// terminal and the page, plots of distributions, and pictures for the page. The report names no subsystem; whoever
/// renders it hands it the list of sections.
pub trait ReportSection: Sync {
    /// The key of its data in the document (see [`RunReport::sections`]).
    fn key(&self) -> &'static str;

    /// Checks data that was read from a document.
    ///
    /// # Errors
    /// What cannot be read.
    fn check(&self, data: &Value) -> serde_json::Result<()>;

    /// Its tables; those without a row are left out.
    fn tables(&self, report: &RunReport) -> Vec<Table>;

    /// Its distributions, which stand behind those of the services.
    fn plots(&self, _report: &RunReport) -> Vec<Plot> {
        Vec::new()
    }

    /// Its pictures on the page.
    fn pictures(&self, _report: &RunReport) -> Option<PictureSection> {
        None
    }
}

/// Pictures under a heading of a page; without one there is no heading.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureSection {
    /// A short name that stays the same, for links.
    pub id: &'static str,
    /// The heading.
    pub title: &'static str,
    /// One sentence on what is to be seen.
    pub note: String,
    /// Stacked columns, which stand first.
    pub stacks: Vec<StackedPicture>,
    /// The timelines.
    pub pictures: Vec<TimelinePicture>,
}

/// All plots of a report: those of its services, and then those of its sections.
pub fn report_plots(report: &RunReport, sections: &[&dyn ReportSection]) -> Vec<Plot> {
    let of_sections = sections.iter().flat_map(|section| section.plots(report));
    plots(report).into_iter().chain(of_sections).collect()
}

/// Checks the data of sections in a document that comes from a file.
///
/// # Errors
/// A section cannot read its data.
pub fn check_sections(
    report: &RunReport,
    sections: &[&dyn ReportSection],
) -> Result<(), ReportError> {
    for section in sections {
        if let Some(data) = report.sections.get(section.key()) {
            section.check(data)?;
        }
    }
    Ok(())
}
