//! The agent's session on a link that repeats, loses and reorders, with tasks that fail.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use tailbound_modes::agent::session::Ignored;
use tailbound_modes::agent::{Session, SessionStep, SwitchError, TaskError};
use tailbound_modes::wire::{AgentClock, AgentMessage, HostMessage, Name, TaskLists, Text};
use tailbound_time::{ClockId, Instant};

use crate::stage::{change, name, welcome};

fn session() -> Session {
    let clock = AgentClock {
        id: ClockId::Virtual,
        boot: Text::new("boot"),
    };
    Session::new(name("camera"), Text::new("agent"), clock)
}

fn at(nanoseconds: u64) -> Instant {
    Instant::from_nanos(nanoseconds)
}

fn done(change: u64, received_ns: u64, switched_ns: u64) -> AgentMessage {
    AgentMessage::Done {
        change,
        received_ns: at(received_ns),
        switched_ns: at(switched_ns),
    }
}

fn withdrawn(change: u64, received_ns: u64, switched_ns: u64) -> AgentMessage {
    AgentMessage::Withdrawn {
        change,
        received_ns: at(received_ns),
        switched_ns: at(switched_ns),
    }
}

/// A session that was welcomed with change 0.
fn begun() -> Session {
    let mut session = session();
    session.connected(vec![], vec![]);
    assert_eq!(session.receive(welcome(0), at(0)), SessionStep::Begun);
    session
}

/// Has `session` carry out `message`, with everything changed.
fn carry_out(session: &mut Session, message: HostMessage, from: u64, to: u64) -> AgentMessage {
    match session.receive(message, at(from)) {
        SessionStep::Switch(lists) => session.switched(Ok(lists), at(to)).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn failure(unrestored: TaskLists) -> SwitchError {
    let cause = TaskError::Refused {
        task: name("a"),
        message: "no".to_owned(),
    };
    SwitchError { cause, unrestored }
}

#[test]
fn a_repeated_change_is_answered_again_and_carried_out_once() {
    let mut session = begun();
    let seven = change(7, "run", &["a"], &["b"]);
    assert_eq!(
        carry_out(&mut session, seven.clone(), 10, 20),
        done(7, 10, 20)
    );
    assert_eq!(
        session.receive(seven.clone(), at(30)),
        SessionStep::Send(done(7, 10, 20))
    );
    // So it is after the connection was lost before the answer came through.
    let hello = session.connected(vec![], vec![]);
    assert!(
        matches!(&hello, AgentMessage::Hello { change: 7, mode: Some(mode), .. } if mode.as_str() == "run"),
        "{hello:?}"
    );
    session.receive(welcome(6), at(40));
    assert_eq!(
        session.receive(seven, at(50)),
        SessionStep::Send(done(7, 10, 20))
    );
}

#[test]
fn stale_numbers_and_what_comes_before_the_welcome_are_ignored() {
    let mut session = session();
    session.connected(vec![], vec![]);
    let one = change(1, "run", &[], &[]);
    assert_eq!(
        session.receive(one.clone(), at(1)),
        SessionStep::Ignore(Ignored::Unwelcomed)
    );
    session.receive(welcome(5), at(2));
    assert_eq!(
        session.receive(one, at(3)),
        SessionStep::Ignore(Ignored::Stale)
    );
    let four = HostMessage::Withdraw { change: 4 };
    assert_eq!(
        session.receive(four, at(3)),
        SessionStep::Ignore(Ignored::Stale)
    );
    assert_eq!(
        session.receive(welcome(0), at(4)),
        SessionStep::Ignore(Ignored::Repeated)
    );
    // The change that the welcome told of was not decided here: it is carried out.
    carry_out(&mut session, change(5, "run", &[], &[]), 6, 7);
    assert_eq!(session.mode().map(Name::as_str), Some("run"));
}

#[test]
fn a_number_with_another_content_is_neither_carried_out_nor_acknowledged() {
    let mut session = begun();
    carry_out(&mut session, change(3, "run", &["a"], &[]), 1, 2);
    let step = session.receive(change(3, "run", &["b"], &[]), at(3));
    assert!(
        matches!(
            &step,
            SessionStep::Send(AgentMessage::Failed {
                change: 3,
                rolled_back: false,
                ..
            })
        ),
        "{step:?}"
    );
}

#[test]
fn a_withdrawal_takes_back_what_was_changed_and_nothing_else() {
    let mut session = begun();
    let step = session.receive(change(2, "run", &["a", "b"], &["c", "d"]), at(1));
    assert!(matches!(step, SessionStep::Switch(_)));
    // Only "a" ran, and "d" ran already.
    let changed = TaskLists {
        stop: vec![name("a")],
        start: vec![name("c")],
    };
    session.switched(Ok(changed), at(2)).unwrap();
    let withdraw = HostMessage::Withdraw { change: 2 };
    let SessionStep::Switch(back) = session.receive(withdraw.clone(), at(3)) else {
        panic!("no switch");
    };
    assert_eq!(
        (back.stop.as_slice(), back.start.as_slice()),
        (&[name("c")][..], &[name("a")][..])
    );
    assert_eq!(session.switched(Ok(back), at(4)), Some(withdrawn(2, 3, 4)));
    assert_eq!(session.mode().map(Name::as_str), Some("idle"));
    // Again, and the change once more, which stays withdrawn.
    assert_eq!(
        session.receive(withdraw, at(5)),
        SessionStep::Send(withdrawn(2, 3, 4))
    );
    let again = change(2, "run", &["a", "b"], &["c", "d"]);
    assert_eq!(
        session.receive(again, at(6)),
        SessionStep::Send(withdrawn(2, 3, 4))
    );
}

#[test]
fn a_change_that_comes_after_its_withdrawal_is_not_carried_out() {
    let mut session = begun();
    let withdraw = HostMessage::Withdraw { change: 2 };
    assert_eq!(
        session.receive(withdraw, at(1)),
        SessionStep::Send(withdrawn(2, 1, 1))
    );
    let late = change(2, "run", &["a"], &[]);
    assert_eq!(
        session.receive(late, at(2)),
        SessionStep::Send(withdrawn(2, 1, 1))
    );
}

#[test]
fn a_failed_change_is_told_with_what_became_of_it() {
    let mut session = begun();
    let failing = change(1, "run", &["a"], &["b"]);
    session.receive(failing.clone(), at(1));
    let answer = session
        .switched(Err(failure(TaskLists::default())), at(2))
        .unwrap();
    assert!(
        matches!(
            &answer,
            AgentMessage::Failed {
                rolled_back: true,
                ..
            }
        ),
        "{answer:?}"
    );
    assert_eq!(session.receive(failing, at(3)), SessionStep::Send(answer));
    assert_eq!(session.mode().map(Name::as_str), Some("idle"));
    // There is nothing to take back.
    let withdraw = HostMessage::Withdraw { change: 1 };
    assert_eq!(
        session.receive(withdraw, at(4)),
        SessionStep::Send(withdrawn(1, 4, 4))
    );
}

#[test]
fn a_withdrawal_tries_again_what_could_not_be_put_back() {
    let mut session = begun();
    session.receive(change(1, "run", &["a"], &[]), at(1));
    let left = TaskLists {
        stop: vec![],
        start: vec![name("a")],
    };
    let answer = session.switched(Err(failure(left.clone())), at(2)).unwrap();
    assert!(matches!(
        answer,
        AgentMessage::Failed {
            rolled_back: false,
            ..
        }
    ));
    let withdraw = HostMessage::Withdraw { change: 1 };
    for _ in 0..2 {
        assert_eq!(
            session.receive(withdraw.clone(), at(3)),
            SessionStep::Switch(left.clone())
        );
        let answer = session.switched(Err(failure(left.clone())), at(4)).unwrap();
        assert!(matches!(
            answer,
            AgentMessage::Failed {
                rolled_back: false,
                ..
            }
        ));
    }
    assert_eq!(
        session.receive(withdraw, at(5)),
        SessionStep::Switch(left.clone())
    );
    assert_eq!(session.switched(Ok(left), at(6)), Some(withdrawn(1, 5, 6)));
}

#[test]
fn a_host_of_another_domain_is_left() {
    let mut session = session();
    session.connected(vec![], vec![]);
    let other = HostMessage::Welcome {
        domain: name("lidar"),
        mode: None,
        change: 0,
    };
    assert_eq!(
        session.receive(other, at(0)),
        SessionStep::Leave {
            other: name("lidar")
        }
    );
    assert!(!session.is_welcomed());
}

#[test]
fn pings_are_answered_and_requests_wait_for_the_welcome() {
    let mut session = session();
    session.connected(vec![], vec![]);
    let ping = HostMessage::Ping { nonce: 9 };
    assert_eq!(
        session.receive(ping, at(0)),
        SessionStep::Send(AgentMessage::Pong { nonce: 9 })
    );
    assert_eq!(session.request(name("run")), None);
    session.receive(welcome(0), at(1));
    assert!(session.request(name("run")).is_some());
}

#[test]
fn while_tasks_are_switched_nothing_else_is_begun() {
    let mut session = begun();
    session.receive(change(1, "run", &["a"], &[]), at(1));
    let next = change(2, "run", &[], &["a"]);
    assert_eq!(
        session.receive(next, at(2)),
        SessionStep::Ignore(Ignored::Busy)
    );
    assert!(session.switched(Ok(TaskLists::default()), at(3)).is_some());
    assert!(session.switched(Ok(TaskLists::default()), at(4)).is_none());
}

/// What the link does with the host's messages, one after another.
#[derive(Clone, Debug)]
enum Fate {
    /// The message with that place among all sent so far comes now.
    Comes(prop::sample::Index),
    /// The connection breaks, and another one is made.
    Reconnects,
}

fn fates() -> impl Strategy<Value = Vec<Fate>> {
    let fate = prop_oneof![
        12 => any::<prop::sample::Index>().prop_map(Fate::Comes),
        1 => Just(Fate::Reconnects),
    ];
    prop::collection::vec(fate, 1..80)
}

/// Tasks that fail when told to, and what they were told.
#[derive(Default)]
struct Tasks {
    running: BTreeSet<Name>,
    times_carried_out: BTreeMap<u64, u32>,
}

impl Tasks {
    fn switch(&mut self, lists: &TaskLists, fails: bool) -> Result<TaskLists, SwitchError> {
        if fails {
            return Err(failure(TaskLists::default()));
        }
        let stop = lists
            .stop
            .iter()
            .filter(|task| self.running.contains(*task))
            .cloned();
        let changed = TaskLists {
            stop: stop.collect(),
            start: lists
                .start
                .iter()
                .filter(|task| !self.running.contains(*task))
                .cloned()
                .collect(),
        };
        self.running.retain(|task| !lists.stop.contains(task));
        self.running.extend(lists.start.iter().cloned());
        Ok(changed)
    }
}

/// Every message that a host sends about `count` changes: change `n` starts task `n` alone, and
/// some changes are withdrawn.
fn script(count: u64, withdrawals: &BTreeSet<u64>) -> Vec<HostMessage> {
    let mut script = Vec::new();
    for number in 1..=count {
        let others = (1..=count).filter(|other| *other != number);
        script.push(HostMessage::Change {
            change: number,
            mode: name(&format!("m{number}")),
            start: vec![name(&format!("t{number}"))],
            stop: others.map(|other| name(&format!("t{other}"))).collect(),
        });
        if withdrawals.contains(&number) {
            script.push(HostMessage::Withdraw { change: number });
        }
    }
    script
}

proptest! {
    #[test]
    fn no_change_is_carried_out_twice_and_what_is_told_holds(
        fates in fates(),
        withdrawals in prop::collection::btree_set(1_u64..8, 0..4),
        failing in prop::collection::btree_set(0_usize..20, 0..3),
    ) {
        let script = script(7, &withdrawals);
        let (mut session, mut tasks) = (begun(), Tasks::default());
        let (mut sent, mut newest, mut switches) = (1, 0, 0);
        for fate in fates {
            let Fate::Comes(place) = fate else {
                session.connected(vec![], vec![]);
                session.receive(welcome(newest), at(0));
                continue;
            };
            // Anything sent so far may come, in any order, any number of times.
            let message = script[place.index(sent)].clone();
            sent = (sent + 1).min(script.len());
            let number = match &message {
                HostMessage::Change { change, .. } | HostMessage::Withdraw { change } => *change,
                _ => unreachable!(),
            };
            let is_change = matches!(message, HostMessage::Change { .. });
            let answer = match session.receive(message, at(1)) {
                SessionStep::Ignore(Ignored::Stale) => {
                    prop_assert!(number < newest);
                    continue;
                }
                SessionStep::Send(answer) => answer,
                SessionStep::Switch(lists) => {
                    let result = tasks.switch(&lists, failing.contains(&switches));
                    switches += 1;
                    if is_change {
                        *tasks.times_carried_out.entry(number).or_default() += 1;
                    }
                    session.switched(result, at(2)).unwrap()
                }
                other => panic!("{other:?}"),
            };
            prop_assert!(number >= newest);
            newest = number;
            let task = name(&format!("t{number}"));
            match &answer {
                AgentMessage::Done { change, .. } => {
                    prop_assert_eq!(*change, number);
                    prop_assert_eq!(&tasks.running, &BTreeSet::from([task]));
                }
                AgentMessage::Withdrawn { .. } => prop_assert!(!tasks.running.contains(&task)),
                AgentMessage::Failed { rolled_back, .. } => {
                    prop_assert!(!*rolled_back || !tasks.running.contains(&task));
                }
                other => panic!("{other:?}"),
            }
        }
        for (number, times) in &tasks.times_carried_out {
            prop_assert!(*times <= 1, "change {} was carried out {} times", number, times);
        }
    }
}
