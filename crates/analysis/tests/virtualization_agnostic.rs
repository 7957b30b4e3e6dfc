//! The resource interface of periodic and sporadic loads (Li 2021, chapter 3).

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_analysis::{
    AnalysisError, PeriodicLoad, PeriodicTask, ServiceQuery, predict, virtualization_agnostic,
};
use tailbound_distribution::Shape;
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, PercentagePoints, ReservationServer, Scheduling, Service,
};
use tailbound_simulator::workload::releases;
use tailbound_simulator::{ServiceSimulationQuery, simulate};
use tailbound_time::Duration;

use crate::synthetic_service::{self, task};

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Tasks (A, C, T) in milliseconds, as the thesis writes them.
fn load(tasks: &[(u64, u64, u64)]) -> PeriodicLoad {
    let task = |&(offset, execution, period): &(u64, u64, u64)| PeriodicTask {
        offset: Some(ms(offset)),
        execution: ms(execution),
        period: ms(period),
    };
    PeriodicLoad {
        tasks: tasks.iter().map(task).collect(),
    }
}

const GAMMA_1: [(u64, u64, u64); 4] = [
    (150, 40, 250),
    (100, 200, 500),
    (50, 100, 1_000),
    (0, 200, 2_000),
];
const GAMMA_2: [(u64, u64, u64); 4] = [(15, 4, 20), (10, 6, 30), (5, 10, 50), (0, 7, 70)];

#[test]
fn the_interfaces_of_the_published_task_sets() {
    let none = PercentagePoints(0.0);
    let first = virtualization_agnostic(&load(&GAMMA_1), none).unwrap();
    assert_eq!(first, (ms(1_520), ms(2_000)));
    let second = virtualization_agnostic(&load(&GAMMA_2), none).unwrap();
    assert_eq!(second, (ms(1_470), ms(2_100)));
    let margin = virtualization_agnostic(&load(&GAMMA_1), PercentagePoints(5.0)).unwrap();
    assert_eq!(margin, (ms(1_620), ms(2_000)));
    let capped = virtualization_agnostic(&load(&GAMMA_1), PercentagePoints(50.0)).unwrap();
    assert_eq!(capped, (ms(2_000), ms(2_000)));
}

#[test]
fn no_period_needs_less_bandwidth_than_the_hyperperiod() {
    for (tasks, hyperperiod, work) in [(&GAMMA_1, 2_000, 1_520), (&GAMMA_2, 2_100, 1_470)] {
        let load = load(tasks);
        assert_eq!(load.least_budget(ms(hyperperiod)).unwrap(), ms(work));
        for period in (10..3 * hyperperiod).step_by(37) {
            let least = load.least_budget(ms(period)).unwrap();
            assert!(least <= ms(period));
            // W(P) >= U, in whole nanoseconds.
            assert!(
                least.as_nanos() * hyperperiod >= ms(period).as_nanos() * work,
                "{period}"
            );
        }
    }
}

#[test]
fn the_least_budget_is_the_exact_maximum_over_every_window() {
    let load = load(&[(3, 2, 10), (0, 3, 15), (1, 1, 6)]);
    // S(t) by the millisecond, from the definition.
    let horizon = 30 + 3 + 30 + 64;
    let (mut pending, mut worked) = (0, vec![0_u64]);
    for t in 0..horizon {
        for (offset, execution, period) in [(3, 2, 10), (0, 3, 15), (1, 1, 6)] {
            if t >= offset && (t - offset) % period == 0 {
                pending += execution;
            }
        }
        let step = u64::from(pending > 0);
        pending -= step;
        worked.push(worked[t as usize] + step);
    }
    for period in 1..64_usize {
        let most = (0..=63)
            .map(|t| worked[t + period] - worked[t])
            .max()
            .unwrap();
        assert_eq!(
            load.least_budget(ms(period as u64)).unwrap(),
            ms(most),
            "{period}"
        );
    }
}

#[test]
fn an_absurd_hyperperiod_is_refused_with_a_remedy() {
    let load = load(&[(0, 1, 99_991), (0, 1, 99_989), (0, 1, 99_971)]);
    let error = virtualization_agnostic(&load, PercentagePoints(0.0)).unwrap_err();
    assert!(matches!(error, AnalysisError::HyperperiodTooLong { .. }));
    assert!(error.to_string().contains("harmonic"), "{error}");
    let tasks = (0..40)
        .map(|i| (0, 1, 1_000_003 + 2 * i))
        .collect::<Vec<_>>();
    assert!(self::load(&tasks).hyperperiod().is_err());
}

#[test]
fn more_work_than_a_cpu_is_an_overload() {
    let error = virtualization_agnostic(&load(&[(0, 7, 10), (0, 8, 20)]), PercentagePoints(0.0));
    assert!(matches!(error, Err(AnalysisError::Overloaded { .. })));
}

/// A service of tasks (A, C, T) in milliseconds.
fn service(scheduling: Scheduling, tasks: &[(u64, u64, u64)], sporadic: bool) -> Service {
    let one = |(index, &(offset, execution, period)): (usize, &(u64, u64, u64))| {
        let (period, offset) = (ms(period), ms(offset));
        let arrivals = if sporadic {
            Arrivals::Sporadic {
                min_gap: period,
                max_gap: period * 2,
                offset,
            }
        } else {
            Arrivals::Periodic { period, offset }
        };
        let value = ms(execution);
        let constant = ExecutionTime::Constant { value };
        (format!("t{index}"), task(arrivals, constant))
    };
    synthetic_service::service(scheduling, tasks.iter().enumerate().map(one))
}

fn simulation(
    service: &Service,
    server: ReservationServer,
    phase: Duration,
    warm_up: Duration,
    horizon: Duration,
) -> tailbound_simulator::Simulation {
    let jobs = releases(service, horizon, 3, &InputFiles::default()).unwrap();
    let query = ServiceSimulationQuery {
        name: "s",
        service,
        server,
        grid_phase: phase,
        warm_up,
        dispatch_overhead: Duration::ZERO,
        seed: 3,
        record_jobs: true,
    };
    simulate(&query, &jobs).unwrap()
}

fn ask(
    service: &Service,
    server: ReservationServer,
) -> Result<tailbound_analysis::Prediction, AnalysisError> {
    predict(&ServiceQuery {
        name: "s",
        service,
        execution_times: BTreeMap::new(),
        server,
        dispatch_overhead: Duration::ZERO,
    })
}

#[test]
fn the_predicted_schedule_is_the_simulated_one() {
    for tasks in [&GAMMA_1, &GAMMA_2] {
        for scheduling in [
            Scheduling::Fifo,
            Scheduling::RateMonotonic,
            Scheduling::DeadlineMonotonic,
            Scheduling::EarliestDeadlineFirst,
        ] {
            let service = service(scheduling, tasks, false);
            let load = PeriodicLoad::of(&service, &BTreeMap::new()).unwrap();
            let (budget, period) = virtualization_agnostic(&load, PercentagePoints(0.0)).unwrap();
            let server = ReservationServer::Deferrable { budget, period };
            let prediction = ask(&service, server).unwrap();
            let from = load.tasks.iter().filter_map(|t| t.offset).max().unwrap() + period;
            let horizon = from + period + period;
            let simulated = simulation(&service, server, ms(777), from, horizon);
            assert_eq!(simulated.depletions, 0);
            let jobs = releases(&service, horizon, 3, &InputFiles::default()).unwrap();
            let window = from.as_nanos()..(from + period).as_nanos();
            let responses = |task: Option<&str>| {
                let mut responses: Vec<_> = simulated
                    .jobs
                    .iter()
                    .map(|job| (&jobs[job.release], job.completed))
                    .filter(|(release, _)| window.contains(&release.at.as_nanos()))
                    .filter(|(release, _)| task.is_none_or(|task| release.task == task))
                    .map(|(release, completed)| completed.saturating_since(release.at))
                    .collect();
                responses.sort_unstable();
                responses
            };
            assert_same(&prediction.overall.shape, &responses(None));
            for (task, distribution) in &prediction.per_task {
                assert_same(&distribution.shape, &responses(Some(task.as_str())));
            }
        }
    }
}

fn assert_same(predicted: &Shape, samples: &[Duration]) {
    let Shape::Curve(curve) = predicted else {
        panic!("not a curve: {predicted:?}");
    };
    let count = samples.len() as f64;
    for (at, value) in curve.steps() {
        let below = samples.partition_point(|x| x <= at) as f64 / count;
        assert!((below - value).abs() < 1e-12, "{at} {below} {value}");
    }
}

#[test]
fn a_budget_that_may_run_out_is_not_analysed_and_the_needed_one_is_named() {
    let service = service(Scheduling::Fifo, &GAMMA_1, false);
    let period = ms(500);
    let load = PeriodicLoad::of(&service, &BTreeMap::new()).unwrap();
    let least = load.least_budget(period).unwrap();
    let server = |budget| ReservationServer::Deferrable { budget, period };
    assert!(ask(&service, server(least)).is_ok());
    let error = ask(&service, server(least - ms(1))).unwrap_err();
    assert!(error.to_string().contains(&least.to_string()), "{error}");
    let overload = ask(&service, server(ms(350))).unwrap_err();
    assert!(
        matches!(overload, AnalysisError::Overloaded { .. }),
        "{overload}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_virtualization_agnostic_reservation_is_never_used_up(
        base in 5_u64..20, factors in proptest::collection::vec((1_u64..4, 1_u64..30, 0_u64..80), 1..5),
        sporadic in any::<bool>(), phase in 0_u64..400,
    ) {
        // Harmonic periods; execution times that fill the CPU at most.
        let share = factors.len() as u64 + 1;
        let mut period = base;
        let tasks: Vec<_> = factors.iter().map(|(factor, execution, offset)| {
            period *= factor;
            (*offset, (execution % (period / share).max(1)).max(1).min(period), period)
        }).collect();
        let service = service(Scheduling::Fifo, &tasks, sporadic);
        let load = PeriodicLoad::of(&service, &BTreeMap::new()).unwrap();
        prop_assume!(load.work_per_hyperperiod().is_ok());
        let (budget, period) = virtualization_agnostic(&load, PercentagePoints(0.0)).unwrap();
        let server = ReservationServer::Deferrable { budget, period };
        let horizon = Duration::from_nanos(period.as_nanos() * 20).max(ms(500));
        let result = simulation(&service, server, ms(phase), Duration::ZERO, horizon);
        prop_assert_eq!(result.depletions, 0);
    }

    #[test]
    fn a_server_with_the_least_budget_of_its_period_is_never_used_up(
        period in 3_u64..70, phase in 0_u64..70, sporadic in any::<bool>(),
    ) {
        let tasks = [(3, 2, 10), (0, 3, 15), (1, 1, 6)];
        let service = service(Scheduling::RateMonotonic, &tasks, sporadic);
        let load = PeriodicLoad::of(&service, &BTreeMap::new()).unwrap();
        let (budget, period) = (load.least_budget(ms(period)).unwrap(), ms(period));
        let server = ReservationServer::Deferrable { budget, period };
        let result = simulation(&service, server, ms(phase), Duration::ZERO, ms(3_000));
        prop_assert_eq!(result.depletions, 0);
    }
}
