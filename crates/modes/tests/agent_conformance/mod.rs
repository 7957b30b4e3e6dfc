//! The agents in Rust, C and Python behave alike: the same scenarios, over a real socket, with the real
//! host side where that says all that is looked at.

mod hostile;
mod subject;

use std::os::unix::net::UnixListener;
use std::process::Command;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::boot_id;
use tailbound_modes::links::{AgentLinks, Authority};
use tailbound_modes::manager::{AgentEvent, Agents, Asker, Order};
use tailbound_modes::wire::{AgentMessage, HostMessage, PROTOCOL_VERSION, Text, encode};
use tailbound_time::{Clock, ClockId, Duration};

use crate::stage::{self, Host, Peer, change, name};
use subject::{DOMAIN, Language, Subject, is_there};

#[test]
fn the_agent_in_rust_conforms() {
    conform(Language::Rust);
}

#[test]
fn the_agent_in_c_conforms() {
    conform(Language::C);
}

#[test]
fn the_agent_in_python_conforms() {
    conform(Language::Python);
}

fn conform(language: Language) {
    if !is_there(language) {
        return;
    }
    says_what_it_is(language);
    serves_the_real_host(language);
    repeats_its_answer(language);
    answers_all_that_came_at_once(language);
    ignores_what_is_stale(language);
    puts_back_what_fails(language);
    takes_back_what_is_withdrawn(language);
    tries_a_failed_withdrawal_again(language);
    refuses_lists_that_make_no_sense(language);
    keeps_its_state_over_connections(language);
    leaves_a_host_of_another_domain(language);
    hostile::outlives_garbage(language);
    hostile::takes_what_the_rust_agent_takes(language);
}

fn begin(language: Language) -> (Host, Peer, Subject) {
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let peer = host.welcome(0);
    (host, peer, subject)
}

fn withdraw(number: u64) -> HostMessage {
    HostMessage::Withdraw { change: number }
}

fn failed(answer: AgentMessage) -> (u64, String, bool) {
    match answer {
        AgentMessage::Failed {
            change,
            reason,
            rolled_back,
        } => (change, reason.to_string(), rolled_back),
        other => panic!("{other:?}"),
    }
}

fn says_what_it_is(language: Language) {
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let (_peer, hello) = host.accept();
    let AgentMessage::Hello {
        domain,
        agent,
        clock,
        tasks,
        started,
        change,
        mode,
    } = hello
    else {
        panic!("{hello:?}");
    };
    let names = |list: &[&str]| list.iter().map(|text| name(text)).collect::<Vec<_>>();
    assert_eq!(domain, name(DOMAIN));
    assert!(agent.as_str().starts_with("tailbound-agent"));
    assert_eq!(clock.id, ClockId::Monotonic);
    assert_eq!(clock.boot.as_str(), boot_id().unwrap());
    let all = ["move", "hold", "scan", "broken", "stuck", "weary"];
    assert_eq!(tasks, names(&all));
    assert_eq!(started, names(&["move", "hold", "stuck", "weary"]));
    assert_eq!((change, mode), (0, None));
    subject.end(&[]);
}

/// The next news of the host; all of these come.
fn news(links: &mut AgentLinks<Monotonic>) -> AgentEvent {
    let until = Monotonic.now() + Duration::from_secs(60);
    links.wait(Some(until)).expect("no news")
}

fn serves_the_real_host(language: Language) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("modes");
    let listener = UnixListener::bind(&socket).unwrap();
    let authority: Authority = Box::new(|_, _| Ok(()));
    let (mut links, _commands) = AgentLinks::new(listener, authority, Monotonic).unwrap();
    let mut subject = Subject::start(language, &socket);
    let domain = DOMAIN.to_owned();
    let joined = AgentEvent::Joined {
        domain: domain.clone(),
        number: 0,
    };
    assert_eq!(news(&mut links), joined);
    let order = |number, mode: &str, stop: &[&str], start: &[&str]| Order::Change {
        number,
        mode: mode.into(),
        stop: stop.iter().map(ToString::to_string).collect(),
        start: start.iter().map(ToString::to_string).collect(),
    };
    let before = Monotonic.now();
    assert!(links.send(DOMAIN, order(1, "rest", &["move", "hold"], &["scan"])));
    let event = news(&mut links);
    let AgentEvent::Done {
        number: 1,
        received_at,
        switched_at,
        ..
    } = event
    else {
        panic!("{event:?}");
    };
    // Its times are of our clock.
    assert!(before <= received_at && received_at <= switched_at && switched_at <= Monotonic.now());
    subject.expect_calls(&["stop move", "stop hold", "start scan"]);
    assert!(links.send(DOMAIN, order(2, "run", &["scan"], &["move", "broken"])));
    let event = news(&mut links);
    assert!(
        matches!(&event, AgentEvent::Failed { number: 2, rolled_back: true, reason, .. }
            if reason.contains("broken") && reason.contains("does not start")),
        "{event:?}"
    );
    subject.request("calibrate");
    let asked = AgentEvent::Asked {
        by: Asker::Domain(domain),
        mode: "calibrate".into(),
    };
    assert_eq!(news(&mut links), asked);
    links.refuse(DOMAIN, "calibrate", "not \u{e4} \"now\"\n");
    subject.expect_event("refused calibrate");
    assert_eq!(links.refused(), 0);
    subject.end(&[]);
}

fn repeats_its_answer(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    let first = change(1, "rest", &["move"], &["scan"]);
    let answer = peer.ask(&first);
    assert!(matches!(answer, AgentMessage::Done { change: 1, .. }));
    assert_eq!(peer.ask(&first), answer);
    let other = change(1, "rest", &["move", "hold"], &["scan"]);
    let (number, _, rolled_back) = failed(peer.ask(&other));
    assert_eq!((number, rolled_back), (1, false));
    assert_eq!(peer.ask(&first), answer);
    let other = change(1, "run", &["move"], &["scan"]);
    assert_eq!(failed(peer.ask(&other)).0, 1);
    subject.end(&["stop move", "start scan"]);
}

fn answers_all_that_came_at_once(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    // All answers do not fit the smallest buffer of an agent at once; then nothing more comes.
    let once = encode(&change(1, "x", &[], &["x"])).unwrap();
    peer.send_in_vain(&once.repeat(65));
    for _ in 0..65 {
        assert_eq!(failed(peer.receive()).0, 1);
    }
    subject.end(&[]);
}

fn ignores_what_is_stale(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    peer.expect_done(&change(5, "rest", &["move"], &[]));
    peer.send(&change(4, "rest", &["hold"], &[]));
    peer.send(&withdraw(3));
    let nonce = u64::MAX;
    assert_eq!(
        peer.ask(&HostMessage::Ping { nonce }),
        AgentMessage::Pong { nonce }
    );
    subject.end(&["stop move"]);
    // Nor is anything done before the welcome.
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let (mut peer, _) = host.accept();
    peer.send(&change(1, "rest", &["move"], &[]));
    assert_eq!(
        peer.ask(&HostMessage::Ping { nonce }),
        AgentMessage::Pong { nonce }
    );
    subject.end(&[]);
}

fn puts_back_what_fails(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    let order = change(1, "rest", &["move", "hold"], &["scan", "broken"]);
    let (number, reason, rolled_back) = failed(peer.ask(&order));
    assert_eq!((number, rolled_back), (1, true), "{reason}");
    subject.expect_calls(&["stop move", "stop hold", "start scan", "start broken"]);
    // Starts before stops, the last one first.
    subject.expect_calls(&["stop broken", "stop scan", "start hold", "start move"]);
    // It is as it was, so that a withdrawal has nothing to do.
    peer.expect_done(&withdraw(1));
    // What does not stop, or was not started, is not started by putting back.
    let order = change(2, "rest", &["scan", "stuck", "move"], &["hold"]);
    assert!(failed(peer.ask(&order)).2);
    subject.end(&["stop scan", "stop stuck", "start stuck"]);
}

fn takes_back_what_is_withdrawn(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    peer.expect_done(&change(1, "rest", &["move", "scan"], &["hold"]));
    subject.expect_calls(&["stop move", "stop scan", "start hold"]);
    let answer = peer.ask(&withdraw(1));
    assert!(matches!(answer, AgentMessage::Withdrawn { change: 1, .. }));
    assert_eq!(peer.ask(&withdraw(1)), answer);
    // The change comes late, and is not carried out again.
    let late = change(1, "rest", &["move", "scan"], &["hold"]);
    assert_eq!(peer.ask(&late), answer);
    subject.expect_calls(&["start move"]);
    // A withdrawal may even come before its change.
    let answer = peer.ask(&withdraw(2));
    assert!(matches!(answer, AgentMessage::Withdrawn { change: 2, .. }));
    assert_eq!(peer.ask(&change(2, "rest", &["move"], &[])), answer);
    subject.end(&[]);
}

fn tries_a_failed_withdrawal_again(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    let order = change(1, "rest", &["weary"], &["broken"]);
    let (_, reason, rolled_back) = failed(peer.ask(&order));
    assert!(!rolled_back);
    assert!(reason.contains("still stopped: weary"), "{reason}");
    assert!(!failed(peer.ask(&order)).2, "the same answer again");
    subject.expect_calls(&["stop weary", "start broken", "stop broken", "start weary"]);
    peer.expect_done(&withdraw(1));
    subject.expect_calls(&["start weary"]);
    // A withdrawal that fails tells so, and can be told again.
    let starts_stuck = change(2, "run", &["stuck"], &[]);
    assert!(failed(peer.ask(&starts_stuck)).2);
    subject.end(&["stop stuck", "start stuck"]);
}

fn refuses_lists_that_make_no_sense(language: Language) {
    let (_host, mut peer, subject) = begin(language);
    let (_, reason, rolled_back) = failed(peer.ask(&change(1, "rest", &["move"], &["other"])));
    assert!(rolled_back && reason.contains("\"other\""), "{reason}");
    let (_, reason, rolled_back) = failed(peer.ask(&change(2, "rest", &["hold"], &["hold"])));
    assert!(rolled_back && reason.contains("\"hold\""), "{reason}");
    // The same task twice in one list counts once; empty lists are a change, too.
    peer.expect_done(&change(3, "rest", &["move", "move"], &[]));
    peer.expect_done(&change(4, "other", &[], &[]));
    subject.end(&["stop move"]);
}

fn keeps_its_state_over_connections(language: Language) {
    let (mut host, mut peer, subject) = begin(language);
    peer.expect_done(&change(7, "rest", &["move"], &["scan"]));
    drop(peer);
    host.restart();
    let (mut peer, hello) = host.accept();
    let AgentMessage::Hello {
        change: newest,
        mode,
        started,
        ..
    } = hello
    else {
        panic!("{hello:?}");
    };
    assert_eq!((newest, mode), (7, Some(name("rest"))));
    let expected = ["hold", "scan", "stuck", "weary"].map(name);
    assert_eq!(started, expected);
    // The host knows more: what is older is stale on this connection.
    peer.send(&stage::welcome(9));
    peer.send(&change(8, "run", &["scan"], &["move"]));
    peer.expect_done(&change(9, "run", &["scan"], &["move"]));
    subject.end(&["stop move", "start scan", "stop scan", "start move"]);
}

fn leaves_a_host_of_another_domain(language: Language) {
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let (mut peer, _) = host.accept();
    peer.send(&HostMessage::Welcome {
        domain: name("arm"),
        mode: None,
        change: 0,
    });
    assert_eq!(peer.try_receive(), None);
    // It tries again.
    let mut peer = host.welcome(0);
    let mode = name("run");
    let reason = Text::new("x".repeat(2_000));
    peer.send(&HostMessage::Refused { mode, reason });
    peer.expect_done(&change(1, "rest", &["move"], &[]));
    subject.end(&["stop move"]);
}

#[test]
fn the_c_agent_takes_any_bytes() {
    if !is_there(Language::C) {
        return;
    }
    let fuzz = subject::compile("fuzz");
    for seed in 1..=3 {
        let output = Command::new(&fuzz)
            .args(["100000", &seed.to_string()])
            .output()
            .unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "seed {seed}: {stderr}");
    }
    std::fs::remove_file(fuzz).unwrap();
}

#[test]
fn all_agents_speak_one_version() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let header = std::fs::read_to_string(root.join("libraries/c/tailbound_agent.h")).unwrap();
    let module = std::fs::read_to_string(root.join("python/tailbound/agent.py")).unwrap();
    let in_c = format!("#define TAILBOUND_PROTOCOL_VERSION {PROTOCOL_VERSION}u\n");
    let in_python = format!("\nPROTOCOL_VERSION = {PROTOCOL_VERSION}\n");
    assert!(header.contains(&in_c), "tailbound_agent.h");
    assert!(module.contains(&in_python), "agent.py");
}
