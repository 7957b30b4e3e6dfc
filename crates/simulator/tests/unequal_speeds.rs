//! Jobs that move between CPUs of unequal speed, with answers found by hand.
//!
//! Work of W takes W / s on a CPU of speed s, and what a job has done on one CPU was done at that CPU's
//! speed, wherever it goes on. SimSo 0.8.5 counts it at the speed of the CPU that the job has just been
//! given (issue 12 of its repository, "Critical bug on homogeneous system"; seen here with a scheduler that
//! gives the fastest CPU to the highest rank): where `a_job_moves_up` ends at 10 ms it says 6 ms, and in
//! `a_chain_of_moves` 10 ms instead of 9.2 ms. So SimSo is no oracle for these.

use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, Level, LevelMember, PlannedReservation, PlannedTask, Rank,
    Rule, ServerKind, Speed, simulate_plan,
};
use tailbound_time::Duration;

const MS: u64 = 1_000_000;

fn ranked(rank: u64) -> LevelMember {
    LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank)))
}

fn level(members: Vec<LevelMember>) -> Level {
    Level::of(members)
}

/// The ends of jobs, one of each task, of which the releases and work in ms are given.
fn ends(permille: &[u32], members: Vec<LevelMember>, jobs: &[(u64, u64)]) -> Vec<u64> {
    let speeds = permille.iter().map(|it| Speed::from_permille(*it).unwrap());
    let plan = HierarchyPlan {
        cpus: speeds.collect(),
        ..HierarchyPlan::on_one_cpu(level(members))
    };
    let mut list: Vec<Job> = jobs
        .iter()
        .enumerate()
        .map(|(task, (release, work))| Job {
            delay_ns: 0,
            task,
            number: task as u64,
            release: release * MS,
            work: work * MS,
        })
        .collect();
    list.sort_by_key(|job| job.release);
    let mut completions: Vec<Completion> = Vec::new();
    simulate_plan(&plan, &mut list.as_slice(), &mut completions, None).unwrap();
    completions.sort_by_key(|completion| completion.task);
    completions
        .iter()
        .map(|completion| completion.end)
        .collect()
}

#[test]
fn a_slow_cpu_takes_longer() {
    assert_eq!(ends(&[200], vec![ranked(0)], &[(0, 6)]), [30 * MS]);
}

#[test]
fn a_job_moves_down() {
    // The first does 5 of 6 in 5 ms at full speed; then the second comes, and the rest of 1 takes 5 ms
    // at a fifth.
    let ends_at = ends(&[1_000, 200], vec![ranked(2), ranked(1)], &[(0, 6), (5, 5)]);
    assert_eq!(ends_at, [10 * MS, 10 * MS]);
}

#[test]
fn a_job_moves_up() {
    // The second does 1 of 6 in 5 ms at a fifth; then the first is done, and the rest of 5 takes 5 ms at
    // full speed.
    let ends_at = ends(&[1_000, 200], vec![ranked(1), ranked(2)], &[(0, 5), (0, 6)]);
    assert_eq!(ends_at, [5 * MS, 10 * MS]);
}

#[test]
fn two_jobs_change_places() {
    // The setting of the issue: each of two jobs of 6 ms has 5 ms at full speed and 5 ms at a fifth. Here
    // deadlines do it: that of the first server is 10, and 20 when its budget of 5 is used up; that of the
    // other is 12.
    let server = |budget_ms, period_ms| {
        LevelMember::Reservation(PlannedReservation {
            rank: Rank::Deadline(Duration::ZERO),
            rule: Rule::Server(ServerKind::SoftConstantBandwidth),
            budget: Duration::from_millis(budget_ms),
            period: Duration::from_millis(period_ms),
            phase: Duration::ZERO,
            inside: level(vec![ranked(0)]),
        })
    };
    let ends_at = ends(
        &[1_000, 200],
        vec![server(5, 10), server(11, 12)],
        &[(0, 6), (0, 6)],
    );
    assert_eq!(ends_at, [10 * MS, 10 * MS]);
}

#[test]
fn a_chain_of_moves() {
    // Until 5: the first does 5 at full speed, the third 2.5 at half. Then the second takes the fast one
    // for 5 ms; the first does its last 1 at half until 7, while the third does 0.4 at a fifth. From 7 on
    // the third does its last 1.1 at half, until 9.2.
    let ends_at = ends(
        &[1_000, 500, 200],
        vec![ranked(2), ranked(1), ranked(3)],
        &[(0, 6), (5, 5), (0, 4)],
    );
    assert_eq!(ends_at, [7 * MS, 10 * MS, 9_200_000]);
}

#[test]
fn the_order_of_the_cpus_in_the_plan_does_not_matter() {
    let members = || vec![ranked(2), ranked(1), ranked(3)];
    let jobs = [(0, 6), (5, 5), (0, 4)];
    let expected = ends(&[1_000, 500, 200], members(), &jobs);
    assert_eq!(ends(&[200, 1_000, 500], members(), &jobs), expected);
}
