//! `tailbound compare`: how far two distributions are apart.

use std::path::Path;

use tailbound_distribution::Distribution;
use tailbound_report::Difference;
use tailbound_time::Duration;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::output::Output;

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
    let difference = Difference::of(&left, &right, distance, floor);
    let text =
        |time: Option<Duration>| time.map_or_else(|| "unbounded".into(), |time| time.to_string());
    let quantiles = difference.quantiles.iter();
    let quantiles =
        quantiles.map(|pair| vec![pair.percentile.into(), text(pair.left), text(pair.right)]);
    let mut rows: Vec<Vec<String>> = quantiles.collect();
    let floor = floor.map_or_else(String::new, |floor| format!("noise floor {floor}"));
    rows.push(vec!["Wasserstein-1".into(), distance.to_string(), floor]);
    output.rows(&["", "left", "right"], &rows, &difference)?;
    match (arguments.threshold, difference.ratio_to_noise_floor) {
        (Some(threshold), Some(ratio)) if ratio > threshold => Err(Failure::Verdict(format!(
            "the distance is {ratio:.2} times the noise floor, above the {threshold} allowed"
        ))),
        (Some(_), None) => Err(Failure::error(
            "the noise floor is zero: no ratio to it exists",
        )),
        _ => Ok(()),
    }
}

fn distance(left: &Distribution, right: &Distribution, path: &Path) -> Result<Duration, Failure> {
    tailbound_distribution::wasserstein1(left, right)
        .map(|distance| distance.midpoint)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
}
