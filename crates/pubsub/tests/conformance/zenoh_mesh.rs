//! The transport over Zenoh: the suite on loopback, and what goes from program to program.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::{Command, Stdio};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::SubscriberEvent;
use tailbound_pubsub::{DataSpace, Topic, Transport, ZenohMesh};

use super::stage::{expect_event, take_count, topic, until};
use super::{TransportMaker, check};

struct ZenohMaker(Vec<SocketAddr>);

impl TransportMaker for ZenohMaker {
    fn make(&self) -> Box<dyn Transport> {
        // The addresses of transports that were dropped are free again a little later.
        let mut joined = None;
        until("an address is free", || {
            joined = ZenohMesh::among(&self.0).ok();
            joined.is_some()
        });
        Box::new(joined.unwrap())
    }

    fn delivers_at_once(&self) -> bool {
        false
    }

    fn topics(&self) -> usize {
        100
    }
}

/// Addresses at which nobody listens.
fn free_addresses(count: usize) -> Vec<SocketAddr> {
    let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let listeners = listeners.collect::<Vec<_>>();
    let address = |listener: &TcpListener| listener.local_addr().unwrap();
    listeners.iter().map(address).collect()
}

fn space(addresses: &[SocketAddr]) -> DataSpace {
    let transport = ZenohMesh::among(addresses).unwrap();
    DataSpace::over(Box::new(transport), Arc::new(Monotonic))
}

#[test]
fn zenoh_conforms() {
    check(&ZenohMaker(free_addresses(4)));
}

/// The program that [`a_killed_publisher_leaves_its_address_to_the_next`] kills; without addresses it does nothing.
#[test]
fn publishing_program() {
    let Ok(addresses) = std::env::var("TAILBOUND_TEST_ADDRESSES") else {
        return;
    };
    let addresses = addresses.split(',').map(|address| address.parse().unwrap());
    let space = space(&addresses.collect::<Vec<_>>());
    let mut publisher = space.publisher(&topic("killed")).unwrap();
    // The program ends by itself if the test dies before it kills it.
    for _ in 0..20_000 {
        publisher.publish(b"here").unwrap();
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

#[test]
fn a_killed_publisher_leaves_its_address_to_the_next() {
    let addresses = free_addresses(2);
    let subscribing = space(&addresses);
    let topic = topic("killed");
    let mut subscriber = subscribing.subscriber(&topic).unwrap();
    let list = addresses
        .iter()
        .map(SocketAddr::to_string)
        .collect::<Vec<_>>();
    let mut program = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "--nocapture",
            "conformance::zenoh_mesh::publishing_program",
        ])
        .env("TAILBOUND_TEST_ADDRESSES", list.join(","))
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    assert_eq!(take_count(&mut subscriber, 1)[0].1, b"here");
    let error = ZenohMesh::among(&addresses).unwrap_err().to_string();
    assert!(error.contains("one of 2 addresses"), "{error}");
    program.kill().unwrap();
    program.wait().unwrap();
    let heir = space(&addresses);
    let mut publisher = heir.publisher(&topic).unwrap();
    until("the heir takes the place of the killed publisher", || {
        publisher.publish(b"heir").unwrap();
        super::stage::take_all(&mut subscriber)
            .iter()
            .any(|(_, payload)| payload == b"heir")
    });
    let source = publisher.source();
    drop(publisher);
    expect_event(&mut subscriber, SubscriberEvent::PublisherEnded { source });
}

#[test]
fn what_is_beyond_the_memory_and_no_address_is_refused() {
    let mut topic = Topic::new("large", "bytes", 1 << 20);
    topic.quality.history = 4_096;
    let space = space(&free_addresses(1));
    for error in [
        space.publisher(&topic).unwrap_err().to_string(),
        space.subscriber(&topic).unwrap_err().to_string(),
    ] {
        assert!(error.contains("topic `large` be at most"), "{error}");
    }
    let error = ZenohMesh::among(&[]).unwrap_err().to_string();
    assert!(error.contains("there is no address"), "{error}");
}
