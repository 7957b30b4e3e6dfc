//! The schedule of a time partition's tasks, job by job.

use std::collections::BTreeMap;

use num_integer::lcm;
use tailbound_model::Window;
use tailbound_time::Duration;

use super::{JobSpan, JobSpans};

/// The most jobs of a hyperperiod.
const MOST_JOBS: u64 = 100_000;

/// The most hyperperiods until the schedule repeats and its jobs are done.
const MOST_CYCLES: u64 = 32;

/// A periodic task of a time partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionTask {
    /// The longest execution time.
    pub execution: Duration,
    /// The distance of releases.
    pub period: Duration,
    /// A release.
    pub offset: Duration,
    /// The priority among the tasks; the lower number runs first, and no two are equal.
    pub rank: u64,
}

/// The earliest begin and the latest end of every job of independent periodic tasks that run in windows of a frame by
/// preemptive fixed priorities, each window and release at its described time on one clock; `None` where the tasks ask for
/// more than the windows give, where the schedule has too many jobs, or does not settle. Each window begins with a switch that
/// takes up to `switch`.
///
/// The latest ends are those of the schedule in which every job takes its longest execution time. A job that takes less
/// leaves more to the others of the same and lower priorities at every instant, so that no job ends later (Ha and Liu,
/// *Validating Timing Constraints in Multiprocessor and Distributed Real-Time Systems*, ICDCS 1994, for independent preemptive
/// jobs with fixed releases on one processor). The earliest begin is the first open instant from the release
/// on, if a switch takes no time.
pub fn partition_schedule(
    frame: Duration,
    windows: &[Window],
    switch: Duration,
    tasks: &[PartitionTask],
) -> Option<Vec<JobSpans>> {
    let cycle_ns = cycle_of(frame, windows, switch, tasks)?;
    let mut course = PartitionCourse {
        frame_ns: frame.as_nanos(),
        windows,
        switch_ns: switch.as_nanos(),
        tasks,
        next_release: tasks
            .iter()
            .map(|task| task.offset.as_nanos() % task.period.as_nanos())
            .collect(),
        pending: BTreeMap::new(),
        ends: BTreeMap::new(),
    };
    let mut states: Vec<Vec<(usize, i128, u64)>> = vec![Vec::new()];
    let mut repeated = None;
    for cycle in 1..=MOST_CYCLES {
        course.run(cycle_ns * (cycle - 1), cycle_ns.checked_mul(cycle)?);
        let boundary_ns = cycle_ns * cycle;
        let state = course.state(boundary_ns);
        if repeated.is_none() && states.last() == Some(&state) {
            repeated = Some(cycle - 1);
        }
        states.push(state);
        if let Some(begin) = repeated
            && let Some(spans) = course.spans(begin * cycle_ns, cycle_ns)
        {
            return Some(spans);
        }
    }
    None
}

/// The hyperperiod of tasks and frame in nanoseconds, if the windows hold the tasks and the jobs are not too many.
fn cycle_of(
    frame: Duration,
    windows: &[Window],
    switch: Duration,
    tasks: &[PartitionTask],
) -> Option<u64> {
    if frame.is_zero() || tasks.iter().any(|task| task.period.is_zero()) {
        return None;
    }
    let periods = tasks.iter().map(|task| u128::from(task.period.as_nanos()));
    let cycle = periods.fold(u128::from(frame.as_nanos()), lcm);
    let cycle_ns = u64::try_from(cycle).ok()?;
    let jobs = tasks.iter().map(|task| cycle_ns / task.period.as_nanos());
    let jobs = jobs.fold(0, u64::saturating_add);
    let openings = (cycle_ns / frame.as_nanos()).saturating_mul(windows.len() as u64);
    if jobs.max(openings) > MOST_JOBS || cycle_ns.checked_mul(MOST_CYCLES).is_none() {
        return None;
    }
    let asked = tasks.iter().map(|task| {
        u128::from(task.execution.as_nanos()) * u128::from(cycle_ns / task.period.as_nanos())
    });
    let open = windows
        .iter()
        .map(|window| u128::from(window.length.saturating_sub(switch).as_nanos()));
    let given = open.sum::<u128>() * u128::from(cycle_ns / frame.as_nanos());
    (asked.sum::<u128>() <= given && given > 0).then_some(cycle_ns)
}

/// A schedule as it goes on.
struct PartitionCourse<'a> {
    frame_ns: u64,
    windows: &'a [Window],
    switch_ns: u64,
    tasks: &'a [PartitionTask],
    next_release: Vec<u64>,
    /// By rank and release: the task and the work that is left.
    pending: BTreeMap<(u64, u64), (usize, u64)>,
    /// By task and release.
    ends: BTreeMap<(usize, u64), u64>,
}

impl PartitionCourse<'_> {
    /// Goes on from one multiple of the frame to another.
    fn run(&mut self, from_ns: u64, until_ns: u64) {
        let mut frame_begin = from_ns;
        while frame_begin < until_ns {
            for window in self.windows {
                let opens = frame_begin + window.offset.as_nanos();
                let closes = opens + window.length.as_nanos();
                self.run_window(closes.min(opens + self.switch_ns), closes);
            }
            frame_begin += self.frame_ns;
        }
        self.release_before(until_ns);
    }

    /// Releases the jobs that come before an instant.
    fn release_before(&mut self, end_ns: u64) {
        for (index, task) in self.tasks.iter().enumerate() {
            while self.next_release[index] < end_ns {
                let release = self.next_release[index];
                match task.execution.as_nanos() {
                    0 => {
                        self.ends.insert((index, release), release);
                    }
                    work => {
                        self.pending.insert((task.rank, release), (index, work));
                    }
                }
                self.next_release[index] += task.period.as_nanos();
            }
        }
    }

    fn run_window(&mut self, opens_ns: u64, closes_ns: u64) {
        let mut now = opens_ns;
        while now < closes_ns {
            self.release_before(now + 1);
            let next = self.next_release.iter().copied().min().unwrap_or(u64::MAX);
            let until = next.min(closes_ns);
            let Some((key, (task, work))) = self.pending.pop_first() else {
                now = until;
                continue;
            };
            let ran = work.min(until - now);
            now += ran;
            match work - ran {
                0 => {
                    self.ends.insert((task, key.1), now);
                }
                left => {
                    self.pending.insert(key, (task, left));
                }
            }
        }
    }

    /// The work that is left at an instant, by task and age.
    fn state(&self, at_ns: u64) -> Vec<(usize, i128, u64)> {
        let each = self.pending.iter();
        let state = each.map(|((_, release), (task, left))| {
            (*task, i128::from(at_ns) - i128::from(*release), *left)
        });
        state.collect()
    }

    /// The jobs that arrive in a cycle; `None` until all of them are done.
    fn spans(&self, from_ns: u64, cycle_ns: u64) -> Option<Vec<JobSpans>> {
        let each = self.tasks.iter().enumerate().map(|(index, task)| {
            let first = from_ns + task.offset.as_nanos() % task.period.as_nanos();
            let count = cycle_ns / task.period.as_nanos();
            let jobs = (0..count).map(|job| {
                let release = first + job * task.period.as_nanos();
                let end = *self.ends.get(&(index, release))?;
                let begin = self.open_from(release);
                Some(JobSpan {
                    arrival: Duration::from_nanos(release - from_ns),
                    earliest_begin: Duration::from_nanos(begin - from_ns),
                    latest_end: Duration::from_nanos(end.max(begin) - from_ns),
                })
            });
            JobSpans::new(Duration::from_nanos(cycle_ns), jobs.collect::<Option<_>>()?)
        });
        each.collect()
    }

    /// The first open instant from one on.
    fn open_from(&self, at_ns: u64) -> u64 {
        let into = at_ns % self.frame_ns;
        let begin = at_ns - into;
        let mut windows = self.windows.iter();
        let open = windows.find(|window| window.end().as_nanos() > into);
        match (open, self.windows.first()) {
            (Some(window), _) => begin + window.offset.as_nanos().max(into),
            (None, Some(first)) => begin + self.frame_ns + first.offset.as_nanos(),
            (None, None) => at_ns,
        }
    }
}
