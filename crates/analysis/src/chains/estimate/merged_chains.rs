//! Job chains that are drawn where readers find messages of other publishers, too.
//!
//! A reader takes the message that came last. Whether a job has data of the chain depends on the jobs of all publishers, and the
//! first output with data of a cause on all outputs before it. So each draw is a course of all jobs around an output, or around a
//! cause: the times of a job are drawn by its number, the same whenever the course asks for them.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};

use tailbound_distribution::StepCdf;

use super::drawn_chains::{
    DRAWN_CHAINS, DRAWN_ERROR, RandomShares, drawn_gap_around, last_release,
};
use super::point_masses::WeightedTimes;
use super::segment::{ChainSegment, SegmentClock, segments};
use super::{EstimateError, EstimatedStage, common_cycle};

/// The most outputs that are searched for the data of a cause, and the most messages for one that has come.
const MOST_JOBS: i64 = 4096;

/// The least share of outputs with data of the chain: fewer say too little about their ages.
const LEAST_SHARE: f64 = 0.01;

/// The way of messages of another publisher to a topic that a task of a chain reads.
#[derive(Clone, Debug, PartialEq)]
pub struct OtherWay {
    /// The tasks: the first one has a clock, and messages release the others.
    pub stages: Vec<EstimatedStage>,
    /// Whether its message counts as the later one of two that come at once.
    pub is_later: bool,
}

/// The estimated laws of a chain whose readers find messages of other publishers, too.
#[derive(Clone, Debug, PartialEq)]
pub struct MergedEstimate {
    /// The data age of outputs with data of the chain, up to the end of the output after, whatever data that has.
    pub data_age: StepCdf,
    /// The data age when such an output appears.
    pub data_age_at_output: StepCdf,
    /// The reaction time to a cause right after a job of the first task has begun; `None` where some causes have no effect in a
    /// long time.
    pub reaction_time: Option<StepCdf>,
    /// The share of outputs with data of the chain.
    pub share: f64,
}

impl MergedEstimate {
    /// No share of a law of ages is further off than this with a probability of 99.9%. The outputs with data of the chain and an age
    /// up to a limit, and all outputs with data of the chain, are each off by [`DRAWN_ERROR`] of all outputs.
    pub fn age_error(&self) -> f64 {
        (2.0 * DRAWN_ERROR / self.share).min(1.0)
    }
}

/// The laws of a chain, and of messages of others that come to its tasks, by their places in the chain.
///
/// # Errors
/// The chain or a way does not begin at a task with a clock, has a jitter that is too long, or a hyperperiod that is too long, or
/// hardly an output has data of the chain.
pub fn estimate_merged(
    stages: &[EstimatedStage],
    others: &BTreeMap<usize, Vec<OtherWay>>,
) -> Result<MergedEstimate, EstimateError> {
    let ways = others.values().flatten();
    let mut every = stages.iter().chain(ways.flat_map(|way| &way.stages));
    if !every.all(EstimatedStage::keeps_order) {
        return Err(EstimateError::Jitter);
    }
    MergedCourse::of(stages, others)?.laws()
}

/// A segment of a chain, or of a way of others, of which jobs are drawn.
struct PublisherJobs<'a> {
    segment: ChainSegment<'a>,
    /// The sources of which messages come to the same reader, and whether theirs are the later ones of two at once.
    rivals: Vec<(usize, bool)>,
}

struct MergedCourse<'a> {
    /// The segments of the chain in their order, then those of others.
    sources: Vec<PublisherJobs<'a>>,
    /// The number of segments of the chain.
    own: usize,
    hyperperiod_ns: i64,
}

impl<'a> MergedCourse<'a> {
    fn of(
        stages: &'a [EstimatedStage],
        others: &'a BTreeMap<usize, Vec<OtherWay>>,
    ) -> Result<Self, EstimateError> {
        let own = segments(stages)?;
        let own_count = own.len();
        let mut sources: Vec<PublisherJobs<'a>> = own
            .into_iter()
            .map(|segment| PublisherJobs {
                segment,
                rivals: Vec::new(),
            })
            .collect();
        let mut end = 0;
        for index in 0..own_count {
            end += sources[index].segment.stages.len();
            for way in others.get(&end).into_iter().flatten() {
                let delay = stages.get(end).map(|reader| &reader.delay);
                let segment = ChainSegment::of(&way.stages, delay)?;
                let rival = (sources.len(), way.is_later);
                sources[index].rivals.push(rival);
                sources.push(PublisherJobs {
                    segment,
                    rivals: Vec::new(),
                });
            }
        }
        let cycles = sources.iter().map(|source| source.segment.cycle_ns);
        let periods = sources
            .iter()
            .filter_map(|source| match source.segment.clock {
                SegmentClock::Periodic { period_ns, .. } => Some(period_ns),
                SegmentClock::Sporadic { .. } => None,
            });
        Ok(Self {
            hyperperiod_ns: common_cycle(cycles.chain(periods))?,
            own: own_count,
            sources,
        })
    }

    fn laws(&self) -> Result<MergedEstimate, EstimateError> {
        let (mut ages, mut ages_at_output) = (WeightedTimes::default(), WeightedTimes::default());
        let mut reactions = WeightedTimes::default();
        let (mut with_data, mut all_react) = (0_u32, true);
        let last = self.own - 1;
        for part in 0..DRAWN_CHAINS {
            let draw = CourseDraw::new(self, u64::from(part), last);
            if let Some(job) = draw.source(last, draw.anchor) {
                with_data += 1;
                let begin = draw.job(0, job).begin_ns;
                let output = draw.job(last, draw.anchor);
                ages_at_output.push(output.end_ns - begin, 1.0);
                let next = draw.job(last, draw.anchor + 1);
                ages.push(next.end_ns - begin, 1.0);
            }
            // One cause without an effect is enough to leave reaction times out.
            if all_react {
                let draw = CourseDraw::new(self, u64::from(part + DRAWN_CHAINS), 0);
                let reaction = draw.reaction();
                all_react = reaction.is_some();
                reactions.push(reaction.unwrap_or_default(), 1.0);
            }
        }
        let share = f64::from(with_data) / f64::from(DRAWN_CHAINS);
        if share < LEAST_SHARE {
            return Err(EstimateError::Displaced);
        }
        Ok(MergedEstimate {
            data_age: ages.law()?,
            data_age_at_output: ages_at_output.law()?,
            reaction_time: all_react.then(|| reactions.law()).transpose()?,
            share,
        })
    }
}

/// Begin and end of a drawn job; the end is the arrival of its message at the reader.
#[derive(Clone, Copy)]
struct DrawnJob {
    begin_ns: i64,
    end_ns: i64,
}

/// Sporadic releases in a row.
struct ReleaseRow {
    /// The number of the first one.
    first: i64,
    releases_ns: VecDeque<i64>,
}

/// A course of all jobs around one of them.
struct CourseDraw<'a> {
    course: &'a MergedCourse<'a>,
    seed: u64,
    /// The number of the job that the course is around, which stands for a part of the hyperperiod.
    anchor: i64,
    /// The releases of each source that is sporadic, once they are asked for.
    rows: Vec<RefCell<Option<ReleaseRow>>>,
}

/// A number that each of three numbers changes in all its bits.
fn mixed(seed: u64, source: usize, number: i64) -> u64 {
    let spread = |value: u64| {
        let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        let value = (value ^ (value >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
        value ^ (value >> 32)
    };
    let by_source = spread(seed.wrapping_add(0x9e37_79b9_7f4a_7c15)) ^ source as u64;
    spread(spread(by_source).wrapping_add(number.cast_unsigned()))
}

impl<'a> CourseDraw<'a> {
    /// The course of a draw around a job of a source: that of a part of the hyperperiod.
    fn new(course: &'a MergedCourse<'a>, number: u64, around: usize) -> Self {
        let part = number % u64::from(DRAWN_CHAINS);
        let mut random = RandomShares::of(mixed(number, usize::MAX, 0));
        let share = (part as f64 + random.next()) / f64::from(DRAWN_CHAINS);
        let rows = course.sources.iter().map(|_| RefCell::new(None));
        let rows: Vec<RefCell<Option<ReleaseRow>>> = rows.collect();
        let hyperperiod_ns = course.hyperperiod_ns;
        let anchor = match course.sources[around].segment.clock {
            SegmentClock::Periodic { period_ns, .. } => {
                let all = hyperperiod_ns / period_ns;
                ((share * all as f64) as i64).min(all - 1)
            }
            SegmentClock::Sporadic { .. } => {
                let at = (share * hyperperiod_ns as f64) as i64;
                rows[around].replace(Some(ReleaseRow {
                    first: 0,
                    releases_ns: VecDeque::from([at]),
                }));
                0
            }
        };
        Self {
            course,
            seed: number,
            anchor,
            rows,
        }
    }

    fn segment(&self, source: usize) -> &ChainSegment<'a> {
        &self.course.sources[source].segment
    }

    /// The releases of a sporadic source, as far as `is_enough` wants them to both sides, beginning around `near_ns`.
    fn with_row<T>(
        &self,
        source: usize,
        near_ns: i64,
        (reaches_back, reaches_on): (impl Fn(&ReleaseRow) -> bool, impl Fn(&ReleaseRow) -> bool),
        answer: impl FnOnce(&ReleaseRow) -> T,
    ) -> T {
        let mut place = self.rows[source].borrow_mut();
        let row = place.get_or_insert_with(|| self.row_around(source, near_ns));
        let gap = |number: i64| {
            let mut random = RandomShares::of(mixed(!self.seed, source, number));
            self.segment(source).drawn_gap(&mut random).max(1)
        };
        while !reaches_back(row) {
            row.first -= 1;
            row.releases_ns
                .push_front(row.releases_ns[0] - gap(row.first));
        }
        while !reaches_on(row) {
            let last = row.last();
            let at = row.releases_ns[row.releases_ns.len() - 1];
            row.releases_ns.push_back(at + gap(last));
        }
        answer(row)
    }

    /// The two releases around an instant of a stationary renewal process.
    fn row_around(&self, source: usize, at_ns: i64) -> ReleaseRow {
        let mut random = RandomShares::of(mixed(!self.seed, source, i64::MIN));
        let SegmentClock::Sporadic {
            least_ns,
            longest_ns,
        } = self.segment(source).clock
        else {
            return ReleaseRow {
                first: 0,
                releases_ns: VecDeque::from([at_ns]),
            };
        };
        let gap_ns = drawn_gap_around(least_ns, longest_ns, &mut random);
        let before_ns = at_ns - (random.next() * gap_ns) as i64;
        let behind_ns = before_ns + (gap_ns.round() as i64).max(1);
        ReleaseRow {
            first: 0,
            releases_ns: VecDeque::from([before_ns, behind_ns]),
        }
    }

    fn release(&self, source: usize, number: i64) -> i64 {
        match self.segment(source).clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => offset_ns + number * period_ns,
            SegmentClock::Sporadic { .. } => self.with_row(
                source,
                0,
                (
                    |row: &ReleaseRow| row.first <= number,
                    |row: &ReleaseRow| row.last() >= number,
                ),
                |row| row.releases_ns[(number - row.first) as usize],
            ),
        }
    }

    /// The number of the last release up to an instant.
    fn last_number(&self, source: usize, at_ns: i64) -> i64 {
        match self.segment(source).clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => (last_release(at_ns, period_ns, offset_ns) - offset_ns) / period_ns,
            SegmentClock::Sporadic { .. } => self.with_row(
                source,
                at_ns,
                (
                    |row: &ReleaseRow| row.releases_ns.front().is_some_and(|first| *first <= at_ns),
                    |row: &ReleaseRow| row.releases_ns.back().is_some_and(|last| *last > at_ns),
                ),
                |row| row.first + row.releases_ns.partition_point(|at| *at <= at_ns) as i64 - 1,
            ),
        }
    }

    fn job(&self, source: usize, number: i64) -> DrawnJob {
        let segment = self.segment(source);
        let mut random = RandomShares::of(mixed(self.seed, source, number));
        let ready = segment.drawn_readiness(self.release(source, number), &mut random);
        DrawnJob {
            begin_ns: segment.begin(ready),
            end_ns: segment.drawn_end(ready, &mut random),
        }
    }

    /// The newest message of a source that has come by an instant, by its number and its arrival.
    fn newest(&self, source: usize, at_ns: i64) -> Option<(i64, i64)> {
        let last = self.last_number(source, at_ns);
        let mut numbers = (last - MOST_JOBS..=last).rev();
        numbers.find_map(|number| {
            let come_ns = self.job(source, number).end_ns;
            (come_ns <= at_ns).then_some((number, come_ns))
        })
    }

    /// The first job of a source that begins no sooner than an instant.
    fn reader(&self, source: usize, at_ns: i64) -> i64 {
        let mut number = self.last_number(source, at_ns);
        while self.job(source, number).begin_ns >= at_ns {
            number -= 1;
        }
        while self.job(source, number).begin_ns < at_ns {
            number += 1;
        }
        number
    }

    /// The job of the first task whose data a job of a segment of the chain has; `None` where it has those of others.
    fn source(&self, segment: usize, number: i64) -> Option<i64> {
        let mut number = number;
        for before in (0..segment).rev() {
            let at_ns = self.job(before + 1, number).begin_ns;
            let (own, come_ns) = self.newest(before, at_ns)?;
            let mut rivals = self.course.sources[before].rivals.iter();
            let is_displaced = rivals.any(|(rival, is_later)| {
                let newest = self.newest(*rival, at_ns);
                newest.is_some_and(|(_, at)| at > come_ns || at == come_ns && *is_later)
            });
            if is_displaced {
                return None;
            }
            number = own;
        }
        Some(number)
    }

    /// From the begin of the job in front of the anchor to the first output with data of the anchor or of a later job; `None`
    /// where many outputs have none.
    fn reaction(&self) -> Option<i64> {
        let cause_ns = self.job(0, self.anchor - 1).begin_ns;
        let last = self.course.own - 1;
        let mut number = self.anchor;
        for segment in 1..=last {
            number = self.reader(segment, self.job(segment - 1, number).end_ns);
        }
        let has_data = |output: i64| {
            self.source(last, output)
                .is_some_and(|job| job >= self.anchor)
        };
        // A later message may have overtaken that of the anchor.
        while has_data(number - 1) {
            number -= 1;
        }
        let mut outputs = number..number + MOST_JOBS;
        let first = outputs.find(|output| has_data(*output))?;
        Some(self.job(last, first).end_ns - cause_ns)
    }
}

impl ReleaseRow {
    /// The number of the last release.
    fn last(&self) -> i64 {
        self.first + self.releases_ns.len() as i64 - 1
    }
}
