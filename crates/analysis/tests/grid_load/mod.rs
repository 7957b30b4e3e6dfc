//! What the tests of the grid have in common: loads, and how far a sample leaves a bracket.
#![allow(dead_code)]

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::grid::{ExecutionLaw, GridQuery};
use tailbound_distribution::{Distribution, Shape, StepCdf};
use tailbound_time::{Duration, Instant, Rate};

pub fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

/// A law of execution times in microseconds.
pub fn law(atoms: &[(u64, f64)]) -> ExecutionLaw {
    ExecutionLaw::new(atoms.iter().map(|(d, p)| (us(*d), *p)).collect()).unwrap()
}

/// Jobs per second, and budget and period in microseconds.
pub fn query(per_second: f64, law: ExecutionLaw, budget: u64, period: u64) -> GridQuery {
    GridQuery::new(
        Rate::per_second(per_second).unwrap(),
        law,
        us(budget),
        us(period),
    )
}

/// So many jobs of the load, without the first of them lying at the origin.
pub fn poisson_jobs(query: &GridQuery, count: usize, seed: u64) -> Vec<(Instant, Duration)> {
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

pub fn ends(distribution: &Distribution) -> (&StepCdf, &StepCdf) {
    match &distribution.shape {
        Shape::Bracket {
            optimistic,
            pessimistic,
        } => (optimistic, pessimistic),
        other => panic!("not a bracket: {other:?}"),
    }
}

/// The largest amount by which the empirical function of `sorted` leaves the bracket.
pub fn excess(distribution: &Distribution, sorted: &[Duration]) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let count = sorted.len() as f64;
    let below = |at: Duration| sorted.partition_point(|x| *x <= at) as f64 / count;
    let above = |at: Duration| sorted.partition_point(|x| *x < at) as f64 / count;
    let mut worst = f64::NEG_INFINITY;
    for (at, value) in pessimistic.steps() {
        worst = worst.max(value - below(*at));
    }
    let mut before = 0.0;
    for (at, value) in optimistic.steps() {
        worst = worst.max(above(*at) - before);
        before = *value;
    }
    worst
}

/// The widest gap of the bracket once the pessimistic end is moved left by `shift`.
pub fn width(distribution: &Distribution, shift: Duration) -> f64 {
    let (optimistic, pessimistic) = ends(distribution);
    let gap = |(at, value): &(Duration, f64)| value - pessimistic.value(at.saturating_add(shift));
    optimistic.steps().iter().map(gap).fold(0.0, f64::max)
}
