//! Verdicts: whether a promise held, as far as the measurement can tell.

use tailbound_analysis::{Outlook, Promise};
use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{Distribution, Interval};
use tailbound_model::Slo;

use crate::{Outcome, Verdict};

/// The probability with which a confidence interval in a report holds the true percentile.
pub const CONFIDENCE: f64 = 0.95;

impl Verdict {
    /// Holds `slo` against what was predicted and measured of the latencies that it is about (one
    /// task's, if it names one).
    ///
    /// The promise is met if the whole confidence interval lies within it, missed if the whole
    /// interval lies beyond, and undecided otherwise; a measurement that is too short to bound its
    /// percentile never meets a promise. Without a sample nothing was measured. The interval is the one that was
    /// found, by a queue that fits the measurement or by batches of its requests, else what the sample itself says.
    pub fn decide(
        slo: &Slo,
        predicted: Option<&Distribution>,
        measured: Option<&Distribution>,
        interval: Option<&MeasuredInterval>,
    ) -> Self {
        let probability = slo.percentile.probability();
        let plain = || {
            let interval = measured?.quantile_interval(probability, CONFIDENCE)?;
            Some((interval.method, interval.ends()))
        };
        let interval = interval.filter(|_| measured.is_some());
        let interval = interval.map(|interval| (interval.method, interval.ends()));
        let (method, interval) = interval.or_else(plain).unzip();
        Self {
            slo: slo.clone(),
            predicted: predicted.and_then(|distribution| distribution.quantile(probability)),
            outlook: predicted.map(|distribution| Promise::from(slo).outlook(distribution)),
            quantile: measured.and_then(|distribution| distribution.quantile(probability)),
            measured: interval,
            confidence: CONFIDENCE,
            method: method.unwrap_or_default(),
            outcome: outcome(slo, interval),
        }
    }

    /// The verdict on a promise that was predicted, and not measured.
    pub fn predicted(slo: &Slo, predicted: Option<Interval>, outlook: Outlook) -> Self {
        Self {
            predicted,
            outlook: Some(outlook),
            ..Self::decide(slo, None, None, None)
        }
    }
}

fn outcome(slo: &Slo, interval: Option<Interval>) -> Outcome {
    match interval {
        None => Outcome::NotMeasured,
        Some(Interval { low, .. }) if low > slo.latency => Outcome::Missed,
        Some(Interval {
            high: Some(high), ..
        }) if high <= slo.latency => Outcome::Met,
        Some(_) => Outcome::Undecided,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use proptest::prelude::*;
    use tailbound_distribution::{Arrival, Evidence, IntervalMethod, Provenance};
    use tailbound_model::Percentile;
    use tailbound_time::Duration;

    fn promise(percentile: f64, latency_ns: u64) -> Slo {
        Slo {
            percentile: Percentile(percentile),
            latency: Duration::from_nanos(latency_ns),
            task: None,
        }
    }

    fn sampled(values: impl IntoIterator<Item = u64>) -> Distribution {
        let samples = values.into_iter().map(Duration::from_nanos).collect();
        Distribution::from_samples(Provenance::new(Evidence::Sample, "s", "m"), samples)
    }

    fn decided(latency_ns: u64, measured: &Distribution) -> Outcome {
        Verdict::decide(&promise(90.0, latency_ns), None, Some(measured), None).outcome
    }

    #[test]
    fn the_whole_interval_decides() {
        // n = 1000, p90: the 95% interval is ranks 881 to 919 or so.
        let thousand = sampled(1..=1_000);
        assert_eq!(decided(950, &thousand), Outcome::Met);
        assert_eq!(decided(900, &thousand), Outcome::Undecided);
        assert_eq!(decided(850, &thousand), Outcome::Missed);
    }

    #[test]
    fn the_interval_of_the_fitted_queue_decides_where_there_is_one() {
        let thousand = sampled(1..=1_000);
        let fitted = MeasuredInterval {
            task: None,
            percentile: 90.0,
            low: Duration::from_nanos(700),
            high: Some(Duration::from_nanos(1_100)),
            method: IntervalMethod::FittedQueue,
            log_deviation: Some(0.1),
            too_short: false,
            needed: Duration::from_secs(90),
        };
        let verdict = Verdict::decide(&promise(90.0, 950), None, Some(&thousand), Some(&fitted));
        assert_eq!(verdict.outcome, Outcome::Undecided);
        assert_eq!(verdict.method, IntervalMethod::FittedQueue);
        // Without a measurement there is nothing that an interval could be of.
        let verdict = Verdict::decide(&promise(90.0, 950), None, None, Some(&fitted));
        assert_eq!(verdict.outcome, Outcome::NotMeasured);
    }

    /// A thousand values that come in stretches of fifty say as much as some twenty.
    #[test]
    fn latencies_that_depend_on_each_other_decide_less() {
        let values = (0..1_000_u64).map(|index| index / 50 * 7 % 20 * 50 + index % 50);
        let arrivals = values.map(|value| Arrival::Known(Duration::from_nanos(value)));
        let provenance = Provenance::new(Evidence::Sample, "s", "m");
        let measured = Distribution::from_arrivals(provenance, arrivals.collect());
        assert_eq!(decided(950, &sampled(0..1_000)), Outcome::Met);
        let verdict = Verdict::decide(&promise(90.0, 950), None, Some(&measured), None);
        assert_eq!(verdict.outcome, Outcome::Undecided);
        assert_eq!(verdict.method, IntervalMethod::BatchMeans);
        assert_eq!(decided(200, &measured), Outcome::Missed);
    }

    #[test]
    fn few_samples_decide_nothing_but_a_clear_miss() {
        let few = sampled([1, 2, 3]);
        assert_eq!(decided(1_000, &few), Outcome::Undecided);
        let late = sampled(vec![5_000; 30]);
        assert_eq!(decided(1_000, &late), Outcome::Missed);
    }

    #[test]
    fn unanswered_requests_never_meet_a_promise() {
        let provenance = Provenance::new(Evidence::Sample, "s", "m");
        let answered = vec![Duration::from_nanos(5); 800];
        let lost = vec![Duration::from_nanos(10); 200];
        let measured = Distribution::from_censored(provenance, answered, lost);
        assert_eq!(decided(1_000, &measured), Outcome::Undecided);
        assert_eq!(decided(8, &measured), Outcome::Missed);
    }

    #[test]
    fn nothing_measured_is_said_so() {
        assert_eq!(decided(5, &sampled([])), Outcome::NotMeasured);
        let verdict = Verdict::decide(&promise(90.0, 5), Some(&sampled([4])), None, None);
        assert_eq!(verdict.outcome, Outcome::NotMeasured);
        assert_eq!(verdict.predicted.unwrap().low, Duration::from_nanos(4));
    }

    proptest! {
        #[test]
        fn a_looser_promise_is_never_judged_worse(
            values in prop::collection::vec(0_u64..1_000, 1..300),
            strict in 0_u64..1_000, slack in 0_u64..1_000,
        ) {
            let rank = |outcome| match outcome {
                Outcome::Missed => 0,
                Outcome::Undecided => 1,
                Outcome::Met => 2,
                Outcome::NotMeasured => panic!("there are samples"),
            };
            let measured = sampled(values);
            let (tight, loose) = (decided(strict, &measured), decided(strict + slack, &measured));
            prop_assert!(rank(tight) <= rank(loose));
        }
    }
}
