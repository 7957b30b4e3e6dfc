//! The laws of periods.

use tailbound_time::Duration;

use super::error::GenerateError;
use crate::workload::streams::RandomStream;

/// The longest hyperperiod whose divisors are looked for: trying them all then takes milliseconds.
pub const LONGEST_HYPERPERIOD: Duration = Duration::from_secs(10_000);

/// The law of the periods of a set.
#[derive(Clone, Debug, PartialEq)]
pub enum Periods {
    /// The logarithm is uniform, so that each order of magnitude is as likely; rounded down to a
    /// multiple of `granularity` (Emberson, Stafford and Davis 2010, section 4).
    LogUniform {
        /// The shortest, a multiple of the granularity.
        shortest: Duration,
        /// The longest.
        longest: Duration,
        /// What every period is a multiple of.
        granularity: Duration,
    },
    /// One of `shortest`, `shortest` x `factor`, and so on up to `longest`, each as likely: each
    /// period divides every longer one (thesis, section 3.4.1: 10 ms to 1280 ms, factor 2).
    Harmonic {
        /// The shortest.
        shortest: Duration,
        /// None is longer.
        longest: Duration,
        /// From one to the next; at least 2.
        factor: u64,
    },
    /// One of the divisors of `hyperperiod` from `shortest` to `longest`, each as likely: the
    /// hyperperiod of every set divides it, which bounds what a simulation of a whole hyperperiod
    /// costs (Goossens and Macq 2001 bound it so by powers of primes).
    DivisorsOf {
        /// What every period divides.
        hyperperiod: Duration,
        /// None is shorter.
        shortest: Duration,
        /// None is longer.
        longest: Duration,
    },
}

impl Periods {
    /// Whether there is such a law.
    pub(super) fn check(&self) -> Result<(), GenerateError> {
        let (low, high) = self.range();
        if low.is_zero() || low > high {
            return Err(GenerateError::PeriodRange { low, high });
        }
        match *self {
            Self::LogUniform { granularity, .. }
                if granularity.is_zero()
                    || !low.as_nanos().is_multiple_of(granularity.as_nanos()) =>
            {
                Err(GenerateError::Granularity { low, granularity })
            }
            Self::Harmonic { factor, .. } if factor < 2 => Err(GenerateError::Factor { factor }),
            Self::DivisorsOf { hyperperiod, .. }
                if hyperperiod.is_zero() || hyperperiod > LONGEST_HYPERPERIOD =>
            {
                let longest = LONGEST_HYPERPERIOD;
                Err(GenerateError::Hyperperiod {
                    hyperperiod,
                    longest,
                })
            }
            _ => Ok(()),
        }
    }

    /// Periods for so many tasks; the law has been checked.
    pub(super) fn draw(
        &self,
        tasks: usize,
        stream: &mut RandomStream,
    ) -> Result<Vec<Duration>, GenerateError> {
        let choices = match *self {
            Self::LogUniform {
                shortest,
                longest,
                granularity,
            } => {
                let draw = |_| log_uniform(shortest, longest, granularity, stream);
                return Ok((0..tasks).map(draw).collect());
            }
            Self::Harmonic {
                shortest,
                longest,
                factor,
            } => harmonic(shortest, longest, factor),
            Self::DivisorsOf {
                hyperperiod,
                shortest,
                longest,
            } => divisors(hyperperiod, shortest, longest),
        };
        if let Self::DivisorsOf { hyperperiod, .. } = *self
            && choices.is_empty()
        {
            let (low, high) = self.range();
            return Err(GenerateError::UnreachableHyperperiod {
                hyperperiod,
                low,
                high,
            });
        }
        let pick = |_| choices[stream.below(choices.len() as u64) as usize];
        Ok((0..tasks).map(pick).collect())
    }

    fn range(&self) -> (Duration, Duration) {
        match *self {
            Self::LogUniform {
                shortest, longest, ..
            }
            | Self::Harmonic {
                shortest, longest, ..
            }
            | Self::DivisorsOf {
                shortest, longest, ..
            } => (shortest, longest),
        }
    }
}

fn log_uniform(
    shortest: Duration,
    longest: Duration,
    granularity: Duration,
    stream: &mut RandomStream,
) -> Duration {
    let step = granularity.as_nanos();
    // One step beyond the end, so that the longest period is as likely as its neighbours.
    let low = (shortest.as_nanos() as f64).ln();
    let high = (longest.as_nanos() as f64 + step as f64).ln();
    let drawn = (low + (high - low) * stream.unit()).exp() as u64;
    let most = longest.as_nanos() / step * step;
    Duration::from_nanos((drawn / step * step).clamp(shortest.as_nanos(), most))
}

/// The geometric series from the shortest to the longest.
fn harmonic(shortest: Duration, longest: Duration, factor: u64) -> Vec<Duration> {
    let next = |period: &Duration| period.checked_mul(factor);
    std::iter::successors(Some(shortest), next)
        .take_while(|period| *period <= longest)
        .collect()
}

/// The divisors of the hyperperiod in the range, in no particular order.
fn divisors(hyperperiod: Duration, shortest: Duration, longest: Duration) -> Vec<Duration> {
    let whole = hyperperiod.as_nanos();
    let mut all = vec![1_u64];
    let mut left = whole;
    let mut prime = 2;
    while left > 1 {
        if prime * prime > left {
            prime = left;
        }
        if left.is_multiple_of(prime) {
            let (mut power, before) = (1, all.clone());
            while left.is_multiple_of(prime) {
                left /= prime;
                power *= prime;
                all.extend(before.iter().map(|divisor| divisor * power));
            }
        }
        prime += 1;
    }
    all.into_iter()
        .map(Duration::from_nanos)
        .filter(|divisor| (shortest..=longest).contains(divisor))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn divisors_are_those_that_divide() {
        for whole in [1, 2, 97, 360, 1_000_000, 999_983, 720_720] {
            let hyperperiod = Duration::from_nanos(whole);
            let mut divisors = divisors(hyperperiod, Duration::from_nanos(1), hyperperiod);
            divisors.sort_unstable();
            let plain: Vec<Duration> = (1..=whole)
                .filter(|candidate| whole % candidate == 0)
                .map(Duration::from_nanos)
                .collect();
            assert_eq!(divisors, plain);
        }
    }

    #[test]
    fn the_harmonic_set_of_the_thesis_has_eight_periods() {
        let ms = Duration::from_millis;
        let periods = harmonic(ms(10), ms(1_280), 2);
        assert_eq!(periods, [10, 20, 40, 80, 160, 320, 640, 1_280].map(ms));
        assert_eq!(harmonic(ms(10), ms(1_279), 2).len(), 7);
        let huge = Duration::from_nanos(u64::MAX / 2);
        assert_eq!(harmonic(huge, Duration::MAX, 3), [huge]);
    }
}
