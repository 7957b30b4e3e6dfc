//! `tailbound sample FILE`: the cheapest reservations of a real application, measured.

use tailbound_experiment::sample_campaign::{
    CampaignEnd, FittedQueue, SampleError, SampleOptions, SampledCampaign, sample, write_data_set,
    write_report,
};
use tailbound_model::{LoadedDescription, Problems};
use tailbound_time::Duration;

use crate::arguments::SampleArguments;
use crate::failure::Failure;
use crate::interrupts;
use crate::output::Output;
use crate::progress::ProgressDisplay;

/// The columns of the table.
const HEADER: [&str; 5] = [
    "condition",
    "promises",
    "budget / period",
    "share",
    "chance of less",
];

/// Measures the points, writes the data set and the report, prints the answers; status 2 if a condition has none, and 3 if the user
/// ended the campaign.
pub fn carry_out(arguments: &SampleArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(&arguments.file, output)?;
    let inputs = super::inputs(&loaded)?;
    let out = arguments.out.clone().unwrap_or_else(|| {
        let folder = format!("{}-samples", loaded.description.name);
        loaded.base().join("out").join(folder)
    });
    let options = SampleOptions {
        out: out.clone(),
        executable: std::env::current_exe().map_err(Failure::from_error)?,
        seed: arguments.seed,
        time_budget: arguments.time_budget,
        only: arguments.only.clone(),
        // A clock before the year 0 has no text, and would be nobody's.
        now: || super::run_file::utc_now().unwrap_or_default(),
        now_ms: || {
            let nanoseconds = time::OffsetDateTime::now_utc().unix_timestamp_nanos();
            i64::try_from(nanoseconds / 1_000_000).unwrap_or(i64::MAX)
        },
    };
    let stop = interrupts::watch()?;
    let mut progress = ProgressDisplay::new(output);
    let sampled = sample(&loaded, &inputs, &options, &stop, &mut progress);
    drop(progress);
    let sampled = sampled.map_err(|error| in_description(error, &loaded))?;
    write_data_set(&sampled, &out).map_err(Failure::from_error)?;
    let report = write_report(&sampled, &out).map_err(Failure::from_error)?;
    print(&sampled, output)?;
    output.note(format!(
        "data set: {}",
        out.join("datapackage.json").display()
    ));
    output.note(format!("report: {}", report.display()));
    judge(&sampled)
}

fn print(sampled: &SampledCampaign, output: &Output) -> Result<(), Failure> {
    let rows = sampled.rows().into_iter();
    let rows: Vec<Vec<String>> = rows
        .map(|row| {
            vec![
                row.condition,
                row.outcome,
                row.reservation,
                row.share,
                row.cheaper,
            ]
        })
        .collect();
    output.rows(&HEADER, &rows, &sampled.document())?;
    for cost in &sampled.costs {
        output.note(format!(
            "{} from {} to {}: {:.2} points of bandwidth for each one more",
            cost.key, cost.from, cost.to, cost.points_per_unit
        ));
    }
    if let Some(coverage) = sampled.coverage {
        output.note(format!(
            "the model's intervals of 90% hold {} of {} measurements that were left out",
            coverage.covered, coverage.points
        ));
    }
    for fitted in &sampled.queues {
        output.note(queue_in_words(fitted));
    }
    if let Some(overhead) = sampled.overhead() {
        let percent = |part: f64| part * 100.0;
        output.note(format!(
            "of {} for the points, {:.0}% was measuring, {:.0}% warming up, {:.0}% all else",
            in_seconds(overhead.taken),
            percent(overhead.measuring),
            percent(overhead.warming),
            percent(overhead.beyond),
        ));
    }
    for remark in &sampled.remarks {
        output.note(format!("note: {remark}"));
    }
    Ok(())
}

/// The queueing model beside the regression, each with how far it is from points that it does not know.
fn queue_in_words(fitted: &FittedQueue) -> String {
    let queue = &fitted.queue;
    let percent = |factor: f64| (factor - 1.0) * 100.0;
    format!(
        "p{} of {} as a queue: {:.2} ms of CPU time a request; half of the points left out are within {:.0}% of it, \
         and within {:.0}% of the regression",
        fitted.percentile,
        fitted.service,
        queue.demand.as_millis_f64(),
        percent(queue.error_factor),
        percent(fitted.regression_error_factor),
    )
}

fn in_seconds(time: Duration) -> String {
    format!("{:.0} s", time.as_secs_f64())
}

fn judge(sampled: &SampledCampaign) -> Result<(), Failure> {
    let measured = sampled.records.len();
    match sampled.end {
        CampaignEnd::Stopped => Err(Failure::Stopped(format!(
            "stopped after {measured} measurements; the same command goes on from there"
        ))),
        _ if sampled.is_answered() => Ok(()),
        CampaignEnd::TimeOver => Err(Failure::Verdict(format!(
            "the time was over after {measured} measurements, before every condition had an answer; a longer \
             --time-budget goes on from there"
        ))),
        CampaignEnd::Complete => Err(Failure::Verdict(
            "a condition has no reservation that keeps the promises".to_owned(),
        )),
    }
}

fn in_description(error: SampleError, loaded: &LoadedDescription) -> Failure {
    match error {
        SampleError::Point(problem) => Failure::Description {
            problems: Problems::new(vec![*problem]),
            text: loaded.text.clone(),
        },
        other => Failure::from_error(other),
    }
}
