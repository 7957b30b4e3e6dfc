//! Banded systems of linear equations.

/// A banded matrix with a large diagonal, by rows: row i holds the columns from i - below to
/// i + above.
#[derive(Clone, Debug)]
pub(super) struct Banded {
    below: usize,
    above: usize,
    rows: Vec<Vec<f64>>,
}

impl Banded {
    /// The unit matrix, with room for a band.
    pub(super) fn unit(size: usize, below: usize, above: usize) -> Self {
        let mut row = vec![0.0; below + above + 1];
        row[below] = 1.0;
        Self {
            below,
            above,
            rows: vec![row; size],
        }
    }

    /// Takes `value` from the entry at a row and column; outside of the band it is dropped.
    pub(super) fn subtract(&mut self, row: usize, column: usize, value: f64) {
        let place = (column + self.below).checked_sub(row);
        let entry = place.and_then(|place| self.rows.get_mut(row)?.get_mut(place));
        if let Some(entry) = entry {
            *entry -= value;
        }
    }

    /// The solution for a right side, by elimination without pivoting: for I - T with T at least
    /// zero and a contraction, every pivot is above zero and nothing grows. From the last row up,
    /// since few columns lie above the diagonal and many below: the long loop is the inner one.
    pub(super) fn solve(mut self, mut right: Vec<f64>) -> Vec<f64> {
        let (below, size) = (self.below, self.rows.len());
        for pivot in (0..size).rev() {
            let (rest, done) = self.rows.split_at_mut(pivot);
            let (left, head) = (&done[0][..below], done[0][below]);
            for (offset, row) in (1..=self.above).zip(rest.iter_mut().rev()) {
                let factor = row[below + offset] / head;
                if factor == 0.0 {
                    continue;
                }
                let target = row[offset..offset + below].iter_mut();
                target
                    .zip(left)
                    .for_each(|(entry, value)| *entry -= factor * value);
                right[pivot - offset] -= factor * right[pivot];
            }
        }
        for row in 0..size {
            let first = row.saturating_sub(below);
            let entries = &self.rows[row][below + first - row..below];
            let pairs = entries.iter().zip(&right[first..row]);
            let solved: f64 = pairs.map(|(a, b)| a * b).sum();
            right[row] = (right[row] - solved) / self.rows[row][below];
        }
        right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A contraction in a band: a queue's step.
    fn step(values: &[f64]) -> Vec<f64> {
        let at = |x: usize| values.get(x).copied().unwrap_or(0.0);
        (0..values.len())
            .map(|x| {
                let lower = |by: usize| x.checked_sub(by).map_or(0.0, at);
                0.55 * at(x + 1) + 0.2 * lower(1) + 0.15 * lower(2)
            })
            .collect()
    }

    #[test]
    fn the_solution_solves_the_system() {
        let size = 60;
        let right: Vec<f64> = (0..size).map(|x| 0.8_f64.powi(x)).collect();
        let size = right.len();
        let mut matrix = Banded::unit(size, 2, 1);
        for x in 0..size {
            matrix.subtract(x, x + 1, 0.55);
            if x >= 1 {
                matrix.subtract(x, x - 1, 0.2);
            }
            if x >= 2 {
                matrix.subtract(x, x - 2, 0.15);
            }
        }
        let direct = matrix.solve(right.clone());
        let image = step(&direct);
        for x in 0..size {
            assert!((direct[x] - image[x] - right[x]).abs() < 1e-13, "{x}");
        }
    }
}
