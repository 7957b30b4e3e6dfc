//! Against the crate `response-time-analysis`, which derives its bounds from arrival curves (Bozhko
//! & Brandenburg, ECRTS 2020), and against exact sums in 128 bits.

use proptest::prelude::*;
use response_time_analysis::arrival::Sporadic;
use response_time_analysis::demand::RBF;
use response_time_analysis::wcet::Scalar;
use response_time_analysis::{edf, fixed_priority};
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::processor_demand::quick_processor_demand;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::{PriorityOrder, compare_utilisation};

use super::{nanos, task};

/// Beyond all busy periods of these sets, and beyond what the peer checks once more by brute force.
const LIMIT: u64 = 1 << 50;

fn arrivals(task: &SporadicTask, with_jitter: bool) -> Sporadic {
    let jitter = if with_jitter { nanos(task.jitter()) } else { 0 };
    Sporadic::new(nanos(task.period()).into(), jitter.into())
}

fn request_bound(task: &SporadicTask, with_jitter: bool) -> RBF<Sporadic, Scalar> {
    let cost = Scalar::new(nanos(task.execution()).into());
    RBF::new(arrivals(task, with_jitter), cost)
}

/// Sets with periods in microseconds to milliseconds, below full utilisation; the deadlines are
/// anything.
fn realistic_set() -> impl Strategy<Value = Vec<SporadicTask>> {
    let one = (1_000_u64..5_000_000, 1_u64..1_000, 1_u64..200, 0_u64..150);
    (prop::collection::vec(one, 1..9), 50_u64..97).prop_map(|(numbers, load)| {
        let parts: u64 = numbers.iter().map(|(_, part, _, _)| part).sum();
        let one = |(period, part, deadline, jitter): (u64, u64, u64, u64)| {
            let execution = (period * part * load / parts / 100).max(1);
            task(
                execution,
                period,
                period * deadline / 100,
                period * jitter / 100,
            )
        };
        numbers.into_iter().map(one).collect()
    })
}

fn request_bounds(tasks: &[SporadicTask]) -> Vec<RBF<Sporadic, Scalar>> {
    tasks.iter().map(|one| request_bound(one, true)).collect()
}

fn peer_accepts_earliest_deadline_first(tasks: &[SporadicTask]) -> bool {
    let bounds = request_bounds(tasks);
    let all = || {
        let pair = |(task, rbf): (&SporadicTask, _)| {
            let deadline = nanos(task.deadline_after_release()?).into();
            Some(edf::fully_preemptive::Task { rbf, deadline })
        };
        tasks
            .iter()
            .zip(&bounds)
            .map(pair)
            .collect::<Option<Vec<_>>>()
    };
    (0..tasks.len()).all(|index| {
        let Some(mut others) = all() else {
            return false;
        };
        let own = others.remove(index);
        let bound = edf::fully_preemptive::dedicated_uniproc_rta(&own, &others, LIMIT.into());
        bound.is_ok_and(|bound| bound <= own.deadline)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// The peer counts responses from the release, so that the task in question has no jitter here.
    #[test]
    fn fixed_priorities_agree(tasks in realistic_set()) {
        for (index, own) in tasks.iter().enumerate() {
            let higher: Vec<_> = request_bounds(&tasks[..index]);
            let theirs = fixed_priority::fully_preemptive::dedicated_uniproc_rta(
                &request_bound(own, false), &higher, LIMIT.into());
            let mut level = tasks[..=index].to_vec();
            level[index] = own.with_jitter(tailbound_time::Duration::ZERO).unwrap();
            let order = PriorityOrder::as_given(level.len());
            let ours = response_times(&level, &order, &[]).unwrap().tasks[index];
            prop_assert_eq!(ours.response_time.ok().map(|one| nanos(one).into()), theirs.ok());
        }
    }

    #[test]
    fn non_preemptive_fixed_priorities_agree(tasks in realistic_set(), blocking in 0_u64..90_000) {
        for (index, own) in tasks.iter().enumerate() {
            let higher: Vec<_> = request_bounds(&tasks[..index]);
            let theirs = fixed_priority::fully_nonpreemptive::dedicated_uniproc_rta(
                &fixed_priority::fully_nonpreemptive::TaskUnderAnalysis {
                    wcet: Scalar::new(nanos(own.execution()).into()),
                    arrivals: &arrivals(own, false),
                    blocking_bound: blocking.into(),
                },
                &higher, LIMIT.into());
            let mut level = tasks[..=index].to_vec();
            let none = tailbound_time::Duration::ZERO;
            level[index] = own.with_jitter(none).unwrap();
            let order = PriorityOrder::as_given(level.len());
            let mut own_blocking = vec![none; level.len()];
            own_blocking[index] = tailbound_time::Duration::from_nanos(blocking);
            let ours = non_preemptive_response_times(&level, &order, &own_blocking).unwrap();
            let ours = ours.tasks[index].response_time;
            prop_assert_eq!(ours.ok().map(|one| nanos(one).into()), theirs.ok());
        }
    }

    /// The set is schedulable under EDF if each task's response, from its release, is within D - J.
    /// With jitter that is not necessary: a job that is not late has until D.
    #[test]
    fn earliest_deadline_first_agrees(tasks in realistic_set()) {
        let ours = quick_processor_demand(&tasks).unwrap().schedulable();
        prop_assert!(ours || !peer_accepts_earliest_deadline_first(&tasks));
        let none = tailbound_time::Duration::ZERO;
        let punctual: Vec<_> = tasks.iter().map(|one| one.with_jitter(none).unwrap()).collect();
        let ours = quick_processor_demand(&punctual).unwrap().schedulable();
        prop_assert_eq!(ours, peer_accepts_earliest_deadline_first(&punctual));
    }

    #[test]
    fn utilisations_compare_as_fractions_do(
        numbers in prop::collection::vec((1_u64..3_000, 1_u64..3_000), 1..8),
        cpus in 0_u32..5,
    ) {
        let tasks: Vec<_> = numbers.iter().map(|(c, t)| task(*c, *t, *t, 0)).collect();
        // Products of up to seven numbers below 2^12 fit.
        let product: u128 = numbers.iter().map(|(_, t)| u128::from(*t)).product();
        let part = |(c, t): &(u64, u64)| product / u128::from(*t) * u128::from(*c);
        let sum: u128 = numbers.iter().map(part).sum();
        prop_assert_eq!(compare_utilisation(&tasks, cpus), sum.cmp(&(product * u128::from(cpus))));
    }
}
