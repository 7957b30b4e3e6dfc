//! The workload at the start of a period, in equilibrium.

use super::compound::LatticeWork;
use super::leap::LeapHistory;
use super::rounding::BracketSide;
use crate::SearchWatch;
use tailbound_fourier::{Complex, Transform};

/// The changes still to come at which the iteration stops, where response times are to be as sharp as can be.
pub(super) const PRECISION: f64 = 1e-7;
/// The part of the precision that the tail of the workload beyond the last kept state weighs, at most.
const TAIL: f64 = 0.1;
/// The most states that are kept; of a workload that reaches further, the rest lies beyond.
const MOST_STATES: f64 = 16_000.0;
/// What all sweeps together may cost, in elementary operations; what there is after so many is
/// still a bound.
const MOST_OPERATIONS: usize = 400_000_000;

/// A reservation of `budget_steps` in every `period_steps`, fed with `work`.
#[derive(Debug)]
pub(super) struct LatticeQueue {
    pub work: LatticeWork,
    pub budget_steps: usize,
    pub period_steps: usize,
}

impl LatticeQueue {
    /// Whether less work comes than the reservation gives.
    pub(super) fn is_stable(&self) -> bool {
        self.work.load() * (self.period_steps as f64) < self.budget_steps as f64
    }
}

/// The work of 0, 1, ... steps of time, as far as the first passages need it.
#[derive(Debug)]
pub(super) struct Passages {
    /// `work[t][i]`: probability that t steps bring i steps of work.
    pub work: Vec<Vec<f64>>,
    /// `work[t][t-1] - work[t][t]` for t = budget_steps down to 1: backwards, since the sums over it
    /// run against another index.
    renewal_backwards: Vec<f64>,
}

impl Passages {
    pub(super) fn of(queue: &LatticeQueue) -> Self {
        Self::reaching(queue, 0)
    }

    /// The passages with amounts up to `most` for any number of steps, as far as they come.
    pub(super) fn reaching(queue: &LatticeQueue, most: usize) -> Self {
        let reach = queue.work.reach(queue.budget_steps);
        let most = most.min(queue.work.reach(queue.period_steps));
        let length = |t| {
            let needed = match t <= queue.budget_steps {
                true => reach.max(queue.budget_steps),
                false => queue.budget_steps,
            };
            needed.max(most) + 1
        };
        let work = queue.work.rows(queue.period_steps, &[1.0], length);
        let at = |t: usize, i: usize| work[t].get(i).copied().unwrap_or(0.0);
        let renewal = |t: usize| at(t, t - 1) - at(t, t);
        let renewal_backwards = (1..=queue.budget_steps).rev().map(renewal).collect();
        Self {
            work,
            renewal_backwards,
        }
    }

    /// For k = 0 to `last` - 1: the probability that a CPU which works on from step `idle_until`
    /// of a period, started with workload law `start`, has nothing to do k steps later.
    pub(super) fn empty(&self, start: &[f64], idle_until: usize, last: usize) -> Vec<f64> {
        let start = Backwards::of(start, last);
        let exactly = (0..last).map(|k| start.convolved(&self.work[idle_until + k], k));
        self.renewed(exactly)
    }

    /// The sums of [`empty`](Self::empty) over `idle_until` = 1 to `latest`.
    pub(super) fn empty_summed(&self, start: &[f64], latest: usize, last: usize) -> Vec<f64> {
        if latest == 0 {
            return vec![0.0; last];
        }
        let start = Backwards::of(start, last);
        // The arrivals of k + 1 to k + latest steps, summed.
        let mut window = vec![0.0; last + 1];
        let add = |window: &mut [f64], t: usize, sign: f64| {
            window
                .iter_mut()
                .zip(&self.work[t])
                .for_each(|(sum, p)| *sum += sign * p);
        };
        (1..=latest).for_each(|t| add(&mut window, t, 1.0));
        let exactly = (0..last).map(|k| {
            let value = start.convolved(&window, k);
            add(&mut window, k + 1, -1.0);
            add(&mut window, k + 1 + latest, 1.0);
            value
        });
        self.renewed(exactly)
    }

    /// Adds to the probabilities that work comes out even those of a queue that was empty before.
    fn renewed(&self, exactly: impl Iterator<Item = f64>) -> Vec<f64> {
        let mut empty: Vec<f64> = Vec::new();
        for (k, exactly) in exactly.enumerate() {
            let until_k = &self.renewal_backwards[self.renewal_backwards.len() - k..];
            empty.push((exactly + dot(&empty, until_k)).max(0.0));
        }
        empty
    }
}

/// The first probabilities of a law, the last one first.
pub(super) struct Backwards(Vec<f64>);

impl Backwards {
    pub(super) fn of(law: &[f64], count: usize) -> Self {
        let zeros = std::iter::repeat_n(0.0, count.saturating_sub(law.len()));
        Self(zeros.chain(law.iter().take(count).rev().copied()).collect())
    }

    /// The probability that this variable and one of law `other` sum up to `k`.
    pub(super) fn convolved(&self, other: &[f64], k: usize) -> f64 {
        let count = other.len().min(k + 1);
        let from = self.0.len() - 1 - k;
        dot(&self.0[from..from + count], &other[..count])
    }
}

/// The scalar product, in eight partial sums that the compiler can keep side by side.
fn dot(a: &[f64], b: &[f64]) -> f64 {
    const LANES: usize = 8;
    let mut sums = [0.0; LANES];
    let (a_blocks, a_rest) = a.as_chunks::<LANES>();
    let (b_blocks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_blocks.iter().zip(b_blocks) {
        for lane in 0..LANES {
            sums[lane] += x[lane] * y[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(x, y)| x * y).sum();
    sums.iter().sum::<f64>() + rest
}

/// The law of the workload at the start of a period, rounded up to the lattice: a bound towards
/// `side`; what is missing from a sum of 1 lies beyond. It is near the truth on the lattice by about `precision`. Where `watch` stops the iteration, what there is then is a bound
/// as well.
pub(super) fn workload(
    queue: &LatticeQueue,
    passages: &Passages,
    side: BracketSide,
    (precision, watch): (f64, &dyn SearchWatch),
) -> Vec<f64> {
    let decay = queue
        .work
        .decay(queue.budget_steps as f64 / queue.period_steps as f64);
    let states = (-(TAIL * precision).ln() / decay).ceil().min(MOST_STATES) as usize + 1;
    let floor: Vec<f64> = match side {
        BracketSide::Pessimistic => (0..=states)
            .map(|z| -(-decay * z as f64).exp_m1())
            .collect(),
        BracketSide::Optimistic => vec![0.0; states + 1],
    };
    let mut cumulative = match side {
        BracketSide::Pessimistic => floor.clone(),
        BracketSide::Optimistic => vec![1.0; states + 1],
    };
    let sweep = PeriodSweep::new(queue, passages, states);
    let mut memory = sweep.memory();
    let mut before = f64::INFINITY;
    let mut history = LeapHistory::new(side);
    for _ in 0..MOST_OPERATIONS / sweep.operations() {
        let mut next = sweep.apply(&cumulative, &mut memory);
        // Both are lower bounds, so the higher one is.
        next.iter_mut()
            .zip(&floor)
            .for_each(|(n, f)| *n = n.max(*f));
        if side == BracketSide::Optimistic {
            next[states] = 1.0;
        }
        let change = next
            .iter()
            .zip(&cumulative)
            .fold(0.0, |c: f64, (a, b)| c.max((a - b).abs()));
        let leapt = history.step(&cumulative, &mut next);
        cumulative = next;
        if leapt && !watch.is_stopped() {
            before = f64::INFINITY;
            continue;
        }
        // What the sweeps to come would still change, if they go on at this rate.
        let ratio = (change / before).min(0.999_9);
        let settled = before.is_finite() && change * ratio / (1.0 - ratio) < precision;
        before = change;
        if settled || watch.is_stopped() {
            break;
        }
    }
    probabilities(&cumulative)
}

/// The steps of a distribution function.
fn probabilities(cumulative: &[f64]) -> Vec<f64> {
    let mut before = 0.0;
    let step = |value: &f64| {
        let rise = (value - before).max(0.0);
        before = before.max(*value);
        rise
    };
    cumulative.iter().map(step).collect()
}

/// One period: from the law at its start to that at its end.
struct PeriodSweep<'a> {
    queue: &'a LatticeQueue,
    passages: &'a Passages,
    states: usize,
    transform: Transform,
    period_spectrum: Vec<Complex>,
}

/// Memory to work in, from one sweep to the next.
struct SweepMemory {
    spectrum: Vec<Complex>,
    scratch: Vec<Complex>,
}

impl<'a> PeriodSweep<'a> {
    fn new(queue: &'a LatticeQueue, passages: &'a Passages, states: usize) -> Self {
        let transform = Transform::holding(
            states.max(queue.budget_steps) + queue.work.reach(queue.period_steps) + 2,
        );
        let exponent = queue.work.jobs_per_step * queue.period_steps as f64;
        let period_spectrum = transform
            .forward(&queue.work.sizes)
            .iter()
            .map(|value| (*value - 1.0).scale(exponent).exp())
            .collect();
        Self {
            queue,
            passages,
            states,
            transform,
            period_spectrum,
        }
    }

    /// The memory that sweeps need.
    fn memory(&self) -> SweepMemory {
        SweepMemory {
            spectrum: Vec::with_capacity(self.transform.size()),
            scratch: self.transform.scratch(),
        }
    }

    /// Roughly what one sweep costs.
    fn operations(&self) -> usize {
        let size = self.transform.size();
        size * size.ilog2() as usize + self.queue.budget_steps * self.queue.budget_steps
    }

    /// Q'(b) = Pr(z + X(P) <= b + B) - sum over j of empty_j Pr(X(B-j) = b + B - j): what the
    /// budget leaves, plus what of it an empty queue let pass.
    fn apply(&self, cumulative: &[f64], memory: &mut SweepMemory) -> Vec<f64> {
        let SweepMemory { spectrum, scratch } = memory;
        let start = probabilities(cumulative);
        self.transform.forward_into(&start, spectrum, scratch);
        let product = |(a, b): (&mut Complex, &Complex)| *a *= *b;
        spectrum
            .iter_mut()
            .zip(&self.period_spectrum)
            .for_each(product);
        self.transform.inverse(spectrum, scratch);
        let budget = self.queue.budget_steps;
        let idle_until = self.queue.period_steps - budget;
        let empty = self.passages.empty(&start, idle_until, budget);
        let mut wasted = vec![0.0; self.states + 1];
        for (j, probability) in empty.iter().enumerate() {
            let left = budget - j;
            let row = self.passages.work[left].get(left..).unwrap_or(&[]);
            for (sum, arrived) in wasted.iter_mut().zip(row) {
                *sum += probability * arrived;
            }
        }
        let mut sum: f64 = spectrum.iter().take(budget).map(|v| v.re).sum();
        let mut highest = 0.0_f64;
        let end = spectrum[budget..]
            .iter()
            .map(|v| v.re)
            .chain(std::iter::repeat(0.0));
        let value = |(wasted, arrived): (&f64, f64)| {
            sum += arrived;
            highest = highest.max(sum - wasted).min(1.0);
            highest
        };
        wasted.iter().zip(end).map(value).collect()
    }
}
