//! p99 over 50 bandwidths and 50 periods (thesis, figure 4.11, for every pair), on all CPUs.
//!
//! ```text
//! cargo run --release -p tailbound-analysis --example quantile_grid [-- FILE.json]
//! ```
#![allow(missing_docs)]

use std::error::Error;
use std::time::Instant;

use rayon::prelude::*;
use tailbound_analysis::AnalysisError;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

const SIDE: u64 = 50;
/// The rate of jobs of 1 s.
const RATE: f64 = 0.4;
/// Each grid is computed twice so often, the precisions taking turns: the first times are the baseline,
/// the second ones the same "again", so that their ratio tells what the machine adds.
const REPETITIONS: usize = 3;
/// What a probability may be wrong by: enough for a plot, and once as precise as it gets.
const TOLERANCES: [(&str, f64); 2] = [("for a plot", 1e-7), ("precise", 1e-9)];

/// The bounds of p99 in seconds, with a bandwidth in percent.
fn p99(percent: u64, period: Duration, tolerance: f64) -> Result<(f64, f64), AnalysisError> {
    let server = ReservationServer::Deferrable {
        budget: period.scaled_down(percent, 100),
        period,
    };
    let queue = PoissonQueue {
        rate: Rate::per_second(RATE).ok_or_else(|| AnalysisError::Invalid {
            what: "the rate is not above zero".into(),
        })?,
        execution_times: vec![(Duration::from_secs(1), 1.0)],
        batches: vec![(1, 1.0)],
        server,
    };
    let bounds = queue.solve_within(tolerance)?.quantile(0.99)?;
    let high = bounds.high.map_or(f64::INFINITY, Duration::as_secs_f64);
    Ok((bounds.low.as_secs_f64(), high))
}

/// Seconds for all pairs, and how far apart the bounds are, relative, in the median and at most.
fn timed(pairs: &[(u64, Duration)], tolerance: f64) -> Result<(f64, f64, f64), AnalysisError> {
    let start = Instant::now();
    let one = |(w, p): &(u64, Duration)| p99(*w, *p, tolerance);
    let bounds: Vec<_> = pairs.par_iter().map(one).collect::<Result<_, _>>()?;
    let took_s = start.elapsed().as_secs_f64();
    let apart = sorted(
        bounds
            .iter()
            .map(|(low, high)| (high - low) / low)
            .collect(),
    );
    Ok((took_s, apart[apart.len() / 2], apart[apart.len() - 1]))
}

fn sorted(mut values: Vec<f64>) -> Vec<f64> {
    values.sort_by(f64::total_cmp);
    values
}

fn main() -> Result<(), Box<dyn Error>> {
    let pairs: Vec<(u64, Duration)> = (1..=SIDE)
        .flat_map(|w| (1..=SIDE).map(move |p| (50 + w, Duration::from_millis(200 * p))))
        .collect();
    let mut times = [const { (Vec::new(), Vec::new()) }; TOLERANCES.len()];
    let mut widths = [(0.0, 0.0); TOLERANCES.len()];
    for _ in 0..REPETITIONS {
        for again in [false, true] {
            for (index, (_, tolerance)) in TOLERANCES.iter().enumerate() {
                let (took_s, median, widest) = timed(&pairs, *tolerance)?;
                let taken = &mut times[index];
                if again { &mut taken.1 } else { &mut taken.0 }.push(took_s);
                widths[index] = (median, widest);
            }
        }
    }
    let threads = rayon::current_num_threads();
    let mut rows = Vec::new();
    for (((name, _), (first, again)), (median, widest)) in TOLERANCES.iter().zip(times).zip(widths)
    {
        let (first, again) = (sorted(first), sorted(again));
        let (took_s, least_s, most_s) = (first[REPETITIONS / 2], first[0], first[REPETITIONS - 1]);
        let ratio = again[REPETITIONS / 2] / took_s;
        println!(
            "{SIDE} x {SIDE} p99, {name}: {took_s:.2} s ({least_s:.2}-{most_s:.2} in {REPETITIONS} \
             runs, again {ratio:.2}) on {threads} threads; bounds {median:.1e} apart in the median, \
             {widest:.1e} at most"
        );
        rows.push(serde_json::json!({
            "precision": name, "rounds": REPETITIONS, "median_s": took_s, "least_s": least_s,
            "most_s": most_s, "again_ratio": ratio, "threads": threads, "apart_median": median,
            "apart_most": widest,
        }));
    }
    if let Some(file) = std::env::args().nth(1) {
        let result = serde_json::json!({
            "schema_version": 1, "benchmark": "quantile_grid", "side": SIDE, "rows": rows,
        });
        std::fs::write(file, format!("{result:#}\n"))?;
    }
    Ok(())
}
