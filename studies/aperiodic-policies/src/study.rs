//! The experiments: which applications, under which policies, and what came of each.

use indicatif::ProgressBar;
use rayon::prelude::*;
use serde::Serialize;
use tailbound_simulator::aperiodic::{
    AperiodicError, HardTask, Policy, System, Usage, simulate_aperiodic,
};
use tailbound_time::Duration;

use crate::application::{Application, ApplicationError, Request, SIMULATED, generate};
use crate::feasibility::Feasibility;
use crate::outcome::Outcome;
use crate::settings::Settings;
use crate::variants::{ALL, Variant};

/// Hard jobs of the first experiment execute between 95% and 100% of their worst case.
pub const FIRST_GAIN_THOUSANDTHS: u32 = 25;

/// How much hard jobs of the second experiment leave on average, by the number of the application: the
/// paper shows results by gain, and does not say which gains there were.
const SECOND_GAINS_THOUSANDTHS: [u32; 5] = [100, 200, 300, 400, 500];

/// Which combinations are run, and how many applications of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The numbers of hard tasks.
    pub hard_tasks: &'static [usize],
    /// The hard loads of both experiments, in percent.
    pub hard_loads: [&'static [u32]; 2],
    /// The soft loads of both experiments, in percent.
    pub soft_loads: [&'static [u32]; 2],
    /// Applications per combination.
    pub sets: u32,
}

/// The parameters of the paper, sections 4.2 and 4.4.
pub const AS_IN_THE_PAPER: Extent = Extent {
    hard_tasks: &[4, 8, 12, 16],
    hard_loads: [&[20, 40, 60], &[60, 70, 80]],
    soft_loads: [&[10, 20, 30, 40, 50, 60], &[10, 20, 30, 40]],
    sets: 5,
};

/// Some of them, for a look.
pub const SHORTENED: Extent = Extent {
    hard_tasks: &[4, 16],
    hard_loads: [&[20, 60], &[60, 80]],
    soft_loads: [&[10, 40], &[10, 30]],
    sets: 5,
};

/// What is run.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// The combinations.
    pub extent: Extent,
    /// The seed of all applications.
    pub seed: u64,
    /// What scheduling costs, where it costs something.
    pub settings: Settings,
}

/// One application under one policy.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The experiment, 1 or 2.
    pub experiment: u8,
    /// Whether scheduling cost something.
    pub overheads: bool,
    /// The number of hard tasks.
    pub hard_tasks: usize,
    /// The hard load, in percent.
    pub hard_load: u32,
    /// The soft load, in percent.
    pub soft_load: u32,
    /// The number of the application in its combination.
    pub application: u32,
    /// What hard jobs left of their worst case on average, in thousandths.
    pub gain_thousandths: u32,
    /// The policy.
    pub policy: Variant,
    /// The budget of its server.
    pub budget_ns: Option<u64>,
    /// Soft jobs released.
    pub soft_jobs: u64,
    /// Soft jobs done within the hyperperiod.
    pub soft_done: u64,
    /// Their mean response time; jobs that are not done count with the time that they have waited.
    pub mean_response_time_ns: f64,
    /// Hard jobs that were due within the hyperperiod.
    pub hard_jobs: u64,
    /// Hard deadlines missed.
    pub deadline_misses: u64,
    /// Context switches.
    pub context_switches: u64,
    /// Looks of the scheduler.
    pub scheduler_invocations: u64,
    /// The time that scheduling took: looks, switches, and the policy's own work.
    pub scheduler_time_ns: u64,
}

/// Why the study cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum StudyError {
    /// There is no such application.
    #[error(transparent)]
    Application(#[from] ApplicationError),
    /// It cannot be simulated.
    #[error(transparent)]
    Simulation(#[from] AperiodicError),
}

/// Every application of the plan.
pub fn requests(extent: &Extent) -> Vec<Request> {
    let mut requests = Vec::new();
    for experiment in [1_u8, 2] {
        let place = usize::from(experiment - 1);
        for hard_tasks in extent.hard_tasks {
            for hard_load in extent.hard_loads[place] {
                for soft_load in extent.soft_loads[place] {
                    for number in 0..extent.sets {
                        let gains = SECOND_GAINS_THOUSANDTHS;
                        requests.push(Request {
                            experiment,
                            hard_tasks: *hard_tasks,
                            hard_load: *hard_load,
                            soft_load: *soft_load,
                            number,
                            gain_thousandths: match experiment {
                                1 => FIRST_GAIN_THOUSANDTHS,
                                _ => gains[number as usize % gains.len()],
                            },
                        });
                    }
                }
            }
        }
    }
    requests
}

/// Runs all of it on all cores; the rows are in the order of the applications.
pub fn run(plan: &Plan, progress: &ProgressBar) -> Result<Vec<Row>, StudyError> {
    let requests = requests(&plan.extent);
    progress.set_length(requests.len() as u64);
    let rows: Result<Vec<Vec<Row>>, StudyError> = requests
        .par_iter()
        .map(|request| {
            let allowances =
                ALL.map(|variant| plan.settings.allowance(variant, request.hard_tasks));
            let largest = allowances.into_iter().max().unwrap_or_default();
            let application = generate(&SIMULATED, *request, plan.seed, largest)?;
            let mut rows = Vec::new();
            for settings in [None, Some(plan.settings)] {
                for variant in ALL {
                    rows.push(run_one(&application, variant, settings)?);
                }
            }
            progress.inc(1);
            Ok(rows)
        })
        .collect();
    Ok(rows?.into_iter().flatten().collect())
}

fn run_one(
    application: &Application,
    variant: Variant,
    costs: Option<Settings>,
) -> Result<Row, StudyError> {
    let request = application.request;
    let settings = costs.unwrap_or_default();
    let allowance = settings.allowance(variant, request.hard_tasks);
    let feasibility = Feasibility::of(&application.tasks, allowance)
        .map_err(ApplicationError::from)?
        .ok_or(ApplicationError::NotFound {
            hard_tasks: request.hard_tasks,
            hard_load: request.hard_load,
        })?;
    let (outcome, usage) = simulate(
        application,
        variant.policy(&feasibility),
        allowance,
        &settings,
    )?;
    Ok(Row {
        experiment: request.experiment,
        overheads: costs.is_some(),
        hard_tasks: request.hard_tasks,
        hard_load: request.hard_load,
        soft_load: request.soft_load,
        application: request.number,
        gain_thousandths: request.gain_thousandths,
        policy: variant,
        budget_ns: variant.budget(&feasibility).map(Duration::as_nanos),
        soft_jobs: outcome.soft_jobs,
        soft_done: outcome.soft_done,
        mean_response_time_ns: outcome.mean_response_time_ns(),
        hard_jobs: outcome.hard_jobs,
        deadline_misses: outcome.missed,
        context_switches: usage.context_switches,
        scheduler_invocations: usage.scheduler_invocations,
        scheduler_time_ns: scheduler_time_ns(&usage),
    })
}

/// An application under a policy, whose hard tasks are allowed so much more than their worst case.
pub fn simulate(
    application: &Application,
    policy: Policy,
    allowance: Duration,
    settings: &Settings,
) -> Result<(Outcome, Usage), AperiodicError> {
    let hard = application.tasks.iter().map(|task| HardTask {
        execution: task.execution() + allowance,
        period: task.period(),
        deadline: task.deadline(),
        offset: Duration::ZERO,
    });
    let system = System {
        hard: hard.collect(),
        policy,
        overheads: settings.overheads(),
        costs: settings.policy_costs(),
    };
    let mut outcome = Outcome::of(application);
    let usage = simulate_aperiodic(
        &system,
        &mut application.jobs.as_slice(),
        &mut outcome,
        Some(application.length),
    )?;
    Ok((outcome, usage))
}

fn scheduler_time_ns(usage: &Usage) -> u64 {
    (usage.scheduling + usage.switching + usage.policy).as_nanos()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_experiment_has_360_applications() {
        let requests = requests(&AS_IN_THE_PAPER);
        let first = requests.iter().filter(|request| request.experiment == 1);
        assert_eq!(first.count(), 360);
        // The paper says 180, but its lists multiply to 4 x 3 x 4 combinations of 5.
        assert_eq!(requests.len(), 360 + 240);
    }
}
