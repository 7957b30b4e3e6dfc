//! How long the jobs of a component take at most on what its resource gives.
//!
//! Fixed priorities: for every job of the longest busy window, the time by which the supply reaches
//! all that has come before and above it (Shin and Lee 2003, Theorem 2; Lehoczky 1990 for the jobs
//! of a window). First come, first served: the largest horizontal distance from what has arrived to
//! what was supplied (network calculus; Le Boudec and Thiran 2001, Theorem 1.4.2).

use std::cmp::Ordering;

use serde::Serialize;
use tailbound_time::Duration;

use super::demand::Workload;
use super::supply::SupplyBound;
use super::test_points::{MOST_POINTS, too_many_points};
use crate::AnalysisError;

/// The longest time from the arrival of a job to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum ResponseBound {
    /// At most this.
    AtMost(Duration),
    /// None: more is asked for than is given in the long run.
    Overloaded,
}

/// A bound for the jobs of the last task of `workload`, the others having the same or a higher
/// priority.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] where the busy window holds too many points, or never ends.
pub fn of_lowest_priority(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<ResponseBound, AnalysisError> {
    of_lowest_priority_blocked(workload, Duration::ZERO, supply)
}

/// The same where lower priorities keep a job of the last task waiting for up to `blocking` of
/// execution, by a critical section or a job that is not preempted: once in a busy window (Sha,
/// Rajkumar and Lehoczky 1990; Davis et al. 2007).
///
/// # Errors
/// As of [`of_lowest_priority`].
pub fn of_lowest_priority_blocked(
    workload: &Workload,
    blocking: Duration,
    supply: &dyn SupplyBound,
) -> Result<ResponseBound, AnalysisError> {
    let count = workload.tasks().len();
    let Some((index, task)) = workload.tasks().iter().enumerate().next_back() else {
        return Ok(ResponseBound::AtMost(Duration::ZERO));
    };
    if let Some(early) = capacity(workload, count, supply)? {
        return Ok(early);
    }
    let mut worst = Duration::ZERO;
    let mut finished = Duration::from_nanos(1);
    let mut points = 0;
    for job in 0_u64.. {
        let (Some(own), Some(arrived)) = (
            task.execution().checked_mul(job + 1),
            task.period().checked_mul(job),
        ) else {
            return Err(too_many_points("busy windows are long"));
        };
        loop {
            points += 1;
            if points > MOST_POINTS {
                return Err(too_many_points("busy windows are long"));
            }
            let before = blocking.saturating_add(workload.request_bound(index, finished));
            let next = supply.time_to_supply(own.saturating_add(before));
            if next <= finished {
                break;
            }
            finished = next;
        }
        // Times count from when the first job becomes ready, its jitter after it arrived.
        let since_ready = finished.saturating_sub(arrived);
        worst = worst.max(since_ready.saturating_add(task.jitter()));
        let next_arrival = task.period().saturating_add(arrived);
        if finished.saturating_add(task.jitter()) <= next_arrival {
            break;
        }
    }
    Ok(ResponseBound::AtMost(worst))
}

/// A bound for the jobs of every task where all are served in the order in which they become ready,
/// counted from there; a job's jitter comes on top.
///
/// # Errors
/// As of [`of_lowest_priority`].
pub fn first_come_first_served(
    workload: &Workload,
    supply: &dyn SupplyBound,
) -> Result<ResponseBound, AnalysisError> {
    let count = workload.tasks().len();
    if let Some(early) = capacity(workload, count, supply)? {
        return Ok(early);
    }
    let mut worst = Duration::ZERO;
    let mut at = Duration::ZERO;
    for _ in 0..MOST_POINTS {
        // All that has become ready up to and at this point, and when it is done.
        let past = at.saturating_add(Duration::from_nanos(1));
        let done = supply.time_to_supply(workload.request_bound(count, past));
        worst = worst.max(done.saturating_sub(at));
        let next = workload
            .tasks()
            .iter()
            .filter_map(|task| {
                let jobs = task.jobs_ready(past);
                Some(
                    task.period()
                        .checked_mul(jobs)?
                        .saturating_sub(task.jitter()),
                )
            })
            .min();
        match next {
            Some(next) if next < done => at = next,
            _ => return Ok(ResponseBound::AtMost(worst)),
        }
    }
    Err(too_many_points("busy windows are long"))
}

/// Whether more, or all, of the rate is asked for.
fn capacity(
    workload: &Workload,
    count: usize,
    supply: &dyn SupplyBound,
) -> Result<Option<ResponseBound>, AnalysisError> {
    match workload.compare_utilisation(count, supply.rate()) {
        Ordering::Greater => Ok(Some(ResponseBound::Overloaded)),
        Ordering::Less => Ok(None),
        // On a server the window never ends; on a CPU of its own it does after a hyperperiod.
        Ordering::Equal if supply.delay_up().is_zero() => Ok(None),
        Ordering::Equal => Err(too_many_points("the tasks take all the bandwidth")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::{DedicatedCpu, PeriodicSupply};
    use super::*;
    use crate::SporadicTask;
    use crate::schedulability::priority_assignment::PriorityOrder;
    use crate::schedulability::response_time::response_times;
    use proptest::prelude::*;

    fn ms(value: u64) -> Duration {
        Duration::from_millis(value)
    }

    fn workload(tasks: &[(u64, u64)]) -> Workload {
        let task =
            |(execution, period): &(u64, u64)| SporadicTask::implicit(ms(*execution), ms(*period));
        Workload::new(tasks.iter().map(task).collect::<Result<_, _>>().unwrap()).unwrap()
    }

    #[test]
    fn on_a_server_the_gap_comes_first() {
        // 4 of every 10 ms: a job of 5 ms waits 6, gets 4, waits 6 and gets 1.
        let supply = PeriodicSupply::deferrable(ms(4), ms(10), Duration::ZERO).unwrap();
        let one = workload(&[(5, 40)]);
        let bound = of_lowest_priority(&one, &supply).unwrap();
        assert_eq!(bound, ResponseBound::AtMost(ms(17)));
        assert_eq!(first_come_first_served(&one, &supply).unwrap(), bound);
    }

    #[test]
    fn too_much_has_no_bound() {
        let supply = PeriodicSupply::deferrable(ms(4), ms(10), Duration::ZERO).unwrap();
        let much = workload(&[(5, 40), (12, 40)]);
        assert_eq!(
            of_lowest_priority(&much, &supply).unwrap(),
            ResponseBound::Overloaded
        );
        assert_eq!(
            first_come_first_served(&much, &supply).unwrap(),
            ResponseBound::Overloaded
        );
    }

    #[test]
    fn in_the_order_of_arrival_all_jobs_wait_for_all_others() {
        let three = workload(&[(1, 10), (2, 10), (3, 20)]);
        let bound = first_come_first_served(&three, &DedicatedCpu).unwrap();
        assert_eq!(bound, ResponseBound::AtMost(ms(6)));
    }

    proptest! {
        /// On a CPU of its own the bound is the exact response time.
        #[test]
        fn a_whole_cpu_gives_the_classic_response_times(
            raw in prop::collection::vec((1_u64..6, 4_u64..40), 1..5),
        ) {
            let bound = of_lowest_priority(&workload(&raw), &DedicatedCpu);
            let tasks: Vec<SporadicTask> = raw
                .iter()
                .map(|(c, t)| SporadicTask::implicit(ms(*c), ms(*t)).unwrap())
                .collect();
            let classic = response_times(&tasks, &PriorityOrder::as_given(tasks.len()), &[]).unwrap();
            let lowest = classic.tasks.last().unwrap().response_time;
            match (bound, lowest) {
                (Ok(ResponseBound::AtMost(bound)), Ok(exact)) => prop_assert_eq!(bound, exact),
                (Ok(ResponseBound::Overloaded), Err(_)) | (Err(_), _) => {}
                (bound, lowest) => prop_assert!(false, "{:?} {:?}", bound, lowest),
            }
        }
    }
}
