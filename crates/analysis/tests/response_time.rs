//! Response-time brackets against closed forms, published numbers and simulation.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_analysis::{AnalysisError, Prediction, ServiceQuery, predict};
use tailbound_distribution::{Distribution, Evidence, Provenance, Shape};
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, PoissonState, ReservationServer, Scheduling, Service, Task,
};
use tailbound_simulator::workload::{draw_execution_times, releases};
use tailbound_simulator::{ServiceSimulationQuery, simulate};
use tailbound_time::{Duration, Rate};

use crate::slotted_load::width;
use crate::synthetic_service::{self, ends, task};

fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

fn poisson(per_second: f64, execution_time: ExecutionTime) -> Task {
    task(synthetic_service::poisson(per_second), execution_time)
}

fn constant(value: Duration) -> ExecutionTime {
    ExecutionTime::Constant { value }
}

fn service(tasks: Vec<(&str, Task)>) -> Service {
    synthetic_service::service(Scheduling::Fifo, tasks)
}

fn deferrable(budget_us: u64, period_us: u64) -> ReservationServer {
    ReservationServer::Deferrable {
        budget: us(budget_us),
        period: us(period_us),
    }
}

fn periodic(budget_us: u64, period_us: u64) -> ReservationServer {
    ReservationServer::Periodic {
        budget: us(budget_us),
        period: us(period_us),
    }
}

fn ask(
    service: &Service,
    server: ReservationServer,
    execution_times: BTreeMap<String, Distribution>,
) -> Result<Prediction, AnalysisError> {
    predict(&ServiceQuery {
        name: "s",
        service,
        execution_times,
        server,
        dispatch_overhead: Duration::ZERO,
    })
}

/// The prediction for one task with constant execution time.
fn one(per_second: f64, d: Duration, server: ReservationServer) -> Distribution {
    let service = service(vec![("t", poisson(per_second, constant(d)))]);
    ask(&service, server, BTreeMap::new()).unwrap().overall
}

/// Simulates the service and returns sorted response times and the Dvoretzky-Kiefer-Wolfowitz
/// half width with 10^-6 error, widened for the correlation of successive responses.
fn simulated(
    service: &Service,
    server: ReservationServer,
    execution_times: &BTreeMap<String, Distribution>,
    horizon: Duration,
    seed: u64,
) -> BTreeMap<String, Vec<Duration>> {
    let mut jobs = releases(service, horizon, seed, &InputFiles::default()).unwrap();
    draw_execution_times(&mut jobs, execution_times, seed).unwrap();
    let query = ServiceSimulationQuery {
        name: "s",
        service,
        server,
        grid_phase: Duration::ZERO,
        warm_up: Duration::from_nanos(horizon.as_nanos() / 50),
        dispatch_overhead: Duration::ZERO,
        seed,
        record_jobs: false,
    };
    let simulation = simulate(&query, &jobs).unwrap();
    let samples = |d: Distribution| match d.shape {
        Shape::Samples(samples) => samples,
        other => panic!("not samples: {other:?}"),
    };
    let mut all: BTreeMap<_, _> = simulation
        .per_task
        .into_iter()
        .map(|(task, d)| (task, samples(d)))
        .collect();
    all.insert(String::new(), samples(simulation.overall));
    all
}

/// The largest amounts by which the empirical distribution leaves the bracket.
fn excess(distribution: &Distribution, sorted: &[Duration]) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let count = sorted.len() as f64;
    let below = |at: Duration| sorted.partition_point(|x| *x <= at) as f64 / count;
    let above = |at: Duration| sorted.partition_point(|x| *x < at) as f64 / count;
    let mut worst = 0.0_f64;
    // At its steps the pessimistic end is highest, just before them the optimistic one lowest.
    for (at, value) in pessimistic.steps() {
        worst = worst.max(value - below(*at));
    }
    let mut before = 0.0;
    for (at, value) in optimistic.steps() {
        worst = worst.max(above(*at) - before);
        before = *value;
    }
    worst
}

/// The distribution function of the waiting time in M/D/1, by Erlang's formula.
fn erlang(load: f64, waits: f64) -> f64 {
    let mut term_sum = 0.0;
    for k in 0..=waits.floor() as u32 {
        let x = load * (f64::from(k) - waits);
        let mut term = (-x).exp();
        for i in 1..=k {
            term *= x / f64::from(i);
        }
        term_sum += term;
    }
    (1.0 - load) * term_sum
}

#[test]
fn erlangs_formula_lies_inside_the_bracket_of_a_dedicated_cpu() {
    for (load, server) in [
        (0.3, ReservationServer::Dedicated),
        (0.8, ReservationServer::Dedicated),
        (0.8, deferrable(2_500, 2_500)),
        (0.8, periodic(4_000, 4_000)),
    ] {
        let predicted = one(load * 1_000.0, us(1_000), server);
        let (optimistic, pessimistic) = ends(&predicted);
        for step in 0..1_200 {
            let at = us(1_000 + step * 7);
            let exact = erlang(load, step as f64 * 0.007);
            assert!(
                pessimistic.value(at) <= exact && exact <= optimistic.value(at),
                "{load} {at}: {} {exact} {}",
                pessimistic.value(at),
                optimistic.value(at)
            );
        }
        assert!(
            width(&predicted, us(35)) < 1e-6,
            "{}",
            width(&predicted, us(35))
        );
    }
}

#[test]
fn the_slo_example_of_the_thesis_is_just_missed() {
    // Li 2021, section 4.3 with lambda = 0.4, d = 1, P = 4, W = 0.7: the thesis reads p90 < 3
    // from its plot; F(3) = 0.892 and p90 = 3.107.
    let predicted = one(400.0, us(1_000), deferrable(2_800, 4_000));
    let (optimistic, pessimistic) = ends(&predicted);
    assert!(pessimistic.value(us(3_000)) < 0.892 && optimistic.value(us(3_000)) > 0.892);
    assert!(optimistic.value(us(3_000)) < 0.895);
    let p90 = predicted.quantile(0.9).unwrap();
    // To the digits that are given.
    assert!(p90.low <= us(3_108) && p90.high.unwrap() >= us(3_106));
    assert!(p90.high.unwrap().saturating_sub(p90.low) <= us(1));
}

#[test]
fn more_budget_never_lengthens_a_response() {
    let mut before: Option<Distribution> = None;
    for budget in [900, 1_000, 1_300, 1_700, 2_000] {
        let now = one(400.0, us(1_000), deferrable(budget, 2_000));
        if let Some(before) = before {
            let (shorter, _) = ends(&now);
            let (_, longer) = ends(&before);
            for (at, value) in longer.steps() {
                assert!(*value <= shorter.value(*at));
            }
        }
        before = Some(now);
    }
}

#[test]
fn an_overload_names_the_bandwidth_that_would_do() {
    let service = service(vec![("t", poisson(400.0, constant(us(1_000))))]);
    let error = ask(&service, deferrable(800, 2_000), BTreeMap::new()).unwrap_err();
    assert!(matches!(error, AnalysisError::Overloaded { .. }));
    assert!(error.to_string().contains("40.00 %"), "{error}");
}

#[test]
fn overhead_moves_every_response() {
    let service = service(vec![("t", poisson(400.0, constant(us(1_000))))]);
    let query = |overhead| ServiceQuery {
        name: "s",
        service: &service,
        execution_times: BTreeMap::new(),
        server: deferrable(1_200, 2_000),
        dispatch_overhead: overhead,
    };
    let without = predict(&query(Duration::ZERO)).unwrap().overall;
    let with = predict(&query(us(50))).unwrap().overall;
    let (a, b) = (without.quantile(0.9).unwrap(), with.quantile(0.9).unwrap());
    assert_eq!(a.low + us(50), b.low);
    assert_eq!(a.high.unwrap() + us(50), b.high.unwrap());
}

#[test]
fn loads_close_to_the_bandwidth_and_tiny_jobs_end_in_a_bracket_or_a_reason() {
    for (rate, d_ns, budget, period) in [
        (599.0, 1_000_000, 1_200, 2_000),
        (590.0, 1_000_000, 6_000, 10_000),
        (1e6, 100, 60_000, 100_000),
        (0.001, 1, 1, 1_000_000),
        (5.0, 100_000_000, 6, 10),
        (1e-3, 1_000_000_000, 1_000_000, 1_000_000),
    ] {
        let d = Duration::from_nanos(d_ns);
        let service = service(vec![("t", poisson(rate, constant(d)))]);
        match ask(&service, deferrable(budget, period), BTreeMap::new()) {
            Ok(prediction) => {
                let (optimistic, pessimistic) = ends(&prediction.overall);
                for (at, value) in pessimistic.steps() {
                    assert!(*value <= optimistic.value(*at), "{rate} {d} {at}");
                }
            }
            Err(error) => assert!(
                matches!(error, AnalysisError::NotAnalysed { .. }),
                "{error}"
            ),
        }
    }
}

#[test]
fn modulated_arrivals_are_refused_with_the_process_that_bounds_them() {
    let state = |rate, mean_stay_ms| PoissonState {
        rate: Rate::per_second(rate),
        mean_stay: Duration::from_millis(mean_stay_ms),
    };
    let states = vec![state(4.0, 500), state(80.0, 50)];
    let arrivals = Arrivals::MarkovModulatedPoisson { states };
    let service = service(vec![("t", task(arrivals, constant(us(1_000))))]);
    let refused = ask(&service, deferrable(6_000, 10_000), BTreeMap::new()).unwrap_err();
    let reason = refused.to_string();
    assert!(
        matches!(refused, AnalysisError::NotAnalysed { .. }),
        "{reason}"
    );
    assert!(
        reason.contains("\"t\"") && reason.contains("80/s"),
        "{reason}"
    );
}

/// A band for the empirical distribution function of `count` responses: Dvoretzky, Kiefer and
/// Wolfowitz with 10^-6, as if only one in `correlated` were independent.
fn band(count: usize, correlated: f64) -> f64 {
    ((2.0_f64 / 1e-6).ln() / (2.0 * count as f64 / correlated)).sqrt()
}

#[test]
fn a_million_simulated_jobs_stay_inside_the_bracket() {
    let horizon = Duration::from_secs(2_500);
    for server in [
        deferrable(2_800, 4_000),
        periodic(1_200, 2_000),
        deferrable(600, 1_000),
    ] {
        let service = service(vec![("t", poisson(400.0, constant(us(1_000))))]);
        let predicted = ask(&service, server, BTreeMap::new()).unwrap().overall;
        let samples = &simulated(&service, server, &BTreeMap::new(), horizon, 11)[""];
        let outside = excess(&predicted, samples);
        assert!(outside < band(samples.len(), 8.0), "{server:?} {outside}");
        assert!(width(&predicted, us(40)) < 1e-5);
    }
}

/// Two tasks, one of them with a spread of execution times.
fn mixed(rate: f64, clients: u32) -> (Service, BTreeMap<String, Distribution>) {
    let uniform = ExecutionTime::Uniform {
        min: us(200),
        max: us(900),
    };
    let mut many = poisson(rate / f64::from(clients), uniform);
    many.clients = clients;
    let unknown = ExecutionTime::Calibrated { expected: None };
    let service = service(vec![
        ("many", many),
        ("measured", poisson(rate / 3.0, unknown)),
    ]);
    let samples = (0..400).map(|i| us(700 + i * i / 160)).collect();
    let provenance = Provenance::new(Evidence::Sample, "execution time", "made up");
    let measured = Distribution::from_samples(provenance, samples);
    (
        service,
        BTreeMap::from([("measured".to_string(), measured)]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]
    #[test]
    fn brackets_hold_for_each_task_of_a_mixture(
        keeps in any::<bool>(), period in 500_u64..8_000, share in 0.35_f64..0.95,
        load in 0.3_f64..0.9, clients in 1_u32..4, seed in 0_u64..1_000,
    ) {
        let budget = (period as f64 * share) as u64;
        // Mean execution times: 0.55 ms, and 1.03 ms at a third of the rate.
        let rate = load * budget as f64 / period as f64 / (0.55e-3 + 1.03e-3 / 3.0);
        let (service, times) = mixed(rate, clients);
        let server = if keeps { deferrable(budget, period) } else { periodic(budget, period) };
        let prediction = ask(&service, server, times.clone()).unwrap();
        let horizon = Duration::from_secs_f64_nearest(150_000.0 / rate);
        let samples = simulated(&service, server, &times, horizon, seed);
        let correlated = 30.0 / (1.0 - load);
        for (task, distribution) in &prediction.per_task {
            let outside = excess(distribution, &samples[task]);
            prop_assert!(outside < band(samples[task].len(), correlated), "{} {}", task, outside);
        }
        let outside = excess(&prediction.overall, &samples[""]);
        prop_assert!(outside < band(samples[""].len(), correlated), "{}", outside);
    }
}
