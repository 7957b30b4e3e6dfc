//! Points that are uniform among those of a cube whose coordinates have a given sum.

use crate::workload::streams::RandomStream;

/// The slice of the cube [0, 1]^n on which the coordinates sum up to `sum`, cut into simplices.
///
/// The method is Stafford's (`randfixedsum`, 2006; described by Emberson, Stafford and Davis 2010):
/// the slice falls apart into simplices of known volumes. One is chosen with probability
/// proportional to its volume, by a walk through a table of volumes of lower-dimensional slices, and
/// a point is drawn uniformly in it. Only ratios within one row of the table matter, so each row is
/// scaled to a maximum of 1, which keeps volumes of many dimensions away from zero.
pub(super) struct FixedSum {
    coordinates: usize,
    sum: f64,
    /// The cell of the last row in which a walk starts: the whole part of the sum.
    start: usize,
    /// By dimension (from 1) and cell: the probability of the step that lowers the whole part.
    steps: Vec<Vec<f64>>,
}

impl FixedSum {
    /// The slice with `sum`, from 0 to `coordinates`, which is at least 1.
    pub(super) fn new(coordinates: usize, sum: f64) -> Self {
        // A float below zero becomes 0 as a whole number.
        let start = (sum.floor() as usize).min(coordinates - 1);
        let sum = sum.clamp(start as f64, start as f64 + 1.0);
        // How far the sum lies above and below whole numbers; never negative where it is used.
        let above = |cell: usize| sum - start as f64 + cell as f64;
        let below = |cell: usize| (start + coordinates) as f64 - cell as f64 - sum;
        let mut volumes = vec![0.0, 1.0];
        let mut steps = Vec::with_capacity(coordinates.saturating_sub(1));
        for dimension in 2..=coordinates {
            let mut next = vec![0.0; dimension + 1];
            let mut row = Vec::with_capacity(dimension);
            for cell in 0..dimension {
                let outer = volumes.get(cell + 1).copied().unwrap_or(0.0) * above(cell);
                let far = below(coordinates - dimension + cell);
                let inner = volumes[cell] * far;
                let both = outer + inner;
                next[cell + 1] = both / dimension as f64;
                row.push(if both > 0.0 {
                    inner / both
                } else {
                    // No volume: only sums of nothing or of everything lead here.
                    f64::from(u8::from(far <= above(cell)))
                });
            }
            let greatest = next.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
            next.iter_mut().for_each(|volume| *volume /= greatest);
            volumes = next;
            steps.push(row);
        }
        Self {
            coordinates,
            sum,
            start,
            steps,
        }
    }

    /// A point of the slice.
    pub(super) fn draw(&self, stream: &mut RandomStream) -> Vec<f64> {
        let mut point = Vec::with_capacity(self.coordinates);
        let (mut cell, mut left) = (self.start, self.sum);
        let (mut settled, mut scale) = (0.0, 1.0);
        for dimension in (1..self.coordinates).rev() {
            let lower = stream.unit() <= self.steps[dimension - 1][cell];
            let shrunk = stream.unit().powf(1.0 / dimension as f64);
            settled += (1.0 - shrunk) * scale * left / (dimension + 1) as f64;
            scale *= shrunk;
            point.push(settled + if lower { scale } else { 0.0 });
            if lower {
                left -= 1.0;
                cell = cell.saturating_sub(1);
            }
        }
        point.push(settled + scale * left);
        // The walk treats the coordinates differently; a random order makes them alike.
        for end in (1..point.len()).rev() {
            point.swap(end, stream.below(end as u64 + 1) as usize);
        }
        point
    }
}
