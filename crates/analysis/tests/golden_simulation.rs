//! The settings of `golden/response_times.toml`, simulated: the share of the responses within a time lies
//! inside of the analysis's bounds, as far as so many jobs can tell.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rayon::prelude::*;
use tailbound_analysis::response_time::ResponseTimes;
use tailbound_simulator::hierarchy::{
    Completion, Job, Level, Member, Plan, Rank, Reservation, Rule, ServerKind, Sink, Source, Task,
    simulate_plan,
};
use tailbound_time::Duration;

use crate::golden_settings::{Server, Setting, golden};

/// Batches of consecutive jobs, whose shares are nearly independent of each other.
const BATCHES: usize = 40;
/// How many standard errors a share may lie outside. There are 307 shares, and errors of dependent
/// batches are underestimated somewhat. Seeds are fixed, so a test that passes once passes always.
const ERRORS: f64 = 5.0;

/// A Poisson process of batches of jobs.
struct PoissonBatches<'a> {
    setting: &'a Setting,
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
    fn new(setting: &'a Setting, most: u64, seed: u64) -> Self {
        let mut batches = Self {
            setting,
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
            self.now_ns += -(1.0 - uniform).ln() / self.setting.rate_per_s * 1e9;
            self.waiting = draw(&mut self.random, &self.setting.batches);
        }
    }
}

impl Source for PoissonBatches<'_> {
    fn next_release(&self) -> Option<u64> {
        (self.number < self.most).then_some(self.now_ns as u64)
    }

    fn take(&mut self) -> Option<Job> {
        let release = self.next_release()?;
        let work = draw(&mut self.random, &self.setting.execution_times);
        self.number += 1;
        self.waiting -= 1;
        self.advance();
        Some(Job {
            task: 0,
            number: self.number - 1,
            release,
            work: work.as_nanos(),
        })
    }
}

/// How many responses of each batch are within each time.
struct Shares {
    at: Vec<Duration>,
    within: Vec<Vec<u64>>,
    first: u64,
    jobs_per_batch: u64,
}

impl Sink for Shares {
    fn completed(&mut self, completion: &Completion) {
        let Some(after) = completion.number.checked_sub(self.first) else {
            return;
        };
        let batch = (after / self.jobs_per_batch) as usize;
        let response = Duration::from_nanos(completion.end - completion.release);
        for (at, within) in self.at.iter().zip(&mut self.within[batch]) {
            *within += u64::from(response <= *at);
        }
    }
}

fn plan(setting: &Setting) -> Plan {
    let level = |members| Level::of(members);
    let inside = level(vec![Member::Task(Task::of_rank(Rank::Fixed(0)))]);
    let (rule, budget, period) = match setting.server {
        Server::Dedicated => return Plan::on_one_cpu(inside),
        Server::Deferrable { budget, period } => {
            (Rule::Server(ServerKind::Deferrable), budget, period)
        }
        Server::Periodic { budget, period } => (Rule::Server(ServerKind::Periodic), budget, period),
    };
    Plan::on_one_cpu(level(vec![Member::Reservation(Reservation {
        rank: Rank::Fixed(0),
        rule,
        budget,
        period,
        phase: Duration::ZERO,
        inside,
    })]))
}

/// What simulations say of the analysis.
#[derive(Default)]
struct Verdict {
    wrong: Vec<String>,
    /// How many shares so many jobs could tell something of.
    compared: usize,
    /// The greatest standard error among them.
    greatest: f64,
}

/// Compares the shares of so many simulated jobs with bounds.
fn compare(setting: &Setting, bounds: &ResponseTimes, jobs: u64, seed: u64) -> Verdict {
    let warm_up = jobs / 20;
    let mut shares = Shares {
        at: setting.cdf.iter().map(|share| share.at).collect(),
        within: vec![vec![0; setting.cdf.len()]; BATCHES],
        first: warm_up,
        jobs_per_batch: (jobs - warm_up) / BATCHES as u64,
    };
    let most = warm_up + shares.jobs_per_batch * BATCHES as u64;
    let mut source = PoissonBatches::new(setting, most, seed);
    simulate_plan(&plan(setting), &mut source, &mut shares, None).unwrap();
    let mut verdict = Verdict::default();
    for (index, at) in shares.at.iter().enumerate() {
        let counts = shares.within.iter().map(|batch| batch[index]);
        let mixed = counts.filter(|count| (1..shares.jobs_per_batch).contains(count));
        // Where most batches are all within, or all beyond, they say nothing of how rare the other
        // is: at 95 % load it comes in few long busy periods.
        if mixed.count() < BATCHES * 3 / 4 {
            continue;
        }
        let of_batch = |batch: &Vec<u64>| batch[index] as f64 / shares.jobs_per_batch as f64;
        let values: Vec<f64> = shares.within.iter().map(of_batch).collect();
        let mean = values.iter().sum::<f64>() / BATCHES as f64;
        let squares = values
            .iter()
            .map(|value| (value - mean).powi(2))
            .sum::<f64>();
        let error = (squares / (BATCHES * (BATCHES - 1)) as f64).sqrt();
        verdict.compared += 1;
        verdict.greatest = verdict.greatest.max(error);
        let told = bounds.cdf(*at);
        if mean < told.lower - ERRORS * error || mean > told.upper + ERRORS * error {
            verdict.wrong.push(format!(
                "{}, F({at}): {mean} +- {error} simulated, {} to {} by analysis",
                setting.name, told.lower, told.upper
            ));
        }
    }
    verdict
}

fn check_all(jobs: u64, least_compared: usize) {
    let settings = golden();
    let found: Vec<Verdict> = settings
        .par_iter()
        .enumerate()
        .map(|(seed, setting)| compare(setting, &setting.solved(), jobs, seed as u64))
        .collect();
    let wrong: Vec<&String> = found.iter().flat_map(|it| &it.wrong).collect();
    let compared: usize = found.iter().map(|it| it.compared).sum();
    let greatest = found.iter().map(|it| it.greatest).fold(0.0, f64::max);
    eprintln!("{compared} shares, standard errors up to {greatest:.1e}");
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(compared >= least_compared, "{compared}");
}

/// `TAILBOUND_GOLDEN_JOBS=1724138 cargo test --release -p tailbound-analysis --test analysis golden_simulation`
/// simulates 10^8 jobs in all, in place of some millions.
#[test]
fn simulated_shares_lie_in_the_bounds() {
    let jobs = std::env::var("TAILBOUND_GOLDEN_JOBS").ok();
    let jobs = jobs.map_or(100_000, |jobs| jobs.parse().unwrap());
    check_all(jobs, 200);
}

/// So that the test above can fail: jobs that come two in a hundred more often are found out.
#[test]
fn a_wrong_rate_is_found_out() {
    let right = golden().remove(0);
    let bounds = right.solved();
    let mut wrong = golden().remove(0);
    wrong.rate_per_s *= 1.02;
    assert!(compare(&right, &bounds, 1_000_000, 7).wrong.is_empty());
    assert!(!compare(&wrong, &bounds, 1_000_000, 7).wrong.is_empty());
}
