//! The discrete Fourier transform, for sums of independent lattice variables.
//!
//! A crate of its own, since the library's code is compiled with the crate that names its types: here it is optimised in
//! tests, too, without the analyses.

use std::fmt;
use std::sync::Arc;

use rustfft::{Fft, FftPlanner};

/// A complex number.
pub type Complex = rustfft::num_complex::Complex<f64>;

/// The product with the imaginary unit.
pub fn turned(value: Complex) -> Complex {
    Complex::new(-value.im, value.re)
}

/// A transform of one size.
pub struct Transform {
    size: usize,
    forward: Arc<dyn Fft<f64>>,
    inverse: Arc<dyn Fft<f64>>,
}

impl fmt::Debug for Transform {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Transform of {}", self.size)
    }
}

impl Transform {
    /// The transform of a quick size that holds at least `points` values.
    pub fn holding(points: usize) -> Self {
        let size = quick_size(points.max(2));
        let mut planner = FftPlanner::new();
        Self {
            size,
            forward: planner.plan_fft_forward(size),
            inverse: planner.plan_fft_inverse(size),
        }
    }

    /// The number of values.
    pub fn size(&self) -> usize {
        self.size
    }

    /// The memory to work in that a transform needs.
    pub fn scratch(&self) -> Vec<Complex> {
        let (forward, inverse) = (&self.forward, &self.inverse);
        let length = forward.get_inplace_scratch_len();
        vec![Complex::default(); length.max(inverse.get_inplace_scratch_len())]
    }

    /// The transform of a real sequence.
    pub fn forward(&self, values: &[f64]) -> Vec<Complex> {
        let mut data = Vec::new();
        self.forward_into(values, &mut data, &mut self.scratch());
        data
    }

    /// The transform of [`Transform::forward`], written over `data`: new memory for each transform would cost more than the
    /// transform.
    pub fn forward_into(&self, values: &[f64], data: &mut Vec<Complex>, scratch: &mut [Complex]) {
        data.clear();
        let values = values.iter().take(self.size);
        data.extend(values.map(|value| Complex::new(*value, 0.0)));
        data.resize(self.size, Complex::default());
        self.forward.process_with_scratch(data, scratch);
    }

    /// The sequence whose transform `data` is, in place; complex, so that two real sequences
    /// fit into one.
    pub fn inverse(&self, data: &mut [Complex], scratch: &mut [Complex]) {
        self.inverse.process_with_scratch(data, scratch);
        let scale = 1.0 / self.size as f64;
        for value in data {
            *value = value.scale(scale);
        }
    }
}

/// The odd factors of sizes for which the transform takes no longer for each value than for powers of two.
const QUICK_FACTORS: [usize; 9] = [1, 3, 5, 7, 9, 15, 21, 27, 45];

/// The least size of at least `points` for which the transform is quick: a power of two, or a few times one.
fn quick_size(points: usize) -> usize {
    let with_factor = |factor: &usize| factor * points.div_ceil(*factor).next_power_of_two();
    QUICK_FACTORS
        .iter()
        .map(with_factor)
        .min()
        .unwrap_or(points)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn products_are_convolutions() {
        let (a, b) = ([0.5, 0.25, 0.25], [0.1, 0.0, 0.9]);
        let transform = Transform::holding(5);
        let (left, right) = (transform.forward(&a), transform.forward(&b));
        let mut product: Vec<_> = left.iter().zip(&right).map(|(x, y)| *x * *y).collect();
        transform.inverse(&mut product, &mut transform.scratch());
        for (index, value) in product.iter().enumerate() {
            let direct: f64 = (0..=index)
                .filter_map(|i| Some(a.get(i)? * b.get(index - i)?))
                .sum();
            assert!((value.re - direct).abs() < 1e-15 && value.im.abs() < 1e-15);
        }
    }

    #[test]
    fn the_inverse_undoes_the_transform_at_every_size() {
        for size in [
            2, 3, 4, 5, 8, 9, 15, 16, 21, 24, 32, 36, 45, 64, 84, 1_024, 1_152, 2_048, 2_688,
        ] {
            let values: Vec<f64> = (0..size).map(|i| ((i * 37) % 101) as f64 / 101.0).collect();
            let transform = Transform::holding(size);
            let mut data = transform.forward(&values);
            let sum: f64 = values.iter().sum();
            assert_eq!(transform.size(), size);
            assert!((data[0].re - sum).abs() < 1e-10);
            transform.inverse(&mut data, &mut transform.scratch());
            for (value, restored) in values.iter().zip(&data) {
                assert!((value - restored.re).abs() < 1e-14 && restored.im.abs() < 1e-14);
            }
        }
    }

    #[test]
    fn two_real_sequences_fit_into_one_inverse() {
        let (a, b) = ([0.5, 0.25, 0.25, 0.0], [0.0, 0.7, 0.0, 0.3]);
        let transform = Transform::holding(4);
        let (left, right) = (transform.forward(&a), transform.forward(&b));
        let mut both: Vec<_> = left
            .iter()
            .zip(&right)
            .map(|(x, y)| *x + turned(*y))
            .collect();
        transform.inverse(&mut both, &mut transform.scratch());
        for index in 0..4 {
            assert!((both[index].re - a[index]).abs() < 1e-15);
            assert!((both[index].im - b[index]).abs() < 1e-15);
        }
    }
}
