//! Schedules jobs tick by tick: slow, and too simple to be wrong in the way the analyses could be.

use super::nanos;
use tailbound_analysis::SporadicTask;

/// A job; all times in ticks since the start.
#[derive(Clone, Copy, Debug)]
pub struct Job {
    pub task: usize,
    /// Negative where the job has come with jitter before the start.
    pub arrival: i64,
    pub ready: i64,
    pub execution: u64,
    /// The absolute deadline.
    pub deadline_ticks: i64,
}

/// When each job is complete; `None` where that is not before `horizon`. Of the ready jobs, those
/// with the least keys run, one per CPU.
pub fn completions<K: Ord>(
    jobs: &[Job],
    cpus: usize,
    preemptive: bool,
    horizon: i64,
    key: impl Fn(&Job) -> K,
) -> Vec<Option<i64>> {
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|index| key(&jobs[*index]));
    let mut rest: Vec<u64> = jobs.iter().map(|job| job.execution).collect();
    let mut complete = vec![None; jobs.len()];
    let mut running: Vec<usize> = Vec::new();
    for now in 0..horizon {
        if preemptive {
            running.clear();
        }
        for index in &order {
            if running.len() == cpus {
                break;
            }
            let is_ready = jobs[*index].ready <= now && rest[*index] > 0;
            if is_ready && !running.contains(index) {
                running.push(*index);
            }
        }
        running.retain(|index| {
            rest[*index] -= 1;
            if rest[*index] == 0 {
                complete[*index] = Some(now + 1);
            }
            rest[*index] > 0
        });
        order.retain(|index| rest[*index] > 0);
    }
    complete
}

/// Every task's first job ready at `start`, as late after its arrival as it can be, all others as
/// soon as they can be: the worst case for one CPU.
pub fn critical_instant(tasks: &[SporadicTask], start: i64, horizon: i64) -> Vec<Job> {
    let mut jobs = Vec::new();
    for (index, task) in tasks.iter().enumerate() {
        let mut arrival = start - nanos(task.jitter()) as i64;
        while arrival < horizon {
            jobs.push(job(task, index, arrival, arrival.max(start)));
            arrival += nanos(task.period()) as i64;
        }
    }
    jobs
}

/// A pattern that the tasks may show: each starts at its offset, and the gaps and jitters come from
/// `choices`, as parts of what is allowed.
pub fn sporadic_pattern(
    tasks: &[SporadicTask],
    offsets: &[u64],
    choices: &[(u64, u64)],
    horizon: i64,
) -> Vec<Job> {
    let mut choices = choices.iter().cycle();
    let mut jobs = Vec::new();
    for (index, (task, offset)) in tasks.iter().zip(offsets).enumerate() {
        let mut arrival = (offset % nanos(task.period())) as i64;
        let mut ready = arrival;
        while arrival < horizon {
            let (late, gap) = choices.next().unwrap();
            let late = (late % (nanos(task.jitter()) + 1)) as i64;
            // Jobs of a task become ready in the order in which they arrive.
            ready = ready.max(arrival + late);
            jobs.push(job(task, index, arrival, ready));
            // Mostly no further apart than they must be.
            arrival += nanos(task.period()) as i64 + gap.saturating_sub(5) as i64;
        }
    }
    jobs
}

fn job(task: &SporadicTask, index: usize, arrival: i64, ready: i64) -> Job {
    Job {
        task: index,
        arrival,
        ready,
        execution: nanos(task.execution()),
        deadline_ticks: arrival + nanos(task.deadline()) as i64,
    }
}

/// The longest time from arrival to completion, per task, of the jobs that are complete.
pub fn longest_responses(jobs: &[Job], complete: &[Option<i64>], tasks: usize) -> Vec<u64> {
    let mut longest = vec![0; tasks];
    for (job, complete) in jobs.iter().zip(complete) {
        if let (Some(complete), Some(slot)) = (complete, longest.get_mut(job.task)) {
            *slot = (*slot).max((complete - job.arrival) as u64);
        }
    }
    longest
}

/// Whether a job with its deadline before the horizon is late.
pub fn any_late(jobs: &[Job], complete: &[Option<i64>], horizon: i64) -> bool {
    jobs.iter().zip(complete).any(|(job, complete)| {
        job.deadline_ticks < horizon
            && complete.is_none_or(|complete| complete > job.deadline_ticks)
    })
}
