//! Tasks of a description as tasks of a mode.

use std::collections::BTreeMap;

use tailbound_model::{Scheduling, Task};

use super::pair::ModeTask;
use crate::AnalysisError;
use crate::schedulability::priority_assignment::described_rank;
use crate::sporadic_task::SporadicTask;

/// The described tasks of a service or domain in one mode, as its scheduler ranks them: with their
/// longest execution times, and their periods or minimal gaps. Offsets are not looked at: what is
/// found holds for all of them. Each client is a task of its own; the first has the task's name, the
/// second `name (client 2)`, and so on.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a scheduler without fixed priorities, for a task without the
/// priority that it asks for, and for critical sections and boosts, which no protocol here accounts
/// for; [`AnalysisError::NotPeriodic`] for a task without a least gap,
/// [`AnalysisError::ExecutionTimeUnknown`] for one without a longest execution time; those of
/// [`SporadicTask::new`].
pub fn tasks_of_mode(
    tasks: &BTreeMap<String, Task>,
    scheduling: Scheduling,
) -> Result<Vec<ModeTask>, AnalysisError> {
    let mut mode_tasks = Vec::new();
    for (name, described) in tasks {
        let task = sporadic(name, described)?;
        let rank = rank(name, described, scheduling)?;
        mode_tasks.extend((1..=described.clients).map(|client| ModeTask {
            name: match client {
                1 => name.clone(),
                _ => format!("{name} (client {client})"),
            },
            rank,
            task,
        }));
    }
    Ok(mode_tasks)
}

fn sporadic(name: &str, described: &Task) -> Result<SporadicTask, AnalysisError> {
    let not_periodic = || AnalysisError::NotPeriodic { task: name.into() };
    let period = described.least_gap().ok_or_else(not_periodic)?;
    if let Some(key) = described.delay_key() {
        let what = format!(
            "task \"{name}\" has `{key}`, which the protocols of mode changes do not account for; leave it out, or the \
             protocol"
        );
        return Err(AnalysisError::Invalid { what });
    }
    if !described.sections.is_empty() || described.boost.is_some() {
        let what = format!(
            "task \"{name}\" has critical sections or a boost, which the protocols of mode changes \
             do not account for; `tailbound simulate` does"
        );
        return Err(AnalysisError::Invalid { what });
    }
    let execution = described.execution_time.longest();
    let execution =
        execution.ok_or_else(|| AnalysisError::ExecutionTimeUnknown { task: name.into() })?;
    SporadicTask::new(execution, period, described.deadline.unwrap_or(period))
}

/// The lower one first.
fn rank(name: &str, described: &Task, scheduling: Scheduling) -> Result<u64, AnalysisError> {
    described_rank(scheduling, described).ok_or_else(|| AnalysisError::Invalid {
        what: match scheduling {
            Scheduling::FixedPriority => {
                format!("task \"{name}\" has no priority; give it one")
            }
            _ => "the protocols of mode changes are analysed for fixed priorities; schedule by \
                  \"rate-monotonic\", \"deadline-monotonic\" or \"fixed-priority\""
                .into(),
        },
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::{Arrivals, ExecutionTime, Priority};
    use tailbound_time::{Duration, Rate};

    use super::*;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn task(execution_ms: u64, period_ms: u64) -> Task {
        let arrivals = Arrivals::Periodic {
            period: MS(period_ms),
            offset: Duration::ZERO,
        };
        let value = MS(execution_ms);
        Task::of(arrivals, ExecutionTime::Constant { value })
    }

    fn one(task: Task) -> BTreeMap<String, Task> {
        BTreeMap::from([("a".to_owned(), task)])
    }

    #[test]
    fn clients_are_tasks_and_the_scheduler_ranks_them() {
        let described = Task {
            deadline: Some(MS(6)),
            priority: Some(Priority(40)),
            clients: 2,
            ..task(1, 8)
        };
        for (scheduling, rank) in [
            (Scheduling::RateMonotonic, 8_000_000),
            (Scheduling::DeadlineMonotonic, 6_000_000),
            (Scheduling::FixedPriority, 215),
        ] {
            let mode_tasks = tasks_of_mode(&one(described.clone()), scheduling).unwrap();
            let task = SporadicTask::new(MS(1), MS(8), MS(6)).unwrap();
            let named = |name: &str| ModeTask {
                name: name.into(),
                rank,
                task,
            };
            assert_eq!(mode_tasks, [named("a"), named("a (client 2)")]);
        }
    }

    #[test]
    fn what_has_no_fixed_priority_or_no_period_is_refused() {
        let good = task(1, 8);
        for scheduling in [
            Scheduling::FixedPriority,
            Scheduling::Fifo,
            Scheduling::EarliestDeadlineFirst,
            Scheduling::RoundRobin,
        ] {
            let refusal = tasks_of_mode(&one(good.clone()), scheduling);
            assert!(matches!(refusal, Err(AnalysisError::Invalid { .. })));
        }
        let poisson = Task {
            arrivals: Arrivals::Poisson {
                rate: "4/s".parse::<Rate>().unwrap(),
            },
            ..good.clone()
        };
        let refusal = tasks_of_mode(&one(poisson), Scheduling::RateMonotonic);
        assert!(matches!(refusal, Err(AnalysisError::NotPeriodic { .. })));
        let boosted = Task {
            boost: Some(MS(1)),
            ..good
        };
        let refusal = tasks_of_mode(&one(boosted), Scheduling::RateMonotonic);
        assert!(matches!(refusal, Err(AnalysisError::Invalid { .. })));
    }
}
