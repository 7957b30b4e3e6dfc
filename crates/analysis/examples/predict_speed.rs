//! Prints how long predictions take, for the tables in bench/results.
//!
//! `cargo run --release -p tailbound-analysis --example predict_speed`

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Instant;

use tailbound_analysis::{ServiceQuery, predict};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{Arrivals, ExecutionTime, ReservationServer, Service, Task};
use tailbound_time::{Duration, Rate};

fn service(rate: &str) -> Result<Service, Box<dyn Error>> {
    let rate: Rate = rate.parse()?;
    let task = Task::of(
        Arrivals::Poisson { rate },
        ExecutionTime::Calibrated { expected: None },
    );
    Ok(Service::of("domain", "unix:socket", [("task", task)]))
}

/// `count` values around `mean_us`, with a long right tail; the same in every run.
fn spread(mean_us: f64, count: usize) -> Vec<Duration> {
    let value = |index: usize| {
        let share = (index as f64 + 0.5) / count as f64;
        let microseconds = mean_us * (0.93 - 0.07 * (1.0 - share).ln());
        Duration::from_nanos((microseconds * 1_000.0) as u64)
    };
    (0..count).map(value).collect()
}

/// A service with one Poisson task on a deferrable server.
struct Case {
    name: &'static str,
    rate: &'static str,
    execution_times: Vec<Duration>,
    budget: Duration,
    period: Duration,
}

fn ms(value: f64) -> Duration {
    Duration::from_nanos((value * 1e6).round() as u64)
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let one = |value_ms| vec![ms(value_ms)];
    let many = |mean_us| spread(mean_us, 5_000);
    let case = |name, rate, execution_times, budget_ms, period_ms| Case {
        name,
        rate,
        execution_times,
        budget: ms(budget_ms),
        period: ms(period_ms),
    };
    vec![
        case("constant 1 ms, 4 ms x 70 %", "0.4/ms", one(1.0), 2.8, 4.0),
        case("constant 1 ms, 2 ms x 60 %", "0.4/ms", one(1.0), 1.2, 2.0),
        case("constant 100 ms, 10 ms x 60 %", "4/s", one(100.0), 6.0, 10.0),
        case("samples ~8.55 ms, 10 ms x 60 %", "40/s", many(8_550.0), 6.0, 10.0),
        case("samples ~8.55 ms, 100 ms x 60 %", "40/s", many(8_550.0), 60.0, 100.0),
        case("samples ~1 ms, 10 ms x 60 %", "0.4/ms", many(1_000.0), 6.0, 10.0),
        case("samples ~0.1 ms, 10 ms x 60 %", "4/ms", many(100.0), 6.0, 10.0),
        case("samples ~1 ms, 10 ms x 45 %", "0.4/ms", many(1_000.0), 4.5, 10.0),
        case("constant 1.237 ms, 10 ms x 60 %", "0.4/ms", one(1.237), 6.0, 10.0),
    ]
}

/// The quantile as `low-high` in milliseconds, `?` for what is not known.
fn quantile(distribution: &Distribution, probability: f64) -> String {
    let Some(interval) = distribution.quantile(probability) else {
        return "?".into();
    };
    let high = interval
        .high
        .map(|high| format!("{:.3}", high.as_millis_f64()));
    let high = high.unwrap_or_else(|| "?".into());
    format!("{:.3}-{high}", interval.low.as_millis_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:34} {:>9}  p50, p90, p99, p99.9 in ms", "case", "time");
    for case in cases() {
        let service = service(case.rate)?;
        let provenance = Provenance::new(Evidence::Sample, "execution time", "made up");
        let times = Distribution::from_samples(provenance, case.execution_times);
        let query = ServiceQuery {
            name: "service",
            service: &service,
            execution_times: BTreeMap::from([("task".to_string(), times)]),
            server: ReservationServer::Deferrable {
                budget: case.budget,
                period: case.period,
            },
            dispatch_overhead: Duration::ZERO,
        };
        let begin = Instant::now();
        let prediction = predict(&query)?;
        let took = begin.elapsed();
        print!("{:34} {:7.1} ms", case.name, took.as_secs_f64() * 1e3);
        for probability in [0.5, 0.9, 0.99, 0.999] {
            print!("  {}", quantile(&prediction.overall, probability));
        }
        println!();
    }
    Ok(())
}
