//! What the analysis says of a set of hard tasks: promotions, and the largest budgets of servers.

use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::server_interference::{
    interfering_task, response_times_below,
};
use tailbound_analysis::{AnalysisError, SporadicTask};
use tailbound_model::ServerKind;
use tailbound_time::Duration;

/// How finely budgets are searched.
const STEP: Duration = Duration::from_micros(1);

/// What a schedulable set of hard tasks bears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feasibility {
    /// Of each task, from release to promotion: the deadline less the worst-case response time.
    pub promotions: Vec<Duration>,
    /// The period of every server: the shortest of the tasks', so that its rank is the highest.
    pub server_period: Duration,
    /// The largest budget of a server that interferes as a periodic task does; none if no budget will do.
    pub periodic_budget: Option<Duration>,
    /// The largest budget of a deferrable server, whose test is the more restrictive one.
    pub deferrable_budget: Option<Duration>,
}

impl Feasibility {
    /// What is known of no tasks in particular: no promotions and no budgets.
    pub fn unknown() -> Self {
        Self {
            promotions: Vec::new(),
            server_period: STEP,
            periodic_budget: None,
            deferrable_budget: None,
        }
    }

    /// What tasks bear that are given by rank, when every job takes an allowance more than its worst
    /// case; nothing if a deadline may be missed without any server.
    pub fn of(tasks: &[SporadicTask], allowance: Duration) -> Result<Option<Self>, AnalysisError> {
        let with_allowance = |task: &SporadicTask| {
            SporadicTask::new(task.execution() + allowance, task.period(), task.deadline())
        };
        let tasks: Result<Vec<SporadicTask>, AnalysisError> =
            tasks.iter().map(with_allowance).collect();
        let tasks = tasks?;
        let order = PriorityOrder::as_given(tasks.len());
        let responses = response_times(&tasks, &order, &[])?;
        if !responses.schedulable() {
            return Ok(None);
        }
        let promotions = responses.tasks.iter().zip(&tasks).map(|(response, task)| {
            let response = response.response_time.unwrap_or(task.deadline());
            task.deadline().saturating_sub(response)
        });
        let shortest = tasks.iter().map(SporadicTask::period).min();
        let server_period = shortest.unwrap_or(STEP);
        Ok(Some(Self {
            promotions: promotions.collect(),
            server_period,
            periodic_budget: largest_budget(ServerKind::Sporadic, server_period, &tasks)?,
            deferrable_budget: largest_budget(ServerKind::Deferrable, server_period, &tasks)?,
        }))
    }
}

fn largest_budget(
    rule: ServerKind,
    period: Duration,
    tasks: &[SporadicTask],
) -> Result<Option<Duration>, AnalysisError> {
    let order = PriorityOrder::as_given(tasks.len());
    let bearable = |steps: u64| -> Result<bool, AnalysisError> {
        let budget = Duration::from_nanos(STEP.as_nanos() * steps);
        let server = interfering_task(rule, budget, period)?;
        Ok(response_times_below(&[server], tasks, &order, &[])?.schedulable())
    };
    // Zero steps can be borne, one more than the period cannot.
    let (mut good, mut bad) = (0, period.as_nanos() / STEP.as_nanos() + 1);
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if bearable(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok((good > 0).then(|| Duration::from_nanos(STEP.as_nanos() * good)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn a_deferrable_server_gets_less() {
        let ms = Duration::from_millis;
        let tasks = [
            SporadicTask::implicit(ms(2), ms(10)).unwrap(),
            SporadicTask::implicit(ms(6), ms(20)).unwrap(),
        ];
        let feasibility = Feasibility::of(&tasks, Duration::ZERO).unwrap().unwrap();
        // Until 20 there are two budgets and 2 + 2 + 6 of work; a deferrable server has a third one.
        assert_eq!(feasibility.periodic_budget, Some(ms(5)));
        let deferrable = feasibility.deferrable_budget.unwrap();
        assert!(deferrable < ms(5) && deferrable > ms(3), "{deferrable}");
        assert_eq!(feasibility.promotions, [ms(8), ms(12)]);
    }

    #[test]
    fn what_is_not_schedulable_has_no_feasibility() {
        let ms = Duration::from_millis;
        let tasks = [SporadicTask::implicit(ms(6), ms(10)).unwrap(); 2];
        assert_eq!(Feasibility::of(&tasks, Duration::ZERO).unwrap(), None);
    }
}
