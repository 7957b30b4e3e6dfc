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

/// The execution times of a case.
enum Times {
    Samples(Vec<Duration>),
    Law(ExecutionTime),
}

/// A service with one Poisson task on a deferrable server.
struct Case {
    name: &'static str,
    rate: &'static str,
    times: Times,
    budget: Duration,
    period: Duration,
}

fn ms(value: f64) -> Duration {
    Duration::from_nanos((value * 1e6).round() as u64)
}

fn exponential(mean_ms: f64) -> Times {
    Times::Law(ExecutionTime::Exponential {
        min: Duration::ZERO,
        mean: ms(mean_ms),
        max: None,
    })
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let one = |value_ms| Times::Samples(vec![ms(value_ms)]);
    let many = |mean_us, count| Times::Samples(spread(mean_us, count));
    let mixed = |values_ms: &[f64]| Times::Samples(values_ms.iter().copied().map(ms).collect());
    let case = |name, rate, times, budget_ms, period_ms| Case {
        name,
        rate,
        times,
        budget: ms(budget_ms),
        period: ms(period_ms),
    };
    vec![
        case("constant 1 ms, 4 ms x 70 %", "0.4/ms", one(1.0), 2.8, 4.0),
        case("constant 1 ms, 2 ms x 60 %", "0.4/ms", one(1.0), 1.2, 2.0),
        case("constant 100 ms, 10 ms x 60 %", "4/s", one(100.0), 6.0, 10.0),
        case("constant 1 ms, 100 ms x 60 %", "0.4/ms", one(1.0), 60.0, 100.0),
        case("constant 1 ms, 500 ms x 60 %", "0.4/ms", one(1.0), 300.0, 500.0),
        case("constant 1.237 ms, 10 ms x 60 %", "0.4/ms", one(1.237), 6.0, 10.0),
        case("1.237, 2.711, 3.301 ms, 95 % load", "0.236/ms", mixed(&[1.237, 2.711, 3.301]), 6.0, 10.0),
        case("samples ~8.55 ms, 10 ms x 60 %", "40/s", many(8_550.0, 5_000), 6.0, 10.0),
        case("samples ~8.55 ms, 100 ms x 60 %", "40/s", many(8_550.0, 5_000), 60.0, 100.0),
        case("samples ~1 ms, 10 ms x 60 %", "0.4/ms", many(1_000.0, 5_000), 6.0, 10.0),
        case("10,000 samples ~1 ms, 10 ms x 60 %", "0.4/ms", many(1_000.0, 10_000), 6.0, 10.0),
        case("10,000 samples ~1 ms, 95 % load", "0.57/ms", many(1_000.0, 10_000), 6.0, 10.0),
        case("samples ~0.1 ms, 10 ms x 60 %", "4/ms", many(100.0, 5_000), 6.0, 10.0),
        case("samples ~1 ms, 500 ms x 60 %", "0.4/ms", many(1_000.0, 5_000), 300.0, 500.0),
        case("samples ~1 ms, 10 ms x 45 %", "0.4/ms", many(1_000.0, 5_000), 4.5, 10.0),
        case("exponential 2 ms, 10 ms x 50 %", "150/s", exponential(2.0), 5.0, 10.0),
        case("exponential 2 ms, 1 ms x 50 %", "150/s", exponential(2.0), 0.5, 1.0),
        case("exponential 2 ms, 100 ms x 50 %", "150/s", exponential(2.0), 50.0, 100.0),
        case("exponential 2 ms, 10 ms, 95 % load", "237/s", exponential(2.0), 5.0, 10.0),
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

/// The predictions of each case, all cases in turns.
const REPETITIONS: usize = 5;

/// Predicts a case: the seconds that this takes, and the quantiles.
fn predicted(case: &Case) -> Result<(f64, String), Box<dyn Error>> {
    let mut service = service(case.rate)?;
    let mut execution_times = BTreeMap::new();
    match &case.times {
        Times::Samples(samples) => {
            let provenance = Provenance::new(Evidence::Sample, "execution time", "made up");
            let times = Distribution::from_samples(provenance, samples.clone());
            execution_times.insert("task".to_string(), times);
        }
        Times::Law(law) => {
            for task in service.tasks.values_mut() {
                task.execution_time = law.clone();
            }
        }
    }
    let query = ServiceQuery {
        name: "service",
        service: &service,
        execution_times,
        server: ReservationServer::Deferrable {
            budget: case.budget,
            period: case.period,
        },
        dispatch_overhead: Duration::ZERO,
    };
    let begin = Instant::now();
    let prediction = predict(&query)?;
    let took_s = begin.elapsed().as_secs_f64();
    let quantiles = [0.5, 0.9, 0.99, 0.999].map(|one| quantile(&prediction.overall, one));
    Ok((took_s, quantiles.join("  ")))
}

fn main() -> Result<(), Box<dyn Error>> {
    let cases = cases();
    let mut rows: Vec<(Vec<f64>, String)> = vec![(Vec::new(), String::new()); cases.len()];
    for _ in 0..REPETITIONS {
        for (case, row) in cases.iter().zip(&mut rows) {
            let (took_s, quantiles) = predicted(case)?;
            row.0.push(took_s * 1e3);
            row.1 = quantiles;
        }
    }
    println!(
        "{:36} median (least-most) ms    p50, p90, p99, p99.9 in ms",
        "case"
    );
    for (case, (times_ms, quantiles)) in cases.iter().zip(&mut rows) {
        times_ms.sort_by(f64::total_cmp);
        let (least, most) = (times_ms[0], times_ms[REPETITIONS - 1]);
        let median = times_ms[REPETITIONS / 2];
        println!(
            "{:36} {median:7.1} ({least:.1}-{most:.1})  {quantiles}",
            case.name
        );
    }
    Ok(())
}
