//! Cross-validation: each program is predicted by a model of all others, counters chosen anew.

use serde::{Deserialize, Serialize};

use crate::demand::{CycleDemand, naive_seconds};
use crate::design::{Program, SetPointMeans};
use crate::fit::{Premise, Regression};
use crate::least_squares::Solution;
use crate::selection::TermChoice;
use tailbound_time::Duration;

/// Relative errors, without their signs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ErrorSummary {
    /// The mean.
    pub mean: f64,
    /// The error that 95% of the predictions do not exceed.
    pub p95: f64,
    /// The largest.
    pub max: f64,
    /// The number of predictions.
    pub predictions: usize,
}

/// The errors of one program that was left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramError {
    /// The program.
    pub program: String,
    /// The errors of the model.
    pub model: ErrorSummary,
    /// The errors of the naive model, for the same predictions.
    pub naive: ErrorSummary,
}

/// The errors of all programs, each left out once.
///
/// For scaling, each program is predicted from each of its set points to each other one, and the naive model is
/// `T ∝ 1 / f_cpu`. For times from counts alone, each program is predicted at each of its set points, and the naive
/// model is a fixed number of core cycles for each event of the one counter that explains most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CrossValidation {
    /// The errors of the model, over all predictions.
    pub model: ErrorSummary,
    /// The errors of the naive model.
    pub naive: ErrorSummary,
    /// For scaling, the errors as the paper states them (section 5.3): of the performance at each set point relative to
    /// the fastest one, `s = t_max / t` (equation 6), in parts of 1.
    pub performance: Option<PerformanceErrors>,
    /// The errors by program, in the order of the recording.
    pub programs: Vec<ProgramError>,
}

/// Absolute errors of the relative performance.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PerformanceErrors {
    /// Those of the model.
    pub model: ErrorSummary,
    /// Those of the naive model.
    pub naive: ErrorSummary,
}

/// Errors of one model, in the order of the predictions.
#[derive(Default)]
struct Errors {
    times: Vec<f64>,
    performance: Vec<f64>,
}

impl ErrorSummary {
    /// The summary of some errors.
    pub fn of(mut errors: Vec<f64>) -> Self {
        errors.sort_by(f64::total_cmp);
        let count = errors.len();
        let rank = (count * 95).div_ceil(100).saturating_sub(1);
        Self {
            mean: errors.iter().fold(0.0, |sum, error| sum + error) / count.max(1) as f64,
            p95: errors.get(rank).copied().unwrap_or(0.0),
            max: errors.last().copied().unwrap_or(0.0),
            predictions: count,
        }
    }
}

/// The errors with each program left out, and the solutions that predicted it.
pub fn validate(
    regression: &Regression<'_>,
    chosen: &TermChoice,
) -> (CrossValidation, Vec<Solution>) {
    let mut solutions = Vec::new();
    let mut programs = Vec::new();
    let (mut of_model, mut of_naive) = (Errors::default(), Errors::default());
    for (left_out, program) in regression.observations.programs.iter().enumerate() {
        let others = regression.without(Some(left_out));
        let count = regression.observations.programs.len() - 1;
        let solution = regression
            .select(&others, count, &chosen.solution.columns)
            .solution;
        let (model, naive) = match regression.premise {
            Premise::Scaling => scaling_errors(regression, program, &solution),
            Premise::Absolute => {
                let naive = regression.naive(&others);
                (
                    absolute_errors(regression, program, &solution),
                    absolute_errors(regression, program, &naive),
                )
            }
        };
        of_model.times.extend_from_slice(&model.times);
        of_model.performance.extend_from_slice(&model.performance);
        of_naive.times.extend_from_slice(&naive.times);
        of_naive.performance.extend_from_slice(&naive.performance);
        programs.push(ProgramError {
            program: program.name.clone(),
            model: ErrorSummary::of(model.times),
            naive: ErrorSummary::of(naive.times),
        });
        solutions.push(solution);
    }
    let performance = PerformanceErrors {
        model: ErrorSummary::of(of_model.performance),
        naive: ErrorSummary::of(of_naive.performance),
    };
    let errors = CrossValidation {
        model: ErrorSummary::of(of_model.times),
        naive: ErrorSummary::of(of_naive.times),
        performance: (regression.premise == Premise::Scaling).then_some(performance),
        programs,
    };
    (errors, solutions)
}

/// The errors from each set point of a program to each other one: the model's and the naive model's.
fn scaling_errors(
    regression: &Regression<'_>,
    program: &Program,
    solution: &Solution,
) -> (Errors, Errors) {
    let (mut model, mut naive) = (Errors::default(), Errors::default());
    let seconds = |observation: &SetPointMeans| observation.seconds;
    let fastest = program
        .observations
        .iter()
        .min_by(|left, right| seconds(left).total_cmp(&seconds(right)));
    for (index, from) in program.observations.iter().enumerate() {
        let cycles = regression.cycles(solution, &from.counts);
        let time = Duration::from_secs_f64_nearest(from.seconds);
        let demand = CycleDemand::measured(time, &from.set_point, cycles);
        for (other, to) in program.observations.iter().enumerate() {
            if other == index {
                continue;
            }
            let (from_core, to_core) = (from.set_point.core(), to.set_point.core());
            let predicted = demand.seconds_at(&to.set_point);
            let naively = naive_seconds(from.seconds, from_core, to_core);
            model.times.push(relative_error(predicted, to));
            naive.times.push(relative_error(naively, to));
            if Some(to) == fastest {
                model
                    .performance
                    .push((predicted - to.seconds).abs() / from.seconds);
                naive
                    .performance
                    .push((naively - to.seconds).abs() / from.seconds);
            }
        }
    }
    (model, naive)
}

/// The errors of times from counts alone.
fn absolute_errors(regression: &Regression<'_>, program: &Program, solution: &Solution) -> Errors {
    let observations = program.observations.iter();
    let errors = observations.map(|observation| {
        let cycles = regression.cycles(solution, &observation.counts);
        let demand = CycleDemand {
            cycles,
            limited: false,
        };
        relative_error(demand.seconds_at(&observation.set_point), observation)
    });
    Errors {
        times: errors.collect(),
        performance: Vec::new(),
    }
}

fn relative_error(predicted: f64, observation: &SetPointMeans) -> f64 {
    (predicted - observation.seconds).abs() / observation.seconds
}
