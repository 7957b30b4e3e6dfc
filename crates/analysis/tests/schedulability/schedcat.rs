//! The answers that SchedCAT's own tests expect (`tests/fp.py` and `tests/edf.py` of SchedCAT); a unit of time there is a
//! nanosecond here.

use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::global_fixed_priority::sufficient_response_times;
use tailbound_analysis::schedulability::processor_demand::first_overload;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_time::Duration;

use super::{nanos, task};

/// Tasks whose deadlines are their periods, the highest priority first.
fn implicit<const N: usize>(numbers: [(u64, u64); N]) -> Vec<SporadicTask> {
    let tasks = numbers.into_iter();
    tasks
        .map(|(execution, period)| task(execution, period, period, 0))
        .collect()
}

fn responses(tasks: &[SporadicTask], blocking: &[u64]) -> Vec<u64> {
    let order = PriorityOrder::as_given(tasks.len());
    let blocking: Vec<Duration> = blocking.iter().copied().map(Duration::from_nanos).collect();
    let responses = response_times(tasks, &order, &blocking).unwrap();
    assert!(responses.schedulable());
    let each = responses.tasks.iter();
    each.map(|one| nanos(one.response_time.unwrap())).collect()
}

#[test]
fn response_times_on_one_cpu_are_those_of_schedcat() {
    let tasks = implicit([(1, 4), (1, 5), (3, 9), (3, 18)]);
    assert_eq!(responses(&tasks, &[]), [1, 2, 7, 18]);
    let tasks = implicit([(1, 2), (5, 20), (1, 20)]);
    assert_eq!(responses(&tasks, &[]), [1, 10, 12]);
    assert_eq!(responses(&tasks, &[1, 5, 0]), [2, 20, 12]);
}

#[test]
fn bounds_under_global_fixed_priorities_are_those_of_schedcat() {
    let tasks = implicit([(1, 4), (1, 5), (3, 9), (9, 18)]);
    let order = PriorityOrder::as_given(tasks.len());
    let bounds = |cpus| {
        let bounds = sufficient_response_times(&tasks, &order, cpus)
            .unwrap()
            .bounds;
        bounds
            .into_iter()
            .map(|bound| bound.map(nanos))
            .collect::<Vec<_>>()
    };
    assert_eq!(bounds(2), [Some(1), Some(1), Some(4), Some(15)]);
    assert!(bounds(1).contains(&None));
}

#[test]
fn processor_demand_decides_as_schedcat_does() {
    let mut tasks = vec![
        task(6_000, 31_000, 18_000, 0),
        task(2_000, 9_800, 9_000, 0),
        task(1_000, 17_000, 12_000, 0),
        task(90, 4_200, 3_000, 0),
        task(8, 96, 78, 0),
        task(2, 12, 16, 0),
        task(10, 280, 120, 0),
        task(26, 660, 160, 0),
    ];
    assert!(first_overload(&tasks).unwrap().schedulable());
    tasks.push(task(10, 100, 15, 0));
    assert!(!first_overload(&tasks).unwrap().schedulable());
}
