//! `tailbound compare`: how far two distributions are apart.

use std::path::Path;

use tailbound_distribution::Distribution;
use tailbound_report::{
    Difference, PossibleValues, QuantileOrder, QuantilePair, UNKNOWN, readable_interval,
};
use tailbound_time::Duration;

use crate::arguments::CompareArguments;
use crate::failure::Failure;
use crate::output::Output;

const HEADER: [&str; 6] = ["", "left", "its 95%", "right", "its 95%", "order"];

/// Prints quantiles side by side, their intervals, and the Wasserstein-1 distance.
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
    output.rows(&HEADER, &rows(&difference), &difference)?;
    let longer = arguments
        .not_longer
        .iter()
        .map(|percentile| QuantilePair::of(*percentile, &left, &right))
        .filter(|pair| pair.order == QuantileOrder::LeftShorter)
        .map(|pair| pair.percentile.to_string())
        .collect::<Vec<_>>();
    if !longer.is_empty() {
        return Err(Failure::Verdict(format!(
            "{} longer in {} than in {}",
            longer.join(", "),
            arguments.right.display(),
            arguments.left.display()
        )));
    }
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

fn rows(difference: &Difference) -> Vec<Vec<String>> {
    let text =
        |time: Option<Duration>| time.map_or_else(|| "unbounded".into(), |time| time.to_string());
    let ends = |values: &Option<PossibleValues>| match values {
        Some(values) => readable_interval(values.ends),
        None => UNKNOWN.into(),
    };
    let quantiles = difference.quantiles.iter().map(|pair| {
        vec![
            pair.percentile.to_string(),
            text(pair.left),
            ends(&pair.left_interval),
            text(pair.right),
            ends(&pair.right_interval),
            match pair.order {
                QuantileOrder::LeftShorter => "left shorter",
                QuantileOrder::RightShorter => "right shorter",
                QuantileOrder::Undecided => "undecided",
            }
            .into(),
        ]
    });
    let alone = |name: &str, time: Duration| {
        let mut row = vec![String::new(); HEADER.len()];
        (row[0], row[1]) = (name.into(), time.to_string());
        row
    };
    let distance = alone("Wasserstein-1", difference.wasserstein1);
    let floor = difference
        .noise_floor
        .map(|floor| alone("noise floor", floor));
    quantiles.chain([distance]).chain(floor).collect()
}

fn distance(left: &Distribution, right: &Distribution, path: &Path) -> Result<Duration, Failure> {
    tailbound_distribution::wasserstein1(left, right)
        .map(|distance| distance.midpoint)
        .map_err(|error| Failure::error(format!("{}: {error}", path.display())))
}
