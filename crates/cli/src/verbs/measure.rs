//! `tailbound measure`: drive a running service and tell its latency.

use std::path::Path;

use serde::Serialize;
use tailbound_distribution::{Distribution, read_hdr_log, write_hdr_log};
use tailbound_experiment::load_run::{LoadRun, generator_cpu};
use tailbound_experiment::{Observer, Step};
use tailbound_measurement::{Counts, Measurement};
use tailbound_model::{Arrivals, Cpu, Description, LoadedDescription, Service};

use crate::arguments::MeasureArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;
use crate::progress::Progress;

const PROBABILITIES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

/// Confidence of the intervals that are told.
const CONFIDENCE: f64 = 0.95;

/// Significant decimal digits kept in HdrHistogram logs.
const HDR_DIGITS: u8 = 3;

#[derive(Serialize)]
struct Measured<'a> {
    service: &'a str,
    counts: Counts,
    interrupted: &'a Option<String>,
    latency: &'a Distribution,
    lateness: &'a Distribution,
}

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
    let data = Measured {
        service: &name,
        counts: measurement.counts,
        interrupted: &measurement.interrupted,
        latency: &measurement.overall,
        lateness: &measurement.lateness,
    };
    let header = ["percentile", "latency", "95% from", "95% to"];
    output.rows(&header, &quantile_rows(&measurement.overall), &data)?;
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
    let inputs = tailbound_model::load_inputs(description, loaded.base()).map_err(|problems| {
        Failure::Description {
            problems,
            text: loaded.text.clone(),
        }
    })?;
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
    let mut progress = Progress::new(output);
    let mut begins = true;
    let what = format!(
        "driving {name} for {} after {}",
        drive.duration, drive.warm_up
    );
    let measured = drive.carry_out(&stop, &mut |now| {
        let done = now.elapsed.as_secs_f64() / now.total.as_secs_f64().max(1e-9);
        progress.step(&Step {
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
    let known: Vec<&str> = description.services.keys().map(String::as_str).collect();
    match name {
        Some(name) if description.services.contains_key(name) => Ok(name.to_owned()),
        Some(name) => Err(Failure::with_help(
            format!("there is no service \"{name}\""),
            format!("the description has: {}", known.join(", ")),
        )),
        None => match known.as_slice() {
            [only] => Ok((*only).to_owned()),
            [] => Err(Failure::with_help(
                "the description has no service",
                "add one",
            )),
            _ => Err(Failure::with_help(
                "the description has several services",
                format!("choose one with --service: {}", known.join(", ")),
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
    let service: Option<&mut Service> = loaded.description.services.get_mut(name);
    let tasks = service.map(|service| service.tasks.values_mut().collect::<Vec<_>>());
    match tasks.unwrap_or_default().as_mut_slice() {
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

fn quantile_rows(latency: &Distribution) -> Vec<Vec<String>> {
    PROBABILITIES
        .iter()
        .map(|(label, probability)| {
            let end = |value: Option<tailbound_time::Duration>| {
                value.map_or_else(|| "unknown".into(), |value| value.to_string())
            };
            let value = latency
                .quantile(*probability)
                .and_then(|interval| interval.high);
            let interval = latency.confidence_interval(*probability, CONFIDENCE);
            vec![
                (*label).into(),
                end(value),
                end(interval.map(|interval| interval.low)),
                end(interval.and_then(|interval| interval.high)),
            ]
        })
        .collect()
}

fn export(arguments: &MeasureArguments, measurement: &Measurement) -> Result<(), Failure> {
    let write = |path: &Path, text: String| {
        std::fs::write(path, text)
            .map_err(|error| Failure::error(format!("cannot write {}: {error}", path.display())))
    };
    let latency = &measurement.overall;
    if let Some(path) = &arguments.export_csv {
        write(path, latency.to_csv())?;
    }
    if let Some(path) = &arguments.export_json {
        write(
            path,
            serde_json::to_string(latency).map_err(Failure::from_error)?,
        )?;
    }
    if let Some(path) = &arguments.export_hdr {
        let log = write_hdr_log(&[(None, latency)], HDR_DIGITS).map_err(Failure::from_error)?;
        write(path, log)?;
    }
    Ok(())
}

/// Reads a distribution from a CSV, JSON or HdrHistogram file, by its extension.
pub fn read_distribution(path: &Path) -> Result<Distribution, Failure> {
    let told = |what: String| Failure::error(format!("{}: {what}", path.display()));
    let bytes = std::fs::read(path).map_err(|error| told(error.to_string()))?;
    let extension = path
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or("");
    match extension {
        "csv" => {
            let text = String::from_utf8(bytes).map_err(|_| told("it is not UTF-8".into()))?;
            Distribution::from_csv(&text).map_err(|error| told(error.to_string()))
        }
        "json" => serde_json::from_slice(&bytes).map_err(|error| told(error.to_string())),
        "hdr" | "hlog" | "hgrm" => {
            let mut series = read_hdr_log(&bytes).map_err(|error| told(error.to_string()))?;
            match series.len() {
                1 => Ok(series.remove(0).distribution),
                several => Err(told(format!("it holds {several} series; one is expected"))),
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
