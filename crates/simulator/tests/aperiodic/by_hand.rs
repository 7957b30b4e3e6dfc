//! Schedules that can be followed by hand.

use tailbound_simulator::aperiodic::{AperiodicError, Gain, Policy, ServerKind};
use tailbound_simulator::hierarchy::Job;

use super::sets::{Set, Task, budget, ns};

fn set(tasks: &[Task], jobs: &[(usize, u64, u64)]) -> Set {
    let jobs = jobs.iter().enumerate();
    Set {
        tasks: tasks.to_vec(),
        jobs: jobs
            .map(|(number, (task, release, work))| Job {
                delay_ns: 0,
                task: *task,
                number: number as u64,
                release: *release,
                work: *work,
            })
            .collect(),
    }
}

/// The end of each job, by its number.
fn ends(set: &Set, policy: Policy) -> Vec<u64> {
    let mut completions = set.run(policy);
    completions.sort_by_key(|done| done.number);
    completions.iter().map(|done| done.end).collect()
}

fn dual(set: &Set, gain: Gain) -> Policy {
    Policy::DualPriority {
        promotions: set.promotions().unwrap(),
        gain,
    }
}

#[test]
fn in_the_background_soft_jobs_wait_for_all_hard_ones() {
    let set = set(&[Task::new(3, 10, 10)], &[(0, 0, 3), (1, 0, 2), (1, 1, 4)]);
    assert_eq!(ends(&set, Policy::Background), [3, 5, 9]);
}

#[test]
fn a_server_that_spills_goes_on_in_the_background() {
    let set = set(&[Task::new(3, 10, 10)], &[(0, 0, 3), (1, 0, 4)]);
    let server = |spills| Policy::Server {
        rule: ServerKind::Deferrable,
        budget: budget(2, 10),
        spills,
    };
    assert_eq!(ends(&set, server(true)), [5, 7]);
    assert_eq!(ends(&set, server(false)), [5, 12]);
}

#[test]
fn exchanged_budget_is_used_at_the_rank_of_who_ran() {
    let tasks = [Task::new(2, 10, 10), Task::new(4, 20, 20)];
    // The budget of 2 goes to rank 0 in 0-2, from there to rank 1 in 2-4. The soft job of 3 is there
    // before rank 1 goes on at 4, but behind rank 0 that is released at 4.
    let jobs = [(0, 0, 2), (1, 0, 4), (2, 4, 1), (2, 10, 3), (0, 10, 2)];
    let set = set(&tasks, &jobs);
    let policy = Policy::PriorityExchange(budget(2, 10));
    // 4-5 soft on the budget of rank 1; rank 1 5-7; idle; at 10 the budget is full again: 10-12 soft,
    // then rank 0 12-14, then the background.
    assert_eq!(ends(&set, policy), [2, 7, 5, 15, 14]);
}

#[test]
fn hard_jobs_give_way_until_their_promotion() {
    // Response times 2 and 5, so the promotions come at 8 and 15.
    let tasks = [Task::new(2, 10, 10), Task::new(3, 20, 20)];
    let set = set(&tasks, &[(0, 0, 2), (1, 0, 3), (2, 0, 14), (0, 10, 2)]);
    // Soft 0-8, rank 0 8-10, soft 10-15, rank 1 15-18, soft 18-19, rank 0 19-20 with a promotion at 18
    // that makes it run at once: 18-20, soft 20-21.
    assert_eq!(ends(&set, dual(&set, Gain::None)), [10, 18, 21, 20]);
}

#[test]
fn what_ran_before_the_promotion_delays_it() {
    // The response time is 4, the promotion at 6.
    let tasks = [Task::new(4, 10, 10)];
    let set = set(&tasks, &[(0, 0, 4), (1, 3, 5)]);
    assert_eq!(ends(&set, dual(&set, Gain::None)), [7, 9]);
    // It ran 3 of 4 before the soft job came, and may wait until 9.
    assert_eq!(ends(&set, dual(&set, Gain::Own)), [9, 8]);
}

#[test]
fn what_a_promoted_job_leaves_is_given_to_soft_jobs() {
    // No time to give way: the response times are 4 and 8, and so are the deadlines.
    let tasks = [Task::new(4, 20, 4), Task::new(4, 20, 8)];
    let set = set(&tasks, &[(0, 0, 1), (1, 0, 4), (2, 0, 2)]);
    assert_eq!(ends(&set, dual(&set, Gain::None)), [1, 5, 7]);
    assert_eq!(ends(&set, dual(&set, Gain::Propagated)), [1, 7, 3]);
}

#[test]
fn slack_is_stolen_at_once() {
    let tasks = [Task::new(2, 10, 10), Task::new(3, 20, 20)];
    let set = set(&tasks, &[(0, 0, 2), (1, 0, 3), (2, 0, 9)]);
    let steal = |gain| Policy::SlackStealing { gain };
    // Rank 0 has 10 - 2 = 8, rank 1 has 20 - 3 - 4 = 13: soft 0-8, then rank 0 8-10. Its slack is now
    // that until 20 less its next job: soft goes on.
    assert_eq!(ends(&set, steal(Gain::None)), [10, 14, 11]);
}

#[test]
fn what_a_job_leaves_is_slack_of_those_behind_it() {
    let tasks = [Task::new(4, 20, 4), Task::new(4, 20, 8)];
    let set = set(&tasks, &[(0, 0, 1), (1, 0, 4), (2, 0, 2)]);
    let steal = |gain| Policy::SlackStealing { gain };
    assert_eq!(ends(&set, steal(Gain::None)), [1, 5, 7]);
    assert_eq!(ends(&set, steal(Gain::Propagated)), [1, 7, 3]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let good = set(&[Task::new(2, 10, 10)], &[]);
    let refused = |set: &Set, policy| {
        let none: &[Job] = &[];
        let mut none = none;
        let system = set.system(policy);
        let mut sink = Vec::new();
        tailbound_simulator::aperiodic::simulate_aperiodic(&system, &mut none, &mut sink, None)
            .unwrap_err()
    };
    let late = set(&[Task::new(2, 10, 11)], &[]);
    assert!(matches!(
        refused(&late, Policy::Background),
        AperiodicError::HardTask { task: 0, .. }
    ));
    let endless = Policy::Server {
        rule: ServerKind::SoftConstantBandwidth,
        budget: budget(2, 5),
        spills: false,
    };
    assert!(matches!(
        refused(&good, endless),
        AperiodicError::Rule { .. }
    ));
    let promotions = Policy::DualPriority {
        promotions: vec![ns(1); 2],
        gain: Gain::None,
    };
    assert!(matches!(
        refused(&good, promotions),
        AperiodicError::Promotions { .. }
    ));
    for wrong in [budget(0, 5), budget(6, 5)] {
        assert!(matches!(
            refused(&good, Policy::PriorityExchange(wrong)),
            AperiodicError::Budget { .. }
        ));
    }
}
