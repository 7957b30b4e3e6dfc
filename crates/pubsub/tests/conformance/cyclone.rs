//! The transport over Cyclone DDS: the suite within one program, and what goes over the network between two.

use std::net::Ipv4Addr;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Reliability, SubscriberEvent};
use tailbound_pubsub::{CycloneDds, DataSpace, Topic, Transport};

use super::stage::{expect_event, take_all, topic, until};
use super::{TransportMaker, check};

/// The number of messages that a program of the tests sends in a row.
const COUNT: u32 = 200;

struct CycloneMaker(u32);

impl TransportMaker for CycloneMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(CycloneDds::join(self.0, Ipv4Addr::LOCALHOST).unwrap())
    }

    fn delivers_at_once(&self) -> bool {
        false
    }

    fn topics(&self) -> usize {
        100
    }
}

/// A domain that another run of the tests hardly has, one for each purpose.
fn domain(purpose: u32) -> u32 {
    10 + (std::process::id() * 4 + purpose) % 200
}

fn space(domain: u32) -> DataSpace {
    let transport = CycloneDds::join(domain, Ipv4Addr::LOCALHOST).unwrap();
    DataSpace::over(Box::new(transport), Arc::new(Monotonic))
}

#[test]
fn cyclone_dds_conforms() {
    check(&CycloneMaker(domain(0)));
}

/// A topic of the longest messages, which are sent again if they are lost.
fn reliable_topic() -> Topic {
    let mut topic = topic("reliable");
    topic.longest = 64_000;
    topic.quality.history = COUNT;
    topic.quality.reliability = Reliability::Reliable;
    topic
}

/// The program that other tests start; without the number of a domain it does nothing.
#[test]
fn publishing_program() {
    let Ok(domain) = std::env::var("TAILBOUND_TEST_DOMAIN") else {
        return;
    };
    let space = space(domain.parse().unwrap());
    let mut publisher = space.publisher(&reliable_topic()).unwrap();
    let mut subscriber = space.subscriber(&topic("demand")).unwrap();
    // The program ends by itself if the test dies before it asks for the messages.
    let begin = std::time::Instant::now();
    while begin.elapsed().as_secs() < 20 && take_all(&mut subscriber).is_empty() {
        publisher.assert_liveliness().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for number in 0..COUNT {
        let payload = number.to_le_bytes().repeat(16_000);
        // Messages that were not acknowledged yet fill the memory of the writer, which refuses more.
        until("there is room for the message", || {
            publisher.publish(&payload).is_ok()
        });
    }
    // What is lost on the way is sent again while the publisher lives.
    until("the test has everything", || {
        take_all(&mut subscriber)
            .iter()
            .any(|(_, payload)| payload == b"enough")
    });
}

fn start_publisher(domain: u32) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "conformance::cyclone::publishing_program",
        ])
        .env("TAILBOUND_TEST_DOMAIN", domain.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn the_longest_messages_come_whole_and_in_order_from_another_program() {
    let domain = domain(1);
    let space = space(domain);
    let mut subscriber = space.subscriber(&reliable_topic()).unwrap();
    let mut demand = space.publisher(&topic("demand")).unwrap();
    let mut program = start_publisher(domain);
    let mut source = None;
    until("the publisher appears", || {
        let _ = take_all(&mut subscriber);
        let appeared =
            std::iter::from_fn(|| subscriber.take_event()).find_map(|event| match event {
                SubscriberEvent::Appeared { source } => Some(source),
                _ => None,
            });
        source = source.or(appeared);
        source.is_some()
    });
    let mut messages = Vec::new();
    until("all messages arrive", || {
        if messages.is_empty() {
            demand.publish(b"more").unwrap();
        }
        messages.extend(take_all(&mut subscriber));
        messages.len() == COUNT as usize
    });
    for (number, (_, payload)) in (0_u32..).zip(&messages) {
        assert!(*payload == number.to_le_bytes().repeat(16_000), "{number}");
    }
    assert_eq!(subscriber.counts().lost, 0);
    let mut enough = || demand.publish(b"enough").unwrap();
    let source = source.unwrap();
    until("the program ends", || {
        enough();
        program.try_wait().unwrap().is_some()
    });
    assert!(program.wait().unwrap().success());
    expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
}

#[test]
fn what_a_domain_cannot_be_is_refused_by_name() {
    let error = CycloneDds::join(231, Ipv4Addr::LOCALHOST)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("domain 231") && error.contains("230"),
        "{error}"
    );
    // An address for documentation, which no interface has.
    let nowhere = Ipv4Addr::new(192, 0, 2, 1);
    let error = CycloneDds::join(domain(2), nowhere)
        .unwrap_err()
        .to_string();
    assert!(error.contains("192.0.2.1"), "{error}");
    let joined = domain(3);
    let _ = space(joined);
    let error = CycloneDds::join(joined, nowhere).unwrap_err().to_string();
    assert!(error.contains("joined it over 127.0.0.1"), "{error}");
}

#[test]
fn a_topic_with_a_name_that_dds_cannot_have_is_refused() {
    let error = space(domain(3))
        .publisher(&topic("a\0b"))
        .unwrap_err()
        .to_string();
    assert!(error.contains("open topic"), "{error}");
}
