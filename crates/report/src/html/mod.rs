//! The report as one page that needs nothing but a browser: no network, no other file.

mod background;
mod data;
mod escape;
mod page;
mod prediction;
mod sections;
mod sizing;

use crate::schedule::{self, SchedulePicture};
use crate::{ReportSection, RunReport, report_plots, tables, timeline};

pub(crate) use escape::escaped;
pub(crate) use page::{Page, PageScript, facts};
pub use prediction::{PredictedService, PredictionPage, render_prediction_html};
pub(crate) use sections::table_markup;
pub use sizing::{SizingGrid, SizingPage, render_sizing_html};

const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");

/// The report as an HTML page, with the sections of subsystems and with windows of simulated schedules
/// behind the distributions. It holds its own scripts, styles and data, loads nothing, and its content
/// security policy forbids any script but ours, whatever the names in the report are.
pub fn render_html(
    report: &RunReport,
    sections: &[&dyn ReportSection],
    schedules: &[SchedulePicture],
) -> String {
    let plots = report_plots(report, sections);
    let tables = tables(report, sections);
    let pictures = sections.iter().filter_map(|one| one.pictures(report));
    let content: String = [
        sections::interruptions(report),
        sections::promises(report),
        sections::warnings(report),
        sections::latencies(&plots),
        pictures.map(|one| timeline::section(&one)).collect(),
        schedule::section(schedules),
        tables
            .iter()
            .filter(|table| table.id != "verdicts")
            .map(sections::table_section)
            .collect(),
        background::variants(report),
        background::methods(report),
        background::host(report),
        background::repeat(report),
    ]
    .concat();
    let page = Page {
        title: &report.name,
        tailbound_version: &report.tailbound_version,
        skip_to: Some("promises"),
        facts: sections::facts(report),
        script: Some(PageScript {
            code: PAGE_SCRIPT,
            data_id: "report-data",
            data: data::page_data(report, &plots, &tables),
        }),
        content,
    };
    page.render()
}
