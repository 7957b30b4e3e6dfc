//! `tailbound compare`: how far two distributions are apart.

use std::path::Path;

use serde::Serialize;
use tailbound_distribution::Distribution;
use tailbound_time::Duration;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::output::Output;

const PROBABILITIES: [(&str, f64); 5] = [
    ("p50", 0.5),
    ("p90", 0.9),
    ("p95", 0.95),
    ("p99", 0.99),
    ("p99.9", 0.999),
];

#[derive(Serialize)]
struct Compared {
    wasserstein1_ns: u64,
    noise_floor_ns: Option<u64>,
    ratio_to_noise_floor: Option<f64>,
    quantiles: Vec<QuantilePair>,
}

#[derive(Serialize)]
struct QuantilePair {
    percentile: &'static str,
    left_ns: Option<u64>,
    right_ns: Option<u64>,
}

/// Prints quantiles side by side and the Wasserstein-1 distance.
pub fn carry_out(arguments: &CompareArguments, output: &Output) -> Result<(), Failure> {
    let left = super::measure::read_distribution(&arguments.left)?;
    let right = super::measure::read_distribution(&arguments.right)?;
    let distance = self::distance(&left, &right, &arguments.right)?;
    let floor = match &arguments.baseline {
        None => None,
        Some(path) => {
            let baseline = super::measure::read_distribution(path)?;
            Some(self::distance(&left, &baseline, path)?)
        }
    };
    let ratio = floor
        .filter(|floor| !floor.is_zero())
        .map(|floor| distance.as_secs_f64() / floor.as_secs_f64());
    let quantiles: Vec<QuantilePair> = PROBABILITIES
        .iter()
        .map(|(percentile, probability)| QuantilePair {
            percentile,
            left_ns: upper(&left, *probability),
            right_ns: upper(&right, *probability),
        })
        .collect();
    let text = |value: Option<u64>| {
        value.map_or_else(
            || "unbounded".into(),
            |ns| Duration::from_nanos(ns).to_string(),
        )
    };
    let mut rows: Vec<Vec<String>> = quantiles
        .iter()
        .map(|pair| {
            vec![
                pair.percentile.into(),
                text(pair.left_ns),
                text(pair.right_ns),
            ]
        })
        .collect();
    let floor_text = floor.map_or_else(String::new, |floor| format!("noise floor {floor}"));
    rows.push(vec![
        "Wasserstein-1".into(),
        distance.to_string(),
        floor_text,
    ]);
    let data = Compared {
        wasserstein1_ns: distance.as_nanos(),
        noise_floor_ns: floor.map(Duration::as_nanos),
        ratio_to_noise_floor: ratio,
        quantiles,
    };
    output.rows(&["", "left", "right"], &rows, &data)?;
    match (arguments.threshold, ratio) {
        (Some(threshold), Some(ratio)) if ratio > threshold => Err(Failure::Verdict(format!(
            "the distance is {ratio:.2} times the noise floor, above the {threshold} allowed"
        ))),
        (Some(_), None) => Err(Failure::error(
            "the noise floor is zero: no ratio to it exists",
        )),
        _ => Ok(()),
    }
}

fn upper(distribution: &Distribution, probability: f64) -> Option<u64> {
    distribution
        .quantile(probability)?
        .high
        .map(Duration::as_nanos)
}

fn distance(left: &Distribution, right: &Distribution, path: &Path) -> Result<Duration, Failure> {
    tailbound_distribution::wasserstein1(left, right)
        .map(|found| found.midpoint)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
}
