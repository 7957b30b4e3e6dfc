//! An agent that a host, or somebody in its place, tells things: the session, and the whole agent over a
//! socket pair.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};

use tailbound_control::frame::decode;
use tailbound_modes::agent::callback::SwitchedByCall;
use tailbound_modes::agent::link::{ConnectError, Connector};
use tailbound_modes::agent::{Agent, Event, Patience, Session, SessionStep, TaskEngine, TaskTable};
use tailbound_modes::wire::{
    AgentClock, AgentMessage, HostMessage, ModeProtocol, Name, Text, decoder,
};
use tailbound_time::{ClockId, Instant, VirtualClock};

use crate::stream::stream;

const TASKS: [&str; 3] = ["a", "b", "c"];

type Started = Arc<Mutex<BTreeSet<&'static str>>>;

/// Tasks of which every switch that `failures` has a set bit for fails, in turn.
fn tasks(failures: u8) -> (TaskTable, Started) {
    let started: Started = Arc::new(Mutex::new(["a", "b"].into()));
    let turn = Arc::new(Mutex::new(0u32));
    let mut table = TaskTable::new();
    for task in TASKS {
        let (running, turn) = (Arc::clone(&started), Arc::clone(&turn));
        let call = move |start: bool| {
            let mut turn = turn.lock().unwrap();
            *turn += 1;
            if failures >> (*turn % 8) & 1 == 1 {
                return Err("refused".to_owned());
            }
            let mut running = running.lock().unwrap();
            match start {
                true => running.insert(task),
                false => running.remove(task),
            };
            Ok(())
        };
        let is_started = started.lock().unwrap().contains(task);
        let control = SwitchedByCall::new(task.parse().unwrap(), is_started, call);
        table.add(task.parse().unwrap(), Box::new(control)).unwrap();
    }
    (table, started)
}

/// Tasks are as the answers say: a change that is done holds, one that failed and was rolled back left
/// all as it was; and the same change is carried out once.
pub fn check(bytes: &[u8]) {
    let Some((&failures, bytes)) = bytes.split_first() else {
        return;
    };
    // Without failures half of the time.
    let failures = if failures & 1 == 0 { 0 } else { failures };
    session(bytes, failures);
    whole_agent(bytes, failures);
}

fn session(bytes: &[u8], failures: u8) {
    let clock = AgentClock {
        id: ClockId::Virtual,
        boot: Text::new("boot"),
    };
    let mut session = Session::new("camera".parse().unwrap(), Text::new("agent"), clock);
    let (mut table, started) = tasks(failures);
    session.connected(table.tasks(), table.started());
    let mut decoder = decoder();
    decoder.push(&stream::<ModeProtocol>(bytes));
    let mut answered: Option<(u64, AgentMessage)> = None;
    for time in 1.. {
        let Ok(Some(payload)) = decoder.next_payload() else {
            return;
        };
        let Ok(message) = decode::<HostMessage>(&payload) else {
            return;
        };
        let before = started.lock().unwrap().clone();
        let now = Instant::from_nanos(time);
        match session.receive(message.clone(), now) {
            SessionStep::Switch(lists) => {
                let result = table.switch(&lists);
                let answer = session
                    .switched(result, now)
                    .expect("a switch was asked for");
                agrees(&message, &answer, &before, &started.lock().unwrap());
                if let HostMessage::Change { change, .. } = message {
                    assert!(
                        answered
                            .as_ref()
                            .is_none_or(|(number, _)| *number != change)
                    );
                    answered = Some((change, answer));
                } else {
                    answered = None;
                }
            }
            SessionStep::Send(answer) => {
                let is_change = matches!(message, HostMessage::Change { .. });
                if let (true, Some((_, previous)), AgentMessage::Done { .. }) =
                    (is_change, &answered, &answer)
                {
                    assert_eq!(*previous, answer, "a change has one answer");
                }
                if matches!(message, HostMessage::Withdraw { .. }) {
                    answered = None;
                }
                assert_eq!(before, *started.lock().unwrap());
            }
            _ => assert_eq!(before, *started.lock().unwrap()),
        }
    }
}

fn agrees(
    message: &HostMessage,
    answer: &AgentMessage,
    before: &BTreeSet<&str>,
    after: &BTreeSet<&str>,
) {
    let holds = |names: &[Name], started: bool| {
        names
            .iter()
            .all(|name| after.contains(name.as_str()) == started)
    };
    match (message, answer) {
        (
            HostMessage::Change {
                change,
                start,
                stop,
                ..
            },
            AgentMessage::Done { change: done, .. },
        ) => {
            assert_eq!(change, done);
            assert!(
                holds(start, true) && holds(stop, false),
                "{message:?} {after:?}"
            );
        }
        (
            _,
            AgentMessage::Failed {
                rolled_back: true, ..
            },
        ) => assert_eq!(before, after),
        _ => {}
    }
}

/// Connects once, to a host that has said everything already.
struct Once(Option<UnixStream>);

impl Connector for Once {
    type Link = UnixStream;

    fn connect(&mut self) -> Result<UnixStream, ConnectError> {
        self.0.take().ok_or_else(|| ConnectError::Unreachable {
            address: "again".into(),
            source: std::io::ErrorKind::NotFound.into(),
        })
    }
}

fn whole_agent(bytes: &[u8], failures: u8) {
    let (mut host, link) = UnixStream::pair().unwrap();
    host.set_nonblocking(true).unwrap();
    link.set_nonblocking(true).unwrap();
    let _most = host.write(&stream::<ModeProtocol>(bytes));
    host.shutdown(std::net::Shutdown::Write).unwrap();
    let (table, _) = tasks(failures);
    let connector = Once(Some(link));
    let mut begun = 0;
    let domain: Name = "camera".parse().unwrap();
    let mut agent = Agent::new(
        domain,
        "boot",
        connector,
        table,
        VirtualClock::default(),
        Patience::default(),
    )
    .unwrap();
    let handle = agent.handle();
    let observe = &mut |event: Event| match event {
        Event::Begun => begun += 1,
        Event::Lost(_) => handle.end(),
        _ => {}
    };
    agent.run(observe).unwrap();
    assert!(begun <= 1, "a connection begins once");
}
