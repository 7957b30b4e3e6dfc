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

/// Solves x = T x + `right` for a linear T by stabilised biconjugate gradients (van der Vorst 1992);
/// `weight` scales each unknown. Ends when the residual has fallen by `within`, or after `most`
/// steps with the best that was found.
pub(super) fn fixed_point(
    apply: impl Fn(&[f64]) -> Vec<f64>,
    right: &[f64],
    weight: &[f64],
    within: f64,
    most: usize,
) -> Vec<f64> {
    let system = |scaled: &[f64]| {
        let plain: Vec<f64> = scaled.iter().zip(weight).map(|(v, w)| v / w).collect();
        let image = apply(&plain).into_iter().zip(weight);
        let rest = scaled.iter().zip(image.map(|(value, w)| value * w));
        rest.map(|(own, value)| own - value).collect::<Vec<f64>>()
    };
    let scaled: Vec<f64> = right.iter().zip(weight).map(|(r, w)| r * w).collect();
    let length = dot(&scaled, &scaled).sqrt();
    // T x + right is near to x already where T is small: begin with that.
    let mut state = Descent::at(scaled.clone(), &scaled, &system);
    let mut best = (state.residual_length(), state.values.clone());
    for _ in 0..most {
        if best.0 <= within * length || !state.step(&system) {
            break;
        }
        let reached = state.residual_length();
        if reached < best.0 {
            best = (reached, state.values.clone());
        }
    }
    best.1
        .iter()
        .zip(weight)
        .map(|(value, w)| value / w)
        .collect()
}

/// The state of the iteration.
struct Descent {
    values: Vec<f64>,
    residual: Vec<f64>,
    /// The first residual, against which the directions are made orthogonal.
    shadow: Vec<f64>,
    direction: Vec<f64>,
    image: Vec<f64>,
    along: f64,
}

impl Descent {
    fn at(values: Vec<f64>, right: &[f64], system: &impl Fn(&[f64]) -> Vec<f64>) -> Self {
        let image = system(&values);
        let residual: Vec<f64> = right.iter().zip(&image).map(|(a, b)| a - b).collect();
        Self {
            along: dot(&residual, &residual),
            shadow: residual.clone(),
            direction: residual.clone(),
            image: system(&residual),
            values,
            residual,
        }
    }

    fn residual_length(&self) -> f64 {
        dot(&self.residual, &self.residual).sqrt()
    }

    /// One step; false where it can go no further.
    fn step(&mut self, system: &impl Fn(&[f64]) -> Vec<f64>) -> bool {
        let across = dot(&self.shadow, &self.image);
        let length = self.along / across;
        if !length.is_finite() {
            return false;
        }
        add(&mut self.values, length, &self.direction);
        add(&mut self.residual, -length, &self.image);
        let smoothed = system(&self.residual);
        let share = dot(&smoothed, &self.residual) / dot(&smoothed, &smoothed);
        if !share.is_finite() || share == 0.0 {
            return false;
        }
        add(&mut self.values, share, &self.residual);
        add(&mut self.residual, -share, &smoothed);
        let along = dot(&self.shadow, &self.residual);
        let keep = along / self.along * length / share;
        self.along = along;
        add(&mut self.direction, -share, &self.image);
        let kept = self.direction.iter_mut().zip(&self.residual);
        kept.for_each(|(old, rest)| *old = rest + keep * *old);
        self.image = system(&self.direction);
        along != 0.0
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

fn add(sum: &mut [f64], factor: f64, other: &[f64]) {
    sum.iter_mut()
        .zip(other)
        .for_each(|(s, o)| *s += factor * o);
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
