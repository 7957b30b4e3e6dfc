//! The discrete Fourier transform, for sums of independent lattice variables.

use std::f64::consts::TAU;
use std::ops::{Add, Mul, Sub};

/// A complex number.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Complex {
    pub re: f64,
    pub im: f64,
}

impl Complex {
    pub(super) const ONE: Self = Self { re: 1.0, im: 0.0 };

    pub(super) fn new(re: f64, im: f64) -> Self {
        Self { re, im }
    }

    pub(super) fn exp(self) -> Self {
        let (sine, cosine) = self.im.sin_cos();
        let length = self.re.exp();
        Self::new(length * cosine, length * sine)
    }

    pub(super) fn scaled(self, factor: f64) -> Self {
        Self::new(self.re * factor, self.im * factor)
    }

    /// The product with the imaginary unit.
    pub(super) fn turned(self) -> Self {
        Self::new(-self.im, self.re)
    }
}

impl Add for Complex {
    type Output = Self;
    #[inline]
    fn add(self, other: Self) -> Self {
        Self::new(self.re + other.re, self.im + other.im)
    }
}

impl Sub for Complex {
    type Output = Self;
    #[inline]
    fn sub(self, other: Self) -> Self {
        Self::new(self.re - other.re, self.im - other.im)
    }
}

impl Mul for Complex {
    type Output = Self;
    #[inline]
    fn mul(self, other: Self) -> Self {
        Self::new(
            self.re * other.re - self.im * other.im,
            self.re * other.im + self.im * other.re,
        )
    }
}

/// A transform of one size, a power of two.
#[derive(Debug)]
pub(super) struct Transform {
    size: usize,
    /// The twiddle factors of every stage, one stage after the other.
    factors: Vec<Complex>,
}

impl Transform {
    /// A transform that holds at least `points` values.
    pub(super) fn holding(points: usize) -> Self {
        let size = points.next_power_of_two().max(2);
        let mut factors = Vec::with_capacity(size);
        let mut half = size / 2;
        while half >= 1 {
            let turn = |k| Complex::new(0.0, -TAU * k as f64 / (2 * half) as f64).exp();
            factors.extend((0..half).map(turn));
            half /= 2;
        }
        Self { size, factors }
    }

    pub(super) fn size(&self) -> usize {
        self.size
    }

    /// The transform of a real sequence, in an order of its own (the one that
    /// [`inverse`](Self::inverse) takes): products need no particular one.
    pub(super) fn forward(&self, values: &[f64]) -> Vec<Complex> {
        let mut data = vec![Complex::default(); self.size];
        for (slot, value) in data.iter_mut().zip(values) {
            slot.re = *value;
        }
        self.decimate_in_frequency(&mut data);
        data
    }

    fn decimate_in_frequency(&self, data: &mut [Complex]) {
        let mut half = self.size / 2;
        let mut factors = self.factors.as_slice();
        while half >= 1 {
            let (stage, rest) = factors.split_at(half);
            for block in data.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), factor) in low.iter_mut().zip(high).zip(stage) {
                    let (sum, difference) = (*a + *b, *a - *b);
                    *a = sum;
                    *b = difference * *factor;
                }
            }
            factors = rest;
            half /= 2;
        }
    }

    /// The sequence whose transform `data` is, in place; complex, so that two real sequences
    /// fit into one.
    pub(super) fn inverse(&self, data: &mut [Complex]) {
        let mut half = 1;
        let mut end = self.factors.len();
        while half < self.size {
            // Stages lie from the longest to the shortest.
            let start = end - half;
            let stage = &self.factors[start..end];
            for block in data.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                for ((a, b), factor) in low.iter_mut().zip(high).zip(stage) {
                    let turned = *b * Complex::new(factor.re, -factor.im);
                    let (sum, difference) = (*a + turned, *a - turned);
                    *a = sum;
                    *b = difference;
                }
            }
            end = start;
            half *= 2;
        }
        let scale = 1.0 / self.size as f64;
        for value in data {
            *value = value.scaled(scale);
        }
    }
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
        transform.inverse(&mut product);
        for (index, value) in product.iter().enumerate() {
            let direct: f64 = (0..=index)
                .filter_map(|i| Some(a.get(i)? * b.get(index - i)?))
                .sum();
            assert!((value.re - direct).abs() < 1e-15 && value.im.abs() < 1e-15);
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
            .map(|(x, y)| *x + y.turned())
            .collect();
        transform.inverse(&mut both);
        for index in 0..4 {
            assert!((both[index].re - a[index]).abs() < 1e-15);
            assert!((both[index].im - b[index]).abs() < 1e-15);
        }
    }
}
