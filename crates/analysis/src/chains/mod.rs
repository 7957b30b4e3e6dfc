//! Cause-effect chains: bounds on data age and reaction time from task to task.
//!
//! A task of a chain either reads the newest message at the beginning of each job, or each message releases a job of it; it
//! publishes at the end of the job (implicit communication). The **reaction time** counts from a cause to the end of the first
//! job of the last task whose output takes the cause into account; the **data age** counts from the beginning of the job that
//! measured to the end of the last moment at which an output with that measurement holds.
//!
//! Both have the same least upper bound, so one bound serves both (Günzel, Teper, Chen, von der Brüggen and Chen, *On the
//! Equivalence of Maximum Reaction Time and Maximum Data Age for Cause-Effect Chains*, ECRTS 2023): the output with a
//! measurement holds until the first output with a later one, which is the first effect of a cause right after the
//! measurement. It takes for granted that data never become older along the chain: no message is lost, and a reader keeps
//! the newer of two messages. Where other publishers of a topic may displace the messages of the chain, the bound is one on the
//! data age alone, and [`displaced_reaction`] or [`lull`] bound the reaction time.
//!
//! [`bound`] takes the least of three answers for each part of a chain:
//!
//! - *any phase*: a job waits for the next one up to the longest distance of jobs, and is done within its response time
//!   (Davare, Zhu, Di Natale, Pinello, Kanajan and Sangiovanni-Vincentelli, *Period Optimization for Hard Real-time Distributed
//!   Automotive Systems*, DAC 2007). The baseline of the comparison.
//! - *any phase, by priorities*: a reader of lower priority on the same virtual CPU cannot begin while the job that it waits
//!   for is pending (Dürr, von der Brüggen, Chen and Chen, *End-to-End Timing Analysis of Sporadic Cause-Effect Chains in
//!   Distributed Systems*, TECS 18(5s), 2019).
//! - *stepped*: on one clock with given offsets, every job chain of a hyperperiod, each job reading no sooner than it can begin
//!   and publishing no later than it can end ([`JobSpans`]; immediate forward job chains, Günzel, Chen, Ueter, von der
//!   Brüggen, Dürr and Chen, *Timing Analysis of Asynchronized Distributed Cause-Effect Chains*, RTAS 2021). Where the
//!   clocks of two hosts have nothing to do with each other the chain is cut, and the parts add up (the same paper).

mod displacement;
pub mod estimate;
mod hops;
mod job_chains;
mod job_spans;
mod partition_schedule;

use serde::Serialize;
use tailbound_time::{Duration, nanoseconds};

pub use displacement::{
    GUARANTEED_SOURCES, LULLS, MergedTopic, MessageWay, displaced_reaction, lull,
};
pub use job_spans::{JobSpan, JobSpans};
pub use partition_schedule::{PartitionTask, partition_schedule};

/// A task of a chain with what delays data at it.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainStage {
    /// The task.
    pub name: String,
    /// The topic by which data come here; empty for the first task.
    pub topic: String,
    /// The longest time that the transport takes to here; zero for the first task.
    pub transport: Duration,
    /// The longest time from the arrival of a job to its end.
    pub response: Duration,
    /// How the jobs of the task come.
    pub trigger: StageTrigger,
    /// Whether a job cannot begin while a job of the task in front, which arrived no later, is pending: both are on one
    /// virtual CPU under fixed priorities, the task in front has the higher one and no jitter, and no transport is between.
    pub yields_to_previous: bool,
}

/// How the jobs of a task come.
#[derive(Clone, Debug, PartialEq)]
pub enum StageTrigger {
    /// On a clock, at known times.
    Clocked {
        /// The clock; times on two clocks say nothing about each other.
        clock: String,
        /// The longest distance of two jobs.
        period: Duration,
        /// The times of the jobs.
        spans: JobSpans,
    },
    /// At unknown times, two in a row at most this far apart.
    Spaced {
        /// The longest distance.
        longest_gap: Duration,
    },
    /// At each message of the topic.
    Released,
}

impl StageTrigger {
    /// The longest distance of two jobs of a task that does not wait for messages.
    fn longest_gap(&self) -> Option<Duration> {
        match self {
            Self::Clocked { period, .. } => Some(*period),
            Self::Spaced { longest_gap } => Some(*longest_gap),
            Self::Released => None,
        }
    }
}

/// A bound on the data age and the reaction time of a chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainBound {
    /// The bound.
    #[serde(rename = "bound_ns", with = "nanoseconds")]
    pub bound: Duration,
    /// The same by the periods and response times alone (Davare et al. 2007).
    #[serde(rename = "baseline_ns", with = "nanoseconds")]
    pub baseline: Duration,
    /// The parts of the bound, in the order of the chain; they add up to it.
    pub parts: Vec<ChainPart>,
    /// The theorems by which it holds.
    pub methods: Vec<&'static str>,
}

/// A part of a bound.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainPart {
    /// What passes the time.
    pub kind: PartKind,
    /// The task, or the topic of a transport.
    pub at: String,
    /// Its length.
    #[serde(rename = "length_ns", with = "nanoseconds")]
    pub length: Duration,
}

/// What passes the time of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// Data wait for the next job of the task.
    Wait,
    /// The job is released, runs and publishes.
    Response,
    /// The message is under way.
    Transport,
}

/// The name of the baseline.
pub const BASELINE: &str = "sum of periods and response times (Davare et al. 2007)";
/// The name of the rule of priorities.
pub const BY_PRIORITIES: &str = "readers below their publisher's priority (Dürr et al. 2019)";
/// The name of the stepped bound.
pub const STEPPED: &str =
    "every job chain of a hyperperiod on one clock (Günzel et al. 2021), releases at their offsets";
/// The name of the cut between clocks.
pub const CUT: &str = "parts on different clocks add up (Günzel et al. 2021)";

/// The least bound of these methods on the data age and the reaction time of a chain; `None` without a task, where the first
/// task waits for messages, or beyond all durations.
pub fn bound(stages: &[ChainStage]) -> Option<ChainBound> {
    let baseline = hops::sum(stages, false)?.0;
    let mut parts = Vec::new();
    let mut methods = Vec::new();
    let mut note = |method: &'static str| {
        if !methods.contains(&method) {
            methods.push(method);
        }
    };
    let segments = segments(stages);
    for (index, segment) in segments.iter().enumerate() {
        if index > 0 {
            note(CUT);
            let first = segment.first()?;
            if !first.transport.is_zero() {
                parts.push(ChainPart::of(
                    PartKind::Transport,
                    &first.topic,
                    first.transport,
                ));
            }
        }
        let (by_hops, of_hops) = hops::sum(segment, true)?;
        match job_chains::step(segment) {
            Some((stepped, of_steps)) if stepped <= by_hops => {
                note(STEPPED);
                parts.extend(of_steps);
            }
            _ => {
                let uses_priorities = segment.iter().skip(1).any(|stage| stage.yields_to_previous);
                note(if uses_priorities {
                    BY_PRIORITIES
                } else {
                    BASELINE
                });
                parts.extend(of_hops);
            }
        }
    }
    let lengths = parts.iter().map(|part| part.length);
    let bound = lengths.fold(Duration::ZERO, Duration::saturating_add);
    Some(ChainBound {
        bound,
        baseline,
        parts,
        methods,
    })
}

impl ChainPart {
    fn of(kind: PartKind, at: &str, length: Duration) -> Self {
        Self {
            kind,
            at: at.to_owned(),
            length,
        }
    }
}

/// The chain cut in front of each task of which nothing is known relative to the task in front: another clock, or none.
fn segments(stages: &[ChainStage]) -> Vec<&[ChainStage]> {
    let mut segments = Vec::new();
    let (mut begin, mut clock) = (0, clock_of(stages.first()));
    for (index, stage) in stages.iter().enumerate().skip(1) {
        let continues = match &stage.trigger {
            StageTrigger::Released => true,
            _ if stage.yields_to_previous => true,
            StageTrigger::Clocked { clock: own, .. } => clock == Some(own),
            StageTrigger::Spaced { .. } => false,
        };
        if !continues {
            segments.push(&stages[begin..index]);
            (begin, clock) = (index, clock_of(Some(stage)));
        }
    }
    segments.push(&stages[begin..]);
    segments
}

fn clock_of(stage: Option<&ChainStage>) -> Option<&String> {
    match &stage?.trigger {
        StageTrigger::Clocked { clock, .. } => Some(clock),
        _ => None,
    }
}

#[cfg(test)]
mod displacement_tests;
#[cfg(test)]
mod tests;
