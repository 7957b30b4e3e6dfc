//! Budgets of caps: the least limits that keep promises where nothing else needs the CPU.

use tailbound_distribution::Evidence;
use tailbound_model::BackendKind;
use tailbound_time::Duration;

use super::{Choice, Sizing};
use crate::notation::{NotationError, PeriodRange};
use crate::{CapAssumption, CpuLimit, LimitStanza, USUAL_QUOTA_PERIOD};

impl Sizing {
    /// The same budgets as quotas of a cap: each is rounded up to a limit in thousandths of a CPU that the kernel takes,
    /// and all of them rest on what is taken for granted of caps.
    #[must_use]
    pub fn of_caps(mut self) -> Self {
        for choice in &mut self.choices {
            let (period, least) = (choice.period, choice.budget);
            choice.budget = least.map(|budget| quota_at_least(budget, period));
            choice.with_margin = choice
                .with_margin
                .map(|budget| quota_at_least(budget, period));
            let added = choice.budget.zip(least);
            let added = added.map(|(quota, least)| quota.saturating_sub(least));
            choice.resolution = choice.resolution.saturating_add(added.unwrap_or_default());
        }
        self.evidence = Evidence::Estimate;
        self.cap_assumptions = CapAssumption::ALL.to_vec();
        let words = self.cap_assumptions.iter().map(ToString::to_string);
        self.assumptions.extend(words);
        self
    }

    /// The same budgets, resting on what is not shown to hold, if there is any.
    #[must_use]
    pub fn assuming(mut self, assumptions: impl IntoIterator<Item = String>) -> Self {
        let before = self.assumptions.len();
        self.assumptions.extend(assumptions);
        if self.assumptions.len() > before {
            self.evidence = Evidence::Estimate;
        }
        self
    }

    /// The limits of a choice without and with its margin, where the budgets are quotas.
    pub fn limits(&self, choice: &Choice) -> Option<(CpuLimit, CpuLimit)> {
        if self.cap_assumptions.is_empty() {
            return None;
        }
        let limit = |quota| CpuLimit::at_least(quota, choice.period);
        Some((limit(choice.budget?), limit(choice.with_margin?)))
    }

    /// The text that sets the limit of the choice with its margin, where the budgets are quotas.
    pub fn limit_stanza(&self, form: LimitStanza) -> Option<String> {
        let choice = self.choice()?;
        let (_, limit) = self.limits(choice)?;
        Some(form.of(limit, (choice.with_margin?, choice.period)))
    }
}

/// The periods of a limit: those that are asked for, if the kernel takes them, or that of containers.
///
/// # Errors
/// Periods that the kernel does not take.
pub fn limit_periods(asked: Option<PeriodRange>) -> Result<PeriodRange, NotationError> {
    let Some(range) = asked else {
        return Ok(PeriodRange {
            low: USUAL_QUOTA_PERIOD,
            high: USUAL_QUOTA_PERIOD,
        });
    };
    let traits = BackendKind::CPU_LIMIT.traits();
    let (shortest, longest) = (traits.shortest_period, traits.longest_period);
    if range.low >= shortest && range.high <= longest {
        return Ok(range);
    }
    let what = format!(
        "the kernel takes quotas of periods from {shortest} to {longest}, and {} to {} is asked for",
        range.low, range.high
    );
    Err(NotationError::new(
        what,
        "give periods within, or none for that of containers, 100ms",
    ))
}

/// The least quota, of a limit in thousandths of a CPU, that is at least `budget` and that the kernel takes.
fn quota_at_least(budget: Duration, period: Duration) -> Duration {
    let least = BackendKind::CPU_LIMIT.traits().smallest_budget;
    let microseconds = budget.max(least).as_nanos().div_ceil(1_000);
    let limit = CpuLimit::at_least(Duration::from_micros(microseconds), period);
    let quota = limit.quota(Some(period)).map(|quota| quota.quota);
    // Only of a period that the kernel does not take.
    quota.unwrap_or(budget)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;
    use tailbound_model::{PercentagePoints, ReservationServer};
    use tailbound_time::Rate;

    use super::super::{ServerKind, SizingQuery, size};
    use super::*;
    use crate::Promise;
    use crate::response_time::PoissonQueue;

    /// A request a second of 30 ms, 99% within half a second.
    fn query(periods: Vec<Duration>) -> SizingQuery {
        SizingQuery {
            queue: PoissonQueue {
                rate: Rate::per_second(1.0).unwrap(),
                execution_times: vec![(Duration::from_millis(30), 1.0)],
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: 0.99,
                latency: Duration::from_millis(100),
            }],
            kind: ServerKind::Deferrable,
            periods,
            margin: PercentagePoints(5.0),
        }
    }

    /// The limit keeps the promise, and a thousandth of a CPU less does not.
    #[test]
    fn the_least_limit_keeps_the_promise_and_a_thousandth_less_does_not() {
        let period = Duration::from_millis(100);
        let query = query(vec![period]);
        let sizing = size(&query).unwrap().of_caps();
        assert_eq!(sizing.evidence, Evidence::Estimate);
        let (limit, with_margin) = sizing.limits(sizing.choice().unwrap()).unwrap();
        let share = |limit: CpuLimit| {
            let server = limit.quota(Some(period)).unwrap().rule();
            let queue = PoissonQueue {
                server,
                ..query.queue.clone()
            };
            queue.solve().unwrap().cdf(query.promises[0].latency)
        };
        let CpuLimit::Cpus { billionths } = limit else {
            unreachable!("limits are numbers of CPUs");
        };
        let less = CpuLimit::Cpus {
            billionths: billionths - crate::MILLI_CPU,
        };
        let promised = query.promises[0].probability;
        assert!(share(limit).lower >= promised, "{limit}");
        assert!(share(less).upper < promised, "{less}");
        let more = CpuLimit::Cpus {
            billionths: billionths + 50 * crate::MILLI_CPU,
        };
        assert_eq!(with_margin, more);
    }

    proptest! {
        #[test]
        fn a_quota_is_enough_and_less_than_a_thousandth_of_a_cpu_more(
            budget_ns in 1_u64..1_000_000_000,
            period_us in 1_000_u64..1_000_000,
        ) {
            let period = Duration::from_micros(period_us);
            let budget = Duration::from_nanos(budget_ns).min(period);
            let quota = quota_at_least(budget, period);
            let least = budget.max(Duration::from_millis(1));
            prop_assert!(quota >= least && quota <= period);
            prop_assert!(quota <= least + period / 1_000 + Duration::from_micros(1));
            prop_assert_eq!(quota.as_nanos() % 1_000, 0);
        }
    }
}
