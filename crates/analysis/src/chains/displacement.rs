//! Bounds on reaction times where messages of other publishers displace those of a chain.
//!
//! A reader of a topic with several publishers takes the message that came last. Data of the chain that another publisher
//! displaces are lost to the reader, and a cause waits for later data of the chain. So the reaction time has a bound of its own
//! here. The data age has none: an output with data of the chain has the newest of them that had come, as if nobody else
//! published, and other outputs are none of the chain.

use std::collections::BTreeMap;

use num_integer::lcm;
use tailbound_time::Duration;

use super::job_spans::{JobSpans, PlacedJob};
use super::{ChainStage, StageTrigger};

/// The most jobs of a task in a hyperperiod.
const MOST_JOBS: i128 = 200_000;

/// The name of the bound by the jobs of a hyperperiod.
pub const GUARANTEED_SOURCES: &str = "the oldest data that each job of a hyperperiod may have, with the messages of other publishers";
/// The name of the bound by lulls.
pub const LULLS: &str =
    "messages of other publishers come one at a time, with time between them for data of the chain";

/// The messages of another publisher on their way to a task of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageWay {
    /// The clock of the task at the begin of the way.
    pub clock: String,
    /// The jobs of that task.
    pub spans: JobSpans,
    /// The shortest time from the begin of such a job to the arrival of the message.
    pub least: Duration,
    /// The longest time from the latest end of such a job to the arrival of the message.
    pub most: Duration,
}

/// A topic at which messages of others meet those of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedTopic {
    /// The shortest time from the begin of a job of the last task of the chain with a clock to the arrival of its message.
    pub own_least: Duration,
    /// The shortest time from the begin of a job of the reader to its end.
    pub reader_least: Duration,
    /// The other messages.
    pub others: Vec<MessageWay>,
}

/// A task with a clock, and the jobs of a hyperperiod.
struct ClockedTask<'a> {
    /// The place in the chain.
    at: usize,
    spans: &'a JobSpans,
    /// The number of jobs.
    count: i128,
}

/// The longest reaction time of a chain whose readers, by their places in the chain, may find messages of others; `None` where
/// the tasks are not on one clock, the hyperperiod has too many jobs, or others may displace the data of the chain for ever.
///
/// For each job, the oldest data of the chain that it may have: those of the last message that certainly has come, or of later
/// ones that may have. Where a message of others may have come after these, the job may have none. A cause is in effect at the
/// latest end of the first job of the last task that certainly has data of a later job of the first one.
pub fn displaced_reaction(
    stages: &[ChainStage],
    merged: &BTreeMap<usize, MergedTopic>,
) -> Option<Duration> {
    let tasks = clocked_tasks(stages, merged)?;
    let (first, last) = (tasks.first()?, tasks.last()?);
    let mut sources: Vec<Option<i128>> = (0..first.count).map(Some).collect();
    for pair in tasks.windows(2) {
        let reading = SourceReading {
            stages,
            publisher: &pair[0],
            reader: &pair[1],
            merged: merged.get(&pair[1].at),
            sources: &sources,
            cycle: first.count,
        };
        sources = (0..pair[1].count).map(|job| reading.source(job)).collect();
    }
    let outputs = guaranteed_outputs(&sources, first.count);
    let tail_ns = released_ns(&stages[last.at + 1..]);
    let reactions = (0..first.count).map(|job| {
        let next = outputs.partition_point(|(source, _)| *source < job);
        let (_, output) = outputs.get(next)?;
        Some(last.spans.job(*output).end_ns + tail_ns - first.spans.job(job - 1).begin_ns)
    });
    let reactions = reactions.collect::<Option<Vec<i128>>>()?;
    let longest_ns = reactions.into_iter().max()?;
    Some(Duration::from_nanos(u64::try_from(longest_ns).ok()?))
}

/// The time without messages of others that is enough for a reader to find data of the chain after each of them: the next job of
/// the chain in front, its way, and the next job of the reader. `None` where the reader or the chain in front has no clock.
///
/// Where two messages of others are further apart than that, a cause whose message is displaced waits this time longer at most,
/// in any phase of the tasks to each other.
pub fn lull(stages: &[ChainStage], reader: usize) -> Option<Duration> {
    let taking = stages.get(reader)?;
    let has_clock = |stage: &ChainStage| stage.trigger.longest_gap().is_some();
    let head = stages[..reader].iter().rposition(has_clock)?;
    let way = stages[head..reader].iter().enumerate();
    let way = way.flat_map(|(index, stage)| {
        let transport = if index == 0 {
            Duration::ZERO
        } else {
            stage.transport
        };
        [transport, stage.response]
    });
    let rest = [
        stages[head].trigger.longest_gap()?,
        taking.transport,
        taking.trigger.longest_gap()?,
        taking.response,
    ];
    way.chain(rest)
        .try_fold(Duration::ZERO, Duration::checked_add)
}

/// The tasks of a chain with clocks, in their order.
fn clocked_tasks<'a>(
    stages: &'a [ChainStage],
    merged: &BTreeMap<usize, MergedTopic>,
) -> Option<Vec<ClockedTask<'a>>> {
    let mut clocks = Vec::new();
    let mut tasks = Vec::new();
    for (at, stage) in stages.iter().enumerate() {
        match &stage.trigger {
            StageTrigger::Clocked { clock, spans, .. } => {
                clocks.push(clock);
                tasks.push(ClockedTask {
                    at,
                    spans,
                    count: 0,
                });
            }
            StageTrigger::Spaced { .. } => return None,
            StageTrigger::Released => {}
        }
    }
    let others: Vec<&MessageWay> = merged.values().flat_map(|topic| &topic.others).collect();
    clocks.extend(others.iter().map(|way| &way.clock));
    if tasks.first()?.at != 0 || clocks.windows(2).any(|pair| pair[0] != pair[1]) {
        return None;
    }
    let own = tasks.iter().map(|task| task.spans);
    let cycles = own.chain(others.iter().map(|way| &way.spans));
    let cycles = cycles.map(|spans| u128::from(spans.cycle().as_nanos()));
    let hyperperiod = u64::try_from(cycles.fold(1, lcm)).ok()?;
    for task in &mut tasks {
        let cycles = i128::from(hyperperiod / task.spans.cycle().as_nanos());
        task.count = cycles * task.spans.jobs().len() as i128;
        if task.count > MOST_JOBS {
            return None;
        }
    }
    Some(tasks)
}

/// The longest time that messages take through tasks which they release.
fn released_ns(stages: &[ChainStage]) -> i128 {
    let each = stages.iter().map(|stage| {
        i128::from(stage.transport.as_nanos()) + i128::from(stage.response.as_nanos())
    });
    each.sum()
}

/// The reading of a topic between two tasks with clocks.
struct SourceReading<'a> {
    stages: &'a [ChainStage],
    publisher: &'a ClockedTask<'a>,
    reader: &'a ClockedTask<'a>,
    merged: Option<&'a MergedTopic>,
    /// The oldest data that each job of the publisher may have, as the job of the first task with that measurement.
    sources: &'a [Option<i128>],
    /// The jobs of the first task in a hyperperiod.
    cycle: i128,
}

impl SourceReading<'_> {
    /// The oldest data that a job of the reader may have; `None` where it may have none of the chain.
    fn source(&self, number: i128) -> Option<i128> {
        let job = self.reader.spans.job(number);
        let reader_least = self
            .merged
            .map_or(Duration::ZERO, |topic| topic.reader_least);
        let latest_begin_ns = job
            .begin_ns
            .max(job.end_ns - i128::from(reader_least.as_nanos()));
        let stage = &self.stages[self.reader.at];
        let between = &self.stages[self.publisher.at + 1..self.reader.at];
        let way_ns = released_ns(between) + i128::from(stage.transport.as_nanos());
        let spans = self.publisher.spans;
        let mut message = spans.last(job.begin_ns, |sent| {
            sent.end_ns + way_ns <= job.begin_ns
                || stage.yields_to_previous && sent.arrival_ns <= job.arrival_ns
        });
        let own_least = self.merged.map_or(Duration::ZERO, |topic| topic.own_least);
        let earliest_ns = |sent: PlacedJob| sent.begin_ns + i128::from(own_least.as_nanos());
        let since_ns = earliest_ns(spans.job(message));
        if self.may_displace(since_ns, latest_begin_ns) {
            return None;
        }
        let mut oldest = self.source_of(message)?;
        message += 1;
        while earliest_ns(spans.job(message)) <= latest_begin_ns {
            oldest = oldest.min(self.source_of(message)?);
            message += 1;
        }
        Some(oldest)
    }

    /// The oldest data that any job of the publisher may have.
    fn source_of(&self, number: i128) -> Option<i128> {
        let cycles = number.div_euclid(self.publisher.count);
        let within = usize::try_from(number.rem_euclid(self.publisher.count)).ok()?;
        Some(self.sources[within]? + cycles * self.cycle)
    }

    /// Whether a message of others may come between two instants.
    fn may_displace(&self, from_ns: i128, until_ns: i128) -> bool {
        let mut others = self.merged.iter().flat_map(|topic| &topic.others);
        others.any(|way| {
            let least_ns = i128::from(way.least.as_nanos());
            let last = way
                .spans
                .last(until_ns, |sent| sent.begin_ns + least_ns <= until_ns);
            // Latest arrivals rise from job to job, so that only this one counts.
            way.spans.job(last).end_ns + i128::from(way.most.as_nanos()) >= from_ns
        })
    }
}

/// The jobs of the last task that certainly have data of the chain, by their data, for the jobs of the first task in a
/// hyperperiod: each with the first job of the last task that certainly has these data or later ones.
fn guaranteed_outputs(sources: &[Option<i128>], cycle: i128) -> Vec<(i128, i128)> {
    let count = sources.len() as i128;
    let mut outputs = Vec::new();
    for (number, source) in (0..).zip(sources) {
        let Some(source) = source else { continue };
        let cycles = -source.div_euclid(cycle);
        for later in [0, 1] {
            outputs.push((
                source + (cycles + later) * cycle,
                number + (cycles + later) * count,
            ));
        }
    }
    outputs.sort_unstable();
    let mut soonest = i128::MAX;
    for (_, output) in outputs.iter_mut().rev() {
        soonest = soonest.min(*output);
        *output = soonest;
    }
    outputs
}
