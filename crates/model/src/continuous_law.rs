//! Continuous laws of execution times.

use tailbound_time::Duration;

use crate::workload::ExecutionTime;

/// The standard normal quantile of 0.99, which relates the 99th percentile of a lognormal law to its median.
const NORMAL_99: f64 = 2.326_347_874_040_841;
/// The share of the jobs that reach the longest execution time, where the description names none.
const CUT_SHARE: f64 = 1e-12;

/// `ContinuousLaw` is a law of execution times that a formula gives: a shortest value and a random rest above zero. A
/// job for which the formula would yield more than the longest value takes exactly that.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ContinuousLaw {
    shortest_ns: f64,
    longest_ns: f64,
    rest: RandomPart,
}

/// The random part of an execution time, before the longest value cuts it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum RandomPart {
    Uniform { width_ns: f64 },
    Exponential { mean_ns: f64 },
    Lognormal { median_ns: f64, spread: f64 },
}

impl ContinuousLaw {
    /// The law that a description gives by a formula; `None` for constant, measured and calibrated execution times.
    pub fn of(time: &ExecutionTime) -> Option<Self> {
        let above = |value: Duration, min: Duration| {
            (value.saturating_sub(min).as_nanos() as f64).max(f64::MIN_POSITIVE)
        };
        let (min, max, rest) = match time {
            ExecutionTime::Uniform { min, max } if min < max => {
                let width_ns = above(*max, *min);
                (*min, Some(*max), RandomPart::Uniform { width_ns })
            }
            ExecutionTime::Exponential { min, mean, max } => {
                let mean_ns = above(*mean, *min);
                (*min, *max, RandomPart::Exponential { mean_ns })
            }
            ExecutionTime::Lognormal {
                min,
                median,
                p99,
                max,
            } => {
                let median_ns = above(*median, *min);
                let spread = (above(*p99, *min) / median_ns).ln().max(0.0) / NORMAL_99;
                (*min, *max, RandomPart::Lognormal { median_ns, spread })
            }
            _ => return None,
        };
        let shortest_ns = min.as_nanos() as f64;
        let longest_ns = match max {
            Some(max) => max.as_nanos() as f64,
            None => (shortest_ns + rest.exceeded_by(CUT_SHARE)).ceil(),
        };
        Some(Self {
            shortest_ns,
            longest_ns: longest_ns.max(shortest_ns),
            rest,
        })
    }

    /// The shortest execution time.
    pub fn shortest(&self) -> Duration {
        Duration::from_nanos(self.shortest_ns as u64)
    }

    /// The longest execution time.
    pub fn longest(&self) -> Duration {
        Duration::from_nanos(self.longest_ns as u64)
    }

    /// The probability that a job takes longer than `at_ns` nanoseconds.
    pub fn exceeded(&self, at_ns: f64) -> f64 {
        if at_ns >= self.longest_ns {
            return 0.0;
        }
        self.rest.above(at_ns - self.shortest_ns)
    }

    /// The execution time that the share `share` of all jobs exceeds, to the nearest nanosecond.
    pub fn exceeded_by(&self, share: f64) -> Duration {
        let at = self.shortest_ns + self.rest.exceeded_by(share);
        Duration::from_nanos(at.min(self.longest_ns).round() as u64)
    }

    /// The mean in nanoseconds.
    pub fn mean_ns(&self) -> f64 {
        self.shortest_ns + self.mean_beyond(self.shortest_ns)
    }

    /// The mean of that part of an execution time that lies beyond `at_ns`, in nanoseconds: the integral of
    /// [`exceeded`](Self::exceeded) from there on. `at_ns` is no less than the shortest execution time.
    pub fn mean_beyond(&self, at_ns: f64) -> f64 {
        let beyond = |at_ns: f64| self.rest.mean_beyond(at_ns - self.shortest_ns);
        (beyond(at_ns) - beyond(self.longest_ns)).max(0.0)
    }
}

impl RandomPart {
    /// The probability of more than `at_ns`.
    fn above(self, at_ns: f64) -> f64 {
        if at_ns <= 0.0 {
            return 1.0;
        }
        match self {
            Self::Uniform { width_ns } => (1.0 - at_ns / width_ns).max(0.0),
            Self::Exponential { mean_ns } => (-at_ns / mean_ns).exp(),
            Self::Lognormal { median_ns, spread } => {
                normal_above((at_ns / median_ns).ln() / spread.max(f64::MIN_POSITIVE))
            }
        }
    }

    /// The nanoseconds that the share `share` of the jobs exceeds.
    fn exceeded_by(self, share: f64) -> f64 {
        match self {
            Self::Uniform { width_ns } => (1.0 - share) * width_ns,
            Self::Exponential { mean_ns } => -share.ln() * mean_ns,
            Self::Lognormal { median_ns, spread } => {
                median_ns * (spread * normal_exceeded_by(share)).exp()
            }
        }
    }

    /// The mean of what lies beyond `at_ns`, in nanoseconds.
    fn mean_beyond(self, at_ns: f64) -> f64 {
        match self {
            Self::Uniform { width_ns } => (width_ns - at_ns).max(0.0).powi(2) / (2.0 * width_ns),
            Self::Exponential { mean_ns } => mean_ns * (-at_ns / mean_ns).exp(),
            Self::Lognormal { median_ns, spread } => {
                let mean_ns = median_ns * (0.5 * spread * spread).exp();
                if at_ns <= 0.0 {
                    return mean_ns;
                }
                let at = (at_ns / median_ns).ln() / spread.max(f64::MIN_POSITIVE);
                mean_ns * normal_above(at - spread) - at_ns * normal_above(at)
            }
        }
    }
}

/// The probability that a standard normal variable exceeds `at`.
fn normal_above(at: f64) -> f64 {
    0.5 * libm::erfc(at * std::f64::consts::FRAC_1_SQRT_2)
}

/// The value that a standard normal variable exceeds with probability `share`, above 0 and below 1.
///
/// A rational first guess (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.2.23, wrong by less than
/// 4.5e-4), which three steps of Halley's method take to the precision of floats.
fn normal_exceeded_by(share: f64) -> f64 {
    let smaller = share.min(1.0 - share).max(f64::MIN_POSITIVE);
    let t = (-2.0 * smaller.ln()).sqrt();
    let above = 2.515_517 + t * (0.802_853 + t * 0.010_328);
    let below = 1.0 + t * (1.432_788 + t * (0.189_269 + t * 0.001_308));
    let mut at = t - above / below;
    for _ in 0..3 {
        let density = (-0.5 * at * at).exp() / (2.0 * std::f64::consts::PI).sqrt();
        let newton = (normal_above(at) - smaller) / density;
        at += newton / (1.0 - 0.5 * at * newton);
    }
    if share <= 0.5 { at } else { -at }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn us(value: u64) -> Duration {
        Duration::from_micros(value)
    }

    fn law(time: &ExecutionTime) -> ContinuousLaw {
        ContinuousLaw::of(time).unwrap()
    }

    fn exponential(min: u64, mean: u64, max: Option<u64>) -> ContinuousLaw {
        law(&ExecutionTime::Exponential {
            min: us(min),
            mean: us(mean),
            max: max.map(us),
        })
    }

    fn lognormal(min: u64, median: u64, p99: u64, max: Option<u64>) -> ContinuousLaw {
        law(&ExecutionTime::Lognormal {
            min: us(min),
            median: us(median),
            p99: us(p99),
            max: max.map(us),
        })
    }

    #[test]
    fn an_exponential_law_has_its_mean_and_its_tail() {
        let law = exponential(500, 2_500, None);
        assert!((law.mean_ns() - 2.5e6).abs() < 1.0);
        assert!((law.exceeded(2.5e6) - (-1.0_f64).exp()).abs() < 1e-15);
        assert_eq!(law.exceeded_by((-1.0_f64).exp()), us(2_500));
        assert_eq!((law.shortest(), law.exceeded(0.49e6)), (us(500), 1.0));
        // One job in 10^12 takes the longest time.
        let longest = law.longest().as_nanos() as f64;
        assert!((law.exceeded(longest - 1.0) / 1e-12 - 1.0).abs() < 1e-6);
        assert!(law.exceeded(longest) <= 0.0);
    }

    #[test]
    fn a_lognormal_law_has_its_median_and_its_99th_percentile() {
        let law = lognormal(1_000, 3_000, 11_000, None);
        assert!((law.exceeded(3e6) - 0.5).abs() < 1e-14);
        assert!((law.exceeded(11e6) - 0.01).abs() < 1e-14);
        let spread = 5.0_f64.ln() / NORMAL_99;
        assert!((law.mean_ns() - 1e6 - 2e6 * (0.5 * spread * spread).exp()).abs() < 1.0);
    }

    #[test]
    fn the_mean_is_the_integral_of_the_tail() {
        for law in [
            exponential(100, 1_000, Some(2_500)),
            lognormal(0, 1_000, 20_000, Some(30_000)),
            lognormal(200, 1_000, 3_000, Some(3_500)),
            law(&ExecutionTime::Uniform {
                min: us(100),
                max: us(700),
            }),
        ] {
            let (steps, longest) = (200_000, law.longest().as_nanos() as f64);
            let width = longest / f64::from(steps);
            let middle = |step: u32| law.exceeded((f64::from(step) + 0.5) * width);
            let from = |first: u32| (first..steps).map(middle).sum::<f64>() * width;
            assert!((law.mean_ns() / from(0) - 1.0).abs() < 1e-5, "{law:?}");
            let beyond = law.mean_beyond(longest / 2.0);
            assert!((beyond / from(steps / 2) - 1.0).abs() < 1e-4, "{law:?}");
        }
    }

    #[test]
    fn shares_and_times_are_inverse() {
        for law in [exponential(10, 900, None), lognormal(10, 900, 9_000, None)] {
            for share in [0.999_999, 0.9, 0.5, 0.3, 1e-3, 1e-9] {
                let at = law.exceeded_by(share).as_nanos() as f64;
                assert!(law.exceeded(at - 1.0) >= share && law.exceeded(at + 1.0) <= share);
            }
        }
    }

    #[test]
    fn a_job_takes_no_longer_than_the_longest_time() {
        let law = exponential(0, 1_000, Some(2_000));
        assert_eq!(law.exceeded_by(1e-9), us(2_000));
        assert!((law.exceeded(1_999_999.0) - (-2.0_f64).exp()).abs() < 1e-6);
        assert!(law.exceeded(2e6) <= 0.0);
    }
}
