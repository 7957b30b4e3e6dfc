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

    fn conjugate(self) -> Self {
        Self::new(self.re, -self.im)
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
        let mut data = Vec::new();
        self.forward_into(values, &mut data);
        data
    }

    /// The transform of [`Transform::forward`], written over `data`: new memory for each transform would cost more than the
    /// transform.
    pub(super) fn forward_into(&self, values: &[f64], data: &mut Vec<Complex>) {
        data.clear();
        data.extend(
            values
                .iter()
                .take(self.size)
                .map(|value| Complex::new(*value, 0.0)),
        );
        data.resize(self.size, Complex::default());
        self.decimate_in_frequency(data);
    }

    fn decimate_in_frequency(&self, data: &mut [Complex]) {
        let mut half = self.size / 2;
        let mut factors = self.factors.as_slice();
        // Two stages at a time: half the passes over memory.
        while half >= 2 {
            let (outer, rest) = factors.split_at(half);
            let (inner, rest) = rest.split_at(half / 2);
            for block in data.chunks_exact_mut(2 * half) {
                for_quarters(block, outer, inner, |[x0, x1, x2, x3], one, two| {
                    let (a, b) = (x0 + x2, x1 + x3);
                    let (c, d) = (x0 - x2, (x1 - x3).turned());
                    [a + b, (a - b) * two, (c - d) * one, (c + d) * (one * two)]
                });
            }
            factors = rest;
            half /= 4;
        }
        if half == 1 {
            single_stage(data);
        }
    }

    /// The sequence whose transform `data` is, in place; complex, so that two real sequences
    /// fit into one.
    pub(super) fn inverse(&self, data: &mut [Complex]) {
        // The stages of the forward direction, undone in reverse order.
        let mut half = 1;
        let mut end = self.factors.len();
        if self.size.ilog2() % 2 == 1 {
            single_stage(data);
            end -= 1;
            half = 2;
        }
        while half < self.size {
            // Stages lie from the longest to the shortest.
            let (outer, inner) = self.factors[end - 3 * half..end].split_at(2 * half);
            for block in data.chunks_exact_mut(4 * half) {
                for_quarters(block, outer, inner, |[y0, y1, y2, y3], one, two| {
                    let (one, two) = (one.conjugate(), two.conjugate());
                    let y1 = y1 * two;
                    let (y2, y3) = (y2 * one, y3 * (one * two));
                    let (a, b) = (y0 + y1, y0 - y1);
                    let (c, d) = (y2 + y3, (y2 - y3).turned());
                    [a + c, b + d, a - c, b - d]
                });
            }
            end -= 3 * half;
            half *= 4;
        }
        let scale = 1.0 / self.size as f64;
        for value in data {
            *value = value.scaled(scale);
        }
    }
}

/// Replaces the elements at the same place of the four quarters of `block`; `change` gets them
/// and the factors of that place in the outer and in the inner one of two stages.
#[inline]
fn for_quarters(
    block: &mut [Complex],
    outer: &[Complex],
    inner: &[Complex],
    change: impl Fn([Complex; 4], Complex, Complex) -> [Complex; 4],
) {
    let quarter = block.len() / 4;
    let (low, high) = block.split_at_mut(2 * quarter);
    let (first, second) = low.split_at_mut(quarter);
    let (third, fourth) = high.split_at_mut(quarter);
    let low = first.iter_mut().zip(second);
    let high = third.iter_mut().zip(fourth);
    let factors = outer.iter().zip(inner);
    for (((x0, x1), (x2, x3)), (one, two)) in low.zip(high).zip(factors) {
        [*x0, *x1, *x2, *x3] = change([*x0, *x1, *x2, *x3], *one, *two);
    }
}

/// The stage between neighbours, the same in both directions.
fn single_stage(data: &mut [Complex]) {
    for pair in data.chunks_exact_mut(2) {
        (pair[0], pair[1]) = (pair[0] + pair[1], pair[0] - pair[1]);
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
    fn the_inverse_undoes_the_transform_at_every_size() {
        for size in [2, 4, 8, 16, 32, 64, 1_024, 2_048] {
            let values: Vec<f64> = (0..size).map(|i| ((i * 37) % 101) as f64 / 101.0).collect();
            let transform = Transform::holding(size);
            let mut data = transform.forward(&values);
            let sum: f64 = values.iter().sum();
            assert!((data[0].re - sum).abs() < 1e-10);
            transform.inverse(&mut data);
            for (value, found) in values.iter().zip(&data) {
                assert!((value - found.re).abs() < 1e-14 && found.im.abs() < 1e-14);
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
            .map(|(x, y)| *x + y.turned())
            .collect();
        transform.inverse(&mut both);
        for index in 0..4 {
            assert!((both[index].re - a[index]).abs() < 1e-15);
            assert!((both[index].im - b[index]).abs() < 1e-15);
        }
    }
}
