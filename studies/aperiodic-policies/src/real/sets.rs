//! The sets that are executed: few and small, drawn like those of the study.

use serde::Serialize;
use tailbound_time::Duration;

use crate::application::{Application, ApplicationError, Request, Shape, generate};
use crate::feasibility::Feasibility;
use crate::study::FIRST_GAIN_THOUSANDTHS;

/// What the analysis adds to the worst case of every hard job for what scheduling costs; the kernel's
/// costs are below on any machine that this is for, and the results say them.
pub const ALLOWANCE: Duration = Duration::from_micros(200);

/// The number by which the study tells these sets from its own.
const EXPERIMENT: u8 = 3;

/// Periods of even sets, in milliseconds, and the least budget that they must bear.
const SHORT: ([u64; 4], Duration) = ([10, 20, 25, 50], Duration::from_micros(500));
/// Of odd sets. Where the kernel looks at the budgets of SCHED_DEADLINE only at ticks, enforcement wants
/// at least three of them, which are 12 ms at 250 Hz: only long periods bear that.
const LONG: ([u64; 5], Duration) = ([50, 100, 125, 200, 250], Duration::from_millis(12));

/// So many sets are drawn before one is given up that bears the budget.
const MOST_DRAWS: u32 = 1000;

/// A set, and what it bears.
#[derive(Debug)]
pub struct Set {
    /// Tasks and jobs.
    pub application: Application,
    /// Budgets and promotions.
    pub feasibility: Feasibility,
}

/// What a set is like, for results.
#[derive(Clone, Debug, Serialize)]
pub struct SetDescription {
    /// The hard load, in percent.
    pub hard_load: u32,
    /// The soft load, in percent.
    pub soft_load: u32,
    /// Hard tasks as worst case and period, by rank.
    pub hard_tasks_ns: Vec<(u64, u64)>,
    /// The period of its servers.
    pub server_period_ns: u64,
    /// Soft jobs.
    pub soft_jobs: usize,
}

/// The set of that number; the same seed and length yield the same one.
pub fn set(number: u32, seed: u64, length: Duration) -> Result<Set, ApplicationError> {
    let (periods_ms, least): (&'static [u64], Duration) = match number % 2 {
        0 => (&SHORT.0, SHORT.1),
        _ => (&LONG.0, LONG.1),
    };
    let shape = Shape { periods_ms, length };
    let loads = [40, 50, 60, 50];
    let hard_load = loads[number as usize % loads.len()];
    let hard_tasks = 3 + number as usize / 2 % 2;
    for attempt in 0..MOST_DRAWS {
        let request = Request {
            experiment: EXPERIMENT,
            hard_tasks,
            hard_load,
            soft_load: [20, 15, 10][number as usize % 3],
            number: number * MOST_DRAWS + attempt,
            gain_thousandths: FIRST_GAIN_THOUSANDTHS,
        };
        let application = generate(&shape, request, seed, ALLOWANCE)?;
        let Some(feasibility) = Feasibility::of(&application.tasks, ALLOWANCE)? else {
            continue;
        };
        if feasibility
            .deferrable_budget
            .is_some_and(|budget| budget >= least)
        {
            return Ok(Set {
                application,
                feasibility,
            });
        }
    }
    Err(ApplicationError::NotFound {
        hard_tasks,
        hard_load,
    })
}

impl Set {
    /// What it is like.
    pub fn description(&self) -> SetDescription {
        let tasks = &self.application.tasks;
        let soft = self
            .application
            .jobs
            .iter()
            .filter(|job| job.task == tasks.len());
        SetDescription {
            hard_load: self.application.request.hard_load,
            soft_load: self.application.request.soft_load,
            hard_tasks_ns: tasks
                .iter()
                .map(|task| (task.execution().as_nanos(), task.period().as_nanos()))
                .collect(),
            server_period_ns: self.feasibility.server_period.as_nanos(),
            soft_jobs: soft.count(),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_seed_has_sets_that_leave_room() {
        for seed in 1..20 {
            for number in 0..4 {
                let set = set(number, seed, Duration::from_secs(1)).unwrap();
                let budget = set.feasibility.deferrable_budget.unwrap();
                let request = set.application.request;
                assert!(request.hard_load + request.soft_load <= 80);
                assert!(number % 2 == 0 || budget >= LONG.1);
                assert!(set.application.tasks.len() <= 4);
                let shortest = set.application.tasks.iter().map(|task| task.period()).min();
                assert_eq!(shortest, Some(set.feasibility.server_period));
            }
        }
    }
}
