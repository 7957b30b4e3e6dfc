//! Agents by TLS and by a port of a virtual machine: who is let in, and what links do that fail.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::Ordering;

use tailbound_model::{AgentLink, AgentListeners, TlsListener};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::routes::{Address, Route};
use tailbound_modes::links::Ways;
use tailbound_modes::tls::Files;

use crate::certificates::Authority;
use crate::rig::faults::{PortOf, Relay, SerialLine, Weather};
use crate::rig::{Host, Running, ms};

/// So many changes are asked for while a link fails.
const CHANGES: usize = 12;

/// A host that has `certificate` and lets those in for whom `agents` vouches; both domains come by TLS.
fn tls_host(folder: tempfile::TempDir, own: Files, domains: &[&str]) -> Host {
    let tls = TlsListener {
        listen: "127.0.0.1:0".into(),
        certificate: own.certificate,
        key: own.key,
        authority: own.authority,
    };
    let links = domains
        .iter()
        .map(|domain| ((*domain).to_owned(), AgentLink::Tls {}));
    let ways = Ways {
        links: links.collect(),
        listeners: AgentListeners {
            tls: Some(tls),
            vsock_port: None,
        },
        ..Ways::default()
    };
    Host::new(folder, ways)
}

fn route(port: u16, files: &Files) -> Route {
    let address = Address::parse(&format!("tls:127.0.0.1:{port}")).unwrap();
    Route::to(address, Some(files), None).unwrap()
}

#[test]
fn only_the_certificate_of_a_domain_is_its_agents() {
    let folder = tempfile::tempdir().unwrap();
    let (ours, theirs) = (
        Authority::new(folder.path(), "ours"),
        Authority::new(folder.path(), "theirs"),
    );
    let (arm, eye) = (ours.certify("arm", &ours), ours.certify("eye", &ours));
    let forged = theirs.certify("eye", &ours);
    let expired = ours.certify_once("eye", &ours);
    let credulous = theirs.certify("127.0.0.1", &ours);
    let own = ours.certify("127.0.0.1", &ours);
    let mut host = tls_host(folder, own, &["arm", "eye"]);
    let address = host.manager.agents().tls_address().unwrap();
    let _arm = Running::start("arm", route(address.port(), &arm));
    host.serve_until("the agent of arm is there", |host| host.is_present("arm"));
    assert!(host.manager.agents().take_reasons().is_empty());

    let refusals = [
        (&arm, "the certificate of arm is not the agent of \"eye\""),
        (&forged, "UnknownIssuer"),
        (&expired, "xpired"),
    ];
    for (files, why) in refusals {
        let agent = Running::start("eye", route(address.port(), files));
        let mut reasons = String::new();
        host.serve_until(why, |host| {
            reasons.push_str(&host.manager.agents().take_reasons().join("\n"));
            reasons.contains(why)
        });
        assert!(
            !host.is_present("eye") && host.is_present("arm"),
            "{reasons}"
        );
        drop(agent);
        host.serve(ms(20));
        host.manager.agents().take_reasons();
    }
    let mut plain = TcpStream::connect(address).unwrap();
    plain.write_all(b"TM\0\x01\0\0\0\x02{}").unwrap();
    let mut reasons = String::new();
    host.serve_until("plain text is refused", |host| {
        reasons.push_str(&host.manager.agents().take_reasons().join("\n"));
        reasons.contains("is not let in")
    });
    let mut answer = Vec::new();
    let _reset = plain.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"TM"), "{answer:?}");
    // A process of this host is not its agent either, whoever runs it.
    let local = Running::start("eye", UnixConnector::new(host.socket.clone()));
    host.serve_until("the socket is not its way", |host| {
        let reasons = host.manager.agents().take_reasons().join("\n");
        reasons.contains("the description says otherwise")
    });
    drop(local);
    // For its part an agent talks to no host that another authority vouches for.
    let distrustful = Files {
        authority: credulous.authority.with_file_name("theirs.pem"),
        ..eye.clone()
    };
    let wary = Running::start("eye", route(address.port(), &distrustful));
    host.serve_until("the agent refuses the host", |_| {
        let events = wary.events.lock().unwrap();
        events.iter().any(|event| event.contains("UnknownIssuer"))
    });
    drop(wary);

    let eye = Running::start("eye", route(address.port(), &eye));
    host.expect_recovery("rest", &[&_arm, &eye]);
}

#[test]
fn strangers_at_the_door_leave_room_for_agents() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let (arm, own) = (ours.certify("arm", &ours), ours.certify("127.0.0.1", &ours));
    let mut host = tls_host(folder, own, &["arm"]);
    let address = host.manager.agents().tls_address().unwrap();
    let silent: Vec<_> = (0..20).map(|_| TcpStream::connect(address)).collect();
    let mut reasons = String::new();
    host.serve_until("some of them are sent away", |host| {
        reasons.push_str(&host.manager.agents().take_reasons().join("\n"));
        reasons.contains("too many others are at the door")
    });
    drop(silent);
    let _arm = Running::start("arm", route(address.port(), &arm));
    host.serve_until("the agent is let in", |host| host.is_present("arm"));
}

#[test]
fn a_tls_link_that_fails_overloads_nothing_and_recovers() {
    let folder = tempfile::tempdir().unwrap();
    let ours = Authority::new(folder.path(), "ours");
    let (arm, own) = (ours.certify("arm", &ours), ours.certify("127.0.0.1", &ours));
    let mut host = tls_host(folder, own, &["arm"]);
    let address = host.manager.agents().tls_address().unwrap();
    let weather = Weather::default();
    let relay = Relay::before(address, &weather, 11);
    let arm = Running::start("arm", route(relay.address.port(), &arm));
    let eye = Running::start("eye", UnixConnector::new(host.socket.clone()));
    expect_to_weather(&mut host, &weather, &[&arm, &eye]);
}

#[test]
fn a_port_that_fails_overloads_nothing_and_recovers() {
    for seed in [3, 4] {
        let folder = tempfile::tempdir().unwrap();
        let weather = Weather::default();
        let line = SerialLine::below(folder.path(), &weather, seed);
        let link = AgentLink::VirtioSerial {
            path: line.host.clone(),
        };
        let ways = Ways {
            links: [("arm".to_owned(), link)].into(),
            ..Ways::default()
        };
        let mut host = Host::new(folder, ways);
        let arm = Running::start("arm", PortOf(line.guest.clone()));
        let eye = Running::start("eye", UnixConnector::new(host.socket.clone()));
        expect_to_weather(&mut host, &weather, &[&arm, &eye]);
    }
}

/// Changes while the link fails are safe, and a calm link is as good as ever.
fn expect_to_weather(host: &mut Host, weather: &Weather, agents: &[&Running]) {
    host.expect_recovery("rest", agents);
    weather.stormy.store(true, Ordering::SeqCst);
    for mode in ["run", "rest"].iter().cycle().take(CHANGES) {
        // It may be given up; the ledger fails the test where it would do harm.
        host.change(mode);
        host.serve(ms(10));
    }
    weather.stormy.store(false, Ordering::SeqCst);
    host.expect_recovery("run", agents);
    host.expect_recovery("rest", agents);
}

#[test]
fn a_host_or_an_agent_that_is_started_anew_finds_the_port_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let weather = Weather::default();
    let line = SerialLine::below(folder.path(), &weather, 1);
    let ways = |line: &SerialLine| Ways {
        links: [(
            "arm".to_owned(),
            AgentLink::VirtioSerial {
                path: line.host.clone(),
            },
        )]
        .into(),
        ..Ways::default()
    };
    let eye_of = |host: &Host| Running::start("eye", UnixConnector::new(host.socket.clone()));
    let mut host = Host::new(tempfile::tempdir().unwrap(), ways(&line));
    for _ in 0..2 {
        let arm = Running::start("arm", PortOf(line.guest.clone()));
        let eye = eye_of(&host);
        host.expect_recovery("rest", &[&arm, &eye]);
        host.expect_recovery("run", &[&arm, &eye]);
    }
    // The agent stays, and is not told that there is another host.
    let arm = Running::start("arm", PortOf(line.guest.clone()));
    host.serve_until("the agent is there", |host| host.is_present("arm"));
    drop(host);
    let mut host = Host::new(tempfile::tempdir().unwrap(), ways(&line));
    let eye = eye_of(&host);
    host.expect_recovery("rest", &[&arm, &eye]);
    // A socket of nobody whom the description knows stays closed.
    drop((arm, line));
    host.serve_until("the agent is gone", |host| !host.is_present("arm"));
}
