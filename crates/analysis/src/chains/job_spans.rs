//! The times of the jobs of a task on a clock.

use tailbound_time::Duration;

/// The jobs of a task in a cycle that repeats for ever, in the order of their arrival.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobSpans {
    cycle: Duration,
    jobs: Vec<JobSpan>,
}

/// A job, in times from the begin of its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JobSpan {
    /// The arrival, within the cycle.
    pub arrival: Duration,
    /// The earliest instant at which the job can begin and read, not before the arrival.
    pub earliest_begin: Duration,
    /// The latest instant at which the job ends and publishes; it may be in a later cycle.
    pub latest_end: Duration,
}

/// A job of one of all cycles, in nanoseconds from the begin of cycle 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlacedJob {
    pub arrival_ns: i128,
    pub begin_ns: i128,
    pub end_ns: i128,
}

impl JobSpans {
    /// The jobs of a cycle; `None` if there is none, the cycle is empty, or they come, begin or end out of order.
    pub fn new(cycle: Duration, jobs: Vec<JobSpan>) -> Option<Self> {
        let follows = |before: &JobSpan, next: &JobSpan, later: Duration| {
            let is_later = |one: Duration, other: Duration| one <= other.saturating_add(later);
            is_later(before.arrival, next.arrival)
                && is_later(before.earliest_begin, next.earliest_begin)
                && is_later(before.latest_end, next.latest_end)
        };
        let rises = jobs
            .windows(2)
            .all(|pair| follows(&pair[0], &pair[1], Duration::ZERO));
        let is_inside = jobs.iter().all(|job| {
            job.arrival < cycle
                && job.arrival <= job.earliest_begin
                && job.earliest_begin <= job.latest_end
        });
        // The first job of the next cycle comes after the last one of this cycle.
        let goes_on = follows(jobs.last()?, jobs.first()?, cycle);
        (rises && is_inside && goes_on).then_some(Self { cycle, jobs })
    }

    /// The jobs of a periodic task that may begin at their arrival and end within a response time.
    pub fn periodic(period: Duration, offset: Duration, response: Duration) -> Option<Self> {
        if period.is_zero() {
            return None;
        }
        let arrival = offset % period;
        let job = JobSpan {
            arrival,
            earliest_begin: arrival,
            latest_end: arrival.checked_add(response)?,
        };
        Self::new(period, vec![job])
    }

    /// The length of the cycle.
    pub fn cycle(&self) -> Duration {
        self.cycle
    }

    /// The jobs of the cycle.
    pub fn jobs(&self) -> &[JobSpan] {
        &self.jobs
    }

    /// The job of that number, which may be below 0.
    pub(super) fn job(&self, number: i128) -> PlacedJob {
        let count = self.jobs.len() as i128;
        let (cycles, within) = (number.div_euclid(count), number.rem_euclid(count));
        // The remainder is below the number of jobs.
        let job = self.jobs[usize::try_from(within).unwrap_or_default()];
        let from_ns = cycles * i128::from(self.cycle.as_nanos());
        let at = |time: Duration| from_ns + i128::from(time.as_nanos());
        PlacedJob {
            arrival_ns: at(job.arrival),
            begin_ns: at(job.earliest_begin),
            end_ns: at(job.latest_end),
        }
    }

    /// The number of the last job for which `is_early_enough` holds, which must hold up to one job, and for none that arrives
    /// after `near_ns`.
    pub(super) fn last(&self, near_ns: i128, is_early_enough: impl Fn(PlacedJob) -> bool) -> i128 {
        let cycle = near_ns.div_euclid(i128::from(self.cycle.as_nanos()));
        let mut number = (cycle + 1) * self.jobs.len() as i128 - 1;
        while !is_early_enough(self.job(number)) {
            number -= 1;
        }
        number
    }

    /// The first job for which `is_late_enough` holds, which must hold from one job on; `near_ns` is an instant at which it
    /// does not hold for jobs that arrived two cycles before.
    pub(super) fn first(
        &self,
        near_ns: i128,
        is_late_enough: impl Fn(PlacedJob) -> bool,
    ) -> PlacedJob {
        let count = self.jobs.len() as i128;
        let longest_begin = self
            .jobs
            .iter()
            .map(|job| job.earliest_begin.as_nanos())
            .max();
        let back_ns = i128::from(longest_begin.unwrap_or_default());
        let cycle = (near_ns - back_ns).div_euclid(i128::from(self.cycle.as_nanos())) - 1;
        let (mut low, mut high) = (cycle * count, cycle * count);
        let mut step = count;
        while !is_late_enough(self.job(high)) {
            low = high;
            high += step;
            step *= 2;
        }
        while low < high {
            let middle = (low + high).div_euclid(2);
            match is_late_enough(self.job(middle)) {
                true => high = middle,
                false => low = middle + 1,
            }
        }
        self.job(high)
    }
}
