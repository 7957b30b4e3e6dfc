//! The rule: exact sums, bounds, and what one application can do to the others.

use proptest::prelude::*;
use tailbound_balance::{CapacityRule, CapacityTerms, MatchingValue, RuleError};
use tailbound_time::Duration;

const fn ms(milliseconds: u64) -> Duration {
    Duration::from_millis(milliseconds)
}

fn terms(count: usize) -> Vec<CapacityTerms> {
    let one = CapacityTerms {
        least: ms(1),
        promised: None,
        most: ms(100),
        weight: 1,
    };
    vec![one; count]
}

fn value(value: f64) -> Option<MatchingValue> {
    Some(MatchingValue::new(value).unwrap())
}

fn rule(terms: Vec<CapacityTerms>, gain: f64) -> CapacityRule {
    CapacityRule::new(ms(100), gain, Duration::ZERO, terms).unwrap()
}

fn repeat(rule: &mut CapacityRule, values: &[Option<MatchingValue>], steps: usize) -> Vec<u64> {
    for _ in 0..steps {
        rule.step(values);
    }
    in_ms(rule)
}

fn in_ms(rule: &CapacityRule) -> Vec<u64> {
    rule.capacities()
        .iter()
        .map(|one| (one.as_nanos() + 500_000) / 1_000_000)
        .collect()
}

/// Equation 3 by hand: 0.5 - 0.05 (0.9 - 0.5 * -0.1) = 0.4525, and 0.5 - 0.05 (-1 + 0.05) = 0.5475.
#[test]
fn a_step_is_that_of_the_published_rule() {
    let mut rule = rule(terms(2), 0.05);
    assert!(rule.step(&[value(0.9), value(-1.0)]));
    assert_eq!(
        rule.capacities(),
        [Duration::from_micros(45_250), Duration::from_micros(54_750)]
    );
}

/// By the gain alone the first would lose 19 ms.
#[test]
fn an_application_lends_a_quarter_of_what_it_has_to_spare() {
    let mut rule = rule(terms(2), 0.2);
    rule.step(&[value(0.9), value(-1.0)]);
    assert_eq!(rule.capacities()[0], Duration::from_micros(42_500));
    assert!(
        !rule.step(&[value(0.3), value(-1.0)]),
        "what is in reserve is not lent"
    );
}

#[test]
fn a_loan_is_back_after_one_step_in_full_need() {
    let mut rule = rule(terms(3), 0.2);
    repeat(&mut rule, &[value(0.9), value(0.9), value(-1.0)], 100);
    assert_eq!(in_ms(&rule), [1, 1, 98]);
    assert_eq!(
        repeat(&mut rule, &[value(0.0), value(-0.5), value(-1.0)], 1),
        [1, 22, 77]
    );
    assert_eq!(
        repeat(&mut rule, &[value(-1.0), value(-1.0), None], 1),
        [33, 33, 33]
    );
}

#[test]
fn surplus_goes_to_those_that_ask_and_else_to_nobody() {
    let mut rule = rule(terms(3), 0.2);
    assert_eq!(
        repeat(&mut rule, &[value(0.5), value(0.5), value(-0.5)], 200),
        [1, 1, 98]
    );
    let before = rule.capacities().to_vec();
    assert!(
        !rule.step(&[value(0.9), value(0.5), value(0.9)]),
        "nobody asks"
    );
    assert_eq!(rule.capacities(), before);
}

/// Equation 4 with the published claim of fairness: in an overload capacities become equal, or in proportion to weights.
#[test]
fn an_overload_ends_in_fair_shares() {
    let mut equal = rule(terms(4), 0.2);
    repeat(
        &mut equal,
        &[value(0.9), value(0.9), value(-0.5), value(-0.5)],
        100,
    );
    assert_eq!(in_ms(&equal), [1, 1, 49, 49]);
    assert_eq!(repeat(&mut equal, &[value(-0.5); 4], 100), [25, 25, 25, 25]);
    let mut weighted = terms(3);
    weighted[2].weight = 2;
    let mut weighted = rule(weighted, 0.2);
    assert_eq!(
        repeat(&mut weighted, &[value(-0.2), value(-0.9), value(0.9)], 500)[2],
        1
    );
    assert_eq!(
        repeat(&mut weighted, &[value(-0.2), value(-0.9), value(-0.5)], 500),
        [25, 25, 50]
    );
}

#[test]
fn bounds_and_promises_hold() {
    let mut bounded = terms(3);
    bounded[0].least = ms(20);
    bounded[1].promised = Some(ms(30));
    bounded[2].most = ms(40);
    let mut rule = rule(bounded, 0.2);
    assert_eq!(
        repeat(&mut rule, &[value(1.0), value(1.0), value(-1.0)], 100),
        [30, 30, 40]
    );
    assert_eq!(
        repeat(&mut rule, &[value(-1.0), value(1.0), value(1.0)], 100),
        [69, 30, 1]
    );
    let mut too_much = terms(2);
    too_much[0].promised = Some(ms(80));
    too_much[1].promised = Some(ms(60));
    let kept = super::rule::rule(too_much, 0.2);
    assert_eq!(
        in_ms(&kept),
        [60, 40],
        "promises that do not fit together are cut alike"
    );
}

#[test]
fn an_application_without_a_measurement_is_held() {
    let mut rule = rule(terms(3), 0.2);
    let held = rule.capacities()[0];
    for step in 0..50 {
        rule.step(&[None, value(1.0), value(-1.0)]);
        assert_eq!(rule.capacities()[0], held, "step {step}");
    }
    assert_eq!(in_ms(&rule), [33, 1, 66]);
    assert!(!rule.step(&[None, None, None]));
}

#[test]
fn small_moves_wait_for_the_hysteresis() {
    let mut rule = CapacityRule::new(ms(100), 0.2, ms(3), terms(2)).unwrap();
    let values = [value(1.0), value(-0.05)];
    assert!(!rule.step(&values));
    assert!(!rule.step(&values));
    assert_eq!(in_ms(&rule), [50, 50]);
    assert!(rule.step(&values));
    assert_eq!(in_ms(&rule), [47, 53]);
}

#[test]
fn what_is_beyond_all_mosts_stays_with_nobody() {
    let mut bounded = terms(2);
    bounded.iter_mut().for_each(|one| one.most = ms(30));
    let mut rule = rule(bounded, 0.2);
    assert_eq!(rule.whole(), ms(60));
    assert_eq!(repeat(&mut rule, &[value(-1.0), value(1.0)], 50), [30, 30]);
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    let refused =
        |gain, terms| CapacityRule::new(ms(100), gain, Duration::ZERO, terms).unwrap_err();
    assert!(matches!(
        refused(0.21, terms(5)),
        RuleError::Gain {
            applications: 5,
            ..
        }
    ));
    assert!(matches!(
        refused(f64::NAN, terms(2)),
        RuleError::Gain { .. }
    ));
    let mut greedy = terms(2);
    greedy.iter_mut().for_each(|one| one.least = ms(51));
    assert_eq!(
        refused(0.2, greedy),
        RuleError::Least {
            least: ms(102),
            whole: ms(100)
        }
    );
    let mut crossed = terms(2);
    crossed[0].least = ms(50);
    crossed[0].most = ms(40);
    assert_eq!(refused(0.2, crossed), RuleError::Terms);
}

prop_compose! {
    /// Two to twelve applications: least, room above it, promise, weight; and the place of the whole between the sums.
    fn applications()(
        each in prop::collection::vec((1_u64..20_000_000, 1_u64..200_000_000, prop::option::of(0_u64..60_000_000), 1_u32..20), 2..12),
        place in 0.0..1.0_f64,
        share_of_limit in 0.01..=1.0_f64,
    ) -> CapacityRule {
        let terms: Vec<CapacityTerms> = each.into_iter().map(|(least, room, promised, weight)| CapacityTerms {
            least: Duration::from_nanos(least),
            promised: promised.map(Duration::from_nanos),
            most: Duration::from_nanos(least + room),
            weight,
        }).collect();
        let least: u64 = terms.iter().map(|one| one.least.as_nanos()).sum();
        let most: u64 = terms.iter().map(|one| one.most.as_nanos()).sum();
        let whole = least + ((most - least) as f64 * place) as u64;
        let gain = share_of_limit / terms.len() as f64;
        CapacityRule::new(Duration::from_nanos(whole), gain, Duration::ZERO, terms).unwrap()
    }
}

fn measurement() -> impl Strategy<Value = Option<MatchingValue>> {
    prop::option::weighted(
        0.8,
        (-1.0..=1.0_f64).prop_map(|value| MatchingValue::new(value).unwrap()),
    )
}

/// Steps of up to twelve applications.
fn history() -> impl Strategy<Value = Vec<Vec<Option<MatchingValue>>>> {
    prop::collection::vec(prop::collection::vec(measurement(), 12), 1..40)
}

proptest! {
    #[test]
    fn sums_are_exact_and_bounds_kept_at_every_instant(mut rule in applications(), history in history()) {
        let terms = rule.terms().to_vec();
        for values in history {
            rule.step(&values[..terms.len()]);
            let sum: u64 = rule.capacities().iter().map(|one| one.as_nanos()).sum();
            prop_assert_eq!(sum, rule.whole().as_nanos());
            for (capacity, terms) in rule.capacities().iter().zip(&terms) {
                prop_assert!(terms.least <= *capacity && *capacity <= terms.most);
            }
        }
    }

    /// Whatever others have reported and report, an application in need loses nothing of its guarantee, and has the part of it
    /// back in one step that its need says: all of it at -1.
    #[test]
    fn need_calls_the_guarantee_back_in_one_step(mut rule in applications(), history in history(), victim in 0_usize..12, own in -1.0..=0.0_f64) {
        let victim = victim % rule.terms().len();
        let guaranteed: Vec<u64> = rule.guarantees().map(Duration::as_nanos).collect();
        prop_assert_eq!(guaranteed.iter().sum::<u64>(), rule.whole().as_nanos());
        for mut values in history {
            values.truncate(rule.terms().len());
            rule.step(&values);
            let before = rule.capacities()[victim].as_nanos();
            values[victim] = value(own);
            rule.step(&values);
            let due = guaranteed[victim].saturating_sub(before) as f64 * -own;
            let after = rule.capacities()[victim].as_nanos();
            prop_assert!(after as f64 >= before.min(guaranteed[victim]) as f64 + due * 0.999 - 1000.0, "{before} {after} of {}", guaranteed[victim]);
        }
    }

    /// However long one application lies, and whatever the lies are, it takes nothing from applications in full need but what
    /// is above their guarantees; and it never has more than its own guarantee beside such ones alone.
    #[test]
    fn a_liar_gets_its_guarantee_at_most_beside_those_in_need(mut rule in applications(), history in history(), liar in 0_usize..12) {
        let count = rule.terms().len();
        let liar = liar % count;
        let guaranteed: Vec<u64> = rule.guarantees().map(Duration::as_nanos).collect();
        for values in &history {
            rule.step(&values[..count]);
            let mut others = vec![value(-1.0); count];
            others[liar] = values[liar];
            let mut called = rule.clone();
            called.step(&others);
            for (one, guaranteed) in guaranteed.iter().enumerate() {
                let capacity = called.capacities()[one].as_nanos();
                prop_assert!(one == liar || capacity + 1000 >= *guaranteed, "{one}: {capacity} of {guaranteed}");
                prop_assert!(one != liar || capacity <= *guaranteed + 1000 * count as u64, "the liar: {capacity} of {guaranteed}");
            }
        }
    }

    /// The report of one application moves the others, in one step and all together, by no more than the fair share of
    /// that application among those that are measured, against the same step in which it reports zero.
    #[test]
    fn a_liar_moves_others_by_its_own_share_at_most(rule in applications(), history in history(), liar in 0_usize..12, lie in measurement()) {
        let mut rule = rule;
        let count = rule.terms().len();
        let liar = liar % count;
        for values in &history {
            rule.step(&values[..count]);
        }
        let mut values = history[0][..count].to_vec();
        values.iter_mut().for_each(|one| *one = one.or(value(0.0)));
        let (mut honest, mut lied) = (rule.clone(), rule.clone());
        values[liar] = value(0.0);
        honest.step(&values);
        values[liar] = lie.or(value(0.0));
        lied.step(&values);
        let weights: u64 = rule.terms().iter().map(|one| u64::from(one.weight)).sum();
        let own = u128::from(rule.whole().as_nanos()) * u128::from(rule.terms()[liar].weight) / u128::from(weights);
        for other in (0..count).filter(|other| *other != liar) {
            let moved = honest.capacities()[other].as_nanos().abs_diff(lied.capacities()[other].as_nanos());
            prop_assert!(u128::from(moved) <= own + 2 * count as u128, "{moved} of {own}");
        }
    }

    /// An application that is held changes nothing for the others: they divide the rest as if it were not there.
    #[test]
    fn a_silent_application_moves_nobody(history in history(), count in 3_usize..8) {
        let mut with = CapacityRule::new(ms(100), 0.1, Duration::ZERO, terms(count)).unwrap();
        let rest = Duration::from_nanos(100_000_000 - with.capacities()[0].as_nanos());
        let mut without = CapacityRule::new(rest, 0.1, Duration::ZERO, terms(count - 1)).unwrap();
        for values in history {
            let mut values = values[..count].to_vec();
            values[0] = None;
            with.step(&values);
            without.step(&values[1..]);
            for (one, other) in with.capacities()[1..].iter().zip(without.capacities()) {
                prop_assert!(one.as_nanos().abs_diff(other.as_nanos()) <= 100, "{one} {other}");
            }
        }
    }

    /// The order of the applications matters by less than a nanosecond for each of them, per step.
    #[test]
    fn the_order_of_applications_does_not_matter(rule in applications(), history in history()) {
        let count = rule.terms().len();
        let mut terms = rule.terms().to_vec();
        terms.reverse();
        let mut backwards = CapacityRule::new(rule.whole(), 0.5 / count as f64, Duration::ZERO, terms).unwrap();
        let mut forwards = CapacityRule::new(rule.whole(), 0.5 / count as f64, Duration::ZERO, rule.terms().to_vec()).unwrap();
        for (step, values) in history.iter().enumerate() {
            let mut values = values[..count].to_vec();
            forwards.step(&values);
            values.reverse();
            backwards.step(&values);
            for (one, other) in forwards.capacities().iter().zip(backwards.capacities().iter().rev()) {
                let most = 4 * (count * (step + 2)) as u64;
                prop_assert!(one.as_nanos().abs_diff(other.as_nanos()) <= most, "{one} {other}");
            }
        }
    }
}
