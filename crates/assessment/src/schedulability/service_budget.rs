//! The least budget with which all tasks of a service are shown to meet their deadlines: by the very
//! verdicts that the analysis gives on a described reservation.

use tailbound_analysis::interference::InterferenceLoad;
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::{ClientTimes, DeadlineVerdict, GuaranteedSupply, ServiceQuestion};
use crate::AssessmentError;
use crate::interface::{InterfaceChoice, InterfaceQuery, SupplyKind};

/// A service with a kind of reservation, whose budget is to be found.
pub(crate) struct ServiceBudget<'a> {
    question: &'a ServiceQuestion<'a>,
    tasks: Vec<ClientTimes<'a>>,
    query: &'a InterfaceQuery,
    /// The interference on the CPUs of the reservation.
    interference: InterferenceLoad,
    /// The utilisation of the tasks with deadlines.
    pub(crate) utilisation: f64,
}

/// Whether a supply is enough.
enum Sufficiency {
    Enough {
        /// The method of the first task with a deadline.
        method: Option<String>,
    },
    Short(String),
}

impl<'a> ServiceBudget<'a> {
    /// The question for a service.
    ///
    /// # Errors
    /// A calibration that cannot be read.
    pub(crate) fn of(
        question: &'a ServiceQuestion<'a>,
        query: &'a InterfaceQuery,
        interference: InterferenceLoad,
    ) -> Result<Self, AssessmentError> {
        let tasks = question.client_times()?;
        let share = |task: &ClientTimes<'_>| {
            let period = task.period?.as_secs_f64();
            Some(f64::from(task.task.clients) * task.execution?.as_secs_f64() / period)
        };
        Ok(Self {
            utilisation: tasks.iter().filter_map(share).sum(),
            question,
            tasks,
            query,
            interference,
        })
    }

    /// Why no reservation helps, if so.
    pub(crate) fn obstacle(&self) -> Option<String> {
        if let Some(why) = self.question.unanalysed() {
            return Some(why);
        }
        match self.query.kind {
            SupplyKind::Multiprocessor => Some(
                "a domain's interface is for one CPU at a time; name tasks with --task for a \
                 multiprocessor model"
                    .into(),
            ),
            _ => None,
        }
    }

    /// The least budget of a period.
    ///
    /// # Errors
    /// A calibration that cannot be read.
    pub(crate) fn least(
        &self,
        period: Duration,
    ) -> Result<(InterfaceChoice, Option<String>), AssessmentError> {
        let lost = self.lost(period);
        let none = |why: String| (InterfaceChoice::none(Some(period), why), None);
        let Some(most) = self.largest(period) else {
            let by = match self.query.deadline {
                Some(deadline) => format!("deadline of the budget, {deadline}"),
                None => format!("period of {period}"),
            };
            return Ok(none(format!(
                "the overhead of {lost} and the jitter of {} leave nothing of the {by}",
                self.held_up(period)
            )));
        };
        // The whole of a period is a CPU of one's own.
        if let Sufficiency::Short(why) = self.with(most, period, None)? {
            return Ok(none(format!(
                "not even a budget of {most} in every {period} suffices: {why}"
            )));
        }
        let is_enough = |budget_ns: u64, deadline: Option<Duration>| {
            let outcome = self.with(Duration::from_nanos(budget_ns), period, deadline)?;
            Ok::<_, AssessmentError>(matches!(outcome, Sufficiency::Enough { .. }))
        };
        let (mut bad, mut good) = (lost.as_nanos(), most.as_nanos());
        while good.saturating_sub(bad) > 1 {
            let middle = bad + (good - bad) / 2;
            match is_enough(middle, None)? {
                true => good = middle,
                false => bad = middle,
            }
        }
        let budget = Duration::from_nanos(good);
        let deadline = match self.query.kind {
            SupplyKind::ExplicitDeadline if self.query.deadline.is_some() => self.query.deadline,
            SupplyKind::ExplicitDeadline => {
                let (mut early, mut late) = (good, period.as_nanos() + 1);
                while late - early > 1 {
                    let middle = early + (late - early) / 2;
                    match is_enough(good, Some(Duration::from_nanos(middle)))? {
                        true => early = middle,
                        false => late = middle,
                    }
                }
                Some(Duration::from_nanos(early))
            }
            _ => None,
        };
        let why = match self.with(Duration::from_nanos(bad), period, None)? {
            Sufficiency::Short(why) if bad < good => Some(why),
            _ => None,
        };
        let method = match self.with(budget, period, deadline)? {
            Sufficiency::Enough { method } => method,
            Sufficiency::Short(_) => None,
        };
        let bandwidth = budget.as_secs_f64() / period.as_secs_f64();
        let choice = InterfaceChoice {
            period: Some(period),
            budget: Some(budget),
            deadline,
            bandwidth: Some(bandwidth),
            above_utilisation: Some(bandwidth - self.utilisation),
            why,
            ..InterfaceChoice::default()
        };
        Ok((choice, method))
    }

    /// How much of the budget of a period the tasks do not get: the overhead, and what interference may be charged to it
    /// before the end of the period.
    fn lost(&self, period: Duration) -> Duration {
        let charged = self.interference.charged_in(period);
        self.query.overhead.saturating_add(charged)
    }

    /// How long a server is held up in a period while it spends its budget.
    fn held_up(&self, period: Duration) -> Duration {
        let taken = self.interference.taken_in(period);
        self.query.jitter.saturating_add(taken)
    }

    /// The largest budget of a period, if there is one above the overhead.
    fn largest(&self, period: Duration) -> Option<Duration> {
        let most = match self.query.kind {
            SupplyKind::Deferrable | SupplyKind::Polling => {
                period.checked_sub(self.held_up(period))?
            }
            SupplyKind::ExplicitDeadline => period.min(self.query.deadline.unwrap_or(period)),
            _ => period,
        };
        (most > self.lost(period)).then_some(most)
    }

    /// Whether a budget, overhead included, is enough. Without a deadline an explicit one is that of the
    /// question, or as early as it can be.
    fn with(
        &self,
        budget: Duration,
        period: Duration,
        deadline: Option<Duration>,
    ) -> Result<Sufficiency, AssessmentError> {
        let lost = self.lost(period);
        let left = budget.saturating_sub(lost);
        let (server, budget_deadline) = match self.query.kind {
            SupplyKind::Deferrable => {
                let server = ReservationServer::Deferrable {
                    budget: left,
                    period,
                };
                (server, None)
            }
            SupplyKind::Polling => {
                let server = ReservationServer::Polling {
                    budget: left,
                    period,
                };
                (server, None)
            }
            kind => {
                let server = ReservationServer::Periodic {
                    budget: left,
                    period,
                };
                let soonest = (kind == SupplyKind::ExplicitDeadline).then_some(budget);
                (server, deadline.or(self.query.deadline).or(soonest))
            }
        };
        let given = GuaranteedSupply {
            server,
            jitter: lost.saturating_add(self.held_up(period)),
            as_on_own_cpu: false,
            above: Vec::new(),
            budget_deadline,
            windows: Vec::new(),
            interference: self.interference.clone(),
        };
        let (tasks, service) = self.question.judgements(&self.tasks, Ok(given))?;
        let has_deadline = |verdict: DeadlineVerdict| verdict != DeadlineVerdict::NoDeadline;
        if !tasks.iter().any(|task| has_deadline(task.verdict)) {
            return Ok(Sufficiency::Short("no task of it has a deadline".into()));
        }
        let names = self.tasks.iter().map(|task| task.name);
        let short = tasks.iter().zip(names).find_map(|(task, name)| {
            let is_met = matches!(
                task.verdict,
                DeadlineVerdict::Met | DeadlineVerdict::NoDeadline
            );
            let why = task.why.as_deref().unwrap_or("it can be late");
            (!is_met).then(|| format!("task \"{name}\": {why}"))
        });
        let whole = service.and_then(|one| match one.verdict {
            DeadlineVerdict::Met | DeadlineVerdict::NoDeadline => None,
            _ => Some(one.why.unwrap_or_default()),
        });
        Ok(match whole.or(short) {
            Some(why) => Sufficiency::Short(why),
            None => Sufficiency::Enough {
                method: tasks.into_iter().find_map(|task| task.method),
            },
        })
    }
}
