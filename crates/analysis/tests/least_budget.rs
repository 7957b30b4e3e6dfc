//! The least budget per period against the definition: slot by slot, over all windows.

use proptest::prelude::*;
use tailbound_analysis::{AnalysisError, PeriodicLoad, PeriodicTask, bandwidth_curve};
use tailbound_time::Duration;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// Tasks (A, C, T) in nanoseconds; without A they are sporadic.
fn load(tasks: &[(Option<u64>, u64, u64)]) -> PeriodicLoad {
    let task = |&(offset, execution, period): &(Option<u64>, u64, u64)| PeriodicTask {
        offset: offset.map(ns),
        execution: ns(execution),
        period: ns(period),
    };
    PeriodicLoad {
        tasks: tasks.iter().map(task).collect(),
    }
}

/// S(0), S(1), ... with the given releases (time, work).
fn supply(releases: &[(u64, u64)], until: u64) -> Vec<u64> {
    let mut arriving = vec![0; until as usize + 1];
    for (at, work) in releases.iter().filter(|(at, _)| *at <= until) {
        arriving[*at as usize] += work;
    }
    let (mut pending, mut supply) = (0, vec![0]);
    for at in 0..until {
        pending += arriving[at as usize];
        let step = u64::from(pending > 0);
        pending -= step;
        supply.push(supply[at as usize] + step);
    }
    supply
}

fn periodic_releases(tasks: &[(Option<u64>, u64, u64)], until: u64) -> Vec<(u64, u64)> {
    let stream = |&(offset, execution, period): &(Option<u64>, u64, u64)| {
        let first = offset.unwrap_or(0);
        (first..=until)
            .step_by(period as usize)
            .map(move |at| (at, execution))
    };
    tasks.iter().flat_map(stream).collect()
}

fn most_in(supply: &[u64], window: usize) -> u64 {
    let last = supply.len() - window;
    (0..last)
        .map(|t| supply[t + window] - supply[t])
        .max()
        .unwrap()
}

fn small_tasks(sporadic: bool) -> impl Strategy<Value = Vec<(Option<u64>, u64, u64)>> {
    let period = prop::sample::select(vec![3_u64, 4, 5, 6, 8, 10, 12, 15]);
    let one =
        (0_u64..25, 1_u64..5, period, 0_u8..3).prop_map(move |(offset, work, period, kind)| {
            ((!sporadic || kind > 0).then_some(offset), work, period)
        });
    proptest::collection::vec(one, 1..5)
}

/// The utilisation in 120ths, which all periods above divide.
fn load_120(tasks: &[(Option<u64>, u64, u64)]) -> u64 {
    tasks
        .iter()
        .map(|(_, work, period)| work * (120 / period))
        .sum()
}

/// The load with all tasks sporadic, whose budgets suffice whatever the offsets are.
fn at_any_offsets(load: &PeriodicLoad) -> PeriodicLoad {
    let mut sporadic = load.clone();
    sporadic
        .tasks
        .iter_mut()
        .for_each(|task| task.offset = None);
    sporadic
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn periodic_tasks_need_the_maximum_over_every_window(tasks in small_tasks(false)) {
        prop_assume!(load_120(&tasks) <= 120);
        let load = load(&tasks);
        let horizon = 25 + 3 * 120 + 260;
        let supply = supply(&periodic_releases(&tasks, horizon), horizon);
        for window in (0..40).chain([59, 60, 61, 119, 120, 121, 177, 240, 259]) {
            prop_assert_eq!(
                load.least_budget(ns(window)).unwrap().as_nanos(),
                most_in(&supply, window as usize),
                "{}", window
            );
        }
        for at in 0..horizon {
            prop_assert_eq!(load.supplied(ns(at)).unwrap().as_nanos(), supply[at as usize]);
            let demand: u64 = periodic_releases(&tasks, at).iter().map(|(_, work)| work).sum();
            prop_assert_eq!(load.demanded(ns(at)).unwrap().as_nanos(), demand);
        }
    }

    #[test]
    fn sporadic_tasks_need_no_more_and_no_less(
        tasks in small_tasks(true), gaps in proptest::collection::vec(0_u64..7, 200),
    ) {
        prop_assume!(load_120(&tasks) <= 120);
        let load = load(&tasks);
        let horizon = 700;
        // Never more, with arbitrary gaps ...
        let mut gaps = gaps.iter().cycle();
        let mut releases = Vec::new();
        for task @ (offset, work, period) in &tasks {
            if offset.is_some() {
                releases.extend(periodic_releases(&[*task], horizon));
                continue;
            }
            let mut at = *gaps.next().unwrap();
            while at <= horizon {
                releases.push((at, *work));
                at += period + gaps.next().unwrap();
            }
        }
        let arbitrary = supply(&releases, horizon);
        // ... and just as much with all sporadic tasks from the worst time on.
        let worst: Vec<Vec<u64>> = (0..150).map(|from| {
            let shifted: Vec<_> = tasks
                .iter()
                .map(|&(offset, work, period)| (Some(offset.unwrap_or(from)), work, period))
                .collect();
            supply(&periodic_releases(&shifted, horizon), horizon)
        }).collect();
        for window in [1_usize, 2, 5, 11, 12, 13, 30, 47, 60, 120, 121] {
            let least = load.least_budget(ns(window as u64)).unwrap().as_nanos();
            prop_assert!(most_in(&arbitrary, window) <= least);
            let most = worst.iter().map(|supply| most_in(supply, window)).max().unwrap();
            prop_assert_eq!(least, most, "{}", window);
            let any = at_any_offsets(&load).least_budget(ns(window as u64)).unwrap().as_nanos();
            prop_assert!(least <= any);
        }
    }

    #[test]
    fn no_period_needs_less_bandwidth_than_the_utilisation(
        tasks in proptest::collection::vec((0_u64..1_000, 1_u64..40, 30_u64..500), 1..8),
        sporadic in any::<bool>(), period in 1_u64..100_000,
    ) {
        let tasks: Vec<_> = tasks
            .iter()
            .map(|&(offset, work, period)| ((!sporadic).then_some(offset), work, period))
            .collect();
        let load = load(&tasks);
        prop_assume!(load.utilisation() < 0.98);
        let point = match bandwidth_curve(&load, [ns(period)]) {
            Ok(points) => points[0],
            // Too many combinations of offsets: a bracket, and no answer.
            Err(AnalysisError::NotAnalysed { .. }) => return Ok(()),
            Err(error) => panic!("{error}"),
        };
        let share = point.bandwidth().unwrap().as_f64();
        prop_assert!(share >= load.utilisation() * (1.0 - 1e-12));
        if let Ok((work, hyperperiod)) = load.work_per_hyperperiod() {
            match load.least_budget(hyperperiod) {
                Err(AnalysisError::NotAnalysed { .. }) => {}
                budget => prop_assert_eq!(budget.unwrap(), work),
            }
        }
    }
}

#[test]
fn a_hyperperiod_beyond_all_bounds_does_not_stop_the_least_budget() {
    // Twenty periods whose common multiple has over 150 digits.
    let tasks: Vec<_> = (0..20_u64)
        .map(|i| (Some(i * 1_000_003), 3_000_000 + i, 100_000_007 + 30_030 * i))
        .collect();
    let load = load(&tasks);
    let error = load.hyperperiod().unwrap_err();
    let AnalysisError::HyperperiodTooLong { hyperperiod, .. } = &error else {
        panic!("{error}");
    };
    let exponent: u32 = hyperperiod
        .split(['e', ' '])
        .nth(2)
        .unwrap()
        .parse()
        .unwrap();
    assert!((145..155).contains(&exponent), "{hyperperiod}");
    assert!(hyperperiod.contains("without the period"), "{hyperperiod}");
    let periods = (1..200).map(|i| ns(i * 7_777_777));
    let any = |period| at_any_offsets(&load).least_budget(period).unwrap();
    for point in bandwidth_curve(&load, periods).unwrap() {
        assert!(point.least_budget <= any(point.period));
        assert!(point.bandwidth().unwrap().as_f64() > load.utilisation());
    }
}

#[test]
fn a_utilisation_of_one_is_told_from_one_above_it_to_the_last_nanosecond() {
    let prime = 18_446_744_073_709_551_557;
    let whole = load(&[(Some(3), 1, prime), (Some(0), prime - 1, prime)]);
    assert_eq!(whole.least_budget(ns(17)).unwrap(), ns(17));
    let above = load(&[(Some(3), 1, prime - 1), (Some(0), prime - 1, prime)]);
    assert!(matches!(
        above.least_budget(ns(17)),
        Err(AnalysisError::Overloaded { .. })
    ));
    let below = load(&[(Some(3), 1, prime), (Some(0), prime - 2, prime - 1)]);
    assert_eq!(below.least_budget(ns(17)).unwrap(), ns(17));
}

#[test]
fn periods_of_zero_are_refused() {
    assert!(matches!(
        load(&[(None, 1, 0)]).least_budget(ns(5)),
        Err(AnalysisError::Invalid { .. })
    ));
    assert!(load(&[(None, 1, 0)]).hyperperiod().is_err());
    assert!(bandwidth_curve(&load(&[(None, 1, 2)]), [Duration::ZERO]).is_err());
}
