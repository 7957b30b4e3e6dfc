//! Numbers of all sizes: an answer or a typed refusal, never an overflow.

use proptest::prelude::*;
use tailbound_analysis::schedulability::global_edf::{
    sufficient_bcl, sufficient_density, sufficient_response_times,
};
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::priority_assignment::rate_monotonic;
use tailbound_analysis::schedulability::processor_demand::quick_processor_demand;
use tailbound_analysis::schedulability::response_time::{FixedPriorityAnalyzer, response_times};
use tailbound_analysis::schedulability::{
    NoResponseTime, TaskResponse, compare_utilisation, global_fixed_priority,
};
use tailbound_analysis::{AnalysisError, LONGEST_PARAMETER, SporadicTask};
use tailbound_time::Duration;

use super::{nanos, task};

/// Numbers of all sizes up to the longest that is taken, some of them exactly that.
fn any_size() -> impl Strategy<Value = u64> {
    let longest = nanos(LONGEST_PARAMETER);
    prop_oneof![
        8 => (0_u32..60, any::<u64>()).prop_map(|(bits, any)| (any >> (63 - bits)).max(1)),
        1 => Just(longest),
        1 => (0_u32..60).prop_map(|bits| 1 << bits),
    ]
}

/// Tasks of all sizes, each with a share of the CPU that leaves some for others, mostly.
fn extreme_set() -> impl Strategy<Value = Vec<SporadicTask>> {
    let small = prop_oneof![4 => Just(0), 1 => any_size()];
    let one = (any_size(), 1_u64..12, any_size(), small, any::<bool>());
    prop::collection::vec(one, 1..7).prop_map(|numbers| {
        let one = |(period, part, deadline, jitter, implicit): (u64, u64, u64, u64, bool)| {
            let execution = (period / part).max(1);
            let deadline = if implicit { period } else { deadline };
            task(execution, period, deadline, jitter)
        };
        numbers.into_iter().map(one).collect()
    })
}

fn plausible(response: &TaskResponse, task: &SporadicTask) -> bool {
    match response.response_time {
        Ok(longest) => {
            longest >= task.execution() && response.meets_deadline == (longest <= task.deadline())
        }
        Err(
            NoResponseTime::Overloaded
            | NoResponseTime::BeyondRange { .. }
            | NoResponseTime::TooManySteps { .. },
        ) => !response.meets_deadline,
    }
}

fn is_refusal(error: &AnalysisError) -> bool {
    use AnalysisError::{Invalid, OutOfRange, TooManySteps};
    matches!(
        error,
        OutOfRange { .. } | TooManySteps { .. } | Invalid { .. }
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn one_cpu(tasks in extreme_set(), blocking in any_size()) {
        let order = rate_monotonic(&tasks);
        let blocking = vec![Duration::from_nanos(blocking); tasks.len()];
        for result in [
            response_times(&tasks, &order, &blocking),
            response_times(&tasks, &order, &[]),
            non_preemptive_response_times(&tasks, &order, &[]),
        ] {
            match result {
                Ok(result) => {
                    let mut pairs = result.tasks.iter().zip(&tasks);
                    prop_assert!(pairs.all(|(response, task)| plausible(response, task)));
                }
                Err(error) => prop_assert!(is_refusal(&error)),
            }
        }
        let ranked = order.ranked(&tasks).unwrap();
        match FixedPriorityAnalyzer::new().schedulable(&ranked, &[]) {
            Ok(verdict) => prop_assert!(!verdict || compare_utilisation(&tasks, 1).is_le()),
            Err(error) => prop_assert!(is_refusal(&error)),
        }
        match quick_processor_demand(&tasks) {
            Ok(result) => prop_assert!(
                !result.schedulable() || compare_utilisation(&tasks, 1).is_le()),
            Err(error) => prop_assert!(is_refusal(&error)),
        }
    }

    #[test]
    fn many_cpus(tasks in extreme_set(), cpus in prop_oneof![0_u32..6, Just(u32::MAX)]) {
        let constrained: Vec<_> = tasks.iter().map(|one| {
            let deadline = nanos(one.deadline().min(one.period()));
            task(nanos(one.execution()), nanos(one.period()), deadline, 0)
        }).collect();
        let fits = compare_utilisation(&constrained, cpus).is_le();
        let order = rate_monotonic(&constrained);
        for accepted in [
            sufficient_density(&constrained, cpus).map(|one| one.accepted),
            sufficient_bcl(&constrained, cpus).map(|one| one.accepted),
            sufficient_response_times(&constrained, cpus).map(|one| one.accepted()),
            global_fixed_priority::sufficient_response_times(&constrained, &order, cpus)
                .map(|one| one.accepted()),
        ] {
            match accepted {
                Ok(accepted) => prop_assert!(fits || !accepted),
                Err(error) => prop_assert!(is_refusal(&error)),
            }
        }
    }
}
