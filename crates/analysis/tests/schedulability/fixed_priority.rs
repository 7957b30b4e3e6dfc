//! Preemptive fixed priorities on one CPU against the simulation.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::response_time::{FixedPriorityAnalyzer, response_times};
use tailbound_analysis::schedulability::{NoResponseTime, PriorityOrder};
use tailbound_time::Duration;

use super::tick_simulation::{
    Job, completions, critical_instant, longest_responses, sporadic_pattern,
};
use super::{HYPERPERIOD, nanos, small_set, work_per_hyperperiod};

/// The longest simulated response of the last of `tasks`, at its critical instant, with `blocking`
/// ticks of a lower priority before it.
fn simulated_lowest(tasks: &[SporadicTask], blocking: u64) -> u64 {
    let horizon = 12 * HYPERPERIOD as i64;
    let mut jobs = critical_instant(tasks, 0, horizon);
    let blocker = Job {
        task: usize::MAX,
        arrival: 0,
        ready: 0,
        execution: blocking,
        deadline_ticks: 0,
    };
    jobs.push(blocker);
    let key = |job: &Job| (job.task.wrapping_add(1), job.arrival);
    let complete = completions(&jobs, 1, true, horizon, key);
    *longest_responses(&jobs, &complete, tasks.len())
        .last()
        .unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn equals_the_longest_simulated_response(
        tasks in small_set(5, 30, 14),
        blocking in prop::collection::vec(0_u64..6, 5),
    ) {
        let blocking = &blocking[..tasks.len()];
        let durations: Vec<_> = blocking.iter().copied().map(Duration::from_nanos).collect();
        let order = PriorityOrder::as_given(tasks.len());
        let result = response_times(&tasks, &order, &durations).unwrap();
        for (index, response) in result.tasks.iter().enumerate() {
            let level = &tasks[..=index];
            match response.response_time {
                Ok(longest) => {
                    prop_assert_eq!(nanos(longest), simulated_lowest(level, blocking[index]));
                    let within = longest <= tasks[index].deadline();
                    prop_assert_eq!(response.meets_deadline, within);
                }
                Err(reason) => {
                    prop_assert_eq!(reason, NoResponseTime::Overloaded);
                    prop_assert!(work_per_hyperperiod(level) > HYPERPERIOD);
                }
            }
        }
        let verdict = FixedPriorityAnalyzer::new().schedulable(&tasks, &durations).unwrap();
        prop_assert_eq!(verdict, result.schedulable());
    }

    #[test]
    fn no_pattern_of_releases_takes_longer(
        tasks in small_set(4, 20, 9),
        offsets in prop::collection::vec(0_u64..40, 4),
        choices in prop::collection::vec((0_u64..20, 0_u64..8), 64),
    ) {
        let order = PriorityOrder::as_given(tasks.len());
        let result = response_times(&tasks, &order, &[]).unwrap();
        let horizon = 4 * HYPERPERIOD as i64;
        let jobs = sporadic_pattern(&tasks, &offsets, &choices, horizon);
        let complete = completions(&jobs, 1, true, horizon, |job| (job.task, job.arrival));
        let simulated = longest_responses(&jobs, &complete, tasks.len());
        for (response, simulated) in result.tasks.iter().zip(simulated) {
            if let Ok(longest) = response.response_time {
                prop_assert!(simulated <= nanos(longest));
            }
        }
    }

    #[test]
    fn the_order_decides_and_nothing_else(tasks in small_set(5, 9, 5), seed in any::<u64>()) {
        let mut indices: Vec<usize> = (0..tasks.len()).collect();
        indices.sort_by_key(|index| seed.rotate_left(7 * *index as u32) % 101);
        let order = PriorityOrder::new(indices.clone()).unwrap();
        let before = tasks.clone();
        let given = response_times(&tasks, &order, &[]).unwrap();
        prop_assert_eq!(&before, &tasks);
        let ranked = order.ranked(&tasks).unwrap();
        let as_given = PriorityOrder::as_given(tasks.len());
        let sorted = response_times(&ranked, &as_given, &[]).unwrap();
        for (rank, index) in indices.iter().enumerate() {
            prop_assert_eq!(given.tasks[*index], sorted.tasks[rank]);
        }
    }
}
