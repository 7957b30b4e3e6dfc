//! Estimated laws of the data age and the reaction time of a chain.
//!
//! Where [`bound`](super::bound) says what is never exceeded, the estimate says how often which time comes. The chain is cut in
//! front of each task with a clock of its own. From a release of such a task, point masses pass through the tasks that messages
//! release behind it: each adds the law of its execution time within the times that are open to it, and each transport the law
//! of its delay. The law of a segment depends on the release's phase in the cycle of these open times alone.
//!
//! - *Reaction time*: a cause right after a job of the first task has begun is in the message of the next job. At each reader, the
//!   first job that begins at or after the arrival of a message passes it on.
//! - *Data age*: backwards from each output. A reader has the message of job n if that has come, and those of later jobs have
//!   not; the age ends with the next output.
//!
//! All jobs of a hyperperiod count alike. Of a sporadic task, the phase is any with the same probability, and the gaps are those of a
//! stationary renewal process: of one that reads, the next job comes after as long a time as has passed since the last one. A
//! jitter delays each job by a time of its own. Where tasks have a jitter, or read at sporadic times, job chains are drawn from
//! these laws (`drawn_chains`), and where none do, point masses are all of them. Where topics of the chain have other publishers, jobs of these are
//! drawn, too (`merged_chains`).

mod delay_law;
mod drawn_chains;
mod merged_chains;
mod open_time;
mod point_masses;
mod segment;

use std::collections::BTreeMap;

use num_integer::lcm;
use tailbound_distribution::{StepCdf, StepCdfError};
use tailbound_time::Duration;

pub use delay_law::DelayLaw;
pub use drawn_chains::{DRAWN_CHAINS, DRAWN_ERROR};
pub use merged_chains::{MergedEstimate, OtherWay, estimate_merged};
pub use open_time::{OpenTime, PeriodicWork};
use point_masses::{PointMasses, WeightedTimes};
use segment::{ChainSegment, SegmentClock, segments};

/// The most jobs of a hyperperiod that are followed.
const MOST_JOBS: i128 = 4096;

/// The phases of a sporadic first task in each cycle of its segment.
const PHASES: i128 = 256;

/// The weight of a job chain that is left out.
const NEGLIGIBLE: f64 = 1e-12;

/// The fractional part of the golden ratio, whose multiples are even over any cycle.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// How the laws of a chain come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EstimateMethod {
    /// Point masses pass through the jobs of a hyperperiod.
    PointMasses,
    /// [`DRAWN_CHAINS`] job chains are drawn: tasks have a jitter, or read at sporadic times.
    DrawnChains,
    /// So many courses of the jobs of the chain and of other publishers are drawn around outputs, and around causes.
    MergedChains,
}

impl EstimateMethod {
    /// The name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Self::PointMasses => {
                "point masses through the jobs of a hyperperiod, cut at tasks with clocks"
            }
            Self::DrawnChains => {
                "job chains drawn at even parts of a hyperperiod, cut at tasks with clocks"
            }
            Self::MergedChains => {
                "jobs of the chain and of other publishers drawn around even parts of a hyperperiod"
            }
        }
    }
}

/// The assumptions of both methods.
pub const ASSUMPTIONS: [&str; 4] = [
    "all hosts have one clock, on which releases and windows lie as described",
    "execution times and transport delays are independent of each other",
    "no job waits for an earlier one of its own task",
    "no message is lost, turned away by a contract, or too old",
];

/// A task of a chain with the laws of its delays.
#[derive(Clone, Debug, PartialEq)]
pub struct EstimatedStage {
    /// How the jobs of the task come.
    pub release: JobRelease,
    /// The longest time from the arrival of a job to its readiness, any of which has the same probability; of a task with a clock.
    pub jitter: Duration,
    /// The times at which the task can run.
    pub open: OpenTime,
    /// The law of its execution times.
    pub execution: DelayLaw,
    /// The law of the transport to here; without a meaning for the first task.
    pub delay: DelayLaw,
}

impl EstimatedStage {
    /// Whether no job is ready before the one in front of it, whatever their jitter.
    fn keeps_order(&self) -> bool {
        match self.release {
            JobRelease::Periodic { period, .. } => self.jitter <= period,
            JobRelease::Sporadic { .. } | JobRelease::Message => self.jitter.is_zero(),
        }
    }
}

/// How the jobs of a task come, with the laws of their distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobRelease {
    /// At an offset, and every period after it.
    Periodic {
        /// The distance of releases.
        period: Duration,
        /// A release.
        offset: Duration,
    },
    /// At distances drawn evenly between two.
    Sporadic {
        /// The least distance.
        least_gap: Duration,
        /// The longest distance.
        longest_gap: Duration,
    },
    /// At each message.
    Message,
}

/// The estimated laws of a chain.
#[derive(Clone, Debug, PartialEq)]
pub struct ChainEstimate {
    /// The data age, up to the end of the output after.
    pub data_age: StepCdf,
    /// The data age when the output appears: the end-to-end latency where messages release every task.
    pub data_age_at_output: StepCdf,
    /// The reaction time to a cause right after a job of the first task has begun.
    pub reaction_time: StepCdf,
    /// How they come about.
    pub method: EstimateMethod,
    /// Whether some jobs of the hyperperiod stand for all, where point masses pass through them.
    pub is_sampled: bool,
}

/// Why a chain has no estimate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// The first task waits for messages.
    #[error("the first task of the chain has no clock of its own")]
    NoClock,
    /// Jobs could overtake each other.
    #[error(
        "jobs of a task with jitter are no further apart than it, or sporadic, or released by messages"
    )]
    Jitter,
    /// The times do not fit into 64 bits of nanoseconds.
    #[error("the hyperperiod of the chain is beyond all times")]
    Hyperperiod,
    /// Messages of others displace nearly all data of the chain.
    #[error(
        "messages of other publishers displace the data of the chain in more than 99% of its outputs"
    )]
    Displaced,
    /// No time.
    #[error("the laws of the chain are empty")]
    Empty,
}

impl From<StepCdfError> for EstimateError {
    fn from(_: StepCdfError) -> Self {
        Self::Empty
    }
}

/// The laws of the data age and the reaction time of a chain.
///
/// # Errors
/// The chain does not begin at a task with a clock, has a jitter that is too long, or a hyperperiod that is too long.
pub fn estimate(stages: &[EstimatedStage]) -> Result<ChainEstimate, EstimateError> {
    if !stages.iter().all(EstimatedStage::keeps_order) {
        return Err(EstimateError::Jitter);
    }
    let course = ChainCourse::of(stages)?;
    let is_sporadic =
        |segment: &ChainSegment<'_>| matches!(segment.clock, SegmentClock::Sporadic { .. });
    let has_jitter = stages.iter().any(|stage| !stage.jitter.is_zero());
    match has_jitter || course.segments.iter().skip(1).any(is_sporadic) {
        true => course.drawn(),
        false => course.followed(),
    }
}

/// The least common multiple of cycles.
fn common_cycle(cycles: impl Iterator<Item = i64>) -> Result<i64, EstimateError> {
    let mut common = 1_i128;
    for cycle in cycles {
        common = lcm(common, i128::from(cycle));
        // Sums of a few hyperperiods stay within 64 bits.
        if common > i128::from(i64::MAX / 4) {
            return Err(EstimateError::Hyperperiod);
        }
    }
    i64::try_from(common).map_err(|_| EstimateError::Hyperperiod)
}

/// The end of a data age.
#[derive(Clone, Copy, PartialEq, Eq)]
enum AgeEnd {
    /// The output with the data.
    Output,
    /// The output that replaces it.
    NextOutput,
}

struct ChainCourse<'a> {
    segments: Vec<ChainSegment<'a>>,
    hyperperiod_ns: i64,
}

impl<'a> ChainCourse<'a> {
    fn of(stages: &'a [EstimatedStage]) -> Result<Self, EstimateError> {
        let segments = segments(stages)?;
        let cycles = segments.iter().map(|segment| segment.cycle_ns);
        let periods = segments.iter().filter_map(|segment| match segment.clock {
            SegmentClock::Periodic { period_ns, .. } => Some(period_ns),
            SegmentClock::Sporadic { .. } => None,
        });
        Ok(Self {
            hyperperiod_ns: common_cycle(cycles.chain(periods))?,
            segments,
        })
    }

    /// The laws by point masses, of a chain in which periods or messages decide when all jobs behind the first one come.
    fn followed(&self) -> Result<ChainEstimate, EstimateError> {
        let (reaction_time, few) = self.reaction_times()?;
        let (data_age_at_output, few_outputs) = self.data_ages(AgeEnd::Output)?;
        let (data_age, _) = match self.segments.len() {
            // Each job of the first task has an output of its own, so that the first output with later data is the next one.
            1 => (reaction_time.clone(), few),
            _ => self.data_ages(AgeEnd::NextOutput)?,
        };
        Ok(ChainEstimate {
            data_age,
            data_age_at_output,
            reaction_time,
            method: EstimateMethod::PointMasses,
            is_sampled: few || few_outputs,
        })
    }

    /// Releases of a segment's clock that stand for all of a hyperperiod, and whether they are some of many.
    fn releases(&self, segment: &ChainSegment<'_>) -> (Vec<i64>, bool) {
        match segment.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let all = i128::from(self.hyperperiod_ns / period_ns);
                let count = all.min(MOST_JOBS);
                let numbers = (0..count).map(|index| index * all / count);
                let releases = numbers.map(|number| {
                    // Below the hyperperiod, and so within 64 bits.
                    offset_ns + (number * i128::from(period_ns)) as i64
                });
                (releases.collect(), all > count)
            }
            SegmentClock::Sporadic { .. } => {
                let wanted = PHASES * i128::from(self.hyperperiod_ns / segment.cycle_ns);
                let count = wanted.min(MOST_JOBS);
                let length = self.hyperperiod_ns as f64;
                let share = |index: i128| match wanted == count {
                    true => (index as f64 + 0.5) / count as f64,
                    false => (index as f64 * GOLDEN).fract(),
                };
                let releases = (0..count).map(|index| (share(index) * length) as i64);
                (releases.collect(), wanted > count)
            }
        }
    }

    /// From the begin of a job of the first task to the first output with data of the next one.
    fn reaction_times(&self) -> Result<(StepCdf, bool), EstimateError> {
        let first = &self.segments[0];
        let (releases, few) = self.releases(first);
        let gaps = first.gaps();
        let mut times = WeightedTimes::default();
        for release in releases {
            let ends = self.outputs_after(release);
            for (gap, share) in &gaps {
                let cause = first.begin(release - gap);
                for (end, mass) in ends.points() {
                    times.push(end - cause, mass * share);
                }
            }
        }
        Ok((times.law()?, few))
    }

    /// The law of the end of the first output with the data of a job of the first task, or with later data.
    fn outputs_after(&self, release_ns: i64) -> PointMasses {
        let mut heads = BTreeMap::from([(release_ns, 1.0)]);
        for pair in self.segments.windows(2) {
            let mut readers = BTreeMap::new();
            for (release, weight) in heads {
                for (passed, mass) in pair[0].outcome(release).points() {
                    let reader = pair[1].reader(release + passed);
                    *readers.entry(reader).or_default() += weight * mass;
                }
            }
            readers.retain(|_, weight| *weight > NEGLIGIBLE);
            heads = readers;
        }
        let mut ends = Vec::new();
        for (release, weight) in heads {
            let last = self.segments.last().map(|last| last.outcome(release));
            for (passed, mass) in last.iter().flat_map(|outcome| outcome.points()) {
                ends.push((release + passed, weight * mass));
            }
        }
        PointMasses::gathered(ends)
    }

    /// From the begin of the job of the first task whose data an output has to the end of that output, or of the next one.
    fn data_ages(&self, until: AgeEnd) -> Result<(StepCdf, bool), EstimateError> {
        let mut times = WeightedTimes::default();
        let Some(last) = self.segments.last() else {
            return Err(EstimateError::NoClock);
        };
        let (releases, few) = self.releases(last);
        let later = match until {
            AgeEnd::Output => vec![(0, 1.0)],
            AgeEnd::NextOutput => last.gaps(),
        };
        for release in releases {
            let sources = self.sources(last.begin(release));
            for (gap, share) in &later {
                let next = release + gap;
                for (passed, mass) in last.outcome(next).points() {
                    for (begin, weight) in sources.points() {
                        times.push(next + passed - begin, share * mass * weight);
                    }
                }
            }
        }
        Ok((times.law()?, few))
    }

    /// The begins of the jobs of the first task whose data a job of the last segment's head has that begins at `at_ns`.
    fn sources(&self, at_ns: i64) -> PointMasses {
        let mut readers = BTreeMap::from([(at_ns, 1.0)]);
        let before_last = self.segments.len() - 1;
        for segment in self.segments[..before_last].iter().rev() {
            let mut publishers = BTreeMap::new();
            for (at, weight) in readers {
                for (release, share) in segment.newest(at) {
                    let begin = segment.begin(release);
                    *publishers.entry(begin).or_default() += weight * share;
                }
            }
            publishers.retain(|_, weight| *weight > NEGLIGIBLE);
            readers = publishers;
        }
        PointMasses::gathered(readers.into_iter().collect())
    }
}

#[cfg(test)]
mod tests;
