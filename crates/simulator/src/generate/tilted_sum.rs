//! Points that are uniform among those of a box whose coordinates have a given sum.

use crate::workload::streams::RandomStream;

/// Draws in a row that are thrown away before the sampler gives up. Of n coordinates about one in
/// the root of 2 pi n is kept, so not even the longest sets come near.
const MOST_ATTEMPTS: u32 = 100_000;

/// Below this, an exponential law over a range is told from a uniform one by rounding alone.
const FLAT: f64 = 1e-6;

/// The slice of the box of the products of [0, width] on which the coordinates sum up to `sum`.
///
/// Coordinates are drawn independently, each with a density in proportion to exp(tilt x) on its own
/// range; the widest one is what is left of the sum, and the draw is kept with the probability that
/// its density has there, in proportion to its greatest. The density of a kept point is in
/// proportion to exp(tilt times the sum of its coordinates), which is the same everywhere on the
/// slice: kept points are uniform, exactly, whatever the tilt is. It is chosen so that the expected
/// sum is the wanted one, and so few draws are thrown away.
pub(super) struct TiltedSum {
    widths: Vec<f64>,
    sum: f64,
    tilt: f64,
    widest: usize,
}

impl TiltedSum {
    /// The slice with `sum`, from 0 to the sum of the widths, which are at least one.
    pub(super) fn new(widths: Vec<f64>, sum: f64) -> Self {
        let widest = (0..widths.len()).max_by(|a, b| widths[*a].total_cmp(&widths[*b]));
        Self {
            tilt: tilt_for(&widths, sum),
            widest: widest.unwrap_or(0),
            widths,
            sum,
        }
    }

    /// A point of the slice; `None` if too many draws in a row are thrown away.
    pub(super) fn draw(&self, stream: &mut RandomStream) -> Option<Vec<f64>> {
        let all: f64 = self.widths.iter().sum();
        // At the ends there is one point, and no density.
        if self.sum <= 0.0 || self.sum >= all {
            let full = f64::from(u8::from(self.sum > 0.0));
            return Some(self.widths.iter().map(|width| width * full).collect());
        }
        for _ in 0..MOST_ATTEMPTS {
            let mut left = self.sum;
            let mut point = self.widths.clone();
            for (index, coordinate) in point.iter_mut().enumerate() {
                if index != self.widest {
                    *coordinate = exponential_within(*coordinate, self.tilt, stream.unit());
                    left -= *coordinate;
                }
            }
            let width = self.widths[self.widest];
            let kept = stream.unit();
            if (0.0..=width).contains(&left) && kept <= below_greatest(left, width, self.tilt) {
                point[self.widest] = left;
                return Some(point);
            }
        }
        None
    }
}

/// The density at a point as a share of the greatest within the range.
fn below_greatest(at: f64, width: f64, tilt: f64) -> f64 {
    let greatest = if tilt > 0.0 { width } else { 0.0 };
    (tilt * (at - greatest)).exp()
}

/// The quantile of the law with a density in proportion to exp(tilt x) on [0, width].
fn exponential_within(width: f64, tilt: f64, share: f64) -> f64 {
    let steepness = tilt * width;
    if steepness.abs() < FLAT {
        return width * share;
    }
    // From the end where the density is great, so that nothing overflows.
    let from_top = |share: f64| -((1.0 - share) * (-steepness.abs()).exp_m1()).ln_1p();
    let distance = from_top(if steepness > 0.0 { share } else { 1.0 - share }) / steepness.abs();
    let distance = distance.clamp(0.0, 1.0) * width;
    if steepness > 0.0 {
        width - distance
    } else {
        distance
    }
}

/// The mean of that law as a share of the width.
fn mean_share(steepness: f64) -> f64 {
    if steepness.abs() < 1e-3 {
        return 0.5 + steepness / 12.0;
    }
    -1.0 / (-steepness).exp_m1() - 1.0 / steepness
}

/// The tilt with which the expected sum is the wanted one.
fn tilt_for(widths: &[f64], sum: f64) -> f64 {
    let expected = |tilt: f64| -> f64 {
        let means = widths.iter().map(|width| width * mean_share(tilt * width));
        means.sum()
    };
    let mut reach = 1.0;
    while (expected(reach) < sum || expected(-reach) > sum) && reach < 1e15 {
        reach *= 2.0;
    }
    let (mut low, mut high) = (-reach, reach);
    // Halving a range of 2^51 down to the last digit of a float.
    for _ in 0..120 {
        let middle = 0.5 * (low + high);
        if expected(middle) < sum {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_and_means_are_those_of_the_law() {
        for steepness in [-700.0, -3.0, -1e-4, 1e-8, 0.5, 40.0, 900.0_f64] {
            let width = 0.25;
            let steps = 20_000;
            let shares = (0..steps).map(|step| (f64::from(step) + 0.5) / f64::from(steps));
            let values = shares.map(|share| exponential_within(width, steepness / width, share));
            let values: Vec<f64> = values.collect();
            assert!(values.is_sorted() && values[0] >= 0.0 && values[steps as usize - 1] <= width);
            let mean = values.iter().sum::<f64>() / f64::from(steps) / width;
            let expected = mean_share(steepness);
            assert!(
                (mean - expected).abs() < 1e-5,
                "{steepness}: {mean} {expected}"
            );
        }
    }

    #[test]
    fn the_tilt_makes_the_expected_sum_the_wanted_one() {
        let widths = [0.9, 0.5, 0.01, 0.2];
        for sum in [1e-6, 0.1, 0.8, 1.6, 1.609_999] {
            let tilt = tilt_for(&widths, sum);
            let means = widths.map(|width| width * mean_share(tilt * width));
            let expected: f64 = means.iter().sum();
            assert!(
                (expected - sum).abs() < 1e-7 * sum.min(1.61 - sum) + 1e-12,
                "{sum}: {expected}"
            );
        }
    }
}
