//! Poisson arrivals at a reservation server, as an object that answers questions.

use std::collections::BTreeMap;

use tailbound_distribution::{Distribution, Evidence, Interval, Provenance, StepCdf};
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

use super::exact::{Kind, Queue, Solved};
use super::{bandwidth, remedy};
use crate::AnalysisError;
use crate::rational::Fraction;

/// Jobs that come as a Poisson process, one or several at a time, and are served first come, first
/// served, by a reservation server of the highest priority on its CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct PoissonQueue {
    /// How often jobs, or batches of them, come.
    pub rate: Rate,
    /// The execution times that occur, each with its probability; they sum up to one.
    pub execution_times: Vec<(Duration, f64)>,
    /// How many jobs come at a time, with probabilities; `[(1, 1.0)]` for single jobs.
    pub batches: Vec<(u32, f64)>,
    /// The rule by which CPU time is given.
    pub server: ReservationServer,
}

/// A probability between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ProbabilityBounds {
    /// At least this.
    pub lower: f64,
    /// At most this.
    pub upper: f64,
}

/// The response times of a [`PoissonQueue`].
#[derive(Clone, Debug)]
pub struct ResponseTimes {
    /// Rounded towards short responses.
    optimistic: Side,
    /// Rounded towards long ones; `None` where nothing had to be rounded.
    pessimistic: Option<Side>,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// The method by name, with its source.
    pub method: String,
    /// What it takes for granted.
    pub assumptions: Vec<String>,
}

/// The solution on one lattice.
#[derive(Clone, Debug)]
struct Side {
    solved: Solved,
    step_ns: f64,
    /// No response is shorter.
    shortest_ns: f64,
}

/// At most so many different amounts of work per batch are followed one by one.
const MOST_SIZES: usize = 64;
/// The most lattice steps of a budget, or of a job, before they are rounded.
const MOST_STEPS: u64 = 1_500;
/// The largest denominator of a rounded ratio of budget to execution time.
const LARGEST_DENOMINATOR: u64 = 400;
/// The same where little precision is asked for, and from which tolerance on that is so.
const ROUGH_DENOMINATOR: u64 = 40;
const ROUGH: f64 = 1e-6;
/// What interpolation may add to a probability where nothing else is asked for.
const PRECISE: f64 = 1e-9;
/// Searches for a quantile end at this relative distance.
const NEAR: f64 = 1e-10;
/// The slope of the distribution function is taken over this relative distance.
const ASIDE: f64 = 1e-5;
/// The mean is integrated to this relative error.
const MEAN_WITHIN: f64 = 1e-8;

impl PoissonQueue {
    /// Solves the queue.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for numbers that make no sense, [`AnalysisError::Overloaded`] if
    /// the work outgrows the reservation, [`AnalysisError::NotAnalysed`] where the method would take
    /// too long or does not hold.
    pub fn solve(&self) -> Result<ResponseTimes, AnalysisError> {
        self.solve_within(PRECISE)
    }

    /// The same, where a probability may be wrong by about `tolerance`: the bounds say so, and the
    /// answer comes sooner.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub fn solve_within(&self, tolerance: f64) -> Result<ResponseTimes, AnalysisError> {
        self.check()?;
        self.check_load(bandwidth(self.server))?;
        let work = BatchWork::of(self)?;
        let (kind, budget, period) = self.budget_and_period()?;
        let largest = if tolerance < ROUGH {
            LARGEST_DENOMINATOR
        } else {
            ROUGH_DENOMINATOR
        };
        let lattices = work.lattices(budget, period, largest)?;
        // Where the budget is rounded, that is what limits the precision.
        let tolerance = match lattices.pessimistic {
            Some(_) => tolerance.max(ROUGH),
            None => tolerance,
        };
        let solve = |lattice: &Lattice| self.side(&work, lattice, kind, period, tolerance);
        let optimistic = solve(&lattices.optimistic)?;
        let pessimistic = lattices.pessimistic.as_ref().map(solve).transpose()?;
        Ok(self.found(optimistic, pessimistic, bandwidth(self.server)))
    }

    /// The response times with a budget of `steps` times a `per_stride`-th of the stride of the
    /// execution times, which need not be a whole number of nanoseconds.
    pub(crate) fn solve_with_steps(
        &self,
        kind: Kind,
        (steps, per_stride): (u64, u64),
        period: Duration,
        tolerance: f64,
    ) -> Result<ResponseTimes, AnalysisError> {
        self.check()?;
        let work = BatchWork::of(self)?;
        let lattice = Lattice {
            step_ns: work.stride_ns as f64 / per_stride as f64,
            stride: per_stride as usize,
            budget: steps as usize,
        };
        let bandwidth = lattice.budget as f64 * lattice.step_ns / period.as_nanos() as f64;
        self.check_load(bandwidth)?;
        let side = self.side(&work, &lattice, kind, period, tolerance)?;
        Ok(self.found(side, None, bandwidth))
    }

    /// The largest common divisor of the execution times.
    pub(crate) fn stride(&self) -> Duration {
        let times = self.execution_times.iter();
        Duration::from_nanos(times.fold(0, |g, (time, _)| gcd(g, time.as_nanos())))
    }

    /// The mean execution time.
    pub(crate) fn mean_execution_time(&self) -> Duration {
        let times = self.execution_times.iter();
        let mean = times.map(|(time, p)| time.as_secs_f64() * p).sum();
        Duration::from_secs_f64_nearest(mean)
    }

    fn check_load(&self, bandwidth: f64) -> Result<(), AnalysisError> {
        let utilisation = self.utilisation();
        if utilisation < bandwidth {
            return Ok(());
        }
        Err(AnalysisError::Overloaded {
            utilisation,
            bandwidth,
            remedy: remedy(self.server, utilisation),
        })
    }

    fn side(
        &self,
        work: &BatchWork,
        lattice: &Lattice,
        kind: Kind,
        period: Duration,
        tolerance: f64,
    ) -> Result<Side, AnalysisError> {
        let queue = Queue::new(
            self.rate.as_per_second() * 1e-9 * lattice.step_ns,
            work.total.clone(),
            work.tagged.clone(),
            lattice.stride,
            (lattice.budget, period.as_nanos() as f64 / lattice.step_ns),
            kind,
        );
        Ok(Side {
            solved: Solved::new(queue, tolerance)?,
            step_ns: lattice.step_ns,
            shortest_ns: work.shortest_ns(),
        })
    }

    fn found(&self, optimistic: Side, pessimistic: Option<Side>, bandwidth: f64) -> ResponseTimes {
        let mut assumptions = vec![
            "arrivals are a Poisson process, independent of execution times".to_string(),
            "first come, first served, one job at a time".into(),
            "the reservation has the highest priority on its CPU".into(),
            "the system is in equilibrium".into(),
            "the errors of interpolation and integration are estimated and added".into(),
        ];
        if pessimistic.is_some() {
            assumptions
                .push("the budget is rounded outward to a ratio of the execution time".into());
        }
        ResponseTimes {
            optimistic,
            pessimistic,
            utilisation: self.utilisation(),
            bandwidth,
            method:
                "M/G/1 on a reservation server in continuous time: ballot probabilities, started \
                     from the workload at replenishments (Li 2021, Theorem 5)"
                    .into(),
            assumptions,
        }
    }

    /// Mean number of jobs per batch, mean execution time, and rate, multiplied.
    pub fn utilisation(&self) -> f64 {
        let mean_jobs: f64 = self
            .batches
            .iter()
            .map(|(jobs, p)| f64::from(*jobs) * p)
            .sum();
        let times = self.execution_times.iter();
        let mean_time: f64 = times.map(|(time, p)| time.as_secs_f64() * p).sum();
        self.rate.as_per_second() * mean_jobs * mean_time
    }

    fn check(&self) -> Result<(), AnalysisError> {
        let invalid = |what: String| Err(AnalysisError::Invalid { what });
        let sums_up = |sum: f64| (sum - 1.0).abs() < 1e-9;
        if self.execution_times.is_empty() || self.batches.is_empty() {
            return invalid("there is no execution time, or no batch; give at least one".into());
        }
        let times = self.execution_times.iter();
        if times
            .clone()
            .any(|(time, p)| time.is_zero() || p.is_nan() || *p <= 0.0)
        {
            return invalid(
                "an execution time, or its probability, is not above zero; leave it out".into(),
            );
        }
        let sum: f64 = times.map(|(_, p)| p).sum();
        if !sums_up(sum) {
            return invalid(format!(
                "the probabilities of the execution times sum up to {sum}; make it 1"
            ));
        }
        if self
            .batches
            .iter()
            .any(|(jobs, p)| *jobs == 0 || p.is_nan() || *p <= 0.0)
        {
            return invalid(
                "a batch has no job, or no probability above zero; leave it out".into(),
            );
        }
        let sum: f64 = self.batches.iter().map(|(_, p)| p).sum();
        if !sums_up(sum) {
            return invalid(format!(
                "the probabilities of the batches sum up to {sum}; make it 1"
            ));
        }
        match self.server {
            ReservationServer::Dedicated => Ok(()),
            ReservationServer::Deferrable { budget, period }
            | ReservationServer::Periodic { budget, period }
            | ReservationServer::ConstantBandwidth { budget, period } => {
                if budget.is_zero() || period.is_zero() || budget > period {
                    return invalid(format!(
                        "a budget of {budget} in {period} is none; make it above zero and at most \
                         the period"
                    ));
                }
                Ok(())
            }
        }
    }

    fn budget_and_period(&self) -> Result<(Kind, Duration, Duration), AnalysisError> {
        match self.server {
            ReservationServer::Deferrable { budget, period } => {
                Ok((Kind::Deferrable, budget, period))
            }
            ReservationServer::Periodic { budget, period } => Ok((Kind::Periodic, budget, period)),
            // A CPU of its own is a server whose budget is its period, whatever that is.
            ReservationServer::Dedicated => {
                let one = self.execution_times.iter().map(|(time, _)| *time).max();
                let one = one.unwrap_or(Duration::from_secs(1));
                Ok((Kind::Deferrable, one, one))
            }
            ReservationServer::ConstantBandwidth { .. } => Err(AnalysisError::NotAnalysed {
                reason: "a constant-bandwidth server".into(),
            }),
        }
    }
}

/// The work of a batch, in strides.
struct BatchWork {
    stride_ns: u64,
    /// All of a batch.
    total: Vec<(usize, f64)>,
    /// A job and what of its batch goes before it.
    tagged: Vec<(usize, f64)>,
}

/// A lattice on which the strides and a budget lie.
struct Lattice {
    step_ns: f64,
    stride: usize,
    budget: usize,
}

struct Lattices {
    optimistic: Lattice,
    pessimistic: Option<Lattice>,
}

impl BatchWork {
    fn of(queue: &PoissonQueue) -> Result<Self, AnalysisError> {
        let times = queue.execution_times.iter();
        let stride_ns = times.fold(0, |g, (time, _)| gcd(g, time.as_nanos()));
        let longest_batch = queue
            .batches
            .iter()
            .map(|(jobs, _)| *jobs)
            .max()
            .unwrap_or(1);
        let mut one = BTreeMap::new();
        for (time, p) in &queue.execution_times {
            let strides = time.as_nanos() / stride_ns;
            if strides > MOST_STEPS {
                return Err(AnalysisError::NotAnalysed {
                    reason: "execution times with so small a common divisor".into(),
                });
            }
            *one.entry(strides as usize).or_insert(0.0) += p;
        }
        let mean_jobs: f64 = queue
            .batches
            .iter()
            .map(|(jobs, p)| f64::from(*jobs) * p)
            .sum();
        let (mut total, mut tagged) = (BTreeMap::new(), BTreeMap::new());
        let mut sum = BTreeMap::from([(0_usize, 1.0)]);
        for place in 1..=longest_batch {
            sum = convolved(&sum, &one);
            if sum.len() > MOST_SIZES {
                return Err(AnalysisError::NotAnalysed {
                    reason: format!("more than {MOST_SIZES} different amounts of work at a time"),
                });
            }
            let exactly: f64 = weight(&queue.batches, |jobs| jobs == place);
            let at_least: f64 = weight(&queue.batches, |jobs| jobs >= place);
            for (strides, p) in &sum {
                if exactly > 0.0 {
                    *total.entry(*strides).or_insert(0.0) += p * exactly;
                }
                *tagged.entry(*strides).or_insert(0.0) += p * at_least / mean_jobs;
            }
        }
        Ok(Self {
            stride_ns,
            total: total.into_iter().collect(),
            tagged: tagged.into_iter().collect(),
        })
    }

    fn shortest_ns(&self) -> f64 {
        let shortest = self.tagged.first().map_or(0, |(strides, _)| *strides);
        shortest as f64 * self.stride_ns as f64
    }

    /// A lattice that holds strides and budget exactly, or two that enclose the budget.
    fn lattices(
        &self,
        budget: Duration,
        period: Duration,
        largest: u64,
    ) -> Result<Lattices, AnalysisError> {
        let budget_ns = budget.as_nanos();
        let step = gcd(self.stride_ns, budget_ns);
        let (stride, steps) = (self.stride_ns / step, budget_ns / step);
        let longest = self.total.last().map_or(1, |(strides, _)| *strides) as u64;
        if stride.saturating_mul(longest) <= largest && steps <= MOST_STEPS {
            return Ok(Lattices {
                optimistic: Lattice {
                    step_ns: step as f64,
                    stride: stride as usize,
                    budget: steps as usize,
                },
                pessimistic: None,
            });
        }
        let ratio = Fraction::new(budget_ns, self.stride_ns);
        let largest = (largest / longest).max(1);
        let (below, above) = ratio.neighbours(largest);
        // A budget above the period is one CPU's share; the deferrable server of a full period is.
        let whole = Fraction::new(period.as_nanos(), self.stride_ns);
        let lattice = |fraction: Fraction| Lattice {
            step_ns: self.stride_ns as f64 / fraction.denominator() as f64,
            stride: fraction.denominator() as usize,
            budget: fraction.numerator() as usize,
        };
        if below.is_zero() || above.numerator() > MOST_STEPS * 4 || above > whole {
            return Err(AnalysisError::NotAnalysed {
                reason: "budget, period and execution times with so small a common divisor".into(),
            });
        }
        Ok(Lattices {
            optimistic: lattice(above),
            pessimistic: Some(lattice(below)),
        })
    }
}

fn weight(batches: &[(u32, f64)], chosen: impl Fn(u32) -> bool) -> f64 {
    let kept = batches.iter().filter(|(jobs, _)| chosen(*jobs));
    kept.map(|(_, p)| p).sum()
}

fn convolved(a: &BTreeMap<usize, f64>, b: &BTreeMap<usize, f64>) -> BTreeMap<usize, f64> {
    let mut sum = BTreeMap::new();
    for (x, p) in a {
        for (y, q) in b {
            *sum.entry(x + y).or_insert(0.0) += p * q;
        }
    }
    sum
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

impl ResponseTimes {
    fn pessimistic(&self) -> &Side {
        self.pessimistic.as_ref().unwrap_or(&self.optimistic)
    }

    /// Bounds of the probability that a response takes at most `at`.
    pub fn cdf(&self, at: Duration) -> ProbabilityBounds {
        let lower = self.pessimistic().cdf(at.as_nanos() as f64);
        let upper = match &self.pessimistic {
            None => lower,
            Some(_) => self.optimistic.cdf(at.as_nanos() as f64),
        };
        ProbabilityBounds {
            lower: (lower.0 - lower.1).max(0.0),
            upper: (upper.0 + upper.1).min(1.0),
        }
    }

    /// Bounds of the response time that the share `probability` of all responses does not exceed.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1.
    pub fn quantile(&self, probability: f64) -> Result<Interval, AnalysisError> {
        if !(probability > 0.0 && probability < 1.0) {
            return Err(AnalysisError::Invalid {
                what: format!("a quantile's probability is {probability}; choose one in (0, 1)"),
            });
        }
        let high = self.pessimistic().quantile(probability);
        let low = match &self.pessimistic {
            None => high,
            Some(_) => self.optimistic.quantile(probability),
        };
        Ok(Interval {
            low: Duration::from_nanos(low.0.floor().max(0.0) as u64),
            high: Some(Duration::from_nanos(high.1.ceil() as u64)),
        })
    }

    /// Bounds of the mean response time.
    pub fn mean(&self) -> Interval {
        let high = self.pessimistic().mean();
        let low = match &self.pessimistic {
            None => high,
            Some(_) => self.optimistic.mean(),
        };
        Interval {
            low: Duration::from_nanos(low.0.floor().max(0.0) as u64),
            high: Some(Duration::from_nanos(high.1.ceil() as u64)),
        }
    }

    /// The distribution as others compare it: the bounds at the quantiles of `probabilities`.
    ///
    /// # Errors
    /// A probability that is not above 0 and below 1.
    pub fn distribution(
        &self,
        subject: &str,
        probabilities: &[f64],
    ) -> Result<Distribution, AnalysisError> {
        let mut sorted = probabilities.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (mut optimistic, mut pessimistic) = (Vec::new(), Vec::new());
        let mut reached = 0.0_f64;
        for probability in &sorted {
            let at = self.quantile(*probability)?;
            // From the lower bound of a quantile on, at most the next probability is reached.
            optimistic.push((at.low, *probability));
            if let Some(high) = at.high {
                pessimistic.push((high, probability.max(reached)));
            }
            reached = reached.max(*probability);
        }
        let mut provenance = Provenance::new(Evidence::Bound, subject, self.method.clone());
        provenance.assumptions.clone_from(&self.assumptions);
        let shifted = optimistic
            .iter()
            .zip(sorted.iter().skip(1).chain([&1.0]))
            .map(|((at, _), next)| (*at, *next));
        let curve = |points: Vec<(Duration, f64)>| {
            StepCdf::new(points).map_err(|error| AnalysisError::Invalid {
                what: error.to_string(),
            })
        };
        Ok(Distribution::from_bracket(
            provenance,
            curve(shifted.collect())?,
            curve(pessimistic)?,
        ))
    }
}

impl Side {
    /// F, and what it may be wrong by.
    fn cdf(&self, at_ns: f64) -> (f64, f64) {
        if at_ns < self.shortest_ns * (1.0 - 1e-15) {
            return (0.0, 0.0);
        }
        self.solved.responses().cdf(at_ns / self.step_ns)
    }

    /// Where F is below `probability` for sure, and where it has reached it for sure.
    fn quantile(&self, probability: f64) -> (f64, f64) {
        let responses = self.solved.responses();
        let shortest = self.shortest_ns / self.step_ns;
        let (at, error) = responses.cdf(shortest);
        if at - error >= probability {
            return (self.shortest_ns, self.shortest_ns);
        }
        let root = root(shortest, probability, |r| responses.roughly(r));
        // How far the error of a probability reaches along the axis of time, to begin with.
        let (at, error) = responses.cdf(root);
        let rise =
            responses.roughly(root * (1.0 + ASIDE)) - responses.roughly(root * (1.0 - ASIDE));
        let reach = (error + (at - probability).abs()) * 2.0 * ASIDE / rise.max(1e-30);
        let mut apart = (1.5 * reach).clamp(4e-12, 0.1);
        let (mut low, mut high) = (shortest, f64::INFINITY);
        while apart < 0.5 {
            let (below, above) = (root * (1.0 - apart), root * (1.0 + apart));
            if low == shortest && below > shortest {
                let (value, error) = responses.cdf(below);
                if value + error < probability {
                    low = below;
                }
            }
            if high.is_infinite() {
                let (value, error) = responses.cdf(above);
                if value - error >= probability {
                    high = above;
                }
            }
            if high.is_finite() && (low > shortest || below <= shortest) {
                break;
            }
            apart *= 8.0;
        }
        (low * self.step_ns, high * self.step_ns)
    }

    /// The mean, as the integral of 1 - F.
    fn mean(&self) -> (f64, f64) {
        let responses = self.solved.responses();
        let shortest = self.shortest_ns / self.step_ns;
        let above = |r: f64| 1.0 - responses.roughly(r);
        let (mut sum, mut error) = (shortest, 0.0);
        let (mut from, mut length) = (shortest, 1.0_f64.max(shortest));
        loop {
            let (part, wrong) = adaptive(&above, from, from + length, MEAN_WITHIN * sum, 12);
            sum += part;
            error += wrong;
            from += length;
            let (last, uncertain) = responses.cdf(from);
            if 1.0 - last < 1e-11 + uncertain {
                // Beyond, the tail falls at least as fast as it did over the last stretch.
                error += (1.0 - last + uncertain) * length * 4.0;
                break;
            }
            length *= 1.5;
        }
        ((sum - error) * self.step_ns, (sum + error) * self.step_ns)
    }
}

/// The integral of `f` by Simpson's rule, halved until two orders agree; with the sum of their
/// differences.
fn adaptive(
    f: &impl Fn(f64) -> f64,
    low: f64,
    high: f64,
    tolerance: f64,
    depth: u32,
) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let ends = (f(low), f(middle), f(high));
    halved(f, (low, high), ends, tolerance, depth)
}

fn halved(
    f: &impl Fn(f64) -> f64,
    (low, high): (f64, f64),
    (at_low, at_middle, at_high): (f64, f64, f64),
    tolerance: f64,
    depth: u32,
) -> (f64, f64) {
    let middle = 0.5 * (low + high);
    let (left, right) = (f(0.5 * (low + middle)), f(0.5 * (middle + high)));
    let simpson = |a: f64, b: f64, c: f64, length: f64| (a + 4.0 * b + c) * length / 6.0;
    let whole = simpson(at_low, at_middle, at_high, high - low);
    let first = simpson(at_low, left, at_middle, middle - low);
    let second = simpson(at_middle, right, at_high, high - middle);
    let apart = (first + second - whole).abs();
    if depth == 0 || apart < tolerance {
        return (first + second, apart);
    }
    let a = halved(
        f,
        (low, middle),
        (at_low, left, at_middle),
        tolerance / 2.0,
        depth - 1,
    );
    let b = halved(
        f,
        (middle, high),
        (at_middle, right, at_high),
        tolerance / 2.0,
        depth - 1,
    );
    (a.0 + b.0, a.1 + b.1)
}

/// Where the rising `f` reaches `target`, above `low`: bracketed by doubling, then by regula falsi
/// and bisection in turns.
fn root(low: f64, target: f64, f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut at_low) = (low, f(low) - target);
    let mut high = low * 2.0;
    let mut at_high = f(high) - target;
    while at_high < 0.0 && high < 1e15 {
        (low, at_low) = (high, at_high);
        high *= 2.0;
        at_high = f(high) - target;
    }
    for turn in 0..200 {
        if high - low <= NEAR * high {
            break;
        }
        let guess = low + (high - low) * at_low / (at_low - at_high);
        let middle = 0.5 * (low + high);
        let next = if turn % 3 == 2 || !(guess > low && guess < high) {
            middle
        } else {
            guess
        };
        let value = f(next) - target;
        if value.abs() < 1e-15 {
            return next;
        }
        if value < 0.0 {
            (low, at_low) = (next, value);
        } else {
            (high, at_high) = (next, value);
        }
    }
    0.5 * (low + high)
}
