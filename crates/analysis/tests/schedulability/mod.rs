//! The schedulability analyses against simulations of every tick, exhaustive searches, and a peer.

mod earliest_deadline;
mod extremes;
mod fixed_priority;
mod global;
mod non_preemptive;
mod peer;
mod priority_assignment;
mod schedcat;
mod servers;
mod tick_simulation;

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_time::Duration;

/// A tick of the simulations is a nanosecond of the analyses.
fn task(execution_ns: u64, period_ns: u64, deadline_ns: u64, jitter_ns: u64) -> SporadicTask {
    let ns = Duration::from_nanos;
    let task = SporadicTask::new(ns(execution_ns), ns(period_ns), ns(deadline_ns)).unwrap();
    task.with_jitter(ns(jitter_ns)).unwrap()
}

/// Periods whose hyperperiod is at most 120.
fn short_period() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![2_u64, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40])
}

const HYPERPERIOD: u64 = 120;

/// Up to `most` tasks with short periods; deadlines up to `slack` beyond the periods.
fn small_set(
    most: usize,
    slack: u64,
    most_jitter_ticks: u64,
) -> impl Strategy<Value = Vec<SporadicTask>> {
    let one = short_period().prop_flat_map(move |period| {
        let execution = 1..=(period / 2).max(1);
        (
            execution,
            Just(period),
            1..=period + slack,
            0..=most_jitter_ticks,
        )
    });
    prop::collection::vec(one, 1..=most).prop_map(|numbers| {
        numbers
            .into_iter()
            .map(|(c, t, d, j)| task(c, t, d, j))
            .collect()
    })
}

fn nanos(duration: Duration) -> u64 {
    duration.as_nanos()
}

/// The work of all tasks in a hyperperiod.
fn work_per_hyperperiod(tasks: &[SporadicTask]) -> u64 {
    let work = |task: &SporadicTask| HYPERPERIOD / nanos(task.period()) * nanos(task.execution());
    tasks.iter().map(work).sum()
}
