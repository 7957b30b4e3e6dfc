//! Job chains that are drawn where chance decides when the jobs of a chain come: tasks with jitter, and readers at sporadic times.
//!
//! Point masses would have to be followed from each time at which a job may come to each at which the next one may, and again
//! behind it. A drawn job chain costs as much as it has jobs, and the error of a law by so many of them does not depend on the
//! length of the chain.

use tailbound_distribution::StepCdf;

use super::point_masses::{WeightedTimes, signed};
use super::segment::{ChainSegment, SegmentClock};
use super::{ChainCourse, ChainEstimate, EstimateError, EstimateMethod};

/// The job chains that are drawn for each law.
pub const DRAWN_CHAINS: u32 = 1 << 17;

/// No share of a law is further off than this with a probability of 99.9%: the inequality of Dvoretzky, Kiefer and Wolfowitz, in
/// the form of Bretagnolle for draws of different laws, since each is of a part of the hyperperiod of its own.
pub const DRAWN_ERROR: f64 = 0.006;

/// The most releases that are asked for the newest message.
const MOST_RELEASES: usize = 1_000_000;

/// The begin of the sequence of random numbers, so that the same chain always has the same laws.
const SEED: u64 = 20_071_121;

impl ChainCourse<'_> {
    /// The laws by drawn job chains.
    pub(super) fn drawn(&self) -> Result<ChainEstimate, EstimateError> {
        let Some(last) = self.segments.last() else {
            return Err(EstimateError::NoClock);
        };
        let mut random = RandomShares::of(SEED);
        let mut reactions = WeightedTimes::default();
        let mut ages = WeightedTimes::default();
        let mut ages_at_output = WeightedTimes::default();
        for part in 0..DRAWN_CHAINS {
            let phase = |random: &mut RandomShares| {
                (f64::from(part) + random.next()) / f64::from(DRAWN_CHAINS)
            };
            let share = phase(&mut random);
            reactions.push(self.drawn_reaction(share, &mut random), 1.0);
            let share = phase(&mut random);
            let release = last.release_at(share, self.hyperperiod_ns);
            let ready = last.drawn_readiness(release, &mut random);
            let source = self.drawn_source(last.begin(ready), &mut random);
            let output = last.drawn_end(ready, &mut random);
            ages_at_output.push(output - source, 1.0);
            let next = release + last.drawn_gap(&mut random);
            let next = last.drawn_readiness(next, &mut random);
            ages.push(last.drawn_end(next, &mut random) - source, 1.0);
        }
        let reaction_time: StepCdf = reactions.law()?;
        Ok(ChainEstimate {
            data_age: match self.segments.len() {
                1 => reaction_time.clone(),
                _ => ages.law()?,
            },
            data_age_at_output: ages_at_output.law()?,
            reaction_time,
            method: EstimateMethod::DrawnChains,
            is_sampled: false,
        })
    }

    /// From the begin of a job of the first task to the first output with data of the next one, which is released at a share of the
    /// hyperperiod.
    fn drawn_reaction(&self, share: f64, random: &mut RandomShares) -> i64 {
        let first = &self.segments[0];
        let release = first.release_at(share, self.hyperperiod_ns);
        let before = release - first.drawn_gap(random);
        let cause = first.begin(first.drawn_readiness(before, random));
        let ready = first.drawn_readiness(release, random);
        let mut at = first.drawn_end(ready, random);
        for segment in &self.segments[1..] {
            let reader = segment.drawn_reader(at, random);
            at = segment.drawn_end(reader, random);
        }
        at - cause
    }

    /// The begin of the job of the first task whose data a job of the last segment's head has that begins at `at_ns`.
    fn drawn_source(&self, at_ns: i64, random: &mut RandomShares) -> i64 {
        let before_last = self.segments.len() - 1;
        let segments = self.segments[..before_last].iter().rev();
        segments.fold(at_ns, |at, segment| {
            segment.begin(segment.drawn_newest(at, random))
        })
    }
}

impl ChainSegment<'_> {
    /// The release of the clock that lies at a share of the hyperperiod.
    fn release_at(&self, share: f64, hyperperiod_ns: i64) -> i64 {
        match self.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let all = hyperperiod_ns / period_ns;
                let number = ((share * all as f64) as i64).min(all - 1);
                offset_ns + number * period_ns
            }
            SegmentClock::Sporadic { .. } => (share * hyperperiod_ns as f64) as i64,
        }
    }

    pub(super) fn drawn_gap(&self, random: &mut RandomShares) -> i64 {
        match self.clock {
            SegmentClock::Periodic { period_ns, .. } => period_ns,
            SegmentClock::Sporadic {
                least_ns,
                longest_ns,
            } => {
                let width_ns = (longest_ns - least_ns) as f64;
                least_ns + (random.next() * width_ns).round() as i64
            }
        }
    }

    /// When the job of a release is ready.
    pub(super) fn drawn_readiness(&self, release_ns: i64, random: &mut RandomShares) -> i64 {
        match signed(self.stages[0].jitter) {
            0 => release_ns,
            jitter_ns => release_ns + (random.next() * jitter_ns as f64).round() as i64,
        }
    }

    /// When the message of a job that is ready at `ready_ns` arrives at the reader behind, or its output appears.
    pub(super) fn drawn_end(&self, ready_ns: i64, random: &mut RandomShares) -> i64 {
        let mut at = ready_ns;
        for (index, stage) in self.stages.iter().enumerate() {
            if index > 0 {
                at += stage.delay.time_at(random.next());
            }
            at = stage.open.end(at, stage.execution.time_at(random.next()));
        }
        let delay = self.delay.map(|delay| delay.time_at(random.next()));
        at + delay.unwrap_or_default()
    }

    /// The readiness of the first job that begins no sooner than `at_ns`.
    fn drawn_reader(&self, at_ns: i64, random: &mut RandomShares) -> i64 {
        let least = self.stages[0].open.least_arrival(at_ns);
        match self.clock {
            // A jitter is no longer than the period: it is the last job that is released by then, or the next one.
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let release = last_release(least, period_ns, offset_ns);
                let ready = self.drawn_readiness(release, random);
                if ready >= least {
                    return ready;
                }
                self.drawn_readiness(release + period_ns, random)
            }
            // To the next release of a stationary renewal process it is as long as since the last one.
            SegmentClock::Sporadic {
                least_ns,
                longest_ns,
            } => least + drawn_distance(least_ns, longest_ns, random),
        }
    }

    /// The readiness of the job whose message is the newest one that has come by `at_ns`.
    fn drawn_newest(&self, at_ns: i64, random: &mut RandomShares) -> i64 {
        let mut release = match self.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => last_release(at_ns, period_ns, offset_ns),
            SegmentClock::Sporadic {
                least_ns,
                longest_ns,
            } => at_ns - drawn_distance(least_ns, longest_ns, random),
        };
        for _ in 0..MOST_RELEASES {
            let ready = self.drawn_readiness(release, random);
            if self.drawn_end(ready, random) <= at_ns {
                return ready;
            }
            release -= self.drawn_gap(random);
        }
        release
    }
}

/// The last periodic release up to an instant.
pub(super) fn last_release(at_ns: i64, period_ns: i64, offset_ns: i64) -> i64 {
    offset_ns + (at_ns - offset_ns).div_euclid(period_ns) * period_ns
}

/// The time from an instant to a release next to it, of a stationary renewal process with even gaps: an even share of a gap that
/// is the likelier the longer it is.
fn drawn_distance(least_ns: i64, longest_ns: i64, random: &mut RandomShares) -> i64 {
    let gap_ns = drawn_gap_around(least_ns, longest_ns, random);
    (random.next() * gap_ns).round() as i64
}

/// The length of the gap around an instant.
pub(super) fn drawn_gap_around(least_ns: i64, longest_ns: i64, random: &mut RandomShares) -> f64 {
    let (least, longest) = (least_ns as f64, longest_ns as f64);
    // The density of such a gap rises with it, so that its square is even.
    let square = least * least + random.next() * (longest * longest - least * least);
    square.sqrt()
}

/// Random numbers from 0 to less than 1, by the generator SplitMix of Steele, Lea and Flood (OOPSLA 2014).
pub(super) struct RandomShares(u64);

impl RandomShares {
    pub(super) fn of(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // 53 bits are all that such a number has.
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}
