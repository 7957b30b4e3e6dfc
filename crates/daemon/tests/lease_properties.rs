//! Leases under random interleavings of clients that come, ask, and are killed.

use std::collections::BTreeMap;

use proptest::prelude::*;
use tailbound_control::{Lease, RefusalKind, Selection};
use tailbound_daemon::leases::{ConnectionId, LeaseOwner, Leases};

use crate::fakes::{FakeKernel, Trouble, request};

#[derive(Clone, Debug)]
enum Step {
    Connect,
    /// The client with this number (of those ever connected) asks.
    Apply {
        client: usize,
        domains: Vec<u8>,
        lease: Lease,
    },
    Change {
        domain: u8,
    },
    Revert {
        domain: Option<u8>,
    },
    /// The client is killed; a client may be killed twice, or ask after its death (its request was
    /// on the way).
    Kill {
        client: usize,
    },
    Trouble(Trouble),
    Retry,
}

fn steps() -> impl Strategy<Value = Step> {
    let trouble = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(
        |(apply_fails, leaves_a_part, revert_fails)| Trouble {
            apply_fails,
            leaves_a_part,
            revert_fails,
        },
    );
    let lease = prop_oneof![Just(Lease::Persistent), Just(Lease::Connection)];
    prop_oneof![
        3 => Just(Step::Connect),
        6 => (0_usize..6, prop::collection::vec(0_u8..6, 0..4), lease)
            .prop_map(|(client, domains, lease)| Step::Apply { client, domains, lease }),
        1 => (0_u8..6).prop_map(|domain| Step::Change { domain }),
        2 => prop::option::of(0_u8..6).prop_map(|domain| Step::Revert { domain }),
        4 => (0_usize..6).prop_map(|client| Step::Kill { client }),
        2 => trouble.prop_map(Step::Trouble),
        1 => Just(Step::Retry),
    ]
}

fn name(domain: u8) -> String {
    format!("d{domain}")
}

/// What a lease promises, checked against what is really reserved.
fn check(leases: &Leases<FakeKernel>, kernel: &FakeKernel) -> Result<(), TestCaseError> {
    let active = kernel.active();
    let owned: Vec<&String> = leases.owners().keys().collect();
    prop_assert_eq!(
        owned,
        active.iter().collect::<Vec<_>>(),
        "each active reservation has one owner, and nothing else has"
    );
    for (domain, owner) in leases.owners() {
        if let LeaseOwner::Connection(id) = owner {
            prop_assert!(
                leases.connections().contains(id),
                "{domain} is leased to a connection that has ended"
            );
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn no_reservation_is_ever_without_a_living_owner(
        steps in prop::collection::vec(steps(), 0..60),
    ) {
        let kernel = FakeKernel::default();
        let mut leases = Leases::new(kernel.clone());
        let mut clients: Vec<ConnectionId> = Vec::new();
        // What should be there: by whom each domain was last applied, if successfully.
        let mut persistent: BTreeMap<String, ()> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Connect => clients.push(leases.connect()),
                Step::Apply { client, domains, lease } => {
                    let Some(&id) = clients.get(client) else { continue };
                    let requests: Vec<_> = domains.iter().map(|d| request(&name(*d))).collect();
                    let alive = leases.connections().contains(&id);
                    let before = kernel.active();
                    let result = leases.apply(id, &requests, lease);
                    match result {
                        Ok(_) => {
                            prop_assert!(alive, "a dead client got a reservation");
                            for request in &requests {
                                let owner = leases.owners().get(&request.domain);
                                let expected = match lease {
                                    Lease::Persistent => LeaseOwner::Persistent,
                                    Lease::Connection => LeaseOwner::Connection(id),
                                };
                                prop_assert_eq!(owner, Some(&expected));
                                if lease == Lease::Persistent {
                                    persistent.insert(request.domain.clone(), ());
                                }
                            }
                        }
                        Err(_) => {
                            for domain in kernel.active().difference(&before) {
                                prop_assert_eq!(
                                    leases.owners().get(domain),
                                    Some(&LeaseOwner::Abandoned),
                                    "a part of a failed apply is ours to take back"
                                );
                            }
                        }
                    }
                }
                Step::Change { domain } => {
                    let owner = leases.owners().get(&name(domain)).copied();
                    let interface = request("x").interface;
                    let _ = leases.change(&name(domain), &interface);
                    prop_assert_eq!(leases.owners().get(&name(domain)).copied(), owner);
                }
                Step::Revert { domain } => {
                    let selection = match domain {
                        Some(domain) => Selection::Domain(name(domain)),
                        None => Selection::All,
                    };
                    if leases.revert(&selection).is_ok() {
                        match domain {
                            Some(domain) => _ = persistent.remove(&name(domain)),
                            None => persistent.clear(),
                        }
                    }
                    persistent.retain(|domain, ()| kernel.active().contains(domain));
                }
                Step::Kill { client } => {
                    let Some(&id) = clients.get(client) else { continue };
                    leases.disconnect(id);
                }
                Step::Trouble(trouble) => kernel.set_trouble(trouble),
                Step::Retry => _ = leases.retry_abandoned(),
            }
            check(&leases, &kernel)?;
            for domain in persistent.keys() {
                prop_assert!(kernel.active().contains(domain), "{domain} was to stay");
            }
        }

        // All clients die and the trouble passes: what is left is what was meant to stay.
        kernel.set_trouble(Trouble::default());
        for id in clients {
            leases.disconnect(id);
        }
        leases.retry_abandoned();
        check(&leases, &kernel)?;
        prop_assert!(!leases.has_abandoned());
        let left: Vec<String> = kernel.active().into_iter().collect();
        let stays: Vec<String> = persistent.into_keys().collect();
        prop_assert_eq!(left, stays);
        leases.close().unwrap();
        prop_assert!(kernel.active().is_empty());
    }
}

#[test]
fn a_killed_client_loses_its_lease_and_no_other() {
    let kernel = FakeKernel::default();
    let mut leases = Leases::new(kernel.clone());
    let (first, second) = (leases.connect(), leases.connect());
    leases
        .apply(first, &[request("a")], Lease::Connection)
        .unwrap();
    leases
        .apply(first, &[request("b")], Lease::Persistent)
        .unwrap();
    leases
        .apply(second, &[request("c")], Lease::Connection)
        .unwrap();
    assert!(leases.disconnect(first).is_empty());
    assert_eq!(kernel.active().into_iter().collect::<Vec<_>>(), ["b", "c"]);
}

#[test]
fn what_cannot_be_taken_back_is_tried_until_it_can() {
    let kernel = FakeKernel::default();
    let mut leases = Leases::new(kernel.clone());
    let client = leases.connect();
    leases
        .apply(client, &[request("a")], Lease::Connection)
        .unwrap();
    kernel.set_trouble(Trouble {
        revert_fails: true,
        ..Trouble::default()
    });
    assert_eq!(leases.disconnect(client).len(), 1);
    assert!(leases.has_abandoned());
    assert!(
        !leases.close_if_idle(),
        "a daemon with something to take back is not idle"
    );
    kernel.set_trouble(Trouble::default());
    assert!(leases.retry_abandoned().is_empty());
    assert!(kernel.active().is_empty());
    assert!(leases.is_idle());
}

#[test]
fn once_idle_and_closed_nothing_new_is_made() {
    let kernel = FakeKernel::default();
    let mut leases = Leases::new(kernel.clone());
    assert!(leases.close_if_idle());
    let late = leases.connect();
    let refusal = leases
        .apply(late, &[request("a")], Lease::Persistent)
        .unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::ShuttingDown);
    assert!(kernel.active().is_empty());
}

#[test]
fn a_name_can_be_held_once() {
    let mut leases = Leases::new(FakeKernel::default());
    let (first, second) = (leases.connect(), leases.connect());
    leases
        .apply(first, &[request("a")], Lease::Connection)
        .unwrap();
    let refusal = leases
        .apply(second, &[request("a")], Lease::Connection)
        .unwrap_err();
    assert_eq!(refusal.kind, RefusalKind::Duplicate);
    assert_eq!(
        leases.owners().get("a"),
        Some(&LeaseOwner::Connection(first))
    );
}
