//! Nobody beats the exact slack stealer that sees the future, on the first soft job.

use std::collections::HashSet;

use proptest::prelude::*;
use tailbound_simulator::aperiodic::{Gain, Policy};
use tailbound_simulator::hierarchy::Job;

use super::properties::bearable;
use super::sets::{Set, a_set};

/// The hard jobs at some time: of every job what is left of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State {
    now: u64,
    left: Vec<u64>,
    soft: u64,
}

/// By what hard jobs are ordered.
#[derive(Clone, Copy)]
enum Order {
    Rank,
    /// By which no deadline is missed if that is possible at all.
    Deadline,
}

/// The hard job that runs.
fn ready(set: &Set, hard: &[Job], state: &State, order: Order) -> Option<usize> {
    let released = |index: &usize| hard[*index].release <= state.now && state.left[*index] > 0;
    (0..hard.len()).filter(released).min_by_key(|index| {
        let job = hard[*index];
        match order {
            Order::Rank => (job.task as u64, job.release),
            Order::Deadline => (job.release + set.tasks[job.task].deadline_ns, 0),
        }
    })
}

/// The earliest end of a soft job for which a schedule exists that gives it some ticks and the others to
/// the hard jobs in their order, and that misses no deadline: every such schedule is tried.
fn least_end(set: &Set, soft: &Job, hard: &[Job], order: Order) -> u64 {
    // Jobs that are due within reach; the rest is as it would be without the soft job.
    let until = hard
        .iter()
        .map(|job| job.release + set.tasks[job.task].deadline_ns);
    let until = until.max().unwrap_or(0).max(soft.release + soft.work) + soft.work;
    let mut states = HashSet::new();
    states.insert(State {
        now: 0,
        left: hard.iter().map(|job| job.work).collect(),
        soft: soft.work,
    });
    for now in 0..=until {
        if let Some(end) = states
            .iter()
            .filter(|state| state.soft == 0)
            .map(|s| s.now)
            .min()
        {
            // The schedule from here on is that of fixed priorities; whoever can still keep all
            // deadlines counts.
            if states
                .iter()
                .any(|state| state.soft == 0 && keeps_deadlines(set, hard, state, order))
            {
                return end;
            }
            states.retain(|state| state.soft > 0);
        }
        let mut next = HashSet::new();
        for state in &states {
            if soft.release <= now {
                let mut stolen = state.clone();
                stolen.soft -= 1;
                next.insert(stolen);
            }
            let mut served = state.clone();
            if let Some(index) = ready(set, hard, state, order) {
                served.left[index] -= 1;
            }
            next.insert(served);
        }
        states = next
            .into_iter()
            .map(|state| State {
                now: now + 1,
                ..state
            })
            .filter(|state| in_time(set, hard, state))
            .collect();
    }
    unreachable!("in the background the soft job ends")
}

fn in_time(set: &Set, hard: &[Job], state: &State) -> bool {
    let mut pairs = hard.iter().zip(&state.left);
    pairs.all(|(job, left)| *left == 0 || job.release + set.tasks[job.task].deadline_ns > state.now)
}

fn keeps_deadlines(set: &Set, hard: &[Job], state: &State, order: Order) -> bool {
    let mut state = state.clone();
    while state.left.iter().any(|left| *left > 0) {
        if let Some(index) = ready(set, hard, &state, order) {
            state.left[index] -= 1;
        }
        state.now += 1;
        if !in_time(set, hard, &state) {
            return false;
        }
    }
    true
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn the_first_soft_job_ends_no_earlier_than_possible(
        set in a_set(),
        release in 0_u64..20,
        work in 1_u64..7,
    ) {
        let mut set = set;
        let soft_task = set.tasks.len();
        set.jobs.retain(|job| job.task < soft_task && job.release < 60);
        let soft = Job { delay_ns: 0, task: soft_task, number: 999, release, work };
        let hard = set.jobs.clone();
        let place = set.jobs.partition_point(|job| job.release < release);
        set.jobs.insert(place, soft);
        let by_rank = least_end(&set, &soft, &hard, Order::Rank);
        let by_deadline = least_end(&set, &soft, &hard, Order::Deadline);
        for policy in bearable(&set, 7) {
            // Promotions change the order of hard jobs, so that the bound by rank is none.
            let least = match policy {
                Policy::DualPriority { .. } => by_deadline,
                _ => by_rank,
            };
            let ends = set.soft_ends(policy.clone());
            prop_assert!(ends[0] >= least, "{:?}: {} before {}", policy, ends[0], least);
        }
    }
}

#[test]
fn the_approximation_is_exact_in_simple_sets() {
    use super::sets::Task;
    let job = |task, number, release, work| Job {
        delay_ns: 0,
        task,
        number,
        release,
        work,
    };
    let soft = job(2, 9, 0, 9);
    let hard = [job(0, 0, 0, 2), job(1, 1, 0, 3), job(0, 2, 10, 2)];
    let set = Set {
        tasks: vec![Task::new(2, 10, 10), Task::new(3, 20, 20)],
        jobs: vec![hard[0], hard[1], soft, hard[2]],
    };
    let ends = set.soft_ends(Policy::SlackStealing { gain: Gain::None });
    assert_eq!(ends, [least_end(&set, &soft, &hard, Order::Rank)]);
}
