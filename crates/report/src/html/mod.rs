//! The report as one page that needs nothing but a browser: no network, no other file.

mod background;
mod data;
mod escape;
mod head;
mod sections;
mod sizing;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::schedule::{self, SchedulePicture};
use crate::{ReportSection, RunReport, plots, tables, timeline};

pub(crate) use escape::escaped;
pub(crate) use head::head;
pub use sizing::{SizingGrid, SizingPage, SizingPoint, render_sizing_html};

const CHART_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const CHART_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");
const PAGE_STYLE: &str = include_str!("../../assets/page.css");

/// The report as an HTML page, with the sections of subsystems and with windows of simulated schedules
/// behind the distributions. It holds its own scripts, styles and data, loads nothing, and its content
/// security policy forbids any script but ours, whatever the names in the report are.
pub fn render_html(
    report: &RunReport,
    sections: &[&dyn ReportSection],
    schedules: &[SchedulePicture],
) -> String {
    let plots = plots(report);
    let tables = tables(report, sections);
    let pictures = sections.iter().filter_map(|one| one.pictures(report));
    let data = data::page_data(report, &plots, &tables).to_string();
    let content: String = [
        sections::header(report),
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
    let head = head(
        &report.name,
        &report.tailbound_version,
        &[CHART_SCRIPT, PAGE_SCRIPT],
    );
    format!(
        "{head}<a class=\"skip\" href=\"#promises\">Skip to the results</a>\n\
         {content}\
         <script type=\"application/json\" id=\"report-data\">{}</script>\n\
         <script>{CHART_SCRIPT}</script>\n<script>{PAGE_SCRIPT}</script>\n</body>\n</html>\n",
        escape::escaped_json(&data),
    )
}

/// The source expression by which a content security policy allows exactly this script.
fn script_hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}
