//! How long the exact response times of a Poisson queue take: solving, and three quantiles.
//!
//! ```text
//! cargo run --release -p tailbound-analysis --example queue_speed
//! ```
#![allow(clippy::unwrap_used, missing_docs)]

use std::time::Instant;

use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

/// Each setting is solved so often; the median counts. The least is printed too, since a busy machine
/// moves it less.
const REPETITIONS: usize = 15;

fn main() {
    let one: &[(f64, f64)] = &[(1.0, 1.0)];
    let settings = [
        ("typical: d = 1, B = 1.2, P = 2, 67 %", 0.4, one, 1.2, 2.0),
        ("95 % of the bandwidth", 0.57, one, 1.2, 2.0),
        ("long period: B = 12, P = 20", 0.4, one, 12.0, 20.0),
        ("short period: B = 0.12, P = 0.2", 0.4, one, 0.12, 0.2),
        (
            "two execution times",
            0.3,
            &[(0.2, 0.7), (2.0, 0.3)],
            1.4,
            2.0,
        ),
        ("no common lattice", 0.4, one, 1.234_567, 2.012),
        ("no common lattice, 95 %", 0.58, one, 1.234_567, 2.012),
    ];
    println!(
        "{:<40} {:>10} {:>14} {:>14} {:>14}",
        "setting", "solve, ms", "quantiles, ms", "least both, ms", "apart, rel."
    );
    for (name, rate, times, budget, period) in settings {
        let queue = queue(rate, times, budget, period);
        let mut rounds: Vec<(f64, f64)> = (0..REPETITIONS).map(|_| timed(&queue)).collect();
        rounds.sort_by(|a, b| (a.0 + a.1).total_cmp(&(b.0 + b.1)));
        let (solving, asking) = rounds[REPETITIONS / 2];
        let least = rounds[0].0 + rounds[0].1;
        let found = queue.solve().unwrap().quantile(0.99).unwrap();
        let (low, high) = (found.low.as_secs_f64(), found.high.unwrap().as_secs_f64());
        let apart = (high - low) / low;
        println!("{name:<40} {solving:>10.2} {asking:>14.2} {least:>14.2} {apart:>14.1e}");
    }
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
    let found = queue.solve().unwrap();
    let solved = start.elapsed();
    for p in [0.5, 0.9, 0.99] {
        found.quantile(p).unwrap();
    }
    let all = start.elapsed();
    let ms = |length: std::time::Duration| length.as_secs_f64() * 1e3;
    (ms(solved), ms(all - solved))
}
