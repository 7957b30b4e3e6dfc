//! Poisson arrivals at a reservation server, as an object that answers questions.

use num_integer::gcd;
use tailbound_distribution::{Distribution, Evidence, Provenance, StepCdf};
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

use super::answers::{QueueResponses, QueueSide, ResponseSource};
use super::batch_work::{BatchWork, BudgetLattice};
use super::continuous::{BudgetUse, Solved, StepQueue};
use super::lattice::{self, JobStream, Law};
use super::{bandwidth, remedy};
use crate::batches::BatchLaw;
use crate::slotted::{
    ExecutionLaw, SlottedPrediction, SlottedQuery, constant_bandwidth_watched, polling_watched,
};
use crate::{AnalysisError, SearchWatch, Unwatched};

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

/// The largest denominator of a rounded ratio of budget to execution time.
const LARGEST_DENOMINATOR: u64 = 3_000;
/// The same where little precision is asked for, and from which tolerance on that is so.
const ROUGH_DENOMINATOR: u64 = 40;
const ROUGH: f64 = 1e-6;
/// What interpolation may add to a probability where nothing else is asked for.
pub(crate) const PRECISE: f64 = 1e-9;
/// The same where the budget is rounded, which moves a probability by more.
const ROUNDED: f64 = 1e-8;

impl PoissonQueue {
    /// Solves the queue.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for numbers that make no sense, [`AnalysisError::Overloaded`] if
    /// the work outgrows the reservation, [`AnalysisError::NotAnalysed`] where the method would take
    /// too long or does not hold.
    pub fn solve(&self) -> Result<QueueResponses, AnalysisError> {
        self.solve_within(PRECISE)
    }

    /// The same, where a probability may be wrong by about `tolerance`: the bounds say so, and the
    /// answer comes sooner.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub fn solve_within(&self, tolerance: f64) -> Result<QueueResponses, AnalysisError> {
        self.solve_watched(tolerance, &Unwatched)
    }

    /// The same; where `watch` stops the solver of a server that follows the arrivals, the bracket is a wider one.
    pub(crate) fn solve_watched(
        &self,
        tolerance: f64,
        watch: &dyn SearchWatch,
    ) -> Result<QueueResponses, AnalysisError> {
        self.check()?;
        self.check_load(bandwidth(self.server))?;
        let law = ExecutionLaw::new(self.execution_times.clone())?;
        if let Some(grid_answer) = self.on_a_grid(law, (Duration::ZERO, watch)) {
            return grid_answer.map(|prediction| QueueResponses {
                source: ResponseSource::Bracket {
                    distribution: Box::new(prediction.distribution),
                    mean: Some(prediction.mean),
                },
                utilisation: prediction.utilisation,
                bandwidth: prediction.bandwidth,
                method: prediction.method,
                assumptions: prediction.assumptions,
            });
        }
        match self.exactly(tolerance) {
            Err(AnalysisError::NotAnalysed { .. }) => self.on_a_lattice(),
            responses => responses,
        }
    }

    /// By the exact method.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub(super) fn exactly(&self, tolerance: f64) -> Result<QueueResponses, AnalysisError> {
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
            Some(_) => tolerance.max(ROUNDED),
            None => tolerance,
        };
        let solve = |lattice: &BudgetLattice| self.side(&work, lattice, kind, period, tolerance);
        let optimistic = solve(&lattices.optimistic)?;
        let pessimistic = lattices.pessimistic.as_ref().map(solve).transpose()?;
        Ok(self.response_times(optimistic, pessimistic, bandwidth(self.server)))
    }

    /// The distribution of the execution times.
    pub(super) fn execution_law(&self) -> Result<Distribution, AnalysisError> {
        let mut law = self.execution_times.clone();
        law.sort_by_key(|(time, _)| *time);
        let longest = law.last().map(|(time, _)| *time);
        let mut reached = 0.0;
        let mut steps: Vec<(Duration, f64)> = Vec::with_capacity(law.len());
        for (time, p) in law {
            reached += p;
            let share = if Some(time) == longest {
                1.0
            } else {
                f64::min(reached, 1.0)
            };
            match steps.last_mut() {
                Some(last) if last.0 == time => last.1 = share,
                _ => steps.push((time, share)),
            }
        }
        let curve = StepCdf::new(steps).map_err(|error| AnalysisError::Invalid {
            what: format!("the execution times: {error}"),
        })?;
        let subject = Provenance::new(Evidence::Estimate, "execution time", "as given");
        Ok(Distribution::from_curve(subject, curve))
    }

    /// The proved bracket of the response times on a dedicated, deferrable or periodic server, by the lattice method,
    /// which takes any law of execution times.
    ///
    /// # Errors
    /// As of [`PoissonQueue::solve`].
    pub fn on_a_lattice(&self) -> Result<QueueResponses, AnalysisError> {
        let stream = [self.stream()?];
        let responses = lattice::response_times(&stream, self.server, Duration::ZERO, &Unwatched)?;
        let method = responses.method();
        let mut assumptions = self.assumptions();
        assumptions.push(responses.rounding());
        let mut provenance = Provenance::new(Evidence::Bound, "response time", method);
        provenance.assumptions.clone_from(&assumptions);
        Ok(QueueResponses {
            source: ResponseSource::Bracket {
                mean: Some(responses.mean),
                distribution: Box::new(responses.overall.into_distribution(provenance)),
            },
            utilisation: self.utilisation(),
            bandwidth: bandwidth(self.server),
            method: method.into(),
            assumptions,
        })
    }

    /// The jobs as the lattice method takes them.
    pub(super) fn stream(&self) -> Result<JobStream, AnalysisError> {
        Ok(JobStream {
            per_second: self.rate.as_per_second(),
            law: Law::given("", &self.execution_law()?)?,
            batches: BatchLaw::new(&self.batches),
        })
    }

    /// On a server that follows the arrivals, hard constant-bandwidth or polling, with execution times of `law`; `None`
    /// for others.
    pub(super) fn on_a_grid(
        &self,
        law: ExecutionLaw,
        (dispatch_overhead, watch): (Duration, &dyn SearchWatch),
    ) -> Option<Result<SlottedPrediction, AnalysisError>> {
        let solve = match self.server.in_effect() {
            ReservationServer::ConstantBandwidth { .. } => constant_bandwidth_watched,
            ReservationServer::Polling { .. } => polling_watched,
            _ => return None,
        };
        let (budget, period) = self.server.budget_and_period()?;
        let query = SlottedQuery {
            batches: self.batches.clone(),
            dispatch_overhead,
            ..SlottedQuery::new(self.rate, law, budget, period)
        };
        Some(solve(&query, watch))
    }

    /// What all methods take for granted.
    pub(crate) fn assumptions(&self) -> Vec<String> {
        vec![
            "arrivals are a Poisson process, independent of execution times".into(),
            "first come, first served, one job at a time".into(),
            "the reservation has the highest priority on its CPU".into(),
            "the system is in equilibrium".into(),
        ]
    }

    /// The response times with a budget of `steps` times a `per_stride`-th of the stride of the
    /// execution times, which need not be a whole number of nanoseconds.
    pub(crate) fn solve_with_steps(
        &self,
        kind: BudgetUse,
        (steps, per_stride): (u64, u64),
        period: Duration,
        tolerance: f64,
    ) -> Result<QueueResponses, AnalysisError> {
        self.check()?;
        let work = BatchWork::of(self)?;
        // The solver walks the classes of the workload modulo a stride in one cycle, budget by budget;
        // with a divisor in common there would be several.
        let divisor = gcd(steps, per_stride).max(1);
        let (steps, per_stride) = (steps / divisor, per_stride / divisor);
        let lattice = BudgetLattice {
            step_ns: work.stride_ns as f64 / per_stride as f64,
            stride: per_stride as usize,
            budget_steps: steps as usize,
        };
        let bandwidth = lattice.budget_steps as f64 * lattice.step_ns / period.as_nanos() as f64;
        self.check_load(bandwidth)?;
        let side = self.side(&work, &lattice, kind, period, tolerance)?;
        Ok(self.response_times(side, None, bandwidth))
    }

    /// The largest common divisor of the execution times.
    pub(crate) fn stride(&self) -> Duration {
        let times = self.execution_times.iter();
        Duration::from_nanos(times.fold(0, |g, (time, _)| gcd(g, time.as_nanos())))
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
        lattice: &BudgetLattice,
        kind: BudgetUse,
        period: Duration,
        tolerance: f64,
    ) -> Result<QueueSide, AnalysisError> {
        let queue = StepQueue::new(
            self.rate.as_per_second() * 1e-9 * lattice.step_ns,
            work.total.clone(),
            work.tagged.clone(),
            lattice.stride,
            (
                lattice.budget_steps,
                period.as_nanos() as f64 / lattice.step_ns,
            ),
            kind,
        );
        Ok(QueueSide {
            solved: Solved::new(queue, tolerance)?,
            step_ns: lattice.step_ns,
            shortest_ns: work.shortest_ns(),
        })
    }

    fn response_times(
        &self,
        optimistic: QueueSide,
        pessimistic: Option<QueueSide>,
        bandwidth: f64,
    ) -> QueueResponses {
        let mut assumptions = self.assumptions();
        assumptions
            .push("the errors of interpolation and integration are estimated and added".into());
        if pessimistic.is_some() {
            assumptions
                .push("the budget is rounded outward to a ratio of the execution time".into());
        }
        QueueResponses {
            source: ResponseSource::Exact {
                optimistic: Box::new(optimistic),
                pessimistic: pessimistic.map(Box::new),
            },
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
        let mean_s: f64 = times.map(|(time, p)| time.as_secs_f64() * p).sum();
        self.rate.as_per_second() * mean_jobs * mean_s
    }

    pub(super) fn check(&self) -> Result<(), AnalysisError> {
        let invalid = |what: String| Err(AnalysisError::Invalid { what });
        let sums_up = |sum: f64| (sum - 1.0).abs() < 1e-9;
        if self.execution_times.is_empty() {
            return invalid("there is no execution time; give at least one".into());
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
        BatchLaw::new(&self.batches).check()?;
        match self.server.budget_and_period() {
            Some((budget, period)) if budget.is_zero() || period.is_zero() || budget > period => {
                invalid(format!(
                    "a budget of {budget} in {period} is none; make it above zero and at most \
                     the period"
                ))
            }
            _ => Ok(()),
        }
    }

    fn budget_and_period(&self) -> Result<(BudgetUse, Duration, Duration), AnalysisError> {
        match self.server.in_effect() {
            ReservationServer::Deferrable { budget, period } => {
                Ok((BudgetUse::Deferrable, budget, period))
            }
            ReservationServer::Periodic { budget, period } => {
                Ok((BudgetUse::Periodic, budget, period))
            }
            // A CPU of its own is a server whose budget is its period, whatever that is.
            ReservationServer::Dedicated => {
                let one = self.execution_times.iter().map(|(time, _)| *time).max();
                let one = one.unwrap_or(Duration::from_secs(1));
                Ok((BudgetUse::Deferrable, one, one))
            }
            ReservationServer::Simulated { .. } => Err(AnalysisError::only_simulated()),
            ReservationServer::Polling { .. } | ReservationServer::ConstantBandwidth { .. } => {
                Err(AnalysisError::NotAnalysed {
                    reason: "a server that follows the arrivals, in continuous time".into(),
                })
            }
        }
    }
}
