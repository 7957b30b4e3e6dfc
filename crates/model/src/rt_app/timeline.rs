//! What a thread of rt-app does, in nominal time: as if nothing delayed it.
//!
//! `run` and `runtime` take their time; `sleep` waits from where it begins; a `timer` waits until
//! its period after its last use, or after the thread's start (rt-app's tutorial, section
//! "events"). What is run between two waits is one job, released where the earlier wait ends.

use std::collections::BTreeMap;

/// Something that a thread does, with times in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ThreadStep {
    /// Uses the CPU.
    Run(u64),
    /// Waits from where it begins.
    Sleep(u64),
    /// Waits until a period after the last use of the timer of that name.
    Timer {
        /// The name.
        name: String,
        /// The period in microseconds.
        period_us: u64,
    },
}

/// A job: released at `at_us`, running for `run_us`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TimelineJob {
    /// Microseconds since the first cycle began.
    pub at_us: u64,
    /// Its execution time in microseconds.
    pub run_us: u64,
}

/// What a thread does for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// It never waits.
    Always,
    /// These jobs, and again every `cycle_us`.
    Cyclic {
        /// The jobs of one cycle.
        jobs: Vec<TimelineJob>,
        /// The length of a cycle in microseconds.
        cycle_us: u64,
    },
    /// It never runs.
    Never,
}

/// Why steps are no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoPattern {
    /// A timer has run out before it is waited for, so that it does not set the pace.
    Late,
    /// One cycle takes another time than the next.
    Unsteady,
    /// A job goes on from one cycle to the next.
    AcrossCycles,
    /// The times are too long to be added up.
    TooLong,
}

/// The jobs of the steps done in a circle.
pub(super) fn pattern(steps: &[ThreadStep]) -> Result<Pattern, NoPattern> {
    let waits = |step: &ThreadStep| !matches!(step, ThreadStep::Run(_));
    if !steps
        .iter()
        .any(|step| matches!(step, ThreadStep::Run(1..)))
    {
        return Ok(Pattern::Never);
    }
    if !steps.iter().any(waits) {
        return Ok(Pattern::Always);
    }
    let runs = |step: Option<&ThreadStep>| step.is_some_and(|step| !waits(step));
    if runs(steps.first()) && runs(steps.last()) {
        return Err(NoPattern::AcrossCycles);
    }
    let mut clock = NominalClock::default();
    let mut cycles = Vec::new();
    for _ in 0..3 {
        cycles.push(clock.cycle(steps)?);
    }
    let [first, second, third] = cycles.as_slice() else {
        return Err(NoPattern::Unsteady);
    };
    let start = |jobs: &[TimelineJob]| jobs.first().map_or(0, |job| job.at_us);
    let cycle_us = start(second) - start(first);
    let shifted = |jobs: &[TimelineJob], by: u64| -> Vec<TimelineJob> {
        jobs.iter()
            .map(|job| TimelineJob {
                at_us: job.at_us + by,
                ..*job
            })
            .collect()
    };
    if cycle_us == 0 {
        return Err(NoPattern::Unsteady);
    }
    if shifted(first, cycle_us) != *second || shifted(second, cycle_us) != *third {
        return Err(NoPattern::Unsteady);
    }
    Ok(shortest(first, cycle_us))
}

/// The shortest cycle that yields the same jobs.
fn shortest(jobs: &[TimelineJob], cycle_us: u64) -> Pattern {
    let repeats = |count: &usize| {
        let (parts, length) = ((jobs.len() / count) as u64, jobs.len());
        let shift = cycle_us / parts;
        let next = |index: usize| {
            let job = jobs[(index + count) % length];
            let wrapped = if index + count < length { 0 } else { cycle_us };
            TimelineJob {
                at_us: job.at_us + wrapped,
                ..job
            }
        };
        let same = |(index, job): (usize, &TimelineJob)| {
            next(index)
                == TimelineJob {
                    at_us: job.at_us + shift,
                    ..*job
                }
        };
        cycle_us.is_multiple_of(parts) && jobs.iter().enumerate().all(same)
    };
    let divisors = (1..=jobs.len()).filter(|count| jobs.len().is_multiple_of(*count));
    let count = divisors.clone().find(repeats).unwrap_or(jobs.len());
    Pattern::Cyclic {
        jobs: jobs[..count].to_vec(),
        cycle_us: cycle_us / (jobs.len() / count) as u64,
    }
}

/// Nominal time, and when each timer was last used.
#[derive(Default)]
struct NominalClock {
    now_us: u64,
    timers: BTreeMap<String, u64>,
}

/// The longest nominal time, some 30 years; sums below it cannot overflow.
const LONGEST_US: u64 = 1 << 50;

impl NominalClock {
    /// The jobs of one round.
    fn cycle(&mut self, steps: &[ThreadStep]) -> Result<Vec<TimelineJob>, NoPattern> {
        let mut jobs: Vec<TimelineJob> = Vec::new();
        let mut goes_on = false;
        for step in steps {
            let later = self
                .now_us
                .checked_add(step.length())
                .filter(|at| *at <= LONGEST_US);
            let later = later.ok_or(NoPattern::TooLong)?;
            match step {
                ThreadStep::Run(0) => continue,
                ThreadStep::Run(length) => {
                    match jobs.last_mut().filter(|_| goes_on) {
                        // Both are part of the time so far, so the sum is too.
                        Some(job) => job.run_us += length,
                        None => jobs.push(TimelineJob {
                            at_us: self.now_us,
                            run_us: *length,
                        }),
                    }
                    self.now_us = later;
                }
                ThreadStep::Sleep(_) => self.now_us = later,
                ThreadStep::Timer { name, period_us } => {
                    let last = self.timers.entry(name.clone()).or_insert(0);
                    *last += period_us;
                    if *last < self.now_us {
                        return Err(NoPattern::Late);
                    }
                    self.now_us = *last;
                }
            }
            goes_on = matches!(step, ThreadStep::Run(_));
        }
        Ok(jobs)
    }
}

impl ThreadStep {
    fn length(&self) -> u64 {
        match self {
            Self::Run(length) | Self::Sleep(length) => *length,
            Self::Timer { period_us, .. } => *period_us,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ThreadStep::{Run, Sleep};

    fn timer(period_us: u64) -> ThreadStep {
        ThreadStep::Timer {
            name: "t".into(),
            period_us,
        }
    }

    fn cyclic(jobs: &[(u64, u64)], cycle_us: u64) -> Result<Pattern, NoPattern> {
        let jobs = jobs.iter().map(|(at_us, run_us)| TimelineJob {
            at_us: *at_us,
            run_us: *run_us,
        });
        Ok(Pattern::Cyclic {
            jobs: jobs.collect(),
            cycle_us,
        })
    }

    #[test]
    fn a_timer_keeps_its_period_and_a_sleep_adds_to_it() {
        assert_eq!(pattern(&[Run(5), timer(19)]), cyclic(&[(0, 5)], 19));
        assert_eq!(pattern(&[Run(5), Sleep(10)]), cyclic(&[(0, 5)], 15));
        assert_eq!(pattern(&[timer(19), Run(5)]), cyclic(&[(19, 5)], 19));
    }

    #[test]
    fn phases_become_jobs_of_one_cycle() {
        let steps = [
            Run(1),
            timer(30),
            Run(1),
            timer(30),
            Run(4),
            Run(1),
            timer(40),
        ];
        assert_eq!(pattern(&steps), cyclic(&[(0, 1), (30, 1), (60, 5)], 100));
    }

    #[test]
    fn a_loop_of_the_same_is_one_job() {
        let steps = [Run(1), timer(30), Run(1), timer(30), Run(1), timer(30)];
        assert_eq!(pattern(&steps), cyclic(&[(0, 1)], 30));
        let steps = [
            Run(1),
            timer(30),
            Run(2),
            timer(10),
            Run(1),
            timer(30),
            Run(2),
            timer(10),
        ];
        assert_eq!(pattern(&steps), cyclic(&[(0, 1), (30, 2)], 40));
    }

    #[test]
    fn what_is_no_pattern_is_none() {
        assert_eq!(pattern(&[Run(5)]), Ok(Pattern::Always));
        assert_eq!(pattern(&[Sleep(5)]), Ok(Pattern::Never));
        assert_eq!(
            pattern(&[Run(1), timer(9), Run(1)]),
            Err(NoPattern::AcrossCycles)
        );
        let late = ThreadStep::Timer {
            name: "b".into(),
            period_us: 5,
        };
        assert_eq!(
            pattern(&[Run(1), timer(9), Run(1), late]),
            Err(NoPattern::Late)
        );
        assert_eq!(pattern(&[Run(u64::MAX), timer(9)]), Err(NoPattern::TooLong));
    }
}
