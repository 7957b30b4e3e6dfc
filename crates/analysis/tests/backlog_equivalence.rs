//! Theorem 5 of Li (2021): at the start of every period a deferrable server and a periodic one that is
//! on at the end of its period have the same work left, whatever comes.

use proptest::prelude::*;
use tailbound_model::{ExecutionTime, ReservationServer, Scheduling};
use tailbound_simulator::workload::Release;
use tailbound_simulator::{ServiceSimulationQuery, simulate};
use tailbound_time::{Duration, Instant};

use crate::synthetic_service::{poisson, service, task};

/// When each of the releases is done. Every job takes a nanosecond, so that the number of jobs left is
/// the work left.
fn completions(server: ReservationServer, phase_ns: u64, releases: &[Release]) -> Vec<u64> {
    let calibrated = ExecutionTime::Calibrated { expected: None };
    let service = service(Scheduling::Fifo, [("t", task(poisson(1.0), calibrated))]);
    let query = ServiceSimulationQuery {
        name: "s",
        service: &service,
        server,
        grid_phase: Duration::from_nanos(phase_ns),
        warm_up: Duration::ZERO,
        dispatch_overhead: Duration::ZERO,
        seed: 0,
        record_jobs: true,
    };
    let jobs = simulate(&query, releases).unwrap().jobs;
    assert_eq!(jobs.len(), releases.len());
    jobs.iter().map(|job| job.completed.as_nanos()).collect()
}

proptest! {
    #[test]
    fn the_work_left_at_period_starts_is_the_same(
        period in 2_u64..40, off in 0_u64..39,
        batches in prop::collection::vec((0_u64..30, 1_usize..12), 1..60),
    ) {
        let budget = period - off.min(period - 1);
        let mut now = 0;
        let mut releases = Vec::new();
        for (gap, work) in batches {
            now += gap;
            let release = Release {
                task: "t".into(),
                client: 0,
                at: Instant::from_nanos(now),
                execution: Some(Duration::from_nanos(1)),
            };
            releases.extend(std::iter::repeat_n(release, work));
        }
        let (budget_ns, period_ns) = (Duration::from_nanos(budget), Duration::from_nanos(period));
        let deferrable = ReservationServer::Deferrable { budget: budget_ns, period: period_ns };
        let periodic = ReservationServer::Periodic { budget: budget_ns, period: period_ns };
        let kept = completions(deferrable, 0, &releases);
        let wasted = completions(periodic, period - budget, &releases);
        let last = kept.iter().chain(&wasted).max().unwrap();
        let mut differs_within = false;
        for start in (0..=last + period).step_by(period as usize) {
            let done = |completions: &[u64]| completions.iter().filter(|at| **at <= start).count();
            prop_assert_eq!(done(&kept), done(&wasted), "at {}", start);
        }
        for at in 0..*last {
            let done = |completions: &[u64]| completions.iter().filter(|end| **end <= at).count();
            differs_within |= done(&kept) != done(&wasted);
            // In between the deferrable server is never behind.
            prop_assert!(done(&kept) >= done(&wasted), "at {}", at);
        }
        // The first job waits for a periodic server that is off, so the two are not the same.
        let first = releases[0].at.as_nanos() % period;
        prop_assert!(differs_within || first >= period - budget);
    }
}
