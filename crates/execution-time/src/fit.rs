//! The terms of a model and their coefficients.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::design::{Observations, Regressor};
use crate::least_squares::{NormalEquations, Solution};
use crate::run_table::CORE;
use crate::selection::{Candidates, TermChoice, select};
use crate::validation::{CrossValidation, validate};

/// What a model starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Premise {
    /// A measured time at one set point, and counts: the time at another set point (equation 5).
    Scaling,
    /// Counts alone: the time at a set point, also of a program that was counted on another host.
    Absolute,
}

/// One term: the cycles of a clock that an event costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Term {
    /// The counted event.
    pub counter: String,
    /// The clock; `constant` is time that no clock changes, in nanoseconds.
    pub clock: String,
    /// Cycles of the clock for each event, above zero.
    pub cycles_per_event: f64,
    /// The jackknife standard error of the cycles, over the programs.
    pub standard_error: f64,
    /// The share of the cross-validation's regressions that chose the term as well.
    pub chosen_again: f64,
}

/// A regression: its terms, and how well they predict programs that it has not seen.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// What it starts from.
    pub premise: Premise,
    /// The terms with the lowest criterion.
    pub terms: Vec<Term>,
    /// The Bayesian information criterion.
    pub bic: f64,
    /// The root mean square of the relative residuals, of the programs that the regression has seen.
    pub residual: f64,
    /// The sets of terms that the search solved.
    pub sets: usize,
    /// Whether no other subset of terms has a lower criterion.
    pub exhaustive: bool,
    /// The errors for programs that were left out.
    pub errors: CrossValidation,
}

/// A regression's data: one set of normal equations a program.
pub struct Regression<'a> {
    pub premise: Premise,
    pub observations: &'a Observations,
    pub columns: Vec<Regressor>,
    equations: Vec<NormalEquations>,
    most_counters: usize,
}

impl<'a> Regression<'a> {
    pub fn new(
        premise: Premise,
        observations: &'a Observations,
        counters: usize,
        most_counters: usize,
    ) -> Self {
        let columns = observations.columns(premise, counters);
        let programs = observations.programs.iter();
        Self {
            premise,
            observations,
            equations: programs
                .map(|program| program.equations(premise, &columns))
                .collect(),
            columns,
            most_counters,
        }
    }

    /// The equations of all programs but one.
    pub fn without(&self, left_out: Option<usize>) -> NormalEquations {
        let mut all = NormalEquations::empty(self.columns.len());
        for (index, equations) in self.equations.iter().enumerate() {
            if Some(index) != left_out {
                all.add(equations);
            }
        }
        all
    }

    /// The best model of some equations.
    pub fn select(
        &self,
        equations: &NormalEquations,
        programs: usize,
        start: &[usize],
    ) -> TermChoice {
        let fixed_coefficients = match self.premise {
            Premise::Scaling => programs,
            Premise::Absolute => 0,
        };
        let candidates = Candidates {
            counter_of: self.columns.iter().map(|column| column.counter).collect(),
            most_counters: self.most_counters,
            fixed_coefficients,
        };
        select(equations, &candidates, start)
    }

    /// The core's column that alone explains most: the naive model of times from counts.
    pub fn naive(&self, equations: &NormalEquations) -> Solution {
        let core = (0..self.columns.len()).filter(|&index| self.columns[index].clock == CORE);
        let single = core.map(|index| equations.solve(&[index]));
        let least =
            single.min_by(|left, right| left.residual_square.total_cmp(&right.residual_square));
        least.unwrap_or_else(|| equations.solve(&[]))
    }

    /// The cycles of each clock by a solution, for events in the order of the counters.
    pub fn cycles(&self, solution: &Solution, counts: &[f64]) -> BTreeMap<String, f64> {
        let mut cycles = BTreeMap::new();
        for (&column, coefficient) in solution.columns.iter().zip(&solution.coefficients) {
            let Regressor { counter, clock } = &self.columns[column];
            *cycles.entry(clock.clone()).or_insert(0.0) += coefficient * counts[*counter];
        }
        cycles
    }

    /// The model of all programs, with its errors for each of them left out.
    pub fn fit(&self, counters: &[String]) -> Fit {
        let programs = self.observations.programs.len();
        let all = self.without(None);
        let selection = self.select(&all, programs, &[]);
        let (errors, folds) = validate(self, &selection);
        let terms = selection
            .solution
            .columns
            .iter()
            .zip(&selection.solution.coefficients);
        let terms = terms
            .enumerate()
            .map(|(index, (&column, &cycles_per_event))| Term {
                counter: counters[self.columns[column].counter].clone(),
                clock: self.columns[column].clock.clone(),
                cycles_per_event,
                standard_error: self.jackknife(&selection.solution, index),
                chosen_again: folds
                    .iter()
                    .filter(|fold| fold.columns.contains(&column))
                    .count() as f64
                    / programs as f64,
            });
        Fit {
            premise: self.premise,
            terms: terms.collect(),
            bic: selection.bic,
            residual: (selection.solution.residual_square / all.rows() as f64).sqrt(),
            sets: selection.sets,
            exhaustive: selection.exhaustive,
            errors,
        }
    }

    /// The jackknife standard error of a coefficient: from its values with each program left out.
    fn jackknife(&self, solution: &Solution, index: usize) -> f64 {
        let programs = self.observations.programs.len();
        let values: Vec<f64> = (0..programs)
            .map(|left_out| {
                let refit = self.without(Some(left_out)).solve(&solution.columns);
                let place = refit
                    .columns
                    .iter()
                    .position(|&column| column == solution.columns[index]);
                place.map_or(0.0, |place| refit.coefficients[place])
            })
            .collect();
        let mean = values.iter().sum::<f64>() / programs as f64;
        let square: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
        (square * (programs - 1) as f64 / programs as f64).sqrt()
    }
}
