//! A subscriber whose program is stopped while it waits: a partition is, at the end of each window. The kernel ends some system
//! calls then with an error.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration as Limit;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::send_signal;
use tailbound_pubsub::{DataSpace, Topic, named_transport};
use tailbound_time::Duration;

#[cfg(feature = "iceoryx2")]
use super::conformance::shared_memory::count_file;

/// The transport and the address of the program that waits.
const TRANSPORT: &str = "STOPPED_WAITER_TRANSPORT";
const ADDRESS: &str = "STOPPED_WAITER_ADDRESS";

/// From asm-generic/signal.h.
const SIGSTOP: i32 = 19;
const SIGCONT: i32 = 18;

#[test]
#[ignore = "a program of the test below"]
fn waiter() {
    let (Ok(name), Ok(address)) = (std::env::var(TRANSPORT), std::env::var(ADDRESS)) else {
        return;
    };
    let transport = named_transport(&name, &address).unwrap().unwrap();
    let space = DataSpace::over(transport, Arc::new(Monotonic));
    let topic = Topic::new("stopped", "bytes", 64);
    let mut subscriber = space.subscriber(&topic).unwrap();
    let publisher = space.publisher(&topic).unwrap();
    let publishing = std::thread::spawn(move || {
        println!("waits");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        publisher
    });
    while !publishing.is_finished() {
        subscriber.wait(Some(Duration::from_millis(100))).unwrap();
        let _ = subscriber.take(|_| ()).unwrap();
    }
    let mut publisher = publishing.join().unwrap();
    let mut is_taken = false;
    while !is_taken {
        publisher.publish(b"after the stops").unwrap();
        subscriber.wait(Some(Duration::from_millis(10))).unwrap();
        is_taken = subscriber
            .take(|message| assert_eq!(message.payload, b"after the stops"))
            .unwrap();
    }
}

fn start(transport: &str, address: &str) -> Child {
    let program = std::env::current_exe().unwrap();
    let arguments = [
        "--exact",
        "interruption::waiter",
        "--ignored",
        "--nocapture",
    ];
    Command::new(program)
        .args(arguments)
        .env(TRANSPORT, transport)
        .env(ADDRESS, address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn a_wait_goes_on_in_a_program_that_was_stopped() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().unwrap().port();
    let run = std::process::id();
    let places = [
        ("udp", format!("127.0.0.1:{port}")),
        ("rtps", format!("127.0.0.1:{}", 150 + run % 50)),
        ("shared-memory", format!("stopped-{run}")),
        ("zeromq", format!("stopped-{run}")),
        ("cyclone-dds", format!("127.0.0.1:{}", 100 + run % 50)),
        ("zenoh", format!("127.0.0.1:{port}")),
    ];
    for (transport, address) in places {
        if tailbound_pubsub::transport_feature(transport).is_some_and(is_left_out) {
            continue;
        }
        let mut waiter = start(transport, &address);
        let mut said = BufReader::new(waiter.stdout.take().unwrap()).lines();
        assert!(
            said.any(|line| line.unwrap().ends_with("waits")),
            "{transport}"
        );
        for _ in 0..10 {
            // Long enough for the wait to have begun, most of the time.
            std::thread::sleep(Limit::from_millis(5));
            send_signal(waiter.id(), SIGSTOP).unwrap();
            while !is_stopped(waiter.id()) {
                std::thread::yield_now();
            }
            send_signal(waiter.id(), SIGCONT).unwrap();
        }
        waiter.stdin.take().unwrap().write_all(b"\n").unwrap();
        said.for_each(drop);
        assert!(waiter.wait().unwrap().success(), "{transport}");
    }
    #[cfg(feature = "iceoryx2")]
    std::fs::remove_file(count_file(&format!("stopped-{run}"))).unwrap();
}

fn is_stopped(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().starts_with('T')
}

/// Whether this build has no transport of the feature.
fn is_left_out(feature: &str) -> bool {
    match feature {
        "iceoryx2" => !cfg!(feature = "iceoryx2"),
        "zeromq" => !cfg!(feature = "zeromq"),
        "cyclone" => !cfg!(feature = "cyclone"),
        "zenoh" => !cfg!(feature = "zenoh"),
        feature => panic!("no transport has the feature {feature}"),
    }
}
