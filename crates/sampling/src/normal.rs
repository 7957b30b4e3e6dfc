//! The standard normal distribution.

/// The probability of a value of at most `deviation` (Abramowitz and Stegun, Handbook of Mathematical Functions,
/// 26.2.17; the error is below 7.5e-8).
pub(crate) fn cumulative(deviation: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.231_641_9 * deviation.abs());
    let coefficients = [
        1.330_274_429,
        -1.821_255_978,
        1.781_477_937,
        -0.356_563_782,
        0.319_381_530,
    ];
    let polynomial = coefficients.iter().fold(0.0, |sum, one| sum * t + one) * t;
    let density = (-deviation * deviation / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    match deviation >= 0.0 {
        true => 1.0 - density * polynomial,
        false => density * polynomial,
    }
}

/// The deviation within which a value lies on either side with this probability, by bisection.
pub(crate) fn two_sided(probability: f64) -> f64 {
    let (mut low, mut high) = (0.0, 8.0);
    for _ in 0..60 {
        let middle = f64::midpoint(low, high);
        match 2.0 * cumulative(middle) - 1.0 < probability {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::midpoint(low, high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_the_table() {
        for (deviation, expected) in [(0.0, 0.5), (1.0, 0.841_344_7), (-1.96, 0.024_997_9)] {
            assert!((cumulative(deviation) - expected).abs() < 1e-6);
        }
        assert!((two_sided(0.95) - 1.959_964).abs() < 1e-4);
    }
}
