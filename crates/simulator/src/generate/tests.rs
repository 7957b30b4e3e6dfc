#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use tailbound_model::{Scheduling, check, to_toml};

use super::*;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn recipe(utilisation: f64, utilisations: Utilisations) -> Recipe {
    Recipe {
        utilisation,
        utilisations,
        periods: Periods::LogUniform {
            shortest: ms(1),
            longest: ms(1_000),
            granularity: Duration::from_nanos(1),
        },
        deadlines: Deadlines::Implicit,
        offsets: Offsets::Zero,
    }
}

fn uunifast(tasks: u32, most: f64) -> Utilisations {
    Utilisations::UUniFastDiscard { tasks, most }
}

fn fixed_sum(tasks: u32, least: f64, most: f64) -> Utilisations {
    Utilisations::RandFixedSum { tasks, least, most }
}

fn within(ranges: &[(f64, f64)]) -> Utilisations {
    let ranges = ranges.to_vec();
    Utilisations::WithinEach { ranges }
}

/// The share of draws of a sum of `terms` numbers, each uniform in [0, 1], that is at most `at`.
fn irwin_hall(terms: u32, at: f64) -> f64 {
    if terms == 0 {
        return f64::from(u8::from(at >= 0.0));
    }
    let (mut sum, mut binomial, mut factorial) = (0.0, 1.0, 1.0);
    for k in 0..=terms {
        if at > f64::from(k) {
            let sign = if k % 2 == 0 { 1.0 } else { -1.0 };
            sum += sign * binomial * (at - f64::from(k)).powi(terms as i32);
        }
        binomial *= f64::from(terms - k) / f64::from(k + 1);
        factorial *= f64::from(k.max(1));
    }
    sum / factorial
}

/// The law of one of `tasks` numbers in [0, 1] that are uniform among those with this sum.
fn marginal(tasks: u32, sum: f64, at: f64) -> f64 {
    let others = tasks - 1;
    let below = |at: f64| irwin_hall(others, sum) - irwin_hall(others, sum - at);
    below(at) / below(1.0)
}

/// Kolmogorov and Smirnov's statistic: the greatest distance of the samples' distribution function
/// from `law`, times the root of their number.
fn distance(mut samples: Vec<f64>, law: impl Fn(f64) -> f64) -> f64 {
    samples.sort_by(f64::total_cmp);
    let count = samples.len() as f64;
    let gaps = samples.iter().enumerate().map(|(index, sample)| {
        let expected = law(*sample);
        let (before, after) = (index as f64 / count, (index + 1) as f64 / count);
        (expected - before).abs().max((after - expected).abs())
    });
    gaps.fold(0.0, f64::max) * count.sqrt()
}

/// The distance that one in a thousand right samplers exceeds. Seeds are fixed, so each test has one
/// outcome for ever.
const ONE_IN_A_THOUSAND: f64 = 1.95;

/// One coordinate of each of 20,000 sets.
fn coordinates(recipe: &Recipe, index: usize) -> Vec<f64> {
    let one = |number| task_set(recipe, 11, number).unwrap()[index].utilisation;
    (0..20_000).map(one).collect()
}

#[test]
fn every_utilisation_of_uunifast_has_the_law_of_a_uniform_division() {
    for index in [0, 2, 4] {
        let samples = coordinates(&recipe(0.7, uunifast(5, 1.0)), index);
        // Beta(1, n - 1), scaled to the sum.
        let law = |at: f64| 1.0 - (1.0 - at / 0.7).powi(4);
        let apart = distance(samples, law);
        assert!(apart < ONE_IN_A_THOUSAND, "task {index}: {apart}");
    }
}

#[test]
fn every_utilisation_of_discarded_sets_has_the_law_within_the_bound() {
    for index in [0, 3] {
        let samples = coordinates(&recipe(2.2, uunifast(4, 1.0)), index);
        let apart = distance(samples, |at| marginal(4, 2.2, at));
        assert!(apart < ONE_IN_A_THOUSAND, "task {index}: {apart}");
    }
}

#[test]
fn every_utilisation_of_rand_fixed_sum_has_the_law_within_the_bounds() {
    for (tasks, total, least, most) in [
        (2, 0.9, 0.0, 1.0),
        (4, 2.2, 0.0, 1.0),
        (5, 1.0, 0.1, 0.5),
        (7, 2.9, 0.2, 0.6),
    ] {
        let width = most - least;
        let sum = (total - f64::from(tasks) * least) / width;
        for index in [0, tasks as usize - 1] {
            let samples = coordinates(&recipe(total, fixed_sum(tasks, least, most)), index);
            let apart = distance(samples, |at| marginal(tasks, sum, (at - least) / width));
            assert!(
                apart < ONE_IN_A_THOUSAND,
                "{tasks} tasks, task {index}: {apart}"
            );
        }
    }
}

/// The volume of the points of the box of these widths whose sum is at most `at`, by inclusion and
/// exclusion of the corners.
fn volume_below(widths: &[f64], at: f64) -> f64 {
    let count = widths.len();
    let mut volume = 0.0;
    for corner in 0..1_u32 << count {
        let over = (0..count).filter(|index| corner >> index & 1 == 1);
        let beyond = at - over.map(|index| widths[index]).sum::<f64>();
        let sign = if corner.count_ones() % 2 == 0 {
            1.0
        } else {
            -1.0
        };
        volume += sign * beyond.max(0.0).powi(count as i32);
    }
    (1..=count).fold(volume, |volume, factor| volume / factor as f64)
}

/// Every task's utilisation has the law that follows from volumes; bounds differ by a factor of 20,
/// and sums lie in the middle and near both ends.
#[test]
fn every_utilisation_within_its_own_range_has_its_law() {
    let ranges = [(0.0, 0.9), (0.1, 0.15), (0.0, 0.4), (0.2, 0.9), (0.0, 0.08)];
    let least: f64 = ranges.iter().map(|range| range.0).sum();
    for total in [0.36, 0.9, 1.4, 2.35] {
        let law = within(&ranges);
        for (index, (low, high)) in ranges.into_iter().enumerate() {
            let others = ranges
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != index);
            let others: Vec<f64> = others.map(|(_, (low, high))| high - low).collect();
            let below = |at: f64| {
                let sum = total - least;
                volume_below(&others, sum) - volume_below(&others, sum - at)
            };
            let samples = coordinates(&recipe(total, law.clone()), index);
            let apart = distance(samples, |at| below(at - low) / below(high - low));
            assert!(
                apart < ONE_IN_A_THOUSAND,
                "task {index} of {total}: {apart}"
            );
        }
    }
}

/// More than each coordinate alone: how close the fullest task is to its bound is distributed as in
/// draws from the whole box of which those with the sum are kept.
#[test]
fn sets_within_ranges_are_uniform_together() {
    let widths = [0.9, 0.3, 0.5];
    let ranges = widths.iter().map(|width| (0.0, *width)).collect();
    let recipe = recipe(0.8, Utilisations::WithinEach { ranges });
    let fullest = |point: &[f64]| {
        let shares = point.iter().zip(widths).map(|(at, width)| at / width);
        shares.fold(0.0, f64::max)
    };
    let drawn = (0..20_000).map(|number| {
        let set = task_set(&recipe, 11, number).unwrap();
        fullest(&set.iter().map(|task| task.utilisation).collect::<Vec<_>>())
    });
    // Two coordinates anywhere; the third is what is left.
    let grid = 1_000;
    let mut kept = Vec::new();
    for (one, other) in (0..grid * grid).map(|at| (at % grid, at / grid)) {
        let share = |at: i32| (f64::from(at) + 0.5) / f64::from(grid);
        let (first, second) = (share(one) * widths[0], share(other) * widths[1]);
        let third = 0.8 - first - second;
        if (0.0..=widths[2]).contains(&third) {
            kept.push(fullest(&[first, second, third]));
        }
    }
    kept.sort_by(f64::total_cmp);
    let law = |at: f64| kept.partition_point(|one| *one <= at) as f64 / kept.len() as f64;
    let apart = distance(drawn.collect(), law);
    assert!(apart < ONE_IN_A_THOUSAND, "{apart}");
}

/// A law that is off by one task is told apart: the tests above can fail.
#[test]
fn the_law_of_another_number_of_tasks_is_far_away() {
    let samples = coordinates(&recipe(2.2, fixed_sum(4, 0.0, 1.0)), 0);
    assert!(distance(samples, |at| marginal(5, 2.2, at)) > 5.0 * ONE_IN_A_THOUSAND);
}

#[test]
fn sums_of_nothing_and_of_everything_have_one_division() {
    let full = task_set(&recipe(3.0, fixed_sum(3, 0.0, 1.0)), 1, 0).unwrap();
    assert!(full.iter().all(|task| task.utilisation == 1.0));
    let ends = within(&[(0.1, 0.2), (0.0, 0.5)]);
    for (total, expected) in [(0.1, [0.1, 0.0]), (0.7, [0.2, 0.5])] {
        let set = task_set(&recipe(total, ends.clone()), 1, 0).unwrap();
        assert_eq!([set[0].utilisation, set[1].utilisation], expected);
    }
    let least = task_set(&recipe(0.3, fixed_sum(3, 0.1, 0.5)), 1, 0).unwrap();
    assert!(
        least
            .iter()
            .all(|task| (task.utilisation - 0.1).abs() < 1e-12)
    );
}

#[test]
fn log_uniform_periods_have_a_uniform_logarithm() {
    let one = |number| {
        let recipe = recipe(0.5, uunifast(3, 1.0));
        task_set(&recipe, 7, number).unwrap()[1].period.as_nanos() as f64
    };
    let law = |at: f64| (at / 1e6).ln() / 1_000_f64.ln();
    let apart = distance((0..20_000).map(one).collect(), law);
    assert!(apart < ONE_IN_A_THOUSAND, "{apart}");
}

/// Every choice is as likely: Pearson's statistic of 8,000 draws.
#[test]
fn chosen_periods_are_equally_likely() {
    let harmonic = Periods::Harmonic {
        shortest: ms(10),
        longest: ms(1_280),
        factor: 2,
    };
    let divisors = Periods::DivisorsOf {
        hyperperiod: ms(100),
        shortest: ms(10),
        longest: ms(100),
    };
    // 8 and 6 choices: 7 and 5 degrees of freedom; exceeded once in a thousand.
    for (periods, choices, limit) in [(harmonic, 8, 24.3), (divisors, 6, 20.5)] {
        let mut counts = std::collections::BTreeMap::new();
        for number in 0..8_000 {
            let one = Recipe {
                periods: periods.clone(),
                ..recipe(0.5, uunifast(1, 1.0))
            };
            let period = task_set(&one, 3, number).unwrap()[0].period;
            *counts.entry(period).or_insert(0.0) += 1.0;
        }
        let expected = 8_000.0 / counts.len() as f64;
        let statistic: f64 = counts
            .values()
            .map(|n: &f64| (n - expected).powi(2) / expected)
            .sum();
        assert!(counts.len() == choices && statistic < limit, "{statistic}");
    }
}

/// The thesis's law: a third of the tasks is heavy, but for the trimmed last ones.
#[test]
fn bimodal_utilisations_have_two_humps() {
    let law = recipe(0.9, Utilisations::Bimodal(Bimodal::MEDIUM));
    let first: Vec<f64> = (0..20_000)
        .map(|number| task_set(&law, 5, number).unwrap()[0].utilisation)
        .collect();
    // The first task is never trimmed, since no draw is above the sum.
    let apart = distance(first, |at| match at {
        light if light < 0.5 => 2.0 / 3.0 * (light - 0.0001) / 0.4999,
        heavy => 2.0 / 3.0 + (heavy - 0.5) / 0.4 / 3.0,
    });
    assert!(apart < ONE_IN_A_THOUSAND, "{apart}");
}

#[test]
fn deadlines_and_offsets_keep_their_ranges() {
    let base = recipe(0.9, uunifast(4, 1.0));
    let with = |deadlines, offsets| {
        let recipe = Recipe {
            deadlines,
            offsets,
            ..base.clone()
        };
        (0..500).flat_map(move |number| task_set(&recipe, 2, number).unwrap())
    };
    assert!(
        with(Deadlines::Implicit, Offsets::Zero)
            .all(|task| task.deadline == task.period && task.offset.is_zero())
    );
    assert!(with(Deadlines::Constrained, Offsets::Uniform).all(|task| {
        (task.execution..=task.period).contains(&task.deadline) && task.offset < task.period
    }));
    let arbitrary = Deadlines::Arbitrary { most_periods: 4 };
    let longer = with(arbitrary, Offsets::Zero)
        .inspect(|task| assert!((task.execution..=task.period * 4).contains(&task.deadline)))
        .filter(|task| task.deadline > task.period)
        .count();
    // Three quarters of the range lie beyond the period, nearly.
    assert!((1_400..1_700).contains(&longer), "{longer}");
}

#[test]
fn another_law_of_periods_leaves_the_utilisations() {
    let base = recipe(0.7, uunifast(6, 1.0));
    let other = Recipe {
        periods: "harmonic:10ms..1280ms".parse().unwrap(),
        offsets: Offsets::Uniform,
        ..base.clone()
    };
    let utilisations = |recipe: &Recipe| -> Vec<f64> {
        let set = task_set(recipe, 9, 4).unwrap();
        set.iter().map(|task| task.utilisation).collect()
    };
    assert_eq!(utilisations(&base), utilisations(&other));
    assert_ne!(task_set(&base, 9, 4), task_set(&base, 9, 5));
    assert_ne!(task_set(&base, 9, 4), task_set(&base, 10, 4));
}

#[test]
fn what_cannot_be_is_refused_with_a_remedy() {
    let refused = |recipe: &Recipe| task_set(recipe, 1, 0).unwrap_err().to_string();
    for (utilisation, law, words) in [
        (0.5, uunifast(0, 1.0), "from 1 to 1000"),
        (0.5, uunifast(1_001, 1.0), "from 1 to 1000"),
        (f64::NAN, uunifast(3, 1.0), "above 0"),
        (-0.5, fixed_sum(3, 0.0, 1.0), "above 0"),
        (0.5, fixed_sum(3, 0.4, 0.2), "the smaller number first"),
        (0.5, fixed_sum(3, 0.2, 0.4), "from 0.6"),
        (3.5, uunifast(3, 1.0), "never 3.5"),
        (4.99, uunifast(5, 1.0), "rand-fixed-sum"),
        (0.5, within(&[(0.0, 0.2), (0.1, 0.2)]), "from 0.1 to 0.4"),
        (0.5, within(&[(0.4, 0.2)]), "the smaller number first"),
        (0.5, within(&[]), "from 1 to 1000"),
    ] {
        let refusal = refused(&recipe(utilisation, law));
        assert!(refusal.contains(words), "{refusal}");
    }
    let with = |periods: &str| Recipe {
        periods: periods.parse().unwrap(),
        ..recipe(0.5, uunifast(2, 1.0))
    };
    for (periods, words) in [
        ("log-uniform:1s..1ms", "the shorter one"),
        ("log-uniform:0ns..1ms", "above zero"),
        ("log-uniform:1500us..9ms,1ms", "such a multiple"),
        ("harmonic:1ms..9ms,1", "at least 2"),
        ("divisors-of:1s,600ms..900ms", "widen the range"),
        ("divisors-of:0s,1ms..2ms", "within"),
        ("divisors-of:99999s,1ms..2ms", "within"),
    ] {
        let refusal = refused(&with(periods));
        assert!(refusal.contains(words), "{refusal}");
    }
    let none = Recipe {
        deadlines: Deadlines::Arbitrary { most_periods: 0 },
        ..recipe(0.5, uunifast(2, 1.0))
    };
    assert!(refused(&none).contains("at least 1 period"));
}

fn frame(scheduling: Scheduling, reservation: Option<(Duration, Duration)>) -> Frame {
    Frame {
        name: "set-1".into(),
        about: "Generated.".into(),
        scheduling,
        reservation,
    }
}

#[test]
fn fixed_priorities_do_not_follow_from_a_set() {
    let recipe = recipe(0.5, uunifast(2, 1.0));
    let refusal = description(&recipe, 1, 0, &frame(Scheduling::FixedPriority, None));
    assert!(matches!(refusal, Err(GenerateError::NotDescribed { .. })));
}

#[test]
fn names_of_tasks_are_in_the_order_of_the_tasks() {
    let names: Vec<String> = (0..120).map(|index| task_name(index, 120)).collect();
    assert!(names.is_sorted());
    assert_eq!(task_name(0, 9), "t1");
    assert_eq!(task_name(9, 10), "t10");
}

fn law() -> impl Strategy<Value = Utilisations> {
    prop_oneof![
        (1..40_u32).prop_map(|tasks| uunifast(tasks, 1.0)),
        (1..200_u32, 0.0..0.3_f64, 0.7..1.0_f64)
            .prop_map(|(tasks, least, most)| fixed_sum(tasks, least, most)),
        prop::collection::vec((0.0..0.3_f64, 0.3001..1.0_f64), 1..300)
            .prop_map(|ranges| Utilisations::WithinEach { ranges }),
        Just(Utilisations::Bimodal(Bimodal::LIGHT)),
        Just(Utilisations::Bimodal(Bimodal::HEAVY)),
    ]
}

/// A sum in the middle of what the law can have.
fn middle(law: &Utilisations, share: f64) -> f64 {
    match law {
        Utilisations::UUniFastDiscard { tasks, .. } => share * (f64::from(*tasks) / 4.0).max(0.9),
        Utilisations::RandFixedSum { tasks, least, most } => {
            f64::from(*tasks) * (least + share * (most - least))
        }
        Utilisations::WithinEach { ranges } => {
            let each = ranges.iter();
            each.map(|(least, most)| least + share * (most - least))
                .sum()
        }
        Utilisations::Bimodal(_) => 3.0 * share,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn sums_and_bounds_hold(law in law(), share in 0.01..0.99_f64, seed: u64, number: u32) {
        let total = middle(&law, share);
        let recipe = recipe(total, law.clone());
        let set = task_set(&recipe, seed, number).unwrap();
        prop_assert_eq!(&set, &task_set(&recipe, seed, number).unwrap());
        let drawn: f64 = set.iter().map(|task| task.utilisation).sum();
        prop_assert!((drawn - total).abs() < 1e-9 * total.max(1.0), "{} {}", drawn, total);
        let (mut exact, mut room) = (0.0, 0.0);
        if let Utilisations::WithinEach { ranges } = &law {
            for (task, (least, most)) in set.iter().zip(ranges) {
                prop_assert!((*least..=*most).contains(&task.utilisation));
            }
        }
        for task in &set {
            prop_assert!(task.execution >= Duration::from_nanos(1) && task.execution <= task.period);
            prop_assert!((ms(1)..=ms(1_000)).contains(&task.period));
            exact += task.execution.as_nanos() as f64 / task.period.as_nanos() as f64;
            room += 1.0 / task.period.as_nanos() as f64;
            if let Utilisations::RandFixedSum { least, most, .. } = law {
                prop_assert!((least..=most).contains(&task.utilisation));
            }
        }
        // Each execution time is less than 1 ns off.
        prop_assert!((exact - total).abs() <= room + 1e-9 * total.max(1.0));
    }

    #[test]
    fn descriptions_are_read_back(law in law(), share in 0.01..0.99_f64, seed in 0..u64::MAX / 2) {
        let recipe = recipe(middle(&law, share), law);
        let reservation = Some((ms(4), ms(10)));
        for frame in [
            frame(Scheduling::RateMonotonic, None),
            frame(Scheduling::EarliestDeadlineFirst, reservation),
        ] {
            let made = description(&recipe, seed, 3, &frame).unwrap();
            let read = check(&to_toml(&made).unwrap(), "set.toml");
            prop_assert!(!read.problems.has_errors(), "{}", read.problems);
            prop_assert_eq!(read.description, Some(made));
        }
    }
}
