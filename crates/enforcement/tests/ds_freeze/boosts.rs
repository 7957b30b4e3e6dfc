//! Boosts come from no budget, and end.

use super::*;
use tailbound_enforcement::ds_freeze::LONGEST_BOOST;
use tailbound_linux::thread::pin_current_thread;
use tailbound_model::interface::Cpu;

#[test]
fn a_boost_comes_from_no_budget_and_ends() {
    let test = "a_boost_comes_from_no_budget_and_ends";
    if !has_two_cpus(test) {
        return;
    }
    let _alone = crate::alone();
    let Some(mut domain) = domain_for("boosted") else {
        return;
    };
    let Some(manager) = manager_for(test, &[], Detection::Automatic) else {
        return;
    };
    let (budget, period) = (Duration::from_millis(10), Duration::from_millis(200));
    let served = domain.served("boosted", budget, period);
    manager.add(&served).expect("add");
    domain.start(
        Load {
            fifo_priority: 90,
            ..Load::busy(test_cpu(), 1, LOAD_AT_MOST * 2)
        },
        AS_LOAD,
    );
    // Away from the load, which would keep this thread from ending a boost that it began.
    assert_ne!(test_cpu(), Cpu(0), "there are two CPUs");
    pin_current_thread(0).expect("pin");
    pause(300);
    let at_most = Duration::from_millis(5);
    // The domain stands still for most of a period, and only then it is boosted.
    boosts_until(
        &manager,
        |length| at_most.scaled_down(1, 2) < length && length < at_most.scaled_down(3, 2),
        || {
            eventually("it stands still", || is_frozen(&domain));
            manager.boost("boosted", at_most, true).expect("boost");
        },
    );
    // One that is taken back at once gives next to nothing.
    boosts_until(
        &manager,
        |length| length < at_most.scaled_down(1, 2),
        || {
            manager.boost("boosted", at_most, false).expect("boost");
            manager.unboost("boosted").expect("unboost");
        },
    );
    pause(1_000);
    let seen = manager.ledger("boosted").expect("ledger");
    // No later budget is the less for it, nor the more.
    let used = seen.used.as_secs_f64() / seen.reserved.as_secs_f64();
    assert!((used - 1.0).abs() < 0.05, "{used}");
    goes_on_boosted(&manager, &domain);
    assert!(matches!(
        manager.boost("other", at_most, false),
        Err(ManagerError::Unknown { .. })
    ));
    manager.stop().expect("stop");
}

/// Boosts it until what it uses under one boost is as wanted. A boost that the manager comes to too late is none,
/// and one may be longer than asked for, where this thread or the manager's is kept from running.
#[track_caller]
fn boosts_until(manager: &CpuManager, is_as_wanted: impl Fn(Duration) -> bool, boost: impl Fn()) {
    let seen = || manager.ledger("boosted").expect("ledger");
    eventually("a boost of that length", || {
        let before = seen();
        boost();
        pause(60);
        let after = seen();
        after.boosts == before.boosts + 1
            && is_as_wanted(after.boosted.saturating_sub(before.boosted))
    });
}

/// A boost that is asked for while there is budget begins when that ends.
fn goes_on_boosted(manager: &CpuManager, domain: &TestDomain) {
    // One that begins when the budget ends is shorter by what was left of the budget.
    let boosted_for = || manager.ledger("boosted").expect("ledger").boosted;
    let went_on = (0..20).any(|_| {
        eventually("it runs", || !is_frozen(domain));
        let before = boosted_for();
        manager
            .boost("boosted", LONGEST_BOOST, true)
            .expect("boost");
        pause(50);
        let length = boosted_for().saturating_sub(before);
        !length.is_zero() && length < LONGEST_BOOST.scaled_down(3, 4)
    });
    assert!(went_on);
}
