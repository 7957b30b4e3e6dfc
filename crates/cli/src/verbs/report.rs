//! `tailbound report`: a result document, rendered again.

use std::path::Path;

use tailbound_experiment::SECTIONS;
use tailbound_report::{Cell, RunReport, Table, check_sections, render_html, tables};

use crate::arguments::{Format, ReportArguments};
use crate::failure::Failure;
use crate::output::{Output, table, write_file};

/// Renders what is asked for; tables on standard output if nothing is.
pub fn carry_out(arguments: &ReportArguments, output: &Output) -> Result<(), Failure> {
    let failure = |what: String| Failure::error(format!("{}: {what}", arguments.file.display()));
    let text =
        std::fs::read_to_string(&arguments.file).map_err(|error| failure(error.to_string()))?;
    let report = RunReport::from_json(&text)
        .and_then(|report| check_sections(&report, &SECTIONS).map(|()| report))
        .map_err(|error| failure(error.to_string()))?;
    let written = |path: &Path| output.note(format!("wrote {}", path.display()));
    if let Some(path) = &arguments.html {
        let page = render_html(&report, &SECTIONS, &[]);
        write_file(path, &page)?;
        written(path);
    }
    if let Some(path) = &arguments.otlp {
        let metrics = report.to_otlp_metrics();
        write_file(
            path,
            &(metrics.map_err(|error| failure(error.to_string()))? + "\n"),
        )?;
        written(path);
    }
    if let Some(folder) = &arguments.svg {
        tailbound_experiment::write_svg(&report, folder).map_err(Failure::from_error)?;
        written(folder);
    }
    if let Some(folder) = &arguments.png {
        tailbound_experiment::write_png(&report, folder).map_err(Failure::from_error)?;
        written(folder);
    }
    match output.format() {
        Format::Json => output.json(&report),
        _ => print_tables(&report, output),
    }
}

/// Prints the report's tables: verdicts, quantiles, distances.
pub fn print_tables(report: &RunReport, output: &Output) -> Result<(), Failure> {
    let sections = tables(report, &SECTIONS);
    let parts: Vec<String> = sections.iter().map(section_table).collect();
    for warning in &report.warnings {
        output.note(format!(
            "warning: {}\n  help: {}",
            warning.what, warning.advice
        ));
    }
    output.print(&(parts.join("\n\n") + "\n"))
}

/// A table with its title.
pub fn section_table(section: &Table) -> String {
    let columns = section.columns.iter();
    let header: Vec<&str> = columns.map(|column| column.name.as_str()).collect();
    let rows: Vec<Vec<String>> = section.rows.iter().map(|row| cells(row)).collect();
    format!("{}\n{}", section.title, table(&header, &rows))
}

fn cells(row: &[Cell]) -> Vec<String> {
    row.iter()
        .map(|cell| match &cell.detail {
            Some(detail) => format!("{} ({detail})", cell.text),
            None => cell.text.clone(),
        })
        .collect()
}
