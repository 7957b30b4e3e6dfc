//! The least budget by halving, for servers that follow the arrivals, and for execution times of many values.
//!
//! On deferrable and periodic servers each guess is judged on a coarse lattice first. The two ends of its answer are
//! bounds. A pessimistic end that keeps the promises proves a budget to be enough; an optimistic end that misses one
//! proves the budget to be too little. Budgets that neither end decides are judged on a finer lattice.

use std::sync::atomic::{AtomicUsize, Ordering};

use num_integer::gcd;
use rayon::prelude::*;
use tailbound_distribution::Evidence;
use tailbound_model::{ReservationServer, ServerKind};
use tailbound_time::Duration;

use super::{PeriodBudget, SizedBudget, SizingQuery};
use crate::response_time::{BudgetUse, LatticeRung, PRECISE, PoissonQueue, PromiseJudge};
use crate::{AnalysisError, Outlook, SearchStage, SearchWatch};

/// More different execution times than this are halved for.
const MOST_VALUES: usize = 16;
/// The same for the longest, in common divisors of all.
const MOST_STRIDES: u64 = 128;
/// Lattices hold no more different execution times than this exactly,
const FEW_VALUES: usize = 4;
/// and none on which a period is longer than so many common divisors.
const FINEST_COMMON: u64 = 1_600;
/// A period is looked at in about so many parts.
const PARTS: u64 = 64;

/// The kind of server that the exact lattice search is for; `None` where halving has to do.
pub(super) fn exact_kind(query: &SizingQuery) -> Option<BudgetUse> {
    let kind = match query.kind {
        ServerKind::Deferrable => BudgetUse::Deferrable,
        ServerKind::Periodic => BudgetUse::Periodic,
        _ => return None,
    };
    let queue = &query.queue;
    let times = queue.execution_times.iter().map(|(time, _)| *time);
    let longest = times.max().unwrap_or(Duration::ZERO).as_nanos();
    let few = queue.execution_times.len() <= MOST_VALUES;
    (few && longest / queue.stride().as_nanos().max(1) <= MOST_STRIDES).then_some(kind)
}

/// What halving takes for granted.
pub(super) fn assumption(query: &SizingQuery) -> String {
    format!(
        "budgets of a {} server are looked at in about {PARTS} parts of a period, by halving: what \
         is told was shown to be enough, and a budget less by the resolution was not; that more \
         budget is never worse is taken for granted between them",
        query.kind
    )
}

/// Of so many neighbouring periods one is sized first.
const APART: usize = 4;
/// The coarseness of the lattices on which budgets are tried, in turn: a budget that a coarse one decides needs no finer
/// one.
const COARSENESS: [usize; 3] = [8, 3, 1];

/// The budgets of all periods by halving.
pub(super) struct Halving<'a> {
    query: &'a SizingQuery,
    judge: PromiseJudge<'a>,
    /// Whether the judge answers for the server; other solvers know one precision.
    on_lattices: bool,
    watch: &'a dyn SearchWatch,
}

/// The halving at one period.
struct PeriodHalving {
    period: Duration,
    steps: BudgetSteps,
    /// The most steps that are not shown to be enough.
    too_little: u64,
    /// The whole period in steps.
    most: u64,
    /// The least steps that are shown to be enough, with the evidence.
    enough: Option<(u64, Evidence)>,
    /// The steps to try next, and how far from there those after them.
    guess: Option<(u64, u64)>,
    /// Why no method holds even for the whole period.
    refusal: Option<String>,
}

impl<'a> Halving<'a> {
    /// The halving for the budgets of a query.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for execution times that are no distribution.
    pub(super) fn new(
        query: &'a SizingQuery,
        watch: &'a dyn SearchWatch,
    ) -> Result<Self, AnalysisError> {
        Ok(Self {
            query,
            judge: PromiseJudge::new(&query.queue, &query.promises)?,
            on_lattices: matches!(query.kind, ServerKind::Deferrable | ServerKind::Periodic),
            watch,
        })
    }

    /// Whether a coarse lattice shows that a CPU of its own keeps every promise.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub(super) fn is_kept_by_whole_cpu(&self) -> Result<bool, AnalysisError> {
        let rung = LatticeRung {
            coarseness: COARSENESS[0],
            parts: None,
        };
        let outlook = self.judge.outlook(ReservationServer::Dedicated, rung)?;
        Ok(outlook.outlook == Outlook::Kept)
    }

    /// The least of the budgets in equal steps at each period, if any of them is shown to be enough. Some periods go
    /// first, and their neighbours begin at the same share of a CPU.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`], where a load near the bandwidth counts as not enough.
    pub(super) fn least_budgets(
        &self,
        is_kept_by_whole_cpu: bool,
    ) -> Result<Vec<PeriodBudget>, AnalysisError> {
        let is_enough = self.on_lattices && is_kept_by_whole_cpu;
        let periods = self.query.periods.iter();
        let mut searches: Vec<PeriodHalving> = periods
            .map(|period| PeriodHalving::of(self, *period, is_enough))
            .collect();
        let (all, settled) = (searches.len(), AtomicUsize::new(0));
        let first = searches.par_iter_mut().step_by(APART);
        first.try_for_each(|search| search.settle(self, (&settled, all)))?;
        let shares: Vec<Option<f64>> = searches.iter().map(PeriodHalving::share).collect();
        searches
            .par_iter_mut()
            .enumerate()
            .try_for_each(|(index, search)| {
                let near = (index + APART / 2) / APART * APART;
                let share = shares.get(near).or(shares.get(index / APART * APART));
                search.guess_share(share.copied().flatten());
                search.settle(self, (&settled, all))
            })?;
        Ok(searches.iter().map(PeriodHalving::answer).collect())
    }

    /// The outlook of a budget, and its evidence. A budget that the finest lattice leaves open is [`Outlook::Missed`]
    /// here: nothing shows it to be enough.
    fn outlook(
        &self,
        (budget, period): (Duration, Duration),
        rung: LatticeRung,
    ) -> Result<(Outlook, Evidence), AnalysisError> {
        let server = self.query.kind.with(budget, period);
        if self.on_lattices {
            let shown = self.judge.outlook(server, rung)?;
            let outlook = match shown.outlook {
                Outlook::Undecided if shown.is_finest => Outlook::Missed,
                outlook => outlook,
            };
            return Ok((outlook, Evidence::Bound));
        }
        let queue = PoissonQueue {
            server,
            ..self.query.queue.clone()
        };
        let solved = queue.solve_watched(PRECISE, self.watch);
        if self.watch.is_stopped() {
            return Ok((Outlook::Undecided, Evidence::Estimate));
        }
        match solved {
            Ok(responses) => {
                let mut promises = self.query.promises.iter();
                let kept = promises
                    .all(|promise| responses.cdf(promise.latency).lower >= promise.probability);
                let outlook = if kept { Outlook::Kept } else { Outlook::Missed };
                Ok((outlook, responses.evidence()))
            }
            // So near to saturation that no answer comes in time: not for sure.
            Err(AnalysisError::Overloaded { .. }) => Ok((Outlook::Missed, Evidence::Estimate)),
            Err(AnalysisError::NotAnalysed { .. }) if budget < period => {
                Ok((Outlook::Missed, Evidence::Estimate))
            }
            Err(error) => Err(error),
        }
    }
}

impl PeriodHalving {
    /// The halving at a period between the load and all of it, which is enough if `whole_is_enough`.
    fn of(halving: &Halving<'_>, period: Duration, whole_is_enough: bool) -> Self {
        let query = halving.query;
        let steps = BudgetSteps::of(query, period, halving.on_lattices);
        let most = steps.most(period);
        let load_ns = query.queue.utilisation() * period.as_nanos() as f64;
        let too_little = load_ns / (period.as_nanos() as f64 / most as f64);
        Self {
            period,
            steps,
            too_little: (too_little as u64).min(most),
            most,
            enough: whole_is_enough.then_some((most, Evidence::Bound)),
            guess: None,
            refusal: None,
        }
    }

    /// The share of a CPU that is found to be the least, once it is.
    fn share(&self) -> Option<f64> {
        let (enough, _) = self.enough.filter(|_| self.is_settled())?;
        Some(enough as f64 / self.most as f64)
    }

    /// Begins near a share of a CPU.
    fn guess_share(&mut self, share: Option<f64>) {
        self.guess = share.map(|share| ((share * self.most as f64).round() as u64, 1));
    }

    fn budget(&self, steps: u64) -> Duration {
        self.steps.budget(steps, self.period)
    }

    /// Whether all is known: the least steps, or that none are enough, or that no method says so.
    fn is_settled(&self) -> bool {
        if self.refusal.is_some() {
            return true;
        }
        match self.enough {
            Some((enough, _)) => enough - self.too_little <= 1,
            None => self.too_little >= self.most,
        }
    }

    /// Narrows the budget down on ever finer lattices, and tells the watch when it is found.
    fn settle(
        &mut self,
        halving: &Halving<'_>,
        (settled, all): (&AtomicUsize, usize),
    ) -> Result<(), AnalysisError> {
        if self.is_settled() {
            return Ok(());
        }
        let rungs: &[usize] = match (halving.on_lattices, self.guess) {
            (true, None) => &COARSENESS,
            // Near the least budget the coarsest lattices decide nothing.
            (true, Some(_)) => &COARSENESS[1..],
            (false, _) => &COARSENESS[COARSENESS.len() - 1..],
        };
        for &coarseness in rungs {
            self.narrow(halving, coarseness)?;
        }
        if self.is_settled() {
            let settled = settled.fetch_add(1, Ordering::Relaxed) + 1;
            halving
                .watch
                .hear(SearchStage::PeriodsSettled { settled, all });
        }
        Ok(())
    }

    /// The steps to try: those of the guess, if they are open, or half of what is.
    fn next(&mut self) -> u64 {
        let most = self.enough.map_or(self.most + 1, |(enough, _)| enough);
        let open = |steps: &(u64, u64)| self.too_little < steps.0 && steps.0 < most;
        self.guess = self.guess.filter(open);
        match (self.guess, self.enough) {
            (Some((steps, _)), _) => steps,
            (None, Some((enough, _))) => u64::midpoint(self.too_little, enough),
            (None, None) => self.most,
        }
    }

    /// Tries budgets until all is settled, the lattices decide no more, or the search is stopped. Next to a guess ever
    /// longer steps lead to one that is enough and one that is not.
    fn narrow(&mut self, halving: &Halving<'_>, coarseness: usize) -> Result<(), AnalysisError> {
        while !self.is_settled() && !halving.watch.is_stopped() {
            let steps = self.next();
            let tried = (self.budget(steps), self.period);
            let after = |far: u64| far.saturating_mul(2);
            let shown = match halving.outlook(tried, self.steps.rung(coarseness)) {
                Err(AnalysisError::NotAnalysed { reason }) => {
                    self.refusal = Some(reason);
                    return Ok(());
                }
                shown => shown?,
            };
            match shown {
                (Outlook::Kept, evidence) => {
                    self.enough = Some((steps, evidence));
                    self.guess = self
                        .guess
                        .map(|(_, far)| (steps.saturating_sub(far), after(far)));
                }
                (Outlook::Missed, _) => {
                    self.too_little = steps;
                    self.guess = self.guess.map(|(_, far)| (steps + far, after(far)));
                }
                (Outlook::Undecided | Outlook::NotPredicted, _) => return Ok(()),
            }
        }
        Ok(())
    }

    fn answer(&self) -> PeriodBudget {
        let sized = self.enough.map(|(enough, evidence)| SizedBudget {
            budget: self.budget(enough),
            resolution: self
                .budget(enough)
                .saturating_sub(self.budget(self.too_little)),
            evidence,
        });
        PeriodBudget {
            sized,
            is_settled: self.is_settled(),
            refusal: self.refusal.clone(),
        }
    }
}

/// The budgets that are tried at a period.
#[derive(Clone, Copy, Debug)]
enum BudgetSteps {
    /// The period in so many parts, rounded up to nanoseconds.
    Parts(u64),
    /// Multiples of so many nanoseconds, such that budgets and execution times have large common divisors: a whole part
    /// or a multiple of the stride of the execution times.
    Nanoseconds(u64),
}

impl BudgetSteps {
    /// The steps, each about a 64th of the period: parts of it where a lattice cannot hold the execution times exactly.
    fn of(query: &SizingQuery, period: Duration, on_lattices: bool) -> Self {
        let (stride_ns, period_ns) = (query.queue.stride().as_nanos().max(1), period.as_nanos());
        let is_fine = query.queue.execution_times.len() > FEW_VALUES
            || period_ns / gcd(stride_ns, period_ns).max(1) > FINEST_COMMON;
        match on_lattices && is_fine {
            true => Self::Parts(PARTS),
            false => Self::Nanoseconds(step_ns(stride_ns, period_ns)),
        }
    }

    /// The steps of a whole period.
    fn most(self, period: Duration) -> u64 {
        match self {
            Self::Parts(parts) => parts,
            Self::Nanoseconds(step_ns) => period.as_nanos().div_ceil(step_ns),
        }
    }

    fn budget(self, steps: u64, period: Duration) -> Duration {
        let budget = match self {
            Self::Parts(parts) => period.scaled_up(steps, parts),
            Self::Nanoseconds(step_ns) => Duration::from_nanos(steps.saturating_mul(step_ns)),
        };
        budget.min(period)
    }

    /// The lattice for such budgets.
    fn rung(self, coarseness: usize) -> LatticeRung {
        LatticeRung {
            coarseness,
            parts: match self {
                Self::Parts(parts) => usize::try_from(parts).ok(),
                Self::Nanoseconds(_) => None,
            },
        }
    }
}

/// About a 64th of the period, such that budgets and execution times have large common divisors: a
/// whole part or a multiple of the stride.
fn step_ns(stride_ns: u64, period_ns: u64) -> u64 {
    let aimed = (period_ns / PARTS).max(1);
    if stride_ns <= aimed {
        return aimed.div_ceil(stride_ns) * stride_ns;
    }
    let least = stride_ns.div_ceil(aimed);
    let part = (least..=least.saturating_mul(2)).find(|part| stride_ns.is_multiple_of(*part));
    part.map_or(aimed, |part| stride_ns / part)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::super::size;
    use super::*;
    use crate::search_watch::StopAfter;
    use crate::{Promise, SharpPoints, Unwatched};
    use tailbound_model::PercentagePoints;
    use tailbound_time::Rate;

    fn query(kind: ServerKind, execution_times: Vec<(Duration, f64)>) -> SizingQuery {
        SizingQuery {
            queue: PoissonQueue {
                rate: Rate::per_second(100.0).unwrap(),
                execution_times,
                batches: vec![(1, 1.0)],
                server: ReservationServer::Dedicated,
            },
            promises: vec![Promise {
                probability: 0.95,
                latency: Duration::from_millis(50),
            }],
            kind,
            periods: vec![Duration::from_millis(10)],
            margin: PercentagePoints(5.0),
        }
    }

    #[test]
    fn steps_divide_or_hold_the_stride() {
        assert_eq!(step_ns(2_000_000, 10_000_000), 2_000_000 / 16);
        assert_eq!(step_ns(1_000, 10_000_000) % 1_000, 0);
        assert_eq!(step_ns(7, 10), 1);
    }

    #[test]
    fn what_is_told_is_enough_and_a_step_less_is_not() {
        for kind in [ServerKind::Polling, ServerKind::ConstantBandwidth] {
            let query = query(kind, vec![(Duration::from_millis(2), 1.0)]);
            let sizing = size(&query).unwrap();
            let choice = &sizing.choices[sizing.best.unwrap()];
            let budget = choice.budget.unwrap();
            let halving = Halving::new(&query, &Unwatched).unwrap();
            let rung = LatticeRung {
                coarseness: 1,
                parts: None,
            };
            let outlook = |budget| halving.outlook((budget, choice.period), rung).unwrap();
            assert_eq!(outlook(budget), (Outlook::Kept, sizing.evidence));
            let less = budget - choice.resolution;
            assert_eq!(outlook(less).0, Outlook::Missed);
        }
    }

    #[test]
    fn batches_on_servers_that_follow_the_arrivals_get_what_predictions_say_is_enough() {
        for kind in [ServerKind::Polling, ServerKind::ConstantBandwidth] {
            let mut query = query(kind, vec![(Duration::from_millis(1), 1.0)]);
            let single = size(&query).unwrap().choices[0].budget.unwrap();
            query.queue.batches = vec![(1, 0.5), (4, 0.5)];
            query.queue.rate = Rate::per_second(40.0).unwrap();
            let sizing = size(&query).unwrap();
            let choice = &sizing.choices[0];
            let budget = choice.budget.unwrap();
            assert!(
                budget > single,
                "batches wait for themselves: {budget} {single}"
            );
            let share = |budget| {
                let queue = PoissonQueue {
                    server: kind.with(budget, choice.period),
                    ..query.queue.clone()
                };
                let responses = queue.predict("queue", &SharpPoints::default()).unwrap();
                responses.overall.cdf(query.promises[0].latency).0
            };
            let promised = query.promises[0].probability;
            assert!(share(budget) >= promised, "{kind} {choice:?}");
            assert!(
                share(budget - choice.resolution) < promised,
                "{kind} {choice:?}"
            );
        }
    }

    /// Jobs of so many budgets have no analysis on a polling server, which is no proof that no budget is enough.
    #[test]
    fn periods_without_a_method_are_no_periods_without_a_budget() {
        let value = |index: u64| Duration::from_nanos(2_000_003 + index * 9_973_001);
        let samples: Vec<_> = (0..40).map(|index| (value(index), 0.025)).collect();
        let mut query = query(ServerKind::Polling, samples);
        query.queue.rate = Rate::per_second(1.0).unwrap();
        query.promises[0].latency = Duration::from_secs(3);
        query.periods = vec![Duration::from_micros(1)];
        let refused = size(&query).unwrap_err();
        assert!(
            matches!(&refused, AnalysisError::NotAnalysed { reason } if reason.contains("periods of 1us")),
            "{refused}"
        );
        query.periods.push(Duration::from_secs(1));
        let sizing = size(&query).unwrap();
        assert_eq!(sizing.choices.len(), 1);
        assert!(sizing.choices[0].budget.is_some() && sizing.open.is_empty());
        let named = |one: &String| one.starts_with("not analysed at periods of 1us");
        assert!(sizing.assumptions.iter().any(named));
    }

    #[test]
    fn samples_in_nanoseconds_are_sized() {
        let value = |index: u64| Duration::from_nanos(2_000_003 + index * 9_973);
        let samples: Vec<_> = (0..40).map(|index| (value(index), 0.025)).collect();
        let query = query(ServerKind::Deferrable, samples);
        assert_eq!(exact_kind(&query), None);
        let sizing = size(&query).unwrap();
        let choice = &sizing.choices[sizing.best.unwrap()];
        let queue = PoissonQueue {
            server: query.kind.with(choice.budget.unwrap(), choice.period),
            ..query.queue.clone()
        };
        let share = queue.on_a_lattice().unwrap().cdf(query.promises[0].latency);
        assert!(share.lower >= query.promises[0].probability, "{share:?}");
        assert_eq!(sizing.evidence, Evidence::Bound);
    }

    /// A search of whole predictions, each on the finest lattice, ends at the same budget: the one that is told is
    /// not refuted by the prediction, a step less is not kept by it, and a step more is.
    #[test]
    fn coarse_lattices_and_guesses_lead_to_the_budgets_of_whole_predictions() {
        let value = |index: u64| Duration::from_nanos(1_000_003 + index * 99_973);
        let samples: Vec<_> = (0..40).map(|index| (value(index), 0.025)).collect();
        let periods = [1_600, 1_760, 1_920, 2_080, 2_240, 2_400].map(Duration::from_micros);
        for (kind, checked) in [(ServerKind::Deferrable, 2), (ServerKind::Periodic, 3)] {
            let mut query = query(kind, samples.clone());
            query.periods = periods.to_vec();
            query.promises[0].latency = Duration::from_millis(12);
            let sized = size(&query).unwrap();
            let choice = &sized.choices[checked];
            let (budget, step) = (choice.budget.unwrap(), choice.resolution);
            let shares = |budget: Duration| {
                let queue = PoissonQueue {
                    server: kind.with(budget, choice.period),
                    ..query.queue.clone()
                };
                queue.on_a_lattice().unwrap().cdf(query.promises[0].latency)
            };
            let finest = LatticeRung {
                coarseness: 1,
                parts: Some(PARTS as usize),
            };
            let halving = Halving::new(&query, &Unwatched).unwrap();
            let outlook = |budget| {
                let outlook = halving.outlook((budget, choice.period), finest);
                outlook.unwrap().0
            };
            assert_eq!(outlook(budget), Outlook::Kept, "{kind} {choice:?}");
            assert_eq!(outlook(budget - step), Outlook::Missed, "{kind} {choice:?}");
            let promised = query.promises[0].probability;
            assert!(shares(budget).upper >= promised, "{kind} {choice:?}");
            assert!(shares(budget - step).lower < promised, "{kind} {choice:?}");
            assert!(shares(budget + step).lower >= promised, "{kind} {choice:?}");
        }
    }

    #[test]
    fn a_stopped_search_tells_budgets_that_are_enough_and_where_less_may_do() {
        let value = |index: u64| Duration::from_nanos(2_000_003 + index * 9_973);
        let samples: Vec<_> = (0..40).map(|index| (value(index), 0.025)).collect();
        let constant = vec![(Duration::from_millis(2), 1.0)];
        let early = vec![0, 2, 5];
        for (kind, times, stops) in [
            (ServerKind::Deferrable, samples, early.clone()),
            (ServerKind::Deferrable, constant.clone(), early),
            // Within its solvers, and between them.
            (
                ServerKind::ConstantBandwidth,
                constant,
                vec![5, 100, 200, 400],
            ),
        ] {
            let mut query = query(kind, times);
            query.periods = [3, 4, 5].map(Duration::from_millis).to_vec();
            let whole = size(&query).unwrap();
            assert!(whole.open.is_empty());
            for asked in stops {
                let watch = StopAfter::asked(asked);
                let stopped = super::super::size_watched(&query, &watch).unwrap();
                assert!(!stopped.open.is_empty() || asked > 5, "{asked}");
                for early in &stopped.choices {
                    let late = whole
                        .choices
                        .iter()
                        .find(|late| late.period == early.period);
                    let late = late.unwrap();
                    assert!(early.budget >= late.budget, "{asked}: {early:?} {late:?}");
                    let is_open = stopped.is_open(early);
                    assert!(is_open || early.budget == late.budget, "{early:?} {late:?}");
                    let less = early.budget.unwrap() - early.resolution;
                    assert!(less < late.budget.unwrap(), "{early:?} {late:?}");
                }
            }
        }
    }
}
