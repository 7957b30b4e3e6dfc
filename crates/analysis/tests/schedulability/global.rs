//! Global scheduling against the simulation: what a test accepts is never late, in any pattern
//! tried.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::global_edf::{
    sufficient_bcl, sufficient_density, sufficient_response_times,
};
use tailbound_analysis::schedulability::global_fixed_priority;
use tailbound_analysis::schedulability::priority_assignment::deadline_monotonic;
use tailbound_analysis::schedulability::processor_demand::quick_processor_demand;
use tailbound_analysis::schedulability::response_time::response_times;

use super::tick_simulation::{
    Job, any_late, completions, critical_instant, longest_responses, sporadic_pattern,
};
use super::{nanos, task};

const HORIZON: i64 = 400;

/// Sets that load some CPUs, with deadlines up to the periods.
fn constrained_set() -> impl Strategy<Value = Vec<SporadicTask>> {
    let one = (3_u64..25).prop_flat_map(|period| {
        let execution = 1..=(period * 2 / 3).max(1);
        (execution, Just(period), 0_u64..40)
    });
    prop::collection::vec(one, 2..8).prop_map(|numbers| {
        let one = |(execution, period, cut): (u64, u64, u64)| {
            let deadline = period - (period - execution) * cut / 80;
            task(execution, period, deadline, 0)
        };
        numbers.into_iter().map(one).collect()
    })
}

fn patterns(tasks: &[SporadicTask], offsets: &[u64], choices: &[(u64, u64)]) -> Vec<Vec<Job>> {
    let periodic: Vec<_> = choices.iter().map(|_| (0, 0)).collect();
    vec![
        critical_instant(tasks, 0, HORIZON),
        sporadic_pattern(tasks, offsets, &periodic, HORIZON),
        sporadic_pattern(tasks, offsets, choices, HORIZON),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_000))]

    #[test]
    fn what_edf_tests_accept_is_never_late(
        tasks in constrained_set(),
        cpus in 2_u32..5,
        offsets in prop::collection::vec(0_u64..40, 8),
        choices in prop::collection::vec((0_u64..20, 0_u64..9), 64),
    ) {
        let density = sufficient_density(&tasks, cpus).unwrap().accepted;
        let bcl = sufficient_bcl(&tasks, cpus).unwrap().accepted;
        let iterative = sufficient_response_times(&tasks, cpus).unwrap();
        prop_assert!(iterative.accepted() || !bcl);
        for jobs in patterns(&tasks, &offsets, &choices) {
            let key = |job: &Job| (job.deadline_ticks, job.task, job.arrival);
            let complete = completions(&jobs, cpus as usize, true, HORIZON, key);
            let late = any_late(&jobs, &complete, HORIZON);
            prop_assert!(!late || !(density || bcl || iterative.accepted()));
            let simulated = longest_responses(&jobs, &complete, tasks.len());
            for (bound, longest) in iterative.bounds.iter().flatten().zip(simulated) {
                prop_assert!(longest <= nanos(*bound));
            }
        }
    }

    #[test]
    fn bounds_under_fixed_priorities_are_never_exceeded(
        tasks in constrained_set(),
        cpus in 1_u32..5,
        offsets in prop::collection::vec(0_u64..40, 8),
        choices in prop::collection::vec((0_u64..20, 0_u64..9), 64),
    ) {
        let order = deadline_monotonic(&tasks);
        let result = global_fixed_priority::sufficient_response_times(&tasks, &order, cpus);
        let result = result.unwrap();
        let mut rank = vec![0; tasks.len()];
        for (place, index) in order.highest_first().iter().enumerate() {
            rank[*index] = place;
        }
        for jobs in patterns(&tasks, &offsets, &choices) {
            let key = |job: &Job| (rank[job.task], job.arrival);
            let complete = completions(&jobs, cpus as usize, true, HORIZON, key);
            let simulated = longest_responses(&jobs, &complete, tasks.len());
            for (bound, longest) in result.bounds.iter().zip(simulated) {
                if let Some(bound) = bound {
                    prop_assert!(longest <= nanos(*bound));
                }
            }
        }
    }

    /// On one CPU the exact tests accept all that the sufficient ones do.
    #[test]
    fn on_one_cpu_the_exact_tests_agree(tasks in constrained_set()) {
        let exact = quick_processor_demand(&tasks).unwrap().schedulable();
        prop_assert!(exact || !sufficient_density(&tasks, 1).unwrap().accepted);
        prop_assert!(exact || !sufficient_response_times(&tasks, 1).unwrap().accepted());
        let order = deadline_monotonic(&tasks);
        let bounds = global_fixed_priority::sufficient_response_times(&tasks, &order, 1).unwrap();
        let exact = response_times(&tasks, &order, &[]).unwrap();
        for (bound, exact) in bounds.bounds.iter().zip(&exact.tasks) {
            if let Some(bound) = bound {
                prop_assert!(exact.response_time.unwrap() <= *bound);
            }
        }
    }
}

/// All tests accept some sets that another refuses, and some that come close to what fits.
#[test]
fn the_tests_differ() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut density_only, mut bcl_only, mut iterative_only, mut refused) = (0, 0, 0, 0);
    for _ in 0..2_000 {
        let tasks = constrained_set().new_tree(&mut runner).unwrap().current();
        let density = sufficient_density(&tasks, 2).unwrap().accepted;
        let bcl = sufficient_bcl(&tasks, 2).unwrap().accepted;
        let iterative = sufficient_response_times(&tasks, 2).unwrap().accepted();
        density_only += u32::from(density && !iterative);
        bcl_only += u32::from(bcl && !density);
        iterative_only += u32::from(iterative && !bcl && !density);
        refused += u32::from(!iterative && !density);
    }
    let counts = [density_only, bcl_only, iterative_only, refused];
    assert!(counts.iter().all(|count| *count > 0), "{counts:?}");
}
