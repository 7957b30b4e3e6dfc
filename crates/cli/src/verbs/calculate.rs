//! `tailbound predict` without a file: the response times of one queue, from the command line.

use std::collections::BTreeMap;
use std::path::Path;

use tailbound_analysis::notation::ExecutionNotation;
use tailbound_analysis::response_time::{DescribedQueue, PoissonQueue};
use tailbound_analysis::{CpuLimit, Promise, Quota, SearchWatch};
use tailbound_assessment::observed_load::ObservedLoad;
use tailbound_assessment::prediction::{
    PredictionAnswer, QUEUE, QueueSupply, predict_described_queue, predict_queue,
};
use tailbound_model::{
    ExecutionTime, Problems, ReservationServer, ServerKind, Slo, parse_exposition,
    parse_request_log,
};
use tailbound_reservation::Rule;
use tailbound_time::{Duration, Rate};

use crate::arguments::{FilePart, LoadArguments, PredictArguments, QueueArguments};
use crate::failure::Failure;
use crate::output::{Output, read_file};

/// Predicts the queue of the arguments, under a CPU limit if there is one.
pub fn answer(
    arguments: &PredictArguments,
    limit: Option<CpuLimit>,
    (output, watch): (&Output, &dyn SearchWatch),
) -> Result<PredictionAnswer, Failure> {
    let supply = match limit {
        Some(_) => QueueSupply::Capped,
        None => QueueSupply::Guaranteed,
    };
    let load = &arguments.queue.load;
    if let Some(described) = described_load(load, output)? {
        let queue = described.on(server(&arguments.queue, limit)?);
        let question = (&queue, described.from);
        let answer =
            predict_described_queue(question, supply, &slos(arguments), &arguments.query(watch));
        return answer.map_err(Failure::from_error);
    }
    let queue = queue(load, server(&arguments.queue, limit)?, output)?;
    let answer = predict_queue((&queue, supply), &slos(arguments), &arguments.query(watch));
    answer.map_err(Failure::from_error)
}

/// The promises of the arguments.
pub fn slos(arguments: &PredictArguments) -> Vec<Slo> {
    arguments.slos.iter().map(Promise::as_slo).collect()
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
pub fn queue_of_arguments(
    arguments: &PredictArguments,
    output: &Output,
) -> Result<PoissonQueue, Failure> {
    let server = server(&arguments.queue, None)?;
    queue(&arguments.queue.load, server, output)
}

/// The queue that the arguments describe, on `server`.
pub fn queue(
    arguments: &LoadArguments,
    server: ReservationServer,
    output: &Output,
) -> Result<PoissonQueue, Failure> {
    if let Some(described) = described_load(arguments, output)? {
        let queue = described.on(server).with_listed_times(QUEUE.0);
        return queue.map_err(Failure::from_error);
    }
    let rate = arguments.rate.ok_or_else(|| {
        Failure::with_help(
            "neither a description nor a rate is given",
            "name a description, or give --rate 200/s --execution-time 2ms or --request-log FILE",
        )
    })?;
    let execution_times = match (notation(arguments)?, &arguments.execution_time_samples) {
        (Some(ExecutionNotation::Values(values)), None) => values,
        (None, Some(file)) => samples(file)?,
        _ => {
            return Err(Failure::with_help(
                "one of --execution-time, --execution-time-samples, --execution-time-histogram and --request-log is needed",
                "give --execution-time 2ms, --execution-time 1ms:0.5,3ms:0.5, --execution-time-samples FILE, \
                 --execution-time-histogram FILE or --request-log FILE",
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
        Some(Rule::Unlimited | Rule::Windows(_) | Rule::WindowsAndSlack { .. }) => {
            Ok(ReservationServer::Dedicated)
        }
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

/// `DescribedLoad` is a load whose execution times a description could have: bins, or a law.
struct DescribedLoad {
    rate: Rate,
    times: ExecutionTime,
    /// So many jobs come at a time.
    batch: u32,
    /// Whence they are.
    from: &'static str,
}

impl DescribedLoad {
    /// The queue of the load on a server.
    fn on(&self, server: ReservationServer) -> DescribedQueue {
        DescribedQueue {
            rate: self.rate,
            execution_time: self.times.clone(),
            batches: vec![(self.batch, 1.0)],
            server,
        }
    }
}

/// The load of a histogram, of a log or of a law, if the arguments name one; what it rests on is noted.
fn described_load(
    arguments: &LoadArguments,
    output: &Output,
) -> Result<Option<DescribedLoad>, Failure> {
    let of_bins = |bins| ExecutionTime::Histogram { bins, file: None };
    if let Some(log) = &arguments.request_log {
        let log = read_part(log, parse_request_log)?;
        let observed = ObservedLoad::of(&log).map_err(Failure::from_assessment)?;
        let remarks = observed.remarks();
        remarks.iter().for_each(|remark| output.note(remark));
        return Ok(Some(DescribedLoad {
            rate: arguments.rate.unwrap_or(observed.rate),
            times: of_bins(observed.bins),
            batch: arguments.batch,
            from: "log of requests",
        }));
    }
    let Some(rate) = arguments.rate else {
        return Ok(None);
    };
    let (times, from) = match (&arguments.execution_time_histogram, notation(arguments)?) {
        (Some(histogram), _) => (
            of_bins(read_part(histogram, parse_exposition)?),
            "histogram of execution times",
        ),
        (None, Some(ExecutionNotation::Law(law))) => (law, "execution times as given"),
        _ => return Ok(None),
    };
    let batch = arguments.batch;
    Ok(Some(DescribedLoad {
        rate,
        times,
        batch,
        from,
    }))
}

/// What `parse` reads from the part of a file.
fn read_part<T>(
    part: &FilePart,
    parse: fn(&str, Option<&str>, &str) -> Result<T, Problems>,
) -> Result<T, Failure> {
    let text = read_file(&part.file)?;
    let shown = part.file.display().to_string();
    let read = parse(&text, part.part.as_deref(), &shown);
    read.map_err(|problems| Failure::Description { problems, text })
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
