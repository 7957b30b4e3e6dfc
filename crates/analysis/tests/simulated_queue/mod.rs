//! A Poisson queue on a reservation server, simulated: the oracle of the analyses of that queue.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_model::{ContinuousLaw, ReservationServer};
use tailbound_simulator::hierarchy::{
    Completion, HierarchyPlan, Job, JobSource, Level, LevelMember, PlannedReservation, PlannedTask,
    Rank, Sink, simulate_plan,
};
use tailbound_time::Duration;

/// How many batches of consecutive jobs a simulation is cut into. Their shares are nearly independent of each other.
pub const BATCHES: usize = 40;

/// A Poisson process of batches of jobs.
struct PoissonBatches<'a> {
    queue: &'a PoissonQueue,
    law: Option<ContinuousLaw>,
    mean_gap_ns: f64,
    random: ChaCha8Rng,
    now_ns: f64,
    /// How many jobs of the present batch are still to come.
    waiting: u32,
    number: u64,
    most: u64,
}

/// One of several values with probabilities that add up to one.
fn draw<T: Copy>(random: &mut ChaCha8Rng, values: &[(T, f64)]) -> T {
    let mut rest: f64 = random.random();
    for (value, probability) in values {
        if rest < *probability {
            return *value;
        }
        rest -= probability;
    }
    values.last().unwrap().0
}

impl<'a> PoissonBatches<'a> {
    fn new((queue, law): (&'a PoissonQueue, Option<ContinuousLaw>), most: u64, seed: u64) -> Self {
        let mut batches = Self {
            queue,
            law,
            mean_gap_ns: 1e9 / queue.rate.as_per_second(),
            random: ChaCha8Rng::seed_from_u64(seed),
            now_ns: 0.0,
            waiting: 0,
            number: 0,
            most,
        };
        batches.advance();
        batches
    }

    fn advance(&mut self) {
        while self.waiting == 0 {
            let uniform: f64 = self.random.random();
            self.now_ns += -(1.0 - uniform).ln() * self.mean_gap_ns;
            self.waiting = draw(&mut self.random, &self.queue.batches);
        }
    }
}

impl JobSource for PoissonBatches<'_> {
    fn next_release(&self) -> Option<u64> {
        (self.number < self.most).then_some(self.now_ns as u64)
    }

    fn take(&mut self) -> Option<Job> {
        let release = self.next_release()?;
        let work = match self.law {
            Some(law) => law.exceeded_by(1.0 - self.random.random::<f64>()),
            None => draw(&mut self.random, &self.queue.execution_times),
        };
        self.number += 1;
        self.waiting -= 1;
        self.advance();
        Some(Job {
            delay_ns: 0,
            task: 0,
            number: self.number - 1,
            release,
            work: work.as_nanos(),
        })
    }
}

/// A CPU with this server on it, and one task inside.
fn plan(server: ReservationServer) -> HierarchyPlan {
    let inside = Level::of(vec![LevelMember::Task(PlannedTask::of_rank(Rank::Fixed(
        0,
    )))]);
    let Some((budget, period)) = server.budget_and_period() else {
        return HierarchyPlan::on_one_cpu(inside);
    };
    HierarchyPlan::on_one_cpu(Level::of(vec![LevelMember::Reservation(
        PlannedReservation {
            rank: Rank::Fixed(0),
            rule: server.into(),
            budget,
            period,
            phase: Duration::ZERO,
            inside,
        },
    )]))
}

/// The response times after a warm-up, in the order of release.
struct Responses {
    first: u64,
    of_job: Vec<Duration>,
}

impl Sink for Responses {
    const WHOLE_PIECES: bool = true;

    fn completed(&mut self, completion: &Completion) {
        if completion.number >= self.first {
            let response = completion.end - completion.release;
            self.of_job.push(Duration::from_nanos(response));
        }
    }
}

/// The response times of so many jobs, in the order of release, and in a whole number of [`BATCHES`]. A twentieth as
/// many jobs come before them.
pub fn simulated(queue: &PoissonQueue, jobs: usize, seed: u64) -> Vec<Duration> {
    simulated_law((queue, None), jobs, seed)
}

/// The same with execution times of a law in place of the queue's.
pub fn simulated_law(
    (queue, law): (&PoissonQueue, Option<ContinuousLaw>),
    jobs: usize,
    seed: u64,
) -> Vec<Duration> {
    let (warm_up, counted) = (jobs / 20, jobs / BATCHES * BATCHES);
    let mut responses = Responses {
        first: warm_up as u64,
        of_job: Vec::with_capacity(counted),
    };
    let mut source = PoissonBatches::new((queue, law), (warm_up + counted) as u64, seed);
    simulate_plan(&plan(queue.server), &mut source, &mut responses, None).unwrap();
    responses.of_job
}

/// Which share of each batch of responses is no longer than `at`.
pub fn shares_within(responses: &[Duration], at: Duration) -> Vec<f64> {
    let length = responses.len() / BATCHES;
    let share = |batch: &[Duration]| {
        let within = batch.iter().filter(|response| **response <= at).count();
        within as f64 / length as f64
    };
    responses.chunks_exact(length).map(share).collect()
}

/// A mean over batches.
#[derive(Clone, Copy, Debug)]
pub struct BatchMean {
    pub value: f64,
    /// The standard error.
    pub error: f64,
}

impl BatchMean {
    /// The mean of what each batch yields.
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let value = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|one| (one - value).powi(2)).sum::<f64>();
        Self {
            value,
            error: (squares / (count * (count - 1.0))).sqrt(),
        }
    }
}
