//! Which reservation meets a promise: the least budget at each period, and the choice among them.
//!
//! At a fixed period the share of responses within a latency rises with the budget, so the least
//! budget is found by halving. Nothing of the kind holds for the period: a longer one at the same
//! bandwidth is often better, sometimes worse. So every period is looked at on its own.

use rayon::prelude::*;
use tailbound_distribution::Interval;
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use crate::AnalysisError;
use crate::response_time::{Kind, PoissonQueue, ResponseTimes};

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
    fn kind(self) -> Kind {
        match self {
            Self::Deferrable => Kind::Deferrable,
            Self::Periodic => Kind::Periodic,
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

/// Budgets are first tried in such parts of the mean execution time.
const COARSE: u64 = 4;
/// Then in as many as make about so many of a period, within these limits.
const PARTS: f64 = 250.0;
const FINE: (u64, u64) = (8, 64);
/// The best choice is refined to such a part.
const FINEST: u64 = 128;
/// Beyond so many steps of budget a lattice is not refined.
const MOST_STEPS: u64 = 4_000;
/// What a probability may be wrong by while searching, as a part of the share that is promised
/// nothing; the bounds count, so that a budget that is told is enough for sure.
const TOLERANCE: f64 = 0.005;
/// The same on the coarse lattice, which only says where to look.
const ROUGHLY: f64 = 0.05;

/// Sizes the reservation.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a query that makes no sense, [`AnalysisError::Overloaded`] if the
/// work is too much for a CPU, and what [`PoissonQueue::solve`] refuses.
pub fn size(query: &SizingQuery) -> Result<Sizing, AnalysisError> {
    check(query)?;
    let own_cpu = on(query, ReservationServer::Dedicated)?;
    let infeasible = infeasible(query, &own_cpu)?;
    let one = |period: &Duration| -> Result<Choice, AnalysisError> {
        let found = if infeasible.is_empty() {
            least_budget(query, *period)?
        } else {
            None
        };
        Ok(choice(query, *period, found))
    };
    let mut choices: Vec<Choice> = query
        .periods
        .par_iter()
        .map(one)
        .collect::<Result<_, _>>()?;
    let best = best(&choices);
    if let Some(found) = best.and_then(|index| choices.get_mut(index)) {
        let period = found.period;
        *found = choice(query, period, refined(query, period, found)?);
    }
    mark_front(&mut choices);
    Ok(Sizing {
        best,
        choices,
        infeasible,
    })
}

/// A budget in parts of the stride, and that it was found on this lattice.
#[derive(Clone, Copy, Debug)]
struct Found {
    /// The budget, rounded up to whole nanoseconds.
    budget: Duration,
    resolution: Duration,
}

fn choice(query: &SizingQuery, period: Duration, found: Option<Found>) -> Choice {
    let added = (period.as_nanos() as f64 * query.margin.0 / 100.0).round();
    let with_margin = |found: Found| {
        let sum = found.budget.as_nanos() as f64 + added;
        Duration::from_nanos(sum.max(1.0) as u64).min(period)
    };
    Choice {
        period,
        budget: found.map(|found| found.budget),
        with_margin: found.map(with_margin),
        resolution: found.map_or(Duration::ZERO, |found| found.resolution),
        on_front: false,
    }
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

/// A budget in steps, and the margin that it leaves.
type Tried = (u64, f64);

/// Budgets of one period, counted in parts of the stride of the execution times.
struct Lattice<'a> {
    query: &'a SizingQuery,
    period: Duration,
    /// Nanoseconds per stride.
    stride: Duration,
    /// Steps per stride.
    per_stride: u64,
}

impl<'a> Lattice<'a> {
    /// A lattice of which a mean execution time holds about `parts` steps.
    fn new(query: &'a SizingQuery, period: Duration, parts: u64) -> Self {
        let stride = query.queue.stride();
        let mean_ns = query.queue.mean_execution_time().as_nanos() as f64;
        let per_stride = (parts as f64 * stride.as_nanos() as f64 / mean_ns).round();
        Self {
            query,
            period,
            stride,
            per_stride: (per_stride as u64).max(1),
        }
    }

    /// Steps in a length, rounded down.
    fn steps_in(&self, nanoseconds: f64) -> u64 {
        (nanoseconds * self.per_stride as f64 / self.stride.as_nanos() as f64) as u64
    }

    fn step_ns(&self) -> f64 {
        self.stride.as_nanos() as f64 / self.per_stride as f64
    }

    fn resolution(&self) -> Duration {
        Duration::from_nanos(self.stride.as_nanos().div_ceil(self.per_stride))
    }

    /// The least budget on this lattice, from about where it lies and the slope of the margin
    /// there, both by nanoseconds.
    fn search(&self, (guess_ns, slope): (f64, f64)) -> Result<Option<Found>, AnalysisError> {
        let whole = self.steps_in(self.period.as_nanos() as f64);
        let floor = self.steps_in(self.query.queue.utilisation() * self.period.as_nanos() as f64);
        if whole <= floor {
            return Ok(None);
        }
        let guess = self.steps_in(guess_ns) + 1;
        let found = self.near(guess, slope * self.step_ns(), (floor, whole))?;
        Ok(found.map(|steps| Found {
            budget: self.budget(steps),
            resolution: self.resolution(),
        }))
    }

    fn budget(&self, steps: u64) -> Duration {
        let product = u128::from(self.stride.as_nanos()) * u128::from(steps);
        let budget = product.div_ceil(u128::from(self.per_stride));
        Duration::from_nanos(u64::try_from(budget).unwrap_or(u64::MAX)).min(self.period)
    }

    /// By how much so many steps keep the promise that they keep least, for sure: below zero if they
    /// do not keep it.
    fn margin(&self, steps: u64, tolerance: f64) -> Result<f64, AnalysisError> {
        let kind = self.query.kind.kind();
        let steps = (steps, self.per_stride);
        let solved = self
            .query
            .queue
            .solve_with_steps(kind, steps, self.period, tolerance);
        let found = match solved {
            Ok(found) => found,
            // So near to saturation that no answer comes in time: not for sure.
            Err(AnalysisError::Overloaded { .. } | AnalysisError::NotAnalysed { .. }) => {
                return Ok(-1.0);
            }
            Err(error) => return Err(error),
        };
        let promises = self.query.promises.iter();
        let margin = |promise: &Promise| found.cdf(promise.latency).lower - promise.probability;
        Ok(promises.map(margin).fold(f64::INFINITY, f64::min))
    }

    /// The fewest steps that are enough, between `low`, which is not, and `high`, which is; each with
    /// its margin. Guesses by the chord, and halves now and then where that creeps.
    fn fewest(
        &self,
        mut low: Tried,
        mut high: Tried,
        tolerance: f64,
    ) -> Result<(Tried, Tried), AnalysisError> {
        let mut turn = 0;
        while high.0 - low.0 > 1 {
            turn += 1;
            let width = high.0 - low.0;
            let chord = width as f64 * low.1 / (low.1 - high.1);
            let offset = if turn % 3 == 0 {
                width / 2
            } else {
                chord as u64
            };
            let next = low.0 + offset.clamp(1, width - 1);
            let margin = self.margin(next, tolerance)?;
            if margin < 0.0 {
                low = (next, margin);
            } else {
                high = (next, margin);
            }
        }
        Ok((low, high))
    }

    /// The fewest steps that are enough, from a guess and the slope of the margin per step;
    /// `None` if even the whole period is not shown to be.
    fn near(
        &self,
        guess: u64,
        slope: f64,
        (floor, whole): (u64, u64),
    ) -> Result<Option<u64>, AnalysisError> {
        let tolerance = TOLERANCE * self.query.promised_nothing();
        let mut at = guess.clamp(floor + 1, whole);
        let (mut low, mut high) = ((floor, -1.0), None);
        loop {
            let margin = self.margin(at, tolerance)?;
            let reach = (margin.abs() / slope.max(1e-12)).ceil().clamp(1.0, 1e9) as u64;
            if margin < 0.0 {
                low = (at, margin);
                if at == whole {
                    return Ok(None);
                }
                at = (at + reach).min(whole);
            } else {
                high = Some((at, margin));
                at = at.saturating_sub(reach).max(floor + 1);
            }
            match high {
                Some(high) if low.0 >= at || high.0 <= at => {
                    return Ok(Some(self.fewest(low, high, tolerance)?.1.0));
                }
                _ => {}
            }
        }
    }
}

/// The least budget at a period: roughly on a coarse lattice, then on a fine one.
fn least_budget(query: &SizingQuery, period: Duration) -> Result<Option<Found>, AnalysisError> {
    let load_ns = query.queue.utilisation() * period.as_nanos() as f64;
    let coarse = Lattice::new(query, period, COARSE);
    let whole = coarse.steps_in(period.as_nanos() as f64);
    let floor = coarse.steps_in(load_ns);
    // Where it lies, and how fast the margin grows there.
    let mut guess = (period.as_nanos() as f64, 1.0 / period.as_nanos() as f64);
    if whole > floor {
        let roughly = ROUGHLY * query.promised_nothing();
        let most = coarse.margin(whole, roughly)?;
        if most >= 0.0 {
            let (low, high) = coarse.fewest((floor, -1.0), (whole, most), roughly)?;
            let share = -low.1 / (high.1 - low.1);
            let slope = (high.1 - low.1) / coarse.step_ns();
            guess = ((low.0 as f64 + share) * coarse.step_ns(), slope);
        }
    }
    let mean = query.queue.mean_execution_time().as_secs_f64();
    let parts = (PARTS * mean / period.as_secs_f64()).round() as u64;
    let fine = Lattice::new(query, period, parts.clamp(FINE.0, FINE.1));
    let found = fine.search(guess)?;
    // A CPU of its own keeps the promises, so the whole period does.
    Ok(found.or(Some(Found {
        budget: period,
        resolution: fine.resolution(),
    })))
}

/// The budget of `coarse` on a finer lattice, as long as that is tractable.
fn refined(
    query: &SizingQuery,
    period: Duration,
    coarse: &Choice,
) -> Result<Option<Found>, AnalysisError> {
    let Some(budget) = coarse.budget else {
        return Ok(None);
    };
    let before = Found {
        budget,
        resolution: coarse.resolution,
    };
    let lattice = Lattice::new(query, period, FINEST);
    let middle = budget.as_nanos() as f64 - 0.5 * coarse.resolution.as_nanos() as f64;
    if lattice.steps_in(budget.as_nanos() as f64) > MOST_STEPS {
        return Ok(Some(before));
    }
    let slope = 0.5 / period.as_nanos() as f64;
    let found = lattice.search((middle, slope))?;
    Ok(found
        .filter(|found| found.budget <= budget)
        .or(Some(before)))
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
