//! Whether the tasks of a description meet their deadlines on the reservations of their domains.

pub(crate) mod admission;
mod below_servers;
mod earliest_deadline;
mod order;
mod service_budget;

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_analysis::interfaces::response_bound::{
    first_come_first_served, of_lowest_priority_blocked,
};
use tailbound_analysis::interfaces::{
    DedicatedCpu, MultiprocessorPeriodic, PeriodicSupply, ResponseBound, SupplyBound, WindowSupply,
    Workload,
};
use tailbound_analysis::interference::{self, InterferedCpu, InterferenceLoad};
use tailbound_analysis::resolution::only_simulated;
use tailbound_analysis::schedulability::PriorityOrder;
use tailbound_analysis::schedulability::non_preemptive_response_time::non_preemptive_response_times;
use tailbound_analysis::schedulability::response_time::response_times;
use tailbound_analysis::{AnalysisError, PeriodicLoad, SporadicTask};
use tailbound_distribution::Distribution;
use tailbound_model::{Description, InputFiles, ReservationServer, Service, Task, Window};
use tailbound_time::{Duration, nanoseconds};

use crate::AssessmentError;
use crate::execution_times::execution_times;
use crate::mode_content::{ModeContent, modes};
pub use admission::CpuVerdict;
pub use earliest_deadline::{DueWork, FirstShortage, ServiceVerdict};
use order::{ServiceOrder, order_of};
pub(crate) use service_budget::ServiceBudget;

/// The answer for one mode.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ModeVerdict {
    /// The mode, where the description has modes.
    pub mode: Option<String>,
    /// Whether every deadline is shown to be met and every reservation to get its budget.
    pub schedulable: bool,
    /// Every task that is released in it.
    pub tasks: Vec<TaskVerdict>,
    /// Every service that serves the earliest deadline first, as a whole: its demand against what
    /// it is given.
    pub services: Vec<ServiceVerdict>,
    /// Every CPU that something is reserved on.
    pub cpus: Vec<CpuVerdict>,
}

impl TaskVerdict {
    /// The task as descriptions name it: `service.task`, or `domain.task`.
    pub fn name(&self) -> String {
        let owner = self.service.as_ref().unwrap_or(&self.domain);
        format!("{owner}.{}", self.task)
    }
}

impl ModeVerdict {
    /// The answer of these parts.
    fn of(
        mode: Option<&str>,
        tasks: Vec<TaskVerdict>,
        services: Vec<ServiceVerdict>,
        cpus: Vec<CpuVerdict>,
    ) -> Self {
        let met = |task: &TaskVerdict| {
            matches!(
                task.verdict,
                DeadlineVerdict::Met | DeadlineVerdict::NoDeadline
            )
        };
        let schedulable = tasks.iter().all(met)
            && services
                .iter()
                .all(|one| one.verdict == DeadlineVerdict::Met)
            && cpus.iter().all(|cpu| cpu.admitted);
        Self {
            mode: mode.map(Into::into),
            schedulable,
            tasks,
            services,
            cpus,
        }
    }
}

/// The answer for one task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskVerdict {
    /// Its domain.
    pub domain: String,
    /// Its service; `None` for a task that the domain has of its own.
    pub service: Option<String>,
    /// The task.
    pub task: String,
    /// How long a job runs at most, where that is known.
    #[serde(rename = "execution_ns", with = "nanoseconds::optional")]
    pub execution: Option<Duration>,
    /// The least time between two jobs of a client, where there is one.
    #[serde(rename = "period_ns", with = "nanoseconds::optional")]
    pub period: Option<Duration>,
    /// By when a job is to be done: the described deadline, or else the period.
    #[serde(rename = "deadline_ns", with = "nanoseconds::optional")]
    pub deadline: Option<Duration>,
    /// Whether the deadline is described.
    pub deadline_is_described: bool,
    /// No job takes longer from release to completion.
    #[serde(rename = "response_bound_ns", with = "nanoseconds::optional")]
    pub response_bound: Option<Duration>,
    /// Whether all jobs are in time.
    pub verdict: DeadlineVerdict,
    /// Why not, or why nothing can be said.
    pub why: Option<String>,
    /// By what it was decided.
    pub method: Option<String>,
}

/// Whether the jobs of a task are in time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeadlineVerdict {
    /// All of them are.
    Met,
    /// The bound is beyond the deadline, or there is none.
    Missed,
    /// No analysis holds.
    Undecided,
    /// Random arrivals without a deadline: there is nothing to decide.
    NoDeadline,
}

/// Judges every mode of a description, once it is in force; changes between modes are not judged.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn judge(
    description: &Description,
    inputs: &InputFiles,
) -> Result<Vec<ModeVerdict>, AssessmentError> {
    judge_some(description, inputs, |_| true)
}

/// The same for some modes; `None` stands for a description without modes.
///
/// # Errors
/// As of [`judge`].
pub fn judge_some(
    description: &Description,
    inputs: &InputFiles,
    is_wanted: impl Fn(Option<&str>) -> bool,
) -> Result<Vec<ModeVerdict>, AssessmentError> {
    let description = &description.with_interrupt_domains();
    let mut answers = Vec::new();
    for mode in modes(description) {
        if !is_wanted(mode.mode) {
            continue;
        }
        let held = admission::JudgedReservations::of(description, &mode)?;
        let cpus = held.judge();
        let (mut tasks, mut services) = (Vec::new(), Vec::new());
        for (name, service) in &mode.services {
            let question = ServiceQuestion {
                description,
                mode: &mode,
                name,
                service,
                inputs,
            };
            let shared = match question.is_own() {
                true => held.shared_by(&service.domain, &cpus),
                false => None,
            };
            let (of_tasks, of_service) = match (question.unanalysed(), shared) {
                (Some(why), _) => question.answer(Err(why))?,
                (None, Some(shared)) => (question.answer_in_one_queue(shared)?, None),
                (None, None) => question.answer(held.given_to(&service.domain, &cpus))?,
            };
            tasks.extend(of_tasks);
            services.extend(of_service);
        }
        answers.push(ModeVerdict::of(mode.mode, tasks, services, cpus));
    }
    Ok(answers)
}

/// The CPUs of a deployed description whose reservations do not all get their budgets for sure. For what only simulation
/// covers there is no admission, and none of these.
///
/// # Errors
/// A reservation that cannot be derived.
pub fn refused_cpus(deployed: &Description) -> Result<Vec<CpuVerdict>, AssessmentError> {
    let deployed = &deployed.with_interrupt_domains();
    let mut domains = deployed.domains.keys();
    if domains.any(|name| only_simulated(deployed, name).is_some()) {
        return Ok(Vec::new());
    }
    let mut refused = Vec::new();
    for mode in modes(deployed) {
        let cpus = admission::JudgedReservations::of(deployed, &mode)?.judge();
        refused.extend(cpus.into_iter().filter(|cpu| !cpu.admitted));
    }
    Ok(refused)
}

/// What a domain gets for sure.
#[derive(Clone, Debug, PartialEq)]
pub struct GuaranteedSupply {
    /// The rule of its reservation.
    pub server: ReservationServer,
    /// How long other reservations hold it up, at most, while it spends a budget.
    pub jitter: Duration,
    /// Whether the server stands for one whose budget is never used up.
    pub as_on_own_cpu: bool,
    /// The servers that come first on the domain's only CPU, as tasks, where nothing else takes time from it.
    pub above: Vec<SporadicTask>,
    /// By when after the start of each period a periodic server has given its budget; the period if
    /// `None`.
    pub budget_deadline: Option<Duration>,
    /// The windows of each period in which the budget is given, of a time partition.
    pub windows: Vec<Window>,
    /// The interference on its CPU. Budget and jitter of a server have it in them; a CPU of its own loses it.
    pub interference: InterferenceLoad,
}

impl GuaranteedSupply {
    /// The method with what makes it hold here.
    fn complete(&self, method: String) -> String {
        let method = match self.interference.is_empty() {
            true => method,
            false => format!("{method}; {}", interference::METHOD),
        };
        match self.as_on_own_cpu {
            true => format!(
                "{method}, as on a CPU of its own, since the budget is never used up (Li 2021, \
                 Theorem 1)"
            ),
            false => method,
        }
    }

    /// Whether it is a CPU of its own of which nothing is taken.
    pub(crate) fn has_whole_cpu(&self) -> bool {
        self.server == ReservationServer::Dedicated && self.interference.is_empty()
    }

    /// The least CPU time that it gives in any window.
    pub(crate) fn supply(&self) -> Result<Box<dyn SupplyBound>, AnalysisError> {
        Ok(match self.server {
            ReservationServer::Dedicated if self.has_whole_cpu() => Box::new(DedicatedCpu),
            ReservationServer::Dedicated => Box::new(InterferedCpu(self.interference.clone())),
            ReservationServer::Deferrable { budget, period } => {
                Box::new(PeriodicSupply::deferrable(budget, period, self.jitter)?)
            }
            ReservationServer::Polling { budget, period } => {
                Box::new(PeriodicSupply::polling(budget, period, self.jitter)?)
            }
            ReservationServer::Simulated { .. } => {
                return Err(AnalysisError::only_simulated());
            }
            ReservationServer::Periodic { period, .. } if !self.windows.is_empty() => {
                Box::new(WindowSupply::new(period, &self.windows)?)
            }
            ReservationServer::Periodic { budget, period }
            | ReservationServer::ConstantBandwidth { budget, period } => {
                Box::new(match self.budget_deadline {
                    None => PeriodicSupply::somewhere(budget, period)?,
                    Some(deadline) => PeriodicSupply::by_deadline(budget, period, deadline)?,
                })
            }
        })
    }
}

/// One service in one mode.
pub(crate) struct ServiceQuestion<'a> {
    pub(crate) description: &'a Description,
    pub(crate) mode: &'a ModeContent<'a>,
    pub(crate) name: &'a str,
    pub(crate) service: &'a Service,
    pub(crate) inputs: &'a InputFiles,
}

/// A task with all that is needed to analyse it.
#[derive(Clone, Copy)]
struct ClientTimes<'a> {
    name: &'a str,
    task: &'a Task,
    /// `None` for random arrivals.
    period: Option<Duration>,
    execution: Option<Duration>,
}

impl ClientTimes<'_> {
    /// As a task with a least time between jobs and a known length, if it is one.
    fn sporadic(&self) -> Result<Option<SporadicTask>, AnalysisError> {
        let (Some(execution), Some(period)) = (self.execution, self.period) else {
            return Ok(None);
        };
        let deadline = self.task.deadline.unwrap_or(period);
        let task = SporadicTask::new(execution, period, deadline)?;
        task.with_jitter(self.task.jitter).map(Some)
    }
}

/// A verdict with its reason.
struct TaskJudgement {
    verdict: DeadlineVerdict,
    bound: Option<Duration>,
    why: Option<String>,
    method: Option<String>,
}

impl TaskJudgement {
    fn undecided(why: impl Into<String>) -> Self {
        Self::without_bound(DeadlineVerdict::Undecided, why)
    }

    fn without_bound(verdict: DeadlineVerdict, why: impl Into<String>) -> Self {
        Self {
            verdict,
            bound: None,
            why: Some(why.into()),
            method: None,
        }
    }
}

impl ServiceQuestion<'_> {
    /// Why no analysis holds for the tasks, if they are a domain's own.
    fn unanalysed(&self) -> Option<String> {
        match self.is_own() {
            true => self.mode.unanalysed(self.description, self.name),
            false => None,
        }
    }

    /// Whether none of the tasks has a deadline: all arrivals are random, and none is promised.
    pub(crate) fn has_no_deadline(&self) -> bool {
        let mut tasks = self.service.tasks.values();
        tasks.all(|task| task.least_gap().is_none() && task.deadline.is_none())
    }

    /// Whether the tasks are those that a domain has of its own.
    fn is_own(&self) -> bool {
        !self.description.services.contains_key(self.name)
    }

    fn answer(
        &self,
        given: Result<GuaranteedSupply, String>,
    ) -> Result<(Vec<TaskVerdict>, Option<ServiceVerdict>), AssessmentError> {
        let client_times = self.client_times()?;
        let (judged, of_service) = self.judgements(&client_times, given)?;
        Ok((self.verdicts(&client_times, judged), of_service))
    }

    /// The verdicts on the tasks that share one queue of several CPUs.
    fn answer_in_one_queue(
        &self,
        shared: Result<MultiprocessorPeriodic, String>,
    ) -> Result<Vec<TaskVerdict>, AssessmentError> {
        let client_times = self.client_times()?;
        let judged = self.in_one_queue(&client_times, shared);
        Ok(self.verdicts(&client_times, judged))
    }

    fn verdicts(
        &self,
        client_times: &[ClientTimes<'_>],
        judged: Vec<TaskJudgement>,
    ) -> Vec<TaskVerdict> {
        let service = (!self.is_own()).then(|| self.name.to_owned());
        let each = client_times
            .iter()
            .zip(judged)
            .map(|(one, judged)| TaskVerdict {
                domain: self.service.domain.clone(),
                service: service.clone(),
                task: one.name.into(),
                execution: one.execution,
                period: one.period,
                deadline: one.task.relative_deadline(),
                deadline_is_described: one.task.deadline.is_some(),
                response_bound: judged.bound,
                verdict: judged.verdict,
                why: judged.why,
                method: judged.method,
            });
        each.collect()
    }

    /// The verdict of each task, and of the service where it stands as a whole.
    fn judgements(
        &self,
        tasks: &[ClientTimes<'_>],
        given: Result<GuaranteedSupply, String>,
    ) -> Result<(Vec<TaskJudgement>, Option<ServiceVerdict>), AssessmentError> {
        let given = match given {
            Ok(given) => Ok(self.as_seen_below_servers(tasks, self.as_seen(given)?)?),
            Err(why) => Err(why),
        };
        Ok(match order_of(self.service) {
            ServiceOrder::Deadline => {
                let (judged, of_service) = self.by_deadline(tasks, given);
                (judged, Some(of_service))
            }
            _ => (self.one_by_one(tasks, &given), None),
        })
    }

    /// The tasks, each with what may go before it.
    fn one_by_one(
        &self,
        client_times: &[ClientTimes<'_>],
        given: &Result<GuaranteedSupply, String>,
    ) -> Vec<TaskJudgement> {
        let each = client_times
            .iter()
            .map(|one| match (self.obstacle(one), given) {
                (Some(judged), _) => judged,
                (None, Err(why)) => TaskJudgement::undecided(why.clone()),
                (None, Ok(given)) => match self.judge(one, client_times, given) {
                    Ok(judged) => judged,
                    Err(error) => TaskJudgement::undecided(error.to_string()),
                },
            });
        each.collect()
    }

    /// The same, or a CPU of its own where the budget is never used up (Li 2021, Theorem 1).
    fn as_seen(&self, given: GuaranteedSupply) -> Result<GuaranteedSupply, AssessmentError> {
        let ReservationServer::Deferrable { budget, period } = given.server else {
            return Ok(given);
        };
        let alone = self.mode.services_in(&self.service.domain).len() == 1;
        if !alone || !given.jitter.is_zero() {
            return Ok(given);
        }
        let Ok(load) = PeriodicLoad::of(self.service, &self.measured()?) else {
            return Ok(given);
        };
        match load.least_budget(period) {
            Ok(least) if least <= budget => Ok(GuaranteedSupply {
                server: ReservationServer::Dedicated,
                as_on_own_cpu: true,
                ..given
            }),
            _ => Ok(given),
        }
    }

    fn measured(&self) -> Result<BTreeMap<String, Distribution>, AssessmentError> {
        match execution_times(self.name, self.service, self.inputs, None) {
            Ok(times) => Ok(times.measured),
            Err(AssessmentError::NotCalibrated { .. }) => Ok(BTreeMap::new()),
            Err(error) => Err(error),
        }
    }

    fn client_times(&self) -> Result<Vec<ClientTimes<'_>>, AssessmentError> {
        let measured = self.measured()?;
        let client_times = self.service.tasks.iter().map(|(name, task)| {
            // A load of this task alone knows its longest execution time, which jitter does not change.
            let on_time = Task {
                jitter: Duration::ZERO,
                ..task.clone()
            };
            let alone = Service {
                tasks: BTreeMap::from([(name.clone(), on_time)]),
                ..self.service.clone()
            };
            let load = PeriodicLoad::of(&alone, &measured).ok();
            let execution = load.and_then(|load| Some(load.tasks.first()?.execution));
            ClientTimes {
                name,
                task,
                period: task.least_gap(),
                execution,
            }
        });
        Ok(client_times.collect())
    }

    /// Why a task has no verdict of its own, whatever its domain gets.
    fn obstacle(&self, one: &ClientTimes<'_>) -> Option<TaskJudgement> {
        let undecided = |why: String| Some(TaskJudgement::undecided(why));
        match (one.period, one.task.deadline) {
            (None, None) => {
                let why = "random arrivals, no deadline; `tailbound predict` tells its latencies";
                return Some(TaskJudgement::without_bound(
                    DeadlineVerdict::NoDeadline,
                    why,
                ));
            }
            (None, Some(_)) => {
                return undecided(
                    "random arrivals meet no deadline for sure; make it a promise (an SLO), which \
                     `tailbound predict` and `size` answer for"
                        .into(),
                );
            }
            _ => {}
        }
        if one.execution.is_none() {
            return undecided(
                "how long a job runs at most is not known; give `expected`, or samples".into(),
            );
        }
        let sharing = self.mode.services_in(&self.service.domain);
        let other = sharing.iter().find(|(name, _)| *name != self.name);
        other.and_then(|(other, _)| {
            undecided(format!(
                "service \"{other}\" shares the domain, and nothing describes whose jobs go first; \
                 give it a domain of its own"
            ))
        })
    }

    fn judge(
        &self,
        one: &ClientTimes<'_>,
        all: &[ClientTimes<'_>],
        given: &GuaranteedSupply,
    ) -> Result<TaskJudgement, AnalysisError> {
        let order = order_of(self.service);
        let Some(own) = one.sporadic()? else {
            return Ok(TaskJudgement::undecided("it has no period"));
        };
        let deadline = own.deadline();
        let before = match self.jobs_before(one, all, order)? {
            Ok(before) => before,
            Err(why) => {
                return Ok(TaskJudgement::undecided(why));
            }
        };
        let blocking = match self.blocking(one, all, order) {
            Ok(blocking) => blocking,
            Err(why) => {
                return Ok(TaskJudgement::undecided(why));
            }
        };
        let delayed = DelayedJobs {
            before: &before,
            own,
            blocking,
            is_preemptive: self.is_preemptive(),
        };
        let supply = given.supply()?;
        let (bound, method) = match (order, given.server) {
            (_, ReservationServer::Dedicated) if !given.above.is_empty() => {
                delayed.below_servers(&given.above)?
            }
            (ServiceOrder::Unknown(why), _) => {
                return Ok(TaskJudgement::undecided(why));
            }
            (ServiceOrder::Deadline, _) => {
                let why = "under EDF the tasks of a service are judged together";
                return Ok(TaskJudgement::undecided(why));
            }
            (ServiceOrder::Arrival, _) => delayed.by_arrival(supply.as_ref())?,
            (ServiceOrder::Priority(_), _) if given.has_whole_cpu() => delayed.on_own_cpu()?,
            (ServiceOrder::Priority(_), _) => delayed.by_priority(supply.as_ref())?,
        };
        let method = given.complete(method);
        let supplied = supply.supplied_down(deadline);
        Ok(judged(bound, deadline, delayed.asked(), supplied, method))
    }

    /// The tasks whose jobs may go first, one for each client, or why they have no bound.
    fn jobs_before(
        &self,
        one: &ClientTimes<'_>,
        all: &[ClientTimes<'_>],
        order: ServiceOrder,
    ) -> Result<Result<Vec<SporadicTask>, String>, AnalysisError> {
        let mut before = Vec::new();
        for other in all {
            if !order.may_delay(other.task, one.task) {
                continue;
            }
            let copies = other.task.clients - u32::from(other.name == one.name);
            match other.sporadic()? {
                _ if copies == 0 => {}
                Some(task) => before.extend((0..copies).map(|_| task)),
                None => {
                    return Ok(Err(format!(
                        "task \"{}\" may go first, and how much of it comes has no bound",
                        other.name
                    )));
                }
            }
        }
        Ok(Ok(before))
    }

    /// Whether a job that has begun gives way to another job of the domain.
    fn is_preemptive(&self) -> bool {
        let domain = self.description.domains.get(&self.service.domain);
        !self.is_own() || domain.is_none_or(|domain| domain.preemptive)
    }

    /// The longest time for which lower priorities keep a job waiting: as described, or until the longest of their
    /// jobs ends where jobs are not preempted.
    fn blocking(
        &self,
        one: &ClientTimes<'_>,
        all: &[ClientTimes<'_>],
        order: ServiceOrder,
    ) -> Result<Duration, String> {
        let mut longest = one.task.blocking;
        let lower = all
            .iter()
            .filter(|other| !order.may_delay(other.task, one.task));
        for other in lower.filter(|_| !self.is_preemptive()) {
            let execution = other.execution.ok_or_else(|| {
                format!(
                    "a job of task \"{}\" is not preempted, and how long it runs at most is not known; give \
                     `expected`, or samples",
                    other.name
                )
            })?;
            longest = longest.max(execution);
        }
        Ok(longest)
    }
}

/// The jobs of a task with everything that delays them.
struct DelayedJobs<'a> {
    /// The tasks whose jobs may go first, one for each client.
    before: &'a [SporadicTask],
    own: SporadicTask,
    /// The longest time for which lower priorities keep a job waiting.
    blocking: Duration,
    is_preemptive: bool,
}

impl DelayedJobs<'_> {
    /// All of the tasks, the own one last.
    fn tasks(&self) -> Vec<SporadicTask> {
        self.before.iter().copied().chain([self.own]).collect()
    }

    /// First come, first served; the order is that of readiness, and the response time counts from the arrival.
    fn by_arrival(
        &self,
        supply: &dyn SupplyBound,
    ) -> Result<(ResponseBound, String), AnalysisError> {
        let bound = match first_come_first_served(&Workload::new(self.tasks())?, supply)? {
            ResponseBound::AtMost(since_ready) => {
                ResponseBound::AtMost(since_ready.saturating_add(self.own.jitter()))
            }
            ResponseBound::Overloaded => ResponseBound::Overloaded,
        };
        let test = "first come, first served by arrivals against supply (network calculus)";
        Ok((bound, format!("{test}; {}", supply.name())))
    }

    /// Time demand against supply. A job that is not preempted is done no later than one that is and waits as long at its
    /// start, so the bound holds for both.
    fn by_priority(
        &self,
        supply: &dyn SupplyBound,
    ) -> Result<(ResponseBound, String), AnalysisError> {
        let workload = Workload::new(self.tasks())?;
        let bound = of_lowest_priority_blocked(&workload, self.blocking, supply)?;
        let test = "fixed priority by time demand against supply (Shin and Lee 2003)";
        let blocked = match self.blocking.is_zero() {
            true => String::new(),
            false => format!(", blocked once for up to {}", self.blocking),
        };
        Ok((bound, format!("{test}{blocked}; {}", supply.name())))
    }

    /// A CPU of its own: response-time analysis.
    fn on_own_cpu(&self) -> Result<(ResponseBound, String), AnalysisError> {
        let tasks = self.tasks();
        let order = PriorityOrder::as_given(tasks.len());
        let mut blocking = vec![Duration::ZERO; self.before.len()];
        blocking.push(self.blocking);
        let responses = match self.is_preemptive {
            true => response_times(&tasks, &order, &blocking)?,
            false => non_preemptive_response_times(&tasks, &order, &blocking)?,
        };
        let lowest = responses.tasks.last().map(|task| task.response_time);
        let bound = match lowest {
            Some(Ok(response)) => ResponseBound::AtMost(response),
            _ => ResponseBound::Overloaded,
        };
        Ok((bound, responses.method.into()))
    }

    /// The work that may come before a job's deadline, blocking included.
    fn asked(&self) -> Duration {
        let deadline_ns = self.own.deadline().as_nanos();
        let all = self.before.iter().chain([&self.own]);
        let asked = all.map(|task| {
            let window_ns = deadline_ns.saturating_add(task.jitter().as_nanos());
            let jobs = window_ns.div_ceil(task.period().as_nanos());
            u128::from(jobs) * u128::from(task.execution().as_nanos())
        });
        let asked = Duration::from_nanos(u64::try_from(asked.sum::<u128>()).unwrap_or(u64::MAX));
        asked.saturating_add(self.blocking)
    }
}

fn judged(
    bound: ResponseBound,
    deadline: Duration,
    asked: Duration,
    supplied: Duration,
    method: String,
) -> TaskJudgement {
    let (verdict, bound, why) = match bound {
        ResponseBound::Overloaded => {
            let why = "this and what goes before it need more than is given in the long run";
            (DeadlineVerdict::Missed, None, Some(why.to_owned()))
        }
        ResponseBound::AtMost(response) if response > deadline => {
            let why = format!(
                "misses it by {}: up to {asked} of work may come before the deadline of {deadline}, \
                 and {supplied} of CPU time is sure to be given",
                response.saturating_sub(deadline)
            );
            (DeadlineVerdict::Missed, Some(response), Some(why))
        }
        ResponseBound::AtMost(response) => (DeadlineVerdict::Met, Some(response), None),
    };
    TaskJudgement {
        verdict,
        bound,
        why,
        method: Some(method),
    }
}
