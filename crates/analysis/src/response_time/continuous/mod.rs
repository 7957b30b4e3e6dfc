//! Response times on deferrable and periodic servers in continuous time, without a time quantum.
//!
//! Work X(t) comes as a compound Poisson process whose sizes are multiples of a stride; the budget
//! B is a whole number of lattice steps, the stride too; the period P is any real number. The law
//! of the workload z at period starts, the same for both servers (Li 2021, Theorem 5), is not
//! concentrated on the lattice, but where it is asked for at x + place, with 0 <= place < 1, the
//! answer depends on its values at x' + place only:
//!
//! ```text
//! Q(b) = sum over w of Pr(X(P) = w, and X(u) <= u + b for the last u of P) Q(b + B - w)
//! ```
//!
//! and the probability in it is that of X(P) = w, less that of a last u at which X(u) = u + b. Such
//! a u is k - b for a possible amount of work k; before it, ballots are counted (Takacs): of the
//! arrivals that amount to y in t, a share 1 - y/t never exceeds the diagonal. The derivation is in
//! docs/concepts/response-time.md.
//!
//! Between lattice points Q is smooth, so it is solved at a few places and interpolated; between
//! the kinks that the lattice makes, the integral over the moment of arrival is one of a smooth
//! function too. The error of solving is proved (T contracts in a weighted norm); those of
//! interpolating and integrating are estimated from how fast the coefficients fall and from two
//! orders of integration, and added.

mod boundary;
mod equation;
mod idle;
mod job_sums;
mod linear;
mod mean;
mod norm;
mod panels;
mod quadrature;
mod response;
mod rows;
mod stretches;
mod work;

use crate::AnalysisError;
use crate::response_time::diffusion::PeriodMoments;
use boundary::StartLaw;
pub(super) use response::ContinuousResponses;
use response::Idling;
use work::StrideWork;

/// What becomes of budget that nothing needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BudgetUse {
    /// It is kept within the period: the deferrable server.
    Deferrable,
    /// It is lost: the periodic server.
    Periodic,
}

/// A queue in lattice steps.
#[derive(Clone, Debug)]
pub(super) struct StepQueue {
    /// The work that comes, in strides.
    work: StrideWork,
    /// Steps per stride.
    stride: usize,
    /// The budget in steps.
    budget_steps: usize,
    /// The period in steps.
    period_steps: f64,
    /// The job that is looked at: its own work and what of its batch goes before it, in strides.
    tagged: Vec<(usize, f64)>,
    kind: BudgetUse,
}

impl StepQueue {
    /// A queue of batches that come at `rate` per step, of the given sizes in strides, on a server
    /// of `budget` steps in `period` steps.
    pub(super) fn new(
        rate: f64,
        sizes: Vec<(usize, f64)>,
        tagged: Vec<(usize, f64)>,
        stride: usize,
        (budget_steps, period_steps): (usize, f64),
        kind: BudgetUse,
    ) -> Self {
        Self {
            work: StrideWork { rate, sizes },
            stride,
            budget_steps,
            period_steps,
            tagged,
            kind,
        }
    }
}

impl StepQueue {
    /// The moments of the work that a period brings, beside its budget.
    fn moments(&self) -> PeriodMoments {
        let stride = self.stride as f64;
        let squares = self.work.sizes.iter();
        let square: f64 = squares.map(|(size, p)| (size * size) as f64 * p).sum();
        PeriodMoments {
            budget_steps: self.budget_steps as f64,
            period_steps: self.period_steps,
            jobs: self.work.rate * self.period_steps,
            size: self.work.mean() * stride,
            square: square * stride * stride,
        }
    }
}

/// A queue whose workload at period starts is known.
#[derive(Clone, Debug)]
pub(super) struct Solved {
    queue: StepQueue,
    boundary: StartLaw,
    idling: Idling,
    tolerance: f64,
}

impl Solved {
    /// Finds the workload at period starts, with interpolation wrong by at most `tolerance` if that
    /// can be had.
    ///
    /// # Errors
    /// The load is too near to the bandwidth, or the lattice too fine for it.
    pub(super) fn new(queue: StepQueue, tolerance: f64) -> Result<Self, AnalysisError> {
        let boundary = StartLaw::solve(&queue, tolerance)?;
        Ok(Self {
            idling: Idling::of(&queue, &boundary, tolerance),
            queue,
            boundary,
            tolerance,
        })
    }

    /// An evaluator of the distribution function.
    pub(super) fn responses(&self) -> ContinuousResponses<'_> {
        ContinuousResponses::new(&self.queue, &self.boundary, &self.idling, self.tolerance)
    }
}
