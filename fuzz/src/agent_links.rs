//! The host's end of connections to agents, three of them at a time.

use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};

use tailbound_modes::links::AgentLinks;
use tailbound_modes::manager::{AgentEvent, Agents, Order};
use tailbound_modes::wire::ModeProtocol;
use tailbound_time::{Instant, VirtualClock};

use crate::stream::{framed, stream};

const HELLO: &[u8] = br#"{"report":"hello","domain":"good","agent":"x","clock":{"id":"monotonic","boot":"b"},"tasks":[],"started":[],"change":0,"mode":null}"#;

/// Nobody is heard who was not let in, every domain's news are in order, and an agent that behaves is
/// served whatever the others say.
pub fn check(bytes: &[u8]) {
    let socket = crate::folder().join("modes.sock");
    let _gone = std::fs::remove_file(&socket);
    let listener = UnixListener::bind(&socket).unwrap();
    let authority = Box::new(|_: &_, domain: &str| match domain {
        "other" => Err("not you".to_owned()),
        _ => Ok(()),
    });
    let (mut links, _commands) =
        AgentLinks::new(listener, authority, VirtualClock::default()).unwrap();
    let mut agents: Vec<UnixStream> = (0..3).map(|_| connected(&socket)).collect();
    let mut news = Vec::new();
    // Who speaks next is in the first byte of a part.
    for part in bytes.split(|byte| *byte == 0xFE) {
        let Some((&who, said)) = part.split_first() else {
            continue;
        };
        let who = usize::from(who) % agents.len();
        if said.is_empty() {
            agents[who] = connected(&socket);
        }
        let _most = agents[who].write(&stream::<ModeProtocol>(said));
        gather(&mut links, &mut news);
        let order = Order::Withdraw { number: 9 };
        links.send("arm", order);
    }
    gather(&mut links, &mut news);
    in_order(&news);
    // It comes last: as many strangers as there may be have been there before.
    drop(agents);
    gather(&mut links, &mut news);
    let mut good = connected(&socket);
    good.write_all(&framed::<ModeProtocol>(HELLO)).unwrap();
    news.clear();
    gather(&mut links, &mut news);
    let domain = "good".to_owned();
    let joined = AgentEvent::Joined { domain, number: 0 };
    assert!(news.contains(&joined), "{news:?}");
    assert_eq!(links.present(), ["good"]);
}

fn connected(socket: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(socket).unwrap();
    stream.set_nonblocking(true).unwrap();
    stream
}

/// All news that there are now. A look at the sockets may take in a part of what is there.
fn gather(links: &mut AgentLinks<VirtualClock>, news: &mut Vec<AgentEvent>) {
    let mut silent = 0;
    while silent < 8 {
        match links.wait(Some(Instant::from_nanos(0))) {
            Some(one) => news.push(one),
            None => silent += 1,
        }
    }
}

/// A domain's agent is heard only between its arrival and its leaving.
fn in_order(news: &[AgentEvent]) {
    let mut present = std::collections::BTreeSet::new();
    for one in news {
        match one {
            AgentEvent::Joined { domain, .. } => {
                assert_ne!(domain, "other", "it may not");
                present.insert(domain.as_str());
            }
            AgentEvent::Left { domain } => assert!(present.remove(domain.as_str()), "{news:?}"),
            AgentEvent::Done { domain, .. } | AgentEvent::Failed { domain, .. } => {
                assert!(present.contains(domain.as_str()), "{news:?}");
            }
            AgentEvent::Asked { .. } => {}
        }
    }
}
