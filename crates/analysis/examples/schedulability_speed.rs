//! Prints how many task sets per second the response-time analysis decides, next to the crate
//! `response-time-analysis` in the same run, interleaved.
//!
//! `cargo run --release -p tailbound-analysis --example schedulability_speed [-- FILE.json]`
//!
//! 20 tasks, utilisations by UUniFast (Bini & Buttazzo, Real-Time Systems 30, 2005), periods
//! log-uniform from 10 ms to 1 s in nanoseconds, deadlines equal to the periods, rate-monotonic
//! priorities. Sets are made before the clock starts, and both sides get them sorted by priority.

use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use response_time_analysis::fixed_priority::fully_preemptive::dedicated_uniproc_rta;
use response_time_analysis::{arrival::Sporadic, demand::RBF, time, wcet::Scalar};
use tailbound_analysis::SporadicTask;
use tailbound_analysis::schedulability::response_time::FixedPriorityAnalyzer;
use tailbound_time::Duration;

const TASKS: usize = 20;
const SETS: usize = 1_000;
/// So few that a round is over before others get the CPU, mostly.
const SETS_PER_ROUND: usize = 50;
const PASSES: usize = 40;
const SEED: u64 = 20_070_703;

type Peer = RBF<Sporadic, Scalar>;

/// The same set for both sides.
struct Set {
    ours: Vec<SporadicTask>,
    theirs: Vec<Peer>,
}

fn uunifast(random: &mut ChaCha8Rng, utilisation: f64) -> Vec<f64> {
    let mut rest = utilisation;
    let mut parts = Vec::with_capacity(TASKS);
    for left in (1..TASKS).rev() {
        let next = rest * random.random::<f64>().powf(1.0 / left as f64);
        parts.push(rest - next);
        rest = next;
    }
    parts.push(rest);
    parts
}

fn set(random: &mut ChaCha8Rng, utilisation: f64) -> Result<Set, Box<dyn Error>> {
    let mut ours = Vec::with_capacity(TASKS);
    for part in uunifast(random, utilisation) {
        let period = (1e7 * 100_f64.powf(random.random())) as u64;
        let execution = ((part * period as f64) as u64).max(1);
        let (execution, period) = (
            Duration::from_nanos(execution),
            Duration::from_nanos(period),
        );
        ours.push(SporadicTask::implicit(execution, period)?);
    }
    ours.sort_by_key(SporadicTask::period);
    let peer = |task: &SporadicTask| {
        let arrivals = Sporadic::new_zero_jitter(task.period().as_nanos().into());
        RBF::new(arrivals, Scalar::new(task.execution().as_nanos().into()))
    };
    let theirs = ours.iter().map(peer).collect();
    Ok(Set { ours, theirs })
}

/// The sum of the peer's response times in nanoseconds, and how many sets it holds schedulable.
fn peer_round(sets: &[Set]) -> (u64, usize) {
    let (mut sum, mut schedulable) = (0, 0);
    for set in sets {
        let mut all = true;
        for (index, task) in set.theirs.iter().enumerate() {
            let limit = task.arrival_bound.min_inter_arrival;
            let (higher, _) = set.theirs.split_at(index);
            match dedicated_uniproc_rta(task, higher, limit) {
                Ok(bound) => sum += time::Time::from(bound),
                Err(_) => all = false,
            }
        }
        schedulable += usize::from(all);
    }
    (sum, schedulable)
}

/// The sum of our response times within the deadlines, and how many sets are schedulable.
fn full_round(
    sets: &[Set],
    analyzer: &mut FixedPriorityAnalyzer,
) -> Result<(u64, usize), Box<dyn Error>> {
    let (mut sum, mut schedulable) = (0, 0);
    for set in sets {
        let responses = analyzer.response_times(&set.ours, &[])?;
        let within = responses.iter().filter(|one| one.meets_deadline);
        sum += within
            .filter_map(|one| one.response_time.ok())
            .map(Duration::as_nanos)
            .sum::<u64>();
        schedulable += usize::from(responses.iter().all(|one| one.meets_deadline));
    }
    Ok((sum, schedulable))
}

fn verdict_round(
    sets: &[Set],
    analyzer: &mut FixedPriorityAnalyzer,
) -> Result<usize, Box<dyn Error>> {
    let mut schedulable = 0;
    for set in sets {
        schedulable += usize::from(analyzer.schedulable(&set.ours, &[])?);
    }
    Ok(schedulable)
}

/// The speeds of all rounds, in sets per second.
#[derive(Default)]
struct Speeds(Vec<f64>);

impl Speeds {
    fn timed<T>(&mut self, sets: usize, round: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let result = black_box(round());
        self.0.push(sets as f64 / start.elapsed().as_secs_f64());
        result
    }

    /// The 5th percentile, the median, the 95th percentile.
    fn spread(&mut self) -> [f64; 3] {
        self.0.sort_by(f64::total_cmp);
        let last = self.0.len().saturating_sub(1);
        let at = |percent: usize| {
            self.0
                .get(last * percent / 100)
                .copied()
                .unwrap_or(f64::NAN)
        };
        [at(5), at(50), at(95)]
    }
}

fn measure(utilisation: f64) -> Result<serde_json::Value, Box<dyn Error>> {
    let mut random = ChaCha8Rng::seed_from_u64(SEED);
    let sets: Result<Vec<_>, _> = (0..SETS).map(|_| set(&mut random, utilisation)).collect();
    let sets = sets?;
    let mut analyzer = FixedPriorityAnalyzer::new();
    let (mut full, mut verdict, mut peer) =
        (Speeds::default(), Speeds::default(), Speeds::default());
    let mut schedulable = 0;
    for round in sets
        .chunks(SETS_PER_ROUND)
        .cycle()
        .take(PASSES * SETS / SETS_PER_ROUND)
    {
        let ours = full.timed(round.len(), || full_round(round, &mut analyzer))?;
        let verdicts = verdict.timed(round.len(), || verdict_round(round, &mut analyzer))?;
        let theirs = peer.timed(round.len(), || peer_round(round));
        if ours != theirs || ours.1 != verdicts {
            return Err(format!("ours {ours:?}, {verdicts}, theirs {theirs:?}").into());
        }
        schedulable += ours.1;
    }
    schedulable /= PASSES;
    let [full, verdict, peer] = [full.spread(), verdict.spread(), peer.spread()];
    println!(
        "| {utilisation:.1} | {:4.1} % | {:9.0} ({:.0}-{:.0}) | {:9.0} ({:.0}-{:.0}) \
         | {:8.0} ({:.0}-{:.0}) | {:5.1} |",
        100.0 * schedulable as f64 / SETS as f64,
        full[1],
        full[0],
        full[2],
        verdict[1],
        verdict[0],
        verdict[2],
        peer[1],
        peer[0],
        peer[2],
        full[1] / peer[1],
    );
    let speed = |[p5, median, p95]: [f64; 3]| {
        serde_json::json!({
            "p5": p5,
            "median": median,
            "p95": p95,
        })
    };
    Ok(serde_json::json!({
        "utilisation": utilisation,
        "schedulable": schedulable,
        "sets_per_second": {
            "response_times": speed(full),
            "verdict": speed(verdict),
            "response_time_analysis_0_3_2": speed(peer),
        },
    }))
}

fn main() -> Result<(), Box<dyn Error>> {
    println!(
        "{TASKS} tasks, {SETS} sets, {PASSES} interleaved passes, seed {SEED}; sets per second,"
    );
    println!(
        "median (5th-95th percentile) of rounds of {SETS_PER_ROUND} sets. All three agree on every response time and verdict.\n"
    );
    println!(
        "| U | schedulable | response times | verdict only | response-time-analysis 0.3.2 | ratio |"
    );
    println!("|---|---|---|---|---|---|");
    let cases: Result<Vec<_>, _> = [0.7, 0.8, 0.9].into_iter().map(measure).collect();
    let result = serde_json::json!({
        "schema_version": 1,
        "benchmark": "schedulability_speed",
        "tasks": TASKS,
        "sets": SETS,
        "passes": PASSES,
        "sets_per_round": SETS_PER_ROUND,
        "seed": SEED,
        "cases": cases?,
    });
    match std::env::args().nth(1) {
        Some(file) => std::fs::write(file, format!("{result:#}\n"))?,
        None => println!("\n{result:#}"),
    }
    Ok(())
}
