//! The hard constant-bandwidth server, as SCHED_DEADLINE implements it.
//!
//! Between two moments at which it would start anew, the server follows a processor of speed
//! budget / period: it starts anew exactly when that processor runs out of work. Its periods lie
//! on a grid from there, and each starts with what that processor has left
//! (docs/concepts/response-time-grid.md, "The constant-bandwidth server").

use std::collections::BTreeMap;

use tailbound_distribution::Evidence;
use tailbound_time::Duration;

use super::bracket::{Bins, Bracket, BracketEnd};
use super::compound::{LatticeLaw, NEGLIGIBLE};
use super::slots::{SlotPlan, SlotPlans, SlotRounding, Slots};
use super::{
    SlottedBracket, SlottedPrediction, SlottedQuery, answer, answer_or_rough_one, nothing_rounded,
};
use crate::response_tail::ResponseTail;
use crate::{AnalysisError, SearchWatch, Unwatched};

/// The share of time whose place in the cycle need not be known.
const UNPLACED: f64 = 1e-9;
/// What the workload at the start of a period exceeds with at most this probability is left out.
const TAIL: f64 = 1e-12;
/// What the iteration may cost, in elementary operations.
const MOST_OPERATIONS: f64 = 2e9;
/// The most grains of work that are told apart.
const MOST_STATES: f64 = 200_000.0;

/// The distribution of the response times on a hard constant-bandwidth server that is alone at
/// the highest priority of its CPU.
///
/// The rule is that of SCHED_DEADLINE with the deadline equal to the period: a used-up budget
/// comes back at the deadline, a period later the next one; on a wake-up at which the deadline has
/// passed, or the rest of the budget by the time to the deadline exceeds budget / period, both
/// start anew; otherwise they stay.
///
/// The answer is a proved bracket ([`tailbound_distribution::Evidence::Bound`]) whatever the execution times; see
/// docs/concepts/response-time-grid.md.
///
/// # Errors
/// [`AnalysisError::Overloaded`] if the load is not below the bandwidth,
/// [`AnalysisError::Invalid`] if the reservation is none, [`AnalysisError::NotAnalysed`] for
/// execution times or periods that are too long for the grid.
pub fn constant_bandwidth(query: &SlottedQuery) -> Result<SlottedPrediction, AnalysisError> {
    constant_bandwidth_watched(query, &Unwatched)
}

/// The prediction of [`constant_bandwidth`], or that on a rough grid where `watch` stops it.
pub(crate) fn constant_bandwidth_watched(
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
    let plans = SlotPlans::new(query, cost)?;
    let Some(bracket) = enclosure(query, &plans, watch)? else {
        return Ok(None);
    };
    let method = "M/G/1 on a hard constant-bandwidth server: busy periods of a processor of the \
                  same bandwidth (ballot theorem of Takács), by dynamic programming over one period";
    let of_server = [
        "the deadline is the period, and the kernel does not reclaim unused bandwidth",
        "budgets are enforced without delay (no throttling at ticks)",
    ];
    let law = SlottedBracket {
        bracket,
        evidence: Evidence::Bound,
        of_rounding: rounding(&plans),
    };
    Ok(Some(answer(query, &plans, law, method, &of_server)))
}

/// Both ends of the bracket; `None` where `watch` stops their computation.
fn enclosure(
    query: &SlottedQuery,
    plans: &SlotPlans,
    watch: &dyn SearchWatch,
) -> Result<Option<Bracket>, AnalysisError> {
    let (optimistic, pessimistic) = match plans {
        SlotPlans::Exact(plan) => {
            let ends = [BracketEnd::Optimistic, BracketEnd::Pessimistic];
            return solve(query, plan, (&ends, watch));
        }
        SlotPlans::Unsolved(plan) => return solve(query, plan, (&[], watch)),
        SlotPlans::Rounded { down, up } => (
            solve(query, down, (&[BracketEnd::Optimistic], watch))?,
            match up {
                Some(up) => solve(query, up, (&[BracketEnd::Pessimistic], watch))?,
                None => solve(query, down, (&[], watch))?,
            },
        ),
    };
    let ends = optimistic.zip(pessimistic);
    Ok(ends.map(|(optimistic, pessimistic)| optimistic.with_pessimistic_end_of(pessimistic)))
}

/// What was rounded, in words.
fn rounding(plans: &SlotPlans) -> String {
    match plans {
        SlotPlans::Exact(_) => nothing_rounded(plans),
        SlotPlans::Unsolved(_) => {
            "both ends are those of a processor of the same bandwidth".to_owned()
        }
        SlotPlans::Rounded { up: Some(_), .. } => format!(
            "execution times are rounded outward to slots of {}, and so is the moment of arrival",
            plans.slot()
        ),
        SlotPlans::Rounded { up: None, .. } => format!(
            "execution times are rounded down to slots of {} for the optimistic end; rounded up they would be more \
             work than the reservation gives, so the pessimistic end is that of a processor of the same bandwidth",
            plans.slot()
        ),
    }
}

/// Grains of work beyond which a processor of the bandwidth hardly ever has any.
fn states(plan: &SlotPlan) -> usize {
    let decay = plan.work.decay(plan.fluid_seconds());
    let reach = (1.0 / TAIL).ln() / decay.max(1e-9);
    reach.min(MOST_STATES) as usize + plan.work.sizes.len()
}

/// Roughly how many operations the plan takes.
fn cost(plan: &SlotPlan) -> f64 {
    let slots = plan.slots;
    let (fine, budget) = (slots.per_budget as f64, plan.budget() as f64);
    let states = states(plan) as f64;
    let pieces = fine / slots.bandwidth() + budget;
    let terms = plan.work.law(slots.slot_seconds()).terms().len() as f64;
    let cells = fine * budget.min(states) * 0.5;
    let jobs = plan.jobs().count() as f64;
    let passes = pieces * ((states + budget) * (terms + 2.0 * jobs) + 2.0 * cells * (terms + 2.0));
    let passes = passes + plan.cost_of_laws(pieces.min(budget * 4.0) + budget);
    if plan.exact {
        // The cycles cost the same however fine the slots are.
        passes
    } else {
        let rounds = plan.periods_to_forget(UNPLACED) * round_cost(plan);
        passes + rounds.min(MOST_OPERATIONS)
    }
}

/// Roughly how many operations it takes to follow the cycles by one period.
fn round_cost(plan: &SlotPlan) -> f64 {
    let terms = plan.work.law(plan.slots.period_seconds()).terms().len() as f64;
    let budget = plan.budget() as f64;
    states(plan) as f64 * (terms + 1.0) + budget * (budget + terms)
}

/// The ends of the bracket that are asked for; what is not asked for is a bound that needs no solution. `None` where
/// `watch` stops the solution.
///
/// Of a load whose execution times are rounded down, the jobs of a cycle that take longer are no more than those of the
/// true load, and rounded up no fewer. They are counted for each cycle, so what counts for each job is that
/// number times the rate of the true cycles.
fn solve(
    query: &SlottedQuery,
    plan: &SlotPlan,
    (ends, watch): (&[BracketEnd], &dyn SearchWatch),
) -> Result<Option<Bracket>, AnalysisError> {
    let (load, rate) = (plan.load(), plan.work.per_second);
    // A processor of the same bandwidth never answers sooner, and its tail is Lundberg's.
    let per_second = query.decay_per_second();
    let (_, of_job) = query.moments(per_second / query.bandwidth());
    let tail = ResponseTail {
        factor: of_job,
        per_second,
        from_seconds: 0.0,
    };
    let mut bins = Bins::new(plan.slots, tail, query.execution_times.shortest());
    if !ends.is_empty() {
        let effort = query.resolution.effort();
        let Some(starts) = period_starts(plan, states(plan), (effort, watch)) else {
            return Ok(None);
        };
        let pass = Pass::new(plan, rate * (1.0 - load));
        let lone = |size| plan.ticks_to_give(size);
        for (size, weight) in plan.jobs() {
            bins.add_at_least(lone(size), (1.0 - load) * weight);
            bins.add_at_most(lone(size), (1.0 - load) * weight);
        }
        let is_done = pass.later_periods(&starts, &mut bins, watch).is_some()
            && ends
                .iter()
                .all(|end| pass.same_period(&starts, *end, (&mut bins, watch)));
        if !is_done {
            return Ok(None);
        }
    }
    for end in [BracketEnd::Optimistic, BracketEnd::Pessimistic] {
        if !ends.contains(&end) {
            bins.clear(end);
        }
    }
    // There are no more cycles than with the least load that the execution times can be, and no fewer than with the
    // highest.
    let lateness = match ends {
        [] => 1.0,
        _ if plan.exact => 1.0,
        [BracketEnd::Optimistic] => (1.0 - query.load()) / (1.0 - load),
        _ => (1.0 - query.least_load()) / (1.0 - load),
    };
    let mut bracket = bins.finish(0.0, lateness, query.dispatch_overhead)?;
    let mean = &mut bracket.mean;
    let of_processor = |speed, rounding| {
        let mean = query.processor_mean(speed, rounding);
        mean.saturating_add(query.dispatch_overhead)
    };
    let rounding = Duration::from_nanos(2);
    let fastest = of_processor(1.0, SlotRounding::Down);
    mean.low = mean.low.max(fastest.saturating_sub(rounding));
    let slowest = of_processor(query.bandwidth(), SlotRounding::Up).saturating_add(rounding);
    mean.high = mean.high.map(|high| high.min(slowest));
    Ok(Some(bracket))
}

/// For every workload, how many periods of a cycle start with it in the mean; from below. Of the
/// time in cycles less than [`UNPLACED`] is left out, unless that costs more than a part of the operations. `None` where
/// `watch` stops the computation.
fn period_starts(
    plan: &SlotPlan,
    states: usize,
    (effort, watch): (f64, &dyn SearchWatch),
) -> Option<Vec<f64>> {
    let budget = plan.budget();
    let fluid = plan.fluid_seconds();
    let arrivals: Vec<LatticeLaw> = (0..=budget)
        .map(|served| plan.work.law(fluid * served as f64))
        .collect();
    let mut current = vec![0.0; states + 1];
    for (size, weight) in plan.sizes() {
        if let Some(start) = current.get_mut(size).filter(|_| size > 0) {
            *start = weight;
        }
    }
    let mut total = current.clone();
    // A processor that has w grains to serve is busy for the time of w / (1 - load) of them in
    // the mean, so this is the share of all time that is still to be placed.
    let share = |current: &[f64]| {
        let work = current.iter().enumerate().map(|(w, p)| w as f64 * p);
        // The load divided by the mean size, which is zero if all execution times were rounded to nothing.
        plan.work.per_second * fluid * work.sum::<f64>()
    };
    let rounds = (effort * MOST_OPERATIONS / round_cost(plan)) as usize + 1;
    for _ in 0..rounds {
        if watch.is_stopped() {
            return None;
        }
        current = next_start(&current, budget, &arrivals);
        total.iter_mut().zip(&current).for_each(|(t, c)| *t += c);
        if share(&current) < UNPLACED {
            break;
        }
    }
    Some(total)
}

/// One period on, without those in which the processor of the bandwidth runs out of work.
///
/// From w it does so after m grains with probability (w / m) Pr(m - w come in their time) (ballot
/// theorem), after which the workload is what the rest of the period brings.
fn next_start(current: &[f64], budget_slots: usize, arrivals: &[LatticeLaw]) -> Vec<f64> {
    let mut end = vec![0.0; current.len() + budget_slots];
    arrivals[budget_slots].convolve_into(current, &mut end);
    for m in 1..budget_slots {
        let ballot =
            |w: usize| current.get(w).copied().unwrap_or(0.0) * w as f64 * arrivals[m].at(m - w);
        let empty = (1..=m).map(ballot).sum::<f64>() / m as f64;
        for (arrived, weight) in arrivals[budget_slots - m].terms() {
            if let Some(sum) = end.get_mut(m + arrived) {
                *sum -= empty * weight;
            }
        }
    }
    let mut next = end.split_off(budget_slots);
    next[0] = 0.0;
    next.iter_mut().for_each(|p| *p = p.max(0.0));
    next
}

/// A part of the period in which the CPU does not pass a slot, nor the processor of the bandwidth
/// a grain.
#[derive(Clone, Copy, Debug)]
struct PassPiece {
    from: u128,
    to: u128,
    /// The CPU's slot that it lies in.
    cpu_slot: usize,
    /// How many grains the processor of the bandwidth has served at its end, if it is a whole
    /// number.
    fluid_grains: Option<usize>,
    /// Which of the laws of arrivals is that of its length.
    law: usize,
}

/// One period of a cycle, piece by piece.
struct Pass<'a> {
    plan: &'a SlotPlan,
    slots: Slots,
    /// Cycles per second.
    cycles: f64,
    pieces: Vec<PassPiece>,
    laws: Vec<LatticeLaw>,
}

impl<'a> Pass<'a> {
    fn new(plan: &'a SlotPlan, cycles: f64) -> Self {
        let slots = plan.slots;
        let end = slots.ticks_per_period();
        let mut pieces: Vec<PassPiece> = Vec::new();
        let mut laws = Vec::new();
        let mut laws_by_slots: BTreeMap<u128, usize> = BTreeMap::new();
        let (mut from, mut cpu_slot, mut fluid) = (0, 0, 1);
        while from < end {
            let next_cpu = (cpu_slot as u128 + 1) * slots.ticks_per_slot();
            let next_fluid = fluid as u128 * plan.fluid_ticks();
            let to = next_cpu.min(next_fluid);
            let law = *laws_by_slots.entry(to - from).or_insert_with(|| {
                laws.push(plan.work.law(slots.seconds(to - from)));
                laws.len() - 1
            });
            let fluid_grains = (to == next_fluid).then_some(fluid);
            pieces.push(PassPiece {
                from,
                to,
                cpu_slot,
                fluid_grains,
                law,
            });
            cpu_slot += usize::from(to == next_cpu);
            fluid += usize::from(to == next_fluid);
            from = to;
        }
        Self {
            plan,
            slots,
            cycles,
            pieces,
            laws,
        }
    }

    /// Jobs per job that arrive in this piece, for one that does in each second of it.
    fn weight(&self, piece: &PassPiece) -> f64 {
        self.cycles * self.slots.seconds(piece.to - piece.from)
    }

    /// Adds the jobs that the budget of the period they come in does not suffice for. What work
    /// has come in the period, the job included, tells when such a job is done. Returns what has
    /// come by the end of the period, where the server did not start anew; `None` where `watch` stops the computation.
    fn later_periods(
        &self,
        starts: &[f64],
        bins: &mut Bins,
        watch: &dyn SearchWatch,
    ) -> Option<Vec<f64>> {
        let budget = self.plan.budget();
        let longest = self.plan.jobs.len();
        let mut arrived = starts.to_vec();
        arrived.resize(starts.len() + budget, 0.0);
        arrived[0] = 0.0;
        let jobs = LatticeLaw::new(self.plan.jobs.clone());
        let with_job = |arrived: &[f64]| {
            let mut sums = vec![0.0; arrived.len() + longest];
            jobs.convolve_into(arrived, &mut sums);
            sums
        };
        let given = |need| self.plan.ticks_to_give(need);
        let given: Vec<u128> = (0..arrived.len() + longest).map(given).collect();
        // What no one budget suffices for.
        let later = |needed: &[f64]| -> Vec<(f64, u128)> {
            let pairs = needed.iter().copied().zip(given.iter().copied());
            let kept = pairs.skip(budget + 1).filter(|(p, _)| *p > NEGLIGIBLE);
            kept.collect()
        };
        let mut needed = with_job(&arrived);
        for piece in &self.pieces {
            if watch.is_stopped() {
                return None;
            }
            let weight = self.weight(piece);
            for (p, done) in later(&needed) {
                bins.add_at_least(done - piece.to, p * weight);
            }
            let mut after = vec![0.0; arrived.len()];
            self.laws[piece.law].convolve_into(&arrived, &mut after);
            arrived = after;
            needed = with_job(&arrived);
            for (p, done) in later(&needed) {
                bins.add_at_most(done - piece.from, p * weight);
            }
            if let Some(m) = piece.fluid_grains {
                arrived[m] = 0.0;
                needed = with_job(&arrived);
            }
        }
        Some(arrived)
    }

    /// Adds the jobs that the budget of the period they come in suffices for: they are done when
    /// a CPU of its own would be. What it has served is rounded towards `end`, by a slot at
    /// most. The result is false where `watch` stops the computation.
    fn same_period(
        &self,
        starts: &[f64],
        end: BracketEnd,
        (bins, watch): (&mut Bins, &dyn SearchWatch),
    ) -> bool {
        let Some(most) = self.plan.budget().checked_sub(self.plan.shortest()) else {
            return true;
        };
        let mut served = ServedLaw::new(starts, most, self.plan.grain);
        let per_slot = self.slots.ticks_per_slot();
        let mut cpu_slot = None;
        for piece in &self.pieces {
            if watch.is_stopped() {
                return false;
            }
            let slot_start = piece.cpu_slot as u128 * per_slot;
            if cpu_slot != Some(piece.cpu_slot) {
                // Optimistic: what came in the slot that ended came at its start.
                if end == BracketEnd::Pessimistic || cpu_slot.is_some() {
                    served.advance();
                }
                cpu_slot = Some(piece.cpu_slot);
            }
            if end == BracketEnd::Optimistic {
                let late = piece.to - slot_start;
                for (need, p) in self.needed(&served).iter().enumerate() {
                    let ticks = need as u128 * per_slot;
                    bins.add_at_least(ticks.saturating_sub(late), p * self.weight(piece));
                }
            }
            served.arrive(&self.laws[piece.law]);
            if end == BracketEnd::Pessimistic {
                let late = slot_start + per_slot - piece.from;
                for (need, p) in self.needed(&served).iter().enumerate() {
                    let ticks = need as u128 * per_slot;
                    bins.add_at_most(ticks + late, p * self.weight(piece));
                }
            }
            if let Some(grains) = piece.fluid_grains {
                served.start_anew(grains);
            }
        }
        true
    }

    /// By what the CPU has left in slots, the job included: the probability of that, where the
    /// budget suffices.
    fn needed(&self, served: &ServedLaw) -> Vec<f64> {
        let (budget, grain) = (self.plan.budget(), self.plan.grain);
        let mut sums = vec![0.0; self.slots.per_budget + 1];
        for slots in 0..served.rows() {
            for arrived in served.window(slots) {
                let p = served.at(slots, arrived);
                if p > 0.0 {
                    let jobs = self.plan.jobs();
                    for (size, weight) in jobs.take_while(|(size, _)| arrived + size <= budget) {
                        sums[(arrived + size) * grain - slots] += p * weight;
                    }
                }
            }
        }
        sums
    }
}

/// The probabilities of how many slots the CPU has served in the period (rows) and how many
/// grains have come (columns), as long as these are within some number.
struct ServedLaw {
    grain: usize,
    columns: usize,
    /// How many slots of work may be left in a cell that is kept.
    reach: usize,
    cells: Vec<f64>,
}

impl ServedLaw {
    fn new(starts: &[f64], most: usize, grain: usize) -> Self {
        let (columns, reach) = (most + 1, starts.len() * grain);
        let mut cells = vec![0.0; columns * (most * grain + 1)];
        for (cell, p) in cells[..columns].iter_mut().zip(starts).skip(1) {
            *cell = *p;
        }
        Self {
            grain,
            columns,
            reach,
            cells,
        }
    }

    fn rows(&self) -> usize {
        self.cells.len() / self.columns
    }

    /// The columns of a row that may hold something: no less has come than was served.
    fn window(&self, slots: usize) -> std::ops::Range<usize> {
        let last = ((slots + self.reach) / self.grain).min(self.columns - 1);
        slots.div_ceil(self.grain)..last + 1
    }

    fn at(&self, slots: usize, arrived: usize) -> f64 {
        self.cells[slots * self.columns + arrived]
    }

    /// One slot of the CPU.
    fn advance(&mut self) {
        for slots in (0..self.rows() - 1).rev() {
            // The next row has moved on already, but for what it had nothing left of.
            for arrived in self.window(slots).filter(|a| a * self.grain > slots) {
                let cell = slots * self.columns + arrived;
                self.cells[cell + self.columns] += std::mem::take(&mut self.cells[cell]);
            }
        }
    }

    fn arrive(&mut self, law: &LatticeLaw) {
        for slots in 0..self.rows() {
            let window = self.window(slots);
            let start = slots * self.columns;
            let row = &mut self.cells[start + window.start..start + window.end];
            if row.iter().any(|p| *p > 0.0) {
                let mut after = vec![0.0; row.len()];
                law.convolve_into(row, &mut after);
                row.copy_from_slice(&after);
            }
        }
    }

    /// Leaves out what has come to exactly so many grains.
    fn start_anew(&mut self, arrived: usize) {
        if arrived < self.columns {
            let column = self.cells.iter_mut().skip(arrived).step_by(self.columns);
            column.for_each(|p| *p = 0.0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::slotted::{ExecutionLaw, Resolution};
    use std::num::NonZeroU32;
    use tailbound_time::Rate;

    fn query(slots: u32) -> SlottedQuery {
        let us = Duration::from_micros;
        let law = ExecutionLaw::new(vec![(us(200), 0.6), (us(700), 0.4)]).unwrap();
        let rate = Rate::per_second(1_000.0).unwrap();
        let mut query = SlottedQuery::new(rate, law, us(1_200), us(2_050));
        query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(slots).unwrap());
        query
    }

    fn plan(slots: u32) -> SlotPlan {
        match SlotPlans::new(&query(slots), cost).unwrap() {
            SlotPlans::Exact(plan) => plan,
            rounded => panic!("{rounded:?}"),
        }
    }

    fn no_bins(plan: &SlotPlan) -> Bins {
        let tail = ResponseTail {
            factor: 1.0,
            per_second: 1e3,
            from_seconds: 0.0,
        };
        Bins::new(plan.slots, tail, Duration::ZERO)
    }

    /// The ballot theorem against the period followed piece by piece.
    #[test]
    fn both_ways_through_a_period_end_alike() {
        let plan = plan(24);
        let budget = plan.budget();
        let fluid = plan.fluid_seconds();
        let arrivals: Vec<_> = (0..=budget)
            .map(|slot| plan.work.law(fluid * slot as f64))
            .collect();
        let pass = Pass::new(&plan, 1.0);
        for start in [1, 4, 11, 12, 13, 40] {
            let mut starts = vec![0.0; 500];
            starts[start] = 1.0;
            let by_ballots = next_start(&starts, budget, &arrivals);
            let by_steps = pass.later_periods(&starts, &mut no_bins(&plan), &Unwatched);
            let by_steps = by_steps.unwrap();
            for left in 1..400 {
                let difference = by_steps[left + budget] - by_ballots[left];
                assert!(difference.abs() < 1e-13, "{start} {left}: {difference}");
            }
            // The server never goes through a period with less than its budget of work.
            assert!(by_steps[..=budget].iter().all(|p| *p <= 0.0));
        }
    }

    /// All of the time is accounted for: the part in cycles is the load of the processor of the
    /// bandwidth.
    #[test]
    fn the_time_in_cycles_is_the_load() {
        let plan = plan(24);
        let starts = period_starts(&plan, states(&plan), (1.0, &Unwatched)).unwrap();
        let pass = Pass::new(&plan, plan.work.per_second * (1.0 - plan.load()));
        let mut arrived = starts;
        arrived.resize(arrived.len() + plan.budget(), 0.0);
        let mut share = 0.0;
        for piece in &pass.pieces {
            share += pass.weight(piece) * arrived.iter().sum::<f64>();
            let mut after = vec![0.0; arrived.len()];
            pass.laws[piece.law].convolve_into(&arrived, &mut after);
            arrived = after;
            if let Some(m) = piece.fluid_grains {
                arrived[m] = 0.0;
            }
        }
        assert!(
            (share - plan.load()).abs() < 1e-8,
            "{share} {}",
            plan.load()
        );
        assert!(share <= plan.load() + 1e-13);
    }

    /// The pieces cover the period, and each ends at a slot of the CPU, a grain of the processor of
    /// the bandwidth, or both.
    #[test]
    fn pieces_cover_the_period() {
        let plan = plan(24);
        let pass = Pass::new(&plan, 1.0);
        let mut at = 0;
        let mut fluid = 0;
        for piece in &pass.pieces {
            assert_eq!(piece.from, at);
            assert!(piece.to > at);
            at = piece.to;
            fluid += usize::from(piece.fluid_grains.is_some());
        }
        assert_eq!(at, plan.slots.ticks_per_period());
        // Grains are of 100 us.
        assert_eq!((fluid, plan.budget()), (12, 12));
    }
}
