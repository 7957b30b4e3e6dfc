//! Triggers under a clock that the tests turn.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_model::Percent;

use super::*;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn at(count_ms: u64) -> Instant {
    Instant::from_nanos(count_ms * 1_000_000)
}

fn schedule(every_ms: u64, offset_ms: u64) -> ModeTrigger {
    let described = model::Trigger::Schedule {
        every: ms(every_ms),
        offset: ms(offset_ms),
    };
    ModeTrigger::described("rest", 0, &described)
}

fn condition(above: Option<f64>, below: Option<f64>, window_ms: u64) -> ModeTrigger {
    let described = model::Trigger::Condition {
        domain: "arm".into(),
        metric: Metric::Depletions,
        above: above.map(Percent),
        below: below.map(Percent),
        window: ms(window_ms),
    };
    ModeTrigger::described("rest", 1, &described)
}

fn counts(periods: u64, depletions: u64) -> BTreeMap<String, LedgerCounts> {
    let counts = LedgerCounts {
        periods,
        depletions,
        ..LedgerCounts::default()
    };
    [("arm".to_owned(), counts)].into()
}

fn fires(triggers: &mut Triggers, now_ms: u64, counts: &BTreeMap<String, LedgerCounts>) -> bool {
    !triggers.look(at(now_ms), "run", counts).is_empty()
}

#[test]
fn a_schedule_asks_at_its_instants_and_makes_up_for_what_was_missed_once() {
    let none = BTreeMap::new();
    let mut triggers = Triggers::new(&[schedule(100, 30)], at(1_000));
    assert_eq!(triggers.next_look(), Some(at(1_030)));
    assert!(!fires(&mut triggers, 1_029, &none));
    assert!(fires(&mut triggers, 1_030, &none));
    assert!(!fires(&mut triggers, 1_031, &none));
    assert_eq!(triggers.next_look(), Some(at(1_130)));
    // Four instants passed; one request, and the rhythm stays.
    assert!(fires(&mut triggers, 1_440, &none));
    assert!(!fires(&mut triggers, 1_441, &none));
    assert_eq!(triggers.next_look(), Some(at(1_530)));
    let status = &triggers.status()[0];
    assert_eq!((status.fired, status.last_fired_at), (2, Some(at(1_440))));
}

#[test]
fn the_mode_that_holds_is_not_asked_for() {
    let mut triggers = Triggers::new(&[schedule(100, 0)], at(0));
    assert!(triggers.look(at(5), "rest", &BTreeMap::new()).is_empty());
    assert_eq!(triggers.status()[0].fired, 0);
    assert_eq!(triggers.next_look(), Some(at(100)));
}

#[test]
fn a_condition_needs_its_whole_window_and_asks_again_only_after_it_did_not_hold() {
    let mut triggers = Triggers::new(&[condition(Some(50.0), None, 160)], at(0));
    assert_eq!(triggers.domains(at(0)), ["arm"].into());
    let mut fired = Vec::new();
    // Ten periods in 100 ms; depleted in all of them up to 500 ms, in none up to 1000 ms, then again.
    let mut depletions = 0;
    for tick in 0..=200 {
        let now_ms = tick * 10;
        if !(500..1_000).contains(&now_ms) {
            depletions += 1;
        }
        if fires(&mut triggers, now_ms, &counts(tick, depletions)) {
            fired.push(now_ms);
        }
    }
    assert_eq!(fired.len(), 2, "{fired:?}");
    assert_eq!(fired[0], 160);
    // More than half of a window of 16 periods was depleted: from the ninth on.
    assert!((1_080..=1_100).contains(&fired[1]), "{fired:?}");
}

#[test]
fn a_window_begins_anew_with_a_mode_and_with_other_books() {
    let mut triggers = Triggers::new(&[condition(None, Some(10.0), 100)], at(0));
    for tick in 0..10 {
        assert!(!fires(&mut triggers, tick * 10, &counts(tick, 0)));
    }
    triggers.mode_has_changed();
    for tick in 10..20 {
        assert!(!fires(&mut triggers, tick * 10, &counts(tick, 0)), "{tick}");
    }
    // The books were begun anew.
    for tick in 20..30 {
        assert!(!fires(&mut triggers, tick * 10, &counts(tick - 20, 0)));
    }
    assert!(fires(&mut triggers, 300, &counts(10, 0)));
}

#[test]
fn without_a_period_nothing_is_known() {
    let mut triggers = Triggers::new(&[condition(None, Some(10.0), 100)], at(0));
    for tick in 0..30 {
        assert!(!fires(&mut triggers, tick * 10, &counts(7, 3)));
    }
    // Nor without books.
    assert!(!fires(&mut triggers, 400, &BTreeMap::new()));
    assert_eq!(triggers.status()[0].fired, 0);
}

#[test]
fn each_metric_is_a_share_of_its_own_whole() {
    let counted = LedgerCounts {
        periods: 8,
        depletions: 2,
        skipped: 2,
        stalled: 4,
        used_ns: 3,
        reserved_ns: 4,
    };
    let passed = |metric, ppm| counted.has_passed(metric, Side::Above, ppm).unwrap();
    for (metric, share_ppm) in [
        (Metric::Depletions, 250_000),
        (Metric::Skipped, 200_000),
        (Metric::Stalls, 500_000),
        (Metric::BudgetUsed, 750_000),
    ] {
        assert!(!passed(metric, share_ppm) && passed(metric, share_ppm - 1));
        let below = counted.has_passed(metric, Side::Below, share_ppm + 1);
        assert_eq!(below, Some(true));
    }
}

#[test]
fn what_was_known_goes_on_when_more_come() {
    let (old, new) = (schedule(100, 50), condition(Some(50.0), None, 160));
    let mut triggers = Triggers::new(std::slice::from_ref(&old), at(0));
    assert!(fires(&mut triggers, 60, &BTreeMap::new()));
    triggers.keep(&[new, old], at(70));
    let fired: Vec<u64> = triggers.status().iter().map(|one| one.fired).collect();
    assert_eq!(fired, [0, 1]);
    triggers.keep(&[], at(80));
    assert_eq!(triggers.next_look(), None);
}

proptest! {
    /// Whatever is looked when, a schedule asks at most once per instant of it and never before one.
    #[test]
    fn a_schedule_never_asks_too_often(every in 1_u64..50, offset in 0_u64..50, gaps in prop::collection::vec(0_u64..200, 1..60)) {
        let mut triggers = Triggers::new(&[schedule(every, offset)], at(0));
        let (mut now, mut fired) = (0, 0);
        for gap in gaps {
            now += gap;
            fired += u64::from(fires(&mut triggers, now, &BTreeMap::new()));
            let instants = now.checked_sub(offset).map_or(0, |past| past / every + 1);
            prop_assert!(fired <= instants);
            prop_assert!(triggers.next_look().unwrap() > at(now));
            prop_assert!(instants == 0 || fired > 0);
        }
    }

    /// Between two requests of a condition there is a window in which it did not hold, and no counts
    /// make it panic.
    #[test]
    fn conditions_take_any_counts(steps in prop::collection::vec((0_u64..300, any::<u64>(), any::<u64>()), 1..60)) {
        let mut triggers = Triggers::new(&[condition(Some(30.0), None, 100)], at(0));
        let mut now = 0;
        for (gap, periods, depletions) in steps {
            now += gap;
            let _asked = fires(&mut triggers, now, &counts(periods, depletions));
        }
    }
}

#[test]
fn a_trigger_is_written_flat_and_in_nanoseconds_and_read_again() {
    let status = TriggerStatus {
        trigger: schedule(500, 20),
        fired: 3,
        last_fired_at: Some(Instant::from_nanos(7)),
    };
    let json = serde_json::to_value(&status).unwrap();
    let expected = serde_json::json!({
        "name": "rest.triggers[0]",
        "mode": "rest",
        "kind": "schedule",
        "every_ns": 500_000_000,
        "offset_ns": 20_000_000,
        "fired": 3,
        "last_fired_at_ns": 7,
    });
    assert_eq!(json, expected);
    assert_eq!(
        serde_json::from_value::<TriggerStatus>(json).unwrap(),
        status
    );
}
