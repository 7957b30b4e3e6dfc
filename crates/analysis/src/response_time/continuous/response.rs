//! The distribution function of the response time, at any time.
//!
//! With E(n) as in docs/concepts/response-time.md, and D what the server has offered by n + r, a job of d that comes
//! at n is done within r if E(n) + d <= D, with the probability
//!
//! ```text
//! C(n, n + r) = Pr(z + X(n) + d <= D) - sum over k of p(x) g_k(t),   x = D - d - k,   t = n - off - x:
//! ```
//!
//! the server was last idle x after it went on, and since then k came. While the server is off at n + r, D stays and
//! t moves with n; while it is on, D moves with n and t stays. So the sum is integrated over n by what the integrals
//! of g_k, and of p, are. Of the first part that holds while the server is off; while it is on, panels are integrated.

use super::boundary::StartLaw;
use super::idle::{IdleLaw, idle_at, idle_over_offs};
use super::job_sums::JobSums;
use super::panels::Panels;
use super::stretches::{Panel, Stretches};
use super::{BudgetUse, StepQueue};

/// This part of what the workload's law may be wrong by is spent on integrating.
const INTEGRATED: f64 = 0.3;
/// Products with a smaller factor do not count.
const NOTHING: f64 = 1e-18;
/// Less than this many steps are none.
const NO_ROOM: f64 = 1e-10;

/// Evaluates F(r) = (1/P) times the integral over n from 0 to P of C(n, n + r), with C(n, T) the
/// probability that a job that comes n after a period start is done T after it.
pub(in crate::response_time) struct ContinuousResponses<'a> {
    pub(super) queue: &'a StepQueue,
    pub(super) boundary: &'a StartLaw,
    pub(super) idling: &'a Idling,
    stretches: Stretches,
    panels: Panels,
    /// What the workload's law may be wrong by.
    tolerance: f64,
}

/// When the server has nothing to do, and what comes in a period.
#[derive(Clone, Debug)]
pub(super) struct Idling {
    pub(super) sums: JobSums,
    /// So many strides of work come in a period at most.
    pub(super) reach: usize,
    /// Of a server that is off first, as the periodic server is.
    pub(super) idle: IdleLaw,
    /// The same at the lattice points.
    idle_at_points: Vec<f64>,
    /// Of a deferrable server: the period that a job comes in.
    pub(super) own_period: Option<OwnPeriod>,
}

/// When a deferrable server has nothing to do, for jobs that are done in the period that they come in.
#[derive(Clone, Debug)]
pub(super) struct OwnPeriod {
    /// If it may be on up to the moment that is asked for.
    pub(super) at_once: IdleLaw,
    /// Over how long it has to be off before, see [`idle_over_offs`].
    pub(super) over_offs: Vec<f64>,
}

/// Vectors that are filled anew at each place.
#[derive(Default)]
struct Scratch {
    arrived: Vec<f64>,
    mixture: Vec<f64>,
    waiting: Vec<f64>,
}

impl Idling {
    pub(super) fn of(queue: &StepQueue, boundary: &StartLaw, tolerance: f64) -> Self {
        let period = queue.period_steps;
        let off = period - queue.budget_steps as f64;
        let reach = queue.work.reach(period);
        let sums = JobSums::of(&queue.work, reach, period);
        let law = |off: f64| IdleLaw::new(queue, boundary, off, INTEGRATED * tolerance);
        Self {
            reach,
            idle: law(off),
            idle_at_points: idle_at(queue, boundary, off, 0.0),
            own_period: (queue.kind == BudgetUse::Deferrable).then(|| OwnPeriod {
                at_once: law(0.0),
                over_offs: idle_over_offs(queue, boundary, &sums),
            }),
            sums,
        }
    }
}

impl<'a> ContinuousResponses<'a> {
    pub(super) fn new(
        queue: &'a StepQueue,
        boundary: &'a StartLaw,
        idling: &'a Idling,
        tolerance: f64,
    ) -> Self {
        Self {
            queue,
            boundary,
            idling,
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
        let (mut sum, mut apart) = (0.0, 0.0);
        let mut panels = Vec::new();
        for stretch in self.stretches.at(r) {
            if stretch.on.is_some() {
                let (crossed, wrong) = self.crossed_while_on(&stretch, r);
                sum -= crossed;
                apart += wrong;
                self.stretches.cut(stretch, &mut panels);
            } else {
                sum += self.done_while_off(&stretch, r);
            }
        }
        let mut scratch = Scratch::default();
        let (arrived, wrong) = self.panels.integrate(
            &self.stretches,
            &panels,
            |panel, n| self.arrived_by(panel, n, r, &mut scratch),
            tolerance * period,
        );
        let error = (apart + wrong) / period + self.boundary.error + 1e-13;
        (((sum + arrived) / period).clamp(0.0, 1.0), error)
    }

    /// The time without service before the server goes on, in every period.
    pub(super) fn off(&self) -> f64 {
        self.queue.period_steps - self.queue.budget_steps as f64
    }

    /// By how much the work of the last u before n may exceed u, for a job of `own` steps on a server that is on at
    /// n + r; below zero if there is no room for the job.
    fn room_while_on(&self, stretch: &Panel, r: f64, own: usize) -> f64 {
        let periods = stretch.periods as f64;
        let waited = match self.queue.kind {
            BudgetUse::Deferrable => (periods - 1.0).max(0.0) * self.off(),
            BudgetUse::Periodic => periods * self.off(),
        };
        r - waited - own as f64
    }

    /// Whether the server may have been idle before n: a periodic one is off at first.
    fn may_idle(&self, n: f64) -> bool {
        self.queue.kind == BudgetUse::Deferrable || n > self.off()
    }

    /// Pr(z + X(n) + d <= D) at a place of a panel with the server on; zero where the job has no room.
    fn arrived_by(&self, panel: &Panel, n: f64, r: f64, scratch: &mut Scratch) -> f64 {
        let Some(begin) = panel.on else { return 0.0 };
        // Within one step of the lattice floats must not decide which one it is.
        let step = panel
            .step_from(begin)
            .unwrap_or_else(|| (n - begin).floor());
        let given = panel.periods * self.queue.budget_steps + step as usize;
        let rest = (n - begin - step).clamp(0.0, 1.0);
        let Scratch {
            arrived,
            mixture,
            waiting,
        } = scratch;
        let (stride, last) = (
            self.queue.stride,
            (given / self.queue.stride).min(self.idling.reach),
        );
        let first = self.queue.work.window_into(n, last, arrived);
        self.boundary.mixture(rest, mixture);
        let own = self.queue.tagged.iter();
        own.map(|(own, share)| {
            let own = own * stride;
            let top = given.checked_sub(own + first * stride);
            let no_room = self.may_idle(n) && self.room_while_on(panel, r, own) < -NO_ROOM;
            let Some(top) = top.filter(|_| !no_room) else {
                return 0.0;
            };
            let count = (top / stride + 1).min(arrived.len());
            self.boundary.at_strides_below(top, count, mixture, waiting);
            let pairs = arrived.iter().zip(&*waiting);
            share * pairs.map(|(p, q)| p * q).sum::<f64>()
        })
        .sum()
    }

    /// What the idle moments take from a stretch with the server on, and about what that is wrong by.
    fn crossed_while_on(&self, stretch: &Panel, r: f64) -> (f64, f64) {
        let Some(begin) = stretch.on else {
            return (0.0, 0.0);
        };
        let low = match self.queue.kind {
            BudgetUse::Deferrable => stretch.low,
            BudgetUse::Periodic => stretch.low.max(self.off()),
        };
        if stretch.high <= low {
            return (0.0, 0.0);
        }
        let idle = match &self.idling.own_period {
            Some(own) if stretch.periods == 0 => &own.at_once,
            _ => &self.idling.idle,
        };
        let given = (stretch.periods * self.queue.budget_steps) as f64 - begin;
        let (from, to) = (idle.end(low + given), idle.end(stretch.high + given));
        let (stride, mut sum, mut weights) = (self.queue.stride as f64, 0.0, 0.0);
        for (own, share) in &self.queue.tagged {
            let own = own * self.queue.stride;
            let room = self.room_while_on(stretch, r, own);
            if room < -NO_ROOM {
                continue;
            }
            let room = room.max(0.0);
            let first = (room / stride).floor() as usize + 1;
            let most = ((stretch.high + given).max(0.0) as usize).saturating_sub(own);
            for k in first..=(most / self.queue.stride).min(self.idling.reach) {
                let late = share * self.idling.sums.probability(k as f64 * stride - room, k);
                if late < NOTHING {
                    continue;
                }
                let before = own + k * self.queue.stride;
                sum += late * (idle.up_to(&to, before) - idle.up_to(&from, before));
                weights += late;
            }
        }
        (sum, weights * idle.error * (stretch.high - low))
    }

    /// The integral of C over a stretch with the server off at n + r.
    fn done_while_off(&self, stretch: &Panel, r: f64) -> f64 {
        let budget = self.queue.budget_steps;
        let given = match self.queue.kind {
            BudgetUse::Deferrable => (stretch.periods + 1) * budget,
            BudgetUse::Periodic => stretch.periods * budget,
        };
        let own_period = self
            .idling
            .own_period
            .as_ref()
            .filter(|_| stretch.periods == 0);
        let tagged = self.queue.tagged.iter();
        tagged
            .map(|(own, share)| {
                let own = own * self.queue.stride;
                let Some(limit) = given.checked_sub(own) else {
                    return 0.0;
                };
                let done = match own_period {
                    Some(own_period) => self.done_in_own_period(stretch, r, own, own_period),
                    None => self.done_later(stretch, limit),
                };
                share * done
            })
            .sum()
    }

    /// The integral over n of C, of a deferrable server whose budget the job's own period offers no more of: the
    /// budget is all that there is, and the room stays.
    fn done_in_own_period(
        &self,
        stretch: &Panel,
        r: f64,
        own: usize,
        own_period: &OwnPeriod,
    ) -> f64 {
        let (stride, budget) = (self.queue.stride, self.queue.budget_steps);
        let room = r - own as f64;
        if room < -NO_ROOM {
            return 0.0;
        }
        let room = room.max(0.0);
        let limit = budget - own;
        let first = (room / stride as f64).floor() as usize + 1;
        let crossed: f64 = (first..=(limit / stride).min(self.idling.reach))
            .map(|k| {
                let late = self.idling.sums.probability((k * stride) as f64 - room, k);
                late * own_period.over_offs[(limit - k * stride) / stride]
            })
            .sum();
        self.arrived_while((stretch.low, stretch.high), limit) - crossed
    }

    /// The integral over n of Pr(E(n) <= `limit`), which is 0 where the server has been on for longer.
    pub(super) fn done_later(&self, stretch: &Panel, limit: usize) -> f64 {
        let (stride, off) = (self.queue.stride, self.off());
        let high = stretch.high.min(limit as f64 + off);
        if high <= stretch.low {
            return 0.0;
        }
        let mut crossed = 0.0;
        let on = high - off;
        if on > 0.0 {
            let since = (stretch.low - off).max(0.0);
            let last = limit.min(self.queue.budget_steps - 1);
            for x in (limit % stride..=last).step_by(stride) {
                let (begin, end) = (since - x as f64, on - x as f64);
                if end <= 0.0 {
                    break;
                }
                let strides = (limit - x) / stride;
                let late = self.idling.sums.integral((begin.max(0.0), end), strides);
                crossed += late * self.idling.idle_at_points[x];
            }
        }
        self.arrived_while((stretch.low, high), limit) - crossed
    }

    /// The integral over n of Pr(z + X(n) <= `limit`).
    fn arrived_while(&self, between: (f64, f64), limit: usize) -> f64 {
        let integrals = self.idling.sums.integrals(between);
        let count = (limit / self.queue.stride).min(self.idling.reach) + 1;
        let (mut mixture, mut waiting) = (Vec::new(), Vec::new());
        self.boundary.mixture(0.0, &mut mixture);
        self.boundary
            .at_strides_below(limit, count, &mixture, &mut waiting);
        let terms = waiting.iter().enumerate();
        terms
            .map(|(w, q)| q * self.idling.sums.mixed(&integrals, w))
            .sum()
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::Solved;
    use super::super::quadrature::GaussLegendre;
    use super::*;

    fn queue(kind: BudgetUse, (budget, period): (usize, f64)) -> StepQueue {
        let sizes = vec![(1, 0.6), (2, 0.4)];
        StepQueue::new(0.09, sizes.clone(), sizes, 3, (budget, period), kind)
    }

    /// Q at a real place.
    fn started_below(boundary: &StartLaw, at: f64) -> f64 {
        if at < 0.0 {
            return 0.0;
        }
        let (mut mixture, mut answer) = (Vec::new(), Vec::new());
        boundary.mixture(at.fract(), &mut mixture);
        boundary.at_strides_below(at as usize, 1, &mixture, &mut answer);
        answer[0]
    }

    /// C(n, n + r) for a job of `own` steps by equation (5) of docs/concepts/response-time.md, term by term.
    fn by_ballots(solved: &Solved, n: f64, r: f64, own: f64) -> f64 {
        let queue = &solved.queue;
        let (budget, period) = (queue.budget_steps as f64, queue.period_steps);
        let (off, periods) = (period - budget, ((n + r) / period).floor());
        let within = n + r - periods * period;
        let (given, lead) = match queue.kind {
            BudgetUse::Deferrable => {
                let given = periods * budget + within.min(budget);
                let later = period - n + given - budget;
                (given, Some(if periods == 0.0 { r } else { later }))
            }
            BudgetUse::Periodic => {
                let given = periods * budget + (within - off).max(0.0);
                (given, (n > off).then_some(given + off - n))
            }
        };
        let room = lead.map(|lead| lead - own);
        if room.is_some_and(|room| room < -NO_ROOM) {
            return 0.0;
        }
        let stride = queue.stride as f64;
        let strides = (given / stride) as usize + 1;
        let left = |k: usize| started_below(&solved.boundary, given - own - k as f64 * stride);
        let arrived = queue.work.probabilities(n, strides);
        let total: f64 = arrived.iter().enumerate().map(|(w, p)| p * left(w)).sum();
        let Some(room) = room else { return total };
        let crossed = (0..strides).map(|k| {
            let since = k as f64 * stride - room;
            let before = n - since;
            if since <= NO_ROOM || before <= 0.0 {
                return 0.0;
            }
            let early = queue.work.probabilities(before, strides);
            let idle = early
                .iter()
                .enumerate()
                .map(|(y, p)| p * (1.0 - y as f64 * stride / before) * left(k + y));
            queue.work.probabilities(since, k)[k] * idle.sum::<f64>()
        });
        total - crossed.sum::<f64>()
    }

    /// F(r) by those, integrated between all places where one of them may have a kink.
    fn slowly(solved: &Solved, r: f64) -> f64 {
        let queue = &solved.queue;
        let period = queue.period_steps;
        let mut kinks = vec![0.0, period];
        // The server goes on, and off, whole steps from where the job's last period starts, and the one before.
        let last = ((r / period).floor() + 1.0) * period - r;
        for from in [0.0, period, last, last - period, last + period] {
            kinks.extend((-50..50).map(|step| from.fract() + f64::from(step)));
        }
        kinks.retain(|kink| (0.0..=period).contains(kink));
        kinks.sort_by(f64::total_cmp);
        let rule = GaussLegendre::new(7);
        let shares = queue.tagged.iter();
        let done = |n: f64| -> f64 {
            let own = |own: usize| (own * queue.stride) as f64;
            shares
                .clone()
                .map(|(size, share)| share * by_ballots(solved, n, r, own(*size)))
                .sum()
        };
        let pieces = kinks
            .windows(2)
            .map(|ends| rule.integrate(ends[0], ends[1], done));
        pieces.sum::<f64>() / period
    }

    #[test]
    fn integrals_of_idle_moments_are_those_of_the_ballots() {
        for kind in [BudgetUse::Deferrable, BudgetUse::Periodic] {
            for shape in [(7, 11.5), (25, 38.3), (2, 3.25)] {
                let solved = Solved::new(queue(kind, shape), 1e-9).unwrap();
                let responses = solved.responses();
                for r in [3.0, 3.7, 6.0, 8.25, 11.5, 17.9, 26.0, 40.4] {
                    let (answer, error) = responses.cdf(r);
                    let slowly = slowly(&solved, r);
                    assert!(
                        (answer - slowly).abs() < error + 1e-9,
                        "{kind:?} {shape:?} {r}: {answer} {slowly} {error}"
                    );
                }
            }
        }
    }
}
