//! The transport over ZeroMQ: the suite on one host, and what routes and foreign peers do.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::SubscriberEvent;
use tailbound_pubsub::{DataSpace, Topic, Transport, ZeroMq, ZeroMqRoute};

use super::stage::{acquaint, expect_event, take_all, take_count, topic, until};
use super::{TransportMaker, check};

struct ZeroMqMaker(String);

impl TransportMaker for ZeroMqMaker {
    fn make(&self) -> Box<dyn Transport> {
        Box::new(ZeroMq::on_host(&self.0).unwrap())
    }

    fn delivers_at_once(&self) -> bool {
        false
    }

    fn topics(&self) -> usize {
        100
    }
}

/// A data space that no other run of the tests has.
fn space_name(purpose: &str) -> String {
    format!("{purpose}-{}", std::process::id())
}

fn space(transport: ZeroMq) -> DataSpace {
    DataSpace::over(Box::new(transport), Arc::new(Monotonic))
}

/// Addresses at which nobody listens.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let listeners = listeners.collect::<Vec<_>>();
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    listeners.iter().map(address).collect()
}

fn routed_space(topic: &str, route: ZeroMqRoute) -> DataSpace {
    space(ZeroMq::over_tcp(BTreeMap::from([(
        topic.to_owned(),
        route,
    )])))
}

#[test]
fn zero_mq_conforms() {
    check(&ZeroMqMaker(space_name("suite")));
}

#[test]
fn publishers_take_the_addresses_of_their_route_and_one_too_many_is_refused() {
    let addresses = free_addresses(2);
    let mut topic = topic("routed");
    topic.publishers = 2;
    let space = routed_space(
        "routed",
        ZeroMqRoute {
            listen: addresses.clone(),
            publishers: addresses,
        },
    );
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut publishers = [(); 2].map(|()| space.publisher(&topic).unwrap());
    for publisher in &mut publishers {
        acquaint(publisher, &mut subscriber);
        publisher.publish(b"over TCP").unwrap();
        assert_eq!(take_count(&mut subscriber, 1)[0].1, b"over TCP");
    }
    let error = space.publisher(&topic).unwrap_err().to_string();
    assert!(error.contains("of its 2 addresses"), "{error}");
}

#[test]
fn a_topic_without_an_address_is_refused_with_its_name() {
    let other = routed_space("others", ZeroMqRoute::default());
    let error = other.publisher(&topic("routed")).unwrap_err().to_string();
    assert!(error.contains("`routed`: it has no route"), "{error}");
    let error = other.subscriber(&topic("others")).unwrap_err().to_string();
    assert!(error.contains("no address of a publisher"), "{error}");
}

#[test]
fn garbage_of_a_foreign_publisher_is_counted_and_a_message_too_long_cuts_it_off() {
    let addresses = free_addresses(2);
    let mut topic = topic("foreign");
    topic.publishers = 2;
    let space = routed_space(
        "foreign",
        ZeroMqRoute {
            listen: vec![addresses[1]],
            publishers: addresses.clone(),
        },
    );
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut publisher = space.publisher(&topic).unwrap();
    acquaint(&mut publisher, &mut subscriber);
    let foreign = zmq::Context::new().socket(zmq::PUB).unwrap();
    foreign.bind(&format!("tcp://{}", addresses[0])).unwrap();
    foreign.set_linger(0).unwrap();
    until("garbage arrives", || {
        foreign.send(&b"garbage"[..], 0).unwrap();
        foreign.send(&vec![7; 200][..], 0).unwrap();
        assert!(take_all(&mut subscriber).is_empty());
        subscriber.counts().garbage >= 4
    });
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert!(take_all(&mut subscriber).is_empty());
    let garbage = subscriber.counts().garbage;
    // Header and payload of the topic are 320 bytes long.
    for _ in 0..20 {
        foreign.send(&vec![7; 321][..], 0).unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    publisher.publish(b"good").unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"good");
    assert_eq!(subscriber.counts().garbage, garbage);
}

/// The program that [`the_address_of_a_killed_publisher_is_free_again`] kills; without the name of a space it does nothing.
#[test]
fn publishing_program() {
    let Ok(name) = std::env::var("TAILBOUND_TEST_SPACE") else {
        return;
    };
    let mut publisher = space(ZeroMq::on_host(&name).unwrap())
        .publisher(&topic("killed"))
        .unwrap();
    // The program ends by itself if the test dies before it kills it.
    for _ in 0..20_000 {
        publisher.publish(b"here").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn the_address_of_a_killed_publisher_is_free_again() {
    let name = space_name("killed");
    let space = space(ZeroMq::on_host(&name).unwrap());
    let topic = topic("killed");
    let mut subscriber = space.subscriber(&topic).unwrap();
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "conformance::zero_mq::publishing_program"])
        .env("TAILBOUND_TEST_SPACE", &name)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"here");
    let error = space.publisher(&topic).unwrap_err().to_string();
    assert!(error.contains("none is free"), "{error}");
    program.kill().unwrap();
    program.wait().unwrap();
    let mut heir = space.publisher(&topic).unwrap();
    until("the heir takes the place of the killed publisher", || {
        heir.publish(b"heir").unwrap();
        take_all(&mut subscriber)
            .iter()
            .any(|(_, payload)| payload == b"heir")
    });
}

#[test]
fn the_last_messages_of_a_program_that_ends_arrive() {
    let name = space_name("end");
    let subscribing = space(ZeroMq::on_host(&name).unwrap());
    let publishing = space(ZeroMq::on_host(&name).unwrap());
    let mut topic = topic("end");
    topic.longest = 1 << 20;
    let mut subscriber = subscribing.subscriber(&topic).unwrap();
    let mut publisher = publishing.publisher(&topic).unwrap();
    acquaint(&mut publisher, &mut subscriber);
    for _ in 0..8 {
        publisher.publish(&vec![7; 1 << 20]).unwrap();
    }
    let source = publisher.source();
    drop(publisher);
    drop(publishing);
    assert_eq!(take_count(&mut subscriber, 8).len(), 8);
    expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
}

#[test]
fn what_is_beyond_the_memory_is_refused() {
    let mut topic = Topic::new("large", "bytes", 1 << 20);
    topic.quality.history = 4_096;
    let space = space(ZeroMq::on_host(&space_name("large")).unwrap());
    for error in [
        space.publisher(&topic).unwrap_err().to_string(),
        space.subscriber(&topic).unwrap_err().to_string(),
    ] {
        assert!(error.contains("topic `large` be at most"), "{error}");
    }
    let error = ZeroMq::on_host("a/b").unwrap_err().to_string();
    assert!(error.contains("1 to 32 letters"), "{error}");
}
