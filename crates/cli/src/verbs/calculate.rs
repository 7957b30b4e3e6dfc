//! `tailbound predict` without a file: the response times of one queue, from the command line.

use std::collections::BTreeMap;
use std::path::Path;

use tailbound_analysis::notation::ExecutionNotation;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::{CpuLimit, Promise, Quota};
use tailbound_assessment::prediction::{
    PredictionAnswer, QueueSupply, described_queue, predict_described_queue, predict_queue,
};
use tailbound_model::{Bin, ExecutionTime, ReservationServer, ServerKind, Slo, parse_exposition};
use tailbound_reservation::Rule;
use tailbound_time::Duration;

use crate::arguments::{HistogramFile, LoadArguments, PredictArguments, QueueArguments};
use crate::failure::Failure;
use crate::output::read_file;

/// Predicts the queue of the arguments, under a CPU limit if there is one.
pub fn answer(
    arguments: &PredictArguments,
    limit: Option<CpuLimit>,
) -> Result<PredictionAnswer, Failure> {
    let supply = match limit {
        Some(_) => QueueSupply::Capped,
        None => QueueSupply::Guaranteed,
    };
    let load = &arguments.queue.load;
    if let (Some(rate), Some(times)) = (load.rate, described_times(load)?) {
        let server = server(&arguments.queue, limit)?;
        let answer = predict_described_queue(
            (rate, times),
            (server, supply),
            &slos(arguments),
            &arguments.query(),
        );
        return answer.map_err(Failure::from_error);
    }
    let queue = queue(load, server(&arguments.queue, limit)?)?;
    let answer = predict_queue((&queue, supply), &slos(arguments), &arguments.query());
    answer.map_err(Failure::from_error)
}

/// The promises of the arguments.
pub fn slos(arguments: &PredictArguments) -> Vec<Slo> {
    arguments.slos.iter().map(Promise::as_slo).collect()
}

/// The execution times of the arguments, where a description could have them: a histogram, or a law.
fn described_times(load: &LoadArguments) -> Result<Option<ExecutionTime>, Failure> {
    if let Some(histogram) = &load.execution_time_histogram {
        let bins = bins(histogram)?;
        return Ok(Some(ExecutionTime::Histogram { bins, file: None }));
    }
    match notation(load)? {
        Some(ExecutionNotation::Law(_)) if load.batch != 1 => Err(Failure::with_help(
            format!(
                "--batch {} is for execution times that are listed, and here they have a law",
                load.batch
            ),
            "give times with probabilities, such as --execution-time 1ms:0.5,3ms:0.5",
        )),
        Some(ExecutionNotation::Law(law)) => Ok(Some(law)),
        _ => Ok(None),
    }
}

/// The execution times that the arguments write out.
fn notation(load: &LoadArguments) -> Result<Option<ExecutionNotation>, Failure> {
    let text = load.execution_time.as_deref();
    let read = text.map(str::parse::<ExecutionNotation>).transpose();
    read.map_err(|error| {
        Failure::with_help(format!("--execution-time: {}", error.what), error.right)
    })
}

/// The queue of the arguments, on their server.
pub fn queue_of_arguments(arguments: &PredictArguments) -> Result<PoissonQueue, Failure> {
    queue(&arguments.queue.load, server(&arguments.queue, None)?)
}

/// The queue that the arguments describe, on `server`.
pub fn queue(
    arguments: &LoadArguments,
    server: ReservationServer,
) -> Result<PoissonQueue, Failure> {
    let rate = arguments.rate.ok_or_else(|| {
        Failure::with_help(
            "neither a description nor a rate is given",
            "name a description, or give --rate 200/s --execution-time 2ms",
        )
    })?;
    if let Some(times) = described_times(arguments)? {
        return described_queue(rate, times, server).map_err(Failure::from_error);
    }
    let execution_times = match (notation(arguments)?, &arguments.execution_time_samples) {
        (Some(ExecutionNotation::Values(values)), None) => values,
        (None, Some(file)) => samples(file)?,
        _ => {
            return Err(Failure::with_help(
                "one of --execution-time, --execution-time-samples and --execution-time-histogram is needed",
                "give --execution-time 2ms, --execution-time 1ms:0.5,3ms:0.5, --execution-time-samples FILE or \
                 --execution-time-histogram FILE",
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

fn server(
    arguments: &QueueArguments,
    limit: Option<CpuLimit>,
) -> Result<ReservationServer, Failure> {
    if let Some(limit) = limit {
        return Ok(quota(limit, arguments.period)?.rule());
    }
    let lacking = || {
        Failure::with_help(
            "a server needs a budget and a period",
            "give -b 1.2s -p 2s, --server dedicated, or the CPU limit of a container: --limit 130m",
        )
    };
    match &arguments.load.server {
        Some(Rule::Unlimited | Rule::Windows(_)) => Ok(ReservationServer::Dedicated),
        rule => {
            let kind = match rule {
                Some(Rule::Server(kind)) => *kind,
                _ => ServerKind::Deferrable,
            };
            let budget = arguments.budget.ok_or_else(lacking)?;
            let period = arguments.period.ok_or_else(lacking)?;
            Ok(kind.with(budget, period))
        }
    }
}

/// The quota of a limit in each period.
fn quota(limit: CpuLimit, period: Option<Duration>) -> Result<Quota, Failure> {
    let quota = limit.quota(period);
    quota.map_err(|error| Failure::with_help(format!("--limit: {}", error.what), error.right))
}

/// The bins of a histogram.
fn bins(histogram: &HistogramFile) -> Result<Vec<Bin>, Failure> {
    let text = read_file(&histogram.file)?;
    let shown = histogram.file.display().to_string();
    let bins = parse_exposition(&text, histogram.metric.as_deref(), &shown);
    bins.map_err(|problems| Failure::Description { problems, text })
}

/// The share of each value.
fn shares(counted: BTreeMap<Duration, u64>) -> Vec<(Duration, f64)> {
    let total: u64 = counted.values().sum();
    let share = |(value, count): (Duration, u64)| (value, count as f64 / total as f64);
    counted.into_iter().map(share).collect()
}

/// Measured execution times: one per line, with a unit, or in nanoseconds as Tailbound writes them.
fn samples(file: &Path) -> Result<Vec<(Duration, f64)>, Failure> {
    let shown = file.display();
    let text = read_file(file)?;
    let mut counted = BTreeMap::new();
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
            "give at least two, better hundreds; a constant one goes to --execution-time",
        ));
    }
    Ok(shares(counted))
}
