//! EDF on one CPU: QPA against the plain criterion, every window of the hyperperiod, and the
//! simulation.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::earliest_deadline_response_time::response_times;
use tailbound_analysis::schedulability::processor_demand::{
    Overload, first_overload, quick_processor_demand,
};

use super::tick_simulation::{
    Job, any_late, completions, critical_instant, longest_responses, sporadic_pattern,
};
use super::{HYPERPERIOD, nanos, small_set, task, work_per_hyperperiod};

/// The demand of a window, from the jobs in it one by one.
fn demand(tasks: &[SporadicTask], length: i64) -> i64 {
    let jobs = critical_instant(tasks, 0, length);
    let within = jobs.iter().filter(|job| job.deadline_ticks <= length);
    within.map(|job| job.execution as i64).sum()
}

/// Whether no window up to some hyperperiods holds more demand than time.
fn brute_force(tasks: &[SporadicTask]) -> bool {
    let longest = 3 * HYPERPERIOD as i64;
    let fits = work_per_hyperperiod(tasks) <= HYPERPERIOD;
    let hopeless = |task: &SporadicTask| task.deadline() < task.jitter();
    fits && !tasks.iter().any(hopeless)
        && (0..=longest).all(|length| demand(tasks, length) <= length)
}

fn simulated(tasks: &[SporadicTask]) -> bool {
    let horizon = 6 * HYPERPERIOD as i64;
    let jobs = critical_instant(tasks, 0, horizon);
    let complete = completions(&jobs, 1, true, horizon, |job| {
        (job.deadline_ticks, job.task, job.arrival)
    });
    !any_late(&jobs, &complete, horizon)
}

/// Sets whose demand comes close to what fits.
fn dense_set(most_jitter_ticks: u64) -> impl Strategy<Value = Vec<SporadicTask>> {
    let shrink = prop::collection::vec(2_u64..6, 6);
    (small_set(6, 10, most_jitter_ticks), shrink).prop_map(|(tasks, shrink)| {
        let one = |(old, part): (SporadicTask, u64)| {
            let execution = (nanos(old.execution()) / part).max(1);
            let deadline = nanos(old.deadline())
                .max(nanos(old.period()) * part / 6)
                .max(execution);
            task(
                execution,
                nanos(old.period()),
                deadline + nanos(old.jitter()) / 2,
                nanos(old.jitter()),
            )
        };
        tasks.into_iter().zip(shrink).map(one).collect()
    })
}

fn check(tasks: &[SporadicTask]) -> Result<(), TestCaseError> {
    let quick = quick_processor_demand(tasks).unwrap();
    prop_assert_eq!(quick.schedulable(), brute_force(tasks));
    if quick.overload != Some(Overload::Utilisation) {
        // With more work than time, the first late job may lie beyond every horizon.
        prop_assert_eq!(simulated(tasks), quick.schedulable());
    }
    match quick.overload {
        Some(Overload::Window {
            length,
            demand: needed,
        }) => {
            prop_assert!(needed > length);
            let window = nanos(length) as i64;
            let hopeless = |task: &SporadicTask| task.deadline() < task.jitter();
            if !tasks.iter().any(hopeless) {
                prop_assert!(demand(tasks, window) >= nanos(needed) as i64);
            }
        }
        Some(Overload::Utilisation) => {
            prop_assert!(work_per_hyperperiod(tasks) > HYPERPERIOD);
        }
        None => {}
    }
    Ok(())
}

/// The longest response of a task over all its phases against the others, which start together;
/// of jobs that are due together its own run last.
fn longest_over_phases(tasks: &[SporadicTask], index: usize) -> u64 {
    let horizon = 3 * HYPERPERIOD as i64;
    let own = tasks[index];
    let (period, jitter) = (nanos(own.period()) as i64, nanos(own.jitter()) as i64);
    let others = critical_instant(tasks, 0, horizon);
    let others: Vec<Job> = others.into_iter().filter(|job| job.task != index).collect();
    let phases = -jitter..period - jitter;
    let of_phase = |phase: i64| {
        let arrivals = (0..).map(|job| phase + job * period);
        let own_jobs = arrivals.take_while(|arrival| *arrival < horizon);
        let own_jobs = own_jobs.map(|arrival| Job {
            task: index,
            arrival,
            ready: arrival.max(0),
            execution: nanos(own.execution()),
            deadline_ticks: arrival + nanos(own.deadline()) as i64,
        });
        let jobs: Vec<Job> = others.iter().copied().chain(own_jobs).collect();
        let complete = completions(&jobs, 1, true, horizon, |job| {
            (job.deadline_ticks, job.task == index, job.arrival)
        });
        longest_responses(&jobs, &complete, tasks.len())[index]
    };
    phases.map(of_phase).max().unwrap_or(0)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn response_times_are_the_longest_over_all_phases(tasks in small_set(4, 12, 4)) {
        prop_assume!(work_per_hyperperiod(&tasks) <= HYPERPERIOD);
        let responses = response_times(&tasks).unwrap();
        for (index, one) in responses.tasks.iter().enumerate() {
            let response = nanos(one.response_time.unwrap());
            prop_assert_eq!(response, longest_over_phases(&tasks, index));
        }
        let schedulable = quick_processor_demand(&tasks).unwrap().schedulable();
        prop_assert_eq!(responses.schedulable(), schedulable);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn the_first_overload_is_the_shortest(tasks in dense_set(6)) {
        let demand_test = first_overload(&tasks).unwrap();
        let hopeless = |task: &SporadicTask| task.deadline_after_release().is_none();
        let none = !tasks.iter().any(hopeless);
        if let (Some(Overload::Window { length, demand: needed }), true) = (demand_test.overload, none) {
            let length = nanos(length) as i64;
            prop_assert!(demand(&tasks, length) >= nanos(needed) as i64);
            let first = (0..=length).find(|window| demand(&tasks, *window) > *window);
            prop_assert_eq!(first, Some(length));
        }
        prop_assert_eq!(demand_test.schedulable(), quick_processor_demand(&tasks).unwrap().schedulable());
    }

    #[test]
    fn agrees_with_every_window_and_the_simulation(tasks in dense_set(0)) {
        check(&tasks)?;
    }

    #[test]
    fn agrees_with_jitter(tasks in dense_set(12)) {
        check(&tasks)?;
    }

    #[test]
    fn agrees_on_arbitrary_sets(tasks in small_set(5, 30, 14)) {
        check(&tasks)?;
    }

    #[test]
    fn no_pattern_of_releases_is_late(
        tasks in dense_set(8),
        offsets in prop::collection::vec(0_u64..40, 6),
        choices in prop::collection::vec((0_u64..20, 0_u64..8), 64),
    ) {
        if quick_processor_demand(&tasks).unwrap().schedulable() {
            let horizon = 4 * HYPERPERIOD as i64;
            let jobs = sporadic_pattern(&tasks, &offsets, &choices, horizon);
            let key = |job: &Job| (job.deadline_ticks, job.task, job.arrival);
            let complete = completions(&jobs, 1, true, horizon, key);
            prop_assert!(!any_late(&jobs, &complete, horizon));
        }
    }
}

/// The sets are of both kinds, or the agreement would mean little; full utilisation is among them.
#[test]
fn the_sets_are_of_both_kinds() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut fit, mut full, mut late) = (0, 0, 0);
    for _ in 0..1_000 {
        let tasks = dense_set(12).new_tree(&mut runner).unwrap().current();
        match quick_processor_demand(&tasks).unwrap().overload {
            None => fit += 1,
            Some(Overload::Window { .. }) => late += 1,
            Some(Overload::Utilisation) => {}
        }
        full += u32::from(work_per_hyperperiod(&tasks) == HYPERPERIOD);
    }
    assert!(fit > 100 && late > 100 && full > 3, "{fit} {late} {full}");
}
