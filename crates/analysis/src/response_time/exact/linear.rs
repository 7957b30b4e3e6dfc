//! Systems of linear equations: banded ones directly, large ones by iteration.

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
    /// zero and a contraction, every pivot is above zero and nothing grows.
    pub(super) fn solve(mut self, mut right: Vec<f64>) -> Vec<f64> {
        let size = self.rows.len();
        for pivot in 0..size {
            let (done, rest) = self.rows.split_at_mut(pivot + 1);
            let top = &done[pivot][self.below..];
            let (head, value) = (top[0], right[pivot]);
            for (offset, row) in rest.iter_mut().take(self.below).enumerate() {
                let place = self.below - offset - 1;
                let factor = row[place] / head;
                if factor == 0.0 {
                    continue;
                }
                let target = &mut row[place + 1..=place + self.above];
                for (entry, above) in target.iter_mut().zip(&top[1..]) {
                    *entry -= factor * above;
                }
                right[pivot + 1 + offset] -= factor * value;
            }
        }
        for row in (0..size).rev() {
            let entries = &self.rows[row][self.below..];
            let known: f64 = entries[1..]
                .iter()
                .zip(&right[row + 1..])
                .map(|(a, b)| a * b)
                .sum();
            right[row] = (right[row] - known) / entries[0];
        }
        right
    }
}

/// Solves x = T x + `right` for a linear T by the method of generalised minimal residuals, started
/// from nothing; `weight` scales each unknown. Ends when the residual has fallen by `within`, or
/// after `most` steps.
pub(super) fn fixed_point(
    apply: impl Fn(&[f64]) -> Vec<f64>,
    right: &[f64],
    weight: &[f64],
    within: f64,
    most: usize,
) -> Vec<f64> {
    let scaled: Vec<f64> = right.iter().zip(weight).map(|(r, w)| r * w).collect();
    let length = norm(&scaled);
    if length == 0.0 {
        return vec![0.0; right.len()];
    }
    let mut basis = vec![
        scaled
            .iter()
            .map(|value| value / length)
            .collect::<Vec<f64>>(),
    ];
    // The projected matrix, turned into a triangle column by column.
    let mut columns: Vec<Vec<f64>> = Vec::new();
    let mut turns: Vec<(f64, f64)> = Vec::new();
    let mut residual = vec![length];
    for step in 0..most {
        let unscaled: Vec<f64> = basis[step].iter().zip(weight).map(|(v, w)| v / w).collect();
        let image = apply(&unscaled);
        let mut next: Vec<f64> = basis[step]
            .iter()
            .zip(image.iter().zip(weight))
            .map(|(own, (value, w))| own - value * w)
            .collect();
        let mut column = Vec::with_capacity(step + 2);
        for direction in &basis {
            let share: f64 = direction.iter().zip(&next).map(|(a, b)| a * b).sum();
            next.iter_mut()
                .zip(direction)
                .for_each(|(n, d)| *n -= share * d);
            column.push(share);
        }
        let rest = norm(&next);
        for (index, (cosine, sine)) in turns.iter().enumerate() {
            let (a, b) = (column[index], column[index + 1]);
            column[index] = cosine * a + sine * b;
            column[index + 1] = cosine * b - sine * a;
        }
        let size = column[step].hypot(rest);
        let (cosine, sine) = (column[step] / size, rest / size);
        column[step] = size;
        turns.push((cosine, sine));
        columns.push(column);
        let last = residual[step];
        residual[step] = cosine * last;
        residual.push(-sine * last);
        if residual[step + 1].abs() < within * length || rest == 0.0 {
            break;
        }
        next.iter_mut().for_each(|value| *value /= rest);
        basis.push(next);
    }
    combined(&basis, &columns, residual, weight)
}

/// The combination of the directions that the triangle says, unscaled.
fn combined(
    basis: &[Vec<f64>],
    columns: &[Vec<f64>],
    mut shares: Vec<f64>,
    weight: &[f64],
) -> Vec<f64> {
    let steps = columns.len();
    for row in (0..steps).rev() {
        let known: f64 = (row + 1..steps).map(|c| columns[c][row] * shares[c]).sum();
        shares[row] = (shares[row] - known) / columns[row][row];
    }
    let mut sum = vec![0.0; weight.len()];
    for (share, direction) in shares[..steps].iter().zip(basis) {
        sum.iter_mut()
            .zip(direction)
            .for_each(|(s, d)| *s += share * d);
    }
    sum.iter_mut()
        .zip(weight)
        .for_each(|(value, w)| *value /= w);
    sum
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|value| value * value).sum::<f64>().sqrt()
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
    fn both_ways_solve_the_same_system() {
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
        let iterated = fixed_point(step, &right, &vec![1.0; size], 1e-14, 60);
        let image = step(&direct);
        for x in 0..size {
            assert!((direct[x] - image[x] - right[x]).abs() < 1e-13, "{x}");
            assert!((direct[x] - iterated[x]).abs() < 1e-10, "{x}");
        }
    }
}
