//! From the workload at period starts to response times.

use num_integer::gcd;

use super::boundary::{LatticeQueue, Passages};
use super::compound::LatticeWork;
use super::rounding::BracketSide;
use super::share::given;
use crate::batches::sum_of;
use crate::response_time::BudgetUse;
use crate::{SearchStage, SearchWatch};
use tailbound_fourier::{Complex, Transform, turned};

/// The most values of transforms, all places in a period together, that are computed without leaving out places.
const MOST_WORK_OF_PLACES: usize = 6_000_000;
/// The fewest places in a period.
const FEWEST_PLACES: usize = 64;

/// The distribution function of the response time on the lattice: entry k bounds it towards
/// `side` for every time from k steps to below k + 1.
pub(super) struct LatticeResponses<'a> {
    pub queue: &'a LatticeQueue,
    pub passages: &'a Passages,
    /// The law of the workload at period starts.
    pub start: &'a [f64],
    pub kind: BudgetUse,
    pub side: BracketSide,
}

impl LatticeResponses<'_> {
    /// Of the jobs with sizes of law `job`, over `length` steps of response time, from places in the period that are a
    /// `stride` apart, which divides budget and period; `None` where `watch` stops that.
    ///
    /// C(n, T) is the probability that a job which arrives n steps into a period is done T steps
    /// after the start of the period. It falls with n and rises with T, so that for arrivals
    /// between i and i+1 and response times between k and k+1
    /// C(i+1, i+k) <= C(n, n+r) <= C(i, i+k+2).
    pub(super) fn of(
        &self,
        job: &[f64],
        (length, stride): (usize, usize),
        watch: &dyn SearchWatch,
    ) -> Option<Vec<f64>> {
        let mut sums = Sums {
            side: self.side,
            period_steps: self.queue.period_steps,
            values: vec![0.0; length],
        };
        self.later_periods((job, stride), &mut sums, watch)?;
        if self.kind == BudgetUse::Deferrable {
            self.same_period(job, &mut sums);
        }
        let share = 1.0 / self.queue.period_steps as f64;
        let mut highest = 0.0_f64;
        let cumulative = |sum: &f64| {
            highest = highest.max((sum * share).clamp(0.0, 1.0));
            highest
        };
        Some(sums.values.iter().map(cumulative).collect())
    }

    /// The work that is done at most within any of `length` steps of response time, for places a `stride` apart.
    fn columns(&self, (length, stride): (usize, usize)) -> usize {
        let last = length + self.queue.period_steps + 1 + stride;
        given(self.queue, self.kind, last) + 1
    }

    /// The workloads at the start of a period that count: with more, no job is done in time.
    fn counting(&self, columns: usize) -> &[f64] {
        &self.start[..self.start.len().min(columns)]
    }

    /// The values that hold all work that counts, with jobs of so many steps.
    fn size(&self, job_steps: usize, columns: usize) -> usize {
        let (budget, period) = (self.queue.budget_steps, self.queue.period_steps);
        let start = self.counting(columns).len().max(budget);
        start + self.queue.work.reach(period) + job_steps + 2
    }

    /// The steps from a place in the period to the next one that is computed, for jobs of so many steps and `length`
    /// steps of response time: long responses need not be told to a step, and take the more time for each place.
    pub(super) fn stride(&self, job_steps: usize, length: usize) -> usize {
        let (budget, period) = (self.queue.budget_steps, self.queue.period_steps);
        let size = self.size(job_steps, self.columns((length, 1)));
        let wanted = (period * size).div_ceil(MOST_WORK_OF_PLACES);
        let wanted = wanted.min(period / FEWEST_PLACES);
        let common = gcd(budget, period);
        let divides = |stride: &usize| common.is_multiple_of(*stride);
        (1..=wanted.max(1)).rev().find(divides).unwrap_or(1)
    }

    /// Adds the jobs done in a later period than they came in (of a periodic server: all jobs).
    /// There the deferrable server is a periodic one with its budget at the end of the period
    /// (thesis, Theorem 5, for the part of the period before n).
    fn later_periods(
        &self,
        (job, stride): (&[f64], usize),
        sums: &mut Sums,
        watch: &dyn SearchWatch,
    ) -> Option<()> {
        let LatticeQueue {
            work,
            budget_steps: budget,
            period_steps: period,
        } = self.queue;
        let (budget, period) = (*budget, *period);
        let idle_until = period - budget;
        let columns = self.columns((sums.values.len(), stride));
        let size = self.size(job.len(), columns);
        let transform = Transform::holding(size);
        // The transforms of real sequences are told by their first halves.
        let half = |mut spectrum: Vec<Complex>| {
            spectrum.truncate(transform.size() / 2 + 1);
            spectrum
        };
        let step = half(work.spectrum(&transform, 1));
        let steps = half(work.spectrum(&transform, stride));
        let shift = half(transform.forward(&[0.0, 1.0]));
        let empty = self.passages.empty(self.start, idle_until, budget);
        let job = half(transform.forward(job));
        let mut idle = IdleTime::from_now(&job, &step, &shift);
        // The work ahead, less the steps of the sum that an empty queue lets pass: its running sums are what is done.
        let mut ahead = product(&half(transform.forward(self.counting(columns))), &job);
        let mut advance = |ahead: &mut [Complex], n: usize| match n.checked_sub(idle_until) {
            None => multiply(ahead, &steps),
            Some(from) => idle.pass(ahead, &empty[from..from + stride]),
        };
        let mut places = LaterPlaces::new(self, sums, (columns.min(size), stride));
        let (mut earlier, mut both, mut done) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        let mut scratch = transform.scratch();
        // Two places at a time, one in the imaginary part.
        for n in (0..=period).step_by(2 * stride) {
            if watch.is_stopped() {
                return None;
            }
            if self.side == BracketSide::Pessimistic {
                let (summed, all) = (n, period);
                watch.hear(SearchStage::PlacesSummed { summed, all });
            }
            earlier.clone_from(&ahead);
            let next = n + stride;
            if next <= period {
                advance(&mut ahead, n);
            }
            join(&earlier, &ahead, transform.size(), &mut both);
            transform.inverse(&mut both, &mut scratch);
            cumulate(&both[..places.columns], &mut done);
            places.add(n, &done[0]);
            if next <= period {
                places.add(next, &done[1]);
            }
            if next < period {
                advance(&mut ahead, next);
            }
        }
        Some(())
    }

    /// By place in the period, the probabilities that workload, arrivals and job together take at most 0, 1, ... budget
    /// steps.
    fn early(&self, job: &[f64]) -> Vec<Vec<f64>> {
        let (budget, period) = (self.queue.budget_steps, self.queue.period_steps);
        let within = |law: &[f64]| law[..law.len().min(budget + 1)].to_vec();
        let mut ahead = sum_of(&within(self.start), &within(job));
        ahead.truncate(budget + 1);
        let mut rows = self.queue.work.rows(period, &ahead, |_| budget + 1);
        for row in &mut rows {
            let mut sum = 0.0;
            for value in row {
                sum += *value;
                *value = sum;
            }
        }
        rows
    }

    /// Adds the jobs done in the period that they came in: with T the time that a job has to be
    /// done by, the server works like a periodic one with min(B, T) at the end of T.
    ///
    /// C(n, T) = G(n, min(B, T)) - sum over j of empty_j Pr(X(w-j) + job = min(B, T) - j), with
    /// w = n - max(T - B, 0). Only sums along T - n are needed, which is why the second term is
    /// summed over T before it is formed.
    fn same_period(&self, job: &[f64], sums: &mut Sums) {
        let (budget, period) = (self.queue.budget_steps, self.queue.period_steps);
        let early = self.early(job);
        let with_job = self.queue.work.rows(budget, job, |_| budget + 1);
        let arrived = |n: usize, given: usize| early[n].get(given).copied().unwrap_or(1.0);
        for done_by in 0..period {
            for n in 0..=done_by {
                sums.add(n, done_by, arrived(n, done_by.min(budget)));
            }
        }
        // T up to B: the sum over n of empty_j Pr(X(t) + job = t + T - n), with n = j + t.
        let last = budget.min(period - 1);
        let mut before = 0.0;
        let started: Vec<f64> = std::iter::once(0.0)
            .chain(
                self.passages
                    .empty(self.start, 0, last)
                    .into_iter()
                    .map(|p| {
                        before += p;
                        before
                    }),
            )
            .collect();
        for lead in 0..last {
            let wasted =
                (1..=last - lead).map(|t| with_job[t][t + lead] * started[last - lead - t + 1]);
            sums.add_lead(lead, -wasted.sum::<f64>());
        }
        // T above B: here T - n = B - w.
        let latest = (period - 1).saturating_sub(budget);
        let empty = self.passages.empty_summed(self.start, latest, budget);
        let columns = transposed(&with_job);
        let mut wasted = vec![0.0; budget + 1];
        for (j, probability) in empty.iter().enumerate() {
            let arrived = &columns[budget - j][1..=budget - j];
            for (sum, value) in wasted[j + 1..].iter_mut().zip(arrived) {
                *sum += probability * value;
            }
        }
        for (elapsed, wasted) in wasted.iter().enumerate() {
            sums.add_lead(budget - elapsed, -wasted);
        }
    }
}

fn transposed(rows: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let width = rows.first().map_or(0, Vec::len);
    let column = |at: usize| rows.iter().map(|row| row[at]).collect();
    (0..width).map(column).collect()
}

pub(super) fn product(a: &[Complex], b: &[Complex]) -> Vec<Complex> {
    a.iter().zip(b).map(|(x, y)| *x * *y).collect()
}

/// The transform, of so many values, of one real sequence and i times another, of both of which the first halves of the
/// transforms are given.
fn join(real: &[Complex], imaginary: &[Complex], size: usize, both: &mut Vec<Complex>) {
    both.clear();
    let pairs = || real.iter().zip(imaginary);
    both.extend(pairs().map(|(re, im)| *re + turned(*im)));
    let mirrored = pairs().take(size.div_ceil(2)).skip(1).rev();
    both.extend(mirrored.map(|(re, im)| re.conj() + turned(im.conj())));
    debug_assert_eq!(both.len(), size, "the halves belong to this size");
}

/// The steps of a period in which the queue may be empty, and the CPU has nothing to do.
struct IdleTime<'a> {
    /// The difference between a job that comes now, at the step that is reached, and one that comes a step later.
    position: Vec<Complex>,
    /// The work of a step.
    step: &'a [Complex],
    /// A step of the position.
    shift: &'a [Complex],
}

impl<'a> IdleTime<'a> {
    /// The steps from now on, for a job with this transform.
    fn from_now(job: &[Complex], step: &'a [Complex], shift: &'a [Complex]) -> Self {
        let difference = |(p, s): (&Complex, &Complex)| *p * (1.0 - *s);
        Self {
            position: job.iter().zip(shift).map(difference).collect(),
            step,
            shift,
        }
    }

    /// Takes steps in which the queue is empty with the probabilities `empty`.
    fn pass(&mut self, ahead: &mut [Complex], empty: &[f64]) {
        let values = ahead.iter_mut().zip(&mut self.position);
        for ((w, p), (x, s)) in values.zip(self.step.iter().zip(self.shift)) {
            for probability in empty {
                *w = (*w - p.scale(*probability)) * *x;
                *p *= *s;
            }
        }
    }
}

/// Multiplies values by factors, one by one.
fn multiply(values: &mut [Complex], factors: &[Complex]) {
    let pairs = values.iter_mut().zip(factors);
    pairs.for_each(|(value, factor)| *value *= *factor);
}

/// The running sums of the real and of the imaginary parts.
fn cumulate(both: &[Complex], sums: &mut [Vec<f64>; 2]) {
    let [first, second] = sums;
    first.resize(both.len(), 0.0);
    second.resize(both.len(), 0.0);
    let mut sum = Complex::default();
    for ((value, re), im) in both.iter().zip(first).zip(second) {
        sum += value;
        (*re, *im) = (sum.re, sum.im);
    }
}

/// The places in a period, one after the other, and what of the jobs that come there is done in later periods.
struct LaterPlaces<'a> {
    kind: BudgetUse,
    side: BracketSide,
    sums: &'a mut Sums,
    supply: Vec<SupplyStretch>,
    /// The work that is looked at.
    columns: usize,
    /// The steps from a place to the next.
    stride: usize,
}

/// A stretch of time after a replenishment in which a server that is never idle gives CPU time all the time, or none.
#[derive(Clone, Copy, Debug)]
struct SupplyStretch {
    from: usize,
    until: usize,
    /// The CPU time given before it.
    given: usize,
    /// Whether each step gives one more.
    runs: bool,
}

impl SupplyStretch {
    /// The stretches of so many steps.
    fn all(queue: &LatticeQueue, kind: BudgetUse, steps: usize) -> Vec<Self> {
        let (budget, period) = (queue.budget_steps, queue.period_steps);
        let of_period = |number: usize| {
            let (from, given) = (number * period, number * budget);
            let (change, runs) = match kind {
                BudgetUse::Deferrable => (from + budget, true),
                BudgetUse::Periodic => (from + period - budget, false),
            };
            let first = Self {
                from,
                until: change,
                given,
                runs,
            };
            let second = Self {
                from: change,
                until: from + period,
                given: if runs { given + budget } else { given },
                runs: !runs,
            };
            [first, second]
        };
        (0..=steps / period).flat_map(of_period).collect()
    }
}

impl<'a> LaterPlaces<'a> {
    fn new(
        responses: &LatticeResponses<'a>,
        sums: &'a mut Sums,
        (columns, stride): (usize, usize),
    ) -> Self {
        let (queue, kind) = (responses.queue, responses.kind);
        let last = sums.values.len() + queue.period_steps + 1 + stride;
        Self {
            kind,
            side: responses.side,
            sums,
            supply: SupplyStretch::all(queue, kind, last),
            columns,
            stride,
        }
    }

    /// Adds the jobs that come at step `n` and are done by the time that so much CPU time is given with the
    /// probabilities `done`, for all that come between there and the next place or the one before.
    fn add(&mut self, n: usize, done: &[f64]) {
        let later = match self.kind {
            BudgetUse::Deferrable => self.sums.period_steps,
            BudgetUse::Periodic => n,
        };
        let beyond = match self.side {
            BracketSide::Optimistic => 1.0,
            BracketSide::Pessimistic => done[self.columns - 1].clamp(0.0, 1.0),
        };
        let Some((from, offset)) = self.sums.from((n, self.stride), later) else {
            return;
        };
        let count = self.stride as f64;
        for stretch in &self.supply {
            let first = stretch.from.max(from + offset);
            let end = stretch.until.min(self.sums.values.len() + offset);
            if first >= end {
                continue;
            }
            let sums = &mut self.sums.values[first - offset..end - offset];
            let within = |value: &f64| count * value.clamp(0.0, 1.0);
            if stretch.runs {
                let given = stretch.given + first - stretch.from;
                let done = done.get(given..).unwrap_or(&[]);
                let (near, far) = sums.split_at_mut(sums.len().min(done.len()));
                let pairs = near.iter_mut().zip(done);
                pairs.for_each(|(sum, value)| *sum += within(value));
                far.iter_mut().for_each(|sum| *sum += count * beyond);
            } else {
                let value = done.get(stretch.given).map_or(count * beyond, within);
                sums.iter_mut().for_each(|sum| *sum += value);
            }
        }
    }
}

/// The sums over the arrival's place in the period.
struct Sums {
    side: BracketSide,
    period_steps: usize,
    values: Vec<f64>,
}

impl Sums {
    /// Adds C(n, `done_by`) where the bracket of the response time takes it.
    fn add(&mut self, n: usize, done_by: usize, value: f64) {
        let index = match self.side {
            BracketSide::Pessimistic if n > 0 => Some(done_by + 1 - n),
            BracketSide::Optimistic if n < self.period_steps => (done_by - n).checked_sub(2),
            _ => None,
        };
        if let Some(sum) = index.and_then(|k| self.values.get_mut(k)) {
            *sum += value;
        }
    }

    /// Adds a sum of C(n, T) over n above 0 and below the period, for T - n = `lead`.
    fn add_lead(&mut self, lead: usize, value: f64) {
        let index = match self.side {
            BracketSide::Pessimistic => Some(lead + 1),
            BracketSide::Optimistic => lead.checked_sub(2),
        };
        if let Some(sum) = index.and_then(|k| self.values.get_mut(k)) {
            *sum += value;
        }
    }

    /// Where C(n, T) counts, for every T from `first` on (and not before n), for the jobs of so many steps before n or
    /// after it: from which value on, and by how much T is more than the value's index; nowhere at an end of the period.
    fn from(&self, (n, stride): (usize, usize), first: usize) -> Option<(usize, usize)> {
        let (counts, offset) = match self.side {
            BracketSide::Pessimistic => (n > 0, n.wrapping_sub(stride)),
            BracketSide::Optimistic => (n < self.period_steps, n + 1 + stride),
        };
        counts.then(|| (first.max(n).saturating_sub(offset), offset))
    }
}

/// The response time on a CPU of its own (Pollaczek and Khinchine): entry k bounds it for every
/// time from k steps to below k + 1. On the lattice points the value is that of the rounded
/// execution times exactly.
pub(super) fn dedicated(
    work: &LatticeWork,
    job: &[f64],
    side: BracketSide,
    length: usize,
) -> Vec<f64> {
    let points = length + 2;
    let transform = Transform::holding(work.sizes.len() + work.reach(1) + 2);
    let mut step = work.spectrum(&transform, 1);
    transform.inverse(&mut step, &mut transform.scratch());
    let arrivals: Vec<f64> = step.iter().map(|value| value.re).collect();
    // The workload after each step is a geometric sum of ladder steps with weights Pr(A > k),
    // plus the arrivals of the step.
    let mut above = 1.0;
    let tail = |p: &f64| {
        above -= p;
        above.max(0.0)
    };
    let ladder: Vec<f64> = arrivals.iter().map(tail).collect();
    let mut waiting = vec![0.0; points];
    waiting[0] = (1.0 - work.load()) / (1.0 - ladder[0]);
    for v in 1..points {
        let count = v.min(ladder.len() - 1);
        let sum: f64 = (1..=count).map(|k| ladder[k] * waiting[v - k]).sum();
        waiting[v] = sum / (1.0 - ladder[0]);
    }
    let behind = direct(&direct(&waiting, &arrivals), job);
    let mut sum = 0.0;
    let cumulative: Vec<f64> = behind
        .iter()
        .map(|p| {
            sum += p;
            sum.clamp(0.0, 1.0)
        })
        .collect();
    match side {
        BracketSide::Pessimistic => cumulative[..length].to_vec(),
        BracketSide::Optimistic => cumulative[1..=length].to_vec(),
    }
}

/// The law of a sum, as far as the first summand's reaches.
fn direct(long: &[f64], short: &[f64]) -> Vec<f64> {
    let mut sums = vec![0.0; long.len()];
    for (shift, weight) in short.iter().enumerate().filter(|(_, w)| **w > 0.0) {
        for (sum, value) in sums[shift.min(long.len())..].iter_mut().zip(long) {
            *sum += weight * value;
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    #![allow(clippy::expect_used)]
    use super::*;

    #[test]
    fn stretches_of_supply_give_what_the_server_gives() {
        for (budget, period) in [(3, 7), (7, 7), (1, 4)] {
            let queue = LatticeQueue {
                work: LatticeWork {
                    jobs_per_step: 0.1,
                    sizes: vec![0.0, 1.0],
                },
                budget_steps: budget,
                period_steps: period,
            };
            for kind in [BudgetUse::Deferrable, BudgetUse::Periodic] {
                let stretches = SupplyStretch::all(&queue, kind, 20);
                for at in 0..=20 {
                    let holds = |s: &&SupplyStretch| s.from <= at && at < s.until;
                    let stretch = stretches.iter().find(holds).expect("a stretch");
                    let since = if stretch.runs { at - stretch.from } else { 0 };
                    assert_eq!(stretch.given + since, given(&queue, kind, at), "{at}");
                }
            }
        }
    }
}
