//! One interval after another: reports, a step, budgets.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;

use tailbound_balance::{
    BalancePlan, CapacityRule, HoldReason, LevelReport, MatchingValue, RuleError,
};
use tailbound_control::{Client, ClientError, Presence, ReservationStatus, Selection};
use tailbound_enforcement::{ReservationRequest, Target};
use tailbound_linux::thread::make_current_thread_fifo;
use tailbound_time::Duration;

use crate::budget_set::{BudgetControl, BudgetSet};
use crate::exchange;

/// The lowest fixed priority: above all ordinary threads, below all reservations that have a priority.
const PRIORITY: u8 = 1;

/// `CapacityManager` divides, and holds what it has divided. The reservations are of the connection that makes the
/// changes, so that they are taken back where the manager ends, however it ends.
pub struct CapacityManager {
    plan: BalancePlan,
    rule: CapacityRule,
    budgets: BudgetSet,
    requests: BTreeMap<String, ReservationRequest>,
}

/// The outcome of an interval.
#[derive(Debug)]
pub struct IntervalOutcome {
    /// The reports of the applications, or why there are none.
    pub reports: Vec<Result<LevelReport, HoldReason>>,
    /// The capacities that the rule has given them from now on.
    pub capacities: Vec<Duration>,
    /// The domains whose reservations have ended since the last interval.
    pub ended: Vec<String>,
    /// The domains whose budgets could not be changed, each with the daemon's reason; a later interval tries again.
    pub refused: Vec<(String, String)>,
}

/// Why the manager cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum DivisionError {
    /// The daemon does not answer.
    #[error(transparent)]
    Daemon(#[from] ClientError),
    /// Nothing is left to divide.
    #[error("the reservations of all balanced domains have ended")]
    Over,
}

/// Changes budgets through the daemon.
struct DaemonBudgets<'a> {
    client: &'a mut Client,
    requests: &'a BTreeMap<String, ReservationRequest>,
}

impl BudgetControl for DaemonBudgets<'_> {
    type Error = ClientError;

    fn change(&mut self, domain: &str, budget: Duration) -> Result<(), ClientError> {
        let Some(request) = self.requests.get(domain) else {
            return Ok(());
        };
        let mut interface = request.interface.clone();
        interface.budget = budget;
        self.client.change(domain, &interface).map(drop)
    }
}

impl CapacityManager {
    /// A manager at its start. The reservations in `requests` get the budgets of the first division; whoever calls makes
    /// them, before the first interval.
    ///
    /// # Errors
    /// If the table makes no rule.
    pub fn begin(
        plan: BalancePlan,
        requests: &mut [ReservationRequest],
    ) -> Result<Self, RuleError> {
        let rule = plan.rule()?;
        let first = wanted(&plan, rule.capacities());
        for request in requests.iter_mut() {
            if let Some((_, budget)) = first.iter().find(|(domain, _)| *domain == request.domain) {
                request.interface.budget = *budget;
            }
        }
        let of_domain = |request: &ReservationRequest| (request.domain.clone(), request.clone());
        Ok(Self {
            budgets: BudgetSet::new(rule.whole(), first),
            requests: requests.iter().map(of_domain).collect(),
            plan,
            rule,
        })
    }

    /// The names of the applications, in the order of all outcomes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.plan.applications.iter().map(|one| one.name.as_str())
    }

    /// The time from one interval to the next.
    pub fn interval(&self) -> Duration {
        self.plan.balance.interval
    }

    /// The capacity that is divided, per period.
    pub fn whole(&self) -> Duration {
        self.rule.whole()
    }

    /// The capacities that the rule gives now.
    pub fn capacities(&self) -> &[Duration] {
        self.rule.capacities()
    }

    /// Asks all applications at once, takes a step, and changes budgets.
    ///
    /// # Errors
    /// The daemon cannot be asked, or holds no reservation of the applications any more.
    pub fn pass_interval(&mut self, client: &mut Client) -> Result<IntervalOutcome, DivisionError> {
        let reports = self.ask();
        let measured = self.values(&reports);
        self.rule.step(&measured);
        let ended = self.ended(client)?;
        let budgets = wanted(&self.plan, self.rule.capacities());
        let budgets: Vec<Duration> = budgets.into_iter().map(|(_, budget)| budget).collect();
        let requests = &self.requests;
        let failures = self
            .budgets
            .put(&budgets, &mut DaemonBudgets { client, requests });
        let mut refused = Vec::new();
        for (domain, error) in failures {
            match error.refusal() {
                Some(_) => refused.push((domain, error.to_string())),
                None => return Err(error.into()),
            }
        }
        Ok(IntervalOutcome {
            reports,
            capacities: self.rule.capacities().to_vec(),
            ended,
            refused,
        })
    }

    /// The values by which applications take part. One that does not answer in time may be overloaded, and cannot ask for what it
    /// has lent: it gets that back, and no more.
    fn values(&self, reports: &[Result<LevelReport, HoldReason>]) -> Vec<Option<MatchingValue>> {
        let capacities = self.rule.capacities().iter();
        let each = reports.iter().zip(capacities.zip(self.rule.guarantees()));
        let values = each.map(|(report, (capacity, guarantee))| match report {
            Ok(report) => Some(report.effective()),
            Err(reason) if exchange::is_late(reason) && *capacity < guarantee => {
                Some(MatchingValue::LEAST)
            }
            Err(_) => None,
        });
        values.collect()
    }

    /// The domains whose reservations have ended since the last interval. The reservation of processes that are all dead is
    /// taken back first: its budget cannot be lowered any more, and is to be free for the others.
    fn ended(&mut self, client: &mut Client) -> Result<Vec<String>, DivisionError> {
        let own = |one: &ReservationStatus| self.requests.contains_key(&one.enforced.domain);
        let mut reservations = client.status()?.reservations;
        reservations.retain(own);
        let (dead, active): (Vec<_>, Vec<_>) = reservations.into_iter().partition(is_dead);
        for one in dead {
            match client.revert(Selection::Domain(one.enforced.domain)) {
                Err(error) if error.refusal().is_none() => return Err(error.into()),
                // The process has ended meanwhile, or the daemon tries again.
                Ok(_) | Err(_) => {}
            }
        }
        let active: BTreeSet<String> = active.into_iter().map(|one| one.enforced.domain).collect();
        let gone = self
            .requests
            .keys()
            .filter(|domain| !active.contains(*domain));
        let ended: Vec<String> = gone
            .filter(|domain| self.budgets.end(domain))
            .cloned()
            .collect();
        match self.budgets.is_over() {
            true => Err(DivisionError::Over),
            false => Ok(ended),
        }
    }

    fn ask(&self) -> Vec<Result<LevelReport, HoldReason>> {
        let within = self.plan.balance.answer_within();
        let stale_after = self.plan.balance.stale_after();
        thread::scope(|scope| {
            let asked: Vec<_> = self
                .plan
                .applications
                .iter()
                .map(|one| {
                    scope.spawn(move || {
                        prefer_this_thread();
                        exchange::level_report(&one.described, within, stale_after)
                    })
                })
                .collect();
            let answers = asked.into_iter().map(|one| {
                let failed = |_| Err(HoldReason::NoAnswer("the request failed".to_owned()));
                one.join().unwrap_or_else(failed)
            });
            answers.collect()
        })
    }
}

/// Puts the calling thread above ordinary ones, so that the manager hears and changes in an overload, too. Without the privilege
/// the thread stays as it is.
pub fn prefer_this_thread() -> bool {
    make_current_thread_fifo(PRIORITY).is_ok()
}

/// Whether a reservation is for processes none of which lives. The members of a cgroup may come back.
fn is_dead(reservation: &ReservationStatus) -> bool {
    let is_empty = matches!(reservation.presence, Presence::Empty { .. });
    let of_processes = matches!(
        reservation.enforced.target,
        Target::Processes(_) | Target::Threads(_)
    );
    is_empty && of_processes
}

/// The budgets of all domains under these capacities, in whole microseconds, which all back ends count in. What is rounded off stays
/// with nobody.
fn wanted(plan: &BalancePlan, capacities: &[Duration]) -> Vec<(String, Duration)> {
    let each = plan.applications.iter().zip(capacities);
    let budgets = each.flat_map(|(one, capacity)| {
        let domains = one.domains.iter().map(|domain| domain.name.clone());
        let budgets = one.budgets(*capacity).into_iter();
        let budgets = budgets.map(|budget| Duration::from_micros(budget.as_nanos() / 1000));
        domains.zip(budgets).collect::<Vec<_>>()
    });
    budgets.collect()
}
