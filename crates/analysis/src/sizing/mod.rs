//! Which reservation meets a promise: the least budget at each period, and the choice among them.
//!
//! At a fixed period the share of responses within a latency rises with the budget, so the least
//! budget is found by halving. Nothing of the kind holds for the period: a longer one at the same
//! bandwidth is often better, sometimes worse. So every period is looked at on its own.

use tailbound_distribution::Interval;
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use crate::AnalysisError;
use crate::response_time::{PoissonQueue, ResponseTimes};

/// A promise: the share `probability` of all responses takes at most `latency`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The share, above 0 and below 1.
    pub probability: f64,
    /// The latency.
    pub latency: Duration,
}

/// Which kind of server is to be sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerKind {
    /// Keeps its budget within the period.
    Deferrable,
    /// Loses what nothing needs.
    Periodic,
}

impl ServerKind {
    /// A server of this kind.
    pub fn server(self, budget: Duration, period: Duration) -> ReservationServer {
        match self {
            Self::Deferrable => ReservationServer::Deferrable { budget, period },
            Self::Periodic => ReservationServer::Periodic { budget, period },
        }
    }
}

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
    /// One per period, in the order asked.
    pub choices: Vec<Choice>,
    /// The choice with the least bandwidth, of several the one with the longest period, as an index
    /// of `choices`.
    pub best: Option<usize>,
    /// Promises that not even a CPU of its own keeps: the proof that there is no answer.
    pub infeasible: Vec<Infeasible>,
}

/// A budget is found to this part of the period.
const RESOLUTION_PARTS: u64 = 1_000;

/// Sizes the reservation.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a query that makes no sense, [`AnalysisError::Overloaded`] if the
/// work is too much for a CPU, and what [`PoissonQueue::solve`] refuses.
pub fn size(query: &SizingQuery) -> Result<Sizing, AnalysisError> {
    check(query)?;
    let own_cpu = on(query, ReservationServer::Dedicated)?;
    let infeasible = infeasible(query, &own_cpu)?;
    let mut choices = Vec::with_capacity(query.periods.len());
    for period in &query.periods {
        let budget = if infeasible.is_empty() {
            least_budget(query, *period)?
        } else {
            None
        };
        let added = (period.as_nanos() as f64 * query.margin.0 / 100.0).round();
        let with_margin = budget.map(|budget| {
            let sum = budget.as_nanos() as f64 + added;
            Duration::from_nanos(sum.max(1.0) as u64).min(*period)
        });
        choices.push(Choice {
            period: *period,
            budget,
            with_margin,
            resolution: resolution(*period),
            on_front: false,
        });
    }
    mark_front(&mut choices);
    Ok(Sizing {
        best: best(&choices),
        choices,
        infeasible,
    })
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
    if query.periods.is_empty() || query.periods.iter().any(|period| period.is_zero()) {
        return invalid("there is no period to look at, or one of zero; give at least one");
    }
    if !query.margin.0.is_finite() || query.margin.0 < 0.0 || query.margin.0 > 100.0 {
        return invalid("a margin is a number of percentage points from 0 to 100");
    }
    Ok(())
}

fn on(query: &SizingQuery, server: ReservationServer) -> Result<ResponseTimes, AnalysisError> {
    PoissonQueue {
        server,
        ..query.queue.clone()
    }
    .solve()
}

fn infeasible(
    query: &SizingQuery,
    own_cpu: &ResponseTimes,
) -> Result<Vec<Infeasible>, AnalysisError> {
    let mut found = Vec::new();
    for promise in &query.promises {
        let share = own_cpu.cdf(promise.latency);
        if share.upper < promise.probability {
            found.push(Infeasible {
                promise: *promise,
                share_at_most: share.upper,
                latency: own_cpu.quantile(promise.probability)?,
            });
        }
    }
    Ok(found)
}

/// Whether a budget keeps all promises for sure.
fn keeps(query: &SizingQuery, budget: Duration, period: Duration) -> Result<bool, AnalysisError> {
    let found = match on(query, query.kind.server(budget, period)) {
        Ok(found) => found,
        // So near to saturation that no answer comes in time: not for sure.
        Err(AnalysisError::Overloaded { .. } | AnalysisError::NotAnalysed { .. }) => {
            return Ok(false);
        }
        Err(error) => return Err(error),
    };
    let kept = |promise: &Promise| found.cdf(promise.latency).lower >= promise.probability;
    Ok(query.promises.iter().all(kept))
}

fn resolution(period: Duration) -> Duration {
    Duration::from_nanos((period.as_nanos() / RESOLUTION_PARTS).max(1))
}

/// The least budget at a period, on a lattice of the period's thousandths.
fn least_budget(query: &SizingQuery, period: Duration) -> Result<Option<Duration>, AnalysisError> {
    let step = resolution(period);
    let whole = period.as_nanos().div_ceil(step.as_nanos());
    let budget = |steps: u64| (step * steps).min(period);
    if !keeps(query, period, period)? {
        return Ok(None);
    }
    // Below the load nothing is stable.
    let load = query.queue.utilisation() * period.as_nanos() as f64;
    let mut low = (load / step.as_nanos() as f64).floor() as u64;
    let mut high = whole;
    while high - low > 1 {
        let middle = low + (high - low) / 2;
        if keeps(query, budget(middle), period)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(Some(budget(high)))
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
    let found = choices
        .iter()
        .enumerate()
        .filter_map(|(index, choice)| Some((index, choice.bandwidth()?, choice.period)));
    let least = found.min_by(|a, b| a.1.total_cmp(&b.1).then(b.2.cmp(&a.2)));
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
