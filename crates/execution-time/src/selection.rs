//! The choice of terms with the lowest Bayesian information criterion, over all subsets.
//!
//! The criterion is `n ln(S / n) + k ln n` for `n` rows, squared residuals `S` and `k` coefficients (Schwarz, *Estimating
//! the Dimension of a Model*, 1978). The lower, the better; the paper's text says the opposite of what R's `regsubsets`,
//! which the paper used, does.
//!
//! The search is a branch and bound over terms in the way of Furnival and Wilson (*Regressions by Leaps and Bounds*,
//! 1974): the squared residuals of a set of terms are at least those of a larger set, also with coefficients that are
//! not negative, so that a branch is cut where its largest set with the fewest coefficients is no better than the best
//! model so far. Thus the answer is that of trying all subsets.

use crate::least_squares::{NormalEquations, Solution};

/// The most sets of terms that are solved, before the search ends with the best so far.
const MOST_SETS: usize = 20_000;

/// The rules of a search.
#[derive(Clone, Debug)]
pub struct Candidates {
    /// The counter of each column: columns of one counter are chosen together or apart, and count once.
    pub counter_of: Vec<usize>,
    /// The most counters of a model.
    pub most_counters: usize,
    /// The coefficients that every model has beside its terms.
    pub fixed_coefficients: usize,
}

/// The best model of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct TermChoice {
    /// Its terms.
    pub solution: Solution,
    /// Its criterion.
    pub bic: f64,
    /// The number of sets of terms that were solved.
    pub sets: usize,
    /// Whether no other subset has a lower criterion; else the search ended at its limit.
    pub exhaustive: bool,
}

struct BranchAndBound<'a> {
    equations: &'a NormalEquations,
    candidates: &'a Candidates,
    best: TermChoice,
}

/// The terms with the lowest criterion. `start` is a set that may be near the best one: a better start ends the search
/// sooner, with the same answer.
pub fn select(equations: &NormalEquations, candidates: &Candidates, start: &[usize]) -> TermChoice {
    let nothing = equations.solve(&[]);
    let mut search = BranchAndBound {
        equations,
        candidates,
        best: TermChoice {
            bic: bic(equations, candidates, &nothing, 0),
            solution: nothing,
            sets: 0,
            exhaustive: true,
        },
    };
    search.consider(&equations.solve(start));
    search.forward();
    let free: Vec<usize> = (0..equations.columns())
        .filter(|&column| equations.is_present(column))
        .collect();
    let free = if candidates.most_counters == 0 {
        Vec::new()
    } else {
        free
    };
    let solution = equations.solve(&free);
    search.visit(&[], &free, &solution);
    search.best
}

fn bic(
    equations: &NormalEquations,
    candidates: &Candidates,
    solution: &Solution,
    terms: usize,
) -> f64 {
    let rows = equations.rows() as f64;
    let mean_square = (solution.residual_square / rows).max(f64::MIN_POSITIVE);
    rows * mean_square.ln() + (candidates.fixed_coefficients + terms) as f64 * rows.ln()
}

impl Candidates {
    fn counters(&self, columns: &[usize]) -> usize {
        let mut counters: Vec<usize> = columns
            .iter()
            .map(|&column| self.counter_of[column])
            .collect();
        counters.sort_unstable();
        counters.dedup();
        counters.len()
    }
}

impl BranchAndBound<'_> {
    fn bic(&self, solution: &Solution, terms: usize) -> f64 {
        bic(self.equations, self.candidates, solution, terms)
    }

    /// Keeps a model if it is the best so far.
    fn consider(&mut self, solution: &Solution) {
        let bic = self.bic(solution, solution.columns.len());
        let allowed = self.candidates.counters(&solution.columns) <= self.candidates.most_counters;
        if allowed && bic < self.best.bic {
            self.best.bic = bic;
            self.best.solution = solution.clone();
        }
    }

    /// Adds the term that helps most, again and again: a first model to compare with.
    fn forward(&mut self) {
        let mut columns: Vec<usize> = Vec::new();
        loop {
            let extended = (0..self.equations.columns()).filter_map(|column| {
                let mut extended = columns.clone();
                extended.push(column);
                let counters = self.candidates.counters(&extended);
                let allowed =
                    !columns.contains(&column) && counters <= self.candidates.most_counters;
                allowed.then(|| self.equations.solve(&extended))
            });
            let least = extended
                .min_by(|left, right| left.residual_square.total_cmp(&right.residual_square));
            let Some(solution) = least.filter(|solution| solution.columns.len() > columns.len())
            else {
                return;
            };
            let before = self.best.bic;
            self.consider(&solution);
            columns.clone_from(&solution.columns);
            if self.best.bic >= before {
                return;
            }
        }
    }

    /// Visits every set of terms between `included` and `included` with `free`, whose least squares are `solution`.
    fn visit(&mut self, included: &[usize], free: &[usize], solution: &Solution) {
        // A hair below the best, so that rounding does not visit equals.
        if self.bic(solution, included.len()) >= self.best.bic - 1e-9 {
            return;
        }
        self.best.sets += 1;
        if self.best.sets > MOST_SETS {
            self.best.exhaustive = false;
            return;
        }
        self.consider(solution);
        let branching = (0..solution.columns.len())
            .filter(|&index| free.contains(&solution.columns[index]))
            .max_by(|&left, &right| {
                let contribution = |index| self.equations.contribution(solution, index);
                contribution(left).total_cmp(&contribution(right))
            });
        let Some(branching) = branching.map(|index| solution.columns[index]) else {
            return;
        };
        let rest: Vec<usize> = free
            .iter()
            .copied()
            .filter(|&column| column != branching)
            .collect();
        let mut with = included.to_vec();
        with.push(branching);
        let counter = |column: usize| self.candidates.counter_of[column];
        if self.candidates.counters(&with) >= self.candidates.most_counters {
            let in_use =
                |column: &usize| with.iter().any(|&other| counter(other) == counter(*column));
            let allowed: Vec<usize> = rest.iter().copied().filter(in_use).collect();
            let narrower = self.equations.solve(&[with.as_slice(), &allowed].concat());
            self.visit(&with, &allowed, &narrower);
        } else {
            self.visit(&with, &rest, solution);
        }
        let without = self.equations.solve(&[included, &rest].concat());
        self.visit(included, &rest, &without);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use nalgebra::{DMatrix, DVector};
    use proptest::prelude::*;

    use super::*;

    /// The best of all subsets, tried one by one.
    fn tried(equations: &NormalEquations, candidates: &Candidates) -> f64 {
        let count = equations.columns();
        let subsets = (0..1_u32 << count).map(|bits| {
            let columns: Vec<usize> = (0..count)
                .filter(|column| bits >> column & 1 == 1)
                .collect();
            let solution = equations.solve(&columns);
            let allowed = candidates.counters(&solution.columns) <= candidates.most_counters;
            let bic = bic(equations, candidates, &solution, solution.columns.len());
            if allowed { bic } else { f64::INFINITY }
        });
        subsets.fold(f64::INFINITY, f64::min)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_search_finds_the_best_of_all_subsets(
            values in prop::collection::vec(0.0..10.0, 8 * 20),
            noise in prop::collection::vec(-1.0..1.0, 20),
            weights in prop::collection::vec(-2.0..3.0, 8),
            most_counters in 1_usize..5,
        ) {
            let columns = DMatrix::from_vec(20, 8, values);
            let observations = &columns * DVector::from_vec(weights) + DVector::from_vec(noise);
            let equations = NormalEquations::of(&columns, &observations);
            let counter_of = vec![0, 0, 1, 1, 2, 2, 3, 3];
            let candidates = Candidates { counter_of, most_counters, fixed_coefficients: 0 };
            let selection = select(&equations, &candidates, &[]);
            let best = tried(&equations, &candidates);
            prop_assert!((selection.bic - best).abs() < 1e-6, "{} and {best}", selection.bic);
            prop_assert!(selection.exhaustive);
        }
    }
}
