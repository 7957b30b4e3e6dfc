//! The result folder: document, page, plots and raw data.

mod stale;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use tailbound_distribution::write_hdr_log;
use tailbound_measurement::Measurement;
use tailbound_report::{
    RunReport, Theme, VariantResult, VerticalAxis, render_html, render_png, render_svg,
    report_plots,
};

use crate::calibration_record::{CalibrationRecord, RECORD_FILE};
use crate::calibrations::Calibrations;
use crate::results::Results;
use crate::{ExperimentError, SECTIONS};

/// Significant decimal digits kept in HdrHistogram logs.
pub(crate) const HDR_DIGITS: u8 = 3;

/// Pixels per unit of the plots as PNG.
const PNG_SCALE: f32 = 2.0;

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The page.
    pub html: PathBuf,
    /// The result document.
    pub json: PathBuf,
    /// What could not be written, and why; the rest was.
    pub remarks: Vec<String>,
}

/// Writes `report.json`, `report.html`, `plots/*.svg|png` and `raw/*.csv|hdr` into `out`; the
/// requests of every repetition, `raw/*-requests.csv`, and those of the calibration,
/// `raw/calibration.csv` with its record `raw/calibration.json`, lie there since they were measured. Files of an earlier result in the same
/// folder that this one has no match for are removed.
///
/// # Errors
/// The document or the page cannot be written; plots that fail are remarks.
pub fn write(results: &Results, out: &Path) -> Result<Written, ExperimentError> {
    let Results {
        report, schedules, ..
    } = results;
    let json = out.join("report.json");
    let html = out.join("report.html");
    let text = report.to_json().map_err(|cause| failed(&json, &cause))?;
    stale::remove_stale(report, out);
    write_file(&json, text.as_bytes())?;
    let page = render_html(report, &SECTIONS, schedules);
    write_file(&html, page.as_bytes())?;
    let folder = out.join("plots");
    write_svg(report, &folder)?;
    let mut remarks = Vec::new();
    if let Err(cause) = write_png(report, &folder) {
        remarks.push(format!("plots are there as SVG, not as PNG: {cause}"));
    }
    write_raw(report, &out.join("raw"))?;
    Ok(Written {
        html,
        json,
        remarks,
    })
}

/// Every plot as SVG into `folder`, on a linear and on a tail axis.
///
/// # Errors
/// A file cannot be written.
pub fn write_svg(report: &RunReport, folder: &Path) -> Result<(), ExperimentError> {
    for (name, svg) in drawn(report) {
        write_file(&folder.join(format!("{name}.svg")), svg.as_bytes())?;
    }
    Ok(())
}

/// The same as PNG.
///
/// # Errors
/// A file cannot be written, or there is no font to draw with.
pub fn write_png(report: &RunReport, folder: &Path) -> Result<(), ExperimentError> {
    for (name, svg) in drawn(report) {
        let path = folder.join(format!("{name}.png"));
        let png = render_png(&svg, PNG_SCALE).map_err(|cause| failed(&path, &cause))?;
        write_file(&path, &png)?;
    }
    Ok(())
}

fn drawn(report: &RunReport) -> Vec<(String, String)> {
    let mut drawn = Vec::new();
    for plot in report_plots(report, &SECTIONS) {
        for (axis, suffix) in [(VerticalAxis::Share, "share"), (VerticalAxis::Tail, "tail")] {
            let svg = render_svg(&plot, axis, Theme::Light);
            drawn.push((format!("{}-{suffix}", plot.id), svg));
        }
    }
    drawn
}

/// The name of a repetition's raw files.
pub(crate) fn raw_name(result: &VariantResult, index: usize) -> String {
    let name = format!("{}-{}-{}", result.variant, result.service, index + 1);
    let kept = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    name.chars()
        .map(|c| if kept(c) { c } else { '-' })
        .collect()
}

/// Where the requests of a repetition are kept, relative to the result folder.
pub(crate) fn requests_path(result: &VariantResult, index: usize) -> String {
    format!("raw/{}-requests.csv", raw_name(result, index))
}

/// Every request of a repetition as CSV: when it was meant to be sent, when it was, when its reply
/// came, and what became of it.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_requests(measured: &Measurement, path: &Path) -> Result<(), ExperimentError> {
    let written = || -> std::io::Result<()> {
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        let mut file = BufWriter::new(File::create(path)?);
        measured.write_csv(&mut file)?;
        file.flush()
    };
    written().map_err(|cause| failed(path, &cause))
}

/// Every request of a calibration as CSV.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_calibrations(
    calibrations: &Calibrations,
    path: &Path,
) -> Result<(), ExperimentError> {
    let mut text = Vec::new();
    calibrations
        .write_csv(&mut text)
        .map_err(|cause| failed(path, &cause))?;
    write_file(path, &text)
}

/// The record of a calibration, into the result folder `out`.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write_record(record: &CalibrationRecord, out: &Path) -> Result<(), ExperimentError> {
    let path = out.join(RECORD_FILE);
    let text = serde_json::to_vec(record).map_err(|cause| failed(&path, &cause))?;
    write_file(&path, &text)
}

/// Every measured distribution as CSV and HdrHistogram log.
fn write_raw(report: &RunReport, folder: &Path) -> Result<(), ExperimentError> {
    for result in &report.variants {
        for (index, run) in result.measured.iter().enumerate() {
            let name = raw_name(result, index);
            let csv = folder.join(format!("{name}.csv"));
            write_file(&csv, run.overall.to_csv().as_bytes())?;
            if run.overall.censored().is_empty() && !run.overall.samples().is_empty() {
                let hdr = folder.join(format!("{name}.hdr"));
                let log = write_hdr_log(&[(None, &run.overall)], HDR_DIGITS)
                    .map_err(|cause| failed(&hdr, &cause))?;
                write_file(&hdr, log.as_bytes())?;
            }
        }
    }
    Ok(())
}

/// Writes a file, and the folder that it is in.
pub(crate) fn write_file(path: &Path, bytes: &[u8]) -> Result<(), ExperimentError> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(|cause| failed(parent, &cause))?;
    }
    std::fs::write(path, bytes).map_err(|cause| failed(path, &cause))
}

pub(crate) fn failed(path: &Path, cause: &dyn std::fmt::Display) -> ExperimentError {
    ExperimentError::Write {
        file: path.display().to_string(),
        cause: cause.to_string(),
    }
}
