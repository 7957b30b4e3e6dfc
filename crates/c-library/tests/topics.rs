//! Topics between programs in C or C++ and this one.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::process::Child;
use std::sync::Arc;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::{
    DataOrigin, DataSpace, Publisher, Subscriber, Topic, Udp, UdpRoute, named_transport,
};
use tailbound_time::{Duration, Instant};

use crate::programs::{Language, Linkage, compile, run, start};

#[test]
fn a_program_in_c_uses_everything_within_its_process() {
    for linkage in [Linkage::Shared, Linkage::Static] {
        if let Some(program) = compile("within_process.c", Language::C, linkage) {
            run(&program);
        }
    }
}

#[test]
fn null_pointers_and_garbage_give_error_codes() {
    if let Some(program) = compile("refusals.c", Language::C, Linkage::Shared) {
        run(&program);
    }
}

/// Ports of UDP that nobody has just now.
fn free_ports<const N: usize>() -> [u16; N] {
    let sockets = [(); N].map(|()| UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    sockets.map(|socket| socket.local_addr().unwrap().port())
}

/// Sends messages of several lengths to a program that sends them back, with origins; then lets it end.
fn check_echo(mut echo: Child, publisher: &mut Publisher, subscriber: &mut Subscriber) {
    let ends = |length: usize| format!("{length}-{}", "x".repeat(length));
    for length in [0, 1, 100, 200] {
        let payload = ends(length);
        let origin = DataOrigin::at(Instant::from_nanos(1_000 + length as u64));
        let mut answered = false;
        // The program may not listen yet, and datagrams may be lost.
        for _ in 0..400 {
            publisher.publish_from(origin, payload.as_bytes()).unwrap();
            subscriber.wait(Some(Duration::from_millis(50))).unwrap();
            while subscriber
                .take(|message| {
                    // Late answers to the length before are none to this one.
                    if message.payload == payload.as_bytes() {
                        assert_eq!(message.origin(), origin);
                        assert_eq!(message.header.instance, 0);
                        answered = true;
                    }
                })
                .unwrap()
            {}
            if answered {
                break;
            }
            assert_eq!(echo.try_wait().unwrap(), None, "the program ended");
        }
        assert!(answered, "no answer to {length} bytes");
    }
    for _ in 0..400 {
        publisher.publish(b"end").unwrap();
        if let Some(status) = echo.try_wait().unwrap() {
            assert!(status.success(), "{status}");
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    panic!("the program goes on after the last message");
}

fn topic(name: &str) -> Topic {
    let mut topic = Topic::new(name, "bytes", 256);
    topic.quality.history = 16;
    topic
}

fn check_program(source: &str, language: Language, linkage: Linkage) {
    let Some(program) = compile(source, language, linkage) else {
        return;
    };
    let [port, own, other] = free_ports();
    let multicast = DataSpace::over(
        Box::new(Udp::multicast(Ipv4Addr::LOCALHOST, port)),
        Arc::new(Monotonic),
    );
    let [own, other] = [own, other].map(|port| SocketAddrV4::new(Ipv4Addr::LOCALHOST, port));
    let ping = UdpRoute {
        listen: None,
        peers: vec![other],
    };
    let pong = UdpRoute {
        listen: Some(own),
        peers: Vec::new(),
    };
    let routes = BTreeMap::from([("ping".to_owned(), ping), ("pong".to_owned(), pong)]);
    let unicast = DataSpace::over(Box::new(Udp::unicast(routes)), Arc::new(Monotonic));
    let port_of_named = free_ports::<1>()[0];
    // A domain of its own, so that programs which run beside are in others.
    let domain = 100 + std::process::id() % 100;
    let mut named = vec![
        ("udp", format!("127.0.0.1:{port_of_named}")),
        ("rtps", format!("lo:{domain}")),
    ];
    if cfg!(feature = "cyclone") {
        named.push(("cyclone-dds", format!("127.0.0.1:{domain}")));
    }
    let words = |words: [&str; 3]| words.map(str::to_owned);
    let (port, own, other) = (port.to_string(), own.to_string(), other.to_string());
    let mut trials = vec![
        (multicast, words(["multicast", "127.0.0.1", &port])),
        (unicast, words(["unicast", &other, &own])),
    ];
    for (transport, address) in &named {
        let opened = named_transport(transport, address).unwrap().unwrap();
        let space = DataSpace::over(opened, Arc::new(Monotonic));
        trials.push((space, words([transport, address, "-"])));
    }
    for (space, arguments) in trials {
        let mut subscriber = space.subscriber(&topic("pong")).unwrap();
        let mut publisher = space.publisher(&topic("ping")).unwrap();
        check_echo(start(&program, &arguments), &mut publisher, &mut subscriber);
    }
}

#[test]
fn a_program_in_c_exchanges_messages_with_one_in_rust() {
    check_program("echo.c", Language::C, Linkage::Shared);
}

#[test]
fn programs_in_cpp_exchange_messages_with_one_in_rust() {
    check_program("echo.cc", Language::Cpp17, Linkage::Shared);
    check_program("echo.cc", Language::Cpp20, Linkage::Static);
}
