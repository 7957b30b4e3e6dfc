//! The figures of the paper, and by which numbers it has them.

use serde::Serialize;

use crate::curves::{Compared, Curve, Metric, Parameter};
use crate::study::Row;
use crate::variants::IN_FIGURES;

/// One figure.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figure {
    /// Its number in the paper.
    pub number: u8,
    /// The experiment.
    pub experiment: u8,
    /// What is compared.
    pub metric: Metric,
    /// Over which parameter.
    pub parameter: Parameter,
    /// Whether scheduling costs something.
    pub overheads: bool,
}

/// A figure with its curves.
#[derive(Clone, Debug, Serialize)]
pub struct Drawn {
    /// Which.
    pub figure: Figure,
    /// What it shows.
    pub curves: Vec<Curve>,
}

impl Figure {
    /// The heading.
    pub fn title(&self) -> String {
        let Self { number, metric, .. } = self;
        format!("Figure {number}: {}", metric.label())
    }

    /// What else there is to know.
    pub fn subtitle(&self) -> &'static str {
        match (self.experiment, self.overheads) {
            (1, true) => "relative to the background, experiment 1, with overheads",
            (1, false) => "relative to the background, experiment 1, without overheads",
            (_, true) => "relative to the background, experiment 2, with overheads",
            (_, false) => "relative to the background, experiment 2, without overheads",
        }
    }

    /// A name for files.
    pub fn file_stem(&self) -> String {
        let suffix = if self.overheads { "" } else { "-no-overheads" };
        format!("figure-{:02}{suffix}", self.number)
    }
}

/// All figures. Those about the scheduler's time exist with overheads only.
pub fn all() -> Vec<Figure> {
    let by_parameter = [
        Parameter::HardLoad,
        Parameter::HardTasks,
        Parameter::SoftLoad,
    ];
    let metrics = [
        Metric::Response,
        Metric::Switches,
        Metric::TimePerInvocation,
        Metric::SchedulerTime,
    ];
    let mut figures = Vec::new();
    let mut add = |number, experiment, metric, parameter| {
        for overheads in [true, false] {
            if overheads || matches!(metric, Metric::Response | Metric::Switches) {
                figures.push(Figure {
                    number,
                    experiment,
                    metric,
                    parameter,
                    overheads,
                });
            }
        }
    };
    let mut number = 2;
    for metric in metrics {
        for parameter in by_parameter {
            add(number, 1, metric, parameter);
            number += 1;
        }
    }
    add(number, 2, Metric::Response, Parameter::Gain);
    for parameter in by_parameter {
        number += 1;
        add(number, 2, Metric::Response, parameter);
    }
    figures
}

/// The curves of every figure.
pub fn draw(rows: &[Row]) -> Vec<Drawn> {
    let drawn = all().into_iter().map(|figure| {
        let compared = Compared::of(rows, figure.experiment, figure.overheads);
        let curves = IN_FIGURES
            .iter()
            .map(|policy| compared.curve(*policy, figure.metric, figure.parameter));
        Drawn {
            figure,
            curves: curves.collect(),
        }
    });
    drawn.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_paper() {
        let figures = all();
        let numbers = |experiment: u8, metric: Metric| -> Vec<u8> {
            let mut numbers: Vec<u8> = figures
                .iter()
                .filter(|figure| figure.experiment == experiment && figure.metric == metric)
                .map(|figure| figure.number)
                .collect();
            numbers.dedup();
            numbers
        };
        assert_eq!(numbers(1, Metric::Response), [2, 3, 4]);
        assert_eq!(numbers(1, Metric::TimePerInvocation), [8, 9, 10]);
        assert_eq!(numbers(1, Metric::SchedulerTime), [11, 12, 13]);
        assert_eq!(numbers(2, Metric::Response), [14, 15, 16, 17]);
    }
}
