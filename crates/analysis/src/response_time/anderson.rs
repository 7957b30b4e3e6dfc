//! Anderson's rule (1965) for fixed points: the next guess from the last ones, such that their steps cancel each other.

use std::collections::VecDeque;

/// The earlier steps that are mixed.
const MIXED: usize = 12;
/// The part of a difference that must be new, for it to say something.
const NEW: f64 = 1e-10;

/// The last guesses and their steps.
#[derive(Debug, Default)]
pub(super) struct Mixing {
    last: Option<LastStep>,
    differences: VecDeque<StepDifference>,
}

#[derive(Debug)]
struct LastStep {
    guess: Vec<f64>,
    step: Vec<f64>,
    /// The scalar products of the step with those of the differences.
    products: Vec<f64>,
}

/// The changes from a guess to the next one.
#[derive(Debug)]
struct StepDifference {
    /// Of the step.
    step: Vec<f64>,
    /// Of the guess with its step.
    target: Vec<f64>,
    /// The scalar products of the step with those of all differences up to this one.
    products: Vec<f64>,
}

impl Mixing {
    /// The guess that follows `guess`, from which a `step` leads towards the fixed point.
    pub(super) fn next(&mut self, guess: &[f64], step: Vec<f64>) -> Vec<f64> {
        let mut products: Vec<f64> = self
            .differences
            .iter()
            .map(|earlier| product(&earlier.step, &step))
            .collect();
        if let Some(last) = self.last.take() {
            let difference = last.until(guess, &step, &products);
            products.push(product(&difference.step, &step));
            self.differences.push_back(difference);
            if self.differences.len() > MIXED {
                self.forget_first();
                products.remove(0);
            }
        }
        let mut next: Vec<f64> = guess.iter().zip(&step).map(|(g, s)| g + s).collect();
        for (factor, difference) in self.factors(&products).iter().zip(&self.differences) {
            let values = next.iter_mut().zip(&difference.target);
            values.for_each(|(value, change)| *value -= factor * change);
        }
        self.last = Some(LastStep {
            guess: guess.to_vec(),
            step,
            products,
        });
        next
    }

    fn forget_first(&mut self) {
        self.differences.pop_front();
        for difference in &mut self.differences {
            difference.products.remove(0);
        }
    }

    /// The factors with which the differences of steps come nearest to a step that has these scalar products with them:
    /// the normal equations by Cholesky's decomposition. Of differences that say nothing new the later ones count.
    fn factors(&self, products: &[f64]) -> Vec<f64> {
        let count = self.differences.len();
        // From the last to the first.
        let entry = |row: usize, column: usize| {
            self.differences[count - 1 - column].products[count - 1 - row]
        };
        let mut lower = vec![vec![0.0; count]; count];
        let mut right = vec![0.0; count];
        for row in 0..count {
            for column in 0..row {
                let before = product(&lower[row][..column], &lower[column][..column]);
                lower[row][column] = quotient(entry(row, column) - before, lower[column][column]);
            }
            let own = entry(row, row);
            let rest = own - product(&lower[row][..row], &lower[row][..row]);
            lower[row][row] = if rest > NEW * own { rest.sqrt() } else { 0.0 };
            let before = product(&lower[row][..row], &right[..row]);
            right[row] = quotient(products[count - 1 - row] - before, lower[row][row]);
        }
        let mut factors = vec![0.0; count];
        for row in (0..count).rev() {
            let later = (row + 1..count).map(|k| lower[k][row] * factors[count - 1 - k]);
            let later: f64 = later.sum();
            factors[count - 1 - row] = quotient(right[row] - later, lower[row][row]);
        }
        factors
    }
}

impl LastStep {
    /// The difference to the next guess and its step, which has the scalar products `products` with the differences.
    fn until(&self, guess: &[f64], step: &[f64], products: &[f64]) -> StepDifference {
        let changes = |now: &[f64], before: &[f64]| -> Vec<f64> {
            now.iter().zip(before).map(|(n, b)| n - b).collect()
        };
        let step = changes(step, &self.step);
        let mut target = changes(guess, &self.guess);
        target.iter_mut().zip(&step).for_each(|(t, s)| *t += s);
        let mut products = changes(products, &self.products);
        products.push(product(&step, &step));
        StepDifference {
            step,
            target,
            products,
        }
    }
}

/// The quotient, or 0 where nothing is to be divided by.
fn quotient(value: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { value / divisor } else { 0.0 }
}

fn product(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contraction of three values whose slowest part alone would need hundreds of steps.
    fn step(guess: &[f64]) -> Vec<f64> {
        let map = [[0.97, 0.02, 0.0], [0.01, 0.5, 0.3], [0.0, 0.1, -0.4]];
        let row = |(row, (own, from)): (&[f64; 3], (&f64, f64))| product(row, guess) + from - own;
        let values = guess.iter().zip([0.1, 0.2, 0.3]);
        map.iter().zip(values).map(row).collect()
    }

    #[test]
    fn as_many_guesses_as_there_are_values_reach_the_fixed_point_of_a_linear_map() {
        let mut mixing = Mixing::default();
        let mut guess = vec![0.0; 3];
        for _ in 0..5 {
            guess = mixing.next(&guess, step(&guess));
        }
        let rest = step(&guess).into_iter().map(f64::abs).fold(0.0, f64::max);
        assert!(rest < 1e-10, "{rest}");
    }

    #[test]
    fn a_guess_that_stays_where_it_is_does_no_harm() {
        let mut mixing = Mixing::default();
        for _ in 0..20 {
            assert_eq!(mixing.next(&[0.25, 0.5], vec![0.0; 2]), [0.25, 0.5]);
        }
    }
}
