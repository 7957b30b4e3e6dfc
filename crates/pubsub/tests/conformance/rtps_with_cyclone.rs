//! Cyclone DDS at one end of a topic and RTPS at the other, in one domain over loopback.

use std::net::Ipv4Addr;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Reliability, SubscriberEvent};
use tailbound_pubsub::{CycloneDds, DataSpace, Publisher, Rtps, Subscriber, Topic, Transport};

use super::stage::{acquaint, expect_event, take_all, take_count, topic, until};

/// The number of messages that go in a row.
const COUNT: u32 = 100;

/// A domain that another run of the tests hardly has, apart from those of the suites.
fn domain() -> u16 {
    let run = u16::try_from(std::process::id() % 18).unwrap();
    100 + run
}

fn over(transport: impl Transport + 'static) -> DataSpace {
    DataSpace::over(Box::new(transport), Arc::new(Monotonic))
}

fn cyclone() -> DataSpace {
    over(CycloneDds::join(domain().into(), Ipv4Addr::LOCALHOST).unwrap())
}

fn rtps() -> DataSpace {
    over(Rtps::join(domain(), Ipv4Addr::LOCALHOST).unwrap())
}

fn topics(name: &str) -> [Topic; 2] {
    let mut best_effort = topic(&format!("{name}-best-effort"));
    best_effort.longest = 64_000;
    best_effort.quality.history = COUNT;
    let mut reliable = best_effort.clone();
    reliable.name = format!("{name}-reliable");
    reliable.quality.reliability = Reliability::Reliable;
    [best_effort, reliable]
}

/// Sends messages of many lengths, and expects all of them whole and in order. Where nothing is repeated, each waits for the
/// one before it: together they are longer than the queue of a socket.
fn exchange(publisher: &mut Publisher, subscriber: &mut Subscriber, reliability: Reliability) {
    acquaint(publisher, subscriber);
    let in_flight = match reliability {
        Reliability::Reliable => COUNT as usize,
        Reliability::BestEffort => 1,
    };
    let payload = |number: u32| number.to_le_bytes().repeat(number as usize * 160);
    let mut messages = Vec::new();
    for number in 1..=COUNT {
        // A subscriber over RTPS confirms messages when it looks for them, and Cyclone DDS refuses more before.
        until("there is room for the message", || {
            let is_sent = publisher.publish(&payload(number)).is_ok();
            messages.extend(take_all(subscriber));
            is_sent
        });
        let awaited = (number as usize).saturating_sub(in_flight - 1);
        if messages.len() < awaited {
            messages.extend(take_count(subscriber, awaited - messages.len()));
        }
    }
    let left = COUNT as usize - messages.len();
    messages.extend(take_count(subscriber, left));
    assert_eq!(messages.len(), COUNT as usize);
    for (number, (header, received)) in (1..).zip(&messages) {
        assert_eq!(header.source, publisher.source());
        assert!(*received == payload(number), "message {number}");
    }
    assert_eq!(subscriber.counts().lost, 0);
    assert_eq!(subscriber.counts().garbage, 0);
}

fn check(name: &str, publishing: &DataSpace, subscribing: &DataSpace) {
    for topic in topics(name) {
        let mut subscriber = subscribing.subscriber(&topic).unwrap();
        let mut publisher = publishing.publisher(&topic).unwrap();
        exchange(&mut publisher, &mut subscriber, topic.quality.reliability);
        let source = publisher.source();
        drop(publisher);
        expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
    }
}

#[test]
fn a_publisher_of_cyclone_dds_reaches_a_subscriber_of_rtps() {
    check("from-cyclone", &cyclone(), &rtps());
}

#[test]
fn a_publisher_of_rtps_reaches_a_subscriber_of_cyclone_dds() {
    check("to-cyclone", &rtps(), &cyclone());
}

#[test]
fn both_libraries_hear_one_publisher() {
    let mut topic = topic("both");
    topic.subscribers = 2;
    let (cyclone, rtps) = (cyclone(), rtps());
    let mut subscribers = [&cyclone, &rtps].map(|space| space.subscriber(&topic).unwrap());
    for space in [&cyclone, &rtps] {
        let mut publisher = space.publisher(&topic).unwrap();
        for subscriber in &mut subscribers {
            acquaint(&mut publisher, subscriber);
        }
        publisher.publish(b"to both").unwrap();
        let source = publisher.source();
        for subscriber in &mut subscribers {
            assert_eq!(take_count(subscriber, 1)[0].1, b"to both");
        }
        drop(publisher);
        for subscriber in &mut subscribers {
            expect_event(subscriber, SubscriberEvent::PublisherEnded { source });
        }
    }
}
