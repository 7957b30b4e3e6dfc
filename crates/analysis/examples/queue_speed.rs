//! How long the exact response times of a Poisson queue take: solving, and three quantiles.
//!
//! ```text
//! cargo run --release -p tailbound-analysis --example queue_speed [-- FILE.json]
//! ```
//!
//! Settings take turns. In each turn a setting is timed twice: the first times are the baseline, the
//! second ones the same "again", so that their ratio tells what the machine adds.
#![allow(clippy::unwrap_used, missing_docs)]

use std::error::Error;
use std::time::Instant;

use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

/// Each setting is solved twice so often; the median counts. The least is printed too, since a busy
/// machine moves it less.
const REPETITIONS: usize = 15;

/// Name, rate, execution times, budget and period in seconds.
type Setting<'a> = (&'a str, f64, &'a [(f64, f64)], f64, f64);

const ONE: &[(f64, f64)] = &[(1.0, 1.0)];
const TWO: &[(f64, f64)] = &[(0.2, 0.7), (2.0, 0.3)];
const SETTINGS: [Setting<'_>; 7] = [
    ("typical: d = 1, B = 1.2, P = 2, 67 %", 0.4, ONE, 1.2, 2.0),
    ("95 % of the bandwidth", 0.57, ONE, 1.2, 2.0),
    ("long period: B = 12, P = 20", 0.4, ONE, 12.0, 20.0),
    ("short period: B = 0.12, P = 0.2", 0.4, ONE, 0.12, 0.2),
    ("two execution times", 0.3, TWO, 1.4, 2.0),
    ("no common lattice", 0.4, ONE, 1.234_567, 2.012),
    ("no common lattice, 95 %", 0.58, ONE, 1.234_567, 2.012),
];

/// The times of one setting, in milliseconds.
#[derive(Default)]
struct Times {
    /// Solving and three quantiles.
    first: Vec<f64>,
    /// The same, timed right after.
    again: Vec<f64>,
    /// Solving alone.
    solving: Vec<f64>,
}

fn main() -> Result<(), Box<dyn Error>> {
    let queues =
        SETTINGS.map(|(_, rate, times, budget, period)| queue(rate, times, budget, period));
    let mut times: Vec<Times> = queues.iter().map(|_| Times::default()).collect();
    for _ in 0..REPETITIONS {
        for (queue, times) in queues.iter().zip(&mut times) {
            let (solving, asking) = timed(queue);
            times.solving.push(solving);
            times.first.push(solving + asking);
            let (solving, asking) = timed(queue);
            times.again.push(solving + asking);
        }
    }
    println!(
        "{:<40} {:>10} {:>10} {:>18} {:>8} {:>12}",
        "setting, ms", "solve", "both", "least - most", "again", "apart, rel."
    );
    let mut rows = Vec::new();
    for (((name, ..), queue), times) in SETTINGS.iter().zip(&queues).zip(times) {
        let quantile = queue.solve()?.quantile(0.99)?;
        let (low, high) = (
            quantile.low.as_secs_f64(),
            quantile.high.unwrap().as_secs_f64(),
        );
        let apart = (high - low) / low;
        let (first, again) = (sorted(times.first), sorted(times.again));
        let (median, solving) = (middle(&first), middle(&sorted(times.solving)));
        let (least, most) = (first[0], first[first.len() - 1]);
        let ratio = middle(&again) / median;
        println!(
            "{name:<40} {solving:>10.2} {median:>10.2} {:>18} {ratio:>8.2} {apart:>12.1e}",
            format!("{least:.2} - {most:.2}")
        );
        rows.push(serde_json::json!({
            "setting": name, "rounds": first.len(), "median_ms": median, "least_ms": least,
            "most_ms": most, "again_ratio": ratio, "apart": apart,
        }));
    }
    if let Some(file) = std::env::args().nth(1) {
        let result = serde_json::json!({
            "schema_version": 1, "benchmark": "queue_speed", "rows": rows,
        });
        std::fs::write(file, format!("{result:#}\n"))?;
    }
    Ok(())
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn queue(rate: f64, times: &[(f64, f64)], budget_s: f64, period_s: f64) -> PoissonQueue {
    let seconds = Duration::from_secs_f64_nearest;
    PoissonQueue {
        rate: Rate::per_second(rate).unwrap(),
        execution_times: times.iter().map(|(time, p)| (seconds(*time), *p)).collect(),
        batches: vec![(1, 1.0)],
        server: ReservationServer::Deferrable {
            budget: seconds(budget_s),
            period: seconds(period_s),
        },
    }
}

/// Milliseconds for solving and for three quantiles.
fn timed(queue: &PoissonQueue) -> (f64, f64) {
    let start = Instant::now();
    let responses = queue.solve().unwrap();
    let solved = start.elapsed();
    for p in [0.5, 0.9, 0.99] {
        responses.quantile(p).unwrap();
    }
    let all = start.elapsed();
    let ms = |length: std::time::Duration| length.as_secs_f64() * 1e3;
    (ms(solved), ms(all - solved))
}
