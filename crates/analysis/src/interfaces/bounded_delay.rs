//! The bounded-delay resource model (Mok, Feng and Chen 2001).

use serde::Serialize;
use tailbound_time::Duration;

use super::component::{ComponentVerdict, LocalScheduler, schedulable};
use super::demand::{LONGEST, Workload};
use super::supply::SupplyBound;
use crate::{AnalysisError, SporadicTask};

/// A CPU that is slower by the rate α, and late by at most the delay Δ: (α, Δ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BoundedDelay {
    /// α as a fraction.
    numerator: u64,
    denominator: u64,
    delay: Duration,
}

impl BoundedDelay {
    /// The resource with α = `numerator / denominator`.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a denominator of zero or beyond 2^55, a rate above one CPU,
    /// or a delay beyond [`LONGEST`].
    pub fn new(numerator: u64, denominator: u64, delay: Duration) -> Result<Self, AnalysisError> {
        if denominator == 0
            || denominator > LONGEST.as_nanos()
            || numerator > denominator
            || delay > LONGEST
        {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "{numerator}/{denominator} of a CPU after {delay} is no bounded-delay \
                     resource; the rate must be at most one CPU, its denominator above zero, and \
                     the delay at most {LONGEST}"
                ),
            });
        }
        Ok(Self {
            numerator,
            denominator,
            delay,
        })
    }

    /// The tightest such bound of another supply on one CPU: its rate and its delay.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn of(supply: &impl SupplyBound) -> Result<Self, AnalysisError> {
        let (numerator, denominator) = supply.rate();
        Self::new(numerator, denominator, supply.delay_up())
    }

    /// The longest delay Δ with which `workload` meets its deadlines at the rate α = `numerator /
    /// denominator`: the least demanding (α, Δ) of that rate. Less delay is never less supply, so
    /// bisection finds it.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for no such rate, [`AnalysisError::NoDelaySuffices`] where not even
    /// a delay of zero makes the deadlines, [`AnalysisError::NotAnalysed`] as of [`schedulable`].
    pub fn longest_delay(
        workload: &Workload,
        scheduler: LocalScheduler,
        numerator: u64,
        denominator: u64,
    ) -> Result<(Self, ComponentVerdict), AnalysisError> {
        let with = |delay_ns: u64| {
            let resource = Self::new(numerator, denominator, Duration::from_nanos(delay_ns))?;
            let verdict = schedulable(workload, scheduler, &resource)?;
            Ok::<_, AnalysisError>((resource, verdict))
        };
        let (mut resource, mut verdict) = with(0)?;
        if let Some(shortage) = verdict.shortage {
            return Err(AnalysisError::NoDelaySuffices {
                rate: numerator as f64 / denominator as f64,
                shortage: shortage.to_string(),
            });
        }
        // A job that gets nothing before its deadline is late.
        let deadlines = workload.tasks().iter().map(SporadicTask::deadline);
        let (mut good, mut bad) = (0, deadlines.min().unwrap_or_default().as_nanos());
        while bad.saturating_sub(good) > 1 {
            let middle = good + (bad - good) / 2;
            match with(middle)? {
                (_, judged) if !judged.schedulable => bad = middle,
                suffices => {
                    (resource, verdict) = suffices;
                    good = middle;
                }
            }
        }
        Ok((resource, verdict))
    }

    /// Δ: how late the rate is at most.
    pub fn delay(&self) -> Duration {
        self.delay
    }

    /// The periodic resource with the longest period that gives no less: Π = Δ / (2 (1 - α)), rounded
    /// down, and Θ = α Π, rounded up (Shin and Lee 2004, by the linear bound of the periodic resource).
    /// `None` where Π is below a nanosecond or beyond [`LONGEST`], as at a rate of one.
    pub fn periodic_resource(&self) -> Option<(Duration, Duration)> {
        let rest = u128::from(self.denominator.checked_sub(self.numerator)?);
        let period_ns = u128::from(self.delay.as_nanos()) * u128::from(self.denominator);
        let period_ns = u64::try_from(period_ns.checked_div(2 * rest)?).ok()?;
        let period = Duration::from_nanos(period_ns);
        let budget = period.scaled_up(self.numerator, self.denominator);
        (!period.is_zero() && period <= LONGEST).then_some((budget, period))
    }
}

impl SupplyBound for BoundedDelay {
    fn supplied_down(&self, window: Duration) -> Duration {
        window
            .saturating_sub(self.delay)
            .scaled_down(self.numerator, self.denominator)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        match (work.is_zero(), self.numerator) {
            (true, _) => Duration::ZERO,
            (false, 0) => Duration::MAX,
            (false, numerator) => work
                .scaled_up(self.denominator, numerator)
                .saturating_add(self.delay),
        }
    }

    fn rate(&self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    fn delay_up(&self) -> Duration {
        self.delay
    }

    fn repeats_after(&self) -> Duration {
        Duration::from_nanos(self.denominator)
    }

    fn name(&self) -> &'static str {
        "bounded-delay resource model (Mok, Feng and Chen 2001)"
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::super::PeriodicSupply;
    use super::*;

    fn ns(value: u64) -> Duration {
        Duration::from_nanos(value)
    }

    fn workload(raw: &[(u64, u64)]) -> Workload {
        let tasks = raw
            .iter()
            .map(|(c, t)| SporadicTask::implicit(ns(*c), ns(*t)).unwrap());
        Workload::new(tasks.collect()).unwrap()
    }

    #[test]
    fn one_task_leaves_what_its_own_work_does_not_need() {
        // At half a CPU 2 ns of work take 4 ns of the deadline of 10 ns.
        let edf = LocalScheduler::EarliestDeadlineFirst;
        let (resource, _) = BoundedDelay::longest_delay(&workload(&[(2, 10)]), edf, 1, 2).unwrap();
        assert_eq!(resource.delay(), ns(6));
        // Gap 2 (Π - Θ) = 6 at half a CPU: Π = 6, Θ = 3.
        assert_eq!(resource.periodic_resource(), Some((ns(3), ns(6))));
        let none = BoundedDelay::longest_delay(&workload(&[(6, 10)]), edf, 1, 2);
        assert!(matches!(none, Err(AnalysisError::NoDelaySuffices { .. })));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn the_periodic_resource_of_a_bounded_delay_keeps_the_deadlines(
            raw in prop::collection::vec((1_u64..50, 100_u64..500), 1..5),
            percent in 20_u64..100,
            by_priority in any::<bool>(),
        ) {
            let workload = workload(&raw);
            let scheduler = match by_priority {
                true => LocalScheduler::FixedPriority,
                false => LocalScheduler::EarliestDeadlineFirst,
            };
            let Ok((resource, _)) = BoundedDelay::longest_delay(&workload, scheduler, percent, 100)
            else {
                return Ok(());
            };
            let later = BoundedDelay::new(percent, 100, resource.delay() + ns(1)).unwrap();
            prop_assert!(!schedulable(&workload, scheduler, &later).unwrap().schedulable);
            if let Some((budget, period)) = resource.periodic_resource() {
                let supply = PeriodicSupply::somewhere(budget, period).unwrap();
                if let Ok(verdict) = schedulable(&workload, scheduler, &supply) {
                    prop_assert!(verdict.schedulable, "{:?}", verdict);
                }
            }
        }
    }
}
