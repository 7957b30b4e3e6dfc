//! Poisson arrivals, first come first served: M/G/1 on deferrable, periodic and dedicated CPUs.
//!
//! The method and its proof stand in docs/concepts/response-time.md. In short: execution times
//! and budget are rounded outward to a lattice; on it the workload at period starts solves a
//! fixed point that first-passage probabilities close, and the distribution function follows from
//! the workload at every place in the period. Both ends of the bracket are bounds at every step
//! of the computation.

mod boundary;
mod compound;
mod equilibrium;
mod estimate;
mod response;
mod rounding;
mod seldom_used_up;
mod share;
mod share_bounds;
mod steady_cpu;

use num_integer::gcd;
use tailbound_distribution::{Distribution, Interval, Provenance, StepCdf};
use tailbound_model::ReservationServer;
use tailbound_time::Duration;

use crate::batches::{BatchLaw, BatchSizes};
use crate::lundberg;
use crate::response_tail::ResponseTail;
use crate::response_time::BudgetUse;
use crate::{AnalysisError, SearchWatch, Unwatched};
use boundary::{LatticeQueue, Passages};
use compound::LatticeWork;
pub(super) use estimate::{LatticeEstimate, estimate};
use response::LatticeResponses;
pub(super) use rounding::{BracketSide, Lattice, Law};
pub(crate) use share_bounds::LatticeRung;
pub(super) use share_bounds::{LatticeOutlook, judge};

/// What the results are rounded outward by, for what floating point and neglected tails do.
const GUARD: f64 = 1e-9;
/// The share of the jobs whose response times need no bound.
const REST: f64 = 1e-6;
/// Points per mean execution time that suffice.
const FINE: f64 = 128.0;
/// Points per mean execution time that are worth a longer computation.
const COARSE: f64 = 32.0;
/// The fewest points per period of a lattice that says more than a CPU of constant speed does.
const FEWEST_POINTS: f64 = 8.0;
/// The most points per period: what bounds the computing time.
const MOST_POINTS: usize = 640;
/// The most points per period where many short jobs fit into it.
const MOST_POINTS_SHORT_JOBS: usize = 1_600;
/// The most points of the longest job.
const MOST_POINTS_OF_A_JOB: f64 = 16_000.0;
/// The steps of the lattice whose answer stands in for a stopped one, in steps of that one.
const COARSE_AT_STOP: usize = 8;
/// The most pairs of a place in the period and a response time.
const MOST_PAIRS: usize = 40_000_000;

/// A task: how often its jobs come, how many at a time, and how long they run.
#[derive(Clone, Debug)]
pub(super) struct JobStream {
    /// Batches of jobs per second, all clients together.
    pub per_second: f64,
    /// The execution times of jobs.
    pub law: Law,
    /// How many jobs a batch has.
    pub batches: BatchLaw,
}

impl JobStream {
    fn jobs_per_second(&self) -> f64 {
        self.per_second * self.batches.mean()
    }

    /// The load, in CPUs.
    fn load(&self) -> f64 {
        self.jobs_per_second() * self.law.mean_seconds()
    }

    /// The mean of e^(theta work), theta per second: of a batch, and of a job with those of its batch before it.
    fn moments(&self, theta: f64) -> (f64, f64) {
        self.batches.moments(self.law.moment(theta))
    }
}

/// What the lattice says of the response times.
#[derive(Clone, Debug)]
pub(super) struct LatticeAnswer {
    /// Of the jobs of all streams together.
    pub overall: Enclosure,
    /// Of each stream's.
    pub per_stream: Vec<Enclosure>,
    /// The mean of all.
    pub mean: Interval,
    /// The length of a step.
    pub step: Duration,
    /// The supply for which the response times were computed.
    pub supply: LatticeSupply,
    /// Whether the load, with execution times rounded up, stays below what the reservation gives. If not, the
    /// pessimistic ends are those of the tail.
    pub pessimistic_is_stable: bool,
    /// Whether the computation was stopped, so that the lattice is a coarse one.
    pub is_stopped: bool,
}

impl LatticeAnswer {
    /// The method by name, with its source.
    pub(super) fn method(&self) -> &'static str {
        match self.supply {
            LatticeSupply::OwnCpu | LatticeSupply::SeldomUsedUp => {
                "M/G/1 on a lattice (Pollaczek and Khinchine)"
            }
            LatticeSupply::ConstantSpeed { .. } => {
                "M/G/1 on a lattice (Pollaczek and Khinchine), between CPUs of constant speed"
            }
            LatticeSupply::Server => {
                "M/G/1 on a reservation server: first passages on a lattice, started from the workload \
                 at replenishments (Li 2021, Theorem 5)"
            }
        }
    }

    /// What was rounded, in words.
    pub(super) fn rounding(&self) -> String {
        let step = self.step;
        let supply = match self.supply {
            LatticeSupply::Server | LatticeSupply::OwnCpu => String::new(),
            LatticeSupply::SeldomUsedUp => "less than one job in 10^14 comes near a used-up budget, so that the CPU is as good \
                                     as its own; "
                .into(),
            LatticeSupply::ConstantSpeed { shorter, longer } => format!(
                "responses are at most {shorter} shorter and {longer} longer than on a CPU whose speed is the bandwidth; "
            ),
        };
        match self.pessimistic_is_stable {
            true => format!("{supply}times are rounded outward to steps of {step}"),
            false => format!(
                "{supply}times are rounded outward to steps of {step}; execution times rounded up would be more work than \
                 the reservation gives, so the pessimistic end is Lundberg's bound of the tail"
            ),
        }
    }
}

/// A supply of CPU time for which response times are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LatticeSupply {
    /// The server's as it is.
    Server,
    /// A CPU of its own.
    OwnCpu,
    /// A CPU of its own, which the server is as good as.
    SeldomUsedUp,
    /// A CPU whose speed is the bandwidth of the server.
    ConstantSpeed {
        /// The time by which responses may be shorter.
        shorter: Duration,
        /// The time by which they may be longer.
        longer: Duration,
    },
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

/// The response times of the jobs of all `streams` together, and of each; on a coarse lattice where `watch` stops the
/// computation, which takes a hundredth of the time.
///
/// # Errors
/// [`AnalysisError::NotAnalysed`] for servers and sizes outside the method.
pub(super) fn response_times(
    streams: &[JobStream],
    server: ReservationServer,
    overhead: Duration,
    watch: &dyn SearchWatch,
) -> Result<LatticeAnswer, AnalysisError> {
    let in_practice = server_in_practice(streams, server);
    let plan = LatticePlan::of(streams, in_practice, overhead)?;
    if plan.jobs_per_period() * FINE < FEWEST_POINTS {
        return steady_cpu::answer(&plan, watch);
    }
    let answer = plan.answer_or_coarse_one(watch)?;
    let supply = match in_practice == server {
        true => answer.supply,
        false => LatticeSupply::SeldomUsedUp,
    };
    Ok(LatticeAnswer { supply, ..answer })
}

/// The server that gives the same responses as `server` does, but for fewer than any answer shows: a CPU of its own
/// where the budget is next to never used up.
pub(super) fn server_in_practice(
    streams: &[JobStream],
    server: ReservationServer,
) -> ReservationServer {
    match seldom_used_up::is_negligible(streams, server) {
        true => ReservationServer::Dedicated,
        false => server,
    }
}

/// A load's laws on a lattice.
struct LatticeLaws {
    /// Of the work that comes at a time.
    arriving: Vec<f64>,
    /// Of a job with those of its batch before it: of all jobs, and, where there are several streams, of each one's.
    jobs: Vec<Vec<f64>>,
}

/// The places in a period for which responses are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LatticePlaces {
    /// Each step.
    All,
    /// As many as are worth their time; bounds stay bounds.
    Enough,
}

struct LatticePlan<'a> {
    streams: &'a [JobStream],
    budget: Duration,
    period: Duration,
    kind: Option<BudgetUse>,
    rate: f64,
    overhead: Duration,
}

impl<'a> LatticePlan<'a> {
    /// The load of `streams` on a server.
    ///
    /// # Errors
    /// [`AnalysisError::NotAnalysed`] for servers outside the method.
    fn of(
        streams: &'a [JobStream],
        server: ReservationServer,
        overhead: Duration,
    ) -> Result<Self, AnalysisError> {
        let load: f64 = streams.iter().map(JobStream::load).sum();
        let rate: f64 = streams.iter().map(|s| s.per_second).sum();
        let (budget, period, kind) = match server.in_effect() {
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
        Ok(Self {
            streams,
            budget,
            period,
            kind,
            rate,
            overhead,
        })
    }

    /// The answer; on a coarse lattice where `watch` stops the computation.
    fn answer_or_coarse_one(
        &self,
        watch: &dyn SearchWatch,
    ) -> Result<LatticeAnswer, AnalysisError> {
        if let Some(answer) = self.answer(self.lattice(1), watch)? {
            return Ok(answer);
        }
        let coarse = self.answer(self.lattice(COARSE_AT_STOP), &Unwatched)?;
        let answer = coarse.ok_or_else(AnalysisError::stopped_unwatched)?;
        Ok(LatticeAnswer {
            is_stopped: true,
            ..answer
        })
    }

    /// The answer on a lattice; `None` where `watch` stops the computation.
    fn answer(
        &self,
        lattice: Lattice,
        watch: &dyn SearchWatch,
    ) -> Result<Option<LatticeAnswer>, AnalysisError> {
        // The two sides have nothing in common but the lattice: one thread each.
        let (optimistic, pessimistic) = std::thread::scope(|scope| {
            let other = scope.spawn(|| self.side(lattice, BracketSide::Pessimistic, watch));
            (
                self.side(lattice, BracketSide::Optimistic, watch),
                other.join(),
            )
        });
        let pessimistic = pessimistic.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let (Some((optimistic, _)), Some((pessimistic, pessimistic_is_stable))) =
            (optimistic?, pessimistic)
        else {
            return Ok(None);
        };
        let (overall, per_stream) = Enclosure::pairs(optimistic, pessimistic)?;
        Ok(Some(LatticeAnswer {
            mean: self.mean(&overall),
            overall,
            per_stream,
            step: lattice.time(1, BracketSide::Pessimistic),
            supply: match self.kind {
                None => LatticeSupply::OwnCpu,
                Some(_) => LatticeSupply::Server,
            },
            pessimistic_is_stable,
            is_stopped: false,
        }))
    }

    /// The finest lattice within the computing time that divides budget and execution times
    /// exactly, if there is one; else one that divides the budget; else the finest. One that is
    /// `coarseness` times as coarse has about so many times fewer steps.
    fn lattice(&self, coarseness: usize) -> Lattice {
        let period_ns = self.period.as_nanos().max(1);
        let most = self.most_points(coarseness);
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

    /// A lattice that holds all budgets of so many parts of a period, which are whole or next to it in nanoseconds.
    fn lattice_of_parts(&self, coarseness: usize, parts: usize) -> Lattice {
        Lattice {
            period_ns: self.period.as_nanos().max(1),
            points: self.most_points(coarseness).div_ceil(parts) * parts,
        }
    }

    /// So many mean execution times are as long as a period.
    fn jobs_per_period(&self) -> f64 {
        let streams = || self.streams.iter();
        let load: f64 = streams().map(JobStream::load).sum();
        let mean_ns = load / streams().map(JobStream::jobs_per_second).sum::<f64>() * 1e9;
        self.period.as_nanos().max(1) as f64 / mean_ns.max(1.0)
    }

    /// The most points of a period that the computing time allows, or such a part of them.
    fn most_points(&self, coarseness: usize) -> usize {
        let period_ns = self.period.as_nanos().max(1);
        let streams = || self.streams.iter();
        let jobs_per_period = self.jobs_per_period();
        let limit =
            ((COARSE * jobs_per_period) as usize).clamp(MOST_POINTS, MOST_POINTS_SHORT_JOBS);
        // A law with a long tail has to do with fewer.
        let longest_ns = streams().map(|s| s.law.longest_ns()).max().unwrap_or(1);
        let of_longest = MOST_POINTS_OF_A_JOB * period_ns as f64 / longest_ns.max(1) as f64;
        let wanted = (FINE * jobs_per_period).min(of_longest);
        ((wanted / coarseness as f64).ceil() as usize).clamp(4, limit / coarseness)
    }

    /// The load's laws on the lattice, towards one side.
    fn laws(&self, lattice: Lattice, side: BracketSide) -> Result<LatticeLaws, AnalysisError> {
        self.laws_by(&|law| law.on(lattice, side))
    }

    /// The load's laws, of which each is brought onto a lattice by `on`.
    fn laws_by(&self, on: &dyn Fn(&Law) -> Vec<f64>) -> Result<LatticeLaws, AnalysisError> {
        let on = |stream: &JobStream| stream.batches.sizes(&on(&stream.law));
        let sizes = self.streams.iter().map(on);
        let sizes = sizes.collect::<Result<Vec<BatchSizes>, _>>()?;
        let totals = sizes.iter().map(|of_stream| &of_stream.total);
        let arriving = self.mixture(totals, |stream| stream.per_second);
        let tagged = sizes.iter().map(|of_stream| &of_stream.tagged);
        let mut jobs = vec![self.mixture(tagged.clone(), JobStream::jobs_per_second)];
        if sizes.len() > 1 {
            jobs.extend(tagged.cloned());
        }
        Ok(LatticeLaws { arriving, jobs })
    }

    /// The bounds of long responses of all jobs and of each stream's, which do not depend on a lattice.
    ///
    /// From the start of a busy period on the server gives at least the share W = budget / period of the time, after
    /// a delay of period - budget, and what has come in any time s before now exceeds W s by v with at most e^(-theta v)
    /// probability (Lundberg).
    fn tails(&self) -> Vec<ResponseTail> {
        let streams = || self.streams.iter();
        let mean = |part: &dyn Fn(&JobStream) -> f64| {
            streams()
                .map(|s| s.per_second / self.rate * part(s))
                .sum::<f64>()
        };
        // Of the work that comes at a time.
        let mean_seconds = mean(&|s| s.batches.mean() * s.law.mean_seconds());
        let longest = streams().map(|s| s.law.longest_ns() as f64 * f64::from(s.batches.longest()));
        let longest_seconds = longest.fold(1.0, f64::max) * 1e-9;
        let bandwidth = self.budget.as_secs_f64() / self.period.as_secs_f64();
        let theta = lundberg::decay(
            self.rate * mean_seconds / bandwidth,
            |theta| mean(&|s| s.moments(theta / mean_seconds).0),
            (mean_seconds / longest_seconds, 64.0),
        ) / mean_seconds;
        let tail = |moment: f64| ResponseTail {
            factor: moment * (1.0 + GUARD),
            per_second: theta * bandwidth,
            from_seconds: self.period.saturating_sub(self.budget).as_secs_f64(),
        };
        let jobs: f64 = streams().map(JobStream::jobs_per_second).sum();
        let of_jobs = |s: &JobStream| s.jobs_per_second() / jobs * s.moments(theta).1;
        let of_all = tail(streams().map(of_jobs).sum());
        std::iter::once(of_all)
            .chain(streams().map(|s| tail(s.moments(theta).1)))
            .collect()
    }

    /// Bounds of the mean.
    fn mean(&self, enclosure: &Enclosure) -> Interval {
        let integral = |curve: &StepCdf| {
            let (mut sum, mut from, mut above) = (0.0, 0.0, 1.0);
            for (at, value) in curve.steps() {
                sum += (at.as_secs_f64() - from) * above;
                (from, above) = (at.as_secs_f64(), 1.0 - value);
            }
            sum
        };
        let tail = self.tails()[0];
        let last = enclosure.pessimistic.last().saturating_sub(self.overhead);
        let beyond = match enclosure.pessimistic.unknown_mass() > 0.0 {
            true => tail.mean_beyond(last.as_secs_f64()),
            false => 0.0,
        };
        let high = integral(&enclosure.pessimistic) + beyond;
        let rounding = Duration::from_nanos(1);
        let low = Duration::from_secs_f64_nearest(integral(&enclosure.optimistic));
        let high = Duration::from_secs_f64_nearest(high).saturating_add(rounding);
        Interval::between(low.saturating_sub(rounding), Some(high))
    }

    /// The distribution functions of all jobs and of each stream's, towards one side; and whether the load on the
    /// lattice is below what the reservation gives. `None` where `watch` stops the computation.
    fn side(
        &self,
        lattice: Lattice,
        side: BracketSide,
        watch: &dyn SearchWatch,
    ) -> Result<Option<(Vec<StepCdf>, bool)>, AnalysisError> {
        let LatticeLaws { arriving, jobs } = self.laws(lattice, side)?;
        let queue = self.queue(lattice, side, arriving);
        let of_streams = self.streams.iter().map(|stream| stream.law.shortest_ns());
        let of_all = of_streams.clone().min().unwrap_or(0);
        let shortest = std::iter::once(of_all).chain(of_streams);
        let shortest: Vec<Duration> = shortest.map(Duration::from_nanos).collect();
        let stable = queue.is_stable();
        let values = match stable {
            true => self.values(&queue, &jobs, (side, LatticePlaces::Enough), watch),
            false if side == BracketSide::Pessimistic => Some(vec![Vec::new(); shortest.len()]),
            false => {
                return Err(AnalysisError::Invalid {
                    what: "the load is not below the bandwidth".into(),
                });
            }
        };
        let Some(values) = values else {
            return Ok(None);
        };
        let functions = values.iter().zip(shortest).zip(self.tails());
        let functions = functions
            .map(|((values, shortest), tail)| self.steps(lattice, side, values, (shortest, tail)));
        Ok(Some((functions.collect::<Result<_, _>>()?, stable)))
    }

    /// The queue on the lattice, towards one side.
    fn queue(&self, lattice: Lattice, side: BracketSide, arriving: Vec<f64>) -> LatticeQueue {
        LatticeQueue {
            work: LatticeWork {
                jobs_per_step: self.rate * lattice.step_seconds(),
                sizes: arriving,
            },
            budget_steps: lattice.steps(self.budget.as_nanos(), side == BracketSide::Optimistic),
            period_steps: lattice.points,
        }
    }

    /// The values of the functions on the lattice; `None` where `watch` stops the computation.
    fn values(
        &self,
        queue: &LatticeQueue,
        jobs: &[Vec<f64>],
        (side, places): (BracketSide, LatticePlaces),
        watch: &dyn SearchWatch,
    ) -> Option<Vec<Vec<f64>>> {
        let length = self.length(queue, &jobs[0]);
        let mut values = match self.kind {
            None => {
                let of = |job: &Vec<f64>| response::dedicated(&queue.work, job, side, length);
                jobs.iter().map(of).collect::<Vec<_>>()
            }
            Some(kind) => {
                let passages = Passages::of(queue);
                let start =
                    equilibrium::workload(queue, &passages, side, (equilibrium::PRECISION, watch));
                let responses = LatticeResponses {
                    queue,
                    passages: &passages,
                    start: &start,
                    kind,
                    side,
                };
                let stride = match places {
                    LatticePlaces::All => 1,
                    LatticePlaces::Enough => {
                        responses.stride(jobs.iter().map(Vec::len).max().unwrap_or(0), length)
                    }
                };
                let of = |job: &Vec<f64>| responses.of(job, (length, stride), watch);
                jobs.iter().map(of).collect::<Option<_>>()?
            }
        };
        if jobs.len() == 1 {
            values.push(values[0].clone());
        }
        Some(values)
    }

    /// The law of all streams together, of which each counts for its weight.
    fn mixture<'b>(
        &self,
        laws: impl Iterator<Item = &'b Vec<f64>> + Clone,
        weight: impl Fn(&JobStream) -> f64,
    ) -> Vec<f64> {
        let all: f64 = self.streams.iter().map(&weight).sum();
        let longest = laws.clone().map(Vec::len).max().unwrap_or(1);
        let mut mixture = vec![0.0; longest];
        for (stream, law) in self.streams.iter().zip(laws) {
            let share = weight(stream) / all;
            mixture
                .iter_mut()
                .zip(law)
                .for_each(|(sum, p)| *sum += share * p);
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
    /// `shortest`, which the lattice rounds down; and long ones are no more than `tail` tells.
    fn steps(
        &self,
        lattice: Lattice,
        side: BracketSide,
        values: &[f64],
        (shortest, tail): (Duration, ResponseTail),
    ) -> Result<StepCdf, AnalysisError> {
        let mut steps: Vec<(Duration, f64)> = Vec::new();
        for (k, value) in values.iter().enumerate() {
            let at = lattice.time(k, side).max(shortest);
            let of_tail = 1.0 - tail.above(at.as_secs_f64());
            let value = match side {
                BracketSide::Pessimistic => (value - GUARD).max(of_tail).max(0.0),
                BracketSide::Optimistic => (value + GUARD).min(1.0),
            };
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
        if side == BracketSide::Optimistic && steps.last().is_some_and(|(_, value)| *value < 1.0) {
            // Beyond what was computed, all the rest may follow at once.
            let end = lattice.time(values.len(), side).max(shortest);
            steps.push((end.saturating_add(self.overhead), 1.0));
        }
        if side == BracketSide::Pessimistic {
            tail.follow(&mut steps, self.overhead);
        }
        StepCdf::new(steps).map_err(AnalysisError::no_distribution)
    }
}
