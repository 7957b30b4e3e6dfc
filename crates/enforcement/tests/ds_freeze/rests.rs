//! A domain of which nobody runs costs its manager next to nothing, and is served at once when somebody does.

use super::*;

/// How often it is tried where the host stands still meanwhile.
const ATTEMPTS: u32 = 4;

/// The most that a domain used in a period soon after a rest; `None` where rests need what the host does not permit.
fn first_use_after_a_rest(test: &str) -> Option<Duration> {
    let mut domain = domain_for(test)?;
    let served = [domain.served(test, BUDGET, PERIOD)];
    let manager = manager_for(test, &served, Detection::Automatic)?;
    let ledger = || manager.ledger(test).expect("served");
    if ledger().polling {
        eprintln!("SKIP {test}: the kernel permits no alarm for the CPU time of a cgroup");
        return None;
    }
    eventually("it rests", || ledger().rested >= 10);
    let before = ledger();
    eventually("it rests on", || ledger().rested >= before.rested + 30);
    let after = ledger();
    let (periods, wake_ups) = (
        after.periods - before.periods,
        after.wake_ups - before.wake_ups,
    );
    assert!(
        wake_ups * 3 < periods,
        "{test}: {wake_ups} wake-ups in {periods} periods"
    );
    domain.start(Load::busy(test_cpu(), 1, LOAD_AT_MOST), AS_LOAD);
    eventually("budgets are used up", || ledger().depletions >= 5);
    let busy = ledger();
    eventually("more of them are", || {
        ledger().depletions >= busy.depletions + 5
    });
    let ended = ledger();
    assert_eq!(ended.rested, busy.rested, "{test}: who runs does not rest");
    manager.stop().expect("stop");
    ended.latest.iter().map(|closed| closed.used).max()
}

#[test]
fn an_idle_domain_lets_its_manager_sleep_and_is_stopped_in_time_when_it_runs() {
    let _alone = crate::alone();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        match first_use_after_a_rest("an_idle_domain") {
            None => return,
            Some(most) if most < BUDGET * 3 / 2 => return,
            Some(most) => seen.push(most),
        }
    }
    panic!("used up to {seen:?} in a period, of {BUDGET}");
}
