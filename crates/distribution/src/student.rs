//! Student's t-distribution with a whole number of degrees of freedom.

/// Steps of a bisection: far below the error of anything that it is used for.
const STEPS: usize = 60;
/// Degrees of freedom from which a normal distribution is derived.
const NEARLY_NORMAL: usize = 400;

/// The probability that the absolute value of a variable of Student's distribution is at most `t`, as a finite
/// sum (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4).
fn within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sine, cosine) = angle.sin_cos();
    let odd = freedom % 2 == 1;
    let mut term = if odd { cosine } else { 1.0 };
    let mut sum = 0.0;
    let mut power = usize::from(odd);
    while power + 2 <= freedom {
        sum += term;
        term *= (power as f64 + 1.0) / (power as f64 + 2.0) * cosine * cosine;
        power += 2;
    }
    match odd {
        true => (angle + sine * sum) * std::f64::consts::FRAC_2_PI,
        false => sine * sum,
    }
}

/// The value that the absolute value of a variable exceeds with probability `1 - confidence`.
fn two_sided(confidence: f64, freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while within(high, freedom) < confidence && high < f64::MAX / 4.0 {
        high *= 2.0;
    }
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        match within(middle, freedom) < confidence {
            true => low = middle,
            false => high = middle,
        }
    }
    f64::midpoint(low, high)
}

/// How many times as wide an interval of `confidence` is whose variance was estimated with so many degrees of
/// freedom as one of a known variance.
pub(crate) fn widening(confidence: f64, freedom: usize) -> f64 {
    let many = NEARLY_NORMAL as f64;
    let nearly = two_sided(confidence, NEARLY_NORMAL);
    // Abramowitz and Stegun, 26.7.8, the other way round.
    let normal =
        nearly * (1.0 - 1.0 / (4.0 * many)) / (1.0 + nearly * nearly / (2.0 * many)).sqrt();
    two_sided(confidence, freedom.max(1)) / normal
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Abramowitz and Stegun, table 26.10.
    #[test]
    fn quantiles_are_those_of_the_table() {
        for (confidence, freedom, expected) in [
            (0.95, 1, 12.706),
            (0.95, 2, 4.303),
            (0.95, 7, 2.365),
            (0.95, 31, 2.040),
            (0.95, 120, 1.980),
            (0.99, 10, 3.169),
        ] {
            let quantile = two_sided(confidence, freedom);
            assert!((quantile - expected).abs() < 6e-4, "{freedom}: {quantile}");
        }
        assert!((two_sided(0.95, 7) / widening(0.95, 7) - 1.959_964).abs() < 1e-5);
        assert!((widening(0.95, 100_000) - 1.0).abs() < 1e-4);
    }
}
