//! Periodic tasks with varying execution times, against hand calculation and simulation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_analysis::{AnalysisError, Prediction, ServiceQuery, predict};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, ReservationServer, Scheduling, Service, Task,
};
use tailbound_simulator::workload::{draw_execution_times, releases};
use tailbound_simulator::{ServiceSimulationQuery, simulate};
use tailbound_time::Duration;

use crate::synthetic_service::{ends, service, task};

fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

fn periodic(period_us: u64, offset_us: u64, clients: u32, execution_time: ExecutionTime) -> Task {
    let arrivals = Arrivals::Periodic {
        period: us(period_us),
        offset: us(offset_us),
    };
    Task {
        clients,
        ..task(arrivals, execution_time)
    }
}

fn uniform(min_us: u64, max_us: u64) -> ExecutionTime {
    ExecutionTime::Uniform {
        min: us(min_us),
        max: us(max_us),
    }
}

const UNKNOWN: ExecutionTime = ExecutionTime::Calibrated { expected: None };

fn measured(task: &str, values_us: &[u64]) -> BTreeMap<String, Distribution> {
    let provenance = Provenance::new(Evidence::Sample, "execution time", "made up");
    let values = values_us.iter().map(|value| us(*value)).collect();
    BTreeMap::from([(task.into(), Distribution::from_samples(provenance, values))])
}

fn ask(
    service: &Service,
    server: ReservationServer,
    execution_times: &BTreeMap<String, Distribution>,
) -> Result<Prediction, AnalysisError> {
    predict(&ServiceQuery {
        name: "s",
        service,
        execution_times: execution_times.clone(),
        server,
        dispatch_overhead: Duration::ZERO,
    })
}

#[test]
fn two_clients_that_come_together_wait_for_one_another() {
    // The first takes 1 or 3 ms, the second ends at 2, 4 or 6 with 1/4, 1/2, 1/4.
    let service = service(
        Scheduling::Fifo,
        vec![("t", periodic(10_000, 0, 2, UNKNOWN))],
    );
    let times = measured("t", &[1_000, 3_000]);
    let predicted = ask(&service, ReservationServer::Dedicated, &times).unwrap();
    let (optimistic, pessimistic) = ends(&predicted.overall);
    let expected = [
        (1_000, 0.25),
        (2_000, 0.375),
        (3_000, 0.625),
        (4_000, 0.875),
        (6_000, 1.0),
    ];
    for (at, value) in expected {
        assert!((pessimistic.value(us(at + 3)) - value).abs() < 1e-8, "{at}");
        assert!((optimistic.value(us(at)) - value).abs() < 1e-8, "{at}");
        assert!(optimistic.value(us(at - 3)) < value - 0.1, "{at}");
    }
    assert_eq!(predicted.overall.provenance.evidence, Evidence::Bound);
    assert_eq!(predicted.per_task["t"].shape, predicted.overall.shape);
    assert!((predicted.utilisation - 0.4).abs() < 1e-12);
}

#[test]
fn what_is_left_over_goes_into_the_next_period() {
    // Jobs of 1 or 3 ms at 0, 2 and 4 of a hyperperiod of 12 ms, as three tasks. The wait of b is
    // 0 or 1; with b's own time and without the gap that is -1, 1, 0 or 2, each with 1/4.
    let task = |offset| periodic(12_000, offset, 1, UNKNOWN);
    let service = service(
        Scheduling::Fifo,
        vec![("a", task(0)), ("b", task(2_000)), ("c", task(4_000))],
    );
    let mut times = measured("a", &[1_000, 3_000]);
    times.extend(measured("b", &[1_000, 3_000]));
    times.extend(measured("c", &[1_000, 3_000]));
    let predicted = ask(&service, ReservationServer::Dedicated, &times).unwrap();
    let waits = [(0.0, 0.5), (1.0, 0.25), (2.0, 0.25)];
    let (_, pessimistic) = ends(&predicted.per_task["c"]);
    let (optimistic, _) = ends(&predicted.per_task["c"]);
    for at in 1..=5_u64 {
        let exact: f64 = waits
            .iter()
            .flat_map(|(wait, p)| [(wait + 1.0, p / 2.0), (wait + 3.0, p / 2.0)])
            .filter(|(response, _)| *response <= at as f64)
            .map(|(_, p)| p)
            .sum();
        assert!((optimistic.value(us(at * 1_000)) - exact).abs() < 1e-8);
        assert!((pessimistic.value(us(at * 1_000 + 5)) - exact).abs() < 1e-8);
    }
}

#[test]
fn a_reservation_that_always_suffices_is_as_good_as_a_cpu() {
    // Six clients like those of Redis, with a spread of execution times.
    let spread: Vec<u64> = (0..200).map(|i| 60 + i * i / 2_000).collect();
    let service = service(
        Scheduling::Fifo,
        vec![("hset", periodic(1_000, 0, 6, UNKNOWN))],
    );
    let times = measured("hset", &spread);
    let reserved = ReservationServer::Deferrable {
        budget: us(6_000),
        period: us(10_000),
    };
    let on_reservation = ask(&service, reserved, &times).unwrap();
    let alone = ask(&service, ReservationServer::Dedicated, &times).unwrap();
    assert_eq!(on_reservation.overall.shape, alone.overall.shape);
    assert!(on_reservation.method.contains("Theorem 1"));
    // 10 times 6 jobs of up to 79 us need 4.74 ms.
    let too_small = ReservationServer::Deferrable {
        budget: us(4_700),
        period: us(10_000),
    };
    let refused = ask(&service, too_small, &times).unwrap_err().to_string();
    assert!(
        refused.contains("longest") && refused.contains("4.74ms"),
        "{refused}"
    );
    let overloaded = measured("hset", &[60, 60, 60, 200]);
    let refused = ask(&service, ReservationServer::Dedicated, &overloaded);
    assert!(matches!(refused, Err(AnalysisError::NotAnalysed { .. })));
    assert!(refused.unwrap_err().to_string().contains("120.00 %"));
}

#[test]
fn under_priorities_the_extremes_enclose() {
    let service = service(
        Scheduling::RateMonotonic,
        vec![
            ("often", periodic(2_000, 0, 1, uniform(200, 500))),
            ("seldom", periodic(8_000, 0, 1, uniform(1_000, 4_000))),
        ],
    );
    let predicted = ask(&service, ReservationServer::Dedicated, &BTreeMap::new()).unwrap();
    let often = predicted.per_task["often"].quantile(0.5).unwrap();
    assert_eq!((often.low, often.high), (us(200), Some(us(500))));
    // 4 ms of its own take three interruptions of 0.5 ms: 0-2, 2-4, 4-6 hold 1.5 ms each but
    // the last only what is left.
    let seldom = predicted.per_task["seldom"].quantile(0.5).unwrap();
    assert_eq!((seldom.low, seldom.high), (us(1_200), Some(us(5_500))));
}

/// The largest amount by which simulated responses leave the bracket.
fn excess(distribution: &Distribution, sorted: &[Duration]) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let count = sorted.len() as f64;
    let share = |below: usize| below as f64 / count;
    let mut worst = 0.0_f64;
    for (at, value) in pessimistic.steps() {
        worst = worst.max(value - share(sorted.partition_point(|x| x <= at)));
    }
    let mut before = 0.0;
    for (at, value) in optimistic.steps() {
        worst = worst.max(share(sorted.partition_point(|x| x < at)) - before);
        before = *value;
    }
    worst
}

fn simulated(
    service: &Service,
    server: ReservationServer,
    times: &BTreeMap<String, Distribution>,
    horizon: Duration,
    seed: u64,
) -> BTreeMap<String, Distribution> {
    let mut jobs = releases(service, horizon, seed, &InputFiles::default()).unwrap();
    draw_execution_times(&mut jobs, times, seed).unwrap();
    let query = ServiceSimulationQuery {
        name: "s",
        service,
        server,
        grid_phase: us(seed % 97),
        warm_up: us(24_000),
        dispatch_overhead: Duration::ZERO,
        seed,
        record_jobs: false,
    };
    simulate(&query, &jobs).unwrap().per_task
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn simulated_responses_stay_inside(
        kinds in (0_usize..4, 0_usize..4), offsets in (0_u64..4_000, 0_u64..4_000),
        longest in (50_u64..900, 50_u64..900), clients in 1_u32..4,
        period in 500_u64..6_000, order in 0_usize..4, seed in 0_u64..1_000,
    ) {
        const PERIODS: [u64; 4] = [2_000, 3_000, 4_000, 6_000];
        let scheduling = [
            Scheduling::Fifo,
            Scheduling::RateMonotonic,
            Scheduling::DeadlineMonotonic,
            Scheduling::EarliestDeadlineFirst,
        ][order];
        let one = periodic(PERIODS[kinds.0], offsets.0, clients, uniform(longest.0 / 3, longest.0));
        let other = periodic(PERIODS[kinds.1], offsets.1, 1, UNKNOWN);
        let service = service(scheduling, vec![("one", one), ("other", other)]);
        let times = measured("other", &[longest.1 / 9 + 1, longest.1 / 2, longest.1 / 2, longest.1]);
        let budget = us(period * 9 / 10);
        let server = ReservationServer::Deferrable { budget, period: us(period) };
        let (server, predicted) = match ask(&service, server, &times) {
            Ok(predicted) => (server, predicted),
            // Not enough for the worst case; the CPU alone may be.
            Err(_) => match ask(&service, ReservationServer::Dedicated, &times) {
                Ok(predicted) => (ReservationServer::Dedicated, predicted),
                // The worst case is too much for one CPU, or even the mean is.
                Err(AnalysisError::NotAnalysed { .. }) => return Ok(()),
                Err(AnalysisError::Overloaded { utilisation, .. }) => {
                    prop_assert!(utilisation > 1.0);
                    return Ok(());
                }
                Err(other) => return Err(TestCaseError::fail(other.to_string())),
            },
        };
        // A hyperperiod has at most 12 ms.
        let horizon = Duration::from_secs(60);
        for (task, responses) in simulated(&service, server, &times, horizon, seed) {
            let samples = responses.samples();
            // Dvoretzky, Kiefer and Wolfowitz with 10^-6, as if only one hyperperiod's worth of
            // jobs were independent of the next.
            let cycles = 60_000.0 / 12.0;
            let band = ((2.0_f64 / 1e-6).ln() / (2.0 * cycles)).sqrt();
            let outside = excess(&predicted.per_task[&task], samples);
            prop_assert!(outside < band, "{} {} {}", task, outside, predicted.method);
            let longest = predicted.per_task[&task].max().unwrap().high.unwrap();
            let shortest = predicted.per_task[&task].min().unwrap().low;
            prop_assert!(*samples.last().unwrap() <= longest);
            prop_assert!(samples[0] >= shortest);
        }
    }
}
