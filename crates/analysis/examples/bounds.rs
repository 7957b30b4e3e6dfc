//! Simulates random settings in exact nanoseconds and counts what contradicts their predictions.
//!
//! Usage: bounds [SETTINGS] [JOBS] [SEED] [LAWS]; the result is JSON on standard output. LAWS settings have execution
//! times of an exponential or lognormal law, and the others of a few values. A contradicted prediction is simulated
//! again, with ten times as many jobs and another seed, and what the second simulation contradicts counts.
#![allow(clippy::unwrap_used, clippy::expect_used)]

#[path = "../tests/random_queues/mod.rs"]
mod random_queues;
#[path = "../tests/simulated_queue/mod.rs"]
mod simulated_queue;

use std::time::Instant;

use random_queues::{ComparedNumber, Comparison, LawSetting, RULES, SettingRanges, compare};
use rayon::prelude::*;
use serde_json::{Value, json};
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::{AnalysisError, SharpPoints};

/// How many more jobs a second simulation has.
const AGAIN: usize = 10;
/// The share of the bandwidth that is asked for, and the execution times as shares of the period.
const LOAD: (f64, f64) = (0.2, 0.9);
const EXECUTION: (f64, f64) = (0.02, 3.0);

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut next = |default: u64| arguments.next().map_or(default, |one| one.parse().unwrap());
    let (settings, jobs, seed) = (next(1_000), next(200_000), next(1));
    let laws = next(settings / 3);
    let ranges = SettingRanges {
        seed,
        load: LOAD,
        execution: EXECUTION,
    };
    let one = |number: u64| {
        let queue = ranges.queue(number);
        row(number, &queue, settled(&queue, number, jobs as usize))
    };
    let with_law = |number: u64| law_row(number, &ranges.law_setting(number), jobs as usize);
    let mut rows: Vec<Value> = (0..settings).into_par_iter().map(one).collect();
    rows.par_extend((0..laws).into_par_iter().map(with_law));
    let rules = RULES
        .iter()
        .flat_map(|(rule, _)| [false, true].map(|has_law| summary((rule, has_law), &rows)));
    let rules: Vec<Value> = rules.collect();
    let document = json!({
        "schema_version": 1,
        "settings": settings,
        "laws": laws,
        "jobs": jobs,
        "seed": seed,
        "rules": rules,
        "rows": rows,
    });
    println!("{}", serde_json::to_string_pretty(&document).unwrap());
}

/// A setting of a continuous law with its bounds and what was simulated.
fn law_row(number: u64, setting: &LawSetting, jobs: usize) -> Value {
    let begin = Instant::now();
    let predicted = setting.predict(&SharpPoints::default());
    let seconds = begin.elapsed().as_secs_f64();
    let comparison = predicted.and_then(|_| {
        let first = setting.compare((jobs, number))?;
        let is_contradicted = first.wrong().next().is_some();
        match is_contradicted {
            false => Ok(first),
            true => setting.compare((jobs * AGAIN, number + (1 << 32))),
        }
    });
    let comparison = comparison.map(|comparison| (comparison, seconds));
    let mut row = row(number, &setting.queue, comparison);
    row["law"] = serde_json::to_value(&setting.time).unwrap();
    row
}

/// A comparison, repeated with more jobs where the first one contradicts the prediction; and how many seconds the
/// prediction took.
fn settled(
    queue: &PoissonQueue,
    number: u64,
    jobs: usize,
) -> Result<(Comparison, f64), AnalysisError> {
    let mut seconds = 0.0;
    let mut predict = |queue: &PoissonQueue, points: &SharpPoints| {
        let begin = Instant::now();
        let prediction = queue.predict("queue", points);
        seconds = begin.elapsed().as_secs_f64();
        prediction
    };
    let mut comparison = compare(queue, (jobs, number), &mut predict)?;
    if comparison.wrong().next().is_some() {
        comparison = compare(queue, (jobs * AGAIN, number + (1 << 32)), &mut predict)?;
    }
    Ok((comparison, seconds))
}

/// A setting with its bounds and what was simulated.
fn row(
    number: u64,
    queue: &PoissonQueue,
    comparison: Result<(Comparison, f64), AnalysisError>,
) -> Value {
    let amounts = queue.server.budget_and_period();
    let times = queue.execution_times.iter();
    let times = times.map(|(time, p)| json!({"ns": time.as_nanos(), "probability": p}));
    let mut row = json!({
        "number": number,
        "rule": RULES[(number % RULES.len() as u64) as usize].0,
        "rate_per_second": queue.rate.as_per_second(),
        "execution_times": times.collect::<Vec<_>>(),
        "batches": queue.batches,
        "budget_ns": amounts.map(|(budget, _)| budget.as_nanos()),
        "period_ns": amounts.map(|(_, period)| period.as_nanos()),
    });
    let more = match comparison {
        Err(error) => json!({"refused": error.to_string()}),
        Ok((comparison, seconds)) => {
            let p99 = comparison.prediction.overall.quantile(0.99).unwrap();
            json!({
                "evidence": if comparison.is_bound() { "bound" } else { "estimate" },
                "p99_low_ns": p99.low.as_nanos(),
                "p99_high_ns": p99.high.map(|high| high.as_nanos()),
                "compared": comparison.compared.iter().map(number_row).collect::<Vec<_>>(),
                "wrong": comparison.wrong().map(|number| &number.what).collect::<Vec<_>>(),
                "seconds": seconds,
                "width": comparison.width(),
            })
        }
    };
    let (all, more) = (row.as_object_mut().unwrap(), more.as_object().unwrap());
    all.extend(more.clone());
    row
}

/// A number with its bounds and what was simulated. JSON has no infinity, so that a bound that is none is null.
fn number_row(number: &ComparedNumber) -> Value {
    json!({
        "what": number.what,
        "low": number.bounds.0,
        "high": number.bounds.1,
        "simulated": number.simulated.value,
        "standard_error": number.simulated.error,
    })
}

/// The summary of all settings of a rule, with a continuous law or without: how many there were, were answered, and
/// were contradicted.
fn summary((rule, has_law): (&str, bool), rows: &[Value]) -> Value {
    let of_rule = rows.iter().filter(|row| row["rule"] == rule);
    let of_rule: Vec<&Value> = of_rule
        .filter(|row| row["law"].is_object() == has_law)
        .collect();
    let with_evidence = |word: &str| -> Vec<&Value> {
        let chosen = of_rule.iter().filter(|row| row["evidence"] == word);
        chosen.copied().collect()
    };
    let (bounds, estimates) = (with_evidence("bound"), with_evidence("estimate"));
    let wrong = |rows: &[&Value]| {
        let wrong = rows
            .iter()
            .filter(|row| row["wrong"].as_array().is_some_and(|it| !it.is_empty()));
        wrong.count()
    };
    let answered = || bounds.iter().chain(&estimates);
    let sorted = |key: &str| {
        let mut values: Vec<f64> = answered()
            .map(|row| row[key].as_f64().unwrap_or(f64::INFINITY))
            .collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (widths, seconds) = (sorted("width"), sorted("seconds"));
    let at = |values: &[f64], share: f64| {
        values
            .get((share * (values.len().max(1) - 1) as f64) as usize)
            .copied()
    };
    let compared: usize = answered()
        .filter_map(|row| row["compared"].as_array())
        .map(Vec::len)
        .sum();
    json!({
        "rule": rule,
        "has_law": has_law,
        "settings": of_rule.len(),
        "refused": of_rule.len() - bounds.len() - estimates.len(),
        "bounds": bounds.len(),
        "bounds_contradicted": wrong(&bounds),
        "estimates": estimates.len(),
        "estimates_contradicted": wrong(&estimates),
        "compared": compared,
        "width_median": at(&widths, 0.5),
        "width_p90": at(&widths, 0.9),
        "seconds_median": at(&seconds, 0.5),
        "seconds_longest": at(&seconds, 1.0),
    })
}
