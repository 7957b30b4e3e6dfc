//! Which reservation meets a promise: the least budget at each period, and the choice among them.
//!
//! At a fixed period the share of responses within a latency rises with the budget, so the least
//! budget is enclosed from both sides, by chords or by halving. Nothing of the kind holds for the period: a longer one at the same
//! bandwidth is often better, sometimes worse. So every period is looked at on its own.

mod bisection;
mod cap;
mod document;
mod fraction;
mod periodic;
mod root;

use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;
use tailbound_distribution::{Evidence, Interval};
pub use tailbound_model::ServerKind;
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use crate::response_time::{BudgetUse, PoissonQueue, QueueResponses};
use crate::{AnalysisError, CapAssumption, Promise, SearchStage, SearchWatch, Unwatched};
use bisection::Halving;
pub use cap::limit_periods;
pub use periodic::size_periodic;

/// A question: which budgets keep all promises?
#[derive(Clone, Debug)]
pub struct SizingQuery {
    /// The load; its server is not looked at.
    pub queue: PoissonQueue,
    /// What is promised; all of it has to hold.
    pub promises: Vec<Promise>,
    /// The kind of server.
    pub kind: ServerKind,
    /// The periods to look at.
    pub periods: Vec<Duration>,
    /// What is added to every bandwidth for what the model leaves out (thesis, section 4.4: 5
    /// points); shown apart from the least budget.
    pub margin: PercentagePoints,
}

impl SizingQuery {
    /// The least share of responses that is promised nothing.
    fn promised_nothing(&self) -> f64 {
        let rest = self
            .promises
            .iter()
            .map(|promise| 1.0 - promise.probability);
        rest.fold(1.0, f64::min)
    }
}

/// The answer for one period.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The period.
    pub period: Duration,
    /// The least budget that keeps all promises, to within [`Choice::resolution`] above it; `None`
    /// if even the whole period does not.
    pub budget: Option<Duration>,
    /// The budget with the margin, at most the period.
    pub with_margin: Option<Duration>,
    /// How much less was shown, or could not be shown, to be too little.
    pub resolution: Duration,
    /// Whether no longer period needs as little bandwidth.
    pub on_front: bool,
    /// The share of simulated runs in which the budget keeps every promise, where it was found by such runs.
    pub kept: Option<f64>,
}

impl Choice {
    /// The bandwidth without the margin.
    pub fn bandwidth(&self) -> Option<f64> {
        let budget = self.budget?;
        Some(budget.as_nanos() as f64 / self.period.as_nanos() as f64)
    }
}

/// Why no budget keeps a promise.
#[derive(Clone, Debug, PartialEq)]
pub struct Infeasible {
    /// The promise.
    pub promise: Promise,
    /// What a CPU of its own reaches: this share of responses within the promised latency, at most.
    pub share_at_most: f64,
    /// And this latency for the promised share.
    pub latency: Interval,
}

/// The answer to a [`SizingQuery`].
#[derive(Clone, Debug)]
pub struct Sizing {
    /// One per period, in the order asked; none for a period at which nothing less than all of it was shown to be enough
    /// before the search was stopped, and for one at which no method holds, which the assumptions name.
    pub choices: Vec<Choice>,
    /// The choice with the least bandwidth, of several the one with the longest period, as an index
    /// of `choices`.
    pub best: Option<usize>,
    /// The periods at which the search was stopped, in the order asked: a lesser budget may be enough.
    pub open: Vec<Duration>,
    /// Promises that not even a CPU of its own keeps: the proof that there is no answer.
    pub infeasible: Vec<Infeasible>,
    /// What [`Choice::with_margin`] has on top of the least budget.
    pub margin: PercentagePoints,
    /// The evidence of the budgets and of what is infeasible.
    pub evidence: Evidence,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
    /// The assumptions about a cap, where the budgets are quotas.
    pub cap_assumptions: Vec<CapAssumption>,
}

/// The least budget at a period that keeps every promise in a share of simulated runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunBudget {
    /// The budget.
    pub budget: Duration,
    /// How much less keeps the promises in too few runs.
    pub resolution: Duration,
    /// The share of the runs in which it keeps them.
    pub kept: f64,
}

impl Sizing {
    /// The sizing of budgets that were found by simulated runs, one for each period; `None` where not even the whole
    /// of a period is enough.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for no period, or a margin that is none.
    pub fn of_runs(
        budgets: &[(Duration, Option<RunBudget>)],
        margin: PercentagePoints,
        assumptions: Vec<String>,
    ) -> Result<Self, AnalysisError> {
        let periods: Vec<Duration> = budgets.iter().map(|(period, _)| *period).collect();
        check_periods(&periods)?;
        check_margin(margin)?;
        let choices = budgets.iter().map(|(period, least)| Choice {
            kept: least.map(|least| least.kept),
            ..choice(
                margin,
                *period,
                least.map(|least| SizedBudget {
                    budget: least.budget,
                    resolution: least.resolution,
                    evidence: Evidence::Band,
                }),
            )
        });
        let mut choices: Vec<Choice> = choices.collect();
        let best = best(&choices);
        mark_front(&mut choices);
        Ok(Self {
            choices,
            best,
            open: Vec::new(),
            infeasible: Vec::new(),
            margin,
            evidence: Evidence::Band,
            assumptions,
            cap_assumptions: Vec::new(),
        })
    }

    /// The choice, if a budget keeps all promises.
    pub fn choice(&self) -> Option<&Choice> {
        self.choices.get(self.best?)
    }

    /// Whether a lesser budget than that of `choice` may be enough, since the search was stopped.
    pub fn is_open(&self, choice: &Choice) -> bool {
        self.open.contains(&choice.period)
    }

    /// Whether `choice` is the choice.
    pub fn is_chosen(&self, choice: &Choice) -> bool {
        self.choice().is_some_and(|one| one.period == choice.period)
    }
}

/// The budget of a search at one period.
#[derive(Clone, Debug)]
struct PeriodBudget {
    /// The least budget that is shown to be enough, if any is.
    sized: Option<SizedBudget>,
    /// Whether the search came to its end.
    is_settled: bool,
    /// Why no method holds at the period.
    refusal: Option<String>,
}

/// The least budget that was found at a period.
#[derive(Clone, Copy, Debug)]
struct SizedBudget {
    /// The budget, rounded up to whole nanoseconds.
    budget: Duration,
    /// How much less is known to be too little.
    resolution: Duration,
    /// The evidence of the response times by which it was found.
    evidence: Evidence,
}

/// `points` periods from `low` to `high`, evenly spread by ratio, since what matters is the ratio to
/// the execution time; rounded to three digits, the ends excepted.
pub fn spread_periods(low: Duration, high: Duration, points: u32) -> Vec<Duration> {
    if low >= high || points < 2 {
        return vec![low];
    }
    let (from, to) = (low.as_secs_f64(), high.as_secs_f64());
    let between = (1..points - 1).map(|index| {
        let share = f64::from(index) / f64::from(points - 1);
        rounded(from * (to / from).powf(share)).clamp(low, high)
    });
    let mut periods: Vec<Duration> = [low].into_iter().chain(between).chain([high]).collect();
    periods.dedup();
    periods
}

/// To three digits, or whole nanoseconds.
fn rounded(seconds: f64) -> Duration {
    let step = 10_f64.powi(seconds.log10().floor() as i32 - 2).max(1e-9);
    Duration::from_secs_f64_nearest((seconds / step).round() * step)
}

/// Sizes the reservation.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a query that makes no sense, [`AnalysisError::Overloaded`] if the
/// work is too much for a CPU, and what [`PoissonQueue::solve`] refuses.
pub fn size(query: &SizingQuery) -> Result<Sizing, AnalysisError> {
    size_watched(query, &Unwatched)
}

/// The sizing of [`size`], whose progress `watch` hears. Where the watch stops it, the answer is the best so far: [`Sizing::open`] names
/// the periods at which a lesser budget may be enough, and of those without any budget yet there is no choice.
///
/// # Errors
/// As of [`size`].
pub fn size_watched(query: &SizingQuery, watch: &dyn SearchWatch) -> Result<Sizing, AnalysisError> {
    check(query)?;
    let (answers, mut whole) = match bisection::exact_kind(query) {
        Some(kind) => exactly(query, kind, watch)?,
        None => halved(query, watch)?,
    };
    whole
        .assumptions
        .extend(not_analysed(&query.periods, &answers)?);
    let by_period = query.periods.iter().zip(&answers);
    // Of a period that the search did not come to, all that is known is that the whole of it is enough.
    let is_shown = |(period, answer): &(&Duration, &PeriodBudget)| {
        let is_less = |sized: SizedBudget| sized.budget < **period;
        answer.refusal.is_none() && (answer.is_settled || answer.sized.is_some_and(is_less))
    };
    let mut choices: Vec<Choice> = by_period
        .clone()
        .filter(is_shown)
        .map(|(period, answer)| choice(query.margin, *period, answer.sized))
        .collect();
    let open = by_period.filter(|(_, answer)| !answer.is_settled);
    let best = best(&choices);
    mark_front(&mut choices);
    Ok(Sizing {
        margin: query.margin,
        best,
        choices,
        open: open.map(|(period, _)| *period).collect(),
        evidence: evidence(whole.evidence, &answers),
        infeasible: whole.infeasible,
        assumptions: whole.assumptions,
        cap_assumptions: Vec::new(),
    })
}

/// The answer of a whole CPU, before any budget is tried.
struct WholeCpu {
    infeasible: Vec<Infeasible>,
    evidence: Evidence,
    assumptions: Vec<String>,
}

impl WholeCpu {
    fn of(query: &SizingQuery, own_cpu: &QueueResponses) -> Result<Self, AnalysisError> {
        Ok(Self {
            infeasible: infeasible(query, own_cpu)?,
            evidence: own_cpu.evidence(),
            assumptions: own_cpu.assumptions.clone(),
        })
    }
}

/// A period at which no budget is enough.
const NO_BUDGET: PeriodBudget = PeriodBudget {
    sized: None,
    is_settled: true,
    refusal: None,
};

/// The least budgets by the exact method.
fn exactly(
    query: &SizingQuery,
    kind: BudgetUse,
    watch: &dyn SearchWatch,
) -> Result<(Vec<PeriodBudget>, WholeCpu), AnalysisError> {
    let own_cpu = on(query, ReservationServer::Dedicated)?;
    let whole = WholeCpu::of(query, &own_cpu)?;
    // Where even that is not shown, the whole of a period is not, either.
    let mut promises = query.promises.iter();
    let whole_suffices =
        promises.all(|promise| own_cpu.cdf(promise.latency).lower >= promise.probability);
    if !whole_suffices || !whole.infeasible.is_empty() {
        return Ok((vec![NO_BUDGET; query.periods.len()], whole));
    }
    let (settled, all) = (AtomicUsize::new(0), query.periods.len());
    let one = |period: &Duration| -> Result<PeriodBudget, AnalysisError> {
        let answer = root::least_budget(query, kind, *period, (&own_cpu, watch))?;
        if answer.is_settled {
            let settled = settled.fetch_add(1, Ordering::Relaxed) + 1;
            watch.hear(SearchStage::PeriodsSettled { settled, all });
        }
        Ok(answer)
    };
    let periods = query.periods.par_iter();
    let answers = periods.map(one).collect::<Result<_, _>>()?;
    Ok((answers, whole))
}

/// The least budgets by halving.
fn halved(
    query: &SizingQuery,
    watch: &dyn SearchWatch,
) -> Result<(Vec<PeriodBudget>, WholeCpu), AnalysisError> {
    let halving = Halving::new(query, watch)?;
    let is_kept = halving.is_kept_by_whole_cpu()?;
    let mut whole = match is_kept {
        true => WholeCpu {
            infeasible: Vec::new(),
            evidence: Evidence::Bound,
            assumptions: {
                let mut assumptions = query.queue.assumptions();
                assumptions.push("times are rounded outward to lattices".into());
                assumptions
            },
        },
        false => WholeCpu::of(query, &on(query, ReservationServer::Dedicated)?)?,
    };
    whole.assumptions.push(bisection::assumption(query));
    if !whole.infeasible.is_empty() {
        return Ok((vec![NO_BUDGET; query.periods.len()], whole));
    }
    Ok((halving.least_budgets(is_kept)?, whole))
}

/// The periods at which no method holds, in words; they have no choice.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] where there is no budget at any other, which would look like a proof that none is
/// enough.
fn not_analysed(
    periods: &[Duration],
    answers: &[PeriodBudget],
) -> Result<Option<String>, AnalysisError> {
    let refused = periods.iter().zip(answers);
    let refused = refused.filter_map(|(period, answer)| Some((period, answer.refusal.as_ref()?)));
    let (refused, reasons): (Vec<String>, Vec<&String>) = refused
        .map(|(period, reason)| (period.to_string(), reason))
        .unzip();
    let Some(reason) = reasons.first() else {
        return Ok(None);
    };
    let what = format!("at periods of {}: {reason}", refused.join(", "));
    if answers.iter().all(|answer| answer.sized.is_none()) {
        return Err(AnalysisError::NotAnalysed { reason: what });
    }
    Ok(Some(format!("not analysed {what}")))
}

/// The weakest evidence of what a sizing rests on: the budgets, or without any the CPU of its own that is not enough.
fn evidence(own_cpu: Evidence, answers: &[PeriodBudget]) -> Evidence {
    let budgets = answers.iter().filter_map(|answer| answer.sized);
    let mut evidences = budgets.map(|budget| budget.evidence);
    match evidences.next() {
        None => own_cpu,
        Some(first) if evidences.all(|next| next == first) => first,
        Some(_) => Evidence::Estimate,
    }
}

fn choice(margin: PercentagePoints, period: Duration, sized: Option<SizedBudget>) -> Choice {
    debug_assert!(
        sized.is_none_or(|sized| sized.budget <= period),
        "a budget is part of its period"
    );
    Choice {
        period,
        budget: sized.map(|sized| sized.budget),
        with_margin: sized.map(|sized| plus_margin(sized.budget, period, margin)),
        resolution: sized.map_or(Duration::ZERO, |sized| sized.resolution),
        on_front: false,
        kept: None,
    }
}

/// The budget with a margin of bandwidth, at most the period.
fn plus_margin(budget: Duration, period: Duration, margin: PercentagePoints) -> Duration {
    let added = (period.as_nanos() as f64 * margin.0 / 100.0).round();
    let sum = budget.as_nanos() as f64 + added;
    Duration::from_nanos(sum.max(1.0) as u64).min(period)
}

fn check(query: &SizingQuery) -> Result<(), AnalysisError> {
    let invalid = |what: &str| Err(AnalysisError::Invalid { what: what.into() });
    if query.promises.is_empty() {
        return invalid("nothing is promised; give at least one percentile and latency");
    }
    let sensible = |promise: &Promise| {
        promise.probability > 0.0 && promise.probability < 1.0 && !promise.latency.is_zero()
    };
    if !query.promises.iter().all(sensible) {
        return invalid(
            "a promise needs a percentile above 0 and below 100 and a latency above zero",
        );
    }
    if !query.kind.answers().analysed {
        return Err(AnalysisError::only_simulated());
    }
    check_periods(&query.periods)?;
    check_margin(query.margin)
}

fn check_periods(periods: &[Duration]) -> Result<(), AnalysisError> {
    if periods.is_empty() || periods.iter().any(|period| period.is_zero()) {
        return Err(AnalysisError::Invalid {
            what: "there is no period to look at, or one of zero; give at least one".into(),
        });
    }
    Ok(())
}

fn check_margin(margin: PercentagePoints) -> Result<(), AnalysisError> {
    if (0.0..=100.0).contains(&margin.0) {
        return Ok(());
    }
    Err(AnalysisError::Invalid {
        what: "a margin is a number of percentage points from 0 to 100".into(),
    })
}

fn on(query: &SizingQuery, server: ReservationServer) -> Result<QueueResponses, AnalysisError> {
    PoissonQueue {
        server,
        ..query.queue.clone()
    }
    .solve()
}

fn infeasible(
    query: &SizingQuery,
    own_cpu: &QueueResponses,
) -> Result<Vec<Infeasible>, AnalysisError> {
    let mut infeasible = Vec::new();
    for promise in &query.promises {
        let share = own_cpu.cdf(promise.latency);
        if share.upper < promise.probability {
            infeasible.push(Infeasible {
                promise: *promise,
                share_at_most: share.upper,
                latency: own_cpu.quantile(promise.probability)?,
            });
        }
    }
    Ok(infeasible)
}

/// Marks what nothing beats in both: less bandwidth, and a longer period, which costs less
/// overhead.
fn mark_front(choices: &mut [Choice]) {
    let points: Vec<Option<(f64, Duration)>> = choices
        .iter()
        .map(|choice| {
            choice
                .bandwidth()
                .map(|bandwidth| (bandwidth, choice.period))
        })
        .collect();
    for (choice, own) in choices.iter_mut().zip(&points) {
        let Some((bandwidth, period)) = own else {
            continue;
        };
        let beaten = points.iter().flatten().any(|(other, longer)| {
            (other < bandwidth && longer >= period) || (other <= bandwidth && longer > period)
        });
        choice.on_front = !beaten;
    }
}

fn best(choices: &[Choice]) -> Option<usize> {
    let candidates = choices
        .iter()
        .enumerate()
        .filter_map(|(index, choice)| Some((index, choice.bandwidth()?, choice.period)));
    let least = candidates.min_by(|a, b| a.1.total_cmp(&b.1).then(b.2.cmp(&a.2)));
    least.map(|(index, ..)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(period_ms: u64, budget_ms: Option<u64>) -> Choice {
        Choice {
            period: Duration::from_millis(period_ms),
            budget: budget_ms.map(Duration::from_millis),
            with_margin: None,
            resolution: Duration::from_nanos(1),
            on_front: false,
            kept: None,
        }
    }

    #[test]
    fn the_front_holds_what_nothing_beats_in_both() {
        let mut choices = [
            choice(10, Some(6)),
            choice(20, Some(13)),
            choice(40, Some(24)),
            choice(80, None),
            choice(100, Some(90)),
        ];
        mark_front(&mut choices);
        let marked: Vec<bool> = choices.iter().map(|choice| choice.on_front).collect();
        assert_eq!(marked, [false, false, true, false, true]);
        assert_eq!(best(&choices), Some(2));
    }
}
