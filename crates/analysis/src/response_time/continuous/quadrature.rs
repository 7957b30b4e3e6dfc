//! Nodes for integrals and interpolation of smooth functions on an interval.

use std::f64::consts::PI;

/// Coefficients that fall more slowly from one to the next tell nothing of those that follow.
const SLOWEST: f64 = 0.9;

/// Gauss and Legendre's nodes and weights on [0, 1]: exact for polynomials of a degree below twice
/// the number of nodes.
#[derive(Clone, Debug)]
pub(super) struct GaussLegendre {
    /// Places and weights.
    pub nodes: Vec<(f64, f64)>,
}

impl GaussLegendre {
    /// The rule of `count` nodes, by Newton's method on the Legendre polynomial.
    pub(super) fn new(count: usize) -> Self {
        let degree = count as f64;
        let node = |index: usize| {
            let mut x = (PI * (index as f64 + 0.75) / (degree + 0.5)).cos();
            let mut slope = 0.0;
            for _ in 0..100 {
                let (value, derivative) = legendre(count, x);
                slope = derivative;
                let change = value / derivative;
                x -= change;
                if change.abs() < 1e-16 {
                    break;
                }
            }
            (0.5 * (1.0 - x), 1.0 / ((1.0 - x * x) * slope * slope))
        };
        Self {
            nodes: (0..count).map(node).collect(),
        }
    }

    /// What a node counts for at most, on [0, 1].
    pub(super) fn largest_weight(&self) -> f64 {
        let weights = self.nodes.iter().map(|(_, weight)| *weight);
        weights.fold(0.0, f64::max)
    }

    /// The integral of `f` from `low` to `high`.
    pub(super) fn integrate(&self, low: f64, high: f64, mut f: impl FnMut(f64) -> f64) -> f64 {
        let length = high - low;
        let sum: f64 = self
            .nodes
            .iter()
            .map(|(place, weight)| weight * f(low + place * length))
            .sum();
        sum * length
    }
}

/// The Legendre polynomial of `degree` and its derivative at x, by the three-term recurrence.
fn legendre(degree: usize, x: f64) -> (f64, f64) {
    let (mut before, mut value) = (1.0, x);
    for n in 2..=degree {
        let n = n as f64;
        (before, value) = (
            value,
            ((2.0 * n - 1.0) * x * value - (n - 1.0) * before) / n,
        );
    }
    let n = degree as f64;
    (value, n * (x * value - before) / (x * x - 1.0))
}

/// Chebyshev's points of the first kind on [0, 1], through which a polynomial is laid.
#[derive(Clone, Debug)]
pub(super) struct Chebyshev {
    /// The points, rising.
    pub points: Vec<f64>,
    weights: Vec<f64>,
    /// A rule that integrates the polynomial, and its product with the place, without an error.
    rule: GaussLegendre,
}

impl Chebyshev {
    pub(super) fn new(count: usize) -> Self {
        let angle = |index: usize| PI * (2 * index + 1) as f64 / (2 * count) as f64;
        let weight = |index: usize| {
            let sign = if index.is_multiple_of(2) { 1.0 } else { -1.0 };
            sign * angle(index).sin()
        };
        Self {
            points: (0..count)
                .map(|index| 0.5 * (1.0 - angle(index).cos()))
                .collect(),
            weights: (0..count).map(weight).collect(),
            rule: GaussLegendre::new(count / 2 + 1),
        }
    }

    /// The weight of each point's value in the integral from 0 to `end`.
    pub(super) fn weights_up_to(&self, end: f64) -> Vec<f64> {
        self.weighted(end, |_| 1.0)
    }

    /// The weight of each point's value in the integral from 0 to 1 of the polynomial times the distance to 1.
    pub(super) fn weights_of_sums(&self) -> Vec<f64> {
        self.weighted(1.0, |at| 1.0 - at)
    }

    fn weighted(&self, end: f64, factor: impl Fn(f64) -> f64) -> Vec<f64> {
        let mut sums = vec![0.0; self.points.len()];
        let mut basis = Vec::new();
        for (node, weight) in &self.rule.nodes {
            let at = node * end;
            self.basis(at, &mut basis);
            let pairs = sums.iter_mut().zip(&basis);
            pairs.for_each(|(sum, share)| *sum += weight * end * factor(at) * share);
        }
        sums
    }

    /// The weight of each point's value in the value at `at`: the barycentric form of Lagrange's polynomial.
    pub(super) fn basis(&self, at: f64, basis: &mut Vec<f64>) {
        basis.clear();
        if let Some(hit) = self
            .points
            .iter()
            .position(|point| (at - point).abs() < 1e-15)
        {
            basis.resize(self.points.len(), 0.0);
            basis[hit] = 1.0;
            return;
        }
        let terms = self.points.iter().zip(&self.weights);
        basis.extend(terms.map(|(point, weight)| weight / (at - point)));
        let sum: f64 = basis.iter().sum();
        basis.iter_mut().for_each(|value| *value /= sum);
    }

    /// The sizes of the last two coefficients of polynomials, the last one first: the largest among
    /// all of them. `values` has the values of all at each point.
    pub(super) fn last_coefficients(&self, values: &[Vec<f64>]) -> (f64, f64) {
        let count = values.len();
        let coefficient = |degree: usize| {
            let mut sums = vec![0.0; values.first().map_or(0, Vec::len)];
            for (index, row) in values.iter().enumerate() {
                let share = (PI * (degree * (2 * index + 1)) as f64 / (2 * count) as f64).cos();
                let pairs = sums.iter_mut().zip(row);
                pairs.for_each(|(sum, value)| *sum += share * value);
            }
            let largest = sums
                .into_iter()
                .fold(0.0, |most: f64, sum| most.max(sum.abs()));
            2.0 / count as f64 * largest
        };
        (coefficient(count - 1), coefficient(count.saturating_sub(2)))
    }
}

/// How far an interpolation may be off whose last coefficients are these: as if they went on to
/// fall at the same rate, four times over. Coefficients that do not fall are no ground for that,
/// unless they are so small that the noise of what is interpolated, `tolerance` at most, explains it.
pub(super) fn remainder((last, before): (f64, f64), tolerance: f64) -> f64 {
    if last < 1e-15 {
        return 4.0 * last;
    }
    let rate = last / before.max(last);
    let slow = 4.0 * last * SLOWEST / (1.0 - SLOWEST);
    match rate {
        rate if rate <= SLOWEST => 4.0 * last * rate / (1.0 - rate),
        _ if slow <= tolerance => slow,
        _ => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integrates_what_is_smooth_to_the_last_digits() {
        let rule = GaussLegendre::new(8);
        let weights: f64 = rule.nodes.iter().map(|(_, weight)| weight).sum();
        assert!((weights - 1.0).abs() < 1e-14);
        let integral = rule.integrate(-1.0, 2.0, |x| x.exp());
        assert!((integral - (2.0_f64.exp() - (-1.0_f64).exp())).abs() < 1e-12);
        let fifteenth = rule.integrate(0.0, 1.0, |x| x.powi(15));
        assert!((fifteenth - 1.0 / 16.0).abs() < 1e-15);
    }

    #[test]
    fn interpolates_between_the_points_and_knows_how_well() {
        for (count, most) in [(6, 1e-4), (12, 1e-11), (16, 1e-13)] {
            let chebyshev = Chebyshev::new(count);
            let values: Vec<f64> = chebyshev.points.iter().map(|x| (2.0 * x).sin()).collect();
            let rows: Vec<Vec<f64>> = values.iter().map(|value| vec![*value]).collect();
            let remainder = remainder(chebyshev.last_coefficients(&rows), 1e-13);
            assert!(remainder < most, "{count}: {remainder}");
            for at in [0.0, 0.1, 0.5, chebyshev.points[1], 0.99, 1.0] {
                let mut basis = Vec::new();
                chebyshev.basis(at, &mut basis);
                let sum: f64 = basis.iter().zip(&values).map(|(b, v)| b * v).sum();
                let error = (sum - (2.0 * at).sin()).abs();
                assert!(error <= remainder.max(1e-13), "{count} at {at}: {error}");
            }
        }
    }
}
