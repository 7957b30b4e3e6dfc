//! Answers that come late, and what is noted of domains that fall back.

use super::*;

fn done(host: &FakeHost, domain: &str, number: u64) -> AgentEvent {
    AgentEvent::Done {
        domain: domain.into(),
        number,
        received_at: host.now(),
        switched_at: host.now(),
    }
}

#[test]
fn an_answer_to_an_older_order_is_none_to_the_present_one() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    manager.change_to(&COMMAND, "rest").unwrap();
    let old = host.0.borrow().last_number;
    host.manner("a", Manner::Hangs);
    for number in 1..=old {
        let news = done(&host, "a", number);
        host.later(100, news);
    }
    let report = manager.change_to(&COMMAND, "run").unwrap();
    let no_answer = matches!(
        &report.outcome.ending,
        Ending::GivenUp(Cause::NoAnswer { domain, .. }) if domain == "a"
    );
    assert!(no_answer, "{:?}", report.outcome);
}

#[test]
fn an_answer_to_what_an_agent_was_told_before_a_change_says_nothing_after_it() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manner("a", Manner::Hangs);
    let domain = "a".to_owned();
    host.later(10, AgentEvent::Joined { domain, number: 0 });
    settle(&host, &mut manager);
    let number = host.0.borrow().last_number;
    host.manner("a", Manner::Obeys);
    manager.change_to(&COMMAND, "rest").unwrap();
    let sent = host.0.borrow().sent;
    let news = done(&host, "a", number);
    host.later(10, news);
    settle(&host, &mut manager);
    // It may have done the older order last.
    assert_eq!(host.0.borrow().sent, sent + 1);
    assert_eq!(host.runs("a"), ["a-always", "a-rest"]);
}

#[test]
fn what_agents_knew_before_is_older_than_what_they_are_told() {
    // The fake agents refuse numbers that are not higher.
    for idle in [true, false] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        let domain = "b".to_owned();
        host.later(
            10,
            AgentEvent::Joined {
                domain,
                number: 1_000,
            },
        );
        if idle {
            settle(&host, &mut manager);
        }
        manager.change_to(&COMMAND, "rest").unwrap();
        manager.change_to(&COMMAND, "run").unwrap();
        assert!(host.0.borrow().last_number > 1_000);
    }
}

#[test]
fn every_order_of_a_change_is_noted_and_so_is_every_acceptance() {
    let (host, manager) = manager(RequestsMeanwhile::Queue);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    manager.change_to(&COMMAND, "rest").unwrap();
    let records = noted.0.lock().unwrap().clone();
    let count = |of: fn(&StepRecord) -> bool| records.iter().filter(|record| of(record)).count();
    assert_eq!(
        count(|it| matches!(it, StepRecord::Tells { .. })),
        host.0.borrow().sent
    );
    let asked = count(|it| matches!(it, StepRecord::Asks { .. }));
    assert_eq!(
        (asked, count(|it| matches!(it, StepRecord::Accepted { .. }))),
        (2, 2)
    );
}

#[test]
fn the_end_of_a_change_is_noted() {
    let (_, manager) = manager(RequestsMeanwhile::Queue);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    manager.change_to(&COMMAND, "rest").unwrap();
    let state = manager.state().clone();
    assert_eq!(state.mode, "rest");
    let last = noted.0.lock().unwrap().last().cloned();
    assert_eq!(last, Some(StepRecord::Holds { state }));
}

fn joined(domain: &str) -> AgentEvent {
    AgentEvent::Joined {
        domain: domain.into(),
        number: 0,
    }
}

/// Whoever had answered an older order may have done it last.
#[test]
fn who_answers_an_older_order_during_a_change_is_told_after_it() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    manager.change_to(&COMMAND, "rest").unwrap();
    let before = host.0.borrow().sent;
    let news = done(&host, "a", 1);
    host.later(10, news);
    manager.change_to(&COMMAND, "run").unwrap();
    let orders = host.orders_since(before, "a");
    assert_eq!(orders.len(), 2, "{orders:?}");
    assert_eq!(orders[1], whole_order(&manager, "a"));
}

/// The order to do all that holds in a domain, as the last one that was sent.
fn whole_order(manager: &HostModeManager<FakeHost, FakeHost, FakeHost>, domain: &str) -> Order {
    let local = manager.local_mode(domain).unwrap();
    let all = manager.table().all_tasks(domain);
    Order::Change {
        number: manager.number,
        mode: local.name.clone(),
        stop: all.difference(&local.tasks).cloned().collect(),
        start: local.tasks.iter().cloned().collect(),
    }
}

/// A manager of two modes that differ in what a does; its agent and that of b are there.
fn manager_where_b_stays() -> (FakeHost, HostModeManager<FakeHost, FakeHost, FakeHost>) {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let mode = |name: &str, ms: u64| {
        let locals = [("a", local(name, "a", ms)), ("b", local("run", "b", 2))];
        let locals = locals.map(|(domain, local)| (domain.to_owned(), local));
        (name.to_owned(), locals.into())
    };
    let modes = [mode("run", 5), mode("less", 4)];
    let agents = ["a", "b"].map(|domain| {
        let agent = AgentEntry {
            place: AgentPlace::Inside,
            may_request: BTreeSet::new(),
            fallback: None,
        };
        (domain.to_owned(), agent)
    });
    let settings = settings(RequestsMeanwhile::Queue);
    manager.table = ModeTable::new("run".into(), modes.into(), agents.into(), settings).unwrap();
    manager.state = State::initial(&manager.table);
    (host, manager)
}

/// Its answer comes while another domain is changed: one that did what it was told is not told again, and one
/// that could not is.
#[test]
fn who_answers_what_it_was_told_during_a_change_of_others_is_believed() {
    for (manner, orders) in [(Manner::Obeys, 1), (Manner::Fails, 2)] {
        let (host, mut manager) = manager_where_b_stays();
        host.manner("b", manner);
        manager.tell("b");
        host.later(5, asked(COMMAND, "less"));
        let report = manager.serve_one(None).unwrap().1.unwrap();
        assert_eq!(report.outcome.ending, Ending::Completed);
        settle(&host, &mut manager);
        assert_eq!(host.orders_since(0, "b").len(), orders, "{manner:?}");
        let is_known = manager.state().domains["b"].tasks.is_some();
        assert_eq!(is_known, manner == Manner::Obeys, "{manner:?}");
    }
}

#[test]
fn who_could_not_do_an_older_order_is_told_what_holds() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    manager.change_to(&COMMAND, "rest").unwrap();
    let before = host.0.borrow().sent;
    let failed = AgentEvent::Failed {
        domain: "a".into(),
        number: 0,
        reason: "it broke".into(),
        rolled_back: false,
    };
    host.later(10, failed);
    settle(&host, &mut manager);
    let orders = host.orders_since(before, "a");
    assert_eq!(orders, [whole_order(&manager, "a")]);
    assert!(manager.state().domains["a"].tasks.is_some());
}

/// An agent that comes during a change is told what should hold when that is known: not of the old mode
/// after the new one, and not nothing at all.
#[test]
fn who_comes_during_a_change_is_told_after_it() {
    for domain in ["a", "c"] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        host.later(5, joined(domain));
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        assert_eq!(report.outcome.ending, Ending::Completed);
        let orders = host.orders_since(0, domain);
        assert_eq!(orders.len(), 2, "{orders:?}");
        assert!(matches!(&orders[0], Order::Change { mode, .. } if mode == "rest"));
        assert!(matches!(&orders[1], Order::Change { mode, .. } if mode == "rest"));
        settle(&host, &mut manager);
        assert_eq!(host.runs(domain).len(), 2);
    }
}

/// A change in which the agent of c goes, and this comes of it before the end.
fn lose_and_hear(
    host: &FakeHost,
    manager: &mut HostModeManager<FakeHost, FakeHost, FakeHost>,
    news: AgentEvent,
) -> Report {
    // The orders are those to a, b, and c, when a has answered; b answers after all that.
    host.manners("c", &[Manner::Hangs, Manner::Obeys]);
    host.manner("b", Manner::Hangs);
    let domain = "c".to_owned();
    host.later(200, AgentEvent::Left { domain });
    host.later(300, news);
    let end = done(host, "b", 2);
    host.later(400, end);
    manager.change_to(&COMMAND, "rest").unwrap()
}

#[test]
fn who_goes_and_comes_back_during_a_change_is_told_of_its_fallback() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let report = lose_and_hear(&host, &mut manager, joined("c"));
    assert!(matches!(&report.outcome.ending, Ending::Partly(causes) if causes.contains_key("c")));
    settle(&host, &mut manager);
    assert_eq!(host.runs("c"), ["c-always", "c-park"]);
    assert!(manager.state().domains["c"].tasks.is_some());
}

/// An order that was withdrawn is answered all the same: what runs there may not be what should, and a
/// daemon after this one must not take the domain for one that has switched.
#[test]
fn the_answer_to_an_order_that_was_withdrawn_is_a_late_one() {
    let (host, manager) = manager(RequestsMeanwhile::Queue);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    let report = lose_and_hear(&host, &mut manager, done(&host, "c", 3));
    assert!(matches!(&report.outcome.ending, Ending::Partly(causes) if causes.contains_key("c")));
    let switched = StepRecord::Switched { domain: "c".into() };
    assert!(!noted.0.lock().unwrap().contains(&switched));
    settle(&host, &mut manager);
    assert_eq!(host.runs("c"), ["c-always", "c-park"]);
}

/// Nobody waits for the answer of an agent that is not there, or goes.
#[test]
fn an_agent_that_is_gone_is_not_waited_for() {
    for is_there in [false, true] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        let manner = if is_there {
            Manner::Hangs
        } else {
            Manner::Absent
        };
        host.manner("a", manner);
        let domain = "a".to_owned();
        if is_there {
            host.later(1_000, AgentEvent::Left { domain });
        }
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        let no_agent = matches!(
            &report.outcome.ending,
            Ending::GivenUp(Cause::NoAgent { domain }) if domain == "a"
        );
        assert!(no_agent, "{is_there}: {:?}", report.outcome);
    }
}

/// A domain that gives CPU time up has not stopped its tasks, and gets the reservation of its fallback.
#[test]
fn who_has_fallen_back_holds_nobody_up_after_a_death() {
    let (_, manager) = manager(RequestsMeanwhile::Queue);
    let table = manager.table();
    let (from, to) = (table.in_mode("rest"), table.in_mode("run"));
    // More than the new reservation, and as much.
    for budget_ms in [2, 1] {
        let park = local("park", "c", budget_ms);
        let records = [
            StepRecord::Holds {
                state: from.clone(),
            },
            StepRecord::Begins {
                from: from.clone(),
                to: to.clone(),
                stopping: ["c".to_owned()].into(),
                fallbacks: [("c".to_owned(), park.clone())].into(),
            },
            StepRecord::Tells { domain: "c".into() },
        ];
        let waits = journal::resumption(records.clone(), table).unwrap();
        assert_eq!(waits.fate, journal::Fate::RolledBack);
        assert_eq!(waits.state.mode, "rest");
        let asks = StepRecord::Asks {
            domain: "c".into(),
            interface: park.interface.clone(),
        };
        let fell = journal::resumption(records.into_iter().chain([asks]), table).unwrap();
        assert_eq!(fell.fate, journal::Fate::Finished, "{budget_ms} ms");
        assert_eq!(fell.state.domains["c"].interface, park);
        assert_eq!(fell.otherwise.unwrap().mode, "rest");
    }
}

/// One that has stopped its tasks and asks for its new reservation is in its new mode, not in the fallback that
/// has as much.
#[test]
fn who_has_stopped_its_tasks_has_not_fallen_back() {
    let (_, manager) = manager(RequestsMeanwhile::Queue);
    let table = manager.table();
    let (from, to) = (table.in_mode("rest"), table.in_mode("run"));
    let interface = to.domains["c"].interface.interface.clone();
    let fallback = table.fallback("c").unwrap().clone();
    assert_eq!(fallback.interface, interface);
    let records = [
        StepRecord::Begins {
            from,
            to: to.clone(),
            stopping: ["c".to_owned()].into(),
            fallbacks: [("c".to_owned(), fallback)].into(),
        },
        StepRecord::Switched { domain: "c".into() },
        StepRecord::Asks {
            domain: "c".into(),
            interface,
        },
    ];
    let resumption = journal::resumption(records, table).unwrap();
    assert_eq!(
        resumption.state.domains["c"].interface,
        to.domains["c"].interface
    );
}
