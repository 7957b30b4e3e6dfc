//! Answers that come late, and what is noted of domains that fall back.

use super::*;

fn done(host: &Host, domain: &str, number: u64) -> News {
    News::Done {
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
    host.later(10, News::Joined { domain, number: 0 });
    settle(&host, &mut manager);
    let told = host.0.borrow().last_number;
    host.manner("a", Manner::Obeys);
    manager.change_to(&COMMAND, "rest").unwrap();
    let sent = host.0.borrow().sent;
    let news = done(&host, "a", told);
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
            News::Joined {
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
    let count = |of: fn(&Record) -> bool| records.iter().filter(|record| of(record)).count();
    assert_eq!(
        count(|it| matches!(it, Record::Tells { .. })),
        host.0.borrow().sent
    );
    let asked = count(|it| matches!(it, Record::Asks { .. }));
    assert_eq!(
        (asked, count(|it| matches!(it, Record::Accepted { .. }))),
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
    assert_eq!(last, Some(Record::Holds { state }));
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
            host.later(1_000, News::Left { domain });
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
            Record::Holds {
                state: from.clone(),
            },
            Record::Begins {
                from: from.clone(),
                to: to.clone(),
                stopping: ["c".to_owned()].into(),
                fallbacks: [("c".to_owned(), park.clone())].into(),
            },
            Record::Tells { domain: "c".into() },
        ];
        let waits = journal::resumption(records.clone(), table).unwrap();
        assert_eq!(waits.fate, journal::Fate::RolledBack);
        assert_eq!(waits.state.mode, "rest");
        let asks = Record::Asks {
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
        Record::Begins {
            from,
            to: to.clone(),
            stopping: ["c".to_owned()].into(),
            fallbacks: [("c".to_owned(), fallback)].into(),
        },
        Record::Switched { domain: "c".into() },
        Record::Asks {
            domain: "c".into(),
            interface,
        },
    ];
    let found = journal::resumption(records, table).unwrap();
    assert_eq!(
        found.state.domains["c"].interface,
        to.domains["c"].interface
    );
}
