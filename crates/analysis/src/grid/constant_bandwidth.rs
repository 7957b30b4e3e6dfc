//! The hard constant-bandwidth server, as SCHED_DEADLINE implements it.
//!
//! Between two moments at which it would start anew, the server follows a processor of speed
//! budget / period: it starts anew exactly when that processor runs out of work. Its periods lie
//! on a grid from there, and each starts with what that processor has left
//! (docs/concepts/response-time-grid.md, "The constant-bandwidth server").

use std::collections::BTreeMap;

use super::bracket::{Bins, Tail};
use super::compound::LatticeLaw;
use super::slots::{Plan, Slots};
use super::{Found, GridPrediction, GridQuery, answer};
use crate::AnalysisError;

/// The share of time whose place in the cycle need not be known.
const UNPLACED: f64 = 1e-9;
/// What the workload at the start of a period exceeds with at most this probability is left out.
const TAIL: f64 = 1e-12;
/// What the iteration may cost, in elementary operations.
const MOST_OPERATIONS: f64 = 2e9;
/// The most slots of work that are told apart.
const MOST_STATES: f64 = 200_000.0;

/// The distribution of the response times on a hard constant-bandwidth server that is alone at
/// the highest priority of its CPU.
///
/// The rule is that of SCHED_DEADLINE with the deadline equal to the period: a used-up budget
/// comes back at the deadline, a period later the next one; on a wake-up at which the deadline has
/// passed, or the rest of the budget by the time to the deadline exceeds budget / period, both
/// start anew; otherwise they stay.
///
/// The answer is a proved bracket ([`tailbound_distribution::Evidence::Bound`]) if the budget and
/// all execution times are whole slots, otherwise an estimate; see
/// docs/concepts/response-time-grid.md.
///
/// # Errors
/// [`AnalysisError::Overloaded`] if the load is not below the bandwidth,
/// [`AnalysisError::Invalid`] if the reservation is none, [`AnalysisError::NotAnalysed`] for
/// execution times or periods that are too long for the grid.
pub fn constant_bandwidth(query: &GridQuery) -> Result<GridPrediction, AnalysisError> {
    let plan = Plan::new(query, cost)?;
    let solve = |plan: &Plan| solve(query, plan);
    let method = "M/G/1 on a hard constant-bandwidth server: busy periods of a processor of the \
                  same bandwidth (ballot theorem of Takács), by dynamic programming over one period";
    let of_server = [
        "the deadline is the period, and the kernel does not reclaim unused bandwidth",
        "budgets are enforced without delay (no throttling at ticks)",
    ];
    answer(query, &plan, solve, method, &of_server)
}

/// Slots of work beyond which a processor of the bandwidth hardly ever has any.
fn states(plan: &Plan) -> usize {
    let decay = plan.work.decay(plan.slots.fluid_slot_seconds());
    let reach = (1.0 / TAIL).ln() / decay.max(1e-9);
    reach.min(MOST_STATES) as usize + plan.work.sizes.len()
}

/// Roughly how many operations the plan takes.
fn cost(plan: &Plan) -> f64 {
    let slots = plan.slots;
    let budget = slots.per_budget as f64;
    let states = states(plan) as f64;
    let events = budget * (1.0 + 1.0 / slots.bandwidth());
    let terms = plan.work.law(slots.slot_seconds()).terms().len() as f64;
    let pairs = budget * states.min(budget);
    let jobs = plan.sizes().count() as f64;
    events * ((states + budget) * (terms + 2.0 * jobs) + 2.0 * pairs * (terms + 2.0))
}

fn solve(query: &GridQuery, plan: &Plan) -> Result<Found, AnalysisError> {
    let slots = plan.slots;
    let (load, rate) = (plan.load(), plan.work.per_second);
    // A processor of the same bandwidth never answers sooner, and its tail is Lundberg's.
    let decay = plan.work.decay(slots.fluid_slot_seconds());
    let per_second = decay / slots.fluid_slot_seconds();
    let tail = Tail {
        factor: 1.0 + per_second / rate,
        per_second,
        from_seconds: 0.0,
    };
    let mut bins = Bins::new(slots, tail, shortest(query, plan));
    for (size, weight) in plan.sizes() {
        let ticks = slots.ticks_to_give(size);
        bins.add_at_least(ticks, (1.0 - load) * weight);
        bins.add_at_most(ticks, (1.0 - load) * weight);
    }
    let starts = period_starts(plan, states(plan));
    let pass = Pass::new(plan, rate * (1.0 - load));
    pass.later_periods(&starts, &mut bins);
    pass.same_period(&starts, Side::Optimistic, &mut bins);
    pass.same_period(&starts, Side::Pessimistic, &mut bins);
    let bracket = bins.finish(0.0, query.dispatch_overhead)?;
    Ok(Found {
        bracket,
        proved: true,
    })
}

/// The shortest response; where execution times were rounded, the shortest rounded one.
fn shortest(query: &GridQuery, plan: &Plan) -> tailbound_time::Duration {
    let size = plan.sizes().next().map_or(0, |(size, _)| size);
    let rounded = plan
        .slots
        .time_down(size as u128 * plan.slots.ticks_per_slot());
    query.execution_times.shortest().min(rounded)
}

/// For every workload, how many periods of a cycle start with it in the mean; from below. Of the
/// time in cycles less than [`UNPLACED`] is left out, unless that costs too much.
fn period_starts(plan: &Plan, states: usize) -> Vec<f64> {
    let budget = plan.slots.per_budget;
    let fluid = plan.slots.fluid_slot_seconds();
    let arrivals: Vec<LatticeLaw> = (0..=budget)
        .map(|slot| plan.work.law(fluid * slot as f64))
        .collect();
    let mut current = vec![0.0; states + 1];
    for (size, weight) in plan.sizes() {
        if let Some(start) = current.get_mut(size).filter(|_| size > 0) {
            *start = weight;
        }
    }
    let mut total = current.clone();
    // A processor that lacks w slots is busy for w / (1 - load) of its slots in the mean, so
    // this is the share of all time that is still to be placed.
    let share = |current: &[f64]| {
        let work = current.iter().enumerate().map(|(w, p)| w as f64 * p);
        plan.load() * work.sum::<f64>() / plan.work.mean_size()
    };
    let terms = arrivals[budget].terms().len();
    let per_round = (states * (terms + 1)) as f64 + (budget * (budget + terms)) as f64;
    let rounds = (MOST_OPERATIONS / per_round) as usize + 1;
    for _ in 0..rounds {
        current = next_start(&current, budget, &arrivals);
        total.iter_mut().zip(&current).for_each(|(t, c)| *t += c);
        if share(&current) < UNPLACED {
            break;
        }
    }
    total
}

/// One period on, without those in which the processor of the bandwidth runs out of work.
///
/// From w it does so in its slot m with probability (w / m) Pr(m slots bring m - w) (ballot
/// theorem), after which the workload is what the remaining slots bring.
fn next_start(current: &[f64], budget: usize, arrivals: &[LatticeLaw]) -> Vec<f64> {
    let mut next = vec![0.0; current.len()];
    for (w, p) in current.iter().enumerate().filter(|(_, p)| **p > 0.0) {
        for (arrived, weight) in arrivals[budget].terms() {
            let end = (w + arrived).saturating_sub(budget);
            if let Some(sum) = next.get_mut(end).filter(|_| end > 0) {
                *sum += p * weight;
            }
        }
    }
    for m in 1..budget {
        let ballot =
            |w: usize| current.get(w).copied().unwrap_or(0.0) * w as f64 * arrivals[m].at(m - w);
        let empty = (1..=m).map(ballot).sum::<f64>() / m as f64;
        let left = budget - m;
        for (arrived, weight) in arrivals[left].terms() {
            let end = arrived.saturating_sub(left);
            if let Some(sum) = next.get_mut(end).filter(|_| end > 0) {
                *sum -= empty * weight;
            }
        }
    }
    next.iter_mut().for_each(|p| *p = p.max(0.0));
    next
}

/// Which end of the bracket is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Optimistic,
    Pessimistic,
}

/// A part of the period in which neither the processor of the bandwidth nor the CPU passes a
/// slot.
#[derive(Clone, Copy, Debug)]
struct Piece {
    from: u128,
    to: u128,
    /// The CPU's slot that it lies in.
    cpu_slot: usize,
    /// The slot of the processor of the bandwidth that ends with it.
    ends_fluid_slot: Option<usize>,
    /// Which of the laws of arrivals is that of its length.
    law: usize,
}

/// One period of a cycle, piece by piece.
struct Pass<'a> {
    plan: &'a Plan,
    slots: Slots,
    /// Cycles per second.
    cycles: f64,
    pieces: Vec<Piece>,
    laws: Vec<LatticeLaw>,
}

impl<'a> Pass<'a> {
    fn new(plan: &'a Plan, cycles: f64) -> Self {
        let slots = plan.slots;
        let fluid_ticks = 2 * u128::from(slots.period_ns);
        let end = slots.ticks_per_period();
        let mut pieces: Vec<Piece> = Vec::new();
        let mut laws = Vec::new();
        let mut known: BTreeMap<u128, usize> = BTreeMap::new();
        let (mut from, mut cpu_slot, mut fluid_slot) = (0, 0, 1);
        while from < end {
            let next_cpu = (cpu_slot as u128 + 1) * slots.ticks_per_slot();
            let next_fluid = fluid_slot as u128 * fluid_ticks;
            let to = next_cpu.min(next_fluid);
            let law = *known.entry(to - from).or_insert_with(|| {
                laws.push(plan.work.law(slots.seconds(to - from)));
                laws.len() - 1
            });
            let ends_fluid_slot = (to == next_fluid).then_some(fluid_slot);
            pieces.push(Piece {
                from,
                to,
                cpu_slot,
                ends_fluid_slot,
                law,
            });
            cpu_slot += usize::from(to == next_cpu);
            fluid_slot += usize::from(to == next_fluid);
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
    fn weight(&self, piece: &Piece) -> f64 {
        self.cycles * self.slots.seconds(piece.to - piece.from)
    }

    /// Adds the jobs that the budget of the period they come in does not suffice for. What work
    /// has come in the period, the job included, tells when such a job is done. Returns what has
    /// come by the end of the period, where the server did not start anew.
    fn later_periods(&self, starts: &[f64], bins: &mut Bins) -> Vec<f64> {
        let budget = self.slots.per_budget;
        let longest = self.plan.work.sizes.len();
        let mut arrived = starts.to_vec();
        arrived.resize(starts.len() + budget, 0.0);
        arrived[0] = 0.0;
        let jobs = LatticeLaw::new(self.plan.work.sizes.clone());
        let with_job = |arrived: &[f64]| {
            let mut sums = vec![0.0; arrived.len() + longest];
            jobs.convolve_into(arrived, &mut sums);
            sums
        };
        let mut needed = with_job(&arrived);
        for piece in &self.pieces {
            let weight = self.weight(piece);
            for (need, p) in needed.iter().enumerate().skip(budget + 1) {
                let done = self.slots.ticks_to_give(need);
                bins.add_at_least(done - piece.to, p * weight);
            }
            let mut after = vec![0.0; arrived.len()];
            self.laws[piece.law].convolve_into(&arrived, &mut after);
            arrived = after;
            needed = with_job(&arrived);
            for (need, p) in needed.iter().enumerate().skip(budget + 1) {
                let done = self.slots.ticks_to_give(need);
                bins.add_at_most(done - piece.from, p * weight);
            }
            if let Some(m) = piece.ends_fluid_slot {
                arrived[m] = 0.0;
                needed = with_job(&arrived);
            }
        }
        arrived
    }

    /// Adds the jobs that the budget of the period they come in suffices for: they are done when
    /// a CPU of its own would be. What it has served is rounded towards `side`, by a slot at
    /// most.
    fn same_period(&self, starts: &[f64], side: Side, bins: &mut Bins) {
        let shortest = self.plan.sizes().next().map_or(0, |(size, _)| size);
        let Some(most) = self.slots.per_budget.checked_sub(shortest) else {
            return;
        };
        let mut served = Served::new(starts, most);
        let per_slot = self.slots.ticks_per_slot();
        let mut cpu_slot = None;
        for piece in &self.pieces {
            let slot_start = piece.cpu_slot as u128 * per_slot;
            if cpu_slot != Some(piece.cpu_slot) {
                // Optimistic: what came in the slot that ended came at its start.
                if side == Side::Pessimistic || cpu_slot.is_some() {
                    served.advance();
                }
                cpu_slot = Some(piece.cpu_slot);
            }
            if side == Side::Optimistic {
                let late = piece.to - slot_start;
                for (need, p) in self.needed(&served).iter().enumerate() {
                    let ticks = need as u128 * per_slot;
                    bins.add_at_least(ticks.saturating_sub(late), p * self.weight(piece));
                }
            }
            served.arrive(&self.laws[piece.law]);
            if side == Side::Pessimistic {
                let late = slot_start + per_slot - piece.from;
                for (need, p) in self.needed(&served).iter().enumerate() {
                    let ticks = need as u128 * per_slot;
                    bins.add_at_most(ticks + late, p * self.weight(piece));
                }
            }
            if let Some(m) = piece.ends_fluid_slot {
                served.start_anew(m);
            }
        }
    }

    /// By what the CPU has left, the job included: the probability of that, where the budget
    /// suffices.
    fn needed(&self, served: &Served) -> Vec<f64> {
        let budget = self.slots.per_budget;
        let longest = self.plan.work.sizes.len().min(budget + 1);
        let mut sums = vec![0.0; served.width + longest];
        let mut up_to = vec![0.0; budget + 1];
        for left in 0..served.width {
            let mut sum = 0.0;
            for (s, slot) in up_to.iter_mut().enumerate() {
                sum += served.at(s, left);
                *slot = sum;
            }
            for (size, weight) in self.plan.sizes() {
                if let Some(most) = budget.checked_sub(size + left) {
                    sums[left + size] += weight * up_to[most];
                }
            }
        }
        sums
    }
}

/// The probabilities of what the CPU has served in the period (rows) and has left (columns), as
/// long as both together are within `most`.
struct Served {
    most: usize,
    width: usize,
    rows: Vec<Vec<f64>>,
}

impl Served {
    fn new(starts: &[f64], most: usize) -> Self {
        let width = starts.len().min(most + 1);
        let mut rows: Vec<Vec<f64>> = (0..=most)
            .map(|served| vec![0.0; width.min(most - served + 1)])
            .collect();
        for (slot, p) in rows[0].iter_mut().zip(starts).skip(1) {
            *slot = *p;
        }
        Self { most, width, rows }
    }

    fn at(&self, served: usize, left: usize) -> f64 {
        let row = self.rows.get(served).map_or(&[][..], Vec::as_slice);
        row.get(left).copied().unwrap_or(0.0)
    }

    /// One slot of the CPU.
    fn advance(&mut self) {
        for served in (0..self.most).rev() {
            let (before, after) = self.rows.split_at_mut(served + 1);
            let (row, next) = (&mut before[served], &mut after[0]);
            // The next row has moved on already, but for what it had nothing left of.
            for (to, from) in next.iter_mut().zip(&mut row[1..]) {
                *to += std::mem::take(from);
            }
        }
    }

    fn arrive(&mut self, law: &LatticeLaw) {
        for row in self
            .rows
            .iter_mut()
            .filter(|row| row.iter().any(|p| *p > 0.0))
        {
            let mut after = vec![0.0; row.len()];
            law.convolve_into(row, &mut after);
            *row = after;
        }
    }

    /// Leaves out what has come to exactly `arrived` slots.
    fn start_anew(&mut self, arrived: usize) {
        for (served, row) in self.rows.iter_mut().enumerate().take(arrived + 1) {
            if let Some(p) = row.get_mut(arrived - served) {
                *p = 0.0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::grid::{ExecutionLaw, Resolution};
    use std::num::NonZeroU32;
    use tailbound_time::{Duration, Rate};

    fn query(slots: u32) -> GridQuery {
        let us = Duration::from_micros;
        let law = ExecutionLaw::new(vec![(us(200), 0.6), (us(700), 0.4)]).unwrap();
        let rate = Rate::per_second(1_000.0).unwrap();
        let mut query = GridQuery::new(rate, law, us(1_200), us(2_050));
        query.resolution = Resolution::SlotsPerBudget(NonZeroU32::new(slots).unwrap());
        query
    }

    fn no_bins(plan: &Plan) -> Bins {
        let tail = Tail {
            factor: 1.0,
            per_second: 1e3,
            from_seconds: 0.0,
        };
        Bins::new(plan.slots, tail, Duration::ZERO)
    }

    /// The ballot theorem against the period followed piece by piece.
    #[test]
    fn both_ways_through_a_period_end_alike() {
        let plan = Plan::new(&query(24), cost).unwrap();
        let budget = plan.slots.per_budget;
        let fluid = plan.slots.fluid_slot_seconds();
        let arrivals: Vec<_> = (0..=budget)
            .map(|slot| plan.work.law(fluid * slot as f64))
            .collect();
        let pass = Pass::new(&plan, 1.0);
        for start in [1, 4, 14, 24, 25, 60] {
            let mut starts = vec![0.0; 500];
            starts[start] = 1.0;
            let by_ballots = next_start(&starts, budget, &arrivals);
            let by_steps = pass.later_periods(&starts, &mut no_bins(&plan));
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
        let plan = Plan::new(&query(24), cost).unwrap();
        let starts = period_starts(&plan, states(&plan));
        let pass = Pass::new(&plan, plan.work.per_second * (1.0 - plan.load()));
        let mut arrived = starts;
        arrived.resize(arrived.len() + plan.slots.per_budget, 0.0);
        let mut share = 0.0;
        for piece in &pass.pieces {
            share += pass.weight(piece) * arrived.iter().sum::<f64>();
            let mut after = vec![0.0; arrived.len()];
            pass.laws[piece.law].convolve_into(&arrived, &mut after);
            arrived = after;
            if let Some(m) = piece.ends_fluid_slot {
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

    /// The pieces cover the period, and each ends at a slot of the CPU, of the processor of the
    /// bandwidth, or of both.
    #[test]
    fn pieces_cover_the_period() {
        let plan = Plan::new(&query(24), cost).unwrap();
        let pass = Pass::new(&plan, 1.0);
        let mut at = 0;
        let mut fluid = 0;
        for piece in &pass.pieces {
            assert_eq!(piece.from, at);
            assert!(piece.to > at);
            at = piece.to;
            fluid += usize::from(piece.ends_fluid_slot.is_some());
        }
        assert_eq!(at, plan.slots.ticks_per_period());
        assert_eq!(fluid, 24);
    }
}
