//! `tailbound predict` without a file: the response times of one queue, from the command line.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::notation::execution_times;
use tailbound_analysis::response_time::{PoissonQueue, ResponseTimes};
use tailbound_distribution::Interval;
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use crate::arguments::{LoadArguments, QueueArguments, ServerName};
use crate::failure::Failure;
use crate::output::{Output, table};

/// The answer, as JSON spells it.
#[derive(Serialize)]
struct Answer<'a> {
    stable: bool,
    utilisation: f64,
    bandwidth: f64,
    mean: Bounds,
    quantiles: Vec<Quantile>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    cdf: Vec<Share>,
    method: &'a str,
    assumptions: &'a [String],
}

#[derive(Serialize)]
struct Bounds {
    lower_ns: u64,
    upper_ns: Option<u64>,
}

#[derive(Serialize)]
struct Quantile {
    p: f64,
    #[serde(flatten)]
    bounds: Bounds,
}

#[derive(Serialize)]
struct Share {
    at_ns: u64,
    lower: f64,
    upper: f64,
}

impl From<Interval> for Bounds {
    fn from(interval: Interval) -> Self {
        Self {
            lower_ns: interval.low.as_nanos(),
            upper_ns: interval.high.map(Duration::as_nanos),
        }
    }
}

/// Solves the queue of `arguments` and prints what was asked for.
pub fn carry_out(arguments: &QueueArguments, output: &Output) -> Result<(), Failure> {
    let queue = queue(&arguments.load, server(arguments)?)?;
    let found = queue.solve().map_err(Failure::from_error)?;
    let answer = answer(arguments, &found)?;
    let mut rows = vec![vec!["mean".to_owned(), told(&answer.mean), String::new()]];
    for quantile in &answer.quantiles {
        rows.push(vec![
            format!("p{}", shortest(quantile.p * 100.0)),
            told(&quantile.bounds),
            String::new(),
        ]);
    }
    for share in &answer.cdf {
        rows.push(vec![
            format!("within {}", Duration::from_nanos(share.at_ns)),
            String::new(),
            format!("{:.7} .. {:.7}", share.lower, share.upper),
        ]);
    }
    output.note(format!(
        "load {:.2} % on {:.2} % of a CPU; {}",
        answer.utilisation * 100.0,
        answer.bandwidth * 100.0,
        answer.method
    ));
    let for_people = || format!("{}\n", table(&["response time", "takes", "share"], &rows));
    output.rows_with(
        for_people,
        &["what", "lower", "upper"],
        &csv_rows(&answer),
        &answer,
    )
}

fn answer<'a>(arguments: &QueueArguments, found: &'a ResponseTimes) -> Result<Answer<'a>, Failure> {
    let mut quantiles = Vec::new();
    for p in &arguments.quantiles {
        let bounds = found.quantile(*p).map_err(Failure::from_error)?.into();
        quantiles.push(Quantile { p: *p, bounds });
    }
    let share = |at: &Duration| {
        let bounds = found.cdf(*at);
        Share {
            at_ns: at.as_nanos(),
            lower: bounds.lower,
            upper: bounds.upper,
        }
    };
    Ok(Answer {
        stable: true,
        utilisation: found.utilisation,
        bandwidth: found.bandwidth,
        mean: found.mean().into(),
        quantiles,
        cdf: arguments.at.iter().map(share).collect(),
        method: &found.method,
        assumptions: &found.assumptions,
    })
}

fn csv_rows(answer: &Answer<'_>) -> Vec<Vec<String>> {
    let row = |what: String, bounds: &Bounds| {
        let upper = bounds.upper_ns.map(|ns| ns.to_string());
        vec![what, bounds.lower_ns.to_string(), upper.unwrap_or_default()]
    };
    let mut rows = vec![row("mean_ns".into(), &answer.mean)];
    let quantiles = answer.quantiles.iter();
    rows.extend(quantiles.map(|q| row(format!("quantile_{}_ns", q.p), &q.bounds)));
    let shares = answer.cdf.iter().map(|share| {
        let what = format!("cdf_at_{}_ns", share.at_ns);
        vec![what, share.lower.to_string(), share.upper.to_string()]
    });
    rows.extend(shares);
    rows
}

/// A time as people read it: one value where its bounds agree to seven digits.
fn told(bounds: &Bounds) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let Some(upper) = bounds.upper_ns else {
        return format!("over {:.7} s", seconds(bounds.lower_ns));
    };
    let middle = 0.5 * (seconds(bounds.lower_ns) + seconds(upper));
    let apart = seconds(upper) - seconds(bounds.lower_ns);
    if apart <= 2e-7 * middle {
        format!("{} ± {apart:.1e} s", significant(middle))
    } else {
        format!(
            "{} .. {} s",
            significant(seconds(bounds.lower_ns)),
            significant(seconds(upper))
        )
    }
}

/// Eight significant digits.
fn significant(value: f64) -> String {
    let digits = 7 - value.abs().max(1e-12).log10().floor() as i32;
    format!("{value:.*}", digits.clamp(0, 15) as usize)
}

fn shortest(value: f64) -> String {
    let text = format!("{value:.6}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The queue that the arguments describe, on `server`.
pub fn queue(
    arguments: &LoadArguments,
    server: ReservationServer,
) -> Result<PoissonQueue, Failure> {
    let rate = arguments.rate.ok_or_else(|| {
        Failure::with_help(
            "neither a description nor a rate is given",
            "name a FILE, or give --rate 200/s --service 2ms",
        )
    })?;
    let execution_times = match (&arguments.service, &arguments.service_samples) {
        (Some(text), None) => execution_times(text).map_err(|error| {
            Failure::with_help(format!("--service: {}", error.what), error.right)
        })?,
        (None, Some(file)) => samples(file)?,
        _ => {
            return Err(Failure::with_help(
                "one of --service and --service-samples is needed",
                "give --service 2ms, --service 1ms:0.5,3ms:0.5 or --service-samples FILE",
            ));
        }
    };
    Ok(PoissonQueue {
        rate,
        execution_times,
        batches: vec![(arguments.batch, 1.0)],
        server,
    })
}

fn server(arguments: &QueueArguments) -> Result<ReservationServer, Failure> {
    let lacking = || {
        Failure::with_help(
            "a server needs a budget and a period",
            "give -b 1.2s -p 2s, or --server dedicated",
        )
    };
    match arguments.load.server.unwrap_or(ServerName::Deferrable) {
        ServerName::Dedicated => Ok(ReservationServer::Dedicated),
        kind => {
            let budget = arguments.budget.ok_or_else(lacking)?;
            let period = arguments.period.ok_or_else(lacking)?;
            Ok(match kind {
                ServerName::Periodic => ReservationServer::Periodic { budget, period },
                ServerName::Polling => ReservationServer::Polling { budget, period },
                ServerName::ConstantBandwidth => {
                    ReservationServer::ConstantBandwidth { budget, period }
                }
                _ => ReservationServer::Deferrable { budget, period },
            })
        }
    }
}

/// Measured execution times: one per line, with a unit, or in nanoseconds as Tailbound writes them.
fn samples(file: &Path) -> Result<Vec<(Duration, f64)>, Failure> {
    let shown = file.display();
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::error(format!("cannot read {shown}: {error}")))?;
    let mut counted = std::collections::BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let value = line.parse::<Duration>().map_err(|error| {
            Failure::with_help(
                format!(
                    "{shown}, line {}: \"{line}\" is no time: {error}",
                    index + 1
                ),
                "write one execution time with its unit per line, such as 2.1ms",
            )
        })?;
        *counted.entry(value).or_insert(0_u64) += 1;
    }
    let total: u64 = counted.values().sum();
    if total < 2 {
        return Err(Failure::with_help(
            format!("{shown} holds {total} execution times, which say nothing of their spread"),
            "give at least two, better hundreds; a constant one goes to --service",
        ));
    }
    let share = |(value, count): (Duration, u64)| (value, count as f64 / total as f64);
    Ok(counted.into_iter().map(share).collect())
}
