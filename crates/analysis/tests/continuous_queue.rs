//! The exact response times of Poisson queues: closed forms, published numbers, the lattice method
//! and a slow simulation of our own.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_analysis::SharpPoints;
use tailbound_analysis::response_time::{PoissonQueue, QueueResponses};
use tailbound_distribution::Distribution;
use tailbound_model::ReservationServer;
use tailbound_time::{Duration, Rate};

fn seconds(value: f64) -> Duration {
    Duration::from_secs_f64_nearest(value)
}

fn deferrable(budget_s: f64, period_s: f64) -> ReservationServer {
    ReservationServer::Deferrable {
        budget: seconds(budget_s),
        period: seconds(period_s),
    }
}

fn periodic(budget_s: f64, period_s: f64) -> ReservationServer {
    ReservationServer::Periodic {
        budget: seconds(budget_s),
        period: seconds(period_s),
    }
}

fn queue(rate: f64, times: &[(f64, f64)], server: ReservationServer) -> PoissonQueue {
    PoissonQueue {
        rate: Rate::per_second(rate).unwrap(),
        execution_times: times.iter().map(|(time, p)| (seconds(*time), *p)).collect(),
        batches: vec![(1, 1.0)],
        server,
    }
}

fn middle(responses: &QueueResponses, at: f64) -> f64 {
    let bounds = responses.cdf(seconds(at));
    assert!(bounds.lower <= bounds.upper);
    0.5 * (bounds.lower + bounds.upper)
}

/// The waiting time of M/D/1 (Erlang 1909, Crommelin 1932), which is exact but loses digits for
/// long waits.
fn m_d_1(rate: f64, at: f64) -> f64 {
    let terms = at.floor() as i64;
    let sum: f64 = (0..=terms)
        .map(|k| {
            let x = rate * (k as f64 - at);
            let factorial: f64 = (1..=k).map(|i| i as f64).product();
            x.powi(k as i32) / factorial * (-x).exp()
        })
        .sum();
    (1.0 - rate) * sum
}

#[test]
fn a_full_budget_is_m_d_1() {
    for rate in [0.1, 0.4, 0.7, 0.9] {
        let own = queue(rate, &[(1.0, 1.0)], ReservationServer::Dedicated)
            .solve()
            .unwrap();
        let full = queue(rate, &[(1.0, 1.0)], deferrable(1.7, 1.7))
            .solve()
            .unwrap();
        for wait in [0.0, 0.3, 0.999_9, 1.0, 1.7, 2.5, 4.0, 6.3] {
            let closed = m_d_1(rate, wait);
            for responses in [&own, &full] {
                let bounds = responses.cdf(seconds(1.0 + wait));
                assert!(
                    bounds.lower <= closed + 1e-12 && closed - 1e-12 <= bounds.upper,
                    "{rate} {wait}: {closed} in {bounds:?}"
                );
                assert!(
                    bounds.upper - bounds.lower < 1e-8,
                    "{rate} {wait}: {bounds:?}"
                );
            }
        }
        // Pollaczek and Khinchine.
        let mean = 1.0 + rate / (2.0 * (1.0 - rate));
        for responses in [&own, &full] {
            let bounds = responses.mean();
            let (low, high) = (bounds.low.as_secs_f64(), bounds.high.unwrap().as_secs_f64());
            assert!(
                low <= mean + 1e-9 && mean - 1e-9 <= high,
                "{rate}: {mean} in {bounds:?}"
            );
            assert!(high - low < 1e-5 * mean, "{rate}: {bounds:?}");
        }
    }
}

#[test]
fn the_thesis_s_example_is_just_missed() {
    let responses = queue(0.4, &[(1.0, 1.0)], deferrable(2.8, 4.0))
        .solve()
        .unwrap();
    assert!(
        (middle(&responses, 3.0) - 0.892).abs() < 5e-4,
        "{}",
        middle(&responses, 3.0)
    );
    let p90 = responses.quantile(0.9).unwrap();
    let (low, high) = (p90.low.as_secs_f64(), p90.high.unwrap().as_secs_f64());
    assert!((low - 3.107).abs() < 1e-3, "{low}");
    assert!(high - low < 1e-5 * low, "{low} {high}");
}

/// A server in whole nanoseconds: the time, and what is left of the period's budget.
struct SlowServer {
    keeps: bool,
    budget_ns: u64,
    period_ns: u64,
    now: u64,
    left: u64,
}

impl SlowServer {
    fn next_period(&self) -> u64 {
        (self.now / self.period_ns + 1) * self.period_ns
    }

    /// Lets time pass, at most to the end of the period; returns how much of it was served.
    fn pass(&mut self, length: u64, working: bool) -> u64 {
        let next = self.next_period();
        let length = length.min(next - self.now);
        // A periodic server's budget runs from the start of its period, whether it is used or not.
        let counted = working || !self.keeps;
        let step = if counted && self.left > 0 {
            length.min(self.left)
        } else {
            length
        };
        let served = if working && self.left > 0 { step } else { 0 };
        if counted {
            self.left = self.left.saturating_sub(step);
        }
        self.now += step;
        if self.now == next {
            self.left = self.budget_ns;
        }
        served
    }
}

fn drawn<T: Copy>(random: &mut ChaCha8Rng, law: &[(T, f64)]) -> T {
    let mut draw: f64 = random.random();
    for (value, p) in law {
        if draw < *p {
            return *value;
        }
        draw -= p;
    }
    law.last().unwrap().0
}

/// An event simulation of a deferrable or periodic server, by the rule alone.
fn simulated(queue: &PoissonQueue, jobs: usize, seed: u64) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let (keeps, budget, period) = match queue.server {
        ReservationServer::Deferrable { budget, period } => (true, budget, period),
        ReservationServer::Periodic { budget, period } => (false, budget, period),
        _ => unreachable!(),
    };
    let mut server = SlowServer {
        keeps,
        budget_ns: budget.as_nanos(),
        period_ns: period.as_nanos(),
        now: 0,
        left: budget.as_nanos(),
    };
    let mean_gap_ns = 1e9 / queue.rate.as_per_second();
    let mut arrival = 0.0;
    let mut responses = Vec::with_capacity(jobs);
    while responses.len() < jobs {
        arrival += -(1.0 - random.random::<f64>()).ln() * mean_gap_ns;
        let came = arrival as u64;
        while server.now < came {
            let to = came - server.now;
            server.pass(to, false);
        }
        for _ in 0..drawn(&mut random, &queue.batches) {
            let mut work = drawn(&mut random, &queue.execution_times).as_nanos();
            while work > 0 {
                let wanted = if server.left > 0 { work } else { u64::MAX };
                work -= server.pass(wanted, true).min(work);
            }
            responses.push((server.now - came) as f64 * 1e-9);
        }
    }
    responses.sort_by(f64::total_cmp);
    responses
}

/// The share of all responses within each time lies where the bounds say, up to what chance allows.
fn agrees(queue: &PoissonQueue, seed: u64) {
    let analysed = queue.solve().unwrap();
    let responses = simulated(queue, 400_000, seed);
    for share in [0.05, 0.3, 0.5, 0.8, 0.95, 0.99] {
        let at = responses[(responses.len() as f64 * share) as usize] * (1.0 + 1e-9);
        let counted = responses.partition_point(|response| *response <= at);
        let counted = counted as f64 / responses.len() as f64;
        let bounds = analysed.cdf(seconds(at));
        // Responses depend on one another: far more than the binomial spread.
        let spread = 12.0 * (share * (1.0 - share) / responses.len() as f64).sqrt();
        assert!(
            bounds.lower - spread <= counted && counted <= bounds.upper + spread,
            "{queue:?} at {at}: {counted} in {bounds:?}"
        );
    }
}

#[test]
fn simulation_agrees_on_deferrable_and_periodic_servers() {
    let one = [(1.0, 1.0)];
    for (seed, (rate, times, server)) in [
        (0.4, &one[..], deferrable(1.2, 2.0)),
        (0.4, &one[..], periodic(1.2, 2.0)),
        // Execution times longer than the budget, and periods long and short.
        (0.2, &one[..], deferrable(0.4, 1.0)),
        (0.2, &one[..], periodic(0.4, 1.0)),
        (0.4, &one[..], deferrable(12.0, 20.0)),
        (0.3, &one[..], periodic(4.5, 9.3)),
        (0.4, &one[..], deferrable(0.14, 0.2)),
        (0.4, &[(0.5, 0.5), (1.5, 0.5)][..], deferrable(1.5, 2.0)),
        (0.4, &[(0.2, 0.7), (2.0, 0.3)][..], periodic(1.4, 2.0)),
    ]
    .into_iter()
    .enumerate()
    {
        agrees(&queue(rate, times, server), seed as u64);
    }
}

#[test]
fn simulation_agrees_on_batches() {
    let mut batches = queue(0.2, &[(1.0, 1.0)], deferrable(1.5, 2.5));
    batches.batches = vec![(1, 0.5), (3, 0.5)];
    agrees(&batches, 7);
}

#[test]
fn numbers_that_do_not_fit_a_lattice_are_rounded_outward() {
    let responses = queue(0.4, &[(1.0, 1.0)], deferrable(1.234_567_891, 2.012_345_678))
        .solve()
        .unwrap();
    for p in [0.5, 0.9, 0.99] {
        let bounds = responses.quantile(p).unwrap();
        let (low, high) = (bounds.low.as_secs_f64(), bounds.high.unwrap().as_secs_f64());
        assert!(low <= high && high - low < 2e-4 * low, "{p}: {low} {high}");
    }
    agrees(
        &queue(0.4, &[(1.0, 1.0)], deferrable(1.234_567_891, 2.012_345_678)),
        3,
    );
}

#[test]
fn bad_numbers_are_refused_with_what_would_be_right() {
    let good = queue(0.4, &[(1.0, 1.0)], deferrable(1.2, 2.0));
    let refusal = |queue: &PoissonQueue| queue.solve().unwrap_err().to_string();
    let mut bad = good.clone();
    bad.server = deferrable(0.7, 2.0);
    assert!(
        refusal(&bad).contains("not below the bandwidth"),
        "{}",
        refusal(&bad)
    );
    bad.server = deferrable(2.5, 2.0);
    assert!(
        refusal(&bad).contains("at most the period"),
        "{}",
        refusal(&bad)
    );
    bad.server = deferrable(0.0, 2.0);
    assert!(refusal(&bad).contains("above zero"), "{}", refusal(&bad));
    bad = good.clone();
    bad.execution_times[0].1 = f64::NAN;
    assert!(refusal(&bad).contains("probability"), "{}", refusal(&bad));
    bad.execution_times.clear();
    assert!(refusal(&bad).contains("at least one"), "{}", refusal(&bad));
    bad = good.clone();
    bad.execution_times[0].1 = 0.9;
    assert!(refusal(&bad).contains("sum up to 0.9"), "{}", refusal(&bad));
    assert!(good.solve().unwrap().quantile(1.0).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn more_budget_and_shorter_jobs_never_make_responses_longer(
        rate in 5_u32..60, budget in 4_u32..16, more in 1_u32..6, period in 10_u32..40, at in 5_u32..100,
    ) {
        let (budget, more) = (f64::from(budget) / 4.0, f64::from(more) / 4.0);
        let period = (f64::from(period) / 8.0).max(budget + more);
        let rate = f64::from(rate) / 100.0 * budget / period;
        prop_assume!(rate < 0.93 * budget / period);
        let at = f64::from(at) / 10.0;
        let less = queue(rate, &[(1.0, 1.0)], deferrable(budget, period)).solve().unwrap();
        let longer = queue(rate, &[(1.0, 1.0)], deferrable(budget + more, period)).solve().unwrap();
        let shorter = queue(rate, &[(0.75, 1.0)], deferrable(budget, period)).solve().unwrap();
        let own = queue(rate, &[(1.0, 1.0)], ReservationServer::Dedicated).solve().unwrap();
        let base = less.cdf(seconds(at)).lower;
        for better in [&longer, &shorter, &own] {
            prop_assert!(better.cdf(seconds(at)).upper >= base - 1e-10);
        }
        // A periodic server wastes what a deferrable one keeps.
        let wasting = queue(rate, &[(1.0, 1.0)], periodic(budget, period)).solve().unwrap();
        prop_assert!(wasting.cdf(seconds(at)).lower <= less.cdf(seconds(at)).upper + 1e-10);
    }

    #[test]
    fn quantiles_and_shares_say_the_same(
        rate in 1_u32..90, budget in 2_u32..12, period in 2_u32..30, p in 0.02_f64..0.999,
    ) {
        let period = f64::from(period) / 4.0;
        let budget = (f64::from(budget) / 4.0).min(period);
        let rate = f64::from(rate) / 100.0 * budget / period;
        let responses = queue(rate, &[(1.0, 1.0)], deferrable(budget, period)).solve().unwrap();
        let bounds = responses.quantile(p).unwrap();
        let high = bounds.high.unwrap();
        prop_assert!(bounds.low <= high);
        prop_assert!(responses.cdf(high).upper >= p - 1e-9);
        if bounds.low > seconds(1.0) {
            prop_assert!(responses.cdf(bounds.low).lower <= p + 1e-9);
        }
    }
}

/// Checks that a proved bracket holds the exact quantiles, and is no wider than this.
fn brackets(proved: &Distribution, exact: &QueueResponses, width: Duration) {
    for probability in [0.1, 0.5, 0.9, 0.999] {
        let at = exact.quantile(probability).unwrap();
        let bounds = proved.quantile(probability).unwrap();
        let (low, high) = (bounds.low, bounds.high.unwrap());
        assert!(
            low <= at.high.unwrap() && at.low <= high,
            "{at:?} {bounds:?}"
        );
        assert!(high.saturating_sub(low) < width, "{bounds:?}");
    }
}

/// Where a period is far shorter than an execution time, the proved bracket is that of CPUs of constant speed.
#[test]
fn short_periods_are_bracketed_narrowly_around_the_exact_answer() {
    for server in [deferrable(0.6e-3, 1e-3), periodic(0.6e-3, 1e-3)] {
        let queue = queue(3.0, &[(0.1, 1.0)], server);
        let exact = queue.solve().unwrap();
        let prediction = queue.predict("queue", &SharpPoints::default()).unwrap();
        let proved = prediction.proved.unwrap();
        assert!(proved.overall.provenance.method.contains("constant speed"));
        brackets(&proved.overall, &exact, seconds(4e-3));
        let (mean, bounds) = (exact.mean(), proved.mean.unwrap());
        assert!(bounds.low <= mean.high.unwrap() && mean.low <= bounds.high.unwrap());
    }
}

/// A period has room for twice as many jobs as come, give or take eighteen standard deviations.
#[test]
fn a_budget_that_is_never_used_up_is_a_cpu_of_ones_own() {
    let queue = queue(3_000.0, &[(1e-4, 1.0)], deferrable(0.06, 0.1));
    let exact = queue.solve().unwrap();
    let prediction = queue.predict("queue", &SharpPoints::default()).unwrap();
    let proved = prediction.proved.unwrap();
    assert!(
        prediction
            .assumptions
            .iter()
            .any(|one| one.contains("as good as its own"))
    );
    brackets(&proved.overall, &exact, seconds(5e-6));
}
