//! The times at which a task can run.

use num_integer::lcm;
use tailbound_model::Window;
use tailbound_time::Duration;

use super::point_masses::signed;

/// The most stretches of open time, and the most jobs above a task, in a cycle.
const MOST_STRETCHES: i64 = 200_000;

/// The cycles until the work of the tasks above repeats.
const MOST_CYCLES: usize = 8;

/// The times at which the CPU is there for a task, in a cycle that repeats for ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenTime {
    cycle_ns: i64,
    /// Begin and end of each stretch within the cycle, in order; never empty.
    stretches: Vec<(i64, i64)>,
    /// The open time of the cycle before the end of each stretch.
    until: Vec<i64>,
}

/// Work that comes before a task: a job at `offset` and every `period` after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeriodicWork {
    /// The distance of the jobs.
    pub period: Duration,
    /// A job.
    pub offset: Duration,
    /// The work of a job.
    pub work: Duration,
}

impl OpenTime {
    /// A CPU that is always there.
    pub fn always() -> Self {
        Self {
            cycle_ns: 1,
            stretches: vec![(0, 1)],
            until: vec![1],
        }
    }

    /// The windows of a frame, in order; `None` where they have no length or are outside of it.
    pub fn windows(frame: Duration, windows: &[Window]) -> Option<Self> {
        let windows = windows.iter();
        let stretches = windows.map(|window| (signed(window.offset), signed(window.end())));
        Self::of(signed(frame), stretches.collect())
    }

    fn of(cycle_ns: i64, stretches: Vec<(i64, i64)>) -> Option<Self> {
        let mut sum = 0;
        let mut until = Vec::with_capacity(stretches.len());
        let mut before = 0;
        for (begin, end) in &stretches {
            if *begin < before || end <= begin || *end > cycle_ns {
                return None;
            }
            sum += end - begin;
            before = *end;
            until.push(sum);
        }
        (!stretches.is_empty()).then_some(Self {
            cycle_ns,
            stretches,
            until,
        })
    }

    /// The length of the cycle.
    pub(super) fn cycle_ns(&self) -> i64 {
        self.cycle_ns
    }

    /// The share of the time that is open.
    pub fn share(&self) -> f64 {
        self.total_ns() as f64 / self.cycle_ns as f64
    }

    fn total_ns(&self) -> i64 {
        self.until.last().copied().unwrap_or(1)
    }

    /// The first open instant from one on.
    pub(super) fn first_open(&self, at_ns: i64) -> i64 {
        let into = at_ns.rem_euclid(self.cycle_ns);
        let next = self.stretches.partition_point(|(_, end)| *end <= into);
        match self.stretches.get(next) {
            Some((begin, _)) => at_ns - into + into.max(*begin),
            None => at_ns - into + self.cycle_ns + self.stretches[0].0,
        }
    }

    /// The end of work that begins at the first open instant from `at_ns` on.
    pub(super) fn end(&self, at_ns: i64, work_ns: i64) -> i64 {
        if work_ns <= 0 {
            return self.first_open(at_ns);
        }
        let into = at_ns.rem_euclid(self.cycle_ns);
        let next = self.stretches.partition_point(|(_, end)| *end <= into);
        let passed = match self.stretches.get(next) {
            Some((begin, end)) => self.until[next] - (end - into.max(*begin)),
            None => self.total_ns(),
        };
        let due = passed + work_ns;
        let cycles = (due - 1) / self.total_ns();
        let rest = due - cycles * self.total_ns();
        let last = self.until.partition_point(|until| *until < rest);
        let end = self.stretches[last].1 - (self.until[last] - rest);
        at_ns - into + cycles * self.cycle_ns + end
    }

    /// The first open instant at or before which a job that arrived can still begin no sooner than `at_ns`: all arrivals from the
    /// returned instant on begin at `at_ns` or later.
    pub(super) fn least_arrival(&self, at_ns: i64) -> i64 {
        let into = at_ns.rem_euclid(self.cycle_ns);
        let next = self.stretches.partition_point(|(_, end)| *end < into);
        match (self.stretches.get(next), next.checked_sub(1)) {
            (Some((begin, end)), _) if *begin < into && into < *end => at_ns,
            (Some((_, end)), _) if *end == into => at_ns,
            (_, Some(before)) => at_ns - into + self.stretches[before].1,
            (_, None) => {
                let last = self.stretches.last().map_or(self.cycle_ns, |(_, end)| *end);
                at_ns - into - self.cycle_ns + last
            }
        }
    }

    /// The open time that periodic work in front leaves, once it repeats; `None` where it leaves none, or the cycle has too many
    /// jobs.
    pub fn behind(&self, work: &[PeriodicWork]) -> Option<Self> {
        let work = work.iter().filter(|one| !one.work.is_zero());
        let work: Vec<&PeriodicWork> = work.collect();
        if work.is_empty() {
            return Some(self.clone());
        }
        let periods = work.iter().map(|one| i128::from(signed(one.period)));
        let cycle = periods.fold(i128::from(self.cycle_ns), lcm);
        let cycle_ns = i64::try_from(cycle).ok().filter(|cycle| *cycle > 0)?;
        let releases = releases_in(cycle_ns, &work)?;
        let stretches = self.repeated(cycle_ns)?;
        let (mut backlog_ns, mut free) = (0, Vec::new());
        for _ in 0..MOST_CYCLES {
            let before_ns = backlog_ns;
            (backlog_ns, free) = pass(&stretches, &releases, backlog_ns);
            if backlog_ns == before_ns {
                break;
            }
        }
        Self::of(cycle_ns, free)
    }

    fn repeated(&self, cycle_ns: i64) -> Option<Vec<(i64, i64)>> {
        if self.total_ns() == self.cycle_ns {
            return Some(vec![(0, cycle_ns)]);
        }
        let cycles = cycle_ns / self.cycle_ns;
        let count = cycles.checked_mul(self.stretches.len() as i64)?;
        if count > MOST_STRETCHES {
            return None;
        }
        let each = (0..cycles).flat_map(|cycle| {
            let from = cycle * self.cycle_ns;
            let stretches = self.stretches.iter();
            stretches.map(move |(begin, end)| (from + begin, from + end))
        });
        Some(each.collect())
    }
}

/// The releases of a cycle with their work, in order.
fn releases_in(cycle_ns: i64, work: &[&PeriodicWork]) -> Option<Vec<(i64, i64)>> {
    let count = work.iter().map(|one| cycle_ns / signed(one.period));
    if count.fold(0, i64::saturating_add) > MOST_STRETCHES {
        return None;
    }
    let each = work.iter().flat_map(|one| {
        let period = signed(one.period);
        let first = signed(one.offset) % period;
        let jobs = (0..cycle_ns / period).map(move |job| first + job * period);
        jobs.map(|at| (at, signed(one.work)))
    });
    let mut releases: Vec<(i64, i64)> = each.collect();
    releases.sort_unstable();
    Some(releases)
}

/// The work that is left after a cycle, and the stretches in which there is none.
fn pass(
    stretches: &[(i64, i64)],
    releases: &[(i64, i64)],
    mut backlog_ns: i64,
) -> (i64, Vec<(i64, i64)>) {
    let mut free: Vec<(i64, i64)> = Vec::new();
    let mut releases = releases.iter().peekable();
    for (begin, end) in stretches {
        let mut now = *begin;
        while now < *end {
            while let Some((_, work)) = releases.next_if(|(at, _)| *at <= now) {
                backlog_ns += work;
            }
            let until = releases.peek().map_or(*end, |(at, _)| *end.min(at));
            if backlog_ns > 0 {
                let ran = backlog_ns.min(until - now);
                backlog_ns -= ran;
                now += ran;
                continue;
            }
            match free.last_mut() {
                Some(last) if last.1 == now => last.1 = until,
                _ => free.push((now, until)),
            }
            now = until;
        }
    }
    let late: i64 = releases.map(|(_, work)| work).sum();
    (backlog_ns + late, free)
}
