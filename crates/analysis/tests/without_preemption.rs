//! Jobs that are not preempted: on reservations against slot-by-slot simulation, and Audsley's assignment
//! against all orders.

use proptest::prelude::*;
use tailbound_analysis::SporadicTask;
use tailbound_analysis::interfaces::response_bound::{ResponseBound, of_lowest_priority_blocked};
use tailbound_analysis::interfaces::{PeriodicSupply, SupplyBound, Workload};
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::priority_assignment::audsley_without_preemption;
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

fn small_task() -> impl Strategy<Value = SporadicTask> {
    let period = prop::sample::select(vec![6_u64, 8, 12, 16, 24]);
    let jitter = prop::sample::select(vec![0_u64, 0, 0, 2, 5]);
    (1_u64..5, period, 2_u64..40, jitter).prop_map(|(execution, period, deadline, jitter)| {
        let task = SporadicTask::new(ns(execution), ns(period), ns(deadline)).unwrap();
        task.with_jitter(ns(jitter)).unwrap()
    })
}

/// A job of a task by rank: its arrival, its readiness, its remaining work.
struct Job {
    rank: usize,
    arrival: u64,
    ready: u64,
    left: u64,
}

/// The longest response of each rank on the slots that are given; the job that has begun goes on.
fn longest_responses(mut jobs: Vec<Job>, slots: &[bool], ranks: usize) -> Vec<u64> {
    let mut longest = vec![0; ranks];
    let mut running: Option<usize> = None;
    for (now, given) in (0_u64..).zip(slots) {
        if !given {
            continue;
        }
        let waiting = jobs.iter().enumerate();
        let waiting = waiting.filter(|(_, job)| job.left > 0 && job.ready <= now);
        let next = waiting.min_by_key(|(_, job)| (job.rank, job.arrival));
        let next = running.or(next.map(|(index, _)| index));
        running = next;
        if let Some(job) = next.and_then(|index| jobs.get_mut(index)) {
            job.left -= 1;
            if job.left == 0 {
                running = None;
                longest[job.rank] = longest[job.rank].max(now + 1 - job.arrival);
            }
        }
    }
    longest
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Blocking by the longest job of a lower priority bounds responses without preemption.
    #[test]
    fn no_job_on_a_reservation_is_later_than_its_bound(
        tasks in prop::collection::vec(small_task(), 1..4),
        period in 1_u64..7, budget in any::<u64>(), aligned in any::<bool>(),
        numbers in prop::collection::vec(0_u64..1_000, 150),
    ) {
        let budget = 1 + budget % period;
        let supply = PeriodicSupply::somewhere(ns(budget), ns(period)).unwrap();
        let mut numbers = numbers.iter().cycle();
        let mut number = |below: u64| numbers.next().unwrap() % below.max(1);
        let horizon = 500;
        let mut jobs = Vec::new();
        for (rank, task) in tasks.iter().enumerate() {
            // Lower priorities begin just before all others.
            let mut arrival = match aligned {
                true => 10 - u64::from(rank + 1 == tasks.len()),
                false => number(12),
            };
            while arrival < horizon {
                let ready = arrival + number(task.jitter().as_nanos() + 1);
                jobs.push(Job { rank, arrival, ready, left: task.execution().as_nanos() });
                arrival += task.period().as_nanos() + number(3) * number(2);
            }
        }
        let mut slots = Vec::new();
        while (slots.len() as u64) < horizon + 100 {
            let early = number(2) == 0;
            let given = |slot: u64| match early {
                true => slot < budget,
                false => slot >= period - budget,
            };
            slots.extend((0..period).map(given));
        }
        let longest = longest_responses(jobs, &slots, tasks.len());
        for rank in 0..tasks.len() {
            let workload = Workload::new(tasks[..=rank].to_vec()).unwrap();
            let blocking = tasks[rank + 1..].iter().map(SporadicTask::execution).max();
            let bound = of_lowest_priority_blocked(&workload, blocking.unwrap_or_default(), &supply);
            if let Ok(ResponseBound::AtMost(bound)) = bound {
                prop_assert!(ns(longest[rank]) <= bound, "{} {} {}", rank, longest[rank], bound);
            }
        }
        prop_assert!(supply.rate().0 > 0);
    }

    /// Audsley's assignment is there exactly if one of all orders is accepted.
    #[test]
    fn an_order_is_assigned_if_there_is_one(
        tasks in prop::collection::vec(small_task(), 1..5),
        blocking in prop::collection::vec(0_u64..3, 4),
    ) {
        let blocking: Vec<Duration> = blocking.iter().take(tasks.len()).copied().map(ns).collect();
        let accepts = |order: &PriorityOrder| {
            non_preemptive_response_times(&tasks, order, &blocking).unwrap().schedulable()
        };
        let mut orders = vec![Vec::new()];
        for _ in 0..tasks.len() {
            let longer = |order: &Vec<usize>| {
                let left = (0..tasks.len()).filter(|task| !order.contains(task));
                left.map(|task| [order.as_slice(), &[task]].concat()).collect::<Vec<_>>()
            };
            orders = orders.iter().flat_map(longer).collect();
        }
        let mut orders = orders.into_iter().map(|order| PriorityOrder::new(order).unwrap());
        let assigned = audsley_without_preemption(&tasks, &blocking).unwrap();
        if let Some(order) = &assigned {
            prop_assert!(accepts(order));
        }
        prop_assert_eq!(assigned.is_some(), orders.any(|order| accepts(&order)));
    }
}
