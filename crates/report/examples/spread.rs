//! What several runs of one example agree on: per service and variant, the ratio of the measured
//! to the predicted quantiles, and the distances from the first dedicated run in units of the noise
//! floor, each as median, least and most over the runs.
//!
//! ```text
//! cargo run -p tailbound-report --example spread -- [--json] RUN-FOLDER...
//! ```
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_distribution::{Distribution, Interval, merge};
use tailbound_report::{RunReport, VariantResult};

const SHARES: [(&str, f64); 4] = [("p50", 0.5), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

/// One line: a figure over all runs.
#[derive(Debug, Serialize)]
struct Line {
    what: String,
    figure: String,
    runs: usize,
    median: f64,
    least: f64,
    most: f64,
}

fn main() {
    let (options, folders): (Vec<String>, Vec<String>) = std::env::args()
        .skip(1)
        .partition(|word| word.starts_with("--"));
    let mut figures: BTreeMap<(String, String), Vec<f64>> = BTreeMap::new();
    for folder in &folders {
        let path = format!("{folder}/report.json");
        let text = std::fs::read_to_string(&path).expect(&path);
        let report = RunReport::from_json(&text).expect(&path);
        for (what, figure, value) in figures_of(&report) {
            figures.entry((what, figure)).or_default().push(value);
        }
    }
    let lines: Vec<Line> = figures.into_iter().map(line).collect();
    if options.iter().any(|option| option == "--json") {
        let text = serde_json::to_string_pretty(&lines).expect("lines are plain");
        println!("{text}");
        return;
    }
    println!(
        "{:<34} {:<30} {:>4} {:>8} {:>8} {:>8}",
        "of", "figure", "runs", "median", "least", "most"
    );
    for line in lines {
        println!(
            "{:<34} {:<30} {:>4} {:>8.2} {:>8.2} {:>8.2}",
            line.what, line.figure, line.runs, line.median, line.least, line.most
        );
    }
}

fn line(((what, figure), mut values): ((String, String), Vec<f64>)) -> Line {
    values.sort_by(f64::total_cmp);
    let (below, above) = ((values.len() - 1) / 2, values.len() / 2);
    Line {
        what,
        figure,
        runs: values.len(),
        median: f64::midpoint(values[below], values[above]),
        least: values[0],
        most: values[values.len() - 1],
    }
}

/// All figures of one run: of what, which, how much.
fn figures_of(report: &RunReport) -> Vec<(String, String, f64)> {
    let mut figures = Vec::new();
    for result in &report.variants {
        let what = format!("{} {}", result.service, result.variant);
        let runs: Vec<&Distribution> = result.measured.iter().map(|run| &run.overall).collect();
        let Ok(measured) = merge(&runs) else { continue };
        for (name, share) in SHARES {
            let Some(seen) = measured.quantile(share).map(middle) else {
                continue;
            };
            if let Some(predicted) = quantile_of(result, "execution times as known", share) {
                let figure = format!("{name}: measured/predicted");
                figures.push((what.clone(), figure, seen / middle(predicted)));
            }
            let mean = quantile_of(result, "mean execution time", share);
            let worst = quantile_of(result, "worst-case execution time", share);
            if let (Some(mean), Some(worst)) = (mean, worst) {
                let least = mean.low.as_secs_f64();
                let most = worst.high.map_or(f64::INFINITY, |high| high.as_secs_f64());
                let between = f64::from(u8::from((least..=most).contains(&seen)));
                let figure = format!("{name}: between mean and worst");
                figures.push((what.clone(), figure, between));
            }
        }
        if let Some(ledger) = result.measured.first().and_then(|run| run.ledger.as_ref()) {
            let overrun_us = ledger.overrun_p99_ns as f64 / 1e3;
            figures.push((what.clone(), "overrun p99, us".into(), overrun_us));
        }
        let late = result.measured.iter().filter_map(|run| {
            let late = run.lateness.quantile(0.99)?;
            Some(late.low.as_secs_f64() * 1e6)
        });
        let late = late.fold(0.0, f64::max);
        figures.push((what, "generator lateness p99, us".into(), late));
    }
    for comparison in &report.comparisons {
        if let Some(ratio) = comparison.ratio_to_noise() {
            let what = format!("{} {}", comparison.service, comparison.right);
            let figure = format!("W1 / floor, {}", comparison.left);
            figures.push((what, figure, ratio));
        }
    }
    figures
}

fn quantile_of(result: &VariantResult, label: &str, share: f64) -> Option<Interval> {
    let prediction = result.predicted.iter().find(|one| one.label == label)?;
    prediction.distribution.quantile(share)
}

/// The middle of an interval in seconds; its lower end where it has no upper one.
fn middle(interval: Interval) -> f64 {
    let low = interval.low.as_secs_f64();
    interval
        .high
        .map_or(low, |high| f64::midpoint(low, high.as_secs_f64()))
}
