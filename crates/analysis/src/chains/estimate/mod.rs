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
//! jitter delays each job by a time of its own.

mod open_time;
mod point_masses;
mod segment;

use std::collections::BTreeMap;

use num_integer::lcm;
use tailbound_distribution::{StepCdf, StepCdfError};
use tailbound_time::Duration;

pub use open_time::{OpenTime, PeriodicWork};
pub use point_masses::PointMasses;
use point_masses::{WeightedTimes, signed};
use segment::{ChainSegment, SegmentClock, segments};

/// The most jobs of a hyperperiod that are followed.
const MOST_JOBS: i128 = 4096;

/// The phases of a sporadic task in each cycle of its segment.
const PHASES: i128 = 256;

/// The most phases of a sporadic task behind readers.
const MOST_PHASES: i128 = 1024;

/// The most points of a law that jobs are followed from or to, where chance decides when jobs come.
const MOST_FOLLOWED: usize = 192;

/// The weight of a job chain that is left out.
const NEGLIGIBLE: f64 = 1e-12;

/// The fractional part of the golden ratio, whose multiples are even over any cycle.
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The name of the method.
pub const ESTIMATE: &str =
    "point masses through the jobs of a hyperperiod, cut at tasks with clocks";

/// The assumptions of the method.
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
    /// The law of the time from the arrival of a job to its readiness; of a task with a clock.
    pub readiness: PointMasses,
    /// The times at which the task can run.
    pub open: OpenTime,
    /// The law of its execution times.
    pub execution: PointMasses,
    /// The law of the transport to here; without a meaning for the first task.
    pub delay: PointMasses,
}

impl EstimatedStage {
    /// Whether no job is ready before the one in front of it, whatever their jitter.
    fn keeps_order(&self) -> bool {
        let points = self.readiness.points();
        let latest = points.last().map_or(0, |(after, _)| *after);
        match self.release {
            JobRelease::Periodic { period, .. } => latest <= signed(period),
            JobRelease::Sporadic { .. } | JobRelease::Message => latest == 0,
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
    /// Whether some jobs of the hyperperiod stand for all.
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
    let segments = segments(stages)?;
    let cycles = segments.iter().map(|segment| segment.cycle_ns);
    let periods = segments.iter().filter_map(|segment| match segment.clock {
        SegmentClock::Periodic { period_ns, .. } => Some(period_ns),
        SegmentClock::Sporadic { .. } => None,
    });
    let hyperperiod_ns = common_cycle(cycles.chain(periods))?;
    let course = ChainCourse {
        hyperperiod_ns,
        segments,
    };
    let (reaction_time, few) = course.reaction_times()?;
    let (data_age_at_output, few_outputs) = course.data_ages(AgeEnd::Output)?;
    let (data_age, _) = match course.segments.len() {
        // Each job of the first task has an output of its own, so that the first output with later data is the next one.
        1 => (reaction_time.clone(), few),
        _ => course.data_ages(AgeEnd::NextOutput)?,
    };
    Ok(ChainEstimate {
        data_age,
        data_age_at_output,
        reaction_time,
        is_sampled: few || few_outputs,
    })
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

impl ChainCourse<'_> {
    /// Releases of a segment's clock that stand for all of a hyperperiod, and whether they are some of many.
    fn releases(&self, segment: &ChainSegment<'_>) -> (Vec<i64>, bool) {
        match segment.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let all = i128::from(self.hyperperiod_ns / period_ns);
                let most = MOST_JOBS / segment.ready_count().max(1) as i128;
                let count = all.min(most);
                let numbers = (0..count).map(|index| index * all / count);
                let releases = numbers.map(|number| {
                    // Below the hyperperiod, and so within 64 bits.
                    offset_ns + (number * i128::from(period_ns)) as i64
                });
                (releases.collect(), all > count)
            }
            SegmentClock::Sporadic { .. } => {
                let wanted = PHASES * i128::from(self.hyperperiod_ns / segment.cycle_ns);
                let count = wanted.min(match self.segments.len() {
                    1 => MOST_JOBS,
                    _ => MOST_PHASES,
                });
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
            let ends = self.outputs_after(first.ready(release).collect());
            for (gap, share) in &gaps {
                for (ready, part) in first.ready(release - gap) {
                    let cause = first.begin(ready);
                    for (end, mass) in ends.points() {
                        times.push(end - cause, mass * share * part);
                    }
                }
            }
        }
        Ok((times.law()?, few))
    }

    /// The law of the end of the first output with the data of a job of the first task that is ready at these instants, or with
    /// later data.
    fn outputs_after(&self, mut heads: Vec<(i64, f64)>) -> PointMasses {
        for pair in self.segments.windows(2) {
            let mut arrivals = arrivals(&pair[0], &heads);
            if matches!(pair[1].clock, SegmentClock::Sporadic { .. }) {
                // No arrival is at a boundary between two readers.
                arrivals = PointMasses::joined(arrivals, MOST_FOLLOWED)
                    .points()
                    .to_vec();
            }
            let mut readers: BTreeMap<i64, f64> = BTreeMap::new();
            for (arrival, weight) in arrivals {
                for (ready, share) in pair[1].readers(arrival) {
                    *readers.entry(ready).or_default() += weight * share;
                }
            }
            heads = followed(readers, &pair[1]);
        }
        let last = self.segments.last();
        let ends = last.map_or_else(Vec::new, |last| arrivals(last, &heads));
        PointMasses::gathered(ends)
    }

    /// From the begin of the job of the first task whose data an output has to the end of that output, or of the next one.
    fn data_ages(&self, until: AgeEnd) -> Result<(StepCdf, bool), EstimateError> {
        let mut times = WeightedTimes::default();
        let Some(last) = self.segments.last() else {
            return Err(EstimateError::NoClock);
        };
        let (releases, few) = self.releases(last);
        for release in releases {
            match until {
                AgeEnd::Output => {
                    for (ready, part) in last.ready(release) {
                        let sources = self.sources(last.begin(ready));
                        for (passed, mass) in last.outcome(ready).points() {
                            for (begin, weight) in sources.points() {
                                times.push(ready + passed - begin, part * mass * weight);
                            }
                        }
                    }
                }
                AgeEnd::NextOutput => {
                    let mut sources = Vec::new();
                    for (ready, part) in last.ready(release) {
                        let own = self.sources(last.begin(ready));
                        let own = own.points().iter();
                        sources.extend(own.map(|(begin, weight)| (*begin, part * weight)));
                    }
                    let ends = self.next_outputs(last, release);
                    for (begin, weight) in PointMasses::gathered(sources).points() {
                        for (end, mass) in ends.points() {
                            times.push(end - begin, mass * weight);
                        }
                    }
                }
            }
        }
        Ok((times.law()?, few))
    }

    /// The law of the end of the output of the job behind the one of a release.
    fn next_outputs(&self, last: &ChainSegment<'_>, release_ns: i64) -> PointMasses {
        let gaps = last.gaps().into_iter();
        let heads = gaps.flat_map(|(gap, share)| {
            let ready = last.ready(release_ns + gap);
            ready.map(move |(ready, part)| (ready, share * part))
        });
        let ends = arrivals(last, &heads.collect::<Vec<_>>());
        match last.is_random() {
            true => PointMasses::joined(ends, MOST_FOLLOWED),
            false => PointMasses::gathered(ends),
        }
    }

    /// The begins of the jobs of the first task whose data a job of the last segment's head has that begins at `at_ns`.
    fn sources(&self, at_ns: i64) -> PointMasses {
        let mut readers = vec![(at_ns, 1.0)];
        let before_last = self.segments.len() - 1;
        for (place, segment) in self.segments[..before_last].iter().enumerate().rev() {
            let mut publishers: BTreeMap<i64, f64> = BTreeMap::new();
            for (at, weight) in readers {
                for (ready, share) in segment.newest(at) {
                    let begin = segment.begin(ready);
                    *publishers.entry(begin).or_default() += weight * share;
                }
            }
            readers = match place {
                0 => publishers.into_iter().collect(),
                _ => followed(publishers, segment),
            };
        }
        PointMasses::gathered(readers)
    }
}

/// The instants at which messages of jobs that are ready at `heads` arrive behind a segment, or their outputs appear.
fn arrivals(segment: &ChainSegment<'_>, heads: &[(i64, f64)]) -> Vec<(i64, f64)> {
    let mut arrivals = Vec::new();
    for (ready, weight) in heads {
        let outcome = segment.outcome(*ready);
        let points = outcome.points().iter();
        arrivals.extend(points.map(|(passed, mass)| (ready + passed, weight * mass)));
    }
    arrivals
}

/// The instants of a segment's jobs that are followed on: those that matter, joined where chance decides when they are.
fn followed(mut instants: BTreeMap<i64, f64>, segment: &ChainSegment<'_>) -> Vec<(i64, f64)> {
    instants.retain(|_, weight| *weight > NEGLIGIBLE);
    let instants: Vec<(i64, f64)> = instants.into_iter().collect();
    match segment.is_random() {
        true => PointMasses::joined(instants, MOST_FOLLOWED)
            .points()
            .to_vec(),
        false => instants,
    }
}

#[cfg(test)]
mod tests;
