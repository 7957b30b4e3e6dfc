//! The outlook of promises on lattices: shares of responses within single times, on lattices no finer than the outlook
//! needs.

use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use super::boundary::{LatticeQueue, Passages};
use super::equilibrium;
use super::response::{self, LatticeResponses};
use super::share::{ShareTerms, work_within};
use super::{BracketSide, GUARD, JobStream, Lattice, LatticeLaws, LatticePlan, MOST_PAIRS};
use crate::{AnalysisError, Outlook, Promise, Unwatched};

/// The lattice on which promises are judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatticeRung {
    /// The steps of the lattice, in about so many of the finest one.
    pub coarseness: usize,
    /// The parts of a period that budgets are whole numbers of; otherwise the lattice goes by budget and execution times.
    pub parts: Option<usize>,
}

/// The outlook that a lattice shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatticeOutlook {
    /// The outlook of all promises together.
    pub outlook: Outlook,
    /// Whether no lattice is finer, so that what is undecided stays so.
    pub is_finest: bool,
}

/// The workload's probabilities are computed to this part of what the promises leave.
const PRECISION: f64 = 1e-3;
/// A coarse lattice is of no use on which rounding leaves less than this of the free time.
const LEFT_FREE: f64 = 0.4;

/// The outlook of all `promises` together under a server, as one lattice shows it: they are kept if its pessimistic end
/// keeps them, and one is missed if its optimistic end misses one. The optimistic end is left out on the finest lattice,
/// where nothing would follow from it.
///
/// Both ends are bounds on every lattice, so what one shows no finer one contradicts.
///
/// # Errors
/// As of [`response_times`](super::response_times).
pub(in crate::response_time) fn judge(
    streams: &[JobStream],
    server: ReservationServer,
    promises: &[Promise],
    rung: LatticeRung,
) -> Result<LatticeOutlook, AnalysisError> {
    let plan = LatticePlan::of(streams, server, Duration::ZERO)?;
    let lattice_at = |coarseness| match rung.parts {
        Some(parts) => plan.lattice_of_parts(coarseness, parts),
        None => plan.lattice(coarseness),
    };
    let lattice = lattice_at(rung.coarseness);
    let is_finest = lattice.points == lattice_at(1).points;
    let shares = |side| plan.shares(lattice, side, (promises, is_finest));
    let shown = |outlook| Ok(LatticeOutlook { outlook, is_finest });
    let each = |shares: Vec<f64>| shares.into_iter().zip(promises);
    if each(shares(BracketSide::Pessimistic)?).all(|(share, promise)| share >= promise.probability)
    {
        return shown(Outlook::Kept);
    }
    if !is_finest
        && each(shares(BracketSide::Optimistic)?)
            .any(|(share, promise)| share < promise.probability)
    {
        return shown(Outlook::Missed);
    }
    shown(Outlook::Undecided)
}

impl LatticePlan<'_> {
    /// Whether the queue on a lattice is worth solving: it has an equilibrium, and on a coarse lattice one that is not
    /// much slower to come than the true one.
    fn is_useful(&self, queue: &LatticeQueue, is_finest: bool) -> bool {
        let load = self.streams.iter().map(JobStream::load).sum::<f64>();
        let bandwidth = self.budget.as_secs_f64() / self.period.as_secs_f64();
        let on_lattice = queue.work.load() * queue.period_steps as f64 / queue.budget_steps as f64;
        let least_free = match is_finest {
            true => 0.0,
            false => LEFT_FREE * (1.0 - load / bandwidth),
        };
        queue.is_stable() && 1.0 - on_lattice >= least_free
    }

    /// Bounds towards one side of the shares of all jobs that take no longer than each promised latency.
    fn shares(
        &self,
        lattice: Lattice,
        side: BracketSide,
        (promises, is_finest): (&[Promise], bool),
    ) -> Result<Vec<f64>, AnalysisError> {
        let LatticeLaws { arriving, jobs } = self.laws(lattice, side)?;
        let queue = self.queue(lattice, side, arriving);
        // A response within a time takes no more than the whole steps in it, and less than one more.
        let steps = |promise: &Promise| lattice.steps(promise.latency.as_nanos(), false);
        let steps: Vec<usize> = promises.iter().map(steps).collect();
        let most = steps.iter().copied().max().unwrap_or(0);
        let left = promises.iter().map(|promise| 1.0 - promise.probability);
        let precision = (PRECISION * left.fold(1.0, f64::min)).max(equilibrium::PRECISION);
        let of_lattice: Vec<f64> = match (self.kind, self.is_useful(&queue, is_finest)) {
            (_, false) if side == BracketSide::Pessimistic => vec![0.0; steps.len()],
            (_, false) => vec![1.0; steps.len()],
            (None, true) => {
                let length = (most + 1).clamp(4, MOST_PAIRS / lattice.points);
                let shares = response::dedicated(&queue.work, &jobs[0], side, length);
                let share = |step: &usize| match (shares.get(*step), side) {
                    (Some(share), _) => *share,
                    (None, BracketSide::Pessimistic) => shares[length - 1],
                    (None, BracketSide::Optimistic) => 1.0,
                };
                steps.iter().map(share).collect()
            }
            (Some(kind), true) => {
                let reached = work_within(&queue, kind, most);
                let passages = Passages::reaching(&queue, reached);
                let start = equilibrium::workload(&queue, &passages, side, (precision, &Unwatched));
                let responses = LatticeResponses {
                    queue: &queue,
                    passages: &passages,
                    start: &start,
                    kind,
                    side,
                };
                let terms = ShareTerms::new(&responses, &jobs[0], reached);
                steps.iter().map(|step| terms.within(*step)).collect()
            }
        };
        let tail = self.tails()[0];
        let bounds = of_lattice
            .into_iter()
            .zip(promises)
            .map(|(share, promise)| {
                let of_tail = 1.0 - tail.above(promise.latency.as_secs_f64());
                match side {
                    BracketSide::Pessimistic => (share - GUARD).max(of_tail).max(0.0),
                    BracketSide::Optimistic => (share + GUARD).min(1.0),
                }
            });
        Ok(bounds.collect())
    }
}
