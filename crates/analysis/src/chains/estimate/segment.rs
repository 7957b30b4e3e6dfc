//! A part of a chain: a task with a clock of its own, and the tasks that messages release behind it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::delay_law::DelayLaw;
use super::point_masses::{PointMasses, signed};
use super::{EstimateError, EstimatedStage, JobRelease, common_cycle};

/// The parts of the law of a gap between sporadic releases.
const GAP_PARTS: u32 = 192;

/// The phases of a cycle in which sporadic releases are told apart.
const PHASES: i64 = 256;

/// The most releases that are looked at for the newest message.
const MOST_RELEASES: usize = 1_000_000;

/// The share of a message's probability that is left out.
const NEGLIGIBLE: f64 = 1e-9;

/// The releases of the task at the begin of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentClock {
    Periodic { period_ns: i64, offset_ns: i64 },
    Sporadic { least_ns: i64, longest_ns: i64 },
}

/// A part of a chain.
pub(super) struct ChainSegment<'a> {
    pub clock: SegmentClock,
    /// The tasks; the first one has the clock.
    pub stages: &'a [EstimatedStage],
    /// The transport to the reader behind.
    pub delay: Option<&'a DelayLaw>,
    /// The cycle after which the open times of all tasks repeat.
    pub cycle_ns: i64,
    outcomes: RefCell<BTreeMap<i64, Rc<PointMasses>>>,
}

/// The chain cut in front of each task with a clock.
///
/// # Errors
/// The first task has no clock, or a cycle is beyond all times.
pub(super) fn segments(stages: &[EstimatedStage]) -> Result<Vec<ChainSegment<'_>>, EstimateError> {
    let is_head = |stage: &EstimatedStage| !matches!(stage.release, JobRelease::Message);
    let heads = stages.iter().enumerate();
    let heads: Vec<usize> = heads
        .filter(|(_, stage)| is_head(stage))
        .map(|(index, _)| index)
        .collect();
    if heads.first() != Some(&0) {
        return Err(EstimateError::NoClock);
    }
    let ends = heads.iter().skip(1).copied();
    let ends = ends.chain(std::iter::once(stages.len()));
    let cut = heads.iter().zip(ends).map(|(begin, end)| {
        let behind = stages.get(end).map(|reader| &reader.delay);
        ChainSegment::of(&stages[*begin..end], behind)
    });
    cut.collect()
}

impl<'a> ChainSegment<'a> {
    pub fn of(
        stages: &'a [EstimatedStage],
        delay: Option<&'a DelayLaw>,
    ) -> Result<Self, EstimateError> {
        let clock = match stages[0].release {
            JobRelease::Periodic { period, offset } => SegmentClock::Periodic {
                period_ns: signed(period).max(1),
                offset_ns: signed(offset),
            },
            JobRelease::Sporadic {
                least_gap,
                longest_gap,
            } => SegmentClock::Sporadic {
                least_ns: signed(least_gap),
                longest_ns: signed(longest_gap).max(1),
            },
            JobRelease::Message => return Err(EstimateError::NoClock),
        };
        let cycles = stages.iter().map(|stage| stage.open.cycle_ns());
        let cycle = common_cycle(cycles)?;
        Ok(Self {
            clock,
            stages,
            delay,
            cycle_ns: cycle,
            outcomes: RefCell::default(),
        })
    }

    /// The instant at which the job of a release begins, and reads.
    pub fn begin(&self, release_ns: i64) -> i64 {
        self.stages[0].open.first_open(release_ns)
    }

    /// The law of the time from a release to the arrival of its message at the reader behind, or to its output at the end of the
    /// chain.
    pub fn outcome(&self, release_ns: i64) -> Rc<PointMasses> {
        let phase_ns = release_ns.rem_euclid(self.cycle_ns);
        if let Some(outcome) = self.outcomes.borrow().get(&phase_ns) {
            return Rc::clone(outcome);
        }
        let outcome = Rc::new(self.passed(phase_ns));
        let mut outcomes = self.outcomes.borrow_mut();
        outcomes.insert(phase_ns, Rc::clone(&outcome));
        outcome
    }

    fn passed(&self, phase_ns: i64) -> PointMasses {
        let mut at = PointMasses::gathered(vec![(phase_ns, 1.0)]);
        for (index, stage) in self.stages.iter().enumerate() {
            if index > 0 {
                at = combined(&at, stage.delay.masses(), |sent, delay| sent + delay);
            }
            at = combined(&at, stage.execution.masses(), |from, work| {
                stage.open.end(from, work)
            });
        }
        if let Some(delay) = self.delay {
            at = combined(&at, delay.masses(), |sent, delay| sent + delay);
        }
        let since = at.points().iter();
        PointMasses::gathered(since.map(|(at, mass)| (at - phase_ns, *mass)).collect())
    }

    /// The distances to the release in front, with their probabilities.
    pub fn gaps(&self) -> Vec<(i64, f64)> {
        match self.clock {
            SegmentClock::Periodic { period_ns, .. } => vec![(period_ns, 1.0)],
            SegmentClock::Sporadic {
                least_ns,
                longest_ns,
            } => {
                let width = (longest_ns - least_ns) as f64;
                let parts = (0..GAP_PARTS).map(|part| {
                    let middle = (f64::from(part) + 0.5) / f64::from(GAP_PARTS);
                    let gap = least_ns + (middle * width).round() as i64;
                    (gap, 1.0 / f64::from(GAP_PARTS))
                });
                parts.collect()
            }
        }
    }

    /// The release of the first job that begins no sooner than `at_ns`; only of a periodic clock.
    pub fn reader(&self, at_ns: i64) -> i64 {
        let least = self.stages[0].open.least_arrival(at_ns);
        match self.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let number = (least - offset_ns).div_euclid(period_ns);
                let before = offset_ns + number * period_ns;
                if before < least {
                    before + period_ns
                } else {
                    before
                }
            }
            SegmentClock::Sporadic { .. } => least,
        }
    }

    /// The releases whose message is the newest one that has come by `at_ns`, with their probabilities.
    pub fn newest(&self, at_ns: i64) -> Vec<(i64, f64)> {
        match self.clock {
            SegmentClock::Periodic {
                period_ns,
                offset_ns,
            } => {
                let number = (at_ns - offset_ns).div_euclid(period_ns);
                let mut release = offset_ns + number * period_ns;
                let (mut newest, mut left) = (Vec::new(), 1.0);
                for _ in 0..MOST_RELEASES {
                    if left <= NEGLIGIBLE {
                        break;
                    }
                    let come = self.outcome(release).share_until(at_ns - release);
                    if come > 0.0 {
                        newest.push((release, left * come));
                    }
                    left *= 1.0 - come;
                    release -= period_ns;
                }
                newest
            }
            SegmentClock::Sporadic {
                least_ns,
                longest_ns,
            } => self.newest_sporadic(at_ns, least_ns, longest_ns),
        }
    }

    /// The same for sporadic releases: the distance to the last one is that of a stationary renewal process, and the one before
    /// lies a gap before.
    fn newest_sporadic(&self, at_ns: i64, least_ns: i64, longest_ns: i64) -> Vec<(i64, f64)> {
        let step_ns = (self.cycle_ns / PHASES).max(1);
        // A phase stands for all releases near it, and no release for one after it.
        let near = |release: i64, next: i64| {
            let phase = release.div_euclid(step_ns) * step_ns + step_ns / 2;
            phase.min(next - 1)
        };
        let gaps = self.gaps();
        let mut releases: BTreeMap<i64, f64> = BTreeMap::new();
        for (since_ns, mass) in ages(least_ns, longest_ns) {
            *releases
                .entry(near(at_ns - since_ns, at_ns + 1))
                .or_default() += mass;
        }
        let (mut newest, mut left) = (Vec::new(), 1.0);
        for _ in 0..MOST_RELEASES {
            let next = releases.pop_last().filter(|_| left > NEGLIGIBLE);
            let Some((release, mass)) = next else {
                break;
            };
            let come = self.outcome(release).share_until(at_ns - release);
            if come > 0.0 {
                newest.push((release, mass * come));
            }
            left -= mass * come;
            let missed = mass * (1.0 - come);
            if missed > NEGLIGIBLE * NEGLIGIBLE {
                for (gap, part) in &gaps {
                    *releases.entry(near(release - gap, release)).or_default() += missed * part;
                }
            }
        }
        newest
    }
}

/// The law of the time since the last release of a stationary renewal process with uniform gaps: its density falls with the
/// share of the gaps that are longer.
fn ages(least_ns: i64, longest_ns: i64) -> Vec<(i64, f64)> {
    let (least, longest) = (least_ns as f64, longest_ns as f64);
    let width = (longest - least).max(1.0);
    // Up to the least gap the density is even; behind, the age is an even share's root away from the longest gap.
    let even = least / ((least + longest) / 2.0).max(1.0);
    let parts = (0..GAP_PARTS).map(|part| {
        let middle = (f64::from(part) + 0.5) / f64::from(GAP_PARTS);
        let age = if middle < even {
            least * middle / even
        } else {
            longest - width * ((1.0 - middle) / (1.0 - even).max(f64::MIN_POSITIVE)).sqrt()
        };
        (age.round() as i64, 1.0 / f64::from(GAP_PARTS))
    });
    parts.collect()
}

fn combined(one: &PointMasses, other: &PointMasses, sum: impl Fn(i64, i64) -> i64) -> PointMasses {
    let mut each = Vec::with_capacity(one.points().len() * other.points().len());
    for (at, mass) in one.points() {
        let others = other.points().iter();
        each.extend(others.map(|(length, share)| (sum(*at, *length), mass * share)));
    }
    PointMasses::gathered(each)
}
