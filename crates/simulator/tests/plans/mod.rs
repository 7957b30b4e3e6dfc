//! Plans and jobs in few words, times in nanoseconds.

use tailbound_simulator::hierarchy::{
    Job, Level, LevelMember, PlannedReservation, PlannedTask, Rank, Rule,
};
use tailbound_time::Duration;

pub fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// A task of a fixed rank.
pub fn task(rank: u64) -> LevelMember {
    LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(rank)))
}

/// A preemptive level without turns.
pub fn level(members: Vec<LevelMember>) -> Level {
    Level::of(members)
}

/// A reservation of a fixed rank.
pub fn reservation(
    rank: u64,
    rule: Rule,
    budget_ns: u64,
    period_ns: u64,
    members: Vec<LevelMember>,
) -> LevelMember {
    ranked_reservation(Rank::Fixed(rank), rule, budget_ns, period_ns, members)
}

/// A reservation of any rank, with its grid at the origin.
pub fn ranked_reservation(
    rank: Rank,
    rule: Rule,
    budget_ns: u64,
    period_ns: u64,
    members: Vec<LevelMember>,
) -> LevelMember {
    LevelMember::Reservation(PlannedReservation {
        rank,
        rule,
        budget: ns(budget_ns),
        period: ns(period_ns),
        phase: Duration::ZERO,
        inside: level(members),
    })
}

/// Jobs of (task, release, work), numbered as they are listed, in order of release.
pub fn jobs(list: &[(usize, u64, u64)]) -> Vec<Job> {
    let mut jobs: Vec<Job> = list
        .iter()
        .enumerate()
        .map(|(number, (task, release, work))| Job {
            delay_ns: 0,
            task: *task,
            number: number as u64,
            release: *release,
            work: *work,
        })
        .collect();
    jobs.sort_by_key(|job| job.release);
    jobs
}
