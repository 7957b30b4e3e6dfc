//! `tailbound measure`: drive a running service and measure its latency.

use std::path::Path;

use serde::Serialize;
use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{Distribution, read_hdr_log, write_hdr_log};
use tailbound_experiment::load_run::{LoadRun, generator_cpu};
use tailbound_experiment::{ExperimentStep, Observer};
use tailbound_measurement::Measurement;
use tailbound_model::{Arrivals, Cpu, Description, LoadedDescription};
use tailbound_report::{CONFIDENCE, PERCENTILES, readable};
use tailbound_time::Duration;

use crate::arguments::MeasureArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::{Output, write_file};
use crate::progress::ProgressDisplay;

/// Significant decimal digits kept in HdrHistogram logs.
const HDR_DIGITS: u8 = 3;

/// Drives, prints quantiles with confidence intervals, exports what is asked for.
pub fn carry_out(arguments: &MeasureArguments, output: &Output) -> Result<(), Failure> {
    let mut loaded = super::load(&arguments.file, output)?;
    let name = chosen_service(&loaded.description, arguments.service.as_deref())?;
    override_rate(&mut loaded, &name, arguments)?;
    let measurement = drive(&loaded, &name, arguments, output)?;
    export(arguments, &measurement)?;
    for remark in &measurement.remarks {
        output.note(format!("note: {remark}"));
    }
    let connections = measurement.connection_counts;
    if connections.replacements > 0 || connections.streams_at_once.is_some() {
        output.note(format!("connections: {connections}"));
    }
    for (text, times) in &measurement.failures {
        output.note(format!("failed {times} times: {text}"));
    }
    let lateness = measurement
        .lateness
        .quantile(0.99)
        .and_then(|interval| interval.high);
    if let Some(lateness) = lateness {
        output.note(format!("the load generator's own lateness: p99 {lateness}"));
    }
    let intervals = percentile_intervals(&measurement);
    let header = [
        "percentile",
        "latency",
        "95% from",
        "95% to",
        "\u{b1}10% takes",
    ];
    let rows = quantile_rows(&measurement.overall, &intervals);
    for remark in short_run_remarks(&measurement, &intervals) {
        output.note(remark);
    }
    let document = MeasureDocument {
        measurement: &measurement,
        intervals: &intervals,
    };
    output.rows(&header, &rows, &document)?;
    match &measurement.interrupted {
        Some(why) => Err(Failure::error(format!(
            "the measurement ended early: {why}"
        ))),
        None => Ok(()),
    }
}

fn drive(
    loaded: &LoadedDescription,
    name: &str,
    arguments: &MeasureArguments,
    output: &Output,
) -> Result<Measurement, Failure> {
    let description = &loaded.description;
    let service = &description.services[name];
    let inputs = super::inputs(loaded)?;
    let drive = LoadRun {
        description,
        base: loaded.base(),
        inputs: &inputs,
        name,
        service,
        duration: arguments
            .duration
            .unwrap_or(description.experiment.duration),
        warm_up: arguments.warm_up.unwrap_or(description.experiment.warm_up),
        seed: arguments.seed.unwrap_or(description.seed),
        cpu: arguments
            .housekeeping
            .map(Cpu)
            .or_else(|| generator_cpu(description, service)),
        busy: None,
    };
    let stop = interrupts::watch()?;
    super::trace::listen(output);
    let mut progress = ProgressDisplay::new(output);
    let mut begins = true;
    let what = format!(
        "driving {name} for {} after {}",
        drive.duration, drive.warm_up
    );
    let measured = drive.carry_out(&stop, &mut |now| {
        let done = now.elapsed.as_secs_f64() / now.total.as_secs_f64().max(1e-9);
        progress.step(&ExperimentStep {
            what: what.clone(),
            done: done.min(1.0),
            begins,
        });
        begins = false;
    });
    measured.map_err(Failure::from_error)
}

/// The service to drive: the named one, or the only one.
pub fn chosen_service(description: &Description, name: Option<&str>) -> Result<String, Failure> {
    let services: Vec<&str> = description.services.keys().map(String::as_str).collect();
    match name {
        Some(name) if description.services.contains_key(name) => Ok(name.to_owned()),
        Some(name) => Err(Failure::with_help(
            format!("there is no service \"{name}\""),
            format!("the description has: {}", services.join(", ")),
        )),
        None => match services.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(Failure::with_help(
                "the description has no service",
                "add one",
            )),
            _ => Err(Failure::with_help(
                "the description has several services",
                format!("choose one with --service: {}", services.join(", ")),
            )),
        },
    }
}

fn override_rate(
    loaded: &mut LoadedDescription,
    name: &str,
    arguments: &MeasureArguments,
) -> Result<(), Failure> {
    let Some(rate) = arguments.rate else {
        return Ok(());
    };
    let service = loaded.description.services.get_mut(name);
    let tasks = service.into_iter().flat_map(|one| one.tasks.values_mut());
    match tasks.collect::<Vec<_>>().as_mut_slice() {
        [task] if matches!(task.arrivals, Arrivals::Poisson { .. }) => {
            task.arrivals = Arrivals::Poisson { rate };
            Ok(())
        }
        _ => Err(Failure::with_help(
            format!("--rate needs a service with one task of Poisson arrivals; \"{name}\" is not"),
            "change the arrivals in the description",
        )),
    }
}

/// The measurement, in machine output.
#[derive(Serialize)]
struct MeasureDocument<'a> {
    #[serde(flatten)]
    measurement: &'a Measurement,
    /// The confidence intervals of the percentiles.
    intervals: &'a [MeasuredInterval],
}

/// The confidence intervals of the percentiles that are shown.
fn percentile_intervals(measurement: &Measurement) -> Vec<MeasuredInterval> {
    let latency = &measurement.overall;
    let intervals = PERCENTILES.iter().filter_map(|(_, probability)| {
        let about = (None, probability * 100.0);
        MeasuredInterval::of_sample(about, latency, CONFIDENCE, measurement.span())
    });
    intervals.collect()
}

fn quantile_rows(latency: &Distribution, intervals: &[MeasuredInterval]) -> Vec<Vec<String>> {
    let text =
        |value: Option<Duration>| value.map_or_else(|| "unknown".into(), |value| value.to_string());
    let rows = PERCENTILES.iter().map(|&(label, probability)| {
        let value = latency.quantile(probability).and_then(|one| one.high);
        let about = |one: &&MeasuredInterval| (one.percentile - probability * 100.0).abs() < 1e-9;
        let interval = intervals.iter().find(about);
        vec![
            label.into(),
            text(value),
            text(interval.map(|interval| interval.low)),
            text(interval.and_then(|interval| interval.high)),
            interval.map_or_else(|| "unknown".into(), |one| readable(one.needed)),
        ]
    });
    rows.collect()
}

/// The note about percentiles of which the run says too little.
fn short_run_remarks(measurement: &Measurement, intervals: &[MeasuredInterval]) -> Vec<String> {
    let seconds = measurement.span().as_secs_f64().max(f64::MIN_POSITIVE);
    let rate = measurement.counts.released as f64 / seconds;
    let remarks = intervals.iter().filter(|one| one.too_short).map(|one| {
        let requests = (rate * one.needed.as_secs_f64()).ceil();
        format!(
            "note: the run is too short to bound p{} from above; within 10% takes about {}, or {requests} requests",
            one.percentile,
            readable(one.needed),
        )
    });
    remarks.collect()
}

fn export(arguments: &MeasureArguments, measurement: &Measurement) -> Result<(), Failure> {
    let latency = &measurement.overall;
    if let Some(path) = &arguments.export_csv {
        write_file(path, &latency.to_csv())?;
    }
    if let Some(path) = &arguments.export_json {
        let json = serde_json::to_string(latency).map_err(Failure::from_error)?;
        write_file(path, &json)?;
    }
    if let Some(path) = &arguments.export_hdr {
        let log = write_hdr_log(&[(None, latency)], HDR_DIGITS).map_err(Failure::from_error)?;
        write_file(path, &log)?;
    }
    Ok(())
}

/// Reads a distribution from a CSV, JSON or HdrHistogram file, by its extension.
pub fn read_distribution(path: &Path) -> Result<Distribution, Failure> {
    let failure = |what: String| Failure::error(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| failure(error.to_string()))?;
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    match extension {
        "csv" => {
            let text = String::from_utf8(bytes).map_err(|_| failure("it is not UTF-8".into()))?;
            Distribution::from_csv(&text).map_err(|error| failure(error.to_string()))
        }
        "json" => serde_json::from_slice(&bytes).map_err(|error| failure(error.to_string())),
        "hdr" | "hlog" | "hgrm" => {
            let mut series = read_hdr_log(&bytes).map_err(|error| failure(error.to_string()))?;
            match series.len() {
                1 => Ok(series.remove(0).distribution),
                several => Err(failure(format!(
                    "it holds {several} series; one is expected"
                ))),
            }
        }
        other => Err(Failure::with_help(
            format!(
                "{}: files with the extension \"{other}\" are not known",
                path.display()
            ),
            "use .csv, .json or .hdr, as `tailbound measure --export-...` writes them",
        )),
    }
}
