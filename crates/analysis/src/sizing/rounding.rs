//! Execution times of many values, rounded up so that a search takes seconds.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use super::SizingQuery;
use crate::AnalysisError;
use crate::response_time::PoissonQueue;

/// More different execution times than this are rounded.
const MOST_VALUES: usize = 16;
/// The same for the longest, in common divisors of all.
const MOST_STRIDES: u64 = 128;
/// So many rounded execution times at most, counted from zero to the longest.
const ROUNDED_VALUES: u64 = 32;

/// The query with execution times that the exact method takes quickly, none shorter than it was, and
/// what was done about that. First come, first served, longer execution times make no response
/// shorter on a deferrable or a periodic server, so that what is enough for them is enough.
///
/// # Errors
/// [`AnalysisError::Overloaded`] where the rounded load is too much for a CPU.
pub(super) fn tractable(query: &SizingQuery) -> Result<(SizingQuery, Vec<String>), AnalysisError> {
    let queue = &query.queue;
    let times = queue.execution_times.iter().map(|(time, _)| *time);
    let longest = times.max().unwrap_or(Duration::ZERO);
    let stride_ns = queue.stride().as_nanos().max(1);
    let few = queue.execution_times.len() <= MOST_VALUES;
    if few && longest.as_nanos() / stride_ns <= MOST_STRIDES {
        return Ok((query.clone(), Vec::new()));
    }
    let step_ns = longest.as_nanos().div_ceil(ROUNDED_VALUES).max(1);
    let mut rounded: BTreeMap<Duration, f64> = BTreeMap::new();
    for (time, p) in &queue.execution_times {
        let up = time.as_nanos().div_ceil(step_ns).saturating_mul(step_ns);
        *rounded.entry(Duration::from_nanos(up)).or_insert(0.0) += p;
    }
    let coarse = PoissonQueue {
        execution_times: rounded.into_iter().collect(),
        ..queue.clone()
    };
    let (before, after) = (queue.utilisation(), coarse.utilisation());
    if after >= 1.0 {
        return Err(AnalysisError::Overloaded {
            utilisation: after,
            bandwidth: 1.0,
            remedy: format!(
                "rounded up to multiples of {}, the execution times need more than the {before:.4} \
                 that they are; give fewer different ones, or ones with a common divisor",
                Duration::from_nanos(step_ns)
            ),
        });
    }
    let said = format!(
        "execution times are rounded up to multiples of {}, which raises the load from {:.2} % to \
         {:.2} % of a CPU: budgets are enough for sure, and a little more than the least",
        Duration::from_nanos(step_ns),
        before * 100.0,
        after * 100.0
    );
    let searched = SizingQuery {
        queue: coarse,
        ..query.clone()
    };
    Ok((searched, vec![said]))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{Promise, ServerKind, size};
    use super::*;
    use tailbound_model::{PercentagePoints, ReservationServer};
    use tailbound_time::Rate;

    fn query(execution_times: Vec<(Duration, f64)>) -> SizingQuery {
        SizingQuery {
            queue: PoissonQueue {
                rate: Rate::per_second(100.0).unwrap(),
                execution_times,
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: 0.95,
                latency: Duration::from_millis(50),
            }],
            kind: ServerKind::Deferrable,
            periods: vec![Duration::from_millis(10)],
            margin: PercentagePoints(5.0),
        }
    }

    #[test]
    fn a_few_tidy_values_stay_as_they_are() {
        let us = Duration::from_micros;
        let query = query(vec![(us(2_000), 0.5), (us(4_500), 0.5)]);
        let (searched, said) = tractable(&query).unwrap();
        assert_eq!(searched.queue, query.queue);
        assert!(said.is_empty());
    }

    #[test]
    fn samples_in_nanoseconds_are_rounded_up_and_sized() {
        let value = |index: u64| Duration::from_nanos(2_000_003 + index * 9_973);
        let samples: Vec<_> = (0..200).map(|index| (value(index), 0.005)).collect();
        let query = query(samples);
        let (searched, said) = tractable(&query).unwrap();
        let coarse = &searched.queue.execution_times;
        assert!(coarse.len() <= 32 && said.len() == 1);
        assert!(searched.queue.utilisation() >= query.queue.utilisation());
        let found = size(&query).unwrap();
        let choice = &found.choices[found.best.unwrap()];
        // The budget that was found keeps the promise of the samples as they are.
        let kept = PoissonQueue {
            server: ReservationServer::Deferrable {
                budget: choice.budget.unwrap(),
                period: choice.period,
            },
            ..query.queue.clone()
        };
        let share = kept.solve().unwrap().cdf(Duration::from_millis(50));
        assert!(share.upper >= 0.95, "{share:?}");
    }
}
