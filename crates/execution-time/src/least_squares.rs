//! Least squares with coefficients that are not negative, over normal equations.

use nalgebra::{DMatrix, DVector};

/// The share of a column that has to be left after those before it, or the column counts as a combination of them.
const INDEPENDENT: f64 = 1e-10;
/// The share of the squared observations below which residuals are rounding errors.
const ROUNDING: f64 = 1e-13;

/// Sums of products of a regression's columns and observations. Those of several groups of rows add up.
#[derive(Clone, Debug, PartialEq)]
pub struct NormalEquations {
    gram: DMatrix<f64>,
    moment: DVector<f64>,
    square: f64,
    rows: usize,
}

/// Coefficients of some columns.
#[derive(Clone, Debug, PartialEq)]
pub struct Solution {
    /// The columns with coefficients above zero, in ascending order.
    pub columns: Vec<usize>,
    /// Their coefficients.
    pub coefficients: Vec<f64>,
    /// The sum of squared residuals.
    pub residual_square: f64,
}

impl NormalEquations {
    /// The equations without rows, of `columns` columns.
    pub fn empty(columns: usize) -> Self {
        Self {
            gram: DMatrix::zeros(columns, columns),
            moment: DVector::zeros(columns),
            square: 0.0,
            rows: 0,
        }
    }

    /// The equations of the rows of `columns` with their observations.
    pub fn of(columns: &DMatrix<f64>, observations: &DVector<f64>) -> Self {
        Self {
            gram: columns.tr_mul(columns),
            moment: columns.tr_mul(observations),
            square: observations.norm_squared(),
            rows: observations.len(),
        }
    }

    /// Adds the rows of other equations.
    pub fn add(&mut self, other: &Self) {
        self.gram += &other.gram;
        self.moment += &other.moment;
        self.square += other.square;
        self.rows += other.rows;
    }

    /// The number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// The number of columns.
    pub fn columns(&self) -> usize {
        self.moment.len()
    }

    /// Whether a column has a value other than zero.
    pub fn is_present(&self, column: usize) -> bool {
        self.gram[(column, column)] > 0.0
    }

    /// The coefficients of `allowed` columns, none of them negative, with the least squared residuals: the active-set
    /// method of Lawson and Hanson over the cross-products (Bro and de Jong, *A fast non-negativity-constrained least
    /// squares algorithm*, J. Chemometrics 11, 1997). A column that depends linearly on columns already in use stays
    /// at zero.
    pub fn solve(&self, allowed: &[usize]) -> Solution {
        let scale: Vec<f64> = allowed
            .iter()
            .map(|&column| self.gram[(column, column)].sqrt())
            .collect();
        let gram = DMatrix::from_fn(allowed.len(), allowed.len(), |row, column| {
            self.gram[(allowed[row], allowed[column])]
                / (scale[row] * scale[column]).max(f64::MIN_POSITIVE)
        });
        let moment = DVector::from_fn(allowed.len(), |row, _| {
            self.moment[allowed[row]] / scale[row].max(f64::MIN_POSITIVE)
        });
        let usable: Vec<bool> = scale.iter().map(|&scale| scale > 0.0).collect();
        let scaled = ActiveSet::new(&gram, &moment, usable).solve(self.square.sqrt());
        let explained: f64 = scaled
            .iter()
            .zip(moment.iter())
            .map(|(value, moment)| value * moment)
            .sum();
        let positive = (0..allowed.len()).filter(|&index| scaled[index] > 0.0);
        let mut pairs: Vec<(usize, f64)> = positive
            .map(|index| (allowed[index], scaled[index] / scale[index]))
            .collect();
        pairs.sort_by_key(|&(column, _)| column);
        let (columns, coefficients) = pairs.into_iter().unzip();
        Solution {
            columns,
            coefficients,
            residual_square: (self.square - explained).max(ROUNDING * self.square),
        }
    }

    /// The part of the squared observations that a column of a solution stands for.
    pub fn contribution(&self, solution: &Solution, index: usize) -> f64 {
        solution.coefficients[index] * self.moment[solution.columns[index]]
    }
}

/// The state of the active-set method: columns in use, and their coefficients.
struct ActiveSet<'a> {
    gram: &'a DMatrix<f64>,
    moment: &'a DVector<f64>,
    usable: Vec<bool>,
    active: Vec<usize>,
    values: DVector<f64>,
}

impl<'a> ActiveSet<'a> {
    fn new(gram: &'a DMatrix<f64>, moment: &'a DVector<f64>, usable: Vec<bool>) -> Self {
        Self {
            gram,
            moment,
            usable,
            active: Vec::new(),
            values: DVector::zeros(moment.len()),
        }
    }

    fn solve(mut self, size: f64) -> DVector<f64> {
        // Each round enters one column and lowers the residual, so that no set of columns returns; the limit guards
        // against rounding.
        for _ in 0..8 * self.moment.len() + 8 {
            let gradient = self.moment - self.gram * &self.values;
            let inactive = (0..self.moment.len())
                .filter(|index| self.usable[*index] && !self.active.contains(index));
            let steepest =
                inactive.max_by(|&left, &right| gradient[left].total_cmp(&gradient[right]));
            let Some(entering) = steepest.filter(|&index| gradient[index] > 1e-11 * size) else {
                break;
            };
            self.active.push(entering);
            if !self.step() {
                self.active.retain(|&index| index != entering);
                self.usable[entering] = false;
            }
        }
        self.values
    }

    /// Moves to the least squares of the active columns, and drops those that would become negative on the way;
    /// false where the columns depend on one another.
    fn step(&mut self) -> bool {
        while let Some(target) = self.unconstrained() {
            let negative = (0..self.active.len()).filter(|&at| target[at] <= 0.0);
            let shares = negative.map(|at| {
                let value = self.values[self.active[at]];
                (at, value / (value - target[at]).max(f64::MIN_POSITIVE))
            });
            let Some((first, share)) = shares.min_by(|left, right| left.1.total_cmp(&right.1))
            else {
                for (at, &index) in self.active.iter().enumerate() {
                    self.values[index] = target[at];
                }
                return true;
            };
            for (at, &index) in self.active.iter().enumerate() {
                self.values[index] += share * (target[at] - self.values[index]);
            }
            self.values[self.active[first]] = 0.0;
            self.active.remove(first);
        }
        false
    }

    /// The least squares of the active columns without a sign; `None` where they depend on one another.
    fn unconstrained(&self) -> Option<DVector<f64>> {
        let count = self.active.len();
        let gram = DMatrix::from_fn(count, count, |row, column| {
            self.gram[(self.active[row], self.active[column])]
        });
        let moment = DVector::from_fn(count, |row, _| self.moment[self.active[row]]);
        let factor = gram.cholesky()?;
        let diagonal = factor.l_dirty().diagonal();
        let independent = diagonal.iter().all(|value| value * value > INDEPENDENT);
        independent.then(|| factor.solve(&moment))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equations(rows: &[(&[f64], f64)]) -> NormalEquations {
        let columns = DMatrix::from_fn(rows.len(), rows[0].0.len(), |row, column| {
            rows[row].0[column]
        });
        NormalEquations::of(
            &columns,
            &DVector::from_fn(rows.len(), |row, _| rows[row].1),
        )
    }

    #[test]
    fn exact_data_give_their_coefficients() {
        let rows: [(&[f64], f64); 3] =
            [(&[1.0, 2.0], 8.0), (&[3.0, 1.0], 9.0), (&[5.0, 7.0], 31.0)];
        let solution = equations(&rows).solve(&[0, 1]);
        assert_eq!(solution.columns, [0, 1]);
        assert!(
            (solution.coefficients[0] - 2.0).abs() < 1e-9,
            "{solution:?}"
        );
        assert!(
            (solution.coefficients[1] - 3.0).abs() < 1e-9,
            "{solution:?}"
        );
    }

    #[test]
    fn a_coefficient_below_zero_becomes_zero_and_the_others_follow() {
        // Without a sign: 1 and -1.
        let rows: [(&[f64], f64); 3] =
            [(&[1.0, 0.0], 1.0), (&[0.0, 1.0], -1.0), (&[1.0, 1.0], 0.0)];
        let solution = equations(&rows).solve(&[0, 1]);
        assert_eq!(solution.columns, [0]);
        assert!((solution.coefficients[0] - 0.5).abs() < 1e-12);
        assert!((solution.residual_square - 1.5).abs() < 1e-12);
    }

    #[test]
    fn a_column_that_depends_on_others_is_left_out() {
        let rows: [(&[f64], f64); 3] = [
            (&[1.0, 2.0, 0.0], 1.0),
            (&[2.0, 4.0, 1.0], 3.0),
            (&[3.0, 6.0, 0.0], 3.0),
        ];
        let solution = equations(&rows).solve(&[0, 1, 2]);
        assert_eq!(solution.columns.len(), 2, "{solution:?}");
        assert!(solution.residual_square < 1e-9);
    }
}
