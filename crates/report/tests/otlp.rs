//! Metrics for OpenTelemetry, as a collector reads them.

use serde_json::Value;
use tailbound_report::{ReportError, RunReport};

use crate::sample;

fn exported(report: &RunReport) -> Value {
    serde_json::from_str(&report.to_otlp_metrics().unwrap()).unwrap()
}

fn metrics(export: &Value) -> &[Value] {
    let scope = &export["resourceMetrics"][0]["scopeMetrics"][0];
    scope["metrics"].as_array().unwrap()
}

fn points<'a>(export: &'a Value, name: &str, kind: &str) -> &'a [Value] {
    let mut metrics = metrics(export).iter();
    let metric = metrics.find(|metric| metric["name"] == name).unwrap();
    metric[kind]["dataPoints"].as_array().unwrap()
}

fn attribute<'a>(point: &'a Value, key: &str) -> Option<&'a Value> {
    let mut attributes = point["attributes"].as_array().unwrap().iter();
    let value = &attributes.find(|attribute| attribute["key"] == key)?["value"];
    value.as_object().unwrap().values().next()
}

fn count(value: &Value) -> u64 {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn every_latency_is_in_the_histogram_of_its_run() {
    let report = sample::sample_report();
    let export = exported(&report);
    let points = points(&export, "tailbound.latency", "exponentialHistogram");
    for result in &report.variants {
        for (index, run) in result.measured.iter().enumerate() {
            let is_of_run = |point: &&Value| {
                attribute(point, "tailbound.variant").unwrap() == &result.variant
                    && attribute(point, "tailbound.repetition").unwrap() == &(index + 1).to_string()
                    && attribute(point, "tailbound.task").is_none()
            };
            let point = points.iter().find(is_of_run).unwrap();
            let samples = run.overall.samples();
            assert_eq!(count(&point["count"]), samples.len() as u64);
            let buckets = point["positive"]["bucketCounts"].as_array().unwrap();
            let in_buckets: u64 = buckets.iter().map(count).sum();
            assert_eq!(
                in_buckets + count(&point["zeroCount"]),
                samples.len() as u64
            );
            let longest = samples.last().unwrap().as_secs_f64();
            assert_eq!(point["max"].as_f64(), Some(longest));
            let last = point["positive"]["offset"].as_i64().unwrap() + buckets.len() as i64;
            let end = (last as f64 / 32.0).exp2();
            assert!((longest..longest * 1.023).contains(&end), "{longest} {end}");
        }
    }
}

#[test]
fn promises_come_with_their_outcome_and_percentiles_with_their_ends() {
    let report = sample::sample_report();
    let export = exported(&report);
    let promises = points(&export, "tailbound.promise.latency", "gauge");
    let verdicts: usize = report
        .variants
        .iter()
        .map(|result| result.verdicts.len())
        .sum();
    assert_eq!(promises.len(), verdicts);
    assert_eq!(promises[0]["asDouble"], 0.01);
    assert!(attribute(&promises[0], "tailbound.outcome").is_some());
    let ends = points(&export, "tailbound.latency.percentile", "gauge");
    let predicted = &report.variants[0].predicted[0];
    let of_median = |end: &str| {
        let mut all = ends.iter();
        let point = all.find(|point| {
            attribute(point, "tailbound.percentile").unwrap() == 50.0
                && attribute(point, "tailbound.end").unwrap() == end
                && attribute(point, "tailbound.source").unwrap()
                    == &format!("predicted: {}", predicted.label)
        });
        point.unwrap()["asDouble"].as_f64().unwrap()
    };
    let median = predicted.distribution.quantile(0.5).unwrap();
    assert_eq!(of_median("low"), median.low.as_secs_f64());
    assert_eq!(of_median("high"), median.high.unwrap().as_secs_f64());
}

#[test]
fn points_hold_for_the_time_of_the_run() {
    let mut report = sample::sample_report();
    report.finished_at = Some("2026-01-15T09:30:40Z".into());
    let export = exported(&report);
    let point = &points(&export, "tailbound.requests", "sum")[0];
    assert_eq!(point["startTimeUnixNano"], "1768469400000000000");
    assert_eq!(point["timeUnixNano"], "1768469440000000000");
    report.started_at = "yesterday".into();
    let error = report.to_otlp_metrics().unwrap_err();
    assert!(matches!(&error, ReportError::Started(text) if text == "yesterday"));
    assert!(error.to_string().contains("2026-01-15T09:30:00Z"));
}

#[test]
fn a_service_is_a_resource() {
    let mut report = sample::sample_report();
    let mut other = report.variants[0].clone();
    other.service = "web".into();
    report.variants.push(other);
    let export = exported(&report);
    let resources = export["resourceMetrics"].as_array().unwrap();
    let names: Vec<_> = resources
        .iter()
        .map(|resource| attribute(&resource["resource"], "service.name").unwrap())
        .collect();
    assert_eq!(names, ["redis", "web"]);
    let empty = exported(&RunReport {
        started_at: "2026-01-15T09:30:00Z".into(),
        ..RunReport::default()
    });
    assert_eq!(empty["resourceMetrics"].as_array().unwrap().len(), 0);
}
