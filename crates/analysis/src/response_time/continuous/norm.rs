//! The norm in which one period of the server brings workloads together.

use super::StepQueue;
use crate::AnalysisError;

/// This part of what a probability may be wrong by is neglected of the workload's tail, but for at
/// most what e to the minus the second one is.
const NEGLECTED: f64 = 0.01;
const NEGLECTED_LOG: f64 = 30.0;
/// The most places on the workload's axis.
const MOST_STATES: usize = 2_000_000;
/// The most execution times that a period has room for.
const MOST_STRIDES: f64 = 200_000.0;

/// The weighted norm in which T is a contraction: sup |f(x)| e^(theta x) for a theta below
/// Lundberg's, since T e^(-theta x) <= e^(-theta x) E e^(theta (X(P) - B)).
pub(super) struct Norm {
    /// Lundberg's exponent, per lattice step: the workload at period starts is above x with at most e^(-lundberg x).
    pub(super) lundberg: f64,
    /// Per lattice step.
    pub(super) theta: f64,
    /// By how much T contracts.
    pub(super) factor: f64,
    /// Where the workload's axis is cut off.
    pub(super) states: usize,
    /// What that may do to a value.
    pub(super) cut: f64,
    /// More than these strides do not come in 0, 1, ... strides of time, up to a period.
    reaches: Vec<usize>,
}

impl Norm {
    pub(super) fn of(queue: &StepQueue, tolerance: f64) -> Result<Self, AnalysisError> {
        let stride = queue.stride as f64;
        let share = queue.budget_steps as f64 / queue.period_steps;
        let lundberg = queue.work.decay(share / stride) / stride;
        let exponent = |theta: f64| {
            let arrived =
                queue.work.rate * queue.period_steps * (queue.work.moment(theta * stride) - 1.0);
            arrived - theta * queue.budget_steps as f64
        };
        let candidates = (1..64).map(|part| lundberg * f64::from(part) / 64.0);
        let theta = candidates
            .min_by(|a, b| exponent(*a).total_cmp(&exponent(*b)))
            .unwrap_or(0.0);
        let factor = exponent(theta).exp();
        let log = (-(NEGLECTED * tolerance).ln()).clamp(1.0, NEGLECTED_LOG);
        let states = (log / lundberg).ceil();
        let strides = (queue.period_steps / stride).ceil();
        let tractable =
            factor < 1.0 - 1e-9 && states < MOST_STATES as f64 && strides <= MOST_STRIDES;
        if !tractable {
            return Err(AnalysisError::NotAnalysed {
                reason:
                    "the load is so near to the bandwidth, or the greatest common divisor of budget and \
                         execution times so short against the period, that the exact method would \
                         take too long"
                        .into(),
            });
        }
        let states = states as usize + queue.budget_steps + 1;
        // Taking what lies beyond for zero makes every value too small by at most its largest: T
        // never makes more of a constant.
        let cut = (-lundberg * states as f64).exp();
        Ok(Self {
            lundberg,
            theta,
            factor,
            states,
            cut,
            reaches: (0..=strides as usize)
                .map(|length| queue.work.reach(length as f64 * stride))
                .collect(),
        })
    }

    /// More strides than this do not come in `steps` of time.
    pub(super) fn reach(&self, queue: &StepQueue, steps: f64) -> usize {
        let strides = (steps / queue.stride as f64).ceil().max(0.0) as usize;
        match self.reaches.get(strides) {
            Some(reach) => *reach,
            None => queue.work.reach(steps),
        }
    }
}
