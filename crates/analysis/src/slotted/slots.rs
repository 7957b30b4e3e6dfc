//! The lattice: the budget cut into whole slots.
//!
//! The budget always lies on the lattice; the period need not. Time is cut into slots, work into
//! grains of one or more slots, the largest that make the budget and all execution times whole:
//! finer slots place the arrivals better, but there is no more work to tell apart. Instants within
//! a period are counted in ticks, of which a nanosecond has twice as many as the budget has slots:
//! all instants that matter are whole ticks, and so are half slots.

use num_integer::gcd;
use tailbound_time::Duration;

use super::compound::{GrainWork, MOST_JOBS};
use super::{Resolution, SlottedQuery};
use crate::AnalysisError;
use crate::batches::BatchSizes;

/// Slots per mean execution time that are aimed at.
const FINE: f64 = 64.0;
/// Slots per budget that are aimed at, at least.
const FEWEST: usize = 16;
/// Slots per budget that have to do where more would take too many operations, since jobs take many budgets.
const COARSEST: usize = 2;
/// The most slots per budget.
const MOST: usize = 2_048;
/// The most slots of one job.
const LONGEST_JOB: u64 = 100_000;
/// The same where the execution times have a law with a long tail, whose every length counts.
const LONGEST_JOB_OF_RANGE: u64 = 20_000;
/// Elementary operations that a finer lattice may cost.
const AFFORDED: f64 = 1e9;
/// Elementary operations that an exact lattice may cost, where there is no coarser exact one.
const AFFORDED_FOR_EXACTNESS: f64 = 3e9;
/// Elementary operations that a lattice may cost that serves one end of the bracket only.
const AFFORDED_FOR_ONE_END: f64 = 5e8;
/// By so many times as much, at most, a lattice may cost for batches.
const MORE_FOR_BATCHES: f64 = 8.0;
/// The load of a rounded plan above which it is not solved.
const STABLE: f64 = 1.0 - 1e-6;
/// The most execution times for which fitting lattices are searched for.
const FEW_ATOMS: usize = 64;
/// By how much, of itself, rounding may move the share of time without work before more grains are worth their cost.
const HARDLY: f64 = 1e-5;
/// Elementary operations beyond which there is no answer.
const MOST_OPERATIONS: f64 = 6e9;
/// The part of all these operations that a rough answer may cost.
const ROUGH: f64 = 0.01;

/// The lattice of one reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    pub budget_ns: u64,
    pub period_ns: u64,
    /// How many slots the budget has.
    pub per_budget: usize,
}

impl Slots {
    pub(super) fn ticks_per_slot(self) -> u128 {
        2 * u128::from(self.budget_ns)
    }

    pub(super) fn ticks_per_period(self) -> u128 {
        2 * self.per_budget as u128 * u128::from(self.period_ns)
    }

    pub(super) fn seconds(self, ticks: u128) -> f64 {
        ticks as f64 * 1e-9 / (2.0 * self.per_budget as f64)
    }

    pub(super) fn slot_seconds(self) -> f64 {
        self.seconds(self.ticks_per_slot())
    }

    pub(super) fn period_seconds(self) -> f64 {
        self.period_ns as f64 * 1e-9
    }

    pub(super) fn bandwidth(self) -> f64 {
        self.budget_ns as f64 / self.period_ns as f64
    }

    pub(super) fn time_down(self, ticks: u128) -> Duration {
        saturated(ticks / (2 * self.per_budget as u128))
    }

    pub(super) fn time_up(self, ticks: u128) -> Duration {
        saturated(ticks.div_ceil(2 * self.per_budget as u128))
    }
}

fn saturated(nanos: u128) -> Duration {
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// A load on a lattice.
#[derive(Clone, Debug)]
pub(super) struct SlotPlan {
    pub slots: Slots,
    /// How many slots a grain of work takes.
    pub grain: usize,
    /// The load: batches of jobs, their sizes in grains.
    pub work: GrainWork,
    /// The law of a job with those of its batch before it, in grains; as long as that of the batches' sizes.
    pub jobs: Vec<f64>,
    /// Whether all execution times are whole slots.
    pub exact: bool,
}

/// The lattices of a load.
#[derive(Clone, Debug)]
pub(super) enum SlotPlans {
    /// On this one nothing is rounded.
    Exact(SlotPlan),
    /// Execution times rounded down on one and up on the other. `up` is `None` where the load would be too much
    /// for the reservation.
    Rounded {
        down: SlotPlan,
        up: Option<SlotPlan>,
    },
    /// No lattice is cheap enough for a rough answer: nothing is solved on this one.
    Unsolved(SlotPlan),
}

/// Which way an execution time between two slots is rounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SlotRounding {
    Down,
    Up,
}

impl SlotRounding {
    /// So many slots of which `per_budget` are a budget, as a whole number, and by what part of a slot it was
    /// rounded.
    fn whole(self, value: Duration, per_budget: usize, budget_ns: u64) -> (u128, f64) {
        let (scaled, budget) = match value.as_nanos().checked_mul(per_budget as u64) {
            // Nearly all fit into the numbers that a CPU divides fast.
            Some(scaled) => {
                let (whole, rest) = (scaled / budget_ns, scaled % budget_ns);
                return self.of_parts(u128::from(whole), rest as f64 / budget_ns as f64);
            }
            None => (
                u128::from(value.as_nanos()) * per_budget as u128,
                u128::from(budget_ns),
            ),
        };
        self.of_parts(scaled / budget, (scaled % budget) as f64 / budget as f64)
    }

    fn of_parts(self, whole: u128, part: f64) -> (u128, f64) {
        match self {
            Self::Down => (whole, part),
            Self::Up if part > 0.0 => (whole + 1, 1.0 - part),
            Self::Up => (whole, 0.0),
        }
    }
}

impl Resolution {
    /// The part of the operations of an automatic grid that this one may cost.
    pub(super) fn effort(self) -> f64 {
        match self {
            Self::Rough => ROUGH,
            Self::Automatic | Self::SlotsPerBudget(_) => 1.0,
        }
    }
}

/// How the lattice is laid: the budget has `grains`, to which execution times are rounded, and each of them
/// `refinement` slots.
#[derive(Clone, Copy, Debug)]
struct Fineness {
    grains: usize,
    refinement: usize,
}

impl SlotPlans {
    /// The load's lattices; `cost` tells roughly how many operations a plan would take.
    pub(super) fn new(
        query: &SlottedQuery,
        cost: impl Fn(&SlotPlan) -> f64,
    ) -> Result<Self, AnalysisError> {
        check(query)?;
        if let Resolution::SlotsPerBudget(count) = query.resolution {
            let count = usize::try_from(count.get()).unwrap_or(usize::MAX);
            if count > MOST {
                return Err(AnalysisError::Invalid {
                    what: format!("{count} slots per budget are too many; the most are {MOST}"),
                });
            }
            let fineness = Fineness {
                grains: count,
                refinement: 1,
            };
            let down = SlotPlan::on(query, fineness, SlotRounding::Down)?;
            let down = down.if_affordable(&cost, 1.0)?;
            if down.exact {
                return Ok(Self::Exact(down));
            }
            let up = SlotPlan::on(query, fineness, SlotRounding::Up)?;
            let up = up.stable().map(|up| up.if_affordable(&cost, 1.0));
            let up = up.transpose()?;
            return Ok(Self::Rounded { down, up });
        }
        if let Some(plan) = SlotPlan::exact(query, &cost) {
            return Ok(Self::Exact(plan));
        }
        match Self::rounded(query, cost) {
            Err(AnalysisError::NotAnalysed { .. }) if query.resolution == Resolution::Rough => {
                Ok(Self::Unsolved(SlotPlan::on(
                    query,
                    Fineness {
                        grains: COARSEST,
                        refinement: 1,
                    },
                    SlotRounding::Down,
                )?))
            }
            plans => plans,
        }
    }

    fn rounded(
        query: &SlottedQuery,
        cost: impl Fn(&SlotPlan) -> f64,
    ) -> Result<Self, AnalysisError> {
        let up = SlotPlan::rounded(query, SlotRounding::Up, &cost)?;
        Ok(Self::Rounded {
            down: SlotPlan::rounded(query, SlotRounding::Down, &cost)?,
            up: up.stable(),
        })
    }
}

impl SlotPlans {
    /// The length of the longest slots, rounded up.
    pub(super) fn slot(&self) -> Duration {
        let length = |plan: &SlotPlan| plan.slots.time_up(plan.slots.ticks_per_slot());
        match self {
            Self::Exact(plan)
            | Self::Unsolved(plan)
            | Self::Rounded {
                down: plan,
                up: None,
            } => length(plan),
            Self::Rounded { down, up: Some(up) } => length(down).max(length(up)),
        }
    }
}

impl SlotPlan {
    /// A plan on which nothing is rounded, if there is one and it costs not too much.
    fn exact(query: &SlottedQuery, cost: impl Fn(&Self) -> f64) -> Option<Self> {
        let aim = aimed_at(query);
        if query.execution_times.is_range() {
            return None;
        }
        let grains = coarsest_exact(query).filter(|count| *count <= MOST)?;
        let mut refinement = aim.div_ceil(grains).min(MOST / grains).max(1);
        loop {
            let fineness = Fineness { grains, refinement };
            let afforded = if refinement == 1 {
                AFFORDED_FOR_EXACTNESS
            } else {
                AFFORDED
            };
            match Self::on(query, fineness, SlotRounding::Down) {
                Ok(plan) if cost(&plan) <= query.resolution.effort() * afforded => {
                    return Some(plan);
                }
                _ if refinement > 1 => refinement = (refinement * 3 / 4).max(1),
                _ => return None,
            }
        }
    }

    /// A plan on which execution times are rounded as little as can be afforded.
    fn rounded(
        query: &SlottedQuery,
        rounding: SlotRounding,
        cost: impl Fn(&Self) -> f64,
    ) -> Result<Self, AnalysisError> {
        let mut aim = aimed_at(query);
        // The same slots for longer work take as many times the states, and the steps from each.
        let more = query.batch_law().mean().powi(2).min(MORE_FOR_BATCHES);
        let effort = query.resolution.effort();
        let afforded = |aim: usize| match aim > FEWEST {
            true => effort * more * AFFORDED_FOR_ONE_END,
            false => effort * MOST_OPERATIONS,
        };
        let coarser = |aim: usize| match aim > FEWEST {
            true => (aim * 3 / 4).max(FEWEST),
            false => (aim * 3 / 4).max(COARSEST),
        };
        loop {
            let grains = least_rounded(query, rounding, aim);
            let refinement = aim.div_ceil(grains).min(MOST / grains).max(1);
            match Self::on(query, Fineness { grains, refinement }, rounding) {
                Ok(plan) if cost(&plan) <= afforded(aim) => return Ok(plan),
                plan if aim <= COARSEST => return plan?.if_affordable(&cost, effort),
                _ => aim = coarser(aim),
            }
        }
    }

    /// Whether the grid has fewer slots per budget than are aimed at.
    pub(super) fn is_coarse(&self) -> bool {
        self.slots.per_budget < FEWEST
    }

    /// The plan itself, unless its load is more than the reservation gives.
    fn stable(self) -> Option<Self> {
        (self.load() < STABLE).then_some(self)
    }

    /// The plan itself, unless it costs more than this part of all operations.
    fn if_affordable(
        self,
        cost: impl Fn(&Self) -> f64,
        effort: f64,
    ) -> Result<Self, AnalysisError> {
        let operations = cost(&self);
        if operations <= effort * MOST_OPERATIONS {
            return Ok(self);
        }
        Err(AnalysisError::NotAnalysed {
            reason: format!(
                "a grid of {} slots per budget would take {operations:.0e} operations, more than \
                 {MOST_OPERATIONS:.0e}",
                self.slots.per_budget
            ),
        })
    }

    /// The load on a lattice of this fineness.
    fn on(
        query: &SlottedQuery,
        fineness: Fineness,
        rounding: SlotRounding,
    ) -> Result<Self, AnalysisError> {
        let Fineness { grains, refinement } = fineness;
        let per_budget = grains * refinement;
        let slots = Slots {
            budget_ns: query.budget.as_nanos(),
            period_ns: query.period.as_nanos(),
            per_budget,
        };
        let longest_job = match query.execution_times.is_range() {
            true => LONGEST_JOB_OF_RANGE,
            false => LONGEST_JOB,
        };
        let mut sizes: Vec<f64> = Vec::new();
        let mut exact = !query.execution_times.is_range();
        for (value, probability) in query.execution_times.atoms_rounded(rounding) {
            let (whole, moved) = rounding.whole(*value, grains, slots.budget_ns);
            if whole * refinement as u128 >= u128::from(longest_job) {
                return Err(AnalysisError::NotAnalysed {
                    reason: format!(
                        "an execution time of {value} is more than {} budgets of {}",
                        longest_job / per_budget as u64,
                        query.budget
                    ),
                });
            }
            let size = whole as usize * refinement;
            exact &= moved <= 0.0;
            if sizes.len() <= size {
                sizes.resize(size + 1, 0.0);
            }
            sizes[size] += probability;
        }
        let present = |(size, weight): (usize, &f64)| (*weight > 0.0).then_some(size);
        let present = sizes.iter().enumerate().filter_map(present);
        let grain = present.fold(per_budget, |common, size| {
            gcd(common as u64, size as u64) as usize
        });
        let one: Vec<f64> = sizes.into_iter().step_by(grain.max(1)).collect();
        let BatchSizes { total, tagged } = query.batch_law().sizes(&one)?;
        let work = GrainWork {
            per_second: query.rate.as_per_second(),
            sizes: total,
        };
        Ok(Self {
            slots,
            grain,
            work,
            jobs: tagged,
            exact,
        })
    }

    /// The batches' sizes in grains, with their probabilities.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (usize, f64)> {
        present(&self.work.sizes)
    }

    /// The sizes in grains of a job with those of its batch before it, with their probabilities.
    pub(super) fn jobs(&self) -> impl Iterator<Item = (usize, f64)> {
        present(&self.jobs)
    }

    /// The size of the shortest jobs, in grains.
    pub(super) fn shortest(&self) -> usize {
        self.jobs().next().map_or(0, |(size, _)| size)
    }

    /// The budget in grains.
    pub(super) fn budget(&self) -> usize {
        self.slots.per_budget / self.grain
    }

    /// The time that a CPU takes for so many grains.
    pub(super) fn ticks(&self, grains: usize) -> u128 {
        (grains * self.grain) as u128 * self.slots.ticks_per_slot()
    }

    /// The time in which a processor of the reservation's bandwidth serves one grain.
    pub(super) fn fluid_ticks(&self) -> u128 {
        2 * self.grain as u128 * u128::from(self.slots.period_ns)
    }

    /// The same in seconds.
    pub(super) fn fluid_seconds(&self) -> f64 {
        self.slots.seconds(self.fluid_ticks())
    }

    /// From the start of a period to when a server that has full budgets from there on, and work,
    /// has given so many grains: j periods and the rest, where that rest is above zero.
    pub(super) fn ticks_to_give(&self, grains: usize) -> u128 {
        let whole = grains.saturating_sub(1) / self.budget();
        let rest = grains - whole * self.budget();
        whole as u128 * self.slots.ticks_per_period() + self.ticks(rest)
    }

    /// The load as a share of what the reservation gives.
    pub(super) fn load(&self) -> f64 {
        self.work.per_second * self.work.mean_size() * self.fluid_seconds()
    }

    /// Roughly how many operations it takes to compute so many laws of what comes within a period.
    pub(super) fn cost_of_laws(&self, count: f64) -> f64 {
        let longest = self.work.law(self.slots.period_seconds());
        let length = longest.terms().last().map_or(0, |(place, _)| *place);
        count * length as f64 * self.sizes().count() as f64
    }

    /// How many periods it takes, roughly, until of what can only last while a processor of the
    /// bandwidth is busy no more than `share` is left.
    pub(super) fn periods_to_forget(&self, share: f64) -> f64 {
        let per_period = self.work.relaxation(self.fluid_seconds()) * self.budget() as f64;
        (1.0 / share).ln() / per_period.max(1e-12) + 1.0
    }
}

/// The values of a law that have a probability, and which.
fn present(law: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let atoms = law.iter().copied().enumerate();
    atoms.filter(|(_, weight)| *weight > 0.0)
}

/// How many slots of a budget are aimed at.
fn aimed_at(query: &SlottedQuery) -> usize {
    let mean_ns = query.execution_times.mean_seconds() * 1e9;
    let aim = (FINE * query.budget.as_nanos() as f64 / mean_ns).ceil() as usize;
    aim.clamp(FEWEST, MOST)
}

/// Up to `most`, how many grains of a budget round the execution times by the least in the mean: the fewest for which
/// rounding hardly matters, if there are such.
fn least_rounded(query: &SlottedQuery, rounding: SlotRounding, most: usize) -> usize {
    let atoms = query.execution_times.atoms_rounded(rounding);
    if atoms.len() > FEW_ATOMS {
        return most;
    }
    let budget_ns = query.budget.as_nanos();
    let mean_ns = query.execution_times.mean_seconds() * 1e9;
    // By how much the share of time without work changes, of itself.
    let load = query.utilisation() / query.bandwidth();
    let sensitivity = load / (1.0 - load) / mean_ns;
    let moved = |grains: usize| {
        let grain_ns = budget_ns as f64 / grains as f64;
        let of = |(value, p): &(Duration, f64)| rounding.whole(*value, grains, budget_ns).1 * p;
        sensitivity * grain_ns * atoms.iter().map(of).sum::<f64>()
    };
    let mut best = (f64::INFINITY, most);
    for grains in 1..=most {
        let moved = moved(grains);
        if moved < best.0 {
            best = (moved, grains);
        }
        if moved <= HARDLY {
            break;
        }
    }
    best.1
}

/// How many slots make the budget and all execution times whole, at least.
fn coarsest_exact(query: &SlottedQuery) -> Option<usize> {
    let budget = query.budget.as_nanos();
    let atoms = query.execution_times.atoms();
    let common = atoms
        .iter()
        .fold(budget, |common, (value, _)| gcd(common, value.as_nanos()));
    usize::try_from(budget.checked_div(common)?).ok()
}

fn check(query: &SlottedQuery) -> Result<(), AnalysisError> {
    if query.budget.is_zero() || query.budget > query.period {
        return Err(AnalysisError::Invalid {
            what: format!(
                "a budget of {} in a period of {} is none; it must be above zero and at most the \
                 period",
                query.budget, query.period
            ),
        });
    }
    let (utilisation, bandwidth) = (query.utilisation(), query.bandwidth());
    if utilisation >= bandwidth {
        let remedy = if utilisation < 1.0 {
            let least = utilisation * query.period.as_secs_f64();
            format!(
                "give a budget above {} in {}, or send fewer or shorter requests",
                Duration::from_secs_f64_nearest(least),
                query.period
            )
        } else {
            "no bandwidth of one CPU suffices; send fewer or shorter requests".into()
        };
        return Err(AnalysisError::Overloaded {
            utilisation,
            bandwidth,
            remedy,
        });
    }
    let jobs = query.rate.expected_in(query.period);
    if jobs > MOST_JOBS {
        return Err(AnalysisError::NotAnalysed {
            reason: format!(
                "{jobs:.0} jobs are expected in a period; the grid holds {MOST_JOBS:.0}"
            ),
        });
    }
    Ok(())
}
