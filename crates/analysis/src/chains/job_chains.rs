//! Every job chain of a hyperperiod on one clock.

use tailbound_time::Duration;

use super::job_spans::{JobSpans, PlacedJob};
use super::{ChainPart, ChainStage, PartKind, StageTrigger};

/// The most job chains that are followed.
const MOST_CHAINS: u64 = 1_000_000;

/// The longest reaction over the jobs of the first task in a hyperperiod, with the parts of that job chain; `None` where the
/// tasks are not all on the clock of the first, or the hyperperiod has too many jobs.
///
/// A cause comes at the earliest right after the job before has read. It is read by the job whose chain is followed, which
/// publishes no later than its latest end; the first job of the next task that cannot begin before the message is there reads
/// that message or a newer one. Times at which all jobs begin as early and end as late as they can reach the bound, so that it
/// is the least one for these spans; where they take their response times from all phases, it is not tight.
pub(super) fn step(stages: &[ChainStage]) -> Option<(Duration, Vec<ChainPart>)> {
    let (first, rest) = stages.split_first()?;
    let spans = spans_of(first)?;
    let clocked = rest
        .iter()
        .all(|stage| !matches!(stage.trigger, StageTrigger::Spaced { .. }));
    if !clocked {
        return None;
    }
    let cycles = stages.iter().filter_map(spans_of).map(JobSpans::cycle);
    let hyperperiod_ns = cycles.map(Duration::as_nanos).try_fold(1, least_multiple)?;
    let repetitions = hyperperiod_ns / spans.cycle().as_nanos();
    let chains = repetitions.checked_mul(spans.jobs().len() as u64)?;
    if chains > MOST_CHAINS {
        return None;
    }
    let mut longest: Option<(i128, i128)> = None;
    for number in 0..i128::from(chains) {
        let from_ns = spans.job(number - 1).begin_ns;
        let length_ns = end_of(spans.job(number), rest) - from_ns;
        if longest.is_none_or(|(longest_ns, _)| length_ns > longest_ns) {
            longest = Some((length_ns, number));
        }
    }
    let (length_ns, number) = longest?;
    let bound = Duration::from_nanos(u64::try_from(length_ns).ok()?);
    Some((bound, parts_of(spans, number, stages)?))
}

fn spans_of(stage: &ChainStage) -> Option<&JobSpans> {
    match &stage.trigger {
        StageTrigger::Clocked { spans, .. } => Some(spans),
        _ => None,
    }
}

fn least_multiple(a: u64, b: u64) -> Option<u64> {
    num_integer::lcm(u128::from(a), u128::from(b))
        .try_into()
        .ok()
}

/// The end of the chain of a job.
fn end_of(job: PlacedJob, rest: &[ChainStage]) -> i128 {
    rest.iter().fold(job, next_job).end_ns
}

/// The job of `stage` that takes the message of `job` for sure.
fn next_job(job: PlacedJob, stage: &ChainStage) -> PlacedJob {
    let come_ns = job.end_ns + i128::from(stage.transport.as_nanos());
    match spans_of(stage) {
        None => PlacedJob {
            arrival_ns: come_ns,
            begin_ns: come_ns,
            end_ns: come_ns + i128::from(stage.response.as_nanos()),
        },
        Some(spans) => {
            let reads = |next: PlacedJob| {
                next.begin_ns >= come_ns
                    || stage.yields_to_previous && next.arrival_ns >= job.arrival_ns
            };
            spans.first(job.arrival_ns.min(come_ns), reads)
        }
    }
}

/// The parts of the chain of a job, from the earliest read of the job before it on.
fn parts_of(spans: &JobSpans, number: i128, stages: &[ChainStage]) -> Option<Vec<ChainPart>> {
    let mut parts = Vec::new();
    let mut push = |kind, at: &str, from_ns: i128, to_ns: i128| {
        let length = Duration::from_nanos(u64::try_from(to_ns - from_ns).ok()?);
        if !length.is_zero() || kind == PartKind::Response {
            parts.push(ChainPart::of(kind, at, length));
        }
        Some(())
    };
    let (first, rest) = stages.split_first()?;
    let mut job = spans.job(number);
    let mut passed_ns = spans.job(number - 1).begin_ns;
    // A job may arrive before the one in front of it can begin, as between two windows.
    let arrived_ns = job.arrival_ns.max(passed_ns);
    push(PartKind::Wait, &first.name, passed_ns, arrived_ns)?;
    passed_ns = arrived_ns;
    let mut name = &first.name;
    for stage in rest {
        let next = next_job(job, stage);
        // A job that yields may arrive before the end of the one in front, the response of which then passes within its own.
        let is_within = stage.yields_to_previous && next.arrival_ns < job.end_ns;
        let ended_ns = match is_within {
            true => next.arrival_ns.max(passed_ns),
            false => job.end_ns,
        };
        push(PartKind::Response, name, passed_ns, ended_ns)?;
        let come_ns = ended_ns + i128::from(stage.transport.as_nanos());
        push(PartKind::Transport, &stage.topic, ended_ns, come_ns)?;
        let arrived_ns = next.arrival_ns.max(come_ns);
        push(PartKind::Wait, &stage.name, come_ns, arrived_ns)?;
        (job, passed_ns, name) = (next, arrived_ns, &stage.name);
    }
    push(PartKind::Response, name, passed_ns, job.end_ns)?;
    Some(parts)
}
