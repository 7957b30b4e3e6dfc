//! Tasks without a description: whether they meet their deadlines on one CPU, and the least budget that
//! looks like a CPU of their own.

use serde::Serialize;
use tailbound_analysis::schedulability::earliest_deadline_response_time::response_times as edf_response_times;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::priority_assignment::{
    audsley, audsley_by_response_time, audsley_without_preemption, deadline_monotonic,
    rate_monotonic,
};
use tailbound_analysis::schedulability::processor_demand::{Overload, first_overload};
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::schedulability::server_interference::response_times_below;
use tailbound_analysis::schedulability::{
    PriorityOrder, TaskResponse, WorstCaseResponses, global_edf, global_fixed_priority,
};
use tailbound_analysis::{AnalysisError, PeriodicLoad, PeriodicTask, SporadicTask};
use tailbound_time::{Duration, nanoseconds};

use crate::schedulability::FirstShortage;

/// The method of [`least_budget`], with its source.
pub const LEAST_BUDGET_METHOD: &str = "the most that a CPU of its own works in any window of a period (Li 2021, section 3.2, W(P) times P)";

/// How the fixed priorities of tasks come about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PriorityRule {
    /// In the order of the tasks.
    AsGiven,
    /// The shorter period first.
    RateMonotonic,
    /// The shorter deadline first.
    DeadlineMonotonic,
    /// By Audsley's assignment: some order in which all deadlines are met.
    Audsley,
}

impl PriorityRule {
    /// Every rule.
    pub const ALL: [Self; 4] = [
        Self::AsGiven,
        Self::RateMonotonic,
        Self::DeadlineMonotonic,
        Self::Audsley,
    ];

    /// The name on the command line, in Python and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsGiven => "fp",
            Self::RateMonotonic => "rm",
            Self::DeadlineMonotonic => "dm",
            Self::Audsley => "audsley",
        }
    }

    /// The order of the tasks; `None` where Audsley's assignment finds none.
    ///
    /// # Errors
    /// As of [`PriorityQuestion::audsley`].
    pub fn order(
        self,
        question: &PriorityQuestion<'_>,
    ) -> Result<Option<PriorityOrder>, AnalysisError> {
        let tasks = question.tasks;
        match self {
            Self::AsGiven => Ok(Some(PriorityOrder::as_given(tasks.len()))),
            Self::RateMonotonic => Ok(Some(rate_monotonic(tasks))),
            Self::DeadlineMonotonic => Ok(Some(deadline_monotonic(tasks))),
            Self::Audsley => question.audsley(),
        }
    }
}

/// Tasks on one CPU, with everything that delays them besides one another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PriorityQuestion<'a> {
    /// The tasks.
    pub tasks: &'a [SporadicTask],
    /// The longest time, per task, for which lower priorities keep it waiting; empty for none.
    pub blocking: &'a [Duration],
    /// Reservation servers with higher priorities than all of the tasks, each as the task that takes as
    /// much.
    pub servers: &'a [SporadicTask],
    /// Whether a job that has begun is preempted.
    pub is_preemptive: bool,
}

impl<'a> PriorityQuestion<'a> {
    /// Tasks that nothing but one another delays.
    pub fn of(tasks: &'a [SporadicTask]) -> Self {
        Self {
            tasks,
            blocking: &[],
            servers: &[],
            is_preemptive: true,
        }
    }

    /// Whether no task is blocked.
    pub fn is_unblocked(&self) -> bool {
        self.blocking.iter().all(|one| one.is_zero())
    }

    /// The response times in an order of priorities.
    ///
    /// # Errors
    /// What the analysis refuses: jobs without preemption below servers, for one.
    pub fn response_times(
        &self,
        order: &PriorityOrder,
    ) -> Result<WorstCaseResponses, AnalysisError> {
        match (self.is_preemptive, self.servers.is_empty()) {
            (true, true) => response_times(self.tasks, order, self.blocking),
            (true, false) => response_times_below(self.servers, self.tasks, order, self.blocking),
            (false, true) => non_preemptive_response_times(self.tasks, order, self.blocking),
            (false, false) => Err(AnalysisError::NotAnalysed {
                reason: "jobs that are not preempted, below reservation servers".into(),
            }),
        }
    }

    /// An order in which all tasks meet their deadlines by [`response_times`](Self::response_times), if there
    /// is one.
    ///
    /// # Errors
    /// As of [`response_times`](Self::response_times).
    pub fn audsley(&self) -> Result<Option<PriorityOrder>, AnalysisError> {
        match (self.is_preemptive, self.servers.is_empty()) {
            (true, true) => audsley_by_response_time(self.tasks, self.blocking),
            (false, true) => audsley_without_preemption(self.tasks, self.blocking),
            // Servers are above all tasks, so the test does not depend on the order among the others.
            _ => audsley(self.tasks.len(), |question| {
                let lower = question.lower.iter().rev();
                let higher = question.higher.iter().chain([&question.task]);
                let order = PriorityOrder::new(higher.chain(lower).copied().collect())?;
                let responses = self.response_times(&order)?;
                let own = responses.tasks.get(question.task);
                Ok(own.is_some_and(|response| response.meets_deadline))
            }),
        }
    }

    /// Refuses what the tests of EDF on one CPU do not take.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for blocking, servers above, or jobs without preemption.
    pub fn refuse_under_deadlines(&self) -> Result<(), AnalysisError> {
        self.refuse_unless_plain("earliest deadline first")
    }

    /// Refuses what the tests of global scheduling do not take.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for blocking, servers above, or jobs without preemption.
    pub fn refuse_on_several_cpus(&self) -> Result<(), AnalysisError> {
        self.refuse_unless_plain("global scheduling on several CPUs")
    }

    fn refuse_unless_plain(&self, scheduling: &str) -> Result<(), AnalysisError> {
        let what = match self {
            _ if !self.is_unblocked() => "blocking",
            _ if !self.servers.is_empty() => "reservation servers above the tasks",
            _ if !self.is_preemptive => "jobs that are not preempted",
            _ => return Ok(()),
        };
        Err(AnalysisError::NotAnalysed {
            reason: format!("{what} under {scheduling}"),
        })
    }
}

/// Whether tasks meet their deadlines under fixed priorities.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FixedPriorityAnswer {
    /// How the priorities came about.
    pub policy: &'static str,
    /// Whether every job meets its deadline.
    pub schedulable: bool,
    /// The tasks, the highest priority first.
    pub tasks: Vec<TaskAnswer>,
    /// The method, with its source.
    pub method: &'static str,
    /// The assumptions of the method.
    pub assumptions: &'static [&'static str],
}

/// Whether a task meets its deadline.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskAnswer {
    /// Its place among the given tasks, from one.
    pub task: usize,
    /// The execution time.
    #[serde(rename = "execution_ns", with = "nanoseconds")]
    pub execution: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// The deadline.
    #[serde(rename = "deadline_ns", with = "nanoseconds")]
    pub deadline: Duration,
    /// The longest time from a job's arrival to its readiness.
    #[serde(rename = "jitter_ns", with = "nanoseconds")]
    pub jitter: Duration,
    /// The longest time for which lower priorities keep it waiting, as given.
    #[serde(rename = "blocking_ns", with = "nanoseconds")]
    pub blocking: Duration,
    /// The longest time from release to completion, if there is one.
    #[serde(rename = "response_time_ns", with = "nanoseconds::optional")]
    pub response_time: Option<Duration>,
    /// Whether that is within the deadline.
    pub meets_deadline: bool,
    /// Why not.
    pub why: Option<String>,
}

impl TaskAnswer {
    /// A task without a response time.
    fn of(index: usize, task: &SporadicTask, blocking: &[Duration]) -> Self {
        Self {
            task: index + 1,
            execution: task.execution(),
            period: task.period(),
            deadline: task.deadline(),
            jitter: task.jitter(),
            blocking: blocking.get(index).copied().unwrap_or_default(),
            response_time: None,
            meets_deadline: false,
            why: None,
        }
    }

    fn with_response(self, response: &TaskResponse) -> Self {
        let why = match (response.response_time, response.meets_deadline) {
            (_, true) => None,
            (Ok(response), false) => Some(format!(
                "misses it by {}",
                response.saturating_sub(self.deadline)
            )),
            (Err(reason), false) => Some(reason.to_string()),
        };
        Self {
            response_time: response.response_time.ok(),
            meets_deadline: response.meets_deadline,
            why,
            ..self
        }
    }

    /// With a bound from a test that is sufficient only.
    fn with_bound(self, bound: Option<Duration>) -> Self {
        Self {
            response_time: bound,
            meets_deadline: bound.is_some(),
            why: bound.is_none().then(|| "not shown".to_owned()),
            ..self
        }
    }
}

/// The response times of tasks by priority; `None` where Audsley's assignment finds no order.
///
/// # Errors
/// What the analysis refuses.
pub fn fixed_priority(
    question: &PriorityQuestion<'_>,
    rule: PriorityRule,
) -> Result<Option<FixedPriorityAnswer>, AnalysisError> {
    let Some(order) = rule.order(question)? else {
        return Ok(None);
    };
    let responses = question.response_times(&order)?;
    let ranked = order.highest_first().iter().filter_map(|index| {
        let (task, response) = (question.tasks.get(*index)?, responses.tasks.get(*index)?);
        Some(TaskAnswer::of(*index, task, question.blocking).with_response(response))
    });
    Ok(Some(FixedPriorityAnswer {
        policy: rule.name(),
        schedulable: responses.schedulable(),
        tasks: ranked.collect(),
        method: responses.method,
        assumptions: responses.assumptions,
    }))
}

/// Whether tasks are shown to meet their deadlines on several CPUs, where any job may run on any of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GlobalAnswer {
    /// The order of execution.
    pub policy: &'static str,
    /// The number of CPUs.
    pub cpus: u32,
    /// Whether a test shows that every job meets its deadline; `false` proves nothing.
    pub accepted: bool,
    /// The tasks, by priority under fixed priorities, with bounds of their response times.
    pub tasks: Vec<TaskAnswer>,
    /// The test, with its source.
    pub method: &'static str,
    /// The assumptions of the test.
    pub assumptions: &'static [&'static str],
}

/// Bounds of response times under global fixed priorities.
///
/// # Errors
/// What the analysis refuses: Audsley's assignment, for one, which the order among the higher priorities
/// does not matter to, as it does to this test (Davis & Burns 2011).
pub fn global_fixed_priority(
    question: &PriorityQuestion<'_>,
    rule: PriorityRule,
    cpus: u32,
) -> Result<GlobalAnswer, AnalysisError> {
    question.refuse_on_several_cpus()?;
    let order = match rule {
        PriorityRule::Audsley => None,
        rule => rule.order(question)?,
    };
    let order = order.ok_or_else(|| AnalysisError::NotAnalysed {
        reason: "Audsley's assignment under global fixed priorities".into(),
    })?;
    let bounds = global_fixed_priority::sufficient_response_times(question.tasks, &order, cpus)?;
    let ranked = order.highest_first().iter().filter_map(|index| {
        let (task, bound) = (question.tasks.get(*index)?, bounds.bounds.get(*index)?);
        Some(TaskAnswer::of(*index, task, &[]).with_bound(*bound))
    });
    Ok(GlobalAnswer {
        policy: rule.name(),
        cpus,
        accepted: bounds.accepted(),
        tasks: ranked.collect(),
        method: bounds.method,
        assumptions: bounds.assumptions,
    })
}

/// Bounds of response times under global earliest deadline first; where those do not accept, the verdict of the
/// density test, which accepts some sets that they do not.
///
/// # Errors
/// What the analysis refuses.
pub fn global_earliest_deadline_first(
    question: &PriorityQuestion<'_>,
    cpus: u32,
) -> Result<GlobalAnswer, AnalysisError> {
    question.refuse_on_several_cpus()?;
    let responses = global_edf::sufficient_response_times(question.tasks, cpus)?;
    let density = global_edf::sufficient_density(question.tasks, cpus)?;
    let by_density = responses.bounds.is_none() && density.accepted;
    let rows = question.tasks.iter().enumerate().map(|(index, task)| {
        let bounds = responses.bounds.as_ref();
        let bound = bounds.and_then(|bounds| bounds.get(index).copied());
        let row = TaskAnswer::of(index, task, &[]).with_bound(bound);
        match by_density {
            // No later than the deadline is all that the test says.
            true => TaskAnswer {
                meets_deadline: true,
                why: None,
                ..row
            },
            false => row,
        }
    });
    let (method, assumptions) = match by_density {
        true => (density.method, density.assumptions),
        false => (responses.method, responses.assumptions),
    };
    Ok(GlobalAnswer {
        policy: "edf",
        cpus,
        accepted: responses.accepted() || density.accepted,
        tasks: rows.collect(),
        method,
        assumptions,
    })
}

/// Whether tasks meet their deadlines under earliest deadline first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DemandAnswer {
    /// The order of execution.
    pub policy: &'static str,
    /// Whether every job meets its deadline.
    pub schedulable: bool,
    /// The tasks.
    pub tasks: Vec<TaskAnswer>,
    /// The first instant after a common start by which more is due than one CPU can do.
    #[serde(rename = "window_ns", with = "nanoseconds::optional")]
    pub window: Option<Duration>,
    /// What is due by then.
    #[serde(rename = "demand_ns", with = "nanoseconds::optional")]
    pub demand: Option<Duration>,
    /// What of it is not done by then.
    #[serde(rename = "excess_ns", with = "nanoseconds::optional")]
    pub excess: Option<Duration>,
    /// Why a deadline can be missed.
    pub why: Option<String>,
    /// The method, with its source.
    pub method: &'static str,
    /// The assumptions of the method.
    pub assumptions: &'static [&'static str],
    /// The method of the response times.
    pub response_time_method: &'static str,
}

/// The processor demand of tasks, and their response times under earliest deadline first.
///
/// # Errors
/// What the analysis refuses.
pub fn earliest_deadline_first(
    question: &PriorityQuestion<'_>,
) -> Result<DemandAnswer, AnalysisError> {
    question.refuse_under_deadlines()?;
    let tasks = question.tasks;
    let overload = first_overload(tasks)?;
    let responses = edf_response_times(tasks)?;
    let names: Vec<String> = (1..=tasks.len()).map(|one| format!("task {one}")).collect();
    let named = names.iter().map(String::as_str).zip(tasks.iter().copied());
    let shortage = match overload.overload {
        Some(Overload::Window { length, .. }) => {
            let named: Vec<(&str, SporadicTask)> = named.collect();
            Some(FirstShortage::of(&named, length, length))
        }
        _ => None,
    };
    let why = match (&shortage, overload.schedulable()) {
        (_, true) => None,
        (Some(shortage), _) => Some(shortage.in_words()),
        (None, _) => Some("the tasks need more than one CPU".to_owned()),
    };
    let rows = tasks.iter().enumerate().zip(&responses.tasks);
    let rows = rows
        .map(|((index, task), response)| TaskAnswer::of(index, task, &[]).with_response(response));
    Ok(DemandAnswer {
        policy: "edf",
        schedulable: overload.schedulable(),
        tasks: rows.collect(),
        window: shortage.as_ref().map(|one| one.at),
        demand: shortage.as_ref().map(|one| one.demand),
        excess: shortage.as_ref().map(|one| one.excess),
        why,
        method: overload.method,
        assumptions: overload.assumptions,
        response_time_method: responses.method,
    })
}

/// The least budget at a period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BudgetAnswer {
    /// The least budget.
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    pub budget: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
    /// Budget / period.
    pub bandwidth: f64,
    /// What the tasks use of a CPU in the long run.
    pub utilisation: f64,
    /// The method, with its source.
    pub method: &'static str,
}

/// The least budget of a deferrable server under which the tasks run as on a CPU of their own; at their
/// hyperperiod where `period` is `None`.
///
/// # Errors
/// What the analysis refuses.
pub fn least_budget(
    tasks: Vec<PeriodicTask>,
    period: Option<Duration>,
) -> Result<BudgetAnswer, AnalysisError> {
    let load = PeriodicLoad { tasks };
    let period = match period {
        Some(period) => period,
        None => load.hyperperiod()?,
    };
    let budget = load.least_budget(period)?;
    let share = |task: &PeriodicTask| task.execution.as_secs_f64() / task.period.as_secs_f64();
    Ok(BudgetAnswer {
        budget,
        period,
        bandwidth: budget.as_secs_f64() / period.as_secs_f64(),
        utilisation: load.tasks.iter().map(share).sum(),
        method: LEAST_BUDGET_METHOD,
    })
}
