//! What the tests of the grid have in common: loads, and how far a sample leaves a bracket.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::synthetic_service::{self, poisson, service, task};
pub use synthetic_service::ends;
use tailbound_analysis::slotted::{ExecutionLaw, SlottedPrediction, SlottedQuery};
use tailbound_analysis::{ServiceQuery, predict};
use tailbound_distribution::{Distribution, Evidence};
use tailbound_model::{ExecutionTime, ReservationServer, Scheduling};
use tailbound_time::{Duration, Instant, Rate};

/// A few random cases, the same ones in every run: what is compared with a sample holds only with
/// high probability.
pub fn same_cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        rng_seed: RngSeed::Fixed(1),
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

pub fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

/// A law of execution times in microseconds.
pub fn law(atoms: &[(u64, f64)]) -> ExecutionLaw {
    ExecutionLaw::new(atoms.iter().map(|(d, p)| (us(*d), *p)).collect()).unwrap()
}

/// A constant execution time in microseconds.
pub fn one(d: u64) -> ExecutionLaw {
    law(&[(d, 1.0)])
}

/// Jobs per second, and budget and period in microseconds.
pub fn query(per_second: f64, law: ExecutionLaw, budget_us: u64, period_us: u64) -> SlottedQuery {
    SlottedQuery::new(
        Rate::per_second(per_second).unwrap(),
        law,
        us(budget_us),
        us(period_us),
    )
}

/// So many jobs of the load, without the first of them lying at the origin.
pub fn poisson_jobs(query: &SlottedQuery, count: usize, seed: u64) -> Vec<(Instant, Duration)> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let gap_ns = 1e9 / query.rate.as_per_second();
    let mut at_ns = 0.0;
    let mut draw = || {
        at_ns += -gap_ns * (1.0 - random.random::<f64>()).ln();
        let mut left = random.random::<f64>();
        let atoms = query.execution_times.atoms();
        let drawn = atoms.iter().find(|(_, p)| {
            left -= p;
            left < 0.0
        });
        let work = drawn.or(atoms.last()).unwrap().0;
        (Instant::from_nanos(at_ns as u64), work)
    };
    (0..count).map(|_| draw()).collect()
}

prop_compose! {
    /// Random small lattices: budget, period and execution times in units of 100 us, and periods
    /// that are no whole number of them.
    pub fn small_queries()(
        budget in 1_u64..12,
        beyond in 0_u64..20,
        short in 1_u64..10,
        longer in 0_u64..20,
        share in 0.2_f64..0.8,
        load in 0.2_f64..0.75,
    ) -> SlottedQuery {
        let (budget, period) = (budget * 100, (budget + beyond) * 100 + 37 * (beyond % 2));
        let mixed = law(&[(short * 100, share), ((short + longer) * 100, 1.0 - share)]);
        let rate = load * budget as f64 / period as f64 / mixed.mean_seconds();
        query(rate, mixed, budget, period)
    }
}

/// No quantile that a user asks for is known worse than to a few slots.
pub fn assert_narrow(predicted: &SlottedPrediction) {
    for probability in [0.5, 0.9, 0.99, 0.999] {
        let quantile = predicted.quantile(probability);
        let width = quantile.high.unwrap().saturating_sub(quantile.low);
        assert!(
            width.as_nanos() <= 4 * predicted.slot.as_nanos(),
            "{probability}: {quantile:?}, slots of {}",
            predicted.slot
        );
    }
}

/// An answer that is no bound says so, and is near to a sample of the responses all the same.
pub fn assert_honest_estimate(predicted: &SlottedPrediction, mut responses: Vec<Duration>) {
    let evidence = predicted.distribution.provenance.evidence;
    assert_eq!(evidence, Evidence::Estimate);
    let said = predicted.assumptions.join("\n");
    assert!(said.contains("which is no bound"), "{said}");
    let (optimistic, pessimistic) = ends(&predicted.distribution);
    responses.sort_unstable();
    // Twice the slot is where the jumps of the function may have moved to.
    let slack = Duration::from_nanos(predicted.slot.as_nanos() * 2);
    for step in 0..400 {
        let at = us(step * 25);
        let share = responses.partition_point(|x| *x <= at) as f64 / responses.len() as f64;
        let before = pessimistic.value(at.saturating_sub(slack));
        let after = optimistic.value(at.saturating_add(slack));
        assert!(before < share + 0.004, "{at}: {before} {share}");
        assert!(after > share - 0.004, "{at}: {after} {share}");
    }
}

/// Batches of successive responses, long enough to be all but independent.
const BATCHES: usize = 40;

/// The largest distance, in standard errors, by which the empirical function of `responses`, in
/// the order of their releases, leaves the bracket. The errors come from the means of batches, so
/// that the correlation of successive responses counts; ten jobs are allowed for besides.
pub fn excess(distribution: &Distribution, responses: &[Duration]) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let batches: Vec<Vec<Duration>> = responses
        .chunks_exact(responses.len() / BATCHES)
        .map(|batch| {
            let mut batch = batch.to_vec();
            batch.sort_unstable();
            batch
        })
        .collect();
    let mut sorted = responses.to_vec();
    sorted.sort_unstable();
    let few = 10.0 / responses.len() as f64;
    let mut worst = f64::NEG_INFINITY;
    for rank in 0..200 {
        // All ranks alike up to the median, then ever closer to p99.5; beyond, too few batches
        // have anything to tell.
        let part = f64::from(rank % 100) / 100.0;
        let share = if rank < 100 {
            0.5 * part
        } else {
            1.0 - 0.5 * 10_f64.powf(-2.0 * part)
        };
        let at = sorted[(share * (sorted.len() - 1) as f64) as usize];
        for at in [at, at.saturating_sub(Duration::from_nanos(1))] {
            let value = |batch: &Vec<Duration>| {
                batch.partition_point(|x| *x <= at) as f64 / batch.len() as f64
            };
            let values: Vec<f64> = batches.iter().map(value).collect();
            let count = values.len() as f64;
            let mean = values.iter().sum::<f64>() / count;
            let squares: f64 = values.iter().map(|v| (v - mean).powi(2)).sum();
            let error = (squares / (count - 1.0) / count).sqrt();
            let outside = (pessimistic.value(at) - mean).max(mean - optimistic.value(at)) - few;
            worst = worst.max(outside / (error + 1e-12));
        }
    }
    worst
}

/// The widest gap of the bracket once the pessimistic end is moved left by `shift`.
pub fn width(distribution: &Distribution, shift: Duration) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let gap = |(at, value): &(Duration, f64)| value - pessimistic.value(at.saturating_add(shift));
    optimistic.steps().iter().map(gap).fold(0.0, f64::max)
}

/// The bracket for constant execution times on a dedicated CPU, by the other method.
pub fn own_cpu(per_second: f64, d: Duration) -> Distribution {
    predicted(per_second, d, ReservationServer::Dedicated)
}

/// The bracket for constant execution times by `predict`.
pub fn predicted(per_second: f64, d: Duration, server: ReservationServer) -> Distribution {
    let constant = ExecutionTime::Constant { value: d };
    let service = service(
        Scheduling::Fifo,
        [("t", task(poisson(per_second), constant))],
    );
    let query = ServiceQuery {
        name: "s",
        service: &service,
        execution_times: std::collections::BTreeMap::new(),
        server,
        dispatch_overhead: Duration::ZERO,
    };
    predict(&query).unwrap().overall
}
