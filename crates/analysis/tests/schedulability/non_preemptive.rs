//! Non-preemptive fixed priorities against the simulation.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::{NoResponseTime, PriorityOrder};
use tailbound_time::Duration;

use super::tick_simulation::{
    Job, completions, critical_instant, longest_responses, sporadic_pattern,
};
use super::{HYPERPERIOD, nanos, small_set, work_per_hyperperiod};

/// The longest simulated response of the last of `level`, where a lower priority has begun a tick
/// before the critical instant.
fn simulated_lowest(level: &[SporadicTask], longest_lower: u64) -> u64 {
    let horizon = 12 * HYPERPERIOD as i64;
    let mut jobs = critical_instant(level, i64::from(longest_lower > 0), horizon);
    jobs.push(Job {
        task: usize::MAX,
        arrival: 0,
        ready: 0,
        execution: longest_lower,
        deadline_ticks: 0,
    });
    let complete = completions(&jobs, 1, false, horizon, |job| (job.task, job.arrival));
    *longest_responses(&jobs, &complete, level.len())
        .last()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equals_the_longest_simulated_response(tasks in small_set(5, 30, 14)) {
        for index in 0..tasks.len() {
            let (level, lower) = tasks.split_at(index + 1);
            let longest_lower = lower.iter().map(|task| nanos(task.execution())).max().unwrap_or(0);
            // The lower priority has begun a tick before, so that it blocks for a tick less.
            let blocking = Duration::from_nanos(longest_lower.saturating_sub(1));
            let order = PriorityOrder::as_given(level.len());
            let exact = non_preemptive_response_times(level, &order, &vec![blocking; level.len()]);
            let exact = exact.unwrap().tasks[index];
            let order = PriorityOrder::as_given(tasks.len());
            let bound = non_preemptive_response_times(&tasks, &order, &[]).unwrap().tasks[index];
            match exact.response_time {
                Ok(longest) => {
                    prop_assert_eq!(nanos(longest), simulated_lowest(level, longest_lower));
                    prop_assert!(longest <= bound.response_time.unwrap());
                }
                Err(reason) => {
                    prop_assert_eq!(reason, NoResponseTime::Overloaded);
                    prop_assert!(work_per_hyperperiod(level) > HYPERPERIOD);
                    prop_assert_eq!(bound.response_time, Err(reason));
                }
            }
        }
    }

    #[test]
    fn no_pattern_of_releases_takes_longer(
        tasks in small_set(4, 20, 9),
        offsets in prop::collection::vec(0_u64..40, 4),
        choices in prop::collection::vec((0_u64..20, 0_u64..8), 64),
    ) {
        let order = PriorityOrder::as_given(tasks.len());
        let result = non_preemptive_response_times(&tasks, &order, &[]).unwrap();
        let horizon = 4 * HYPERPERIOD as i64;
        let jobs = sporadic_pattern(&tasks, &offsets, &choices, horizon);
        let complete = completions(&jobs, 1, false, horizon, |job| (job.task, job.arrival));
        let simulated = longest_responses(&jobs, &complete, tasks.len());
        for (response, simulated) in result.tasks.iter().zip(simulated) {
            if let Ok(longest) = response.response_time {
                prop_assert!(simulated <= nanos(longest));
            }
        }
    }
}
