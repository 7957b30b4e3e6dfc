//! A revert takes back every reservation that was asked for before it, made or not.

use std::thread;

use tailbound_control::protocol::{ControlRequest, Response};
use tailbound_control::{Lease, RefusalKind, Selection};
use tailbound_daemon::service::DaemonService;
use tailbound_enforcement::Recovery;
use tailbound_subsystem::Place;

use crate::fakes::{FakeKernel, SlowlyProtected, request};

/// The answers to an `apply` of domains "a" and "b" that waits for its watchdog, and to a revert that comes
/// meanwhile; and what is reserved in the end.
fn apply_then_revert(selection: Selection) -> (Response, Response, Vec<String>) {
    let (kernel, watchdog) = (FakeKernel::default(), SlowlyProtected::new());
    // Nobody loads modes here.
    let place = Place {
        directory: "/nonexistent".into(),
        exit_when_idle: None,
    };
    let protection = Box::new(watchdog.clone());
    let service = DaemonService::new(kernel.clone(), protection, Recovery::default(), place);
    let first = service.leases().connect();
    let second = service.leases().connect();
    let apply = ControlRequest::Apply {
        requests: vec![request("a"), request("b")],
        lease: Lease::Persistent,
        when_empty: Default::default(),
    };
    thread::scope(|threads| {
        let applied = threads.spawn(|| service.answer(first, true, apply));
        watchdog.asked.wait();
        let reverted = service.answer(second, true, ControlRequest::Revert { selection });
        watchdog.started.wait();
        let applied = applied.join().unwrap();
        (applied, reverted, kernel.active().into_iter().collect())
    })
}

#[test]
fn a_revert_is_not_overtaken_by_an_apply_that_waits_for_its_watchdog() {
    let selections = [
        (Selection::All, vec!["a", "b"]),
        (Selection::Domain("b".into()), vec!["b"]),
        (Selection::Domains(vec!["a".into()]), vec!["a"]),
    ];
    for (selection, domains) in selections {
        let (applied, reverted, active) = apply_then_revert(selection);
        let domains = domains.into_iter().map(str::to_owned).collect();
        assert_eq!(reverted, Response::Reverted { domains });
        let Response::Refused { refusal } = applied else {
            panic!("{applied:?}");
        };
        assert_eq!(refusal.kind, RefusalKind::NotActive);
        assert_eq!(active, Vec::<String>::new());
    }
}

#[test]
fn a_revert_of_another_domain_lets_an_apply_go_on() {
    let (applied, reverted, active) = apply_then_revert(Selection::Domain("c".into()));
    assert!(matches!(applied, Response::Applied { .. }), "{applied:?}");
    let Response::Refused { refusal } = reverted else {
        panic!("{reverted:?}");
    };
    assert_eq!(refusal.kind, RefusalKind::NotActive);
    assert_eq!(active, ["a", "b"]);
}
