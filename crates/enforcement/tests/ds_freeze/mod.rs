//! `ds-freeze` on the host: budgets are given, kept and taken for real.
//!
//! These need root (or CAP_SYS_NICE, CAP_IPC_LOCK and a writable cgroup v2) and say so when they
//! cannot run. They assert shares and order, never times on their own.

mod boosts;
mod partitions;
mod rests;
mod shares;

use std::os::fd::AsFd;

use tailbound_enforcement::ds_freeze::{
    ChangeAt, CpuManager, Detection, Heartbeat, Liveness, ManagerError, ManagerOptions,
    ServedDomain, WatchdogView,
};
use tailbound_linux::cgroup;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::perf::CgroupAlarm;
use tailbound_linux::thread::{DescriptorState, PollSet};
use tailbound_time::{Clock, Duration};

use crate::ds_freeze_domain::{Load, TestDomain, be_load_if_told, test_cpu};

const AS_LOAD: &[&str] = &[
    "--ignored",
    "--exact",
    "ds_freeze::busy_program",
    "--nocapture",
];
const BUDGET: Duration = Duration::from_millis(4);
const PERIOD: Duration = Duration::from_millis(10);
/// Longer than any test looks at a load, which ends with its domain.
const LOAD_AT_MOST: Duration = Duration::from_secs(20);

/// Whether a domain is frozen, or being frozen.
fn is_frozen(domain: &TestDomain) -> bool {
    let text = cgroup::read_control(&domain.cgroup.join("cgroup.freeze")).expect("cgroup.freeze");
    text.trim() == "1"
}

/// Not a test: the program that the tests start again as their load.
#[test]
#[ignore = "the load of the other tests"]
fn busy_program() {
    be_load_if_told();
}

fn pause(ms: u64) {
    sleep_until(Monotonic.now() + Duration::from_millis(ms)).expect("sleep");
}

/// Waits for what comes in its own time, however slow the host is.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let give_up = Monotonic.now() + LOAD_AT_MOST;
    while !is_so() {
        assert!(Monotonic.now() < give_up, "{what}");
        pause(1);
    }
}

/// A CPU for the test beside that of a load which leaves nothing of it, or a loud skip.
fn has_two_cpus(test: &str) -> bool {
    let has = std::thread::available_parallelism().is_ok_and(|count| count.get() >= 2);
    has || skip(test, "two CPUs").is_some_and(|()| true)
}

/// A fresh domain, or a loud skip.
fn domain_for(test: &str) -> Option<TestDomain> {
    match TestDomain::make(test) {
        Ok(domain) => Some(domain),
        Err(needs) => skip(test, &needs),
    }
}

fn skip<T>(test: &str, needs: &str) -> Option<T> {
    eprintln!("SKIP {test}: needs {needs}");
    None
}

/// A manager, or a loud skip where the host does not permit one.
fn manager_for(test: &str, domains: &[ServedDomain], detection: Detection) -> Option<CpuManager> {
    let options = ManagerOptions {
        detection,
        ..ManagerOptions::default()
    };
    match CpuManager::start(test_cpu(), domains, options) {
        Ok(manager) => Some(manager),
        Err(
            cause @ (ManagerError::Thread { .. }
            | ManagerError::MemoryLock { .. }
            | ManagerError::Alarm { .. }
            | ManagerError::Cgroup { .. }),
        ) => skip(test, &cause.to_string()),
        Err(other) => panic!("{other}"),
    }
}

#[test]
fn a_budget_is_kept_while_the_domain_sleeps() {
    let test = "a_budget_is_kept_while_the_domain_sleeps";
    let _alone = crate::alone();
    let Some(mut domain) = domain_for(test) else {
        return;
    };
    let served = domain.served(test, BUDGET, PERIOD);
    let Some(manager) = manager_for(test, &[served], Detection::Automatic) else {
        return;
    };
    // Wants 8 ms every 19.7 ms, so its wishes move across the grid: a deferrable server lets two
    // budgets meet at a grid point, and single bursts come out longer than a budget.
    domain.start(
        Load {
            work: Duration::from_millis(8),
            sleep: Duration::from_micros(11_700),
            ..Load::busy(test_cpu(), 1, Duration::from_millis(1800))
        },
        AS_LOAD,
    );
    let bursts = domain.finish().concat();
    let ledger = manager.ledger(test).expect("served");
    drop(manager);
    let longest = bursts.iter().max().copied().unwrap_or(0);
    assert!(
        longest > BUDGET.as_nanos() * 3 / 2,
        "back-to-back budgets: longest burst {longest} ns of {} bursts",
        bursts.len()
    );
    let beyond = ledger.forgiven + ledger.debt;
    let total = ledger.used.saturating_sub(beyond).as_nanos() as f64;
    assert!(total <= ledger.reserved.as_nanos() as f64 * 1.02);
    assert!(!is_frozen(&domain));
}

/// A budget of whole seconds would run into real-time throttling, which stops the manager as well
/// (for longer than a second in one of four runs, beside ordinary work on Linux 6.18).
#[test]
fn a_budget_of_seconds_stays_clear_of_the_kernel_s_throttling() {
    let test = "a_budget_of_seconds_stays_clear_of_the_kernel_s_throttling";
    let _alone = crate::alone();
    let (Some(mut domain), Some(mut batch)) = (domain_for(test), domain_for("batch")) else {
        return;
    };
    let whole = Duration::from_secs(10);
    let served = domain.served(test, whole, whole);
    let Some(manager) = manager_for(test, &[served], Detection::Automatic) else {
        return;
    };
    let length = Duration::from_secs(5);
    let ordinary = Load {
        fifo_priority: 0,
        ..Load::busy(test_cpu(), 1, length)
    };
    batch.start(ordinary, AS_LOAD);
    domain.start(Load::busy(test_cpu(), 2, length), AS_LOAD);
    pause(300);
    let held = || manager.ledger(test).expect("served").held;
    let (start, before) = (Monotonic.now(), domain.used());
    let (batch_before, held_before) = (batch.used(), held());
    pause(4_000);
    let wall = Monotonic.now().saturating_since(start);
    let used = domain.used().saturating_sub(before);
    let others = batch.used().saturating_sub(batch_before);
    let held = held().saturating_sub(held_before);
    let ledger = manager.ledger(test).expect("served");
    manager.stop().expect("stop");
    assert!(!is_frozen(&domain));
    // The kernel would have left 95%. What the host steals is in nobody's use, and the manager needs
    // to make as much less room: somebody is always ready to run here.
    let given = used.saturating_add(others);
    let stolen = wall.saturating_sub(given);
    let part = |of: Duration| used.as_secs_f64() / of.as_secs_f64();
    assert!(
        part(wall) < 0.945 && part(given) > 0.80,
        "{used} of {given} in {wall}"
    );
    let room = held.saturating_add(stolen);
    assert!(
        room > Duration::from_millis(100),
        "held {held}, stolen {stolen}"
    );
    // Others ran because the manager made room, not because the kernel put it aside with its domain,
    // which it does for 50 ms at a time: also in a second in which the host stole more than that, and
    // the manager let its domain run. One hold may lie across the end.
    let beyond_room = others.saturating_sub(room);
    assert!(
        beyond_room < Duration::from_millis(120),
        "others ran for {others}, held {held} in {} holds, stolen {stolen}",
        ledger.holds
    );
    assert_eq!(ledger.failures, 0);
}

#[test]
fn a_domain_does_not_stay_frozen_without_its_manager() {
    let test = "a_domain_does_not_stay_frozen_without_its_manager";
    let _alone = crate::alone();
    let Some(mut domain) = domain_for(test) else {
        return;
    };
    // One budget in ten seconds: the domain is frozen nearly all the time.
    let served = domain.served(test, Duration::from_millis(1), Duration::from_secs(10));
    let Some(manager) = manager_for(test, &[served], Detection::Automatic) else {
        return;
    };
    let mut load = Load::busy(test_cpu(), 2, LOAD_AT_MOST * 2);
    load.fifo_priority = 0;
    domain.start(load, AS_LOAD);
    eventually("a depleted domain is frozen", || is_frozen(&domain));
    let before = domain.used();
    pause(100);
    let while_frozen = domain.used().saturating_sub(before);
    assert!(while_frozen < Duration::from_millis(5), "{while_frozen}");
    drop(manager);
    assert!(!is_frozen(&domain), "dropping the handle has to thaw");
    let before = domain.used();
    eventually("it runs again", || domain.used() > before);
}

/// Both domains have the shares that are wanted, within 15 %, in one of a few looks: where the host
/// takes the CPU away for a while, another while tells.
fn shares_are(wanted: (f64, f64), high: &TestDomain, low: &TestDomain) {
    let near = |share: f64, wanted: f64| (share - wanted).abs() < 0.15 * wanted;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let (start, before) = (Monotonic.now(), (high.used(), low.used()));
        pause(300);
        let wall = Monotonic.now().saturating_since(start).as_secs_f64();
        let part = |d: &TestDomain, b: Duration| d.used().saturating_sub(b).as_secs_f64() / wall;
        let shares = (part(high, before.0), part(low, before.1));
        if near(shares.0, wanted.0) && near(shares.1, wanted.1) {
            return;
        }
        seen.push(shares);
    }
    panic!("{seen:?}, not {wanted:?}");
}

#[test]
fn domains_come_go_and_change_while_the_manager_runs() {
    let test = "domains_come_go_and_change_while_the_manager_runs";
    let _alone = crate::alone();
    let (Some(mut high), Some(mut low)) = (domain_for("high"), domain_for("low")) else {
        return;
    };
    let Some(manager) = manager_for(test, &[], Detection::Automatic) else {
        return;
    };
    let length = Duration::from_millis(3_500);
    let busy = |priority| Load {
        fifo_priority: priority,
        ..Load::busy(test_cpu(), 1, length)
    };
    let (third, period) = (Duration::from_millis(3), Duration::from_millis(10));
    manager
        .add(&high.served("high", third, period))
        .expect("add");
    manager.add(&low.served("low", third, period)).expect("add");
    let again = manager.add(&low.served("low", third, period));
    assert!(matches!(again, Err(ManagerError::Duplicate { .. })));
    high.start(busy(96), AS_LOAD);
    low.start(busy(95), AS_LOAD);
    pause(200);
    shares_are((0.3, 0.3), &high, &low);
    manager
        .set_interface(
            "high",
            Duration::from_millis(1),
            period,
            ChangeAt::NextReplenishment,
        )
        .expect("change");
    manager
        .set_interface(
            "low",
            Duration::from_millis(10),
            Duration::from_millis(20),
            ChangeAt::Now,
        )
        .expect("change");
    pause(50);
    shares_are((0.1, 0.5), &high, &low);
    let last = manager.remove("high").expect("remove");
    assert!(last.periods > 10);
    assert!(!is_frozen(&high));
    assert!(matches!(
        manager.remove("high"),
        Err(ManagerError::Unknown { .. })
    ));
    assert_eq!(manager.domains(), ["low"]);
    manager.stop().expect("stop");
    assert!(!is_frozen(&low));
}

/// Puts a thread below every domain, or back above them.
fn schedule(thread_id: u32, policy: [&str; 3]) {
    let status = std::process::Command::new("chrt")
        .args(policy)
        .arg(thread_id.to_string())
        .status();
    assert!(status.is_ok_and(|it| it.success()), "chrt {policy:?}");
}

#[test]
fn a_domain_has_its_budget_after_its_manager_was_held_up() {
    let test = "a_domain_has_its_budget_after_its_manager_was_held_up";
    if !has_two_cpus(test) {
        return;
    }
    let _alone = crate::alone();
    let Some(mut domain) = domain_for(test) else {
        return;
    };
    let budget = Duration::from_micros(500);
    let served = domain.served(test, budget, PERIOD);
    let Some(manager) = manager_for(test, &[served], Detection::Automatic) else {
        return;
    };
    domain.start(Load::busy(test_cpu(), 1, LOAD_AT_MOST), AS_LOAD);
    pause(200);
    // What a stall of the host does: the domain is charged, and the manager away.
    schedule(manager.thread_id(), ["-o", "-p", "0"]);
    pause(40);
    schedule(manager.thread_id(), ["-f", "-p", "98"]);
    pause(300);
    let ledger = manager.ledger(test).expect("served");
    manager.stop().expect("stop");
    let held_up = ledger.latest.iter().position(|it| it.overrun > budget * 20);
    let Some(place) = held_up else {
        panic!("the manager was not held up: {:?}", ledger.latest);
    };
    let forgiven = ledger.latest[place].forgiven;
    assert!(forgiven > budget * 20, "{:?}", ledger.latest[place]);
    // Paying back 20 budgets would have taken as many periods.
    let next = &ledger.latest[place + 1..];
    let with_budget = next.iter().take(10).filter(|it| it.used >= budget / 2);
    assert!(with_budget.count() >= 5, "{next:?}");
}

#[test]
fn a_manager_shows_that_it_is_alive() {
    let test = "a_manager_shows_that_it_is_alive";
    let _alone = crate::alone();
    let heartbeat = Heartbeat::create(1).expect("memory");
    let view = WatchdogView::open(heartbeat.as_fd()).expect("view");
    let options = ManagerOptions {
        heartbeat: heartbeat.row(0),
        ..ManagerOptions::default()
    };
    let manager = match CpuManager::start(test_cpu(), &[], options) {
        Ok(manager) => manager,
        Err(cause) => {
            skip::<()>(test, &cause.to_string());
            return;
        }
    };
    eventually("it beats in time", || {
        let pulse = view.pulse(0, Monotonic.now()).expect("row");
        assert_eq!(pulse.thread, manager.thread_id());
        pulse.beats >= 2 && matches!(pulse.liveness, Liveness::Alive { .. })
    });
    manager.stop().expect("stop");
    let pulse = view.pulse(0, Monotonic.now()).expect("row");
    assert_eq!(pulse.liveness, Liveness::Stopped);
}

#[test]
fn an_alarm_goes_off_after_use_and_says_when() {
    let test = "an_alarm_goes_off_after_use_and_says_when";
    let _alone = crate::alone();
    let Some(mut domain) = domain_for(test) else {
        return;
    };
    let armed = Duration::from_millis(5);
    let alarm = match CgroupAlarm::open(&domain.cgroup, test_cpu().0, armed) {
        Ok(alarm) => alarm,
        Err(cause) => {
            skip::<()>(test, &cause.to_string());
            return;
        }
    };
    let mut waiting = PollSet::with_capacity(1);
    let place = waiting.push(Some(alarm.as_fd()));
    waiting.wait(Duration::from_millis(50)).expect("poll");
    assert_eq!(
        waiting.readiness(place),
        DescriptorState::Quiet,
        "nobody has run"
    );
    let before = Monotonic.now();
    domain.start(
        Load {
            fifo_priority: 0,
            ..Load::busy(test_cpu(), 1, Duration::from_millis(500))
        },
        AS_LOAD,
    );
    waiting.wait(Duration::from_secs(5)).expect("poll");
    assert_eq!(waiting.readiness(place), DescriptorState::Readable);
    let at = alarm.take().expect("went off").at.expect("with a time");
    assert!(at > before && at <= Monotonic.now());
    assert!(alarm.used().expect("counter") >= armed);
    // It goes off again for as much use again, which may have passed already.
    domain.finish();
    alarm.take();
    assert_eq!(alarm.take(), None, "told once");
}

#[test]
fn what_cannot_be_served_is_said() {
    let Some(domain) = domain_for("what_cannot_be_served_is_said") else {
        return;
    };
    let ms = Duration::from_millis;
    let start = |served: &[ServedDomain], cpu| {
        CpuManager::start(cpu, served, ManagerOptions::default()).map(drop)
    };
    let too_much = start(&[domain.served("a", ms(11), ms(10))], test_cpu());
    assert!(
        matches!(too_much, Err(ManagerError::Parameters { .. })),
        "{too_much:?}"
    );
    let mut nowhere = domain.served("a", ms(1), ms(10));
    nowhere.cgroup = domain.cgroup.join("not-there");
    let nowhere = start(&[nowhere], test_cpu());
    assert!(
        matches!(nowhere, Err(ManagerError::Cgroup { .. })),
        "{nowhere:?}"
    );
    let no_cpu = start(&[], tailbound_model::Cpu(1000));
    assert!(
        matches!(
            no_cpu,
            Err(ManagerError::Thread { .. } | ManagerError::MemoryLock { .. })
        ),
        "{no_cpu:?}"
    );
}
