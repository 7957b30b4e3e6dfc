//! Poisson arrivals, first come first served: M/G/1 on deferrable, periodic and dedicated CPUs.
//!
//! The method and its proof stand in docs/concepts/response-time.md. In short: execution times
//! and budget are rounded outward to a lattice; on it the workload at period starts solves a
//! fixed point that first-passage probabilities close, and the distribution function follows from
//! the workload at every place in the period. Both ends of the bracket are bounds at every step
//! of the computation.

mod boundary;
mod compound;
mod fourier;
mod response;
mod rounding;

use num_integer::gcd;
use tailbound_distribution::{Distribution, Provenance, StepCdf};
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use crate::AnalysisError;
use crate::response_time::BudgetUse;
use boundary::{LatticeQueue, Passages};
use compound::LatticeWork;
use response::LatticeResponses;
pub(super) use rounding::{Lattice, Law, Side};

/// What the results are rounded outward by, for what floating point and neglected tails do.
const GUARD: f64 = 1e-9;
/// The share of the jobs whose response times need no bound.
const REST: f64 = 1e-6;
/// Points per mean execution time that suffice.
const FINE: f64 = 128.0;
/// Points per mean execution time that are worth a longer computation.
const COARSE: f64 = 32.0;
/// The most points per period: what bounds the computing time.
const MOST_POINTS: usize = 640;
/// The most points per period where many short jobs fit into it.
const MOST_POINTS_SHORT_JOBS: usize = 1_600;
/// The most pairs of a place in the period and a response time.
const MOST_PAIRS: usize = 40_000_000;

/// A task: how often its jobs come, and how long they run.
#[derive(Clone, Debug)]
pub(super) struct JobStream {
    /// Jobs per second, all clients together.
    pub per_second: f64,
    /// Their execution times.
    pub law: Law,
}

/// A pair of distribution functions that enclose the true one.
#[derive(Clone, Debug)]
pub(super) struct Enclosure {
    pub optimistic: StepCdf,
    pub pessimistic: StepCdf,
}

impl Enclosure {
    /// The functions of all jobs and of each task's, paired side by side: the first is of all jobs.
    pub(super) fn pairs(
        optimistic: Vec<StepCdf>,
        pessimistic: Vec<StepCdf>,
    ) -> Result<(Self, Vec<Self>), AnalysisError> {
        let sides = optimistic.into_iter().zip(pessimistic);
        let mut pairs = sides.map(|(optimistic, pessimistic)| Self {
            optimistic,
            pessimistic,
        });
        let overall = pairs.next().ok_or_else(|| AnalysisError::Invalid {
            what: "the service has no task; it needs one".into(),
        })?;
        Ok((overall, pairs.collect()))
    }

    pub(super) fn into_distribution(self, provenance: Provenance) -> Distribution {
        Distribution::from_bracket(provenance, self.optimistic, self.pessimistic)
    }
}

/// The response times of the jobs of all `streams` together, and of each.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] for servers and sizes outside the method.
pub(super) fn response_times(
    streams: &[JobStream],
    server: ReservationServer,
    overhead: Duration,
) -> Result<(Enclosure, Vec<Enclosure>, Duration), AnalysisError> {
    let load: f64 = streams
        .iter()
        .map(|s| s.per_second * s.law.mean_seconds())
        .sum();
    let rate: f64 = streams.iter().map(|s| s.per_second).sum();
    let (budget, period, kind) = match server {
        ReservationServer::Deferrable { budget, period } => {
            (budget, period, Some(BudgetUse::Deferrable))
        }
        ReservationServer::Periodic { budget, period } => {
            (budget, period, Some(BudgetUse::Periodic))
        }
        ReservationServer::Dedicated => {
            // Any period does; eight mean execution times keep the lattice in proportion.
            let period = Duration::from_secs_f64_nearest(8.0 * load / rate);
            let period = period.max(Duration::from_nanos(1));
            (period, period, None)
        }
        ReservationServer::Simulated { .. } => {
            return Err(AnalysisError::only_simulated());
        }
        ReservationServer::Polling { .. } | ReservationServer::ConstantBandwidth { .. } => {
            return Err(AnalysisError::NotAnalysed {
                reason: "this server follows the arrivals, for which several at a time have \
                         no analysis of ours"
                    .into(),
            });
        }
    };
    let plan = LatticePlan {
        streams,
        budget,
        period,
        kind,
        rate,
        overhead,
    };
    let lattice = plan.lattice();
    // The two sides have nothing in common but the lattice: one thread each.
    let (optimistic, pessimistic) = std::thread::scope(|scope| {
        let other = scope.spawn(|| plan.side(lattice, Side::Pessimistic));
        (plan.side(lattice, Side::Optimistic), other.join())
    });
    let pessimistic = pessimistic.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let (overall, per_task) = Enclosure::pairs(optimistic?, pessimistic)?;
    Ok((overall, per_task, lattice.time(1, Side::Pessimistic)))
}

struct LatticePlan<'a> {
    streams: &'a [JobStream],
    budget: Duration,
    period: Duration,
    kind: Option<BudgetUse>,
    rate: f64,
    overhead: Duration,
}

impl LatticePlan<'_> {
    /// The finest lattice within the computing time that divides budget and execution times
    /// exactly, if there is one; else one that divides the budget; else the finest.
    fn lattice(&self) -> Lattice {
        let period_ns = self.period.as_nanos().max(1);
        let mean_ns = self
            .streams
            .iter()
            .map(|s| s.per_second * s.law.mean_seconds())
            .sum::<f64>()
            / self.rate
            * 1e9;
        let jobs_per_period = period_ns as f64 / mean_ns.max(1.0);
        let limit =
            ((COARSE * jobs_per_period) as usize).clamp(MOST_POINTS, MOST_POINTS_SHORT_JOBS);
        let most = ((FINE * jobs_per_period).ceil() as usize).clamp(4, limit);
        let with_budget = gcd(period_ns, self.budget.as_nanos());
        let mut values = self.streams.iter().map(|s| s.law.few_values());
        let common = values.try_fold(with_budget, |divisor, values| {
            Some(values?.into_iter().fold(divisor, gcd))
        });
        let fitting = [common, Some(with_budget)]
            .into_iter()
            .flatten()
            .find_map(|divisor| {
                let least = usize::try_from(period_ns / divisor.max(1)).ok()?;
                (least <= most).then(|| most / least * least)
            });
        Lattice {
            period_ns,
            points: fitting.unwrap_or(most),
        }
    }

    /// The distribution functions of all jobs and of each stream's, towards one side.
    fn side(&self, lattice: Lattice, side: Side) -> Result<Vec<StepCdf>, AnalysisError> {
        let laws: Vec<_> = self
            .streams
            .iter()
            .map(|s| s.law.on(lattice, side))
            .collect();
        let mixture = self.mixture(&laws);
        let work = LatticeWork {
            jobs_per_step: self.rate * lattice.step_seconds(),
            sizes: mixture.clone(),
        };
        let budget = lattice.steps(self.budget.as_nanos(), side == Side::Optimistic);
        let queue = LatticeQueue {
            work,
            budget_steps: budget,
            period_steps: lattice.points,
        };
        if queue.work.load() * queue.period_steps as f64 >= budget as f64 {
            return match side {
                Side::Pessimistic => Err(AnalysisError::NotAnalysed {
                    reason: format!(
                        "rounded up to steps of {}, the execution times need all of the \
                         reservation: they are too short against the period, or the load is too \
                         close to the bandwidth",
                        lattice.time(1, side)
                    ),
                }),
                Side::Optimistic => Err(AnalysisError::Invalid {
                    what: "the load is not below the bandwidth".into(),
                }),
            };
        }
        let mut jobs = vec![mixture];
        if laws.len() > 1 {
            jobs.extend(laws);
        }
        let length = self.length(&queue, &jobs[0]);
        let mut found = match self.kind {
            None => {
                let of = |job: &Vec<f64>| response::dedicated(&queue.work, job, side, length);
                jobs.iter().map(of).collect::<Vec<_>>()
            }
            Some(kind) => {
                let passages = Passages::of(&queue);
                let start = boundary::workload(&queue, &passages, side);
                let responses = LatticeResponses {
                    queue: &queue,
                    passages: &passages,
                    start: &start,
                    kind,
                    side,
                };
                jobs.iter().map(|job| responses.of(job, length)).collect()
            }
        };
        if jobs.len() == 1 {
            found.push(found[0].clone());
        }
        let of_streams = self.streams.iter().map(|stream| stream.law.shortest_ns());
        let of_all = of_streams.clone().min().unwrap_or(0);
        let shortest = std::iter::once(of_all).chain(of_streams);
        let shortest = shortest.map(Duration::from_nanos);
        found
            .iter()
            .zip(shortest)
            .map(|(values, shortest)| self.steps(lattice, side, values, shortest))
            .collect()
    }

    fn mixture(&self, laws: &[Vec<f64>]) -> Vec<f64> {
        let longest = laws.iter().map(Vec::len).max().unwrap_or(1);
        let mut mixture = vec![0.0; longest];
        for (stream, law) in self.streams.iter().zip(laws) {
            let share = stream.per_second / self.rate;
            mixture
                .iter_mut()
                .zip(law)
                .for_each(|(sum, weight)| *sum += share * weight);
        }
        mixture
    }

    /// Steps of response time that hold all but the rest of the jobs, by the bound of the tail.
    fn length(&self, queue: &LatticeQueue, job: &[f64]) -> usize {
        let decay = queue
            .work
            .decay(queue.budget_steps as f64 / queue.period_steps as f64);
        let behind = (1.0 / REST).ln() / decay + job.len() as f64;
        let periods = behind / queue.budget_steps as f64 + 2.0;
        let length = match self.kind {
            None => behind,
            Some(_) => periods * queue.period_steps as f64,
        };
        (length as usize).clamp(4, MOST_PAIRS / queue.period_steps)
    }

    /// The function as steps in time, rounded outward, without steps that say nothing new. No response is shorter than
    /// `shortest`, which the lattice rounds down.
    fn steps(
        &self,
        lattice: Lattice,
        side: Side,
        values: &[f64],
        shortest: Duration,
    ) -> Result<StepCdf, AnalysisError> {
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        for (k, value) in values.iter().enumerate() {
            let value = match side {
                Side::Pessimistic => (value - GUARD).max(0.0),
                Side::Optimistic => (value + GUARD).min(1.0),
            };
            let at = lattice.time(k, side).max(shortest);
            let at = at.saturating_add(self.overhead);
            match steps.last_mut() {
                Some((_, before)) if value <= *before => {}
                Some((last, before)) if *last == at => *before = value,
                _ => steps.push((at, value)),
            }
            if value >= 1.0 {
                break;
            }
        }
        if side == Side::Optimistic && steps.last().is_some_and(|(_, value)| *value < 1.0) {
            // Beyond what was computed, all the rest may follow at once.
            let end = lattice.time(values.len(), side).max(shortest);
            steps.push((end.saturating_add(self.overhead), 1.0));
        }
        StepCdf::new(steps).map_err(AnalysisError::no_distribution)
    }
}
