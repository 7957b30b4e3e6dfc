//! Execution times of continuous laws, predicted and simulated, and beside the closed form of M/M/1; `bench/bounds` does
//! more of them, at higher loads.

use std::collections::BTreeSet;

use rayon::prelude::*;
use tailbound_analysis::SharpPoints;
use tailbound_distribution::Evidence;
use tailbound_model::{ExecutionTime, ReservationServer, ServerKind};
use tailbound_time::{Duration, Rate};

use crate::random_queues::{LawSetting, RULES, SettingRanges};
use tailbound_analysis::response_time::PoissonQueue;

/// How many settings there are, and how many jobs of each.
const SETTINGS: u64 = 25;
const JOBS: usize = 80_000;
/// A contradicted bound is simulated again, with so many times as many jobs and another seed.
const AGAIN: usize = 20;
/// Settings whose predictions take little time.
const QUICK: SettingRanges = SettingRanges {
    seed: 1,
    load: (0.2, 0.65),
    execution: (0.1, 1.5),
};

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// The bounds of a setting that two simulations contradict.
fn contradictions(number: u64) -> Vec<String> {
    let setting = QUICK.law_setting(number);
    let comparison = setting.compare((JOBS, number)).unwrap();
    let polling = matches!(setting.queue.server, ReservationServer::Polling { .. });
    let line = |wrong: &dyn std::fmt::Display| format!("{number}, {setting:?}: {wrong}");
    if comparison.is_bound() == polling {
        return vec![line(&"the evidence is not as proved")];
    }
    if comparison.width().is_infinite() {
        return vec![line(&"the 99th percentile has no upper end")];
    }
    if comparison.wrong().next().is_none() || polling {
        return Vec::new();
    }
    let again = setting.compare((JOBS * AGAIN, SETTINGS + number)).unwrap();
    again.wrong().map(|wrong| line(wrong)).collect()
}

#[test]
fn no_simulation_contradicts_a_bound_of_a_continuous_law() {
    let wrong: Vec<String> = (0..SETTINGS)
        .into_par_iter()
        .flat_map_iter(contradictions)
        .collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let rules = (0..SETTINGS).map(|number| number % RULES.len() as u64);
    assert_eq!(rules.collect::<BTreeSet<u64>>().len(), RULES.len());
}

/// An exponential law of mean 2 ms on a server, at a share of its bandwidth.
fn exponential(server: ReservationServer, load: f64) -> LawSetting {
    let bandwidth = server.budget_and_period().map_or(1.0, |(budget, period)| {
        budget.as_secs_f64() / period.as_secs_f64()
    });
    LawSetting {
        queue: PoissonQueue {
            rate: Rate::per_second(load * bandwidth / 2e-3).unwrap(),
            execution_times: vec![(ms(2), 1.0)],
            batches: vec![(1, 1.0)],
            server,
        },
        time: ExecutionTime::Exponential {
            min: Duration::ZERO,
            mean: ms(2),
            max: None,
        },
    }
}

/// The response times of M/M/1 are exponential, with the mean of the execution times over the share of free time.
#[test]
fn an_exponential_law_on_a_cpu_of_its_own_is_between_the_bounds_of_the_closed_form() {
    for load in [0.1, 0.5, 0.8, 0.95] {
        let probabilities = vec![0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 0.999_999, 0.999_999_999];
        let points = SharpPoints {
            probabilities: probabilities.clone(),
            times: Vec::new(),
        };
        let prediction = exponential(ReservationServer::Dedicated, load)
            .predict(&points)
            .unwrap();
        assert_eq!(prediction.overall.provenance.evidence, Evidence::Estimate);
        let proved = prediction.proved.clone().unwrap().overall;
        assert_eq!(proved.provenance.evidence, Evidence::Bound);
        assert!((prediction.utilisation - load).abs() < 1e-9);
        let mean = 2e-3 / (1.0 - load);
        for probability in probabilities {
            let truth = -mean * (1.0 - probability).ln();
            let estimate = prediction.overall.quantile(probability).unwrap();
            let ends = [estimate.low, estimate.high.unwrap()].map(Duration::as_secs_f64);
            if (0.5..0.9999).contains(&probability) {
                let apart = ends.map(|end| (end / truth - 1.0).abs());
                assert!(
                    apart.iter().all(|one| *one < 5e-3),
                    "{load}, {probability}: {apart:?}"
                );
            }
            let bounds = proved.quantile(probability).unwrap();
            let (low, high) = (bounds.low.as_secs_f64(), bounds.high.unwrap().as_secs_f64());
            assert!(
                low <= truth && truth <= high,
                "{load}, {probability}: {bounds:?}"
            );
            if load <= 0.8 && (0.5..0.9999).contains(&probability) {
                assert!(high / low < 1.15, "{load}, {probability}: {bounds:?}");
            }
        }
        let bounds = prediction.mean().unwrap();
        let (low, high) = (bounds.low.as_secs_f64(), bounds.high.unwrap().as_secs_f64());
        assert!(low <= mean && mean <= high, "{load}: {bounds:?}");
    }
}

/// Pairs of exponential jobs on a CPU of its own: a pair waits as Pollaczek and Khinchine's formula says, and a job half
/// of the time for the other one of its pair.
#[test]
fn the_mean_of_pairs_of_exponential_jobs_is_that_of_the_closed_form() {
    for load in [0.3, 0.8] {
        let mut setting = exponential(ReservationServer::Dedicated, load / 2.0);
        setting.queue.batches = vec![(2, 1.0)];
        let prediction = setting.predict(&SharpPoints::default()).unwrap();
        let proved = prediction.proved.as_ref().unwrap();
        assert_eq!(proved.overall.provenance.evidence, Evidence::Bound);
        assert!((prediction.utilisation - load).abs() < 1e-9);
        // E[S^2] / (2 E[S]) of two exponential jobs of mean m is 6 m^2 / 4 m.
        let mean = 2e-3 * (load / (1.0 - load) * 1.5 + 1.5);
        let bounds = proved.mean().unwrap();
        let (low, high) = (bounds.low.as_secs_f64(), bounds.high.unwrap().as_secs_f64());
        assert!(low <= mean && mean <= high, "{load}: {bounds:?}");
        assert!(high / low < 1.15, "{load}: {bounds:?}");
        let estimate = prediction.mean().unwrap();
        let ends = [estimate.low, estimate.high.unwrap()].map(Duration::as_secs_f64);
        assert!(
            ends.iter().all(|end| (end / mean - 1.0).abs() < 1e-3),
            "{load}: {estimate:?}"
        );
    }
}

/// A budget of the whole period is a CPU of its own on a constant-bandwidth server, for batches of a law, too.
#[test]
fn batches_of_a_law_with_the_whole_of_a_period_are_as_on_a_cpu_of_their_own() {
    let whole = ServerKind::ConstantBandwidth.with(ms(10), ms(10));
    let nearly = ServerKind::ConstantBandwidth.with(ms(10) - Duration::from_nanos(1), ms(10));
    let [own, near] = [whole, nearly].map(|server| {
        let mut setting = exponential(server, 0.25);
        setting.queue.batches = vec![(1, 0.5), (3, 0.5)];
        setting.predict(&SharpPoints::default()).unwrap()
    });
    for probability in [0.5, 0.9, 0.99] {
        let [own, near] =
            [&own, &near].map(|prediction| prediction.overall.quantile(probability).unwrap());
        let overlap = own.low <= near.high.unwrap() && near.low <= own.high.unwrap();
        assert!(overlap, "{probability}: {own:?} {near:?}");
    }
}

/// Every server answers for an exponential law near saturation, with an upper end at nine nines and of the mean. A CPU of
/// its own answers sooner than a server on which the same jobs come at the same rate, and is far from loaded by them.
#[test]
fn every_server_bounds_nine_nines_of_an_exponential_law() {
    let kinds = RULES.into_iter().filter_map(|(_, kind)| kind);
    let settings = kinds.map(|kind: ServerKind| exponential(kind.with(ms(6), ms(10)), 0.9));
    let sooner = -2e-3 / (1.0 - 0.9 * 0.6) * 1e-9_f64.ln();
    for setting in settings {
        let points = SharpPoints {
            probabilities: vec![0.5, 0.999_999_999],
            times: Vec::new(),
        };
        let prediction = setting.predict(&points).unwrap();
        let nine = prediction.overall.quantile(0.999_999_999).unwrap();
        let half = prediction.overall.quantile(0.5).unwrap();
        assert!(
            nine.high.is_some_and(|high| high.as_secs_f64() > sooner) && half.high < nine.high,
            "{setting:?}: {nine:?}"
        );
        assert!(prediction.mean().unwrap().high.is_some(), "{setting:?}");
    }
}
