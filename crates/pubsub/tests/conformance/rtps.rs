//! The transport over RTPS: the suite within one program, reliable messages between two, foreign bytes, and the end of programs.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Reliability, SubscriberEvent};
use tailbound_pubsub::{DataSpace, Rtps, Topic, Transport};

use super::stage::{acquaint, expect_event, pair, take_all, take_count, topic, until};
use super::{TransportMaker, check};

/// The number of messages that a program of the tests sends in a row.
const COUNT: u32 = 200;

struct RtpsMaker(u16);

impl TransportMaker for RtpsMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(Rtps::join(self.0, Ipv4Addr::LOCALHOST).unwrap())
    }

    fn delivers_at_once(&self) -> bool {
        true
    }

    fn topics(&self) -> usize {
        100
    }
}

/// A domain that another run of the tests hardly has, one for each purpose. The ports of lower domains are none that the kernel
/// gives to others.
fn domain(purpose: u16) -> u16 {
    let run = u16::try_from(std::process::id() % 18).unwrap();
    1 + run * 5 + purpose
}

fn join(domain: u16) -> Rtps {
    Rtps::join(domain, Ipv4Addr::LOCALHOST).unwrap()
}

fn space(transport: &Rtps) -> DataSpace {
    DataSpace::over(Box::new(transport.clone()), Arc::new(Monotonic))
}

#[test]
fn rtps_conforms() {
    check(&RtpsMaker(domain(0)));
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
    let space = space(&join(domain.parse().unwrap()));
    let mut publisher = space.publisher(&reliable_topic()).unwrap();
    let mut subscriber = space.subscriber(&topic("demand")).unwrap();
    // The program ends by itself if the test dies before it asks for the messages.
    let begin = std::time::Instant::now();
    while begin.elapsed().as_secs() < 20 && take_all(&mut subscriber).is_empty() {
        publisher.assert_liveliness().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    for number in 0..COUNT {
        publisher
            .publish(&number.to_le_bytes().repeat(16_000))
            .unwrap();
    }
}

fn start_publisher(domain: u16) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "conformance::rtps::publishing_program",
        ])
        .env("TAILBOUND_TEST_DOMAIN", domain.to_string())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn the_longest_messages_come_whole_and_in_order_from_another_program_that_ends_at_once() {
    let domain = domain(1);
    let space = space(&join(domain));
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
    let source = source.unwrap();
    expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
    assert!(program.wait().unwrap().success());
}

#[test]
fn a_reliable_subscriber_does_not_hear_a_best_effort_publisher() {
    let transport = join(domain(2));
    let space = space(&transport);
    let mut reliable = topic("mismatch");
    reliable.quality.reliability = Reliability::Reliable;
    let mut subscriber = space.subscriber(&reliable).unwrap();
    let mut publisher = space.publisher(&topic("mismatch")).unwrap();
    let mut witness = space.subscriber(&topic("mismatch")).unwrap();
    acquaint(&mut publisher, &mut witness);
    publisher.publish(b"unheard").unwrap();
    assert_eq!(take_count(&mut witness, 1)[0].1, b"unheard");
    assert!(take_all(&mut subscriber).is_empty());
    assert!(transport.refusals() >= 1);
}

#[test]
fn garbage_at_the_sockets_of_discovery_is_counted() {
    let domain = domain(3);
    let transport = join(domain);
    let garbage: [&[u8]; 4] = [
        b"garbage",
        b"RTPS\x01\x00\x00\x00............",
        b"RTPS\x02\x03\x00\x00............\x15\x05\xff\x00....",
        b"RTPS\x02\x03\x01\x0f............\x80\x01\x04\x00....",
    ];
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let group = SocketAddrV4::new(Ipv4Addr::new(239, 255, 0, 1), 7_400 + 250 * domain);
    until("garbage is counted", || {
        for bytes in garbage {
            socket.send_to(bytes, group).unwrap();
        }
        transport.refusals() >= 8
    });
    // Discovery goes on.
    let (mut publisher, mut subscriber) = pair(&space(&transport), &topic("after-garbage"));
    publisher.publish(b"good").unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"good");
}

#[test]
fn the_port_of_a_participant_that_ended_is_free_again() {
    let domain = domain(4);
    let port = 7_400 + 250 * domain + 10;
    let is_free = || UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    assert!(is_free());
    let transport = join(domain);
    let space = space(&transport);
    let publisher = space.publisher(&topic("end")).unwrap();
    drop((transport, space));
    assert!(!is_free(), "the publisher keeps its participant");
    drop(publisher);
    assert!(is_free());
}

#[test]
fn what_a_domain_and_a_topic_cannot_be_is_refused_by_name() {
    let error = Rtps::join(231, Ipv4Addr::LOCALHOST)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("domain 231") && error.contains("230"),
        "{error}"
    );
    // An address for documentation, which no interface has.
    let nowhere = Ipv4Addr::new(192, 0, 2, 1);
    let error = Rtps::join(0, nowhere).unwrap_err().to_string();
    assert!(error.contains("192.0.2.1"), "{error}");
    let space = space(&join(domain(3)));
    for name in ["", "a\0b", &"a".repeat(256)] {
        let error = space.publisher(&topic(name)).unwrap_err().to_string();
        assert!(error.contains("1 to 255 bytes"), "{error}");
    }
}
