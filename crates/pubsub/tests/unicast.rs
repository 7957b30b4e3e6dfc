//! Datagrams to the addresses of a route.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{DataSpace, Topic, Udp, UdpRoute};
use tailbound_time::Duration;

fn space(topic: &str, listen: Option<SocketAddrV4>, peers: Vec<SocketAddrV4>) -> DataSpace {
    let routes = BTreeMap::from([(topic.to_owned(), UdpRoute { listen, peers })]);
    DataSpace::over(Box::new(Udp::unicast(routes)), Arc::new(Monotonic))
}

/// Addresses at which nobody receives.
fn free_addresses(count: usize) -> Vec<SocketAddrV4> {
    let sockets = (0..count).map(|_| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let sockets = sockets.collect::<Vec<_>>();
    let port = |socket: &UdpSocket| socket.local_addr().unwrap().port();
    sockets
        .iter()
        .map(|socket| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port(socket)))
        .collect()
}

#[test]
fn each_peer_of_a_route_gets_a_message_and_an_absent_one_costs_nothing() {
    let addresses = free_addresses(3);
    let topic = Topic::new("people", "bytes", 64);
    let mut publisher = space("people", None, addresses.clone())
        .publisher(&topic)
        .unwrap();
    // Nobody receives yet. The kernel says so in place of sending the next datagram, so of an odd number the last one leaves
    // its answer to the datagram that counts.
    for _ in 0..3 {
        publisher.publish(b"before").unwrap();
    }
    let mut subscribers = addresses[1..]
        .iter()
        .map(|address| {
            space("people", Some(*address), Vec::new())
                .subscriber(&topic)
                .unwrap()
        })
        .collect::<Vec<_>>();
    publisher.publish(b"to all").unwrap();
    for subscriber in &mut subscribers {
        assert!(subscriber.wait(Some(Duration::from_secs(20))).unwrap());
        let taken = subscriber.take(|message| assert_eq!(message.payload, b"to all"));
        assert!(taken.unwrap());
        assert_eq!(subscriber.dropped_by_transport(), Some(0));
    }
}

#[test]
fn messages_that_come_after_a_wait_are_taken_with_those_before() {
    let address = free_addresses(1)[0];
    let mut topic = Topic::new("people", "bytes", 64);
    topic.quality.history = 4;
    let mut subscriber = space("people", Some(address), Vec::new())
        .subscriber(&topic)
        .unwrap();
    let mut publisher = space("people", None, vec![address])
        .publisher(&topic)
        .unwrap();
    publisher.publish(&[0]).unwrap();
    assert!(subscriber.wait(None).unwrap());
    publisher.publish(&[1]).unwrap();
    let mut taken = Vec::new();
    while subscriber
        .take(|message| taken.push(message.payload[0]))
        .unwrap()
    {}
    assert_eq!(taken, [0, 1]);
}

#[test]
fn what_the_kernel_drops_is_counted() {
    let address = free_addresses(1)[0];
    let topic = Topic::new("people", "bytes", 1_024);
    let mut subscriber = space("people", Some(address), Vec::new())
        .subscriber(&topic)
        .unwrap();
    let mut publisher = space("people", None, vec![address])
        .publisher(&topic)
        .unwrap();
    let mut sent = 0_u64;
    while subscriber.dropped_by_transport() == Some(0) {
        publisher.publish(&[0; 1_024]).unwrap();
        sent += 1;
    }
    let mut newest = 0;
    while subscriber
        .take(|message| newest = message.header.sequence)
        .unwrap()
    {}
    assert_eq!(newest, sent - 2, "the kernel dropped one, the last");
}

#[test]
fn a_topic_without_an_address_is_refused_with_its_name() {
    let topic = Topic::new("people", "bytes", 64);
    let error = space("others", None, Vec::new())
        .publisher(&topic)
        .unwrap_err();
    assert!(
        error
            .to_string()
            .contains("topic `people`: it has no route"),
        "{error}"
    );
    let error = space("people", None, Vec::new())
        .subscriber(&topic)
        .unwrap_err();
    assert!(
        error.to_string().contains("no address to listen at"),
        "{error}"
    );
}

#[test]
fn messages_that_need_too_much_memory_are_refused() {
    let mut topic = Topic::new("people", "bytes", 1 << 20);
    topic.quality.history = 4_096;
    let address = free_addresses(1)[0];
    let error = space("people", Some(address), Vec::new())
        .subscriber(&topic)
        .unwrap_err();
    assert!(error.to_string().contains("history times size"), "{error}");
}
