//! Soft jobs beside hard periodic tasks on one CPU with fixed priorities.
//!
//! Hard tasks have ranks; the lower one runs first. Soft jobs wait in one queue, first come, first
//! served. A [`Policy`] says when they run instead of a hard job that is there. What happens at one
//! instant happens in the order that the [crate](crate) documents; promotions, and gain that comes due,
//! are among the replenishments.
//!
//! Jobs come from a [`JobSource`], hard ones with the rank of their task, soft ones with the number of hard
//! tasks as theirs, or a higher one: there may be several soft tasks, and one queue of their jobs. What a job executes is its `work`; policies know the worst case only, and learn when
//! the job is done how much it has left. docs/concepts/aperiodic-policies.md derives the rules.

mod dual_priority;
mod engine;
mod jobs;
mod policy;
mod priority_exchange;
mod promotions;
mod server;
mod slack;

use tailbound_model::HostOverheads;
use tailbound_reservation::Account;
use tailbound_time::Duration;

pub use promotions::promotions;
pub use tailbound_model::{AperiodicCosts, Gain};
pub use tailbound_reservation::ServerKind;

use crate::hierarchy::{JobSource, Sink};
use engine::AperiodicEngine;
use jobs::Jobs;

/// A hard task. No job is released earlier than one period after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HardTask {
    /// The most that a job executes.
    pub execution: Duration,
    /// The least distance between releases.
    pub period: Duration,
    /// From the release to the deadline; at most the period.
    pub deadline: Duration,
    /// No job is released before.
    pub offset: Duration,
}

/// When soft jobs run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// When no hard job is there.
    Background,
    /// On the budget of a reservation server.
    Server {
        /// How the budget is spent and comes back: a rule that fits a server with a fixed rank. Deadlines
        /// of the constant bandwidth say when the budget comes back; they order nothing here.
        rule: ServerKind,
        /// Budget, period and place.
        budget: ServerBudget,
        /// Whether soft jobs go on in the background when the budget is used up.
        spills: bool,
    },
    /// On a budget that goes down to the rank of the hard task that runs in its stead (Lehoczky, Sha and
    /// Strosnider 1987). Soft jobs go on in the background.
    PriorityExchange(ServerBudget),
    /// Before all hard jobs that are not promoted, and behind those that are (Davis and Wellings 1995).
    DualPriority {
        /// Of each hard task, from release to promotion: at most the deadline less the worst-case
        /// response time.
        promotions: Vec<Duration>,
        /// What is made of execution before the promotion, and of jobs that need less than the worst
        /// case.
        gain: Gain,
    },
    /// As long as a lower bound of every hard task's slack is above zero (dynamic approximate slack
    /// stealing; Davis, Tindell and Burns 1993).
    SlackStealing {
        /// What is made of jobs that need less than the worst case: with [`Gain::Propagated`], what a job
        /// leaves is slack of all tasks behind it at once. There is no own gain.
        gain: Gain,
    },
}

impl Policy {
    /// What a hard job's worst case has to cover beside its execution: its interrupt, a look and a
    /// switch when it comes and when it goes, and the policy's own work. What soft jobs cost, and what
    /// ticks do, is not in it.
    pub fn allowance(
        &self,
        overheads: &HostOverheads,
        costs: &AperiodicCosts,
        hard_tasks: usize,
    ) -> Duration {
        let around = overheads
            .scheduler_invocation
            .saturating_add(overheads.context_switch);
        let own = match self {
            Self::Background | Self::Server { .. } | Self::PriorityExchange(_) => Duration::ZERO,
            Self::DualPriority { gain, .. } => {
                let promoted = costs.promotion.saturating_add(around);
                match gain {
                    Gain::None | Gain::Own => promoted,
                    Gain::Propagated | Gain::Both => promoted.saturating_add(costs.gain),
                }
            }
            Self::SlackStealing { gain } => {
                let slack = costs.slack_per_task.checked_mul(hard_tasks as u64);
                let slack = slack.unwrap_or(Duration::MAX);
                match gain {
                    Gain::None | Gain::Own => slack,
                    Gain::Propagated | Gain::Both => slack.saturating_add(costs.gain),
                }
            }
        };
        let twice = around.saturating_add(around);
        overheads
            .interrupt
            .saturating_add(twice)
            .saturating_add(own)
    }
}

/// The rules that fit a server with a fixed rank. The soft rule of the constant bandwidth, which only moves
/// its deadline when the budget is used up, would never leave the CPU.
const FIXED_RANK: [ServerKind; 4] = [
    ServerKind::Polling,
    ServerKind::Deferrable,
    ServerKind::Sporadic,
    ServerKind::ConstantBandwidth,
];

/// The budget of a server, full at time 0 and, where the rule has a grid, at whole periods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ServerBudget {
    /// CPU time per period.
    pub budget: Duration,
    /// The distance between replenishments.
    pub period: Duration,
    /// So many hard tasks come before the server; 0 puts it first.
    pub behind: usize,
}

/// What is simulated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System {
    /// The hard tasks by rank, the one that runs first in front.
    pub hard: Vec<HardTask>,
    /// When soft jobs run.
    pub policy: Policy,
    /// What scheduling costs; `migration` never arises on one CPU.
    pub overheads: HostOverheads,
    /// What the policy costs.
    pub costs: AperiodicCosts,
}

/// Where the time went, and what took it.
///
/// `hard`, `soft`, `idle` and `overhead` add up to `elapsed`. The overheads by kind add up to `overhead`
/// and what had not been taken of them when the horizon came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// From the start to the last completion, or to the horizon.
    pub elapsed: Duration,
    /// Hard jobs.
    pub hard: Duration,
    /// Soft jobs.
    pub soft: Duration,
    /// Nobody.
    pub idle: Duration,
    /// All overheads.
    pub overhead: Duration,
    /// How often another task came onto the CPU.
    pub context_switches: u64,
    /// What these took.
    pub switching: Duration,
    /// How often the scheduler looked what to run.
    pub scheduler_invocations: u64,
    /// What that took, but for the policy.
    pub scheduling: Duration,
    /// What the policy's own work took.
    pub policy: Duration,
    /// The interrupts of releases.
    pub interrupts: Duration,
    /// The ticks.
    pub ticks: Duration,
}

/// Why a system cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AperiodicError {
    /// A hard task that is none.
    #[error(
        "the hard task {task} has the period {period}, the deadline {deadline} and the worst-case \
         execution time {execution}; the period must be above zero, and deadline and execution time at \
         most the period"
    )]
    HardTask {
        /// Its rank.
        task: usize,
        /// Its period.
        period: Duration,
        /// Its deadline.
        deadline: Duration,
        /// Its worst-case execution time.
        execution: Duration,
    },
    /// A budget that is none.
    #[error(
        "a budget of {budget} in a period of {period} is none; it must be above zero and at most the \
         period"
    )]
    Budget {
        /// The budget.
        budget: Duration,
        /// The period.
        period: Duration,
    },
    /// A rule that does not fit a fixed rank.
    #[error(
        "a server of the rule {rule} does not fit beside hard tasks; use a polling, deferrable, sporadic \
         or constant-bandwidth server"
    )]
    Rule {
        /// The rule.
        rule: ServerKind,
    },
    /// Promotions for other tasks.
    #[error("{promotions} promotions for {tasks} hard tasks; there must be one for each")]
    Promotions {
        /// The promotions.
        promotions: usize,
        /// The tasks.
        tasks: usize,
    },
    /// Ticks that leave no time.
    #[error("a tick of {cost} every {period} leaves no time; it must cost less than its period")]
    Tick {
        /// What a tick takes.
        cost: Duration,
        /// From one to the next.
        period: Duration,
    },
}

/// Runs the jobs of a source until all are done, or up to the horizon, and tells a sink what happens. To
/// the sink the soft jobs are of the tasks behind the hard ones, and the server is reservation 1.
///
/// # Errors
/// If a hard task has no period, or a deadline or worst case beyond it; if a budget is zero or above its
/// period; if there is not one promotion per hard task; if ticks leave no time.
pub fn simulate_aperiodic(
    system: &System,
    source: &mut impl JobSource,
    sink: &mut impl Sink,
    horizon: Option<Duration>,
) -> Result<Usage, AperiodicError> {
    check(system)?;
    let jobs = Jobs::new(&system.hard);
    let costs = &system.costs;
    let horizon = horizon.map_or(u64::MAX, Duration::as_nanos);
    let overheads = &system.overheads;
    Ok(match &system.policy {
        Policy::Background => {
            AperiodicEngine::new(policy::Background, jobs, overheads).run(source, sink, horizon)
        }
        Policy::Server {
            rule,
            budget,
            spills,
        } => {
            let served = server::Served {
                account: account(*rule, budget)?,
                behind: budget.behind,
                spills: *spills,
                replenishment_ns: costs.replenishment.as_nanos(),
                on_budget: false,
            };
            AperiodicEngine::new(served, jobs, overheads).run(source, sink, horizon)
        }
        Policy::PriorityExchange(budget) => {
            // The same check as for every other budget.
            account(ServerKind::Deferrable, budget)?;
            let exchange = priority_exchange::PriorityExchange::new(
                budget.budget.as_nanos(),
                budget.period.as_nanos(),
                budget.behind,
                jobs.hard.len(),
                costs.replenishment.as_nanos(),
            );
            AperiodicEngine::new(exchange, jobs, overheads).run(source, sink, horizon)
        }
        Policy::DualPriority { promotions, gain } => {
            let after = promotions.iter().map(|after| after.as_nanos());
            let dual = dual_priority::DualPriority::new(after, *gain, costs);
            AperiodicEngine::new(dual, jobs, overheads).run(source, sink, horizon)
        }
        Policy::SlackStealing { gain } => {
            let slack = slack::SlackStealing::new(&jobs, *gain, costs);
            AperiodicEngine::new(slack, jobs, overheads).run(source, sink, horizon)
        }
    })
}

fn account(rule: ServerKind, budget: &ServerBudget) -> Result<Account, AperiodicError> {
    let ServerBudget { budget, period, .. } = *budget;
    let account = Account::new(&rule.into(), budget, period, Duration::ZERO);
    account.map_err(|_| AperiodicError::Budget { budget, period })
}

fn check(system: &System) -> Result<(), AperiodicError> {
    for (task, hard) in system.hard.iter().enumerate() {
        let HardTask {
            execution,
            period,
            deadline,
            ..
        } = *hard;
        if period.is_zero() || deadline > period || execution > period {
            return Err(AperiodicError::HardTask {
                task,
                period,
                deadline,
                execution,
            });
        }
    }
    if let Policy::DualPriority { promotions, .. } = &system.policy
        && promotions.len() != system.hard.len()
    {
        return Err(AperiodicError::Promotions {
            promotions: promotions.len(),
            tasks: system.hard.len(),
        });
    }
    if let Policy::Server { rule, .. } = system.policy
        && !FIXED_RANK.contains(&rule)
    {
        return Err(AperiodicError::Rule { rule });
    }
    match system.overheads.tick {
        Some(tick) if !tick.period.is_zero() && tick.cost >= tick.period => {
            Err(AperiodicError::Tick {
                cost: tick.cost,
                period: tick.period,
            })
        }
        _ => Ok(()),
    }
}
