//! A Gaussian process over places from 0 to 1: a function that is known at noisy points, with its uncertainty
//! elsewhere.
//!
//! Covariances are those of Matérn with smoothness 5/2, with a length for each coordinate, plus those of a plane and
//! of independent noise (Rasmussen and Williams, Gaussian Processes for Machine Learning, chapters 2 and 5). The
//! lengths and the noise are the likeliest of a lattice, with a preference for lengths near that of the axes;
//! residuals of left-out points have the closed form of section 5.4.2.

use nalgebra::{Cholesky, DMatrix, DVector, Dyn};

/// Lengths over which values resemble each other, as parts of an axis.
const LENGTHS: [f64; 7] = [0.1, 0.2, 0.35, 0.6, 1.0, 1.8, 3.2];
/// Variances of the noise, as parts of that of the function.
const NOISES: [f64; 6] = [1e-4, 1e-3, 5e-3, 2e-2, 8e-2, 0.3];
/// The variance of the plane, as a part of that of the function.
const PLANE: f64 = 4.0;
/// The length that is preferred where the points say little, and the weight of that preference.
const USUAL_LENGTH: f64 = 0.6;
const LENGTH_WEIGHT: f64 = 0.5;
/// How often the search goes over all parameters.
const ROUNDS: usize = 3;

/// `GaussianProcess` is fitted to values at places.
#[derive(Clone, Debug)]
pub(crate) struct GaussianProcess {
    inputs: Vec<Vec<f64>>,
    parameters: CovarianceParameters,
    /// The mean of the values.
    mean: f64,
    /// The variance of the function.
    variance: f64,
    factor: Cholesky<f64, Dyn>,
    /// The inverse covariance times the values.
    weights: DVector<f64>,
}

/// The shape of the covariance.
#[derive(Clone, Debug, PartialEq)]
struct CovarianceParameters {
    lengths: Vec<f64>,
    noise: f64,
}

/// A value that is left out, as the others predict it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LeftOut {
    /// The value minus its prediction.
    pub residual: f64,
    /// The standard deviation of the prediction, with noise.
    pub deviation: f64,
}

impl CovarianceParameters {
    fn covariance(&self, one: &[f64], other: &[f64]) -> f64 {
        let coordinates = one.iter().zip(other).zip(&self.lengths);
        let square: f64 = coordinates
            .map(|((one, other), length)| ((one - other) / length).powi(2))
            .sum();
        let distance = (5.0 * square).sqrt();
        let matern = (1.0 + distance + distance * distance / 3.0) * (-distance).exp();
        let plane: f64 = one
            .iter()
            .zip(other)
            .map(|(one, other)| (one - 0.5) * (other - 0.5))
            .sum();
        matern + PLANE * (1.0 + plane)
    }

    fn matrix(&self, inputs: &[Vec<f64>]) -> DMatrix<f64> {
        let mut matrix = self.covariances(inputs);
        for index in 0..inputs.len() {
            matrix[(index, index)] += self.noise;
        }
        matrix
    }

    /// The covariances of the function at places, without noise.
    fn covariances(&self, places: &[Vec<f64>]) -> DMatrix<f64> {
        let count = places.len();
        DMatrix::from_fn(count, count, |row, column| {
            self.covariance(&places[row], &places[column])
        })
    }

    /// The logarithm of the likelihood, up to a constant, with the likeliest variance.
    fn likelihood(&self, inputs: &[Vec<f64>], values: &DVector<f64>) -> f64 {
        let Some(factor) = Cholesky::new(self.matrix(inputs)) else {
            return f64::NEG_INFINITY;
        };
        let count = values.len() as f64;
        let variance = (values.dot(&factor.solve(values)) / count).max(f64::MIN_POSITIVE);
        let diagonal = factor.l_dirty().diagonal();
        let determinant: f64 = diagonal.iter().map(|one| one.ln()).sum();
        let unusual: f64 = self
            .lengths
            .iter()
            .map(|length| (length / USUAL_LENGTH).ln().powi(2))
            .sum();
        -count / 2.0 * variance.ln() - determinant - LENGTH_WEIGHT * unusual
    }
}

impl GaussianProcess {
    /// The process through finite values at places of one dimension each; `None` without any, or where they are too
    /// alike to be told apart.
    pub(crate) fn fit(inputs: Vec<Vec<f64>>, values: &[f64]) -> Option<Self> {
        let dimensions = inputs.first()?.len();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let centred = DVector::from_iterator(values.len(), values.iter().map(|one| one - mean));
        let mut best = CovarianceParameters {
            lengths: vec![USUAL_LENGTH; dimensions],
            noise: NOISES[2],
        };
        let mut likelihood = best.likelihood(&inputs, &centred);
        for _ in 0..ROUNDS {
            let before = best.clone();
            for coordinate in 0..=dimensions {
                let choices: &[f64] = match coordinate < dimensions {
                    true => &LENGTHS,
                    false => &NOISES,
                };
                for choice in choices {
                    let mut tried = best.clone();
                    match tried.lengths.get_mut(coordinate) {
                        Some(length) => *length = *choice,
                        None => tried.noise = *choice,
                    }
                    let better = tried.likelihood(&inputs, &centred);
                    if better > likelihood {
                        (best, likelihood) = (tried, better);
                    }
                }
            }
            if best == before {
                break;
            }
        }
        let factor = Cholesky::new(best.matrix(&inputs))?;
        let weights = factor.solve(&centred);
        let variance = centred.dot(&weights) / values.len() as f64;
        Some(Self {
            inputs,
            parameters: best,
            mean,
            // Values that are all the same leave no variance, and no doubt either; a trace of it keeps sums finite.
            variance: variance.max(1e-12),
            factor,
            weights,
        })
    }

    /// Mean and standard deviation of the function at a place, without noise.
    pub(crate) fn at(&self, place: &[f64]) -> (f64, f64) {
        let cross = self.cross(place);
        let explained = cross.dot(&self.factor.solve(&cross));
        let own = self.parameters.covariance(place, place);
        let variance = (own - explained).max(0.0) * self.variance;
        (self.mean + cross.dot(&self.weights), variance.sqrt())
    }

    /// The standard deviation of the noise.
    pub(crate) fn noise(&self) -> f64 {
        (self.parameters.noise * self.variance).sqrt()
    }

    fn cross(&self, place: &[f64]) -> DVector<f64> {
        let each = self.inputs.iter();
        let covariances = each.map(|input| self.parameters.covariance(input, place));
        DVector::from_iterator(self.inputs.len(), covariances)
    }

    /// Each value as predicted by the others.
    pub(crate) fn left_out(&self) -> Vec<LeftOut> {
        let inverse = self.factor.inverse();
        let each = 0..self.weights.len();
        each.map(|index| LeftOut {
            residual: self.weights[index] / inverse[(index, index)],
            deviation: (self.variance / inverse[(index, index)]).sqrt(),
        })
        .collect()
    }

    /// Mean and a factor of the covariance of the function at several places: the mean plus the factor times
    /// independent standard normal values is a function that could be the true one. `widening` multiplies deviations.
    pub(crate) fn joint(&self, places: &[Vec<f64>], widening: f64) -> (DVector<f64>, DMatrix<f64>) {
        let count = places.len();
        let cross = DMatrix::from_columns(
            &places
                .iter()
                .map(|place| self.cross(place))
                .collect::<Vec<_>>(),
        );
        let mean = cross.tr_mul(&self.weights).add_scalar(self.mean);
        let explained = cross.tr_mul(&self.factor.solve(&cross));
        let own = self.parameters.covariances(places);
        let mut covariance = (own - explained) * (self.variance * widening * widening);
        // Rounding may leave the matrix with a negative eigenvalue near zero.
        let mut jitter = 1e-9 * self.variance.max(1e-9);
        loop {
            for index in 0..count {
                covariance[(index, index)] += jitter;
            }
            if let Some(factor) = Cholesky::new(covariance.clone()) {
                return (mean, factor.l());
            }
            jitter *= 10.0;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn lattice(count: usize) -> Vec<Vec<f64>> {
        let at = |index: usize| index as f64 / (count - 1) as f64;
        (0..count * count)
            .map(|point| vec![at(point / count), at(point % count)])
            .collect()
    }

    fn smooth(place: &[f64]) -> f64 {
        (3.0 * place[0]).sin() + place[1] * place[1]
    }

    #[test]
    fn a_smooth_function_is_predicted_between_its_points() {
        let inputs = lattice(6);
        let values: Vec<f64> = inputs.iter().map(|place| smooth(place)).collect();
        let process = GaussianProcess::fit(inputs, &values).unwrap();
        for place in [[0.33, 0.71], [0.5, 0.05], [0.9, 0.9]] {
            let (mean, deviation) = process.at(&place);
            assert!((mean - smooth(&place)).abs() < 0.02, "{place:?}: {mean}");
            assert!(deviation < 0.1);
        }
        let (_, far) = process.at(&[3.0, -2.0]);
        assert!(far > 0.2, "far away nothing is certain: {far}");
    }

    /// The closed form is what a fit without the point would say, with the same parameters.
    #[test]
    fn residuals_are_those_of_fits_without_the_point() {
        let inputs = lattice(4);
        let values: Vec<f64> = inputs.iter().map(|place| smooth(place)).collect();
        let process = GaussianProcess::fit(inputs.clone(), &values).unwrap();
        let left_out = process.left_out()[5];
        let mut others = inputs.clone();
        let place = others.remove(5);
        let kept: Vec<f64> = others
            .iter()
            .map(|place| smooth(place) - process.mean)
            .collect();
        let factor = Cholesky::new(process.parameters.matrix(&others)).unwrap();
        let weights = factor.solve(&DVector::from_vec(kept));
        let cross = others
            .iter()
            .map(|other| process.parameters.covariance(other, &place));
        let mean: f64 = cross
            .zip(weights.iter())
            .map(|(one, other)| one * other)
            .sum();
        let residual = values[5] - process.mean - mean;
        assert!((residual - left_out.residual).abs() < 1e-6);
    }

    #[test]
    fn equal_values_and_a_single_one_are_no_trouble() {
        let process = GaussianProcess::fit(lattice(3), &[2.0; 9]).unwrap();
        assert!((process.at(&[0.4, 0.4]).0 - 2.0).abs() < 1e-6);
        assert!(GaussianProcess::fit(vec![vec![0.5]], &[1.0]).is_some());
        assert!(GaussianProcess::fit(Vec::new(), &[]).is_none());
    }
}
