//! The jobs of the synthetic service, the one to run next on top.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_model::Scheduling;
use tailbound_time::{Duration, Instant};

/// One job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SyntheticJob {
    /// Whose it is.
    pub(super) client: u64,
    /// The client's number for it.
    pub(super) id: u64,
    /// How much CPU time it asks for.
    pub(super) execution: Duration,
    /// How much it has had; may exceed what it asks for by the grain of the work loop.
    pub(super) worked: Duration,
    /// The higher number runs first.
    urgency: u64,
    /// When it came, among all jobs.
    arrival: u64,
}

impl SyntheticJob {
    /// The CPU time that it still needs.
    pub(super) fn missing(&self) -> Duration {
        self.execution.saturating_sub(self.worked)
    }
}

/// Jobs by urgency, the older one first among equals.
#[derive(Debug)]
pub(super) struct ReadyQueue {
    scheduling: Scheduling,
    arrivals: u64,
    heap: BinaryHeap<QueuedJob>,
}

#[derive(Debug, PartialEq, Eq)]
struct QueuedJob {
    order: (u64, Reverse<u64>),
    job: SyntheticJob,
}

impl Ord for QueuedJob {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.order.cmp(&other.order)
    }
}

impl PartialOrd for QueuedJob {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl ReadyQueue {
    /// An empty queue.
    pub(super) fn new(scheduling: Scheduling) -> Self {
        Self {
            scheduling,
            arrivals: 0,
            heap: BinaryHeap::new(),
        }
    }

    /// Adds a job that came at `came`, with the priority of its request.
    pub(super) fn push(
        &mut self,
        client: u64,
        id: u64,
        execution: Duration,
        priority: u32,
        came: Instant,
    ) {
        self.arrivals += 1;
        self.put_back(SyntheticJob {
            client,
            id,
            execution,
            worked: Duration::ZERO,
            urgency: self.urgency(priority, came),
            arrival: self.arrivals,
        });
    }

    fn urgency(&self, priority: u32, came: Instant) -> u64 {
        match self.scheduling {
            // No service takes turns; a description that says so is refused.
            Scheduling::Fifo | Scheduling::RoundRobin => 0,
            Scheduling::RateMonotonic
            | Scheduling::DeadlineMonotonic
            | Scheduling::FixedPriority => u64::from(priority),
            // The request's priority says how soon it is due.
            Scheduling::EarliestDeadlineFirst => {
                let due = came.saturating_add(Duration::from_micros(u64::from(priority)));
                u64::MAX - due.as_nanos()
            }
        }
    }

    /// Puts a job back that is not done; it keeps its age.
    pub(super) fn put_back(&mut self, job: SyntheticJob) {
        let order = (job.urgency, Reverse(job.arrival));
        self.heap.push(QueuedJob { order, job });
    }

    /// Takes the job to run next.
    pub(super) fn pop(&mut self) -> Option<SyntheticJob> {
        self.heap.pop().map(|entry| entry.job)
    }

    /// Drops the jobs of a client that left.
    pub(super) fn forget(&mut self, client: u64) {
        self.heap.retain(|entry| entry.job.client != client);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use super::*;

    const WORK: Duration = Duration::from_millis(1);

    fn order(queue: &mut ReadyQueue) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop())
            .map(|job| job.id)
            .collect()
    }

    #[test]
    fn without_preemption_age_alone_counts() {
        let mut queue = ReadyQueue::new(Scheduling::Fifo);
        for (id, priority) in [(1, 0), (2, 9), (3, 5)] {
            queue.push(0, id, WORK, priority, Instant::ORIGIN);
        }
        assert_eq!(order(&mut queue), [1, 2, 3]);
    }

    #[test]
    fn a_more_urgent_job_overtakes_one_that_was_put_back() {
        let mut queue = ReadyQueue::new(Scheduling::FixedPriority);
        queue.push(0, 1, WORK, 1, Instant::ORIGIN);
        let running = queue.pop().unwrap();
        queue.push(0, 2, WORK, 2, Instant::ORIGIN);
        queue.push(0, 3, WORK, 1, Instant::ORIGIN);
        queue.put_back(running);
        assert_eq!(order(&mut queue), [2, 1, 3]);
    }

    #[test]
    fn a_job_put_back_stays_before_younger_ones_of_its_priority() {
        let mut queue = ReadyQueue::new(Scheduling::FixedPriority);
        queue.push(0, 1, WORK, 1, Instant::ORIGIN);
        queue.push(0, 2, WORK, 1, Instant::ORIGIN);
        let mut running = queue.pop().unwrap();
        running.worked = Duration::from_micros(50);
        queue.put_back(running);
        assert_eq!(queue.pop().unwrap().id, 1);
    }

    #[test]
    fn of_jobs_with_deadlines_the_one_due_first_runs() {
        let mut queue = ReadyQueue::new(Scheduling::EarliestDeadlineFirst);
        let at = |us: u64| Instant::from_nanos(us * 1_000);
        // Due at 900, 850, 900 and 2000 us.
        for (id, due_in_us, came_us) in [(1, 900, 0), (2, 800, 50), (3, 400, 500), (4, 1_100, 900)]
        {
            queue.push(0, id, WORK, due_in_us, at(came_us));
        }
        let running = queue.pop().unwrap();
        assert_eq!(running.id, 2);
        queue.put_back(running);
        assert_eq!(order(&mut queue), [2, 1, 3, 4]);
    }

    #[test]
    fn jobs_of_a_client_that_left_are_dropped() {
        let mut queue = ReadyQueue::new(Scheduling::FixedPriority);
        queue.push(7, 1, WORK, 1, Instant::ORIGIN);
        queue.push(8, 2, WORK, 0, Instant::ORIGIN);
        queue.forget(7);
        assert_eq!(order(&mut queue), [2]);
    }
}
