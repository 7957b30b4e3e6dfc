//! Small schedules that can be followed by hand, one per rule of a reservation server.

use proptest::prelude::*;
use tailbound_model::{Arrivals, ExecutionTime, ReservationServer, Scheduling, Service, Task};
use tailbound_simulator::workload::{Release, releases};
use tailbound_simulator::{ServiceSimulationQuery, SimulationError, simulate};
use tailbound_time::{Duration, Instant};

use crate::fifo_server::{ServerState, fifo_response_times};

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn at(milliseconds: u64) -> Instant {
    Instant::from_nanos(milliseconds * 1_000_000)
}

fn responses(server: ReservationServer, phase: u64, jobs: &[(u64, u64)]) -> Vec<u64> {
    let state = ServerState::new(server, ms(phase));
    fifo_response_times(state, jobs.iter().map(|(t, c)| (at(*t), ms(*c))))
        .map(|response| response.as_nanos() / 1_000_000)
        .collect()
}

#[test]
fn the_deferrable_server_keeps_its_budget_within_the_period() {
    let server = ReservationServer::Deferrable {
        budget: ms(3),
        period: ms(10),
    };
    // Runs 4-6 and 7-8 at once; the last millisecond of the third job waits for the
    // replenishment at 10; the idle budget of 20-30 does not add to that of 30-40.
    assert_eq!(responses(server, 0, &[(4, 2), (7, 2), (33, 5)]), [2, 4, 9]);
    // Replenishments at 5, 15, 25, ...: the same jobs meet other periods.
    assert_eq!(responses(server, 5, &[(4, 2), (7, 2), (33, 5)]), [2, 2, 5]);
}

#[test]
fn a_replenishment_comes_before_a_release_at_the_same_instant() {
    let server = ReservationServer::Deferrable {
        budget: ms(3),
        period: ms(10),
    };
    assert_eq!(responses(server, 0, &[(7, 3), (10, 3), (20, 3)]), [3, 3, 3]);
}

#[test]
fn the_periodic_server_loses_its_budget_while_idle() {
    let server = ReservationServer::Periodic {
        budget: ms(3),
        period: ms(10),
    };
    // On during 0-3, 10-13, ...: released at 2, a job of 2 ms ends at 11.
    assert_eq!(responses(server, 0, &[(2, 2), (13, 1), (40, 3)]), [9, 8, 3]);
    // On during 6-9, 16-19, ... and, of the period that began at -4, not at all from 0 on.
    assert_eq!(responses(server, 6, &[(0, 1)]), [7]);
    // Of the period that began at -2 the last millisecond is left.
    assert_eq!(responses(server, 8, &[(0, 2)]), [9]);
}

#[test]
fn the_constant_bandwidth_server_follows_the_wake_up_rule() {
    let server = ReservationServer::ConstantBandwidth {
        budget: ms(3),
        period: ms(10),
    };
    // Wakes at 1: deadline 11, budget 3; the fourth millisecond waits for 11.
    assert_eq!(responses(server, 0, &[(1, 4)]), [11]);
    // Wakes at 0 with deadline 10, uses 1. At 2 the rest, 2 in 8, would be below 3 in 10: kept.
    // At 6 the rest, 1 in 4, is below it too: kept, and used up at 7 until the deadline.
    assert_eq!(responses(server, 0, &[(0, 1), (2, 1), (6, 2)]), [1, 1, 5]);
    // At 5 the rest, 2 in 5, is above 3 in 10: deadline 15 and budget 3.
    assert_eq!(responses(server, 0, &[(0, 1), (5, 4)]), [1, 11]);
}

#[test]
fn a_dedicated_cpu_never_waits() {
    assert_eq!(
        responses(ReservationServer::Dedicated, 3, &[(0, 5), (1, 5), (20, 1)]),
        [5, 9, 1]
    );
}

fn task(period_ms: u64, offset_ms: u64, execution_ms: u64) -> Task {
    Task::of(
        Arrivals::Periodic {
            period: ms(period_ms),
            offset: ms(offset_ms),
        },
        ExecutionTime::Constant {
            value: ms(execution_ms),
        },
    )
}

fn service(scheduling: Scheduling, tasks: &[(&str, Task)]) -> Service {
    Service {
        scheduling,
        ..Service::of("d", "unix:s", tasks.iter().cloned())
    }
}

fn query(
    service: &Service,
    server: ReservationServer,
    phase: Duration,
) -> ServiceSimulationQuery<'_> {
    ServiceSimulationQuery {
        name: "s",
        service,
        server,
        grid_phase: phase,
        warm_up: Duration::ZERO,
        dispatch_overhead: Duration::ZERO,
        seed: 1,
        record_jobs: true,
    }
}

fn released(service: &Service, horizon: Duration) -> Vec<Release> {
    releases(service, horizon, 1, &tailbound_model::InputFiles::default()).unwrap()
}

#[test]
fn rate_monotonic_order_preempts_and_resumes() {
    let service = service(
        Scheduling::RateMonotonic,
        &[("long", task(100, 0, 6)), ("short", task(10, 2, 2))],
    );
    let jobs = released(&service, ms(20));
    let simulation =
        simulate(&query(&service, ReservationServer::Dedicated, ms(0)), &jobs).unwrap();
    let completed: Vec<_> = simulation
        .jobs
        .iter()
        .map(|job| {
            (
                jobs[job.release].task.as_str(),
                job.completed.as_nanos() / 1_000_000,
            )
        })
        .collect();
    // long runs 0-2, short 2-4, long 4-8, short 12-14.
    assert_eq!(completed, [("short", 4), ("long", 8), ("short", 14)]);
}

#[test]
fn a_job_without_execution_time_is_named() {
    let service = service(Scheduling::Fifo, &[("t", task(10, 0, 1))]);
    let mut jobs = released(&service, ms(30));
    jobs[1].execution = None;
    assert_eq!(
        simulate(&query(&service, ReservationServer::Dedicated, ms(0)), &jobs),
        Err(SimulationError::ExecutionTimeUnknown {
            index: 1,
            task: "t".into()
        })
    );
}

#[test]
fn a_polling_server_keeps_no_budget_for_who_comes_later() {
    let (budget, period) = (ms(4), ms(10));
    let state = ServerState::new(ReservationServer::Polling { budget, period }, ms(0));
    let jobs = [(3, 2), (11, 1), (14, 1), (30, 1), (35, 6)];
    let times: Vec<u64> = fifo_response_times(
        state,
        jobs.into_iter().map(|(came, work)| (at(came), ms(work))),
    )
    .map(|time| time.as_nanos() / 1_000_000)
    .collect();
    // The first waits for the start of a period, the second comes while the server is at work, the
    // third too late for that period, the fourth at a start; the last needs two budgets.
    assert_eq!(times, [12 - 3, 13 - 11, 21 - 14, 1, 52 - 35]);
}

fn any_server() -> impl Strategy<Value = ReservationServer> {
    (0_u8..5, 1_u64..20, 0_u64..20).prop_map(|(kind, budget, more)| {
        let (budget, period) = (ms(budget), ms(budget + more));
        match kind {
            0 => ReservationServer::Deferrable { budget, period },
            1 => ReservationServer::Periodic { budget, period },
            2 => ReservationServer::ConstantBandwidth { budget, period },
            3 => ReservationServer::Polling { budget, period },
            _ => ReservationServer::Dedicated,
        }
    })
}

/// What a server may serve in `length`, at most: two whole budgets at the ends, and one per
/// period between.
fn most(server: ReservationServer, length: Duration) -> Duration {
    server
        .budget_and_period()
        .map_or(length, |(budget, period)| {
            Duration::from_nanos(budget.as_nanos() * (length.as_nanos() / period.as_nanos() + 2))
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_preemptive_engine_and_the_first_come_first_served_one_agree(
        server in any_server(), phase in 0_u64..20,
        jobs in proptest::collection::vec((0_u64..30, 1_u64..8), 1..60),
    ) {
        let service = service(Scheduling::Fifo, &[("t", task(10, 0, 1))]);
        let mut now = 0;
        let sequence: Vec<Release> = jobs.iter().map(|(gap, execution)| {
            now += gap;
            Release { task: "t".into(), client: 0, at: at(now), execution: Some(ms(*execution)) }
        }).collect();
        let simulation = simulate(&query(&service, server, ms(phase)), &sequence).unwrap();
        let state = ServerState::new(server, ms(phase));
        let fifo: Vec<_> = fifo_response_times(
            state, sequence.iter().map(|r| (r.at, r.execution.unwrap()))).collect();
        let general: Vec<_> = simulation.jobs.iter()
            .map(|job| job.completed.saturating_since(sequence[job.release].at)).collect();
        prop_assert_eq!(&fifo, &general);

        // Never faster than a CPU of its own, and never more than the reservation allows.
        let alone = ServerState::new(ReservationServer::Dedicated, ms(0));
        let dedicated = fifo_response_times(
            alone, sequence.iter().map(|r| (r.at, r.execution.unwrap())));
        for (slow, fast) in fifo.iter().zip(dedicated) {
            prop_assert!(*slow >= fast);
        }
        let work: u64 = sequence.iter().map(|r| r.execution.unwrap().as_nanos()).sum();
        let end = simulation.jobs.last().unwrap().completed;
        prop_assert!(Duration::from_nanos(work) <= most(server, end.saturating_since(at(0))));
    }

    #[test]
    fn the_same_input_yields_the_same_output(server in any_server(), phase in 0_u64..20) {
        let service = service(
            Scheduling::RateMonotonic,
            &[("a", task(10, 0, 1)), ("b", task(35, 3, 4)), ("c", task(70, 8, 9))],
        );
        let jobs = released(&service, ms(700));
        let once = simulate(&query(&service, server, ms(phase)), &jobs).unwrap();
        let again = simulate(&query(&service, server, ms(phase)), &jobs).unwrap();
        prop_assert_eq!(once, again);
    }
}
