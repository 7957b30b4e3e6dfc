#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_time::Duration;

use super::*;
use HealthResponse::{Ignore, Restart, Stop};

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn policy(exit: HealthResponse, overrun: HealthResponse, restarts: u32) -> Health {
    Health {
        exit,
        overrun,
        restarts,
        interval: Duration::from_millis(1_000),
        ..Health::default()
    }
}

fn counts(overruns: u64, missed_windows: u64) -> Option<HealthCounts> {
    Some(HealthCounts {
        overruns,
        missed_windows,
    })
}

#[test]
fn an_event_without_a_response_is_recorded_once() {
    let mut monitor = HealthMonitor::new(Health::default());
    let seen = monitor.observe(1, counts(2, 5), at(1));
    let events = [
        (HealthEvent::Exit, 1),
        (HealthEvent::Overrun, 2),
        (HealthEvent::MissedWindow, 5),
    ];
    assert_eq!(
        (seen.events.as_slice(), seen.response),
        (&events[..], Ignore)
    );
    // The same counts are no news, and more of one is.
    let seen = monitor.observe(0, counts(2, 5), at(2));
    assert_eq!(seen, HealthVerdict::default());
    let seen = monitor.observe(0, counts(2, 6), at(3));
    assert_eq!(seen.events, [(HealthEvent::MissedWindow, 1)]);
    // Without a ledger there is nothing to compare.
    assert_eq!(monitor.observe(0, None, at(4)), HealthVerdict::default());
}

#[test]
fn the_strongest_response_holds() {
    let mut monitor = HealthMonitor::new(policy(Restart, Stop, 3));
    assert_eq!(monitor.observe(1, counts(0, 0), at(1)).response, Restart);
    let seen = monitor.observe(1, counts(1, 0), at(2));
    assert_eq!((seen.response, seen.is_exhausted), (Stop, false));
    assert!(monitor.is_stopped());
    // A stopped domain has no more events.
    assert_eq!(
        monitor.observe(7, counts(9, 9), at(3)),
        HealthVerdict::default()
    );
}

#[test]
fn a_crash_loop_ends_in_a_stop_and_rare_restarts_do_not() {
    let mut loops = HealthMonitor::new(policy(Restart, Ignore, 2));
    let ends: Vec<_> = (0..3)
        .map(|n| loops.observe(1, None, at(n * 300)))
        .collect();
    let responses: Vec<_> = ends
        .iter()
        .map(|one| (one.response, one.is_exhausted))
        .collect();
    assert_eq!(
        responses,
        [(Restart, false), (Restart, false), (Stop, true)]
    );

    let mut rare = HealthMonitor::new(policy(Restart, Ignore, 2));
    for n in 0..20 {
        // Two in each interval; the third comes as the first one is an interval ago.
        assert_eq!(rare.observe(1, None, at(n * 500)).response, Restart, "{n}");
    }
}

#[test]
fn the_ledger_of_a_new_reservation_begins_anew() {
    let mut monitor = HealthMonitor::new(policy(Restart, Restart, 9));
    assert_eq!(monitor.observe(0, counts(3, 0), at(1)).response, Restart);
    // As many as before, and all of them are news.
    let seen = monitor.observe(0, counts(3, 0), at(2));
    assert_eq!(seen.events, [(HealthEvent::Overrun, 3)]);
}

proptest! {
    /// Whatever happens and when: no interval has more restarts than the bound, nothing follows a stop, and every event
    /// before it is recorded exactly once.
    #[test]
    fn restarts_are_bounded_in_every_interval(
        steps in prop::collection::vec((0_u64..400, 0_u64..3, 0_u64..3), 1..60), restarts in 1_u32..5,
    ) {
        let mut monitor = HealthMonitor::new(policy(Restart, Ignore, restarts));
        let (mut now, mut total) = (0, 0);
        let mut begun: Vec<u64> = Vec::new();
        let (mut exits_seen, mut exits_so_far) = (0, 0);
        for (pause, exits, overruns) in steps {
            now += pause;
            total += overruns;
            let was_stopped = monitor.is_stopped();
            if !was_stopped {
                exits_so_far += exits;
            }
            let seen = monitor.observe(exits, counts(total, 0), at(now));
            exits_seen += seen.events.iter().filter(|one| one.0 == HealthEvent::Exit).map(|one| one.1).sum::<u64>();
            prop_assert!(!was_stopped || seen == HealthVerdict::default());
            if seen.response == Restart {
                begun.push(now);
                total = 0;
            }
            let latest = begun.iter().filter(|at| now - **at < 1_000).count();
            prop_assert!(latest as u32 <= restarts);
            prop_assert_eq!(seen.response == Stop, seen.is_exhausted);
        }
        prop_assert_eq!(exits_seen, exits_so_far);
    }
}
