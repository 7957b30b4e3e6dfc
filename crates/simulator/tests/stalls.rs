//! A CPU that the host takes away: a stall comes before everything, and uses no budget.

use std::collections::BTreeMap;

use tailbound_model::{Arrivals, ExecutionTime, ReservationServer, Service, Task};
use tailbound_simulator::workload::Release;
use tailbound_simulator::{ServiceSimulationQuery, SimulationError, Stall, simulate_with_stalls};
use tailbound_time::{Duration, Instant};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn at(after: u64) -> Instant {
    Instant::ORIGIN.saturating_add(ms(after))
}

/// When the jobs of `(release, execution)` end in milliseconds.
fn ends(
    server: ReservationServer,
    jobs: &[(u64, u64)],
    stalls: &[(u64, u64)],
) -> Result<Vec<Instant>, SimulationError> {
    let task = Task::of(
        Arrivals::Poisson {
            rate: "1/s".parse().unwrap(),
        },
        ExecutionTime::Calibrated { expected: None },
    );
    let service = Service::of("d", "unix:s", BTreeMap::from([("work".to_owned(), task)]));
    let releases = jobs.iter().map(|(release, execution)| Release {
        at: at(*release),
        task: "work".into(),
        execution: Some(ms(*execution)),
        client: 0,
    });
    let stalls = stalls.iter().map(|(begin, length)| Stall {
        begin: at(*begin),
        length: ms(*length),
    });
    let query = ServiceSimulationQuery {
        name: "service",
        service: &service,
        server,
        grid_phase: Duration::ZERO,
        warm_up: Duration::ZERO,
        dispatch_overhead: Duration::ZERO,
        seed: 0,
        record_jobs: true,
    };
    let releases: Vec<Release> = releases.collect();
    let stalls: Vec<Stall> = stalls.collect();
    let simulation = simulate_with_stalls(&query, &releases, &stalls)?;
    Ok(simulation.jobs.iter().map(|job| job.completed).collect())
}

#[test]
fn a_stall_delays_and_uses_no_budget() {
    let server = ReservationServer::Deferrable {
        budget: ms(4),
        period: ms(10),
    };
    // 1 to 3 runs, 3 to 6 is stalled, 6 to 8 uses up the budget; the rest of 1 ms runs at 10.
    let jobs = [(1, 5)];
    assert_eq!(ends(server, &jobs, &[(3, 3)]).unwrap(), [at(11)]);
    assert_eq!(ends(server, &jobs, &[]).unwrap(), [at(11)]);
    // A stall over the replenishment leaves no more than the new budget.
    assert_eq!(ends(server, &jobs, &[(3, 9)]).unwrap(), [at(15)]);
    assert_eq!(
        ends(server, &[(0, 4), (1, 4)], &[(2, 5)]).unwrap(),
        [at(9), at(14)]
    );
}

#[test]
fn a_dedicated_cpu_is_stalled_too_and_stalls_that_overlap_follow_each_other() {
    let dedicated = ReservationServer::Dedicated;
    assert_eq!(
        ends(dedicated, &[(0, 5)], &[(1, 2), (2, 2)]).unwrap(),
        [at(9)]
    );
    // A stall that has ended before a job comes does nothing to it.
    assert_eq!(ends(dedicated, &[(6, 5)], &[(1, 2)]).unwrap(), [at(11)]);
}

#[test]
fn stalls_out_of_order_are_refused() {
    let error = ends(ReservationServer::Dedicated, &[(0, 1)], &[(5, 1), (2, 1)]).unwrap_err();
    assert_eq!(error, SimulationError::StallOutOfOrder { index: 1 });
}
