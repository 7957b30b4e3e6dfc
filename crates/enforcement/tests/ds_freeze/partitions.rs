//! Time partitions on the host: each runs in its windows, and others in theirs.

use super::*;
use tailbound_enforcement::ds_freeze::LedgerSnapshot;
use tailbound_linux::thread::{make_current_thread_fifo, pin_current_thread};
use tailbound_model::{Cpu, Window};
use tailbound_reservation::window_server::FrameWindows;

/// How often shares are measured where they are not what they should be: the host may stand still meanwhile.
const ATTEMPTS: u32 = 4;

/// Long against a switch of windows on a slow host: how long that takes is for the benchmark `partition_accuracy`.
const FRAME: Duration = Duration::from_millis(50);

fn window(offset_ms: u64, length_ms: u64) -> Window {
    Window {
        offset: Duration::from_millis(offset_ms),
        length: Duration::from_millis(length_ms),
    }
}

fn framed(frame: Duration, windows: &[Window]) -> FrameWindows {
    FrameWindows::new(frame, windows).expect("windows")
}

fn partition(domain: &TestDomain, name: &str, windows: &[Window]) -> ServedDomain {
    let budget = windows.iter().map(|window| window.length).sum();
    ServedDomain {
        windows: windows.to_vec(),
        ..domain.served(name, budget, FRAME)
    }
}

/// The CPU time that a partition used in its windows and outside of them, from the window on that is served when both
/// partitions are busy.
fn inside_and_outside(ledger: &LedgerSnapshot, first: u64) -> (f64, f64) {
    let settled = ledger.latest.iter().filter(|closed| closed.index >= first);
    let (mut used, mut outside, mut length) = (0, 0, 0);
    for closed in settled {
        used += closed.used.as_nanos();
        outside += closed.overrun.as_nanos();
        length += closed.budget.as_nanos() * (closed.skipped + 1);
    }
    let length = length.max(1) as f64;
    (used as f64 / length, outside as f64 / length)
}

fn two_partitions(test: &str) -> Option<Result<(), String>> {
    let (one, other) = (format!("{test}-one"), format!("{test}-other"));
    let (mut first, mut second) = (domain_for(&one)?, domain_for(&other)?);
    let served = [
        partition(&first, &one, &[window(0, 10), window(35, 10)]),
        partition(&second, &other, &[window(10, 25)]),
    ];
    let manager = manager_for(test, &served, Detection::Automatic)?;
    for domain in [&mut first, &mut second] {
        domain.start(Load::busy(test_cpu(), 2, LOAD_AT_MOST), AS_LOAD);
    }
    let ledger = |name: &str| manager.ledger(name).expect("served");
    eventually("both partitions use their windows", || {
        ledger(&one).depletions >= 4 && ledger(&other).depletions >= 4
    });
    let begun = [&one, &other].map(|name| ledger(name).latest.last().map_or(0, |one| one.index));
    pause(2_000);
    let ended = [&one, &other].map(|name| ledger(name));
    manager.stop().expect("stop");
    assert!(
        !is_frozen(&first) && !is_frozen(&second),
        "{test}: stop has to thaw"
    );
    for (ledger, begun) in ended.iter().zip(begun) {
        assert_eq!(ledger.failures, 0, "{test}");
        assert!(ledger.latest.iter().all(|closed| closed.debt.is_zero()));
        let (inside, outside) = inside_and_outside(ledger, begun + 1);
        if inside < 0.95 || outside > 0.02 {
            return Some(Err(format!("{inside:.4} inside, {outside:.4} outside")));
        }
    }
    Some(Ok(()))
}

#[test]
fn partitions_have_their_windows_to_themselves() {
    let test = "partitions_have_their_windows_to_themselves";
    let _alone = crate::alone();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        match two_partitions(test) {
            None | Some(Ok(())) => return,
            Some(Err(why)) => seen.push(why),
        }
    }
    panic!("{test}: {seen:#?}");
}

#[test]
fn windows_change_at_the_begin_of_a_frame() {
    let test = "windows_change_at_the_begin_of_a_frame";
    let _alone = crate::alone();
    let Some(domain) = domain_for(test) else {
        return;
    };
    let served = [partition(&domain, test, &[window(0, 10)])];
    let Some(manager) = manager_for(test, &served, Detection::Automatic) else {
        return;
    };
    let ledger = || manager.ledger(test).expect("served");
    eventually("windows pass", || ledger().periods >= 3);
    let later = Monotonic.now() + Duration::from_millis(165);
    let changed = manager.set_windows(test, framed(FRAME, &[window(25, 5), window(40, 5)]), later);
    let in_force_at = changed.expect("a change");
    assert!(in_force_at >= later);
    assert_eq!(in_force_at.as_nanos() % FRAME.as_nanos(), 0);
    eventually("windows of both kinds pass", || {
        let latest = ledger().latest;
        let after = latest.iter().filter(|one| one.grid_start >= in_force_at);
        after.count() >= 4
    });
    let other = manager.set_windows(test, framed(FRAME * 2, &[window(25, 5)]), later);
    assert!(
        matches!(other, Err(ManagerError::Frame { .. })),
        "{other:?}"
    );
    for closed in ledger().latest {
        let into = closed.grid_start.as_nanos() % FRAME.as_nanos() / 1_000_000;
        let is_new = closed.grid_start >= in_force_at;
        let expected: &[u64] = if is_new { &[25, 40] } else { &[0] };
        assert!(expected.contains(&into), "{closed:?}");
        assert!(closed.replenished_at >= closed.grid_start, "{closed:?}");
    }
    manager.stop().expect("stop");
    assert!(!is_frozen(&domain));
}

/// The share of all time that two partitions have while the donor sleeps, and while it is busy: of the receiver, of the
/// donor.
fn shares_with_slack(test: &str) -> Option<[(f64, f64); 2]> {
    let (donor_name, receiver_name) = (format!("{test}-donor"), format!("{test}-receiver"));
    let (mut donor, mut receiver) = (domain_for(&donor_name)?, domain_for(&receiver_name)?);
    let receiving = ServedDomain {
        slack: vec![window(10, 25)],
        ..partition(&receiver, &receiver_name, &[window(0, 5)])
    };
    let served = [partition(&donor, &donor_name, &[window(10, 25)]), receiving];
    let manager = manager_for(test, &served, Detection::Automatic)?;
    let lower = Load {
        fifo_priority: 95,
        ..Load::busy(test_cpu(), 1, LOAD_AT_MOST)
    };
    receiver.start(lower, AS_LOAD);
    let ledger = |name: &str| manager.ledger(name).expect("served");
    eventually("the receiver uses its windows", || {
        ledger(&receiver_name).depletions >= 4
    });
    let over_a_while = |donor: &TestDomain, receiver: &TestDomain| {
        let begin = (Monotonic.now(), receiver.used(), donor.used());
        pause(1_500);
        let length = Monotonic.now().saturating_since(begin.0).as_nanos() as f64;
        let share = |used: Duration| used.as_nanos() as f64 / length;
        let received = receiver.used().saturating_sub(begin.1);
        (share(received), share(donor.used().saturating_sub(begin.2)))
    };
    let asleep = over_a_while(&donor, &receiver);
    donor.start(Load::busy(test_cpu(), 1, LOAD_AT_MOST), AS_LOAD);
    eventually("the donor uses its windows", || {
        ledger(&donor_name).depletions >= 4
    });
    let busy = over_a_while(&donor, &receiver);
    manager.stop().expect("stop");
    assert!(!is_frozen(&donor) && !is_frozen(&receiver), "{test}");
    Some([asleep, busy])
}

#[test]
fn what_a_donor_leaves_goes_to_the_receiver_and_nothing_else_does() {
    let test = "what_a_donor_leaves_goes_to_the_receiver_and_nothing_else_does";
    let _alone = crate::alone();
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let Some([asleep, busy]) = shares_with_slack(test) else {
            return;
        };
        // 5 + 25 of 50, and then 5 of 50 beside 25.
        let received = (0.55..0.62).contains(&asleep.0) && asleep.1 < 0.02;
        let kept = (0.08..0.12).contains(&busy.0) && (0.46..0.52).contains(&busy.1);
        if received && kept {
            return;
        }
        seen.push((asleep, busy));
    }
    panic!("{test}: {seen:#?}");
}

/// Keeps everything else from a CPU for so long, the manager included, as interrupts and hypervisors do.
fn take_cpu_away(cpu: Cpu, length: Duration) {
    pin_current_thread(cpu.0).expect("a CPU of ours");
    make_current_thread_fifo(99).expect("root");
    let until = Monotonic.now() + length;
    while Monotonic.now() < until {}
}

#[test]
fn an_edge_that_the_host_holds_up_is_late_by_the_host() {
    let test = "an_edge_that_the_host_holds_up_is_late_by_the_host";
    let _alone = crate::alone();
    let Some(domain) = domain_for(test) else {
        return;
    };
    let served = [partition(&domain, test, &[window(0, 10)])];
    let Some(manager) = manager_for(test, &served, Detection::Automatic) else {
        return;
    };
    let ledger = || manager.ledger(test).expect("served");
    eventually("windows pass", || ledger().periods >= 3);
    // Longer than a frame, so that the edge for which the manager sleeps is among it.
    let away = std::thread::spawn(|| take_cpu_away(test_cpu(), FRAME + Duration::from_millis(10)));
    away.join().expect("a thread that ends");
    eventually("the edge is counted", || {
        let windows = ledger().windows.expect("a partition");
        windows.late_by_host.longest >= Duration::from_millis(5)
    });
    eventually("its window is counted apart", || {
        let seen = ledger();
        seen.stalled_periods > 0 && seen.lateness.count() + seen.stalled_periods == seen.periods
    });
    manager.stop().expect("stop");
    assert!(!is_frozen(&domain));
}
