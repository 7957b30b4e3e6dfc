//! Predicted response times as tables, CSV and JSON: the same for the services of a description and for a
//! queue of the command line.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::{Prediction, SharpPoints};
use tailbound_distribution::{Distribution, Interval};
use tailbound_model::Percentile;
use tailbound_time::Duration;

use crate::arguments::{Format, PredictArguments};
use crate::failure::Failure;
use crate::output::{Output, table};

/// One predicted distribution.
#[derive(Serialize)]
pub struct Answer {
    /// The service.
    pub service: String,
    /// The variant.
    pub variant: String,
    /// What was known of the execution times.
    pub from: String,
    /// Why there is no distribution.
    pub refused: Option<String>,
    /// What is known of the response times.
    #[serde(flatten)]
    pub responses: Option<Responses>,
}

/// What is known of predicted response times.
#[derive(Serialize)]
pub struct Responses {
    /// The load, in CPUs.
    utilisation: f64,
    /// The reservation, in CPUs.
    bandwidth: f64,
    /// The mean.
    mean: Bounds,
    /// The percentiles that were asked for.
    quantiles: Vec<Quantile>,
    /// The shares of all responses within the times that were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    shares: Vec<Share>,
    /// The method by name, with its source.
    method: String,
    /// What the method takes for granted.
    assumptions: Vec<String>,
    /// The distribution's provenance and values.
    distribution: Distribution,
}

/// A time between two bounds.
#[derive(Clone, Copy, Serialize)]
struct Bounds {
    /// At least this.
    low_ns: Option<u64>,
    /// At most this, where that is known.
    high_ns: Option<u64>,
}

/// A percentile of the response times.
#[derive(Serialize)]
struct Quantile {
    percentile: f64,
    #[serde(flatten)]
    bounds: Bounds,
}

/// The share of all responses within a time.
#[derive(Serialize)]
struct Share {
    at_ns: u64,
    low: f64,
    high: f64,
}

impl From<Option<Interval>> for Bounds {
    fn from(interval: Option<Interval>) -> Self {
        let high = interval.and_then(|interval| interval.high);
        Self {
            low_ns: interval.map(|interval| interval.low.as_nanos()),
            high_ns: high.map(Duration::as_nanos),
        }
    }
}

impl Responses {
    /// The answers at the percentiles and times that were asked for.
    pub fn of(prediction: Prediction, percentiles: &[Percentile], points: &SharpPoints) -> Self {
        let mean = prediction.mean().into();
        let distribution = prediction.overall;
        let quantiles = percentiles.iter().map(|percentile| Quantile {
            percentile: percentile.0,
            bounds: distribution.quantile(percentile.probability()).into(),
        });
        let shares = points.times.iter().map(|at| {
            let (low, high) = distribution.cdf(*at);
            let at_ns = at.as_nanos();
            Share { at_ns, low, high }
        });
        Self {
            utilisation: prediction.utilisation,
            bandwidth: prediction.bandwidth,
            mean,
            quantiles: quantiles.collect(),
            shares: shares.collect(),
            method: prediction.method,
            assumptions: prediction.assumptions,
            distribution,
        }
    }

    /// The mean, the percentiles and the shares, as people read them.
    fn cells(&self) -> Vec<String> {
        let quantiles = self.quantiles.iter().map(|quantile| &quantile.bounds);
        let times = std::iter::once(&self.mean).chain(quantiles);
        let times = times.map(as_sharp_as_known);
        let shares = self
            .shares
            .iter()
            .map(|share| match share.high - share.low {
                apart if apart < 1e-7 => format!("{:.7}", share.low),
                _ => format!("{:.4} .. {:.4}", share.low, share.high),
            });
        times.chain(shares).collect()
    }
}

/// Prints the answers, and exports them where asked to.
pub fn print(
    answers: &[Answer],
    arguments: &PredictArguments,
    output: &Output,
) -> Result<(), Failure> {
    let percentiles = arguments.percentiles.iter().map(ToString::to_string);
    let times = arguments.at.iter().map(|at| format!("within {at}"));
    let asked: Vec<String> = std::iter::once("mean".to_owned())
        .chain(percentiles)
        .chain(times)
        .collect();
    let mut header = vec!["service", "variant", "from"];
    header.extend(asked.iter().map(String::as_str));
    let rows: Vec<Vec<String>> = answers
        .iter()
        .map(|answer| row(answer, asked.len()))
        .collect();
    let csv_header: Vec<&str> = header.iter().copied().chain(["refused"]).collect();
    let with_refusals = rows.iter().zip(answers).map(|(row, answer)| {
        let mut row = row.clone();
        row.push(answer.refused.clone().unwrap_or_default());
        row
    });
    let csv_rows: Vec<Vec<String>> = with_refusals.collect();
    if output.format() != Format::Csv {
        for answer in answers {
            let (service, variant) = (&answer.service, &answer.variant);
            if let Some(why) = &answer.refused {
                output.note(format!("{service} in variant {variant}: {why}"));
            }
            if let Some(responses) = &answer.responses {
                output.detail(format!(
                    "{service} in variant {variant}: load {:.2} % on {:.2} % of a CPU; {}",
                    responses.utilisation * 100.0,
                    responses.bandwidth * 100.0,
                    responses.method
                ));
            }
        }
    }
    if let Some(folder) = &arguments.export_distributions {
        export(answers, folder)?;
    }
    let data = serde_json::json!({ "answers": answers });
    let for_people = || format!("{}\n", table(&header, &rows));
    output.rows_with(for_people, &csv_header, &csv_rows, &data)
}

fn row(answer: &Answer, asked: usize) -> Vec<String> {
    let mut row = vec![
        answer.service.clone(),
        answer.variant.clone(),
        answer.from.clone(),
    ];
    match &answer.responses {
        None => row.resize(row.len() + asked, "-".into()),
        Some(responses) => row.extend(responses.cells()),
    }
    row
}

/// A time as people read it: eight digits where its bounds agree to seven.
fn as_sharp_as_known(bounds: &Bounds) -> String {
    match (bounds.low_ns, bounds.high_ns) {
        (Some(low), Some(high)) if agree(low, high) => sharply(low, high),
        (low, high) => told(low, high),
    }
}

/// A time as people read it: to a microsecond, and a range only where that shows.
pub fn told(low_ns: Option<u64>, high_ns: Option<u64>) -> String {
    let milliseconds = |ns: u64| format!("{:.3} ms", ns as f64 / 1e6);
    match (low_ns, high_ns) {
        (Some(low), Some(high)) if milliseconds(low) == milliseconds(high) => milliseconds(low),
        (Some(low), Some(high)) => {
            let low = milliseconds(low);
            format!("{} .. {}", low.trim_end_matches(" ms"), milliseconds(high))
        }
        (Some(low), None) => format!("over {}", milliseconds(low)),
        (None, _) => "unknown".into(),
    }
}

/// Whether two bounds agree to seven digits.
fn agree(low_ns: u64, high_ns: u64) -> bool {
    (high_ns - low_ns.min(high_ns)) as f64 <= 2e-7 * high_ns as f64
}

/// The middle with eight significant digits, and no zeros that say nothing.
fn sharply(low_ns: u64, high_ns: u64) -> String {
    let middle_ms = (low_ns as f64 + high_ns as f64) / 2e6;
    let digits = (7 - middle_ms.max(1e-12).log10().floor() as i32).clamp(3, 6) as usize;
    let text = format!("{middle_ms:.digits$}");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let shortest = part.trim_end_matches('0');
    format!("{whole}.{shortest:0<3} ms")
}

fn export(answers: &[Answer], folder: &Path) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::error(format!("cannot write to {}: {error}", folder.display()))
    };
    std::fs::create_dir_all(folder).map_err(failed)?;
    for answer in answers {
        if let Some(responses) = &answer.responses {
            let name = format!("{}-{}-{}.csv", answer.service, answer.variant, answer.from);
            let name = name.replace([' ', '/'], "-");
            let file = folder.join(name);
            std::fs::write(file, responses.distribution.to_csv()).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_as_many_digits_as_are_known() {
        let of = |low, high| {
            as_sharp_as_known(&Bounds {
                low_ns: Some(low),
                high_ns: Some(high),
            })
        };
        assert_eq!(of(7_963_517, 7_963_518), "7.963518 ms");
        assert_eq!(of(7_000_000, 7_000_000), "7.000 ms");
        assert_eq!(of(7_938_000, 7_984_000), "7.938 .. 7.984 ms");
        assert_eq!(told(Some(1_500_000), None), "over 1.500 ms");
        assert_eq!(told(None, None), "unknown");
    }
}
