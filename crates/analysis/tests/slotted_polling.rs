//! The polling server on the grid against a simulation written for it, and closed forms.

use std::collections::VecDeque;

use proptest::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::slotted::{ExecutionLaw, SlottedQuery, polling};
use tailbound_distribution::Evidence;
use tailbound_time::{Duration, Rate};

use crate::slotted_load::{
    assert_honest_estimate, assert_narrow, ends, excess, law, one, poisson_jobs, query, same_cases,
    small_queries, us,
};

/// The responses of so many jobs on a polling server, event by event, straight from its rule.
fn simulated(query: &SlottedQuery, count: usize, seed: u64) -> Vec<Duration> {
    let (budget, period) = (query.budget.as_nanos(), query.period.as_nanos());
    let mut coming = poisson_jobs(query, count, seed)
        .into_iter()
        .map(|(at, work)| (at.as_nanos(), work.as_nanos()))
        .peekable();
    let mut queue: VecDeque<(u64, u64)> = VecDeque::new();
    let mut responses = Vec::with_capacity(count);
    let mut start = 0;
    while responses.len() < count {
        // What has come by the start of the period decides whether there is a budget.
        while let Some(job) = coming.next_if(|(at, _)| *at <= start) {
            queue.push_back(job);
        }
        let (mut now, mut left) = (start, budget);
        while let Some((at, work)) = queue.front_mut() {
            let slice = left.min(*work);
            now += slice;
            left -= slice;
            *work -= slice;
            if *work == 0 {
                responses.push(Duration::from_nanos(now - *at));
                queue.pop_front();
            }
            while let Some(job) = coming.next_if(|(at, _)| *at < now) {
                queue.push_back(job);
            }
            if left == 0 {
                break;
            }
        }
        start += period;
    }
    responses
}

#[test]
fn a_simulation_of_the_rule_lies_inside_the_bracket() {
    let mixed = law(&[(250, 0.5), (1_000, 0.3), (4_000, 0.2)]);
    let cases = [
        query(400.0, one(1_000), 2_800, 4_000),
        query(400.0, one(1_000), 1_200, 2_000),
        // A period shorter than a job, and one that is no whole number of slots.
        query(400.0, one(1_000), 500, 1_000),
        query(400.0, one(1_000), 600, 1_309),
        query(300.0, mixed, 3_000, 6_100),
        // Thirty jobs to a period, and a budget of the whole period.
        query(3_000.0, law(&[(100, 0.5), (200, 0.5)]), 7_000, 10_000),
        query(500.0, one(1_000), 3_000, 3_000),
    ];
    for (index, query) in cases.iter().enumerate() {
        let predicted = polling(query).unwrap();
        assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        assert_narrow(&predicted);
        let responses = simulated(query, 1_000_000, 11);
        let excess = excess(&predicted.distribution, &responses);
        assert!(excess < 5.0, "{index}: {excess} standard errors");
        let sum: f64 = responses.iter().map(|r| r.as_secs_f64()).sum();
        let mean = sum / responses.len() as f64;
        let (low, high) = (predicted.mean.low, predicted.mean.high.unwrap());
        let slack = 0.03 * mean;
        assert!(low.as_secs_f64() - slack < mean && mean < high.as_secs_f64() + slack);
    }
}

/// A lone job waits for the next period: uniformly from its execution time to a period more.
#[test]
fn rare_jobs_wait_for_the_next_period() {
    let predicted = polling(&query(0.01, one(1_000), 1_500, 4_000)).unwrap();
    let (optimistic, pessimistic) = ends(&predicted.distribution);
    let slot = predicted.slot.as_nanos() as f64 * 1e-3;
    for step in 0..600 {
        let at = step * 10;
        let exact = ((at as f64 - 1_000.0) / 4_000.0).clamp(0.0, 1.0);
        let slack = 2.5 * slot / 4_000.0 + 1e-4;
        let (low, high) = (pessimistic.value(us(at)), optimistic.value(us(at)));
        assert!(
            low <= exact + 1e-4 && exact <= high + 1e-4,
            "{at}: {low} {exact} {high}"
        );
        assert!(
            exact - low < slack && high - exact < slack,
            "{at}: {low} {exact} {high}"
        );
    }
}

#[test]
fn execution_times_off_the_lattice_yield_an_estimate_that_says_so() {
    let ns = Duration::from_nanos;
    for (per_second, d, budget, period) in [
        (400.0, 1_034_711, 2_800_000, 4_000_000),
        // An execution time that is nearly a budget, and must not be rounded to more than one.
        (14.0, 44_634_000, 44_922_644, 50_000_000),
    ] {
        let times = ExecutionLaw::constant(ns(d)).unwrap();
        let rate = Rate::per_second(per_second).unwrap();
        let query = SlottedQuery::new(rate, times, ns(budget), ns(period));
        let predicted = polling(&query).unwrap();
        assert!(predicted.quantile(1e-6).low >= ns(d));
        assert_honest_estimate(&predicted, simulated(&query, 1_000_000, 3));
    }
}

#[test]
fn an_overload_is_refused() {
    let error = polling(&query(700.0, one(1_000), 1_200, 2_000)).unwrap_err();
    assert!(matches!(error, AnalysisError::Overloaded { .. }));
}

proptest! {
    #![proptest_config(same_cases(12))]

    #[test]
    fn random_servers_are_bracketed(query in small_queries(), seed in any::<u64>()) {
        let predicted = polling(&query).unwrap();
        prop_assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        let responses = simulated(&query, 200_000, seed);
        let excess = excess(&predicted.distribution, &responses);
        prop_assert!(excess < 6.0, "{} standard errors", excess);
    }
}
