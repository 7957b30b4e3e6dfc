//! The agent's link to the host: lost, silent, flooded, full of garbage.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tailbound_linux::clock::Monotonic;
use tailbound_modes::agent::callback::DomainCallback;
use tailbound_modes::agent::link::{ConnectError, Connector};
use tailbound_modes::agent::{Agent, Patience, TaskEngine};
use tailbound_modes::wire::{AgentMessage, HostMessage, TaskLists, Text, encode};
use tailbound_time::Duration;

use crate::stage::{self, Host, Process, Running, change, eventually, name, signalled};

/// Tasks "a" and "b" that count how often they are switched.
fn counting() -> (impl TaskEngine + Send + 'static, Arc<AtomicUsize>) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    let tasks = [(name("a"), true), (name("b"), false)];
    let engine = DomainCallback::new(tasks, move |_: &TaskLists| {
        counted.fetch_add(1, Ordering::SeqCst);
        Ok(())
    });
    (engine, count)
}

/// An agent that soon leaves a host that does not answer. Tests that must not be left answer at
/// once, and are left all the same where the machine stalls.
fn impatient() -> Patience {
    Patience {
        answer: Duration::from_millis(50),
        pause_least: Duration::from_millis(1),
        pause_most: Duration::from_millis(20),
        ..Patience::default()
    }
}

#[test]
fn a_host_that_was_killed_finds_the_agent_as_it_left_it() {
    let mut host = Host::listen();
    let (engine, switches) = counting();
    let _agent = Running::start(&host, engine);
    let mut peer = host.welcome(0);
    let first = change(1, "calibrate", &["a"], &["b"]);
    let answer = peer.ask(&first);
    drop(peer);
    host.restart();
    let (mut peer, hello) = host.accept();
    let AgentMessage::Hello {
        started,
        change: 1,
        mode,
        ..
    } = hello
    else {
        panic!("{hello:?}");
    };
    assert_eq!((started, mode), (vec![name("b")], Some(name("calibrate"))));
    peer.send(&HostMessage::Welcome {
        domain: name("camera"),
        mode: Some(name("calibrate")),
        change: 1,
    });
    assert_eq!(peer.ask(&first), answer, "the same times as before");
    assert_eq!(switches.load(Ordering::SeqCst), 1);
    peer.expect_done(&HostMessage::Withdraw { change: 1 });
    assert_eq!(switches.load(Ordering::SeqCst), 2);
}

#[test]
fn a_connection_lost_after_the_order_and_before_the_answer_costs_nothing() {
    let process = Process::busy();
    let host = Host::listen();
    let _agent = Running::start(&host, signalled(&[("a", &[&process])]));
    let stop = change(1, "idle", &["a"], &[]);
    let mut peer = host.welcome(0);
    peer.send(&stop);
    drop(peer);
    let mut peer = host.welcome(0);
    peer.expect_done(&stop);
    process.assert_at_rest();
    let start = change(2, "run", &[], &["a"]);
    peer.expect_done(&start);
    process.expect_running();
}

#[test]
fn an_agent_waits_for_its_host_to_be_there() {
    let mut host = Host::listen();
    std::fs::remove_file(host.socket()).unwrap();
    let (engine, _) = counting();
    let _agent = Running::start_with(&host, engine, impatient());
    std::thread::sleep(std::time::Duration::from_millis(30));
    std::fs::write(host.socket(), "").unwrap();
    host.restart();
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "x", &["a"], &[]));
}

#[test]
fn a_host_that_never_welcomes_is_left_and_tried_again() {
    let host = Host::listen();
    let (engine, switches) = counting();
    let agent = Running::start_with(&host, engine, impatient());
    let (mut peer, _) = host.accept();
    // Orders of a host that has not said which domain it means are not followed.
    peer.send_in_vain(&encode(&change(1, "x", &["a"], &[])).unwrap());
    assert_eq!(peer.try_receive(), None);
    let mut peer = host.welcome(0);
    assert_eq!(
        peer.ask(&HostMessage::Ping { nonce: 5 }),
        AgentMessage::Pong { nonce: 5 }
    );
    assert_eq!(switches.load(Ordering::SeqCst), 0);
    let events = agent.end().join("\n");
    assert!(events.contains("Silent"), "{events}");
}

#[test]
fn a_host_that_falls_silent_is_left_where_the_link_does_not_tell() {
    let host = Host::listen();
    let (engine, _) = counting();
    let patience = Patience {
        silence: Some(Duration::from_millis(50)),
        ..impatient()
    };
    let _agent = Running::start_with(&host, engine, patience);
    let mut peer = host.welcome(0);
    assert_eq!(peer.try_receive(), None);
    host.accept();
}

#[test]
fn a_host_of_another_domain_is_left() {
    let host = Host::listen();
    let (engine, switches) = counting();
    let agent = Running::start(&host, engine);
    let (mut peer, _) = host.accept();
    let welcome = HostMessage::Welcome {
        domain: name("lidar"),
        mode: None,
        change: 0,
    };
    peer.send_in_vain(&encode(&welcome).unwrap());
    peer.send_in_vain(&encode(&change(1, "x", &["a"], &[])).unwrap());
    assert_eq!(peer.try_receive(), None);
    assert_eq!(switches.load(Ordering::SeqCst), 0);
    let events = agent.end().join("\n");
    assert!(events.contains("OtherDomain"), "{events}");
}

#[test]
fn a_flood_is_answered_message_by_message_and_switches_once() {
    const TIMES: usize = 5000;
    let host = Host::listen();
    let (engine, switches) = counting();
    let _agent = Running::start(&host, engine);
    let mut peer = host.welcome(0);
    let mut writer = peer.stream.try_clone().unwrap();
    let order = encode(&change(1, "x", &["a"], &["b"])).unwrap();
    let flood = std::thread::spawn(move || writer.write_all(&order.repeat(TIMES)).unwrap());
    let first = peer.receive();
    assert!(
        matches!(first, AgentMessage::Done { change: 1, .. }),
        "{first:?}"
    );
    for _ in 1..TIMES {
        assert_eq!(peer.receive(), first);
    }
    flood.join().unwrap();
    assert_eq!(switches.load(Ordering::SeqCst), 1);
}

#[test]
fn a_host_that_takes_nothing_in_is_left() {
    let host = Host::listen();
    let (engine, _) = counting();
    let _agent = Running::start_with(&host, engine, impatient());
    let mut peer = host.welcome(0);
    let pings = encode(&HostMessage::Ping { nonce: 0 })
        .unwrap()
        .repeat(1000);
    // The agent cannot answer any more, so it stops reading, and then goes.
    while peer.stream.write_all(&pings).is_ok() {}
    let mut peer = host.welcome(0);
    peer.expect_done(&change(1, "x", &["a"], &[]));
}

#[test]
fn an_agent_can_be_ended_in_the_middle_of_a_flood() {
    let host = Host::listen();
    let (engine, _) = counting();
    let agent = Running::start(&host, engine);
    let mut peer = host.welcome(0);
    let mut reader = peer.stream.try_clone().unwrap();
    let pings = encode(&HostMessage::Ping { nonce: 0 }).unwrap().repeat(100);
    let flood = std::thread::spawn(move || while peer.stream.write_all(&pings).is_ok() {});
    let drain = std::thread::spawn(move || {
        let _end = std::io::copy(&mut reader, &mut std::io::sink());
    });
    std::thread::sleep(std::time::Duration::from_millis(20));
    agent.end();
    flood.join().unwrap();
    drain.join().unwrap();
}

/// A link that always has another ping, and takes everything in.
struct Endless {
    nothing: UnixStream,
    pings: Vec<u8>,
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.pings.len().min(into.len());
        into[..count].copy_from_slice(&self.pings[..count]);
        self.pings.rotate_left(count);
        Ok(count)
    }
}

impl Write for Endless {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl AsFd for Endless {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.nothing.as_fd()
    }
}

struct ToEndless(UnixStream);

impl Connector for ToEndless {
    type Link = Endless;

    fn connect(&mut self) -> Result<Endless, ConnectError> {
        Ok(Endless {
            nothing: self.0.try_clone().unwrap(),
            pings: encode(&HostMessage::Ping { nonce: 0 }).unwrap().repeat(7),
        })
    }
}

#[test]
fn an_agent_that_always_has_something_to_read_can_be_ended() {
    let (quiet, _other_end) = UnixStream::pair().unwrap();
    let (engine, _) = counting();
    let domain = name("camera");
    let patience = Patience::default();
    let mut agent = Agent::new(
        domain,
        "boot",
        ToEndless(quiet),
        engine,
        Monotonic,
        patience,
    )
    .unwrap();
    let handle = agent.handle();
    let thread = std::thread::spawn(move || agent.run(&mut |_| {}).unwrap());
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(!thread.is_finished());
    handle.end();
    eventually("it ends", || thread.is_finished());
    thread.join().unwrap();
}

#[test]
fn requests_reach_the_host_and_refusals_come_back() {
    let host = Host::listen();
    let (engine, _) = counting();
    let agent = Running::start(&host, engine);
    // Asked for before there is a connection.
    agent.handle.request(name("calibrate")).unwrap();
    let (mut peer, _) = host.accept();
    peer.send(&stage::welcome(0));
    let asked = |mode| AgentMessage::Request { mode: name(mode) };
    assert_eq!(peer.receive(), asked("calibrate"));
    agent.handle.request(name("run")).unwrap();
    assert_eq!(peer.receive(), asked("run"));
    let refused = HostMessage::Refused {
        mode: name("run"),
        reason: Text::new("not on its list"),
    };
    peer.send(&refused);
    assert_eq!(
        peer.ask(&HostMessage::Ping { nonce: 1 }),
        AgentMessage::Pong { nonce: 1 }
    );
    let events = agent.end().join("\n");
    assert!(events.contains("not on its list"), "{events}");
}

#[test]
fn more_requests_than_the_host_can_be_told_are_refused() {
    let host = Host::listen();
    let (engine, _) = counting();
    let agent = Running::start(&host, engine);
    let taken = (0..100)
        .filter(|_| agent.handle.request(name("run")).is_ok())
        .count();
    assert!((1..100).contains(&taken), "{taken}");
    let (mut peer, _) = host.accept();
    peer.send(&stage::welcome(0));
    for _ in 0..taken {
        assert!(matches!(peer.receive(), AgentMessage::Request { .. }));
    }
    eventually("there is room again", || {
        agent.handle.request(name("run")).is_ok()
    });
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn garbage_ends_the_connection_and_nothing_else(
        garbage in prop::collection::vec(any::<u8>(), 0..300),
        is_welcomed: bool,
        starts_well: bool,
    ) {
        let host = Host::listen();
        let (engine, switches) = counting();
        let _agent = Running::start_with(&host, engine, impatient());
        let mut peer = if is_welcomed { host.welcome(0) } else { host.accept().0 };
        if starts_well {
            peer.send_in_vain(b"TM\x00\x01\x00\x00\x00\x40");
        }
        peer.send_in_vain(&garbage);
        drop(peer);
        let mut peer = host.welcome(0);
        peer.expect_done(&change(1, "x", &["a"], &["b"]));
        prop_assert_eq!(switches.load(Ordering::SeqCst), 1);
    }
}
