//! Publishing and taking allocate nothing.

use std::sync::Arc;

use allocation_counter::measure;
use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Contract, ExcessRule};
use tailbound_pubsub::{DataSpace, InProcess, Topic, Transport, Udp};
use tailbound_time::Duration;

/// Publishes and takes over a transport; fails if a message allocates more often than the transport does by itself.
fn check_allocations(transport: Box<dyn Transport>, own_allocations: u64) {
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
    assert!(
        allocations.count_total <= own_allocations * 1_000,
        "{allocations:?}"
    );
    assert!(bytes > 16 * 64, "nothing arrived");
}

#[test]
fn a_message_within_a_process_allocates_nothing() {
    check_allocations(Box::new(InProcess::default()), 0);
}

#[test]
fn a_message_in_a_datagram_allocates_nothing() {
    check_allocations(
        Box::new(Udp::multicast(std::net::Ipv4Addr::LOCALHOST, 47_011)),
        0,
    );
}

#[test]
fn a_message_by_rtps_allocates_nothing() {
    let transport = tailbound_pubsub::Rtps::join(97, std::net::Ipv4Addr::LOCALHOST).unwrap();
    check_allocations(Box::new(transport), 0);
}

#[test]
#[cfg(feature = "iceoryx2")]
fn a_message_in_shared_memory_allocates_nothing_but_the_sample() {
    let space = format!("allocations-{}", std::process::id());
    let transport = tailbound_pubsub::SharedMemory::join(&space).unwrap();
    // The one of iceoryx2 is its handle of a sample that is lent.
    check_allocations(Box::new(transport), 1);
    std::fs::remove_file(super::conformance::shared_memory::count_file(&space)).unwrap();
}

#[test]
#[cfg(feature = "zeromq")]
fn a_message_by_zero_mq_allocates_nothing_in_rust() {
    let space = format!("allocations-{}", std::process::id());
    let transport = tailbound_pubsub::ZeroMq::on_host(&space).unwrap();
    // libzmq allocates for long messages by the allocator of C, which is not counted.
    check_allocations(Box::new(transport), 0);
}
