//! Random settings in exact nanoseconds, predicted and simulated; `bench/bounds` does hundreds, at higher loads.

use std::collections::BTreeSet;

use rayon::prelude::*;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::{AnalysisError, Prediction, SharpPoints};
use tailbound_distribution::Evidence;
use tailbound_model::{ReservationServer, ServerKind};
use tailbound_time::{Duration, Rate};

use crate::random_queues::{Comparison, RULES, SettingRanges, compare};

/// How many settings there are, and how many jobs of each.
const SETTINGS: u64 = 40;
const JOBS: usize = 100_000;
/// A contradicted bound is simulated again, with so many times as many jobs and another seed.
const AGAIN: usize = 20;
/// So many settings have an answer, at least.
const ANSWERED: usize = 34;
/// Settings whose predictions take little time.
const QUICK: SettingRanges = SettingRanges {
    seed: 1,
    load: (0.2, 0.65),
    execution: (0.1, 1.5),
};

fn predict(queue: &PoissonQueue, points: &SharpPoints) -> Result<Prediction, AnalysisError> {
    queue.predict("queue", points)
}

/// Whether no simulation may contradict the prediction: one that is proved, or an estimate of the exact method. An
/// estimate for a polling server spans two roundings and claims no more.
fn is_held(comparison: &Comparison, queue: &PoissonQueue) -> bool {
    comparison.is_bound() || !matches!(queue.server, ReservationServer::Polling { .. })
}

/// Simulates a setting: `None` where there is no prediction, else what the simulation contradicts, twice, of its
/// ends, and of those that are proved.
fn contradictions(number: u64) -> Option<Vec<String>> {
    let queue = QUICK.queue(number);
    let describe = |wrong: &dyn std::fmt::Display| format!("{number}, {queue:?}: {wrong}");
    let comparison = match compare(&queue, (JOBS, number), predict) {
        Ok(comparison) => comparison,
        Err(AnalysisError::NotAnalysed { .. }) => return None,
        Err(error) => return Some(vec![describe(&error)]),
    };
    if comparison.width().is_infinite() {
        return Some(vec![describe(&"the 99th percentile has no upper end")]);
    }
    if comparison.wrong().next().is_none() || !is_held(&comparison, &queue) {
        return Some(Vec::new());
    }
    let again = compare(&queue, (JOBS * AGAIN, SETTINGS + number), predict).unwrap();
    Some(again.wrong().map(|wrong| describe(wrong)).collect())
}

#[test]
fn no_simulation_contradicts_a_bound() {
    let contradictions: Vec<Option<Vec<String>>> =
        (0..SETTINGS).into_par_iter().map(contradictions).collect();
    let wrong: Vec<&String> = contradictions.iter().flatten().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let answered = (0..SETTINGS)
        .zip(&contradictions)
        .filter(|(_, one)| one.is_some());
    let rules: Vec<u64> = answered
        .map(|(number, _)| number % RULES.len() as u64)
        .collect();
    assert!(rules.len() >= ANSWERED, "{} answers", rules.len());
    let different: BTreeSet<u64> = rules.into_iter().collect();
    assert_eq!(different.len(), RULES.len());
}

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// A queue of constant execution times whose jobs come one, two or `most` at a time.
fn batched(rate: f64, execution_ns: u64, most: u32, server: ReservationServer) -> PoissonQueue {
    PoissonQueue {
        rate: Rate::per_second(rate).unwrap(),
        execution_times: vec![(ns(execution_ns), 1.0)],
        batches: vec![(1, 0.5), (2, 0.3), (most, 0.2)],
        server,
    }
}

fn periodic(budget_ns: u64, period_ns: u64) -> ReservationServer {
    ServerKind::Periodic.with(ns(budget_ns), ns(period_ns))
}

/// Settings that `bench/bounds` found: below the first percentile that was asked for, no response was held possible,
/// and each percentile began where the one before it did.
#[test]
fn batches_are_bounded_between_the_percentiles_too() {
    let deferrable = ServerKind::Deferrable.with(ns(1_530_214), ns(1_619_539));
    let settings = [
        batched(209.601_243_365, 2_132_054, 4, deferrable),
        batched(
            15.538_973_050,
            16_997_026,
            5,
            periodic(5_598_301, 5_815_159),
        ),
        batched(
            21.541_436_708,
            7_035_640,
            5,
            periodic(25_339_864, 37_548_836),
        ),
    ];
    for (number, queue) in settings.iter().enumerate() {
        let comparison = compare(queue, (JOBS, number as u64), predict).unwrap();
        let wrong: Vec<String> = comparison.wrong().map(ToString::to_string).collect();
        assert!(wrong.is_empty(), "{number}: {wrong:#?}");
        assert!(
            comparison.width() < 1e-3,
            "{number}: {}",
            comparison.width()
        );
    }
}

/// A simulation of 3 * 10^7 jobs in exact time found 0.03255 +- 0.00004 of the responses within the shorter execution
/// time.
#[test]
fn pairs_of_jobs_on_a_periodic_server_are_as_simulated_at_length() {
    let queue = PoissonQueue {
        rate: Rate::per_second(215.36).unwrap(),
        execution_times: vec![(ns(877_368), 0.75), (ns(1_645_065), 0.25)],
        batches: vec![(2, 1.0)],
        server: periodic(2_777_999, 4_641_720),
    };
    let bounds = queue.solve().unwrap().cdf(ns(877_368));
    let (low, high) = (0.032_55 - 5.0 * 0.000_04, 0.032_55 + 5.0 * 0.000_04);
    assert!(low < bounds.lower && bounds.upper < high, "{bounds:?}");
    assert!(bounds.upper - bounds.lower < 5e-5, "{bounds:?}");
}

/// The simulator moves in whole nanoseconds and cannot tell such small amounts; the analysis knows no unit.
#[test]
fn amounts_of_nanoseconds_are_answered_like_amounts_of_microseconds() {
    let queue = |unit_ns: u64| PoissonQueue {
        rate: Rate::per_second(1.4e7 / unit_ns as f64).unwrap(),
        execution_times: vec![(ns(13 * unit_ns), 0.5), (ns(29 * unit_ns), 0.5)],
        batches: vec![(1, 1.0)],
        server: periodic(27 * unit_ns, 61 * unit_ns),
    };
    let (small, large) = (queue(1).solve().unwrap(), queue(1_000).solve().unwrap());
    for at in [13, 20, 47, 60, 61, 90, 122, 250, 600] {
        let (small, large) = (small.cdf(ns(at)), large.cdf(ns(1_000 * at)));
        for (one, other) in [(small.lower, large.lower), (small.upper, large.upper)] {
            assert!((one - other).abs() < 1e-9, "{at}: {small:?} {large:?}");
        }
    }
    let simulated = compare(&queue(1_000), (JOBS, 1), predict).unwrap();
    assert_eq!(simulated.wrong().count(), 0);
}

/// Answers of the exact method lie inside of the proved bracket, and are not called proved.
#[test]
fn estimates_of_the_exact_method_stand_beside_a_proved_bracket() {
    let batches = [vec![(1, 1.0)], vec![(1, 0.5), (3, 0.5)]];
    let servers = [
        ReservationServer::Dedicated,
        ServerKind::Deferrable.with(ns(6_000_000), ns(10_000_000)),
        ServerKind::Periodic.with(ns(6_000_000), ns(10_000_000)),
    ];
    for (server, batches) in servers
        .iter()
        .flat_map(|it| batches.iter().map(move |b| (it, b)))
    {
        let queue = PoissonQueue {
            rate: Rate::per_second(100.0).unwrap(),
            execution_times: vec![(ns(2_000_000), 1.0)],
            batches: batches.clone(),
            server: *server,
        };
        let solved = queue.solve().unwrap();
        assert_eq!(solved.evidence(), Evidence::Estimate, "{queue:?}");
        let prediction = predict(&queue, &SharpPoints::default()).unwrap();
        let provenance = &prediction.overall.provenance;
        assert_eq!(provenance.evidence, Evidence::Estimate, "{queue:?}");
        let proved = prediction.proved.as_ref().unwrap();
        assert_eq!(proved.overall.provenance.evidence, Evidence::Bound);
        for probability in [0.5, 0.9, 0.99] {
            let (sharp, sure) = (
                prediction.overall.quantile(probability).unwrap(),
                proved.overall.quantile(probability).unwrap(),
            );
            let inside = sure.low <= sharp.low && sharp.high <= sure.high;
            assert!(inside, "{queue:?}, {probability}: {sharp:?} {sure:?}");
        }
        let (sharp, sure) = (prediction.mean().unwrap(), proved.mean().unwrap());
        let inside = sure.low <= sharp.low && sharp.high <= sure.high;
        assert!(inside, "{queue:?}: {sharp:?} {sure:?}");
    }
}

#[test]
fn a_budget_of_the_whole_period_is_a_cpu_of_its_own() {
    let laws = [
        vec![(ns(1_234_567), 1.0)],
        vec![(ns(412_345), 0.4), (ns(1_700_003), 0.6)],
    ];
    for execution_times in laws {
        let queue = |server| PoissonQueue {
            rate: Rate::per_second(400.0).unwrap(),
            execution_times: execution_times.clone(),
            batches: vec![(1, 1.0)],
            server,
        };
        let predicted = |server| predict(&queue(server), &SharpPoints::default()).unwrap();
        let own = predicted(ReservationServer::Dedicated);
        for kind in [
            ServerKind::Deferrable,
            ServerKind::Periodic,
            ServerKind::ConstantBandwidth,
        ] {
            let whole = predicted(kind.with(ns(3_456_789), ns(3_456_789)));
            assert_eq!(whole.overall.shape, own.overall.shape, "{kind:?}");
            assert_eq!(whole.mean(), own.mean(), "{kind:?}");
        }
        // Who comes to an idle polling server waits for the start of a period.
        let polling = predicted(ServerKind::Polling.with(ns(3_456_789), ns(3_456_789)));
        assert!(polling.mean().unwrap().low > own.mean().unwrap().high.unwrap());
    }
}

/// Near saturation and far out there is an answer on every server: bounds of the mean, and of the quantile that one
/// response in 10^9 exceeds.
#[test]
fn high_loads_and_rare_responses_are_bounded() {
    let execution_times = vec![(ns(1_234_567), 0.4), (ns(2_345_678), 0.6)];
    let servers = [
        ReservationServer::Dedicated,
        ServerKind::Deferrable.with(ns(4_567_891), ns(9_876_543)),
        ServerKind::Periodic.with(ns(4_567_891), ns(9_876_543)),
        ServerKind::ConstantBandwidth.with(ns(4_567_891), ns(9_876_543)),
        ServerKind::Polling.with(ns(4_567_891), ns(9_876_543)),
    ];
    let nine_nines = 1.0 - 1e-9;
    for (server, load) in servers.into_iter().flat_map(|it| [(it, 0.9), (it, 0.9999)]) {
        let mut queue = PoissonQueue {
            rate: Rate::per_second(1.0).unwrap(),
            execution_times: execution_times.clone(),
            batches: vec![(1, 1.0)],
            server,
        };
        let amounts = server.budget_and_period();
        let bandwidth = amounts.map_or(1.0, |(budget, period)| {
            budget.as_secs_f64() / period.as_secs_f64()
        });
        queue.rate = Rate::per_second(load * bandwidth / queue.utilisation()).unwrap();
        let prediction = predict(&queue, &SharpPoints::default()).unwrap();
        let (mean, far) = (
            prediction.mean().unwrap(),
            prediction.overall.quantile(nine_nines).unwrap(),
        );
        let (highest_mean, farthest) = (mean.high.unwrap(), far.high.unwrap());
        assert!(
            mean.low <= highest_mean && far.low <= farthest,
            "{server:?} {load}"
        );
        // The tail falls by at least e in the time that 1 / (1 - load) jobs take.
        let slow = Duration::from_secs_f64_nearest(40.0 * 2.4e-3 / bandwidth / (1.0 - load));
        assert!(
            highest_mean < slow && farthest < slow,
            "{server:?} {load}: {mean:?} {far:?}"
        );
        assert!(far.low > mean.low, "{server:?} {load}: {mean:?} {far:?}");
    }
}

/// Batches on servers that follow the arrivals: on a common divisor of budget and execution times proved to half a
/// percent, and otherwise as the server's rounding is.
#[test]
fn batches_on_servers_that_follow_the_arrivals_are_answered() {
    for kind in [ServerKind::ConstantBandwidth, ServerKind::Polling] {
        for (unit, period_ns, is_proved) in [
            (1_000_000, 10_000_000, true),
            (1_000_003, 9_876_543, kind == ServerKind::ConstantBandwidth),
        ] {
            let queue = PoissonQueue {
                rate: Rate::per_second(60.0).unwrap(),
                execution_times: vec![(ns(unit), 0.4), (ns(2 * unit), 0.6)],
                batches: vec![(1, 0.5), (2, 0.3), (5, 0.2)],
                server: kind.with(ns(4_000_000), ns(period_ns)),
            };
            let comparison = compare(&queue, (JOBS, 3), predict).unwrap();
            let wrong: Vec<String> = comparison.wrong().map(ToString::to_string).collect();
            assert!(wrong.is_empty(), "{queue:?}: {wrong:#?}");
            assert_eq!(comparison.is_bound(), is_proved, "{queue:?}");
            let width = comparison.width();
            assert!(
                width < if is_proved { 0.2 } else { 0.5 },
                "{queue:?}: {width}"
            );
        }
    }
}

/// Batches of jobs whose execution times have no common divisor go to the lattice.
#[test]
fn batches_without_a_common_divisor_are_bounded() {
    for server in [
        ReservationServer::Dedicated,
        ServerKind::Deferrable.with(ns(4_567_891), ns(9_876_543)),
        ServerKind::Periodic.with(ns(4_567_891), ns(9_876_543)),
    ] {
        let queue = PoissonQueue {
            rate: Rate::per_second(60.0).unwrap(),
            execution_times: vec![(ns(1_234_567), 0.4), (ns(2_345_678), 0.6)],
            batches: vec![(1, 0.5), (2, 0.3), (5, 0.2)],
            server,
        };
        let comparison = compare(&queue, (JOBS, 3), predict).unwrap();
        let wrong: Vec<String> = comparison.wrong().map(ToString::to_string).collect();
        assert!(
            comparison.is_bound() && wrong.is_empty(),
            "{server:?}: {wrong:#?}"
        );
    }
}
