//! The least reservation on which a component meets its deadlines, per period: what the tool
//! CARTS (Phan et al. 2011) computes, exactly in nanoseconds.

use std::cell::Cell;
use std::cmp::Ordering;

use serde::Serialize;
use tailbound_model::Bandwidth;
use tailbound_time::Duration;

use super::component::{self, ComponentVerdict, LocalScheduler, Shortage, schedulable};
use super::demand::{LONGEST, Workload};
use super::multiprocessor_periodic::{
    self, MultiprocessorPeriodic, demand_of, horizon_of, out_of_rate, schedulable_global_edf,
};
use super::periodic_supply::PeriodicSupply;
use super::supply::SupplyBound;
use super::test_points::{WindowSweep, demand_horizon};
use crate::AnalysisError;

/// The kind of reservation that is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum ResourceModel {
    /// The budget is given somewhere in each period.
    Periodic,
    /// The budget is given by a deadline after the start of each period.
    ExplicitDeadline {
        /// The deadline, at most the period.
        deadline: Duration,
    },
    /// A deferrable server.
    Deferrable {
        /// How long others hold it up, at most, while it spends a budget; zero at the highest
        /// priority.
        jitter: Duration,
    },
    /// A polling server.
    Polling {
        /// As of [`Deferrable`](Self::Deferrable).
        jitter: Duration,
    },
    /// The budget is given on several CPUs together; the tasks run by global EDF.
    Multiprocessor {
        /// The most CPUs at a time.
        cpus: u32,
    },
}

/// A search for the least budget.
#[derive(Clone, Copy, Debug)]
pub struct InterfaceSearch<'a> {
    /// The tasks of the component.
    pub workload: &'a Workload,
    /// Their order; several CPUs know EDF only.
    pub scheduler: LocalScheduler,
    /// The kind of reservation.
    pub model: ResourceModel,
    /// What each replenishment costs, on each CPU: taken from the budget before the tasks get it.
    pub overhead: Duration,
}

/// The least budget of a period.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeastInterface {
    /// The least budget with which the test passes, overhead included; for several CPUs, of all
    /// together.
    pub budget: Duration,
    /// The period; above zero.
    pub period: Duration,
    /// The kind of reservation.
    pub model: ResourceModel,
    /// What is missing with a nanosecond less; `None` if that was not decided, or there is none
    /// to take away.
    pub tightest: Option<Shortage>,
    /// The test and the resource model, with their sources.
    pub method: String,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

impl LeastInterface {
    /// Budget / period, in CPUs, exactly; `None` for a period of zero, which no answer has.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        Bandwidth::new(self.budget, self.period)
    }
}

/// What a search has found, in nanoseconds.
struct BudgetVerdict {
    /// The least budget that was found to pass.
    budget_ns: u64,
    /// From where on budgets below it are undecided.
    undecided: Option<u64>,
}

/// What the tasks get.
enum Resource {
    OneCpu(PeriodicSupply),
    Several(MultiprocessorPeriodic),
}

impl Resource {
    /// How many times all windows have to be tried.
    fn problems(&self, workload: &Workload) -> usize {
        match self {
            Self::OneCpu(_) => 1,
            Self::Several(_) => workload.tasks().len(),
        }
    }

    fn sweep(&self, workload: &Workload, problem: usize) -> WindowSweep {
        match (self, workload.tasks().get(problem)) {
            (Self::Several(_), Some(task)) => WindowSweep::from(task.deadline().min(task.period())),
            _ => WindowSweep::from(Duration::ZERO),
        }
    }

    fn next_short_window(
        &self,
        workload: &Workload,
        problem: usize,
        sweep: &mut WindowSweep,
    ) -> Result<Option<Duration>, AnalysisError> {
        match self {
            Self::OneCpu(supply) => component::next_short_window(workload, supply, sweep),
            Self::Several(resource) => {
                multiprocessor_periodic::next_short_window(workload, problem, resource, sweep)
            }
        }
    }

    fn horizon(&self, workload: &Workload, problem: usize) -> Option<Duration> {
        match self {
            Self::OneCpu(supply) => demand_horizon(workload, supply).ok(),
            Self::Several(resource) => horizon_of(workload, problem, resource),
        }
    }

    fn demand(&self, workload: &Workload, problem: usize, window: Duration) -> Duration {
        match self {
            Self::OneCpu(_) => workload.demand_bound(window),
            Self::Several(resource) => demand_of(workload, problem, resource, window),
        }
    }

    fn supplied_down(&self, window: Duration) -> Duration {
        match self {
            Self::OneCpu(resource) => resource.supplied_down(window),
            Self::Several(resource) => resource.supplied_down(window),
        }
    }

    /// Whether EDF fails in the long run.
    fn out_of_rate(&self, workload: &Workload) -> bool {
        match self {
            Self::OneCpu(resource) => {
                let count = workload.tasks().len();
                workload.compare_utilisation(count, resource.rate()) == Ordering::Greater
            }
            Self::Several(resource) => out_of_rate(workload, resource),
        }
    }
}

/// The least budget above `bad` that is enough, by bisection; `good` is.
fn least(
    mut bad: u64,
    mut good: u64,
    enough: impl Fn(Duration) -> Result<bool, AnalysisError>,
) -> Result<u64, AnalysisError> {
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if enough(Duration::from_nanos(middle))? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Ok(good)
}

impl InterfaceSearch<'_> {
    /// Whether the component meets its deadlines with this budget, overhead included.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a reservation that cannot be given or that the scheduler
    /// does not know, [`AnalysisError::NotAnalysed`] where too many points would have to be
    /// tested.
    pub fn test(
        &self,
        budget: Duration,
        period: Duration,
    ) -> Result<ComponentVerdict, AnalysisError> {
        match self.resource(budget, period)? {
            Resource::OneCpu(supply) => schedulable(self.workload, self.scheduler, &supply),
            Resource::Several(_) if self.scheduler != LocalScheduler::EarliestDeadlineFirst => {
                Err(AnalysisError::Invalid {
                    what:
                        "a reservation of several CPUs is analysed under global EDF only; choose \
                           earliest deadline first"
                            .into(),
                })
            }
            Resource::Several(resource) => schedulable_global_edf(self.workload, &resource),
        }
    }

    /// What is left for the tasks.
    fn resource(&self, budget: Duration, period: Duration) -> Result<Resource, AnalysisError> {
        let lost = self.lost()?;
        let left = budget
            .checked_sub(lost)
            .ok_or_else(|| AnalysisError::Invalid {
                what: format!("a budget of {budget} does not even cover its overhead of {lost}"),
            })?;
        let supply = match self.model {
            ResourceModel::Periodic => PeriodicSupply::somewhere(left, period),
            ResourceModel::ExplicitDeadline { deadline } => {
                PeriodicSupply::by_deadline(left, period, deadline)
            }
            // The whole budget is spent by then, wherever in it the overhead falls.
            ResourceModel::Deferrable { jitter } => {
                PeriodicSupply::deferrable(left, period, lost.saturating_add(jitter))
            }
            ResourceModel::Polling { jitter } => {
                PeriodicSupply::polling(left, period, lost.saturating_add(jitter))
            }
            ResourceModel::Multiprocessor { cpus } => {
                return MultiprocessorPeriodic::new(left, period, cpus).map(Resource::Several);
            }
        };
        supply.map(Resource::OneCpu)
    }

    /// The least budget of this period: more budget is never less supply. Under EDF, each budget
    /// that is too small names a window, and the least budget with enough supply in it is tried
    /// next; under fixed priorities, or where a budget close to the utilisation cannot be decided,
    /// by bisection.
    ///
    /// # Errors
    /// [`AnalysisError::NoBudgetSuffices`] where not even the largest does,
    /// [`AnalysisError::Invalid`] and [`AnalysisError::NotAnalysed`] as of [`test`](Self::test).
    pub fn least_budget(&self, period: Duration) -> Result<LeastInterface, AnalysisError> {
        let most = self.largest_budget(period)?;
        let lost = self.lost()?;
        let no_budget = |shortage: String| AnalysisError::NoBudgetSuffices {
            period,
            most,
            shortage,
        };
        if lost > most {
            return Err(no_budget(format!("the overhead of {lost} takes it all")));
        }
        let verdict = self.test(most, period)?;
        if let Some(shortage) = verdict.shortage {
            return Err(no_budget(shortage.to_string()));
        }
        let mut assumptions = verdict.assumptions;
        if !self.overhead.is_zero() {
            assumptions.push(format!(
                "each replenishment costs at most {} of the budget on each CPU",
                self.overhead
            ));
        }
        let (low, high) = (lost.as_nanos(), most.as_nanos());
        let least = match self.scheduler {
            LocalScheduler::EarliestDeadlineFirst => self.by_windows(period, low, high)?,
            LocalScheduler::FixedPriority | LocalScheduler::FirstComeFirstServed => {
                self.by_bisection(period, low, high)?
            }
        };
        let less = least.budget_ns.checked_sub(1).filter(|less| *less >= low);
        let tightest = match (least.undecided, less) {
            (None, Some(less)) => self.test(Duration::from_nanos(less), period)?.shortage,
            _ => None,
        };
        if let Some(undecided) = least.undecided {
            assumptions.push(format!(
                "budgets from {} on are so close to the utilisation that too many points would \
                 have to be tested; they count as too small",
                Duration::from_nanos(undecided)
            ));
        }
        Ok(LeastInterface {
            budget: Duration::from_nanos(least.budget_ns),
            period,
            model: self.model,
            tightest,
            method: format!("least budget; {}", verdict.method),
            assumptions,
        })
    }

    /// Under EDF, raises the budget from `low` by each window that is too short, up to `high`, at
    /// which the test passes.
    fn by_windows(
        &self,
        period: Duration,
        low: u64,
        high: u64,
    ) -> Result<BudgetVerdict, AnalysisError> {
        let resource = |budget_ns: u64| self.resource(Duration::from_nanos(budget_ns), period);
        let mut budget = low;
        if resource(budget)?.out_of_rate(self.workload) {
            budget = least(budget, high, |budget| {
                Ok(!self.resource(budget, period)?.out_of_rate(self.workload))
            })?;
        }
        let mut undecided = None;
        let problems = resource(budget)?.problems(self.workload);
        for problem in 0..problems {
            let sweep = resource(budget)?.sweep(self.workload, problem);
            let mut sweep = sweep.of_a_search(problems.min(4));
            loop {
                let now = resource(budget)?;
                let window = match now.next_short_window(self.workload, problem, &mut sweep) {
                    Ok(Some(window)) => window,
                    Ok(None) => break,
                    Err(AnalysisError::NotAnalysed { .. }) => {
                        undecided.get_or_insert(budget);
                        sweep.renew();
                        budget = self.with_shorter_horizon(period, problem, budget, high)?;
                        continue;
                    }
                    Err(error) => return Err(error),
                };
                let demand = now.demand(self.workload, problem, window);
                let supply = now.supplied_down(window);
                budget = least(budget, high, |budget| {
                    let more = self.resource(budget, period)?.supplied_down(window);
                    Ok(more > supply && more >= demand)
                })?;
            }
        }
        Ok(BudgetVerdict {
            budget_ns: budget,
            undecided,
        })
    }

    /// A budget above `budget` and up to `high` with which only windows of half the length
    /// have to be tried.
    fn with_shorter_horizon(
        &self,
        period: Duration,
        problem: usize,
        budget_ns: u64,
        high: u64,
    ) -> Result<u64, AnalysisError> {
        let horizon = |budget: Duration| {
            let resource = self.resource(budget, period)?;
            Ok(resource.horizon(self.workload, problem))
        };
        let now = horizon(Duration::from_nanos(budget_ns))?;
        let target = now.map_or(LONGEST, |now| now / 2);
        least(budget_ns, high, |budget| {
            Ok(horizon(budget)?.is_some_and(|horizon| horizon <= target))
        })
    }

    /// Between `low` and `high`, at which the test passes.
    fn by_bisection(
        &self,
        period: Duration,
        low: u64,
        high: u64,
    ) -> Result<BudgetVerdict, AnalysisError> {
        let undecided = Cell::new(None::<u64>);
        let passes = |budget: Duration| match self.test(budget, period) {
            Err(AnalysisError::NotAnalysed { .. }) => {
                let lowest = undecided.get().unwrap_or(u64::MAX);
                undecided.set(Some(lowest.min(budget.as_nanos())));
                Ok(false)
            }
            verdict => verdict.map(|verdict| verdict.schedulable),
        };
        let budget = if passes(Duration::from_nanos(low))? {
            low
        } else {
            least(low, high, passes)?
        };
        Ok(BudgetVerdict {
            budget_ns: budget,
            undecided: undecided.get(),
        })
    }

    /// Among the least budgets of these periods, the one with the least bandwidth; of several, the
    /// one with the longest period, which costs the fewest replenishments. Periods without an
    /// answer are passed over.
    ///
    /// # Errors
    /// The first error where no period has an answer; [`AnalysisError::Invalid`] without periods.
    pub fn best(
        &self,
        periods: impl IntoIterator<Item = Duration>,
    ) -> Result<LeastInterface, AnalysisError> {
        let mut best: Option<LeastInterface> = None;
        let mut first_error = None;
        for period in periods {
            match self.least_budget(period) {
                Ok(least) => {
                    let better = best.as_ref().is_none_or(|best| {
                        let shares = least.bandwidth().cmp(&best.bandwidth());
                        shares.then(best.period.cmp(&least.period)).is_lt()
                    });
                    if better {
                        best = Some(least);
                    }
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                }
            }
        }
        best.ok_or_else(|| {
            first_error.unwrap_or_else(|| AnalysisError::Invalid {
                what: "there is no period to search; give at least one".into(),
            })
        })
    }

    fn cpus(&self) -> u32 {
        match self.model {
            ResourceModel::Multiprocessor { cpus } => cpus,
            _ => 1,
        }
    }

    fn lost(&self) -> Result<Duration, AnalysisError> {
        let lost = self.overhead.checked_mul(u64::from(self.cpus()));
        lost.ok_or_else(|| AnalysisError::Invalid {
            what: format!("an overhead of {} is beyond all budgets", self.overhead),
        })
    }

    fn largest_budget(&self, period: Duration) -> Result<Duration, AnalysisError> {
        let too_long = |what: &str, length: Duration| AnalysisError::Invalid {
            what: format!("a {what} of {length} is longer than the period {period}; shorten it"),
        };
        match self.model {
            ResourceModel::Periodic => Ok(period),
            ResourceModel::ExplicitDeadline { deadline } if deadline > period => {
                Err(too_long("deadline", deadline))
            }
            ResourceModel::ExplicitDeadline { deadline } => Ok(deadline),
            ResourceModel::Deferrable { jitter } | ResourceModel::Polling { jitter } => period
                .checked_sub(jitter)
                .ok_or_else(|| too_long("jitter", jitter)),
            ResourceModel::Multiprocessor { cpus } => period
                .checked_mul(u64::from(cpus))
                .ok_or_else(|| too_long("sum over all CPUs", period)),
        }
    }
}

/// The least budget on the fewest CPUs with which global EDF is found schedulable, up to
/// `most_cpus`: fewer CPUs at a time waste less (Easwaran, Shin and Lee 2009, section 5).
///
/// # Errors
/// As of [`InterfaceSearch::least_budget`] with `most_cpus`.
pub fn on_fewest_cpus(
    workload: &Workload,
    period: Duration,
    most_cpus: u32,
    overhead: Duration,
) -> Result<LeastInterface, AnalysisError> {
    let search = |cpus: u32| InterfaceSearch {
        workload,
        scheduler: LocalScheduler::EarliestDeadlineFirst,
        model: ResourceModel::Multiprocessor { cpus },
        overhead,
    };
    for cpus in 1..most_cpus {
        match search(cpus).least_budget(period) {
            Err(AnalysisError::NoBudgetSuffices { .. } | AnalysisError::NotAnalysed { .. }) => {}
            interface => return interface,
        }
    }
    search(most_cpus).least_budget(period)
}
