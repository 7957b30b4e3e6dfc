//! The same split of a simulation: what the jobs of a simulated service waited for.

use std::cmp::Reverse;
use std::collections::HashMap;

use tailbound_time::{Duration, Instant};

use super::bands::BandSums;
use super::cause::{LatencyCause, PartId, PartTable};
use super::course::course;
use super::explanation::{Explanation, SlowRequest};
use super::split::PartStretch;
use super::thread_log::{ActivitySums, NOBODY, Segment, ThreadActivity, ThreadLog};

/// The slowest jobs that are kept with their whole course.
const KEPT_SLOWEST: usize = 5;
/// How many completions go by between two times that old segments are forgotten.
const FORGET_EVERY: u64 = 256;

/// What a simulated service does from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServiceActivity<'a> {
    /// It runs a job, known by a number.
    Running(u32),
    /// Its budget is used up.
    BudgetUsedUp,
    /// It is a time partition, and none of its windows is open.
    OutsideWindow,
    /// Something else has the CPU.
    Preempted(&'a str),
    /// It has no job.
    Idle,
}

/// A job that has been split.
#[derive(Clone, Debug)]
struct SplitJob {
    latency_ns: u64,
    parts: Vec<u64>,
}

/// What a simulated service did, and the latencies of its jobs by cause. Instants are nanoseconds since the simulation
/// began, and do not run backwards.
#[derive(Clone, Debug)]
pub struct SimulatedService {
    subject: String,
    tasks: Vec<String>,
    log: ThreadLog,
    parts: PartTable,
    execution: PartId,
    queued: PartId,
    withheld: PartId,
    outside_window: PartId,
    idle: PartId,
    preempted: HashMap<String, PartId>,
    executed: HashMap<u32, u64>,
    open: HashMap<u32, u64>,
    jobs: Vec<SplitJob>,
    slowest: Vec<SlowRequest>,
    completions: u64,
    scratch: ActivitySums,
}

impl SimulatedService {
    /// A service with these tasks, without a job.
    pub fn new(subject: &str, tasks: Vec<String>) -> Self {
        let mut parts = PartTable::default();
        let mut log = ThreadLog::default();
        log.push(0, ThreadActivity::Idle, NOBODY);
        Self {
            subject: subject.to_string(),
            tasks,
            log,
            execution: parts.number(LatencyCause::Execution, ""),
            queued: parts.number(LatencyCause::Queued, ""),
            withheld: parts.number(LatencyCause::BudgetUsedUp, ""),
            outside_window: parts.number(LatencyCause::OutsideWindow, ""),
            idle: parts.number(LatencyCause::Network, "released with a delay"),
            parts,
            preempted: HashMap::new(),
            executed: HashMap::new(),
            open: HashMap::new(),
            jobs: Vec::new(),
            slowest: Vec::new(),
            completions: 0,
            scratch: ActivitySums::default(),
        }
    }

    /// The service does something else from an instant on.
    pub fn does(&mut self, at_ns: u64, activity: ServiceActivity<'_>) {
        let (activity, owner) = match activity {
            ServiceActivity::Running(job) => (ThreadActivity::Running, job),
            ServiceActivity::BudgetUsedUp => (ThreadActivity::Kept(self.withheld), NOBODY),
            ServiceActivity::OutsideWindow => (ThreadActivity::Kept(self.outside_window), NOBODY),
            ServiceActivity::Idle => (ThreadActivity::Idle, NOBODY),
            ServiceActivity::Preempted(name) => {
                (ThreadActivity::Kept(self.preemption(name)), NOBODY)
            }
        };
        self.log.push(at_ns, activity, owner);
    }

    fn preemption(&mut self, name: &str) -> PartId {
        if let Some(part) = self.preempted.get(name) {
            return *part;
        }
        let part = self.parts.number(LatencyCause::Preempted, name);
        self.preempted.insert(name.to_string(), part);
        part
    }

    /// A job is released.
    pub fn released(&mut self, job: u32, at_ns: u64) {
        self.open.insert(job, at_ns);
    }

    /// Whether it has a job.
    pub fn is_busy(&self) -> bool {
        !self.open.is_empty()
    }

    /// A job has run for so many nanoseconds.
    pub fn ran(&mut self, job: u32, nanos: u64) {
        *self.executed.entry(job).or_default() += nanos;
    }

    /// A job is done; `counts` unless it is of the warm-up.
    pub fn completed(&mut self, job: u32, task: usize, release_ns: u64, end_ns: u64, counts: bool) {
        self.open.remove(&job);
        let executed = self.executed.remove(&job).unwrap_or(0);
        self.completions += 1;
        if counts {
            self.split(job, task, (release_ns, end_ns), executed);
        }
        if self.completions.is_multiple_of(FORGET_EVERY) {
            let oldest = self.open.values().copied().min().unwrap_or(end_ns);
            self.log.forget_before(oldest.min(end_ns));
        }
    }

    fn split(&mut self, job: u32, task: usize, (release, end): (u64, u64), executed: u64) {
        let latency = end.saturating_sub(release);
        self.scratch.clear();
        self.log.add_sums(release, end, &mut self.scratch);
        let own = executed.min(self.scratch.running);
        let mut parts = vec![0; self.parts.len().max(self.scratch.kept.len())];
        parts[..self.scratch.kept.len()].copy_from_slice(&self.scratch.kept);
        parts[self.execution.0 as usize] += own;
        parts[self.queued.0 as usize] +=
            self.scratch.running + self.scratch.running_for_nobody - own;
        parts[self.idle.0 as usize] += self.scratch.idle;
        let least = self
            .slowest
            .last()
            .map_or(0, |slow| slow.latency.as_nanos());
        if self.slowest.len() < KEPT_SLOWEST || latency > least {
            let slow = self.slow(job, task, (release, end));
            self.slowest.push(slow);
            self.slowest.sort_by_key(|slow| Reverse(slow.latency));
            self.slowest.truncate(KEPT_SLOWEST);
        }
        self.jobs.push(SplitJob {
            latency_ns: latency,
            parts,
        });
    }

    fn slow(&self, job: u32, task: usize, (release, end): (u64, u64)) -> SlowRequest {
        let part = |segment: &Segment| match segment.activity {
            ThreadActivity::Running if segment.owner == job => self.execution,
            ThreadActivity::Running => self.queued,
            ThreadActivity::Idle => self.idle,
            ThreadActivity::Kept(part) => part,
        };
        let stretches = self
            .log
            .span(release, end)
            .map(|(segment, until)| PartStretch {
                start: segment.start,
                end: until,
                part: part(&segment),
            });
        let stretches: Vec<PartStretch> = stretches.collect();
        let (course, in_cells) = course(&stretches, release, &self.parts);
        SlowRequest {
            number: self.jobs.len() as u64,
            task: self.tasks.get(task).cloned().unwrap_or_default(),
            intended: Instant::from_nanos(release).saturating_since(Instant::ORIGIN),
            latency: Duration::from_nanos(end - release),
            course,
            in_cells,
        }
    }

    /// The explanation, in bands between these quantiles.
    pub fn finish(self, quantiles: &[f64]) -> Explanation {
        let latencies = self.jobs.iter().map(|job| job.latency_ns).collect();
        let mut bands = BandSums::new(latencies, quantiles);
        for job in &self.jobs {
            bands.add(job.latency_ns, &job.parts);
        }
        Explanation {
            subject: self.subject,
            requests: self.jobs.len() as u64,
            bands: bands.finish(&self.parts),
            slowest: self.slowest,
            ..Explanation::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_jobs_on_a_used_up_budget_add_up() {
        let mut service = SimulatedService::new("store", vec!["get".into()]);
        service.released(0, 100);
        service.does(100, ServiceActivity::Preempted("batch"));
        service.does(120, ServiceActivity::Running(0));
        service.released(1, 150);
        service.does(200, ServiceActivity::BudgetUsedUp);
        service.ran(0, 80);
        service.does(500, ServiceActivity::Running(0));
        service.ran(0, 100);
        service.does(600, ServiceActivity::Running(1));
        service.completed(0, 0, 100, 600, true);
        service.ran(1, 30);
        service.does(630, ServiceActivity::Idle);
        service.completed(1, 0, 150, 630, true);
        let explanation = service.finish(&[0.5]);
        assert_eq!(explanation.requests, 2);
        let nanos = |band: usize, cause| explanation.bands[band].of_cause(cause).as_nanos();
        // The second job is the faster one: 480 against 500.
        assert_eq!(nanos(0, LatencyCause::Execution), 30);
        assert_eq!(nanos(0, LatencyCause::Queued), 50 + 100);
        assert_eq!(nanos(0, LatencyCause::BudgetUsedUp), 300);
        assert_eq!(nanos(1, LatencyCause::Execution), 180);
        assert_eq!(nanos(1, LatencyCause::BudgetUsedUp), 300);
        assert_eq!(nanos(1, LatencyCause::Preempted), 20);
        assert_eq!(nanos(1, LatencyCause::Queued), 0);
        let course: u64 = explanation.slowest[0]
            .course
            .iter()
            .map(|one| one.length.as_nanos())
            .sum();
        assert_eq!(course, 500);
    }
}
