//! The report as one page that needs nothing but a browser: no network, no other file.

mod background;
mod data;
mod escape;
mod sections;
mod sizing;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest as _, Sha256};

use crate::schedule::{self, SchedulePicture};
use crate::{RunReport, plots, tables, timeline};

pub(crate) use escape::escaped;
pub use sizing::{SizingGrid, SizingPage, SizingPoint, render_sizing_html};

const CHART_SCRIPT: &str = include_str!("../../assets/uPlot.iife.min.js");
const CHART_STYLE: &str = include_str!("../../assets/uPlot.min.css");
const PAGE_SCRIPT: &str = include_str!("../../assets/page.js");
pub(crate) const PAGE_STYLE: &str = include_str!("../../assets/page.css");

/// The report as an HTML page. It holds its own scripts, styles and data, loads nothing, and its
/// content security policy forbids any script but ours, whatever the names in the report are.
pub fn render_html(report: &RunReport) -> String {
    render_html_with_schedules(report, &[])
}

/// The same with windows of simulated schedules behind the distributions.
pub fn render_html_with_schedules(report: &RunReport, schedules: &[SchedulePicture]) -> String {
    let plots = plots(report);
    let tables = tables(report);
    let data = data::page_data(report, &plots, &tables).to_string();
    let sections: String = [
        sections::header(report),
        sections::interruptions(report),
        sections::promises(report),
        sections::warnings(report),
        sections::latencies(&plots),
        timeline::section(report),
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
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; \
         style-src 'unsafe-inline'; img-src data:; script-src {} {}; base-uri 'none'; \
         form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <meta name=\"generator\" content=\"Tailbound {}\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>{} \u{b7} Tailbound</title>\n\
         <style>{CHART_STYLE}</style>\n<style>{PAGE_STYLE}</style>\n</head>\n<body>\n\
         <a class=\"skip\" href=\"#promises\">Skip to the results</a>\n\
         {sections}\
         <script type=\"application/json\" id=\"report-data\">{}</script>\n\
         <script>{CHART_SCRIPT}</script>\n<script>{PAGE_SCRIPT}</script>\n</body>\n</html>\n",
        script_hash(CHART_SCRIPT),
        script_hash(PAGE_SCRIPT),
        escaped(&report.tailbound_version),
        escaped(&report.name),
        escape::escaped_json(&data),
    )
}

/// The source expression by which a content security policy allows exactly this script.
fn script_hash(script: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(script)))
}
