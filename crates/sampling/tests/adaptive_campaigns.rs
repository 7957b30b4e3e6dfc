//! Whole adaptive campaigns over applications that are a formula, against the full factorial.

use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_sampling::{
    AdaptiveDesign, PointFlag, PointRecord, PromiseOutcome, ResponseModel, SampleGrid,
    SampledVerdict, answers, measured_ratios, summaries, unconfirmed,
};
use tailbound_time::Duration;

use crate::sampled_application::{
    Application, LESS, TOLERANCE, adaptive, factorial, grid, is_as_good, measure, shares,
};

/// A queue on a reservation, as a formula: without a budget for the rest of the period, longer the nearer the demand is
/// to the share, and with a cost of each period that makes very short ones dear.
struct Formula {
    demand: f64,
    overhead_seconds: f64,
    limit_seconds: f64,
}

impl Formula {
    fn drawn(seed: u64) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut between = |low: f64, high: f64| {
            low + (high - low) * (random.next_u64() >> 11) as f64 / 2f64.powi(53)
        };
        Self {
            demand: between(0.15, 0.5),
            overhead_seconds: between(0.0, 8e-4),
            limit_seconds: between(0.06, 0.3),
        }
    }
}

impl Application for Formula {
    fn quantile(&self, grid: &SampleGrid, point: usize, measurement: u64) -> f64 {
        let share = grid.share(point).unwrap() / 100.0;
        let period = grid.period(point).unwrap().as_secs_f64();
        let left = share - self.overhead_seconds / period - self.demand;
        let noise = 1.0 + 0.04 * centred(measurement, point);
        match left > 0.0 {
            true => noise * (2.0 * (1.0 - share) * period + 0.02 / left),
            false => 20.0 * noise,
        }
    }

    fn limit(&self) -> f64 {
        self.limit_seconds
    }

    fn half_width(&self) -> f64 {
        0.05
    }
}

/// A value between -1 and 1 that follows from a measurement and a point.
fn centred(measurement: u64, point: usize) -> f64 {
    let mut random = ChaCha8Rng::seed_from_u64(measurement.wrapping_mul(31) ^ point as u64);
    (random.next_u64() >> 11) as f64 / 2f64.powi(52) - 1.0
}

#[test]
fn an_eighth_of_the_points_suffices_over_many_formulas() {
    let grid = grid(&["share=20..90/5", "period=10ms..120ms/10ms"]);
    let most = grid.len() / LESS;
    let (mut good, mut used, mut open) = (0, 0, 0);
    let seeds = 40;
    for seed in 0..seeds {
        let application = Formula::drawn(seed);
        let best = factorial(&application, &grid, seed);
        let (records, is_settled) = adaptive(&application, &grid, seed, most);
        good += u32::from(is_as_good(&shares(&grid, &records), &best));
        used += records.len();
        open += u32::from(!is_settled);
    }
    eprintln!("{good} of {seeds} within {TOLERANCE} points, {used} measurements, {open} open");
    assert!(good >= 38, "{good} of {seeds}");
    assert!(used <= seeds as usize * most);
}

/// Several conditions share what one of them shows: the points are an eighth of all conditions' together.
#[test]
fn conditions_learn_from_each_other() {
    struct Users;
    impl Application for Users {
        fn quantile(&self, grid: &SampleGrid, point: usize, measurement: u64) -> f64 {
            let users: f64 = grid.values(point)[0].parse().unwrap();
            let formula = Formula {
                demand: users / 200.0,
                overhead_seconds: 3e-4,
                limit_seconds: 0.15,
            };
            formula.quantile(grid, point, measurement)
        }
        fn limit(&self) -> f64 {
            0.15
        }
        fn half_width(&self) -> f64 {
            0.05
        }
    }
    let grid = grid(&[
        "services.web.users.count=30,60,90",
        "share=20..90/5",
        "period=10ms..90ms/10ms",
    ]);
    let best = factorial(&Users, &grid, 1);
    assert!(best.iter().all(Option::is_some), "{best:?}");
    for seed in 0..4 {
        let (records, _) = adaptive(&Users, &grid, seed, grid.len() / LESS);
        let own = shares(&grid, &records);
        assert!(is_as_good(&own, &best), "{own:?} for {best:?}");
    }
}

#[test]
fn an_unreachable_promise_is_measured_at_the_highest_share() {
    let application = Formula {
        demand: 0.95,
        overhead_seconds: 0.0,
        limit_seconds: 0.1,
    };
    let grid = grid(&["share=20..90/10", "period=10ms..50ms/10ms"]);
    let (records, is_settled) = adaptive(&application, &grid, 3, grid.len());
    assert!(is_settled);
    let all = answers(&grid, &records, None, TOLERANCE);
    assert_eq!(all[0].verdict, SampledVerdict::Unreachable);
    assert!(
        records.len() < grid.len() / 2,
        "{} of {}",
        records.len(),
        grid.len()
    );
    // Fewer measurements leave the question open.
    let first = answers(&grid, &records[..3], None, TOLERANCE);
    assert_eq!(first[0].verdict, SampledVerdict::NotFound);
}

/// A campaign that was cut off goes on as it would have: the choice follows from the records alone.
#[test]
fn the_next_point_follows_from_the_records() {
    let grid = grid(&["share=20..90/10", "period=10ms..50ms/10ms"]);
    let application = Formula::drawn(5);
    let (records, _) = adaptive(&application, &grid, 5, 12);
    let (again, _) = adaptive(&application, &grid, 5, 12);
    assert_eq!(records, again);
}

/// Points that have no result are tried again, and then left alone.
#[test]
fn failures_do_not_hold_up_a_campaign() {
    let grid = grid(&["share=20..90/10", "period=10ms,20ms"]);
    let design = AdaptiveDesign {
        grid: grid.clone(),
        confidence: 0.95,
        tolerance: TOLERANCE,
        repeats: 1,
        control_distance: 0,
        seed: 1,
    };
    let application = Formula::drawn(1);
    let mut records: Vec<PointRecord> = Vec::new();
    while let Some(turn) = design.next(&records) {
        let mut record = measure(&application, &grid, turn.point, 1);
        if grid.period(turn.point) == Some(Duration::from_millis(20)) {
            record.flags.insert(PointFlag::Failed);
        }
        records.push(record);
        assert!(records.len() <= 3 * grid.len());
    }
    let failed = summaries(&grid, &records);
    assert!(failed.iter().all(|summary| summary.failures <= 2));
}

#[test]
fn the_models_intervals_cover_points_of_an_application_that_were_held_out() {
    let grid = grid(&["share=30..90/5", "period=10ms..120ms/10ms"]);
    let (mut covered, mut all) = (0, 0);
    for seed in 0..12 {
        let application = Formula {
            demand: 0.2,
            ..Formula::drawn(seed)
        };
        let records: Vec<PointRecord> = (0..grid.len())
            .map(|point| measure(&application, &grid, point, seed))
            .collect();
        let (fitted, rest): (Vec<_>, Vec<_>) =
            (0..grid.len()).partition(|point| (point * 7 + 3) % 5 < 2);
        let own: Vec<PointRecord> = fitted.iter().map(|point| records[*point].clone()).collect();
        let model =
            ResponseModel::fit(&measured_ratios(&grid, &summaries(&grid, &own)), 0.9).unwrap();
        for point in rest {
            let predicted = model.predict(&grid.place(point));
            let ratio = records[point].log_ratio();
            covered += u32::from(predicted.low <= ratio && ratio <= predicted.high);
            all += 1;
        }
    }
    let share = f64::from(covered) / f64::from(all);
    assert!((0.85..=0.95).contains(&share), "{share} of {all}");
}

/// The cheapest of many points had luck, which a second measurement shows; then the next cheapest is the answer.
#[test]
fn an_answer_is_measured_again_before_it_counts() {
    struct OnceLucky;
    impl Application for OnceLucky {
        fn quantile(&self, grid: &SampleGrid, point: usize, measurement: u64) -> f64 {
            let share = grid.share(point).unwrap();
            let is_lucky = share > 30.0 && measurement == 0;
            if share > 50.0 || is_lucky { 0.05 } else { 0.2 }
        }
        fn limit(&self) -> f64 {
            0.1
        }
        fn half_width(&self) -> f64 {
            0.05
        }
    }
    let grid = grid(&["share=20..90/20", "period=10ms,20ms"]);
    let mut records: Vec<PointRecord> = (0..grid.len())
        .map(|point| measure(&OnceLucky, &grid, point, 0))
        .collect();
    assert!(unconfirmed(&grid, &records, 0).is_empty());
    let mut again = Vec::new();
    while let [turn] = unconfirmed(&grid, &records, 1)[..] {
        again.push(grid.share(turn.point).unwrap());
        records.push(measure(&OnceLucky, &grid, turn.point, 1));
    }
    // Both periods at 40% had luck; at 60% the first that is measured again is the answer.
    assert_eq!(again, [40.0, 40.0, 60.0]);
    let verdict = answers(&grid, &records, None, TOLERANCE)[0].verdict;
    assert!(
        matches!(verdict, SampledVerdict::Cheapest { point, measured: 2, .. } if grid.share(point) == Some(60.0)),
        "{verdict:?}"
    );
}

#[test]
fn outcomes_of_repeats_that_contradict_each_other_decide_nothing() {
    let grid = grid(&["share=20..90/10"]);
    let application = |limit_seconds| Formula {
        demand: 0.1,
        overhead_seconds: 0.0,
        limit_seconds,
    };
    struct OnePeriod(Formula);
    impl Application for OnePeriod {
        fn quantile(&self, _: &SampleGrid, _: usize, _: u64) -> f64 {
            0.1
        }
        fn limit(&self) -> f64 {
            self.0.limit_seconds
        }
        fn half_width(&self) -> f64 {
            0.05
        }
    }
    let kept = measure(&OnePeriod(application(0.2)), &grid, 0, 1);
    let broken = measure(&OnePeriod(application(0.05)), &grid, 0, 1);
    let both = summaries(&grid, &[kept.clone(), broken]);
    assert_eq!(both[0].outcome(), Some(PromiseOutcome::Undecided));
    let twice = summaries(&grid, &[kept.clone(), kept]);
    assert_eq!(twice[0].outcome(), Some(PromiseOutcome::Kept));
    assert_eq!(twice[1].outcome(), None);
}
