//! One period of a queue on the lattice: first passages, and the workload at its end.

use super::compound::LatticeWork;
use tailbound_fourier::{Complex, Transform};

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

    /// Lundberg's exponent of the workload, per step.
    pub(super) fn decay(&self) -> f64 {
        let share = self.budget_steps as f64 / self.period_steps as f64;
        self.work.decay(share)
    }

    /// The mean of e^(theta z) after a period in which nothing is idle, for a workload of z = 0 before it.
    pub(super) fn growth(&self, theta: f64) -> f64 {
        let jobs = self.work.jobs_per_step * self.period_steps as f64;
        (jobs * (self.work.moment(theta) - 1.0) - theta * self.budget_steps as f64).exp()
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

/// The steps of a distribution function.
pub(super) fn probabilities(cumulative: &[f64]) -> Vec<f64> {
    let mut before = 0.0;
    let step = |value: &f64| {
        let rise = (value - before).max(0.0);
        before = before.max(*value);
        rise
    };
    cumulative.iter().map(step).collect()
}

/// One period: from the law at its start to that at its end.
pub(super) struct PeriodSweep<'a> {
    queue: &'a LatticeQueue,
    passages: &'a Passages,
    states: usize,
    transform: Transform,
    period_spectrum: Vec<Complex>,
}

/// Memory to work in, from one sweep to the next.
pub(super) struct SweepMemory {
    spectrum: Vec<Complex>,
    scratch: Vec<Complex>,
}

impl<'a> PeriodSweep<'a> {
    pub(super) fn new(queue: &'a LatticeQueue, passages: &'a Passages, states: usize) -> Self {
        let transform = Transform::holding(
            states.max(queue.budget_steps) + queue.work.reach(queue.period_steps) + 2,
        );
        let period_spectrum = queue.work.spectrum(&transform, queue.period_steps);
        Self {
            queue,
            passages,
            states,
            transform,
            period_spectrum,
        }
    }

    /// The memory that sweeps need.
    pub(super) fn memory(&self) -> SweepMemory {
        SweepMemory {
            spectrum: Vec::with_capacity(self.transform.size()),
            scratch: self.transform.scratch(),
        }
    }

    /// Roughly what one sweep costs.
    pub(super) fn operations(&self) -> usize {
        let size = self.transform.size();
        size * size.ilog2() as usize + self.queue.budget_steps * self.queue.budget_steps
    }

    /// Q'(b) = Pr(z + X(P) <= b + B) - sum over j of empty_j Pr(X(B-j) = b + B - j): what the
    /// budget leaves, plus what of it an empty queue let pass.
    pub(super) fn apply(&self, cumulative: &[f64], memory: &mut SweepMemory) -> Vec<f64> {
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
