//! The least reservations on which tasks keep their deadlines, period by period: of named tasks here,
//! and of the domains of a description in [`description`].

pub mod description;

use serde::Serialize;
use tailbound_analysis::interfaces::search::on_fewest_cpus;
use tailbound_analysis::interfaces::{
    BoundedDelay, InterfaceSearch, LeastInterface, LocalScheduler, ResourceModel, Workload,
    least_explicit_deadline,
};
use tailbound_analysis::schedulability::priority_assignment::{deadline_monotonic, rate_monotonic};
use tailbound_analysis::{AnalysisError, SporadicTask};
use tailbound_time::{Duration, nanoseconds};

/// How a reservation gives its budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum SupplyKind {
    /// Somewhere in each period (Shin & Lee 2003).
    Periodic,
    /// By a deadline after the start of each period, the best of which is searched (Easwaran, Anand
    /// & Lee 2007).
    ExplicitDeadline,
    /// As a deferrable server.
    Deferrable,
    /// As a polling server.
    Polling,
    /// On several CPUs together, the tasks by global EDF (Easwaran, Shin & Lee 2009).
    Multiprocessor,
}

/// The question for the least budgets.
#[derive(Clone, Debug, PartialEq)]
pub struct InterfaceQuery {
    /// The kind of reservation.
    pub kind: SupplyKind,
    /// The periods.
    pub periods: Vec<Duration>,
    /// The longest time for which others hold a deferrable or polling server up while it spends a
    /// budget; zero at the highest priority.
    pub jitter: Duration,
    /// The deadline of the budget after the start of each period, of the kind that has one; the latest with
    /// which the least budget suffices is searched if `None`.
    pub deadline: Option<Duration>,
    /// The cost of each replenishment on each CPU, taken from the budget.
    pub overhead: Duration,
    /// The most CPUs of a multiprocessor reservation.
    pub cpus: u32,
}

/// The least interface of one period, or of one rate.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct InterfaceChoice {
    /// The period; `None` for a bounded delay that no periodic resource has.
    #[serde(rename = "period_ns", with = "nanoseconds::optional")]
    pub period: Option<Duration>,
    /// The least budget, overhead included; of several CPUs, of all together. `None` if none suffices.
    #[serde(rename = "budget_ns", with = "nanoseconds::optional")]
    pub budget: Option<Duration>,
    /// The latest deadline of the budget, of the kind that has one.
    #[serde(
        rename = "deadline_ns",
        with = "nanoseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<Duration>,
    /// The longest delay, of a bounded delay.
    #[serde(
        rename = "delay_ns",
        with = "nanoseconds::optional",
        skip_serializing_if = "Option::is_none"
    )]
    pub delay: Option<Duration>,
    /// The fewest CPUs, of a multiprocessor reservation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// Budget / period, or the rate of a bounded delay, in CPUs.
    pub bandwidth: Option<f64>,
    /// The bandwidth beyond the utilisation of the tasks, in CPUs.
    pub above_utilisation: Option<f64>,
    /// The shortage with a nanosecond less, or the reason for which no budget suffices.
    pub why: Option<String>,
}

impl InterfaceChoice {
    /// An answer of a search.
    fn of(least: &LeastInterface, utilisation: f64) -> Self {
        let bandwidth = least.budget.as_secs_f64() / least.period.as_secs_f64();
        let (deadline, cpus) = match least.model {
            ResourceModel::ExplicitDeadline { deadline } => (Some(deadline), None),
            ResourceModel::Multiprocessor { cpus } => (None, Some(cpus)),
            _ => (None, None),
        };
        Self {
            period: Some(least.period),
            budget: Some(least.budget),
            deadline,
            delay: None,
            cpus,
            bandwidth: Some(bandwidth),
            above_utilisation: Some(bandwidth - utilisation),
            why: least.tightest.map(|shortage| shortage.to_string()),
        }
    }

    /// Whether this is an answer, and no refusal.
    pub fn suffices(&self) -> bool {
        self.budget.is_some() || self.delay.is_some()
    }

    /// A period without an answer.
    pub(crate) fn none(period: Option<Duration>, why: String) -> Self {
        Self {
            period,
            why: Some(why),
            ..Self::default()
        }
    }
}

/// The least interfaces of tasks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct InterfaceAnswer {
    /// The kind of reservation: that of [`SupplyKind`], or `bounded-delay`.
    pub model: &'static str,
    /// The order of the tasks.
    pub policy: &'static str,
    /// The sum of execution time / period.
    pub utilisation: f64,
    /// The answer of each period or rate, in the order of the question.
    pub interfaces: Vec<InterfaceChoice>,
    /// The index of the one with the least bandwidth, and of several the one with the longest period
    /// or delay; `None` where none suffices.
    pub best: Option<usize>,
    /// The test and the resource model, with their sources.
    pub method: Option<String>,
    /// The assumptions of the method.
    pub assumptions: Vec<String>,
}

impl InterfaceAnswer {
    /// The answer with the least bandwidth.
    pub fn choice(&self) -> Option<&InterfaceChoice> {
        self.interfaces.get(self.best?)
    }
}

impl SupplyKind {
    /// Every kind.
    pub const ALL: [Self; 5] = [
        Self::Periodic,
        Self::ExplicitDeadline,
        Self::Deferrable,
        Self::Polling,
        Self::Multiprocessor,
    ];

    /// The name on the command line and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::Periodic => "periodic",
            Self::ExplicitDeadline => "explicit-deadline",
            Self::Deferrable => "deferrable",
            Self::Polling => "polling",
            Self::Multiprocessor => "multiprocessor",
        }
    }
}

/// The order of the tasks of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ComponentOrder {
    /// Earliest deadline first.
    EarliestDeadlineFirst,
    /// First come, first served.
    FirstComeFirstServed,
    /// Fixed priorities, in the order of the tasks.
    AsGiven,
    /// Fixed priorities, the shorter period first.
    RateMonotonic,
    /// Fixed priorities, the shorter deadline first.
    DeadlineMonotonic,
}

impl ComponentOrder {
    /// Every order.
    pub const ALL: [Self; 5] = [
        Self::EarliestDeadlineFirst,
        Self::FirstComeFirstServed,
        Self::AsGiven,
        Self::RateMonotonic,
        Self::DeadlineMonotonic,
    ];

    /// The name on the command line, in Python and in documents.
    pub fn name(self) -> &'static str {
        match self {
            Self::EarliestDeadlineFirst => "edf",
            Self::FirstComeFirstServed => "fifo",
            Self::AsGiven => "fp",
            Self::RateMonotonic => "rm",
            Self::DeadlineMonotonic => "dm",
        }
    }
}

/// Tasks with the order in which they run.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskComponent {
    /// The tasks; under fixed priorities the highest first.
    pub tasks: Vec<SporadicTask>,
    /// The scheduler.
    pub scheduler: LocalScheduler,
    /// The name of the order, such as `rm`.
    pub policy: &'static str,
}

/// The least budget of each period for a component.
///
/// # Errors
/// [`AnalysisError::Invalid`] for tasks or an order that the model does not take; a period at which no
/// budget suffices is a row of the answer instead.
pub fn least_interfaces(
    component: &TaskComponent,
    query: &InterfaceQuery,
) -> Result<InterfaceAnswer, AnalysisError> {
    let workload = Workload::new(component.tasks.clone())?;
    let mut answer = component.answer(query.kind.name(), &workload);
    for period in &query.periods {
        let least = query.least(&workload, component.scheduler, *period);
        let choice = match least {
            Ok(least) => {
                let choice = InterfaceChoice::of(&least, answer.utilisation);
                answer.method.get_or_insert(least.method);
                for assumption in least.assumptions {
                    if !answer.assumptions.contains(&assumption) {
                        answer.assumptions.push(assumption);
                    }
                }
                choice
            }
            Err(
                error
                @ (AnalysisError::NoBudgetSuffices { .. } | AnalysisError::NotAnalysed { .. }),
            ) => InterfaceChoice::none(Some(*period), error.to_string()),
            Err(error) => return Err(error),
        };
        answer.interfaces.push(choice);
    }
    answer.best = best_of(&answer.interfaces);
    Ok(answer)
}

/// The longest delay of each rate, given as a numerator and a denominator, with which a component meets
/// its deadlines (Mok, Feng & Chen 2001), and the periodic resource that gives no less.
///
/// # Errors
/// [`AnalysisError::Invalid`] for no such rate; a rate that no delay makes suffice is a row of the answer
/// instead.
pub fn longest_delays(
    component: &TaskComponent,
    rates: &[(u64, u64)],
) -> Result<InterfaceAnswer, AnalysisError> {
    let workload = Workload::new(component.tasks.clone())?;
    let mut answer = component.answer("bounded-delay", &workload);
    for (numerator, denominator) in rates {
        let scheduler = component.scheduler;
        let longest = BoundedDelay::longest_delay(&workload, scheduler, *numerator, *denominator);
        let bandwidth = *numerator as f64 / *denominator as f64;
        let row = InterfaceChoice {
            bandwidth: Some(bandwidth),
            above_utilisation: Some(bandwidth - answer.utilisation),
            ..InterfaceChoice::default()
        };
        let choice = match longest {
            Ok((resource, verdict)) => {
                let equal = resource.periodic_resource();
                answer.method.get_or_insert(verdict.method);
                answer.assumptions = verdict.assumptions;
                InterfaceChoice {
                    delay: Some(resource.delay()),
                    budget: equal.map(|(budget, _)| budget),
                    period: equal.map(|(_, period)| period),
                    ..row
                }
            }
            Err(
                error @ (AnalysisError::NoDelaySuffices { .. } | AnalysisError::NotAnalysed { .. }),
            ) => InterfaceChoice {
                why: Some(error.to_string()),
                ..row
            },
            Err(error) => return Err(error),
        };
        answer.interfaces.push(choice);
    }
    answer.best = best_of(&answer.interfaces);
    Ok(answer)
}

impl TaskComponent {
    /// Tasks that run in an order.
    ///
    /// # Errors
    /// As of [`PriorityOrder::ranked`](tailbound_analysis::schedulability::PriorityOrder::ranked).
    pub fn new(tasks: Vec<SporadicTask>, order: ComponentOrder) -> Result<Self, AnalysisError> {
        let (scheduler, tasks) = match order {
            ComponentOrder::EarliestDeadlineFirst => (LocalScheduler::EarliestDeadlineFirst, tasks),
            ComponentOrder::FirstComeFirstServed => (LocalScheduler::FirstComeFirstServed, tasks),
            ComponentOrder::AsGiven => (LocalScheduler::FixedPriority, tasks),
            ComponentOrder::RateMonotonic => {
                let ranked = rate_monotonic(&tasks).ranked(&tasks)?;
                (LocalScheduler::FixedPriority, ranked)
            }
            ComponentOrder::DeadlineMonotonic => {
                let ranked = deadline_monotonic(&tasks).ranked(&tasks)?;
                (LocalScheduler::FixedPriority, ranked)
            }
        };
        Ok(Self {
            tasks,
            scheduler,
            policy: order.name(),
        })
    }

    fn answer(&self, model: &'static str, workload: &Workload) -> InterfaceAnswer {
        InterfaceAnswer {
            model,
            policy: self.policy,
            utilisation: workload.utilisation(),
            interfaces: Vec::new(),
            best: None,
            method: None,
            assumptions: Vec::new(),
        }
    }
}

impl InterfaceQuery {
    fn least(
        &self,
        workload: &Workload,
        scheduler: LocalScheduler,
        period: Duration,
    ) -> Result<LeastInterface, AnalysisError> {
        let jitter = self.jitter;
        let model = match self.kind {
            SupplyKind::Periodic => ResourceModel::Periodic,
            SupplyKind::Deferrable => ResourceModel::Deferrable { jitter },
            SupplyKind::Polling => ResourceModel::Polling { jitter },
            SupplyKind::ExplicitDeadline => match self.deadline {
                Some(deadline) => ResourceModel::ExplicitDeadline { deadline },
                None => return least_explicit_deadline(workload, scheduler, period, self.overhead),
            },
            SupplyKind::Multiprocessor if scheduler != LocalScheduler::EarliestDeadlineFirst => {
                return Err(AnalysisError::Invalid {
                    what:
                        "a reservation of several CPUs is analysed under global EDF only; choose \
                           earliest deadline first"
                            .into(),
                });
            }
            SupplyKind::Multiprocessor => {
                return on_fewest_cpus(workload, period, self.cpus, self.overhead);
            }
        };
        let search = InterfaceSearch {
            workload,
            scheduler,
            model,
            overhead: self.overhead,
        };
        search.least_budget(period)
    }
}

/// The index of the least bandwidth; of equal ones, of the longest period or delay.
fn best_of(choices: &[InterfaceChoice]) -> Option<usize> {
    let ranked = choices.iter().enumerate().filter(|(_, one)| one.suffices());
    let ranked = ranked.min_by(|(_, one), (_, other)| {
        let share = |choice: &InterfaceChoice| choice.bandwidth.unwrap_or(f64::INFINITY);
        let later = |choice: &InterfaceChoice| choice.delay.or(choice.period);
        share(one)
            .total_cmp(&share(other))
            .then(later(other).cmp(&later(one)))
    });
    ranked.map(|(index, _)| index)
}
