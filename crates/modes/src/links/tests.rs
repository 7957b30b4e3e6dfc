//! Connections over real sockets: who is let in, and what ends one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::io::{Read, Write};

use proptest::prelude::*;
use tailbound_control::frame::decode;
use tailbound_linux::clock::Monotonic;
use tailbound_time::{ClockId, VirtualClock};

use super::*;
use crate::wire::{AgentClock, decoder, encode};

struct LinkHost {
    links: AgentLinks<Monotonic>,
    commands: Commands,
    socket: std::path::PathBuf,
    _folder: tempfile::TempDir,
}

/// A host that lets agents of all domains in but those of `other`.
fn host() -> LinkHost {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("modes.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let authority: Authority = Box::new(|_, domain| match domain {
        "other" => Err("not you".into()),
        _ => Ok(()),
    });
    let (links, commands) = AgentLinks::new(listener, authority, Monotonic).unwrap();
    LinkHost {
        links,
        commands,
        socket,
        _folder: folder,
    }
}

fn soon() -> Option<Instant> {
    Some(Monotonic.now() + Duration::from_millis(20))
}

impl LinkHost {
    fn news(&mut self) -> Option<AgentEvent> {
        self.links.wait(soon())
    }

    /// All news until there are none for a while.
    fn all_news(&mut self) -> Vec<AgentEvent> {
        std::iter::from_fn(|| self.news()).collect()
    }

    fn agent(&self) -> UnixStream {
        let stream = UnixStream::connect(&self.socket).unwrap();
        let limit = std::time::Duration::from_millis(500);
        stream.set_read_timeout(Some(limit)).unwrap();
        stream
    }
}

fn name(text: &str) -> Name {
    Name::try_from(text.to_owned()).unwrap()
}

fn say(stream: &UnixStream, message: &AgentMessage) {
    (&mut &*stream)
        .write_all(&encode(message).unwrap())
        .unwrap();
}

fn hello(domain: &str, change: u64) -> AgentMessage {
    AgentMessage::Hello {
        domain: name(domain),
        agent: Text::new("test"),
        clock: AgentClock {
            id: ClockId::Monotonic,
            boot: Text::new(tailbound_linux::process::boot_id().unwrap()),
        },
        tasks: Vec::new(),
        started: Vec::new(),
        change,
        mode: None,
    }
}

/// What the host has said; `None` if it has ended the connection.
fn heard(stream: &UnixStream) -> Option<HostMessage> {
    let mut decoder = decoder();
    let mut bytes = [0; 4096];
    loop {
        if let Some(payload) = decoder.next_payload().unwrap() {
            return Some(decode(&payload).unwrap());
        }
        match (&mut &*stream).read(&mut bytes) {
            Ok(0) | Err(_) => return None,
            Ok(count) => decoder.push(&bytes[..count]),
        }
    }
}

fn joined(domain: &str, number: u64) -> AgentEvent {
    AgentEvent::Joined {
        domain: domain.into(),
        number,
    }
}

#[test]
fn an_agent_joins_answers_and_leaves() {
    let mut host = host();
    let agent = host.agent();
    say(&agent, &hello("arm", 7));
    assert_eq!(host.news(), Some(joined("arm", 7)));
    assert!(matches!(
        heard(&agent),
        Some(HostMessage::Welcome { change: 7, .. })
    ));
    assert_eq!(host.links.present(), ["arm"]);
    let order = Order::Change {
        number: 8,
        mode: "rest".into(),
        stop: vec!["move".into()],
        start: vec!["hold".into()],
    };
    assert!(host.links.send("arm", order.clone()));
    assert!(!host.links.send("camera", order), "it has no agent");
    assert!(matches!(
        heard(&agent),
        Some(HostMessage::Change { change: 8, .. })
    ));
    let now = Monotonic.now();
    say(
        &agent,
        &AgentMessage::Done {
            change: 8,
            received_ns: now,
            switched_ns: now + Duration::from_secs(3_600),
        },
    );
    let Some(AgentEvent::Done {
        number,
        received_at,
        switched_at,
        ..
    }) = host.news()
    else {
        panic!("no answer");
    };
    // A time that has not come is no time of an answer.
    assert_eq!((number, received_at), (8, now));
    assert!(switched_at <= Monotonic.now());
    let mode = name("calibrate");
    say(&agent, &AgentMessage::Request { mode });
    let by = Asker::Domain("arm".into());
    let mode = "calibrate".to_owned();
    assert_eq!(host.news(), Some(AgentEvent::Asked { by, mode }));
    host.links.refuse("arm", "calibrate", "not now");
    assert!(matches!(heard(&agent), Some(HostMessage::Refused { .. })));
    drop(agent);
    let domain = "arm".to_owned();
    assert_eq!(host.news(), Some(AgentEvent::Left { domain }));
    assert_eq!(host.links.refused(), 0);
}

#[test]
fn times_of_another_clock_are_those_of_the_arrival() {
    let mut host = host();
    let agent = host.agent();
    let mut elsewhere = hello("arm", 0);
    if let AgentMessage::Hello { clock, .. } = &mut elsewhere {
        clock.boot = Text::new("another machine");
    }
    say(&agent, &elsewhere);
    host.news();
    let before = Monotonic.now();
    let long_ago = Instant::from_nanos(5);
    say(
        &agent,
        &AgentMessage::Done {
            change: 1,
            received_ns: long_ago,
            switched_ns: long_ago,
        },
    );
    let Some(AgentEvent::Done { received_at, .. }) = host.news() else {
        panic!("no answer");
    };
    assert!(received_at >= before);
}

#[test]
fn who_may_not_is_not_let_in() {
    let mut host = host();
    let agent = host.agent();
    say(&agent, &hello("other", 0));
    assert_eq!(host.news(), None);
    assert_eq!(heard(&agent), None);
    // Nor does anybody change modes who has not said who he is.
    let stranger = host.agent();
    say(&stranger, &AgentMessage::Request { mode: name("run") });
    assert_eq!(host.news(), None);
    assert_eq!(heard(&stranger), None);
    assert_eq!(host.links.refused(), 2);
}

#[test]
fn a_change_number_that_leaves_no_later_ones_is_refused() {
    let mut host = host();
    let (good, bad) = (host.agent(), host.agent());
    say(&good, &hello("arm", 3));
    say(&bad, &hello("camera", u64::MAX));
    assert_eq!(host.all_news(), [joined("arm", 3)]);
    assert_eq!(heard(&bad), None);
    assert_eq!(
        (host.links.present(), host.links.refused()),
        (vec!["arm"], 1)
    );
}

#[test]
fn the_newer_agent_of_a_domain_counts() {
    let mut host = host();
    let (old, new) = (host.agent(), host.agent());
    say(&old, &hello("arm", 0));
    assert_eq!(host.news(), Some(joined("arm", 0)));
    say(&new, &hello("arm", 3));
    assert_eq!(
        host.all_news(),
        [joined("arm", 3)],
        "the domain was never without one"
    );
    assert!(
        heard(&old).is_some() && heard(&old).is_none(),
        "welcomed once, then ended"
    );
    assert_eq!(host.links.present(), ["arm"]);
}

#[test]
fn a_flood_ends_the_connection_and_harms_no_other() {
    let mut host = host();
    let (good, bad) = (host.agent(), host.agent());
    say(&good, &hello("arm", 0));
    say(&bad, &hello("camera", 0));
    host.all_news();
    let request = encode(&AgentMessage::Request { mode: name("run") }).unwrap();
    let flood = request.repeat(1_000);
    let _ended_meanwhile = (&mut &bad).write_all(&flood);
    let news = host.all_news();
    let domain = "camera".to_owned();
    assert!(news.contains(&AgentEvent::Left { domain }));
    assert!(news.len() < 50, "{}", news.len());
    assert_eq!(host.links.present(), ["arm"]);
    let order = Order::Withdraw { number: 1 };
    assert!(host.links.send("arm", order));
}

/// Looks once at an instant of a clock that stands.
fn look_once(links: &mut AgentLinks<VirtualClock>) -> Option<AgentEvent> {
    let now = links.clock.now();
    links.wait(Some(now))
}

#[test]
fn a_host_that_was_held_up_does_not_take_agents_for_gone() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("modes.sock")).unwrap();
    let clock = VirtualClock::default();
    let (mut links, _commands) = AgentLinks::new(listener, Box::new(|_, _| Ok(())), clock).unwrap();
    let (ours, agent) = UnixStream::pair().unwrap();
    ours.set_nonblocking(true).unwrap();
    agent.set_nonblocking(true).unwrap();
    let mut connection = AgentConnection::new(ours, AgentPeer::Guest(5), Instant::ORIGIN);
    connection.domain = Some("arm".into());
    links.connections.push(connection);
    // It answers each ping, and the host does not look for a minute each time.
    for _ in 0..10 {
        links.clock.advance(Duration::from_secs(60));
        assert_eq!(look_once(&mut links), None);
        let Some(HostMessage::Ping { nonce }) = heard(&agent) else {
            panic!("no ping");
        };
        say(&agent, &AgentMessage::Pong { nonce });
    }
    // Now it is silent, and the host looks rarely: not before three pings were in vain.
    look_once(&mut links);
    for _ in 0..3 {
        links.clock.advance(Duration::from_secs(60));
        assert_eq!(look_once(&mut links), None);
    }
    links.clock.advance(Duration::from_secs(60));
    let domain = "arm".to_owned();
    assert_eq!(look_once(&mut links), Some(AgentEvent::Left { domain }));
}

#[test]
fn an_agent_that_asks_without_end_is_answered_and_bounded() {
    let mut host = host();
    let agent = host.agent();
    say(&agent, &hello("arm", 0));
    host.all_news();
    let mut asked = 0;
    for _ in 0..20 {
        for _ in 0..10 {
            say(&agent, &AgentMessage::Request { mode: name("run") });
        }
        while let Some(AgentEvent::Asked { .. }) = host.news() {
            asked += 1;
        }
    }
    // 16 at once, and one a second; a host that is held up for long lets more of them through.
    assert!((16..100).contains(&asked), "{asked}");
    assert_eq!(host.links.present(), ["arm"]);
    assert!(host.links.refused() >= 100);
    let reasons = host.links.take_reasons();
    assert!(reasons.len() < 20, "{reasons:?}");
    assert!(reasons[0].contains("\"arm\" asks for modes too often"));
}

#[test]
fn strangers_without_end_do_not_fill_the_log() {
    let mut host = host();
    let mut reasons = Vec::new();
    for _ in 0..60 {
        say(&host.agent(), &hello("other", 0));
        host.links.wait(soon());
        reasons.extend(host.links.take_reasons());
    }
    assert!(host.links.refused() >= 59);
    assert!((8..30).contains(&reasons.len()), "{reasons:?}");
}

#[test]
fn a_command_wakes_who_waits_for_agents() {
    let mut host = host();
    let commands = host.commands;
    let asking = std::thread::spawn(move || commands.ask(5, "run".into()).map(|()| commands));
    let news = host.links.wait(None);
    let by = Asker::Command(5);
    let mode = "run".to_owned();
    assert_eq!(news, Some(AgentEvent::Asked { by, mode }));
    let commands = asking.join().unwrap().unwrap();
    drop(host.links);
    assert!(commands.ask(6, "run".into()).is_err());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn no_bytes_break_the_host(
        garbage in prop::collection::vec(any::<u8>(), 1..300),
        place in any::<prop::sample::Index>(),
        after_hello: bool,
    ) {
        let mut host = host();
        let (good, bad) = (host.agent(), host.agent());
        say(&good, &hello("arm", 0));
        let mut bytes = Vec::new();
        if after_hello {
            bytes.extend(encode(&hello("camera", 0)).unwrap());
        }
        let mut frame = encode(&hello("camera", 9)).unwrap();
        let place = place.index(frame.len());
        frame.truncate(place);
        bytes.extend(frame);
        bytes.extend(garbage);
        (&mut &bad).write_all(&bytes).unwrap();
        drop(bad);
        let news = host.all_news();
        prop_assert!(news.contains(&joined("arm", 0)));
        prop_assert_eq!(host.links.present(), ["arm"]);
    }
}
