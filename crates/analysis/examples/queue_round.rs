//! Answers queues on standard input, one a line, and says how long each took: for bench/peers.
//!
//! A line has the rate per second, the execution time, budget and period in seconds, and `deferrable`
//! or `periodic`. The answer has nanoseconds, and p50, p90 and p99 in seconds, middles of their bounds.
#![allow(missing_docs)]

use std::error::Error;
use std::io::{BufRead, Write, stdin, stdout};
use std::time::Instant;

use tailbound_analysis::AnalysisError;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

fn parsed(line: &str) -> Result<PoissonQueue, Box<dyn Error>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [rate, execution, budget, period, rule] = words[..] else {
        return Err(format!("`{line}` needs a rate, three times and a rule").into());
    };
    let seconds = |word: &str| word.parse().map(Duration::from_secs_f64_nearest);
    let (budget, period) = (seconds(budget)?, seconds(period)?);
    let server = match rule {
        "deferrable" => ReservationServer::Deferrable { budget, period },
        "periodic" => ReservationServer::Periodic { budget, period },
        other => return Err(format!("`{other}` is no rule; say deferrable or periodic").into()),
    };
    Ok(PoissonQueue {
        rate: Rate::per_second(rate.parse()?).ok_or("the rate is not above zero")?,
        execution_times: vec![(seconds(execution)?, 1.0)],
        batches: vec![(1, 1.0)],
        server,
    })
}

/// p50, p90 and p99.
fn quantiles(queue: &PoissonQueue) -> Result<[f64; 3], AnalysisError> {
    let responses = queue.solve()?;
    let mut middles = [0.0; 3];
    for (middle, share) in middles.iter_mut().zip([0.5, 0.9, 0.99]) {
        let bounds = responses.quantile(share)?;
        let high = bounds.high.unwrap_or(bounds.low);
        *middle = 0.5 * (bounds.low.as_secs_f64() + high.as_secs_f64());
    }
    Ok(middles)
}

fn main() -> Result<(), Box<dyn Error>> {
    for line in stdin().lock().lines() {
        let queue = parsed(&line?)?;
        let start = Instant::now();
        let [p50, p90, p99] = quantiles(&queue)?;
        let took_ns = start.elapsed().as_nanos();
        println!("{took_ns} {p50:.9} {p90:.9} {p99:.9}");
        stdout().flush()?;
    }
    Ok(())
}
