//! Results as files: CSV, JSON, SVG, PNG and one page of HTML.

use std::fs;
use std::path::Path;

use serde::Serialize;
use tailbound_report::{PngError, render_png};

use crate::chart;
use crate::figures::Drawn;
use crate::findings::Finding;
use crate::settings::Settings;
use crate::study::Row;

/// Everything but the rows.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The version of this format.
    pub schema_version: u32,
    /// The seed.
    pub seed: u64,
    /// Whether only some combinations were run.
    pub quick: bool,
    /// The number of applications.
    pub applications: usize,
    /// What scheduling costs.
    pub overheads: Settings,
    /// What the paper concludes, and whether it holds.
    pub findings: Vec<Finding>,
    /// The mean ratio of response times per policy.
    pub overall: Vec<Overall>,
    /// Every figure.
    pub figures: Vec<Drawn>,
}

/// One policy over all applications of an experiment.
#[derive(Clone, Debug, Serialize)]
pub struct Overall {
    /// The experiment.
    pub experiment: u8,
    /// Whether scheduling cost something.
    pub overheads: bool,
    /// The policy.
    pub policy: crate::variants::Variant,
    /// The mean ratio of response times to the background.
    pub response_ratio: f64,
    /// Hard deadlines missed in all.
    pub deadline_misses: u64,
}

/// Why results cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    /// A file cannot be written.
    #[error("{0}")]
    Write(#[from] std::io::Error),
    /// The rows cannot be written.
    #[error("the table cannot be written: {0}")]
    Csv(#[from] csv::Error),
    /// The summary cannot be written.
    #[error("the summary cannot be written: {0}")]
    Json(#[from] serde_json::Error),
}

/// Writes everything into a folder. Without fonts there are no PNG files; why is returned.
pub fn write(
    folder: &Path,
    rows: &[Row],
    summary: &Summary,
) -> Result<Option<PngError>, OutputError> {
    fs::create_dir_all(folder)?;
    let mut table = csv::Writer::from_path(folder.join("results.csv"))?;
    for row in rows {
        table.serialize(row)?;
    }
    table.flush()?;
    let json = serde_json::to_string_pretty(summary)?;
    fs::write(folder.join("results.json"), json + "\n")?;
    let mut no_png = None;
    let mut page = page_head(summary);
    for Drawn { figure, curves } in &summary.figures {
        let svg = chart::render(figure, curves);
        page.push_str(&svg);
        let stem = folder.join(figure.file_stem());
        fs::write(stem.with_extension("svg"), &svg)?;
        match render_png(&svg, 2.0) {
            Ok(png) => fs::write(stem.with_extension("png"), png)?,
            Err(error) => no_png = Some(error),
        }
    }
    page.push_str("</body>\n</html>\n");
    fs::write(folder.join("figures.html"), page)?;
    Ok(no_png)
}

/// The page up to its figures. All words in it are ours, so that nothing needs to be escaped.
fn page_head(summary: &Summary) -> String {
    let findings: String = summary
        .findings
        .iter()
        .map(|finding| {
            let verdict = if finding.holds {
                "holds"
            } else {
                "does not hold"
            };
            format!(
                "<tr><td>{}</td><td>{verdict}</td><td>{}</td></tr>\n",
                finding.claim, finding.evidence
            )
        })
        .collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <title>Aperiodic policies</title>\n<style>body {{ font-family: system-ui, sans-serif; \
         max-width: 60rem; margin: 2rem auto; }} td {{ padding: .3rem .8rem .3rem 0; \
         vertical-align: top; }}</style>\n</head>\n<body>\n<h1>Aperiodic policies</h1>\n\
         <p>{} applications, seed {}.</p>\n<table>\n{findings}</table>\n",
        summary.applications, summary.seed
    )
}
