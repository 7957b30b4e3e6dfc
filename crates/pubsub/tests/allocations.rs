//! Publishing and taking allocate nothing.

use std::sync::Arc;

use allocation_counter::measure;
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Contract, ExcessRule};
use tailbound_pubsub::{DataSpace, InProcess, Topic, Transport, Udp};
use tailbound_time::Duration;

/// Publishes and takes over a transport; fails if one of a thousand messages allocates.
pub fn check_allocations(transport: Box<dyn Transport>) {
    let mut topic = Topic::new("allocations", "bytes", 128);
    topic.quality.history = 4;
    topic.contract = Some(Contract {
        messages: 1_000,
        bytes: None,
        interval: Duration::from_secs(1),
        least_distance: Duration::ZERO,
        violation: ExcessRule::HoldBack,
    });
    let space = DataSpace::over(transport, Arc::new(Monotonic));
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut publisher = space.publisher(&topic).unwrap();
    publisher.disregard_contract();
    let mut bytes = 0;
    let mut exchange = |count: usize| {
        for _ in 0..count {
            publisher.publish(&[7; 64]).unwrap();
            subscriber.wait(Some(Duration::from_millis(1))).unwrap();
            subscriber
                .take(|message| bytes += message.payload.len())
                .unwrap();
            while subscriber.take_event().is_some() {}
        }
    };
    // Middleware may allocate when the first message discovers its receivers.
    exchange(16);
    let allocations = measure(|| exchange(1_000));
    assert_eq!(allocations.count_total, 0, "{allocations:?}");
    assert!(bytes > 16 * 64, "nothing arrived");
}

#[test]
fn a_message_within_a_process_allocates_nothing() {
    check_allocations(Box::new(InProcess::default()));
}

#[test]
fn a_message_in_a_datagram_allocates_nothing() {
    check_allocations(Box::new(Udp::multicast(
        std::net::Ipv4Addr::LOCALHOST,
        47_011,
    )));
}
