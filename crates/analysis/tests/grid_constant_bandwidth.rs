//! The constant-bandwidth server on the grid against closed forms and the simulator.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod grid_load;

use grid_load::{excess, law, poisson_jobs, query, us};
use tailbound_analysis::grid::{GridQuery, constant_bandwidth};
use tailbound_distribution::Evidence;
use tailbound_model::ReservationServer;
use tailbound_simulator::{ServerState, fifo_response_times};
use tailbound_time::Duration;

/// Sorted response times of so many jobs, by the simulator.
fn simulated(query: &GridQuery, count: usize, seed: u64) -> Vec<Duration> {
    let server = ServerState::new(
        ReservationServer::ConstantBandwidth {
            budget: query.budget,
            period: query.period,
        },
        Duration::ZERO,
    )
    .unwrap();
    let jobs = poisson_jobs(query, count, seed);
    let mut responses: Vec<_> = fifo_response_times(server, jobs).collect();
    responses.sort_unstable();
    responses
}

#[test]
fn the_simulator_lies_inside_the_bracket() {
    let one = |d| law(&[(d, 1.0)]);
    let cases = [
        query(400.0, one(1_000), 2_800, 4_000),
        query(400.0, one(1_000), 1_200, 2_000),
        query(400.0, one(1_000), 500, 1_000),
        query(200.0, one(2_000), 1_000, 2_000),
        query(1_500.0, one(200), 2_000, 4_000),
        query(
            300.0,
            law(&[(250, 0.5), (1_000, 0.3), (4_000, 0.2)]),
            3_000,
            7_300,
        ),
    ];
    for (index, query) in cases.iter().enumerate() {
        let start = std::time::Instant::now();
        let predicted = constant_bandwidth(query).unwrap();
        let took = start.elapsed();
        assert_eq!(predicted.distribution.provenance.evidence, Evidence::Bound);
        let sorted = simulated(query, 1_000_000, 7);
        let excess = excess(&predicted.distribution, &sorted);
        eprintln!(
            "{index}: excess {excess:.5} slot {} p50 {:?} p99 {:?} mean {:?} {took:?}",
            predicted.slot,
            predicted.quantile(0.5),
            predicted.quantile(0.99),
            predicted.mean
        );
        assert!(excess < 0.004, "{index}: {excess}");
    }
}
