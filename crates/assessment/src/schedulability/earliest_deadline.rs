//! Services that serve the earliest deadline first: their tasks stand or fall together.

use serde::Serialize;
use tailbound_analysis::interfaces::{
    LocalScheduler, MultiprocessorPeriodic, Shortage, SupplyBound, Workload, first_shortage,
    schedulable, schedulable_global_edf,
};
use tailbound_analysis::schedulability::earliest_deadline_response_time::{self, response_times};
use tailbound_analysis::schedulability::processor_demand::{Overload, first_overload};
use tailbound_analysis::{AnalysisError, SporadicTask};
use tailbound_time::{Duration, nanoseconds};

use super::{ClientTimes, DeadlineVerdict, GuaranteedSupply, ServiceQuestion, TaskJudgement};

/// The answer for a service under EDF.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ServiceVerdict {
    /// The service.
    pub service: String,
    /// Whether all jobs of all its tasks are in time.
    pub verdict: DeadlineVerdict,
    /// Where its CPU time first falls short, if that is what makes jobs late.
    #[serde(rename = "first_shortage")]
    pub shortage: Option<FirstShortage>,
    /// Why not, or why nothing can be said.
    pub why: Option<String>,
    /// By what it was decided.
    pub method: Option<String>,
}

/// The first instant, after all tasks have started together and at the worst time for the supply,
/// by which more is due than is given.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FirstShortage {
    /// When it is, after that start.
    #[serde(rename = "at_ns", with = "nanoseconds")]
    pub at: Duration,
    /// The work that is due by then.
    #[serde(rename = "demand_ns", with = "nanoseconds")]
    pub demand: Duration,
    /// The CPU time that is sure to be given by then.
    #[serde(rename = "supply_ns", with = "nanoseconds")]
    pub supply: Duration,
    /// How much is not done in time.
    #[serde(rename = "excess_ns", with = "nanoseconds")]
    pub excess: Duration,
    /// Whose work that is; tasks of which nothing is due are left out.
    pub due: Vec<DueWork>,
}

/// The work of one task that is due by some instant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DueWork {
    /// The task.
    pub task: String,
    /// How many of its jobs, of all its clients.
    pub jobs: u64,
    /// What they ask for together.
    #[serde(rename = "work_ns", with = "nanoseconds")]
    pub work: Duration,
}

impl FirstShortage {
    /// The shortage at `at`, by which `supply` is given; tasks of the same name count as one.
    pub fn of(tasks: &[(&str, SporadicTask)], at: Duration, supply: Duration) -> Self {
        let mut due: Vec<DueWork> = Vec::new();
        for (name, task) in tasks {
            let jobs = task.jobs_due(at);
            if jobs == 0 {
                continue;
            }
            let work = task.execution().checked_mul(jobs).unwrap_or(Duration::MAX);
            match due.iter_mut().find(|entry| entry.task == *name) {
                Some(entry) => {
                    entry.jobs += jobs;
                    entry.work = entry.work.saturating_add(work);
                }
                None => due.push(DueWork {
                    task: (*name).into(),
                    jobs,
                    work,
                }),
            }
        }
        let sum = |sum: Duration, due: &DueWork| sum.saturating_add(due.work);
        let demand = due.iter().fold(Duration::ZERO, sum);
        Self {
            at,
            demand,
            supply,
            excess: demand.saturating_sub(supply),
            due,
        }
    }

    /// All of it in one phrase.
    pub fn in_words(&self) -> String {
        let (at, excess, demand, supply) = (self.at, self.excess, self.demand, self.supply);
        let due = self.due.iter().map(|due| {
            let jobs = if due.jobs == 1 { "job" } else { "jobs" };
            format!("{} of {} ({} {jobs})", due.work, due.task, due.jobs)
        });
        let due: Vec<String> = due.collect();
        format!(
            "at {at}, {excess} too little: {demand} of work is due by then, and {supply} of CPU \
             time is sure to be given; due: {}",
            due.join(", ")
        )
    }
}

/// All clients of all tasks of a service.
struct Clients<'a> {
    tasks: Vec<SporadicTask>,
    /// The same, each with the name that the description gives it.
    named: Vec<(&'a str, SporadicTask)>,
}

impl<'a> Clients<'a> {
    fn of(client_times: &[ClientTimes<'a>]) -> Result<Self, String> {
        let mut named = Vec::new();
        for one in client_times {
            let task = one.sporadic().map_err(|error| error.to_string())?;
            let task = task.ok_or_else(|| {
                format!(
                    "task \"{}\" may have earlier deadlines, and how much of it comes has no bound",
                    one.name
                )
            })?;
            named.extend((0..one.task.clients).map(|_| (one.name, task)));
        }
        let tasks = named.iter().map(|(_, task)| *task).collect();
        Ok(Self { tasks, named })
    }

    /// Where the first client of a task stands; all its clients are alike.
    fn position(&self, name: &str) -> Option<usize> {
        self.named.iter().position(|(owner, _)| *owner == name)
    }

    fn shortage(&self, at: Duration, supply: Duration) -> FirstShortage {
        FirstShortage::of(&self.named, at, supply)
    }
}

/// What an analysis says of the whole and of each task.
type DeadlineJudgement = (Vec<TaskJudgement>, ServiceVerdict);

impl ServiceQuestion<'_> {
    pub(super) fn by_deadline(
        &self,
        client_times: &[ClientTimes<'_>],
        given: Result<GuaranteedSupply, String>,
    ) -> DeadlineJudgement {
        let (obstacles, blocked) = self.obstacles(client_times);
        let judgement = match (blocked, given) {
            (Some(why), _) | (None, Err(why)) => Err(why),
            (None, Ok(given)) => Clients::of(client_times).and_then(|clients| {
                let judgement = match given.has_whole_cpu() {
                    true => self.on_own_cpu(client_times, &clients, &given),
                    false => self.on_supply(client_times, &clients, &given),
                };
                judgement.map_err(|error| error.to_string())
            }),
        };
        judgement.unwrap_or_else(|why| {
            let of_service = self.verdict(DeadlineVerdict::Undecided, Some(why.clone()));
            (undecided(obstacles, &why), of_service)
        })
    }

    /// The objections to a verdict of each task, and the first of them.
    fn obstacles(
        &self,
        client_times: &[ClientTimes<'_>],
    ) -> (Vec<Option<TaskJudgement>>, Option<String>) {
        let obstacles: Vec<Option<TaskJudgement>> =
            client_times.iter().map(|one| self.obstacle(one)).collect();
        let first = client_times
            .iter()
            .zip(&obstacles)
            .find_map(|(one, obstacle)| {
                let why = obstacle.as_ref()?.why.as_deref()?;
                Some(format!("task \"{}\": {why}", one.name))
            });
        (obstacles, first)
    }

    /// The verdicts on tasks in one queue of several CPUs that share a budget: all are met by the test, which is
    /// sufficient, or none is shown to be.
    pub(super) fn in_one_queue(
        &self,
        client_times: &[ClientTimes<'_>],
        shared: Result<MultiprocessorPeriodic, String>,
    ) -> Vec<TaskJudgement> {
        let (obstacles, blocked) = self.obstacles(client_times);
        let tested = match (blocked, shared) {
            (Some(why), _) | (None, Err(why)) => Err(why),
            (None, Ok(resource)) => Clients::of(client_times).and_then(|clients| {
                let tested = Workload::new(clients.tasks)
                    .and_then(|workload| schedulable_global_edf(&workload, &resource));
                tested.map_err(|error| error.to_string())
            }),
        };
        let tested = match tested {
            Ok(tested) => tested,
            Err(why) => return undecided(obstacles, &why),
        };
        let why = tested.shortage.as_ref().map(|shortage| {
            format!(
                "the test, which is sufficient only, does not show that all are met: {shortage}"
            )
        });
        let verdict = match why {
            None => DeadlineVerdict::Met,
            Some(_) => DeadlineVerdict::Undecided,
        };
        let judge = |_: &ClientTimes<'_>| TaskJudgement {
            verdict,
            bound: None,
            why: why.clone(),
            method: Some(tested.method.clone()),
        };
        client_times.iter().map(judge).collect()
    }

    fn verdict(&self, verdict: DeadlineVerdict, why: Option<String>) -> ServiceVerdict {
        ServiceVerdict {
            service: self.name.into(),
            verdict,
            shortage: None,
            why,
            method: None,
        }
    }

    fn short(&self, shortage: FirstShortage) -> ServiceVerdict {
        ServiceVerdict {
            why: Some(shortage.in_words()),
            shortage: Some(shortage),
            ..self.verdict(DeadlineVerdict::Missed, None)
        }
    }

    /// Processor demand for the whole, and exact response times for each.
    fn on_own_cpu(
        &self,
        client_times: &[ClientTimes<'_>],
        clients: &Clients<'_>,
        given: &GuaranteedSupply,
    ) -> Result<DeadlineJudgement, AnalysisError> {
        let demand = first_overload(&clients.tasks)?;
        let mut of_service = match demand.overload {
            None => self.verdict(DeadlineVerdict::Met, None),
            Some(Overload::Utilisation) => {
                let why = "the tasks need more than one CPU in the long run";
                self.verdict(DeadlineVerdict::Missed, Some(why.into()))
            }
            Some(Overload::Window { length, .. }) => self.short(clients.shortage(length, length)),
        };
        of_service.method = Some(given.complete(demand.method.into()));
        let responses = response_times(&clients.tasks)?;
        let method = given.complete(earliest_deadline_response_time::METHOD.into());
        let judge = |one: &ClientTimes<'_>| {
            let own = clients.position(one.name);
            let own = own.and_then(|at| Some((clients.tasks.get(at)?, responses.tasks.get(at)?)));
            let response =
                own.map(|(task, task_response)| (task.deadline(), task_response.response_time));
            let (verdict, bound, why) = match response {
                Some((deadline, Ok(response))) if response > deadline => {
                    let late = response.saturating_sub(deadline);
                    let why = format!("misses it by {late}");
                    (DeadlineVerdict::Missed, Some(response), Some(why))
                }
                Some((_, Ok(response))) => (DeadlineVerdict::Met, Some(response), None),
                _ if demand.schedulable() => (DeadlineVerdict::Met, None, None),
                Some((_, Err(reason))) if demand.overload == Some(Overload::Utilisation) => {
                    (DeadlineVerdict::Missed, None, Some(reason.to_string()))
                }
                Some((_, Err(reason))) => {
                    (DeadlineVerdict::Undecided, None, Some(reason.to_string()))
                }
                None => (
                    DeadlineVerdict::Undecided,
                    None,
                    Some("it has no client".into()),
                ),
            };
            TaskJudgement {
                verdict,
                bound,
                why,
                method: Some(method.clone()),
            }
        };
        Ok((client_times.iter().map(judge).collect(), of_service))
    }

    /// Processor demand against supply. Response times under EDF are not analysed on a supply: of a
    /// set that is not schedulable, only who is late at the first shortage is known.
    fn on_supply(
        &self,
        client_times: &[ClientTimes<'_>],
        clients: &Clients<'_>,
        given: &GuaranteedSupply,
    ) -> Result<DeadlineJudgement, AnalysisError> {
        let supply = given.supply()?;
        let workload = Workload::new(clients.tasks.clone())?;
        let scheduler = LocalScheduler::EarliestDeadlineFirst;
        let test = schedulable(&workload, scheduler, supply.as_ref())?;
        let short = match test.schedulable {
            true => None,
            false => first_shortage(&workload, supply.as_ref())?,
        };
        let of_service = match &short {
            None => self.verdict(DeadlineVerdict::Met, None),
            Some(Shortage::Window { window, supply, .. }) => {
                self.short(clients.shortage(*window, *supply))
            }
            Some(Shortage::LongRun { .. }) => self.verdict(
                DeadlineVerdict::Missed,
                Some(long_run(&workload, supply.as_ref())),
            ),
        };
        let judge = |one: &ClientTimes<'_>| {
            let own = clients.position(one.name);
            let own = own.and_then(|at| clients.tasks.get(at));
            let (verdict, why) = match (&short, own) {
                (None, _) => (DeadlineVerdict::Met, None),
                (Some(Shortage::LongRun { .. }), _) => {
                    let why = "the service needs more than it is given in the long run";
                    (DeadlineVerdict::Missed, Some(why.to_owned()))
                }
                (Some(Shortage::Window { window, .. }), Some(own)) if due_at(own, *window) => {
                    let why = format!("its job that is due at {window} can be late");
                    (DeadlineVerdict::Missed, Some(why))
                }
                _ => {
                    let why = "the service as a whole is short of CPU time; which jobs are late after \
                               the first is not analysed on a reservation, `tailbound simulate` \
                               shows cases";
                    (DeadlineVerdict::Undecided, Some(why.to_owned()))
                }
            };
            TaskJudgement {
                verdict,
                bound: None,
                why,
                method: Some(given.complete(test.method.clone())),
            }
        };
        let of_service = ServiceVerdict {
            method: Some(given.complete(test.method.clone())),
            ..of_service
        };
        Ok((client_times.iter().map(judge).collect(), of_service))
    }
}

/// The judgements of tasks with an obstacle, and of the others for this reason.
fn undecided(obstacles: Vec<Option<TaskJudgement>>, why: &str) -> Vec<TaskJudgement> {
    let judged =
        |obstacle: Option<TaskJudgement>| obstacle.unwrap_or_else(|| TaskJudgement::undecided(why));
    obstacles.into_iter().map(judged).collect()
}

/// Whether a job of `task` is due right at the end of the window, after a common start.
fn due_at(task: &SporadicTask, window: Duration) -> bool {
    let before = window.saturating_sub(Duration::from_nanos(1));
    task.jobs_due(window) > task.jobs_due(before)
}

fn long_run(workload: &Workload, supply: &dyn SupplyBound) -> String {
    let (budget, period) = supply.rate();
    format!(
        "the tasks need {:.2} % of a CPU in the long run, and {:.2} % is given",
        workload.utilisation() * 100.0,
        budget as f64 / period as f64 * 100.0
    )
}
