//! Plots of the times of chains: predicted, simulated and measured over each other.

use tailbound_report::{Plot, PlotSeries, PlottedQuantity, PromiseMark, SeriesKind, readable};
use tailbound_time::Duration;

use crate::{ChainRow, ChainTime, EstimateSource};

/// A plot for each time of each chain of which there is a distribution.
pub(crate) fn plots(rows: &[ChainRow]) -> Vec<Plot> {
    let mut subjects: Vec<(&str, &str)> = Vec::new();
    for row in rows {
        for time in row.times.iter().filter(|time| time.curve.is_some()) {
            let subject = (row.chain.as_str(), time.name.as_str());
            if !subjects.contains(&subject) {
                subjects.push(subject);
            }
        }
    }
    let mut variants: Vec<&str> = Vec::new();
    for row in rows {
        if !variants.contains(&row.variant.as_str()) {
            variants.push(&row.variant);
        }
    }
    let each = subjects.iter().enumerate();
    let plots = each.map(|(index, (chain, name))| {
        let own: Vec<(&ChainRow, &ChainTime)> = rows
            .iter()
            .filter(|row| row.chain == *chain)
            .filter_map(|row| Some((row, row.times.iter().find(|time| time.name == *name)?)))
            .collect();
        let series: Vec<PlotSeries> = variants
            .iter()
            .enumerate()
            .flat_map(|(colour, variant)| series_of(&own, variant, colour))
            .collect();
        Plot {
            id: format!("chain-{}", index + 1),
            service: format!("{chain}: {name}"),
            quantity: quantity_of(name),
            promises: marks(&own),
            description: words(chain, name, &own),
            series,
        }
    });
    plots.collect()
}

/// The things that a time of a chain is counted over: a reaction time belongs to a cause, an age to an output.
fn quantity_of(name: &str) -> PlottedQuantity {
    match name {
        "reaction time" => PlottedQuantity {
            counted: "causes",
            time: "a reaction time",
        },
        "data age" => PlottedQuantity {
            counted: "outputs",
            time: "a data age",
        },
        _ => PlottedQuantity {
            counted: "outputs",
            time: "a data age at the output",
        },
    }
}

/// The series of a variant in the order prediction, simulation, runs.
fn series_of(own: &[(&ChainRow, &ChainTime)], variant: &str, colour: usize) -> Vec<PlotSeries> {
    let mut series: Vec<PlotSeries> = Vec::new();
    for (row, time) in own.iter().filter(|(row, _)| row.variant == variant) {
        let Some(curve) = &time.curve else {
            continue;
        };
        let kind = kind_of(row);
        let run = row.repetition.map(|run| format!(" (run {run})"));
        series.push(PlotSeries {
            variant: variant.to_owned(),
            colour,
            kind,
            label: format!("{variant}, {}{}", kind.word(), run.unwrap_or_default()),
            upper: curve.steps().to_vec(),
            lower: None,
        });
    }
    series.sort_by_key(|one| match one.kind {
        SeriesKind::Predicted => 0,
        SeriesKind::Simulated => 1,
        SeriesKind::Measured => 2,
    });
    series
}

fn kind_of(row: &ChainRow) -> SeriesKind {
    row.source
        .map_or(SeriesKind::Measured, EstimateSource::kind)
}

/// The bound, and the limit.
fn marks(own: &[(&ChainRow, &ChainTime)]) -> Vec<PromiseMark> {
    let mark = |what: &str, time_ns: u64| {
        let latency = Duration::from_nanos(time_ns);
        PromiseMark {
            label: format!("{what} {}", readable(latency)),
            latency,
            probability: 1.0,
        }
    };
    // Of times, only a bound has neither a curve nor a number of samples.
    let mut bounds = own.iter().filter(|(_, time)| {
        time.curve.is_none() && time.count.is_none() && time.median_ns.is_none()
    });
    let bound = bounds.find_map(|(_, time)| time.longest_ns);
    let limit = own.iter().find_map(|(_, time)| time.limit_ns);
    let bound = bound.map(|bound| mark("bound", bound));
    let limit = limit.map(|limit| mark("allowed", limit));
    bound.into_iter().chain(limit).collect()
}

fn words(chain: &str, name: &str, own: &[(&ChainRow, &ChainTime)]) -> String {
    let length =
        |ns: Option<u64>| ns.map_or_else(String::new, |ns| readable(Duration::from_nanos(ns)));
    let each = own.iter().filter(|(_, time)| time.curve.is_some());
    let each = each.map(|(row, time)| {
        format!(
            " {}, {}: median {}, p99 {}.",
            row.variant,
            kind_of(row).word(),
            length(time.median_ns),
            length(time.p99_ns)
        )
    });
    let each: String = each.collect();
    format!("The {name} of chain {chain}.{each}")
}
