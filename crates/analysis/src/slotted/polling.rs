//! The polling server: a budget only for the work that is there when a period starts.
//!
//! What is left at the start of a period is a Markov chain on the lattice, whose kernel the
//! ballot theorem gives (docs/concepts/response-time-grid.md, "The polling server").

use tailbound_distribution::Evidence;

use super::bracket::{Bins, Bracket};
use super::compound::{LatticeLaw, NEGLIGIBLE};
use super::slots::{SlotPlan, SlotPlans, Slots};
use super::{
    Resolution, SlottedBracket, SlottedPrediction, SlottedQuery, answer, answer_or_rough_one,
    nothing_rounded,
};
use crate::response_tail::ResponseTail;
use crate::{AnalysisError, SearchWatch, Unwatched};

/// What the workload at the start of a period exceeds with at most this probability is left out.
const TAIL: f64 = 1e-14;
/// The most grains of work that are told apart.
const MOST_STATES: f64 = 100_000.0;
/// The most periods that the chain is iterated.
const MOST_ROUNDS: usize = 200_000;
/// What the iterations may cost, in elementary operations.
const MOST_OPERATIONS: f64 = 3e9;
/// The change per period at which the iteration stops.
const SETTLED: f64 = 1e-15;
/// The same where there is no bound to be had.
const SETTLED_FOR_ESTIMATE: f64 = 1e-12;
/// What the rounding of floats adds to a law in one period, at most.
const ROUNDING: f64 = 1e-13;
/// The change per period above which the answer says that the equilibrium was not reached.
const MOVING: f64 = 1e-9;
/// A proved error above this is worth less than an estimate.
const USEFUL: f64 = 1e-4;

/// The distribution of the response times on a polling server that is alone at the highest
/// priority of its CPU.
///
/// At the start of each period the server gets its budget if there is work, and otherwise none; as
/// soon as there is nothing to do, what is left of the budget is lost. Replenishments lie on a
/// fixed grid, which the arrivals do not know of.
///
/// The answer is a proved bracket ([`tailbound_distribution::Evidence::Bound`]) if the budget and
/// all execution times are whole slots and the chain forgets its start fast enough; otherwise it is
/// an estimate, which spans what execution times rounded down and up yield. See docs/concepts/response-time-grid.md.
///
/// # Errors
/// [`AnalysisError::Overloaded`] if the load is not below the bandwidth,
/// [`AnalysisError::Invalid`] if the reservation is none, [`AnalysisError::NotAnalysed`] for
/// execution times or periods that are too long for the grid.
pub fn polling(query: &SlottedQuery) -> Result<SlottedPrediction, AnalysisError> {
    polling_watched(query, &Unwatched)
}

/// The prediction of [`polling`], or that on a rough grid where `watch` stops it.
pub(crate) fn polling_watched(
    query: &SlottedQuery,
    watch: &dyn SearchWatch,
) -> Result<SlottedPrediction, AnalysisError> {
    answer_or_rough_one(query, watch, prediction)
}

/// The prediction; `None` where `watch` stops it.
fn prediction(
    query: &SlottedQuery,
    watch: &dyn SearchWatch,
) -> Result<Option<SlottedPrediction>, AnalysisError> {
    let plans = fine_plans(query)?;
    let Some((bracket, settlement)) = enclosure(query, &plans, watch)? else {
        return Ok(None);
    };
    let method = "M/G/1 on a polling server: Markov chain at the starts of periods, by first \
                  passages (ballot theorem of Takács)";
    let of_server = ["budgets are enforced without delay, and periods start on a fixed grid"];
    let evidence = match settlement.proved {
        true => Evidence::Bound,
        false => Evidence::Estimate,
    };
    let law = SlottedBracket {
        bracket,
        evidence,
        of_rounding: rounding(&plans, settlement),
    };
    Ok(Some(answer(query, &plans, law, method, &of_server)))
}

/// The lattices of a load, without those that are so coarse that an estimate would be off by more than it says.
fn fine_plans(query: &SlottedQuery) -> Result<SlotPlans, AnalysisError> {
    match SlotPlans::new(query, cost)? {
        SlotPlans::Rounded { down, up }
            if down.is_coarse() || up.as_ref().is_some_and(SlotPlan::is_coarse) =>
        {
            if query.resolution == Resolution::Rough {
                return Ok(SlotPlans::Unsolved(down));
            }
            Err(AnalysisError::NotAnalysed {
                reason: "jobs of so many budgets on a polling server: the grid that can be had is so coarse that an \
                         estimate would be off by more than it says; simulate it, or take a constant-bandwidth server, \
                         whose answers are bounds"
                    .into(),
            })
        }
        plans => Ok(plans),
    }
}

/// Both ends of the bracket, and how near the equilibrium they are; `None` where `watch` stops their computation.
fn enclosure(
    query: &SlottedQuery,
    plans: &SlotPlans,
    watch: &dyn SearchWatch,
) -> Result<Option<(Bracket, Settlement)>, AnalysisError> {
    let (down, up) = match plans {
        SlotPlans::Exact(plan) => return solve(query, plan, watch),
        SlotPlans::Unsolved(plan) => return Ok(Some(unsolved(query, plan)?)),
        SlotPlans::Rounded { down, up } => (down, up),
    };
    let below = solve(query, down, watch)?;
    let above = match up {
        Some(up) => solve(query, up, watch)?,
        None => Some(unsolved(query, down)?),
    };
    let (Some((below, settled_below)), Some((above, settled_above))) = (below, above) else {
        return Ok(None);
    };
    let settlement = Settlement {
        proved: false,
        moved: settled_below.moved.max(settled_above.moved),
    };
    Ok(Some((below.around(&above)?, settlement)))
}

/// The bracket that needs no solution.
fn unsolved(query: &SlottedQuery, plan: &SlotPlan) -> Result<(Bracket, Settlement), AnalysisError> {
    let bracket = bins(query, plan).finish(0.0, 1.0, query.dispatch_overhead)?;
    Ok((bracket, Settlement::default()))
}

/// How near the workload at replenishments came to its equilibrium.
#[derive(Clone, Copy, Debug, Default)]
struct Settlement {
    /// Whether its distance is bounded.
    proved: bool,
    /// The change in the last period.
    moved: f64,
}

/// What was rounded, and what is not proved, in words.
fn rounding(plans: &SlotPlans, settlement: Settlement) -> String {
    let moving = match settlement.moved > MOVING {
        true => format!(
            "; the workload at replenishments was still moving by {:.1e} per period when its iteration ended",
            settlement.moved
        ),
        false => String::new(),
    };
    match plans {
        SlotPlans::Exact(_) if settlement.proved => nothing_rounded(plans),
        SlotPlans::Exact(_) => format!(
            "{}; the workload at replenishments was iterated without a bound on its error{moving}",
            nothing_rounded(plans)
        ),
        SlotPlans::Unsolved(_) => {
            "both ends are those of any load whose tail falls as this one's".to_owned()
        }
        SlotPlans::Rounded { .. } => format!(
            "execution times are rounded both down and up to slots of {}, and the answer spans both, which is no \
             bound: the server is not monotone in its load{moving}",
            plans.slot()
        ),
    }
}

/// The decay of the workload's tail, per grain: that of a server which works in a period only on
/// what was there at its start.
fn decay(plan: &SlotPlan) -> f64 {
    plan.work.decay(plan.fluid_seconds())
}

/// Grains of work that the workload at the start of a period hardly ever exceeds.
fn states(plan: &SlotPlan) -> usize {
    let reach = (1.0 / TAIL).ln() / decay(plan).max(1e-9);
    reach.min(MOST_STATES) as usize + plan.budget() + 1
}

/// Roughly how many operations the plan takes.
fn cost(plan: &SlotPlan) -> f64 {
    let slots = plan.slots;
    let pieces = slots.per_budget as f64 / slots.bandwidth();
    let terms = plan.work.law(slots.slot_seconds()).terms().len() as f64;
    let jobs = plan.jobs().count() as f64;
    let states = states(plan) as f64;
    let passes = pieces * (states + plan.budget() as f64) * 2.0 * (terms + 2.0 * jobs + 8.0);
    let passes = passes + plan.cost_of_laws(plan.budget() as f64 * 2.0);
    if plan.exact {
        // The chain costs the same however fine the slots are.
        passes
    } else {
        let rounds = 2.0 * plan.periods_to_forget(SETTLED) * round_cost(plan);
        passes + rounds.min(MOST_OPERATIONS)
    }
}

/// Roughly how many operations it takes to iterate one period.
fn round_cost(plan: &SlotPlan) -> f64 {
    let terms = plan.work.law(plan.slots.period_seconds()).terms().len() as f64;
    let budget = plan.budget() as f64;
    states(plan) as f64 * (terms + 1.0) + budget * (budget + 2.0 * terms)
}

/// Nothing but what holds of any load like this.
fn bins(query: &SlottedQuery, plan: &SlotPlan) -> Bins {
    let per_second = query.decay_per_second();
    let of_budgets = 2.0 * per_second / query.bandwidth() * query.budget.as_secs_f64();
    let tail = ResponseTail {
        factor: of_budgets.min(600.0).exp() * query.moments(per_second / query.bandwidth()).1,
        per_second,
        from_seconds: plan.slots.period_seconds(),
    };
    Bins::new(plan.slots, tail, query.execution_times.shortest())
}

/// The bracket for the execution times of a plan, and how near its equilibrium came to the true one; `None` where
/// `watch` stops the computation.
fn solve(
    query: &SlottedQuery,
    plan: &SlotPlan,
    watch: &dyn SearchWatch,
) -> Result<Option<(Bracket, Settlement)>, AnalysisError> {
    let decay = decay(plan);
    let chain = OccupancyChain::new(plan, states(plan));
    let operations = query.resolution.effort() * MOST_OPERATIONS;
    let rounds = (operations / round_cost(plan)) as usize + 2;
    let rounds = rounds.min(MOST_ROUNDS);
    let settled = if plan.exact {
        SETTLED
    } else {
        SETTLED_FOR_ESTIMATE
    };
    let Some((starts, moved)) = chain.equilibrium(decay, settled, (rounds, watch)) else {
        return Ok(None);
    };
    // An estimate has no use for a bound on this part of its error.
    let error = if plan.exact && moved <= MOVING {
        chain.error(&starts, moved, (rounds, watch))
    } else {
        f64::INFINITY
    };
    let mut bins = bins(query, plan);
    // A stop within the error's search shows here, too.
    if !responses(plan, &starts, (&mut bins, watch)) {
        return Ok(None);
    }
    let proved = error <= USEFUL;
    let error = if proved { error } else { 0.0 };
    let bracket = bins.finish(error, 1.0, query.dispatch_overhead)?;
    Ok(Some((bracket, Settlement { proved, moved })))
}

/// The workload at the starts of periods.
struct OccupancyChain {
    budget_grains: usize,
    /// The workload that stands for all beyond.
    last: usize,
    /// By grains of the budget: the work that comes while so many are served.
    within: Vec<LatticeLaw>,
    /// By grains of the budget: the work of the rest of the period after so many.
    after: Vec<LatticeLaw>,
}

impl OccupancyChain {
    fn new(plan: &SlotPlan, last: usize) -> Self {
        let slots = plan.slots;
        let budget = plan.budget();
        let period = slots.ticks_per_period();
        let law = |ticks| plan.work.law(slots.seconds(ticks));
        Self {
            budget_grains: budget,
            last,
            within: (0..=budget).map(|served| law(plan.ticks(served))).collect(),
            after: (0..=budget)
                .map(|served| law(period - plan.ticks(served)))
                .collect(),
        }
    }

    /// The probabilities that the server runs out of work after 1, 2, ... grains of its budget,
    /// started with law `starts`: from z, after t with (z / t) Pr(t - z come within t).
    fn emptied(&self, starts: &[f64]) -> Vec<f64> {
        let after = |t: usize| {
            let ballot = |z: usize| starts[z] * z as f64 * self.within[t].at(t - z);
            (1..=t.min(self.last)).map(ballot).sum::<f64>() / t as f64
        };
        (1..=self.budget_grains).map(after).collect()
    }

    /// The law a period later; what lies beyond the last workload is put there.
    fn next(&self, starts: &[f64]) -> Vec<f64> {
        let longest = self.after.iter().filter_map(|law| law.terms().last());
        let longest = longest.map(|(arrived, _)| *arrived).max().unwrap_or(0);
        // As if the server worked on to the end of its budget in any case.
        let mut worked_on = vec![0.0; self.last + longest + self.budget_grains + 1];
        self.after[0].convolve_into(&starts[1..], &mut worked_on[1..]);
        let mut next = vec![0.0; worked_on.len()];
        for (arrived, weight) in self.after[0].terms() {
            next[*arrived] += starts[0] * weight;
        }
        for (index, empty) in self.emptied(starts).iter().enumerate() {
            let t = index + 1;
            for (arrived, weight) in self.after[t].terms() {
                next[*arrived] += empty * weight;
                worked_on[t + arrived] -= empty * weight;
            }
        }
        // Nobody who worked to the end of the budget had nothing left by then.
        let left = worked_on[self.budget_grains..].iter().skip(1);
        for (sum, p) in next[1..].iter_mut().zip(left) {
            *sum += p;
        }
        let beyond: f64 = next.drain(self.last + 1..).sum();
        next[self.last] += beyond;
        next.iter_mut().for_each(|p| *p = p.max(0.0));
        let sum: f64 = next.iter().sum();
        next.iter_mut().for_each(|p| *p /= sum);
        next
    }

    /// By the workload at the start of a period, the mean of `value` at the start of the next; a
    /// lower bound, since what lies beyond the last workload counts nothing.
    fn mean_next(&self, value: &[f64]) -> Vec<f64> {
        let mean = |law: &LatticeLaw, from: usize| {
            let term = |(arrived, weight): &(usize, f64)| {
                let place = (from + arrived)
                    .checked_sub(self.budget_grains)
                    .filter(|w| *w > 0);
                place.map_or(0.0, |w| weight * value.get(w).copied().unwrap_or(0.0))
            };
            law.terms().iter().map(term).sum::<f64>()
        };
        // The gain of running out of work after t grains over working on.
        let gain: Vec<f64> = (1..=self.budget_grains)
            .map(|t| {
                mean(&self.after[t], self.budget_grains) + self.none(t) * value[0]
                    - mean(&self.after[t], t)
            })
            .collect();
        let mut next = vec![0.0; value.len()];
        for (arrived, weight) in self.after[0].terms() {
            // To w = z + arrived - budget from z, both above zero.
            let z = (self.budget_grains + 1).saturating_sub(*arrived).max(1);
            let w = z + arrived - self.budget_grains;
            let (to, from) = (next.get_mut(z..), value.get(w..));
            for (sum, value) in to.into_iter().flatten().zip(from.into_iter().flatten()) {
                *sum += weight * value;
            }
        }
        for (z, sum) in next.iter_mut().enumerate().skip(1).take(self.budget_grains) {
            let ballot = |t: usize| z as f64 / t as f64 * self.within[t].at(t - z) * gain[t - 1];
            *sum += (z..=self.budget_grains).map(ballot).sum::<f64>();
        }
        next[0] = mean(&self.after[0], self.budget_grains) + self.none(0) * value[0];
        next.iter_mut().for_each(|mean| *mean = mean.max(0.0));
        next
    }

    /// The probability that nothing comes in the period after so many grains of the budget.
    fn none(&self, slot: usize) -> f64 {
        self.after[slot].at(0)
    }

    /// A law that moves by less than `settled` in a period, if so many `rounds` get that far, and
    /// by how much it does. `decay` is that of the tail: near saturation the law is close to
    /// geometric. `None` where `watch` stops the iteration.
    fn equilibrium(
        &self,
        decay: f64,
        settled: f64,
        (rounds, watch): (usize, &dyn SearchWatch),
    ) -> Option<(Vec<f64>, f64)> {
        let mut law: Vec<f64> = (0..=self.last).map(|w| (-decay * w as f64).exp()).collect();
        let sum: f64 = law.iter().sum();
        law.iter_mut().for_each(|p| *p /= sum);
        let (mut moved, mut least, mut stuck) = (2.0, f64::INFINITY, 0);
        for _ in 0..rounds {
            if watch.is_stopped() {
                return None;
            }
            let next = self.next(&law);
            moved = next.iter().zip(&law).map(|(a, b)| (a - b).abs()).sum();
            law = next;
            stuck = if moved < least { 0 } else { stuck + 1 };
            least = least.min(moved);
            if moved < settled || (moved < ROUNDING && stuck > 20) {
                break;
            }
        }
        Some((law, moved))
    }

    /// By how much in total a law may be off the equilibrium if it moves by `moved` in a period.
    ///
    /// If from every workload the chain is in some one state with at least probability c after n
    /// periods, then the law is within `moved` n / c of the equilibrium. The workloads beyond the
    /// last, which weigh at most [`TAIL`], move another 4 [`TAIL`].
    fn error(&self, law: &[f64], moved: f64, within: (usize, &dyn SearchWatch)) -> f64 {
        self.memory(law, within) * (moved + 4.0 * TAIL + ROUNDING)
    }

    /// The least n / c for which from every workload the chain is in the likeliest state of `law`
    /// with at least probability c after n periods, among as many periods as are looked at until `watch` stops that.
    fn memory(&self, law: &[f64], (rounds, watch): (usize, &dyn SearchWatch)) -> f64 {
        let likeliest = (0..law.len()).fold(0, |best, w| if law[w] > law[best] { w } else { best });
        let mut there = vec![0.0; self.last + 1];
        there[likeliest] = 1.0;
        let mut shortest = f64::INFINITY;
        let mut since_better = 0;
        for n in 1..=rounds {
            there = self.mean_next(&there);
            let least = there.iter().copied().fold(f64::INFINITY, f64::min);
            let needed = n as f64 / (least - n as f64 * ROUNDING).max(0.0);
            since_better = if needed < shortest {
                0
            } else {
                since_better + 1
            };
            shortest = shortest.min(needed);
            if watch.is_stopped() || (shortest.is_finite() && since_better > 20) {
                break;
            }
        }
        shortest
    }
}

/// A stretch of the period.
struct PollingPiece {
    from: u128,
    to: u128,
    /// The slot of the budget that ends with it.
    ends_slot: usize,
}

fn pieces(slots: Slots) -> Vec<PollingPiece> {
    let end = slots.ticks_per_period();
    let mut pieces: Vec<PollingPiece> = Vec::new();
    let mut from = 0;
    while from < end {
        let to = (from + slots.ticks_per_slot()).min(end);
        pieces.push(PollingPiece {
            from,
            to,
            ends_slot: pieces.len() + 1,
        });
        from = to;
    }
    pieces
}

/// Which end of a piece of the period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PieceEnd {
    First,
    /// Before the server has noticed that it ran out of work.
    Last,
}

/// Where a job that comes now stands.
struct JobStanding {
    /// While the server works: by all work of the period, what was left before included.
    working: Vec<f64>,
    /// Once it ran out of work: by the work that has come since.
    waiting: Vec<f64>,
}

/// Follows one period that starts with law `starts`, and returns how it ends; `None` where `watch` stops that.
fn walk(
    plan: &SlotPlan,
    starts: &[f64],
    watch: &dyn SearchWatch,
    mut visit: impl FnMut(&PollingPiece, PieceEnd, &JobStanding),
) -> Option<JobStanding> {
    let slots = plan.slots;
    let mut working = starts.to_vec();
    working.resize(starts.len() + plan.budget(), 0.0);
    let mut waiting = vec![0.0; working.len()];
    std::mem::swap(&mut working[0], &mut waiting[0]);
    let mut standing = JobStanding { working, waiting };
    for piece in pieces(slots) {
        if watch.is_stopped() {
            return None;
        }
        let law = plan.work.law(slots.seconds(piece.to - piece.from));
        visit(&piece, PieceEnd::First, &standing);
        for state in [&mut standing.working, &mut standing.waiting] {
            let mut after = vec![0.0; state.len()];
            law.convolve_into(state, &mut after);
            *state = after;
        }
        visit(&piece, PieceEnd::Last, &standing);
        if piece.ends_slot <= slots.per_budget && piece.ends_slot % plan.grain == 0 {
            let done = std::mem::take(&mut standing.working[piece.ends_slot / plan.grain]);
            standing.waiting[0] += done;
        }
    }
    Some(standing)
}

/// Adds the responses of the jobs of one period that starts with law `starts`.
///
/// A job that comes while the server works is done when all that came in the period up to it, and
/// what was left before, has been served from the start of the period on; one that comes later,
/// when all that came since the server ran out of work has been served from the next period on.
/// Whoever comes later is not done earlier, so that the jobs of a piece are done between those
/// that come at its two ends. The result is false where `watch` stops the computation.
fn responses(
    plan: &SlotPlan,
    starts: &[f64],
    (bins, watch): (&mut Bins, &dyn SearchWatch),
) -> bool {
    let slots = plan.slots;
    let period = slots.ticks_per_period();
    let jobs = LatticeLaw::new(plan.jobs.clone());
    let with_job = |law: &[f64]| {
        let mut sums = vec![0.0; law.len() + plan.jobs.len()];
        jobs.convolve_into(law, &mut sums);
        sums
    };
    let longest = starts.len() + plan.budget() + plan.jobs.len();
    let given: Vec<u128> = (0..=longest).map(|need| plan.ticks_to_give(need)).collect();
    let end = walk(plan, starts, watch, |piece, end, standing| {
        let share = (piece.to - piece.from) as f64 / period as f64;
        for (law, from) in [(&standing.working, 0), (&standing.waiting, period)] {
            let needed = with_job(law);
            let needed = needed.iter().zip(&given).filter(|(p, _)| **p > NEGLIGIBLE);
            for (p, given) in needed {
                let done = from + given;
                match end {
                    PieceEnd::First => bins.add_at_least(done.saturating_sub(piece.to), p * share),
                    PieceEnd::Last => bins.add_at_most(done.saturating_sub(piece.from), p * share),
                }
            }
        }
    });
    end.is_some()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::slotted::ExecutionLaw;
    use std::num::NonZeroU32;
    use tailbound_time::{Duration, Rate};

    fn plan() -> SlotPlan {
        let us = Duration::from_micros;
        let law = ExecutionLaw::new(vec![(us(200), 0.6), (us(700), 0.4)]).unwrap();
        let rate = Rate::per_second(1_000.0).unwrap();
        let mut query = SlottedQuery::new(rate, law, us(1_200), us(2_050));
        query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(24).unwrap());
        match SlotPlans::new(&query, cost).unwrap() {
            SlotPlans::Exact(plan) => plan,
            rounded => panic!("{rounded:?}"),
        }
    }

    /// The ballot theorem against the period followed step by step.
    #[test]
    fn both_ways_through_a_period_end_alike() {
        let plan = plan();
        assert!(plan.exact);
        let last = 600;
        let chain = OccupancyChain::new(&plan, last);
        for start in [0, 1, 5, 11, 12, 13, 40] {
            let mut starts = vec![0.0; last + 1];
            starts[start] = 1.0;
            let by_ballots = chain.next(&starts);
            let end = walk(&plan, &starts, &Unwatched, |_, _, _| {}).unwrap();
            for (left, by_ballots) in by_ballots.iter().enumerate().take(400) {
                let late = match left {
                    0 => 0.0,
                    _ => end.working[left + chain.budget_grains],
                };
                let by_steps = end.waiting[left] + late;
                assert!((by_steps - by_ballots).abs() < 1e-13, "{start} {left}");
            }
        }
    }

    /// The operator that looks ahead is the transpose of the one that goes ahead.
    #[test]
    fn means_ahead_are_those_of_the_laws_ahead() {
        let plan = plan();
        let chain = OccupancyChain::new(&plan, 600);
        let value: Vec<f64> = (0..=600).map(|w| f64::from((w * 37) % 101)).collect();
        let ahead = chain.mean_next(&value);
        for start in [0, 1, 7, 24, 100] {
            let mut starts = vec![0.0; 601];
            starts[start] = 1.0;
            let next = chain.next(&starts);
            let mean: f64 = next.iter().zip(&value).map(|(p, v)| p * v).sum();
            assert!((mean - ahead[start]).abs() < 1e-9, "{start}");
        }
    }

    /// The equilibrium stands still, and so does the mean work: what comes is what is served.
    #[test]
    fn the_equilibrium_is_one() {
        let plan = plan();
        let chain = OccupancyChain::new(&plan, states(&plan));
        let within: (usize, &dyn SearchWatch) = (10_000, &Unwatched);
        let (law, moved) = chain.equilibrium(decay(&plan), SETTLED, within).unwrap();
        let error = chain.error(&law, moved, within);
        assert!(error < 1e-9, "{error}");
        assert!((law.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        let brought = plan.work.per_second * plan.work.mean_size() * plan.slots.period_seconds();
        let emptied = chain.emptied(&law);
        let early: f64 = emptied
            .iter()
            .enumerate()
            .map(|(t, p)| (t + 1) as f64 * p)
            .sum();
        let through = 1.0 - law[0] - emptied.iter().sum::<f64>();
        let served = early + through * chain.budget_grains as f64;
        assert!((served - brought).abs() < 1e-9, "{served} {brought}");
    }
}
