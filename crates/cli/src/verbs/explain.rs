//! `tailbound explain`: what every slow request of a run waited for.

mod simulated_jobs;

use std::path::{Path, PathBuf};

use serde::Serialize;
use tailbound_causes_report::{CausesSection, LatencyCauses, band_name, cause_lines, percent};
use tailbound_report::RunReport;
use tailbound_time::Duration;
use tailbound_trace::explain::{
    ExplainOptions, Explanation, LatencyCause, QuantileBand, SlowRequest, explain,
};

use crate::arguments::ExplainArguments;
use crate::failure::Failure;
use crate::output::{Output, read_file, table};

/// The columns of the CSV.
const HEADER: [&str; 9] = [
    "subject", "run", "from", "to", "requests", "cause", "detail", "total_ns", "share",
];
/// The least share of a band that a table shows by its detail.
const SHOWN_SHARE: f64 = 0.005;

/// The least share of a request's latency that a line of its course is worth.
const SHOWN_STRETCH: f64 = 0.01;
/// The most details of a cause that a table shows.
const SHOWN_DETAILS: usize = 6;

/// Explanations in machine output.
#[derive(Serialize)]
struct ExplainAnswer<'a> {
    explanations: &'a [Explanation],
    simulated: Vec<Explanation>,
}

/// Explains every recording of a run, or one recording.
pub fn carry_out(arguments: &ExplainArguments, output: &Output) -> Result<(), Failure> {
    let options = options(arguments)?;
    let mut explanations = Vec::new();
    for path in recordings(&arguments.path)? {
        let recording = super::trace::open(&path, output)?;
        let explained = explain(&recording, &options);
        explanations.extend(
            explained.map_err(|cause| Failure::error(format!("{}: {cause}", path.display())))?,
        );
    }
    if explanations.is_empty() {
        return Err(Failure::with_help(
            format!("{} holds no requests to explain", arguments.path.display()),
            "record them with `tailbound run FILE --trace`, or name threads whose jobs are explained with --thread",
        ));
    }
    let report = report_of(&arguments.path)?;
    let mut simulated = report
        .as_ref()
        .map_or_else(Vec::new, |report| CausesSection::causes(report).simulated);
    simulated.extend(simulated_jobs::simulated_jobs(
        arguments,
        report.as_ref(),
        &explanations,
        output,
    )?);
    let causes = LatencyCauses {
        measured: explanations,
        simulated,
    };
    let predicted = |one: &Explanation| {
        let prediction = causes.prediction_of(one);
        prediction.map(|prediction| prediction.merged(&options.quantiles))
    };
    let explanations = &causes.measured;
    let answer = ExplainAnswer {
        explanations,
        simulated: explanations.iter().filter_map(predicted).collect(),
    };
    let words = |one: &Explanation| in_words(one, predicted(one).as_ref());
    let for_people = || {
        explanations
            .iter()
            .map(words)
            .collect::<Vec<_>>()
            .join("\n")
    };
    let output = output.exporting(&arguments.export);
    output.rows_with(for_people, &HEADER, &rows(explanations), &answer)
}

fn options(arguments: &ExplainArguments) -> Result<ExplainOptions, Failure> {
    let mut options = ExplainOptions {
        threads: arguments
            .thread
            .iter()
            .map(|jobs| jobs.thread.clone())
            .collect(),
        ..ExplainOptions::default()
    };
    if !arguments.bands.is_empty() {
        let bounds = &arguments.bands;
        let in_order = bounds.is_sorted_by(|one, other| one < other);
        if !in_order || bounds.iter().any(|bound| !(*bound > 0.0 && *bound < 100.0)) {
            return Err(Failure::with_help(
                "--bands takes percentages between 0 and 100 in ascending order",
                "such as --bands 50,90,99",
            ));
        }
        options.quantiles = bounds.iter().map(|bound| bound / 100.0).collect();
    }
    Ok(options)
}

/// The recordings of a folder of results, or the one that is named.
fn recordings(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if !path.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut recordings = Vec::new();
    for folder in [path.to_path_buf(), path.join("raw")] {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        let files = entries.filter_map(|entry| Some(entry.ok()?.path()));
        recordings.extend(files.filter(|file| file.extension().is_some_and(|end| end == "trace")));
    }
    recordings.sort();
    match recordings.is_empty() {
        false => Ok(recordings),
        true => Err(Failure::with_help(
            format!("{} holds no recording", path.display()),
            "`tailbound run FILE --trace` makes them, in raw/ of its results",
        )),
    }
}

fn rows(explanations: &[Explanation]) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    for explanation in explanations {
        for band in &explanation.bands {
            for part in &band.parts {
                let share =
                    part.total.as_secs_f64() / band.total.as_secs_f64().max(f64::MIN_POSITIVE);
                rows.push(vec![
                    explanation.subject.clone(),
                    explanation.run.clone(),
                    band.from.to_string(),
                    band.to.to_string(),
                    band.requests.to_string(),
                    part.cause.words().to_string(),
                    part.detail.clone(),
                    part.total.as_nanos().to_string(),
                    format!("{share:.6}"),
                ]);
            }
        }
    }
    rows
}

/// The document of a run's results, if the path is such a folder.
fn report_of(path: &Path) -> Result<Option<RunReport>, Failure> {
    let document = path.join("report.json");
    if !document.is_file() {
        return Ok(None);
    }
    let report = RunReport::from_json(&read_file(&document)?);
    report.map(Some).map_err(Failure::from_error)
}

fn in_words(explanation: &Explanation, simulated: Option<&Explanation>) -> String {
    let run = match explanation.run.as_str() {
        "" => String::new(),
        run => format!(", {run}"),
    };
    let mut text = format!(
        "{}{run}: {} requests\n",
        explanation.subject, explanation.requests
    );
    let mut header = vec!["of the latency".to_string()];
    header.extend(explanation.bands.iter().map(band_name));
    let mut rows = Vec::new();
    for line in cause_lines(explanation, simulated) {
        rows.push(line.row(|measured, simulated| match simulated {
            Some(simulated) => format!("{measured} ({simulated})"),
            None => measured.to_string(),
        }));
        let cause = LatencyCause::ALL
            .into_iter()
            .find(|cause| cause.words() == line.name);
        rows.extend(
            cause
                .into_iter()
                .flat_map(|cause| detail_rows(explanation, cause)),
        );
    }
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    text.push_str(&table(&header, &rows));
    text.push('\n');
    if simulated.is_some() {
        text.push_str(match explanation.variant() {
            Some(_) => "in brackets: the simulation of the same variant\n",
            None => "in brackets: the simulation of the description\n",
        });
    }
    if let Some(calibrated) = explanation.calibrated {
        text.push_str(&format!(
            "own execution {} on the average, calibrated {calibrated}\n",
            explanation.mean_execution()
        ));
    }
    for slow in &explanation.slowest {
        text.push_str(&course(slow));
    }
    for remark in &explanation.remarks {
        text.push_str(&format!("note: {remark}\n"));
    }
    text
}

/// The course of a slow request: stretches that are worth a line, and the sum of the others.
fn course(slow: &SlowRequest) -> String {
    let mut text = format!(
        "request {} ({}), {}:\n",
        slow.number, slow.task, slow.latency
    );
    let mut shorter = (0, Duration::ZERO);
    for stretch in &slow.course {
        if stretch.length.as_secs_f64() < SHOWN_STRETCH * slow.latency.as_secs_f64() {
            shorter = (shorter.0 + 1, shorter.1.saturating_add(stretch.length));
            continue;
        }
        let detail = match stretch.detail.is_empty() {
            true => String::new(),
            false => format!(" ({})", stretch.detail),
        };
        let words = stretch.cause.words();
        text.push_str(&format!(
            "  at {}: {} {words}{detail}\n",
            stretch.start, stretch.length
        ));
    }
    if shorter.0 > 0 {
        text.push_str(&format!(
            "  and {} shorter stretches of {} together\n",
            shorter.0, shorter.1
        ));
    }
    text
}

/// The details of a cause that make up a share worth a line.
fn detail_rows(explanation: &Explanation, cause: LatencyCause) -> Vec<Vec<String>> {
    let mut details: Vec<&str> = Vec::new();
    let share = |band: &QuantileBand, detail: &str| {
        let parts = band
            .parts
            .iter()
            .filter(|part| part.cause == cause && part.detail == detail);
        let sum: f64 = parts.map(|part| part.total.as_secs_f64()).sum();
        sum / band.total.as_secs_f64().max(f64::MIN_POSITIVE)
    };
    for band in &explanation.bands {
        for part in band
            .parts
            .iter()
            .filter(|part| part.cause == cause && !part.detail.is_empty())
        {
            if share(band, &part.detail) >= SHOWN_SHARE && !details.contains(&part.detail.as_str())
            {
                details.push(&part.detail);
            }
        }
    }
    let row = |detail: &&str| {
        let mut row = vec![format!("  {detail}")];
        row.extend(
            explanation
                .bands
                .iter()
                .map(|band| percent(share(band, detail))),
        );
        row
    };
    let weight = |detail: &str| -> f64 {
        explanation
            .bands
            .iter()
            .map(|band| share(band, detail))
            .sum()
    };
    details.sort_by(|one, other| weight(other).total_cmp(&weight(one)));
    details.iter().take(SHOWN_DETAILS).map(row).collect()
}
