//! The distribution function of the response time, at any time.

use super::boundary::StartLaw;
use super::panels::Panels;
use super::stretches::{Panel, Stretches};
use super::{BudgetUse, StepQueue};

/// This part of what the workload's law may be wrong by is spent on integrating.
const INTEGRATED: f64 = 0.3;
/// Factorials up to here are far from the largest float.
const FACTORIALS: usize = 30;
/// Products with a smaller factor do not count.
const NOTHING: f64 = 1e-18;

/// Less than this many steps are none.
const NO_ROOM: f64 = 1e-10;

/// Evaluates F(r) = (1/P) times the integral over n from 0 to P of C(n, n + r), with C(n, T) the
/// probability that a job that comes n after a period start is done T after it.
pub(in crate::response_time) struct ContinuousResponses<'a> {
    queue: &'a StepQueue,
    boundary: &'a StartLaw,
    /// So many strides of work come in a period at most.
    reach: usize,
    inverses: Inverses,
    stretches: Stretches,
    panels: Panels,
    /// What the workload's law may be wrong by.
    tolerance: f64,
}

/// Vectors that are filled anew at each place.
#[derive(Default)]
struct Scratch {
    arrived: Vec<f64>,
    mixture: Vec<f64>,
    waiting: Vec<f64>,
    early: Vec<f64>,
}

/// One place of the integral.
struct ArrivalPlace {
    n: f64,
    /// What the server has offered by then, in whole steps and the rest.
    given: usize,
    rest: f64,
    /// The most that the work of the last u before n may exceed u by, plus the job itself; `None`
    /// if the server was off up to n.
    lead: Option<f64>,
}

impl<'a> ContinuousResponses<'a> {
    pub(super) fn new(queue: &'a StepQueue, boundary: &'a StartLaw, tolerance: f64) -> Self {
        let reach = queue.work.reach(queue.period_steps);
        Self {
            queue,
            boundary,
            reach,
            inverses: Inverses::up_to(reach + 1),
            stretches: Stretches::new(queue, &boundary.jumps),
            panels: Panels::new(queue),
            tolerance,
        }
    }

    /// F(r), and about what it may be wrong by: the difference of two orders of integration, and
    /// the error of the workload's law.
    pub(in crate::response_time) fn cdf(&self, r: f64) -> (f64, f64) {
        self.cdf_within(r, INTEGRATED * self.tolerance)
    }

    /// The same where integrating may make it wrong by about `tolerance`, which saves time.
    pub(in crate::response_time) fn cdf_within(&self, r: f64, tolerance: f64) -> (f64, f64) {
        let period = self.queue.period_steps;
        let mut scratch = Scratch::default();
        let panels = self.stretches.at(r);
        let (sum, apart) = self.panels.integrate(
            &self.stretches,
            &panels,
            |panel, n| {
                let place = self.place(panel, n, r);
                self.done(&place, &mut scratch)
            },
            tolerance * period,
        );
        let error = apart / period + self.boundary.error + 1e-13;
        ((sum / period).clamp(0.0, 1.0), error)
    }

    fn place(&self, panel: &Panel, n: f64, r: f64) -> ArrivalPlace {
        let StepQueue {
            budget_steps: budget,
            period_steps: period,
            ..
        } = *self.queue;
        let off = period - budget as f64;
        let (step, rest) = match (panel.on, self.queue.kind) {
            (Some(begin), _) => {
                // Within one step of the lattice floats must not decide which one it is.
                let step = panel
                    .step_from(begin)
                    .unwrap_or_else(|| (n - begin).floor());
                (step as usize, (n - begin - step).clamp(0.0, 1.0))
            }
            (None, BudgetUse::Deferrable) => (budget, 0.0),
            (None, BudgetUse::Periodic) => (0, 0.0),
        };
        let given = panel.periods * budget + step;
        let lead = match self.queue.kind {
            BudgetUse::Deferrable if panel.periods == 0 => Some(r),
            BudgetUse::Deferrable => Some(period - n + (given - budget) as f64 + rest),
            BudgetUse::Periodic if n > off => Some(given as f64 + rest + off - n),
            BudgetUse::Periodic => None,
        };
        ArrivalPlace {
            n,
            given,
            rest,
            lead,
        }
    }

    /// C at a place: over the job's own work.
    fn done(&self, place: &ArrivalPlace, scratch: &mut Scratch) -> f64 {
        let strides = place.given / self.queue.stride;
        let last = strides.min(self.reach);
        let work = &self.queue.work;
        work.probabilities_into(place.n, last, &mut scratch.arrived);
        self.boundary.mixture(place.rest, &mut scratch.mixture);
        let own = self.queue.tagged.iter();
        own.map(|(own, share)| share * self.done_with(place, own * self.queue.stride, scratch))
            .sum()
    }

    /// C at a place for a job of `own` steps: Pr(z + X(n) + own <= given, and X(u) + own <= u + lead
    /// for the last u before n), the second part by the last u at which it is an equality.
    fn done_with(&self, place: &ArrivalPlace, own: usize, scratch: &mut Scratch) -> f64 {
        let Some(most) = place.given.checked_sub(own) else {
            return 0.0;
        };
        let stride = self.queue.stride;
        let count = (most / stride).min(self.reach) + 1;
        let Scratch {
            arrived,
            mixture,
            waiting,
            early,
        } = scratch;
        self.boundary
            .at_strides_below(most, count, mixture, waiting);
        let total: f64 = arrived.iter().zip(&*waiting).map(|(p, q)| p * q).sum();
        let Some(lead) = place.lead else {
            return total;
        };
        let room = lead - own as f64;
        // A job that finds nothing to wait for has no room at all, up to the last digits of floats.
        if room < -NO_ROOM {
            return 0.0;
        }
        let room = room.max(0.0);
        let first = (room / stride as f64).floor() as usize + 1;
        let crossed = if let Some(jobs) = self.queue.work.in_jobs(place.n) {
            // e to the minus the jobs expected before and since is the same for all k.
            self.crossed_of_one_size(place, room, &waiting[..count], jobs)
        } else {
            let mut crossed = 0.0;
            for k in first..count {
                let since = (k * stride) as f64 - room;
                let before = place.n - since;
                if before <= 0.0 {
                    break;
                }
                let late = self.queue.work.probability(since, k);
                if late < NOTHING {
                    continue;
                }
                let work = &self.queue.work;
                work.probabilities_into(before, count - 1 - k, early);
                let slope = stride as f64 / before;
                let known = early.iter().zip(&waiting[k..]).enumerate();
                let rest: f64 = known
                    .map(|(y, (p, q))| p * (1.0 - y as f64 * slope) * q)
                    .sum();
                crossed += late * rest;
            }
            crossed
        };
        total - crossed
    }

    /// The crossing part (see [`ContinuousResponses::done_with`]) where all batches are one stride: the terms of
    /// Poisson laws, by recursion. `jobs` are expected in n.
    fn crossed_of_one_size(
        &self,
        place: &ArrivalPlace,
        room: f64,
        waiting: &[f64],
        jobs: f64,
    ) -> f64 {
        let stride = self.queue.stride as f64;
        let rate = self.queue.work.rate;
        let first = (room / stride).floor() as usize + 1;
        let mut crossed = 0.0;
        for k in first..waiting.len() {
            let since = k as f64 * stride - room;
            let before = place.n - since;
            if before <= 0.0 {
                break;
            }
            let late = self.inverses.power_over_factorial(rate * since, k);
            if late < NOTHING {
                continue;
            }
            let (mean, slope) = (rate * before, stride / before);
            let (mut early, mut rest) = (1.0, 0.0);
            for (y, (q, inverse)) in waiting[k..].iter().zip(&self.inverses.of).enumerate() {
                if y > 0 {
                    early *= mean * inverse;
                }
                rest += early * (1.0 - y as f64 * slope) * q;
                if early < NOTHING && y as f64 > mean {
                    break;
                }
            }
            crossed += late * rest;
        }
        crossed * (-jobs).exp()
    }
}

/// 1 / k for k = 0, 1, ... (1 for 0), and 1 / k!.
struct Inverses {
    of: Vec<f64>,
    of_factorial: Vec<f64>,
}

impl Inverses {
    fn up_to(last: usize) -> Self {
        let of: Vec<f64> = (0..=last).map(|k| 1.0 / k.max(1) as f64).collect();
        let of_factorial = of.iter().scan(1.0, |product, inverse| {
            *product *= inverse;
            Some(*product)
        });
        Self {
            of_factorial: of_factorial.take(FACTORIALS).collect(),
            of,
        }
    }

    /// x to the k over k!.
    fn power_over_factorial(&self, x: f64, k: usize) -> f64 {
        match self.of_factorial.get(k) {
            Some(inverse) => x.powi(k as i32) * inverse,
            None => self.of[1..=k]
                .iter()
                .fold(1.0, |power, inverse| power * x * inverse),
        }
    }
}
