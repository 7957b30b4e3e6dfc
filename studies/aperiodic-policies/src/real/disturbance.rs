//! How long something else had the CPU while jobs were there.
//!
//! Other real-time threads, the kernel's throttling of all of them, the hypervisor: whatever it is, the
//! time in which there were jobs is longer than the time that they and their manager have used.

use tailbound_simulator::hierarchy::{Completion, Job};
use tailbound_time::Duration;

/// A run that was disturbed for more than this part of its length is executed anew.
const MOST_DISTURBED_PERCENT: u64 = 2;

/// What is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Looked<'a> {
    /// The jobs in whose presence the CPU cannot be idle: all of them; or those of hard tasks, where soft
    /// ones may have to wait for a budget.
    pub jobs: &'a [Job],
    /// Those that were done, in any order, others among them.
    pub completions: &'a [Completion],
    /// How long jobs came and were executed.
    pub length: Duration,
    /// CPU time of all threads that are not `beside`.
    pub used: Duration,
    /// When others of the run had the CPU, from its start: where soft jobs are not looked at, theirs.
    pub beside: &'a [(u64, u64)],
    /// What the kernel takes for a job that comes and goes.
    pub per_job: Duration,
}

/// The time that is missing, at least: what the manager and the kernel used while no job was there makes
/// it too small.
pub fn lost(looked: &Looked<'_>) -> Duration {
    let length_ns = looked.length.as_nanos();
    let mut ends: Vec<(u64, u64)> = Vec::with_capacity(looked.jobs.len());
    let mut done: Vec<(u64, u64)> = looked
        .completions
        .iter()
        .map(|done| (done.number, done.end))
        .collect();
    done.sort_unstable();
    for job in looked.jobs {
        let place = done.binary_search_by_key(&job.number, |(number, _)| *number);
        let end = place.map_or(length_ns, |place| done[place].1);
        ends.push((job.release, end.min(length_ns)));
    }
    // What ran beside explains only the time in which it coincides with jobs, which is all of it less what
    // it adds to their time.
    let beside = looked.beside.iter();
    let beside: Vec<(u64, u64)> = beside
        .map(|(from, until)| (*from, (*until).min(length_ns)))
        .collect();
    ends.extend(&beside);
    let kernel = looked.per_job * looked.completions.len() as u64;
    let explained = looked.used.saturating_add(kernel);
    let present = covered(ends) - covered(beside);
    Duration::from_nanos(present).saturating_sub(explained)
}

/// Whether a run is worth no more than another try.
pub fn is_spoilt(disturbed: Duration, length: Duration) -> bool {
    disturbed > length.scaled_down(MOST_DISTURBED_PERCENT, 100)
}

/// How much of the time is in at least one of the intervals.
fn covered(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut sum, mut until) = (0, 0);
    for (from, to) in intervals {
        sum += to.saturating_sub(from.max(until));
        until = until.max(to);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn job(number: u64, release: u64, work: u64) -> Job {
        Job {
            delay_ns: 0,
            task: 0,
            number,
            release,
            work,
        }
    }

    fn lost_ns(jobs: &[Job], ends: &[u64], used_ns: u64, beside: &[(u64, u64)]) -> u64 {
        let completions: Vec<Completion> = jobs
            .iter()
            .zip(ends)
            .map(|(job, end)| Completion {
                task: 0,
                number: job.number,
                release: job.release,
                end: *end,
            })
            .collect();
        let looked = Looked {
            jobs,
            completions: &completions,
            length: Duration::from_nanos(1000),
            used: Duration::from_nanos(used_ns),
            beside,
            per_job: Duration::from_nanos(1),
        };
        lost(&looked).as_nanos()
    }

    #[test]
    fn what_is_not_explained_is_lost() {
        let jobs = [job(0, 0, 100), job(1, 50, 100), job(2, 500, 10)];
        assert_eq!(lost_ns(&jobs, &[101, 202, 511], 210, &[]), 0);
        // The second job waited for something else; the third was never done.
        assert_eq!(lost_ns(&jobs, &[101, 402], 210, &[]), 402 + 500 - 210 - 2);
    }

    #[test]
    fn what_runs_beside_explains_only_the_time_of_jobs() {
        let jobs = [job(0, 100, 100)];
        // 50 of the 60 in which the job waited, and much while it was not there.
        let beside = [(0, 90), (120, 170), (400, 990), (995, 1200)];
        assert_eq!(lost_ns(&jobs, &[261], 100, &beside), 10);
    }

    proptest! {
        #[test]
        fn jobs_one_after_the_other_lose_what_is_put_between(
            parts in prop::collection::vec((0_u64..20, 1_u64..20, 0_u64..20, 0_u64..20), 1..12),
        ) {
            // A pause in which only a soft job runs, which goes on when the job is there, work, and something
            // else while the job is there.
            let (mut now, mut jobs, mut ends, mut worked, mut other) = (0, vec![], vec![], 0, 0);
            let mut beside = vec![];
            for (number, (pause, work, else_ns, soft)) in parts.into_iter().enumerate() {
                beside.push((now, now + pause + soft));
                now += pause;
                jobs.push(job(number as u64, now, work));
                now += soft + 1 + work + else_ns;
                ends.push(now);
                worked += work;
                other += else_ns;
            }
            prop_assert_eq!(lost_ns(&jobs, &ends, worked, &beside), other);
        }
    }
}
