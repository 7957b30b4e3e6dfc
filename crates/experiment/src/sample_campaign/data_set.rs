//! The data set of a campaign: a table of all measurements, the raw distributions, the answers, and the data package
//! that describes them (Frictionless Data Package, version 1).

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tailbound_distribution::write_hdr_log;
use tailbound_sampling::{PointRecord, ServiceRecord};
use tailbound_time::Duration;

use super::SampleError;
use super::model_file::{MODEL_FILE, write_model};
use super::point::MeasuredPoint;
use super::result::SampledCampaign;
use crate::result_folder::{HDR_DIGITS, failed, write_file};

/// The version of the form of `answers.json`.
const ANSWERS_VERSION: u32 = 1;

/// The columns before the axes: names, types and titles.
const FIRST_COLUMNS: [(&str, &str, &str); 4] = [
    (
        "measurement",
        "integer",
        "The number of the measurement, in the order of time",
    ),
    ("point", "integer", "The number of the point"),
    (
        "control",
        "boolean",
        "Whether the control point was measured",
    ),
    ("begun_at", "datetime", "The beginning of the measurement"),
];
/// The columns between the axes and the quantiles.
const SERVICE_COLUMNS: [(&str, &str, &str); 12] = [
    ("service", "string", "The service"),
    ("measured_ns", "integer", "The time that counts, ns"),
    ("warmed_ns", "integer", "The time that warming up took, ns"),
    (
        "taken_ns",
        "integer",
        "The whole time that the measurement took, ns",
    ),
    ("released", "integer", "Requests that fell due"),
    ("answered", "integer", "Requests that were answered well"),
    (
        "refused",
        "integer",
        "Requests that were answered with an error",
    ),
    ("unanswered", "integer", "Requests without an answer"),
    ("run_in", "integer", "Requests that were left out as run-in"),
    (
        "rate_per_second",
        "number",
        "Requests answered well per second",
    ),
    ("mean_ns", "integer", "The mean latency, ns"),
    (
        "deviation_ns",
        "integer",
        "The standard deviation of the latency, ns",
    ),
];
/// The columns after the quantiles.
const LAST_COLUMNS: [(&str, &str, &str); 3] = [
    (
        "outcome",
        "string",
        "Whether the promises were kept: kept, undecided, broken",
    ),
    (
        "flags",
        "string",
        "The oddities of the measurement, with spaces",
    ),
    (
        "failure",
        "string",
        "Why there is no result, or not all of it",
    ),
];

/// A column of the table, with the type and the meaning that the data package says.
struct DataSetColumn {
    name: String,
    kind: &'static str,
    title: String,
}

impl DataSetColumn {
    fn new(name: &str, kind: &'static str, title: &str) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            title: title.to_owned(),
        }
    }
}

/// Writes the latencies of a measurement into `raw/`: as a distribution in CSV, and as an HdrHistogram log where every
/// latency is known.
pub(super) fn write_raw(
    out: &Path,
    number: usize,
    measured: &MeasuredPoint<'_>,
) -> Result<(), SampleError> {
    for (service, slices) in &measured.slices {
        let Some(latencies) = slices.latencies(None) else {
            continue;
        };
        let path = out.join("raw").join(raw_name(number, service));
        let csv = path.with_extension("csv");
        write_file(&csv, latencies.to_csv().as_bytes())?;
        if latencies.censored().is_empty() && !latencies.samples().is_empty() {
            let hdr = path.with_extension("hdr");
            let log = write_hdr_log(&[(None, &latencies)], HDR_DIGITS)
                .map_err(|cause| failed(&hdr, &cause))?;
            write_file(&hdr, log.as_bytes())?;
        }
    }
    Ok(())
}

/// The name of the raw files of a measurement, without their ending.
pub(super) fn raw_name(number: usize, service: &str) -> PathBuf {
    PathBuf::from(format!("{number:05}-{service}"))
}

/// Writes `points.csv`, `answers.json`, `model.json` and `datapackage.json` into the folder of a campaign.
///
/// # Errors
/// A file cannot be written.
pub fn write_data_set(sampled: &SampledCampaign, out: &Path) -> Result<(), SampleError> {
    let columns = columns(sampled);
    write_file(&out.join("points.csv"), table(sampled, &columns).as_bytes())?;
    let answers = out.join("answers.json");
    let mut document =
        serde_json::to_value(sampled.document()).map_err(|cause| failed(&answers, &cause))?;
    document["schema_version"] = json!(ANSWERS_VERSION);
    write_file(&answers, format!("{document:#}\n").as_bytes())?;
    write_model(sampled, out)?;
    let package = format!("{:#}\n", package(sampled, &columns));
    write_file(&out.join("datapackage.json"), package.as_bytes())?;
    Ok(())
}

/// The percentiles of a service's quantiles, in any measurement.
fn percentiles(sampled: &SampledCampaign) -> Vec<f64> {
    let services = sampled.records.iter().flat_map(|one| one.services.values());
    let quantiles = services.flat_map(|service| &service.quantiles);
    let mut percentiles: Vec<f64> = quantiles.map(|one| one.percentile).collect();
    percentiles.sort_by(f64::total_cmp);
    percentiles.dedup_by(|one, other| (*one - *other).abs() < 1e-9);
    percentiles
}

/// The prefix of the columns of a percentile: `p99_9` for 99.9.
fn quantile_column(percentile: f64) -> String {
    // Products with 100 end in digits that nobody wrote.
    let rounded = (percentile * 1e6).round() / 1e6;
    format!("p{rounded}").replace('.', "_")
}

fn columns(sampled: &SampledCampaign) -> Vec<DataSetColumn> {
    let fixed = |columns: &[(&str, &'static str, &str)]| -> Vec<DataSetColumn> {
        let each = columns.iter();
        each.map(|(name, kind, title)| DataSetColumn::new(name, kind, title))
            .collect()
    };
    let mut columns = fixed(&FIRST_COLUMNS);
    for axis in sampled.grid.axes() {
        let title = match axis.key.as_str() {
            tailbound_sampling::SHARE => "The share of a CPU of all reservations together, percent",
            tailbound_sampling::PERIOD => "The period of the reservations",
            _ => "A varied key of the description",
        };
        columns.push(DataSetColumn::new(&axis.key, "string", title));
    }
    columns.extend(fixed(&SERVICE_COLUMNS));
    for percentile in percentiles(sampled) {
        let name = quantile_column(percentile);
        for (suffix, part) in [
            ("", "The value"),
            ("_low", "The lower end of the interval"),
            ("_high", "The upper end of the interval"),
        ] {
            let title = format!("{part} of the latency's {name}, ns");
            let column = format!("{name}{suffix}_ns");
            columns.push(DataSetColumn::new(&column, "integer", &title));
        }
    }
    for name in sampled.campaign.metrics.keys() {
        let title = "A metric that the application reports of itself";
        columns.push(DataSetColumn::new(
            &format!("metric_{name}"),
            "number",
            title,
        ));
    }
    columns.extend(fixed(&LAST_COLUMNS));
    columns
}

/// The rows: one a measurement and service.
fn table(sampled: &SampledCampaign, columns: &[DataSetColumn]) -> String {
    let names: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
    let mut text = row(names.into_iter().map(str::to_owned).collect());
    let percentiles = percentiles(sampled);
    for (number, record) in sampled.records.iter().enumerate() {
        for (name, service) in &record.services {
            let mut cells = first_cells(sampled, number, record);
            cells.extend(service_cells(name, record, service, &percentiles));
            cells.extend(last_cells(sampled, record, service));
            text.push_str(&row(cells));
        }
    }
    text
}

fn first_cells(sampled: &SampledCampaign, number: usize, record: &PointRecord) -> Vec<String> {
    let mut cells = vec![
        number.to_string(),
        record.point.to_string(),
        record.is_control.to_string(),
        record.begun_at.clone(),
    ];
    let values = sampled.grid.values(record.point);
    cells.extend(values.into_iter().map(str::to_owned));
    cells
}

fn service_cells(
    name: &str,
    record: &PointRecord,
    service: &ServiceRecord,
    percentiles: &[f64],
) -> Vec<String> {
    let ns = |time: Duration| time.as_nanos().to_string();
    let optional = |time: Option<Duration>| time.map(ns).unwrap_or_default();
    let mut cells = vec![
        name.to_owned(),
        ns(record.measured),
        ns(record.warmed),
        ns(record.taken),
        service.released.to_string(),
        service.answered.to_string(),
        service.refused.to_string(),
        service.unanswered.to_string(),
        service.run_in.to_string(),
        format!("{:.3}", service.rate_per_second),
        optional(service.mean),
        optional(service.deviation),
    ];
    for percentile in percentiles {
        let mut quantiles = service.quantiles.iter();
        let own = quantiles.find(|one| (one.percentile - percentile).abs() < 1e-9);
        cells.push(optional(own.map(|one| one.value)));
        cells.push(optional(own.map(|one| one.low)));
        cells.push(optional(own.and_then(|one| one.high)));
    }
    cells
}

/// The metrics, and what is odd.
fn last_cells(
    sampled: &SampledCampaign,
    record: &PointRecord,
    service: &ServiceRecord,
) -> Vec<String> {
    let metrics = sampled.campaign.metrics.keys();
    let values = metrics.map(|name| record.metrics.get(name).map(f64::to_string));
    let mut cells: Vec<String> = values.map(Option::unwrap_or_default).collect();
    let outcome = service.promises.iter().map(|one| one.outcome()).max();
    cells.push(outcome.map_or(String::new(), |outcome| outcome.word().to_owned()));
    let flags: Vec<&str> = record.flags.iter().map(|flag| flag.word()).collect();
    cells.push(flags.join(" "));
    cells.push(record.failure.clone().unwrap_or_default());
    cells
}

/// A row of CSV (RFC 4180).
fn row(cells: Vec<String>) -> String {
    let quoted = cells
        .into_iter()
        .map(|cell| match cell.contains([',', '"', '\n', '\r']) {
            true => format!("\"{}\"", cell.replace('"', "\"\"")),
            false => cell,
        });
    let cells: Vec<String> = quoted.collect();
    format!("{}\r\n", cells.join(","))
}

fn package(sampled: &SampledCampaign, columns: &[DataSetColumn]) -> Value {
    let fields = columns
        .iter()
        .map(|column| json!({"name": column.name, "type": column.kind, "title": column.title}));
    let fields: Vec<Value> = fields.collect();
    let raw = sampled
        .records
        .iter()
        .enumerate()
        .flat_map(|(number, record)| {
            let names = record
                .services
                .iter()
                .filter(|(_, own)| own.answered + own.unanswered > 0);
            names.map(move |(name, _)| format!("raw/{}.csv", raw_name(number, name).display()))
        });
    let raw: Vec<String> = raw.collect();
    let mut resources = vec![
        json!({
            "name": "points",
            "path": "points.csv",
            "title": "One row a measurement of a point and service",
            "profile": "tabular-data-resource",
            "format": "csv",
            "mediatype": "text/csv",
            "encoding": "utf-8",
            "schema": {
                "fields": fields,
                "missingValues": [""],
                "primaryKey": ["measurement", "service"],
            },
        }),
        json!({
            "name": "answers",
            "path": "answers.json",
            "title": "The cheapest reservations and what follows from them",
            "format": "json",
            "mediatype": "application/json",
        }),
    ];
    resources.push(json!({
        "name": "model",
        "path": MODEL_FILE,
        "title": "The ratios of promised quantiles to their limits, which a model is fitted to",
        "format": "json",
        "mediatype": "application/json",
    }));
    if !raw.is_empty() {
        resources.push(json!({
            "name": "raw",
            "path": raw,
            "title": "The latencies of each measurement; HdrHistogram logs lie beside them",
            "format": "csv",
        }));
    }
    json!({
        "profile": "data-package",
        "name": package_name(&sampled.name),
        "title": format!("Latencies of {} under many reservations", sampled.name),
        "created": sampled.records.last().map(|record| record.begun_at.clone()),
        "resources": resources,
    })
}

/// A name with the letters that data packages allow.
fn package_name(name: &str) -> String {
    let allowed = |letter: char| letter.is_ascii_alphanumeric() || "-_.".contains(letter);
    let letters = name.chars();
    letters
        .map(|letter| {
            if allowed(letter) {
                letter.to_ascii_lowercase()
            } else {
                '-'
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_of_percentiles_have_the_digits_that_were_written() {
        assert_eq!(quantile_column(0.999 * 100.0), "p99_9");
        assert_eq!(quantile_column(99.0), "p99");
    }

    #[test]
    fn cells_with_commas_and_quotes_are_quoted() {
        let cells = ["a,b", "say \"no\"", "plain"].map(str::to_owned);
        assert_eq!(row(cells.to_vec()), "\"a,b\",\"say \"\"no\"\"\",plain\r\n");
    }
}
