//! Deadline-monotonic and EDF: the simulator, the tests and the predictions against each other.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_analysis::schedulability::earliest_deadline_response_time;
use tailbound_analysis::schedulability::priority_assignment::PriorityOrder;
use tailbound_analysis::schedulability::processor_demand::quick_processor_demand;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::{ServiceQuery, SporadicTask, predict};
use tailbound_distribution::Shape;
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, Priority, ReservationServer, Scheduling, Service, Task,
};
use tailbound_simulator::workload::releases;
use tailbound_simulator::{ServiceSimulationQuery, Simulation, simulate};
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// All periods divide it.
const HYPERPERIOD: u64 = 120;

/// Execution time, period, deadline if it is not the period, offset.
type Numbers = (u64, u64, Option<u64>, u64);

fn period() -> impl Strategy<Value = u64> {
    prop::sample::select(vec![2_u64, 3, 4, 5, 6, 8, 10, 12, 15, 20, 24, 30, 40])
}

fn numbers(implicit: bool) -> impl Strategy<Value = Vec<Numbers>> {
    let one = (
        any::<u64>(),
        period(),
        any::<u64>(),
        any::<bool>(),
        any::<u64>(),
    );
    let one = one.prop_map(move |(part, period, deadline, described, offset)| {
        let execution = 1 + part % (period / 2).max(1);
        let deadline = execution + deadline % (period + 10);
        let deadline = (described && !implicit).then_some(deadline);
        (execution, period, deadline, offset % period)
    });
    prop::collection::vec(one, 1..6)
}

/// Drops the last tasks until the rest need no more than the CPU.
fn up_to_full_utilisation(mut numbers: Vec<Numbers>) -> Vec<Numbers> {
    let work =
        |numbers: &[Numbers]| -> u64 { numbers.iter().map(|(c, t, ..)| HYPERPERIOD / t * c).sum() };
    while work(&numbers) > HYPERPERIOD {
        numbers.pop();
    }
    numbers
}

fn synchronous(numbers: &[Numbers]) -> Vec<Numbers> {
    numbers.iter().map(|(c, t, d, _)| (*c, *t, *d, 0)).collect()
}

fn name(index: usize) -> String {
    format!("t{index}")
}

fn service(scheduling: Scheduling, numbers: &[Numbers]) -> Service {
    let task = |(execution, period, deadline, offset): &Numbers| Task {
        deadline: deadline.map(ns),
        ..Task::of(
            Arrivals::Periodic {
                period: ns(*period),
                offset: ns(*offset),
            },
            ExecutionTime::Constant {
                value: ns(*execution),
            },
        )
    };
    let tasks = numbers.iter().enumerate();
    Service {
        scheduling,
        ..Service::of(
            "d",
            "unix:s",
            tasks.map(|(index, one)| (name(index), task(one))),
        )
    }
}

fn run(service: &Service, horizon_ns: u64) -> Simulation {
    let jobs = releases(service, ns(horizon_ns), 1, &InputFiles::default()).unwrap();
    let query = ServiceSimulationQuery {
        name: "s",
        service,
        server: ReservationServer::Dedicated,
        grid_phase: Duration::ZERO,
        warm_up: Duration::ZERO,
        dispatch_overhead: Duration::ZERO,
        seed: 1,
        record_jobs: true,
    };
    simulate(&query, &jobs).unwrap()
}

/// The longest response of each task.
fn longest(service: &Service, horizon_ns: u64) -> BTreeMap<String, Duration> {
    let per_task = run(service, horizon_ns).per_task.into_iter();
    per_task
        .map(|(task, responses)| (task, *responses.samples().last().unwrap()))
        .collect()
}

fn sporadic(numbers: &[Numbers]) -> Vec<SporadicTask> {
    let task = |(c, t, d, _): &Numbers| SporadicTask::new(ns(*c), ns(*t), ns(d.unwrap_or(*t)));
    numbers.iter().map(|one| task(one).unwrap()).collect()
}

#[test]
fn jobs_that_are_due_together_do_not_preempt_each_other() {
    // Both are due at 10: the one that was released first goes first, to its end.
    let first = longest(
        &service(
            Scheduling::EarliestDeadlineFirst,
            &[(4, 40, Some(10), 0), (3, 40, Some(8), 2)],
        ),
        40,
    );
    assert_eq!(first["t0"], ns(4));
    assert_eq!(first["t1"], ns(5));
    // Released together, the task with the lesser name goes first.
    let together = longest(
        &service(
            Scheduling::EarliestDeadlineFirst,
            &[(4, 40, Some(10), 0), (3, 40, Some(10), 0)],
        ),
        40,
    );
    assert_eq!((together["t0"], together["t1"]), (ns(4), ns(7)));
}

#[test]
fn an_earlier_deadline_preempts_and_a_later_one_of_a_shorter_period_does_not() {
    // At 1 the second job (due at 4) overtakes the first (due at 20); at 21 its next one (due at 24)
    // comes to an idle CPU. The third, with the shortest period, is due last.
    let numbers = [
        (6, 60, Some(20), 0),
        (2, 20, Some(3), 1),
        (1, 10, Some(30), 1),
    ];
    let responses = longest(&service(Scheduling::EarliestDeadlineFirst, &numbers), 10);
    assert_eq!(responses["t0"], ns(8));
    assert_eq!(responses["t1"], ns(2));
    assert_eq!(responses["t2"], ns(8));
    let responses = longest(&service(Scheduling::DeadlineMonotonic, &numbers), 10);
    assert_eq!(
        (responses["t0"], responses["t1"], responses["t2"]),
        (ns(8), ns(2), ns(8))
    );
    let responses = longest(&service(Scheduling::RateMonotonic, &numbers), 10);
    assert_eq!(
        (responses["t0"], responses["t1"], responses["t2"]),
        (ns(9), ns(3), ns(1))
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Liu and Layland 1973, Theorem 7.
    #[test]
    fn edf_meets_implicit_deadlines_up_to_full_utilisation(raw in numbers(true)) {
        let numbers = up_to_full_utilisation(raw);
        prop_assume!(!numbers.is_empty());
        let service = service(Scheduling::EarliestDeadlineFirst, &numbers);
        for (task, longest) in longest(&service, 4 * HYPERPERIOD) {
            let deadline = service.tasks[&task].relative_deadline().unwrap();
            prop_assert!(longest <= deadline, "{} {} {}", task, longest, deadline);
        }
    }

    #[test]
    fn edf_misses_a_deadline_from_a_common_start_where_the_demand_says_so(raw in numbers(false)) {
        let numbers = synchronous(&up_to_full_utilisation(raw));
        prop_assume!(!numbers.is_empty());
        let service = service(Scheduling::EarliestDeadlineFirst, &numbers);
        let responses = longest(&service, 4 * HYPERPERIOD);
        let in_time = |(task, longest): (&String, &Duration)| {
            *longest <= service.tasks[task].relative_deadline().unwrap()
        };
        let verdict = quick_processor_demand(&sporadic(&numbers)).unwrap();
        prop_assert_eq!(responses.iter().all(in_time), verdict.schedulable());
    }

    #[test]
    fn no_response_under_edf_is_beyond_the_analysis(raw in numbers(false)) {
        let numbers = up_to_full_utilisation(raw);
        prop_assume!(!numbers.is_empty());
        let service = service(Scheduling::EarliestDeadlineFirst, &numbers);
        let bounds = earliest_deadline_response_time::response_times(&sporadic(&numbers)).unwrap();
        for (index, bound) in bounds.tasks.iter().enumerate() {
            let longest = longest(&service, 4 * HYPERPERIOD)[&name(index)];
            prop_assert!(longest <= bound.response_time.unwrap());
        }
    }

    #[test]
    fn deadline_monotonic_is_fixed_priority_in_that_order(raw in numbers(false)) {
        let by_deadline = service(Scheduling::DeadlineMonotonic, &raw);
        let mut by_priority = by_deadline.clone();
        by_priority.scheduling = Scheduling::FixedPriority;
        let deadlines: Vec<Duration> =
            by_deadline.tasks.values().map(|task| task.relative_deadline().unwrap()).collect();
        for (task, own) in by_priority.tasks.values_mut().zip(&deadlines) {
            let longer = deadlines.iter().filter(|other| *other > own).count();
            task.priority = Some(Priority(1 + longer as u8));
        }
        let horizon = 2 * HYPERPERIOD;
        prop_assert_eq!(run(&by_deadline, horizon).jobs, run(&by_priority, horizon).jobs);
    }

    #[test]
    fn no_response_under_deadline_monotonic_is_beyond_the_analysis(raw in numbers(false)) {
        let numbers = up_to_full_utilisation(raw);
        prop_assume!(!numbers.is_empty());
        let tasks = sporadic(&numbers);
        let service = service(Scheduling::DeadlineMonotonic, &numbers);
        let responses = longest(&service, 4 * HYPERPERIOD);
        for (index, own) in tasks.iter().enumerate() {
            // Equals count as higher.
            let before = tasks.iter().enumerate();
            let before =
                before.filter(|(at, task)| *at != index && task.deadline() <= own.deadline());
            let level: Vec<_> = before.map(|(_, task)| *task).chain([*own]).collect();
            let order = PriorityOrder::as_given(level.len());
            let bound = response_times(&level, &order, &[]).unwrap();
            let bound = bound.tasks.last().unwrap().response_time.unwrap();
            prop_assert!(responses[&name(index)] <= bound);
        }
    }

    #[test]
    fn predictions_are_the_steady_state_of_the_simulation(
        raw in numbers(false), by_job in any::<bool>(),
    ) {
        let numbers = synchronous(&up_to_full_utilisation(raw));
        prop_assume!(!numbers.is_empty());
        let scheduling = match by_job {
            true => Scheduling::EarliestDeadlineFirst,
            false => Scheduling::DeadlineMonotonic,
        };
        let service = service(scheduling, &numbers);
        let query = ServiceQuery {
            name: "s",
            service: &service,
            execution_times: BTreeMap::new(),
            server: ReservationServer::Dedicated,
            dispatch_overhead: Duration::ZERO,
        };
        let predicted = predict(&query).unwrap();
        // From a common start, each hyperperiod is like the first.
        let simulated = run(&service, HYPERPERIOD);
        for (task, responses) in &predicted.per_task {
            let Shape::Curve(curve) = &responses.shape else {
                return Err(TestCaseError::fail("not a curve"));
            };
            let samples = simulated.per_task[task].samples();
            for (at, value) in curve.steps() {
                let share = samples.partition_point(|x| x <= at) as f64 / samples.len() as f64;
                prop_assert!((share - value).abs() < 1e-9, "{} {}", share, value);
            }
        }
    }
}
