//! Requests that come while a change is under way, and what a change may take.

use super::*;

const MANNERS: [RequestsMeanwhile; 3] = [
    RequestsMeanwhile::Queue,
    RequestsMeanwhile::Merge,
    RequestsMeanwhile::Preempt,
];

fn trigger() -> Asker {
    Asker::Trigger("off.triggers[0]".into())
}

/// The next answer.
fn serve(
    manager: &mut HostModeManager<FakeHost, FakeHost, FakeHost>,
) -> Option<(Asker, Result<Report, ModeError>)> {
    manager.serve_one(Some(Instant::from_nanos(500_000_000)))
}

#[test]
fn what_does_not_fit_ends_nothing() {
    for how in MANNERS {
        let meanwhile = [(Asker::Command(1), "full"), (trigger(), "full")];
        let answers = answers(how, &meanwhile);
        assert_eq!(answers.len(), 3, "{how:?}");
        assert!(answers.contains(&(Asker::Command(0), "rest".to_owned())));
        let refused = |by: &Asker| {
            answers
                .iter()
                .find(|(asker, _)| asker == by)
                .unwrap()
                .1
                .clone()
        };
        for by in [Asker::Command(1), trigger()] {
            assert!(refused(&by).contains("does not fit"), "{answers:?}");
        }
    }
}

#[test]
fn a_change_after_a_preempted_one_is_taken_back_to_a_whole_mode() {
    let (host, manager) = manager(RequestsMeanwhile::Preempt);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    host.later(0, asked(Asker::Command(0), "rest"));
    host.later(5, asked(Asker::Command(1), "off"));
    let (_, report) = serve(&mut manager).unwrap();
    assert!(!report.unwrap().is_there());
    // A mixture: one domain had been told.
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (1, 1));
    host.manner("b", Manner::Fails);
    let (_, report) = serve(&mut manager).unwrap();
    let report = report.unwrap();
    assert!(!report.is_there() && report.rolled_back.is_some());
    let budgets = ["a", "b", "c"].map(|domain| host.budget_ms(domain));
    assert_eq!((manager.state().mode.as_str(), budgets), ("run", [5, 2, 1]));
    assert_eq!(host.runs("a"), ["a-always", "a-run"]);
    // A daemon after this one makes no mixture either.
    let table = manager.table().clone();
    let mut records = noted.0.lock().unwrap().clone();
    assert!(records.len() > 5);
    while !records.is_empty() {
        let resumption = journal::resumption(records.iter().cloned(), &table).unwrap();
        let all = resumption.state.domains.iter();
        let interface = |(_, state): (_, &DomainState)| state.interface.name.clone();
        let modes: BTreeSet<String> = all.map(interface).collect();
        assert_eq!(modes.len(), 1, "{:?}", records.last());
        records.pop();
    }
}

#[test]
fn the_mode_that_is_under_way_is_not_asked_for_again() {
    for how in MANNERS {
        let (host, mut manager) = manager(how);
        host.later(0, asked(Asker::Command(0), "rest"));
        for after_us in [5, 6] {
            host.later(after_us, asked(Asker::Command(after_us), "rest"));
            host.later(after_us, asked(Asker::Domain("b".into()), "rest"));
            host.later(after_us, asked(Asker::Trigger("t".into()), "rest"));
        }
        let (asker, report) = serve(&mut manager).unwrap();
        assert_eq!(asker, Asker::Command(0));
        assert_eq!(report.unwrap().outcome.ending, Ending::Completed, "{how:?}");
        // Each domain was told once, and who waits gets the same answer.
        assert_eq!(host.0.borrow().sent, 3);
        assert_eq!(
            manager.take_joined(),
            [Asker::Command(5), Asker::Command(6)]
        );
        assert_eq!(manager.take_joined(), []);
        assert!(serve(&mut manager).is_none());
    }
    // If another mode comes in between it is not the same request.
    let meanwhile = [(Asker::Command(1), "off"), (Asker::Command(2), "rest")];
    let answers = answers(RequestsMeanwhile::Queue, &meanwhile);
    let modes: Vec<&str> = answers.iter().map(|(_, answer)| answer.as_str()).collect();
    assert_eq!(modes, ["rest", "off", "rest"]);
}

/// Who asks again for a mode whose change another request has ended asks for another change.
#[test]
fn a_change_that_was_ended_is_not_under_way() {
    let meanwhile = [(Asker::Command(1), "off"), (Asker::Command(2), "rest")];
    let command = |number, answer: &str| (Asker::Command(number), answer.to_owned());
    assert_eq!(
        answers(RequestsMeanwhile::Preempt, &meanwhile),
        [
            command(0, &Cause::Preempted.to_string()),
            command(1, &ModeError::Replaced.to_string()),
            command(2, "rest"),
        ]
    );
}

#[test]
fn an_agent_has_one_request_waiting() {
    let by_agent = |answer: &str| (Asker::Domain("b".into()), answer.to_owned());
    let meanwhile = [("run"), ("run")].map(|mode| (Asker::Domain("b".into()), mode));
    let answers = answers(RequestsMeanwhile::Queue, &meanwhile);
    let replaced = ModeError::Replaced.to_string();
    assert_eq!(answers[1..], [by_agent(&replaced), by_agent("run")]);
}

#[test]
fn nobody_waits_for_a_change_after_the_next_one_has_begun() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.later(5, asked(Asker::Command(2), "rest"));
    manager.change_to(&COMMAND, "rest").unwrap();
    manager.change_to(&COMMAND, "run").unwrap();
    assert_eq!(manager.take_joined(), []);
}

#[test]
fn what_goes_by_itself_waits_behind_commands() {
    let replaced = ModeError::Replaced.to_string();
    let command = |number, answer: &str| (Asker::Command(number), answer.to_owned());
    let by_trigger = |answer: &str| (trigger(), answer.to_owned());
    for how in MANNERS {
        // It does not end what a command asked for.
        let meanwhile = [(trigger(), "off"), (Asker::Domain("b".into()), "rest")];
        let answers = answers(how, &meanwhile[..1]);
        assert_eq!(answers, [command(0, "rest"), by_trigger("off")], "{how:?}");
    }
    // Nor does it take its place.
    let meanwhile = [(Asker::Command(1), "run"), (trigger(), "off")];
    assert_eq!(
        answers(RequestsMeanwhile::Merge, &meanwhile),
        [command(0, "rest"), command(1, "run"), by_trigger("off")]
    );
    // A command takes the place of the others, and ends what they have begun.
    let meanwhile = [(trigger(), "off"), (Asker::Command(1), "run")];
    assert_eq!(
        answers(RequestsMeanwhile::Merge, &meanwhile),
        [command(0, "rest"), by_trigger(&replaced), command(1, "run")]
    );
    let (host, mut manager) = manager(RequestsMeanwhile::Preempt);
    host.later(0, asked(trigger(), "rest"));
    host.later(5, asked(Asker::Command(1), "off"));
    let (asker, report) = serve(&mut manager).unwrap();
    assert!(asker == trigger() && !report.unwrap().is_there());
    assert_eq!(serve(&mut manager).unwrap().0, Asker::Command(1));
    assert_eq!(manager.state().mode, "off");
}

#[test]
fn a_change_that_a_command_wants_too_is_not_ended_by_a_trigger() {
    let (host, mut manager) = manager(RequestsMeanwhile::Preempt);
    host.later(0, asked(trigger(), "off"));
    host.later(5, asked(Asker::Command(1), "off"));
    host.later(6, asked(Asker::Domain("b".into()), "rest"));
    let (_, report) = serve(&mut manager).unwrap();
    assert!(report.unwrap().is_there());
    assert_eq!(manager.take_joined(), [Asker::Command(1)]);
    assert_eq!(serve(&mut manager).unwrap().0, Asker::Domain("b".into()));
}

#[test]
fn the_mode_that_holds_costs_nothing() {
    let (host, manager) = manager(RequestsMeanwhile::Queue);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    let before = noted.0.lock().unwrap().len();
    let report = manager.change_to(&COMMAND, "run").unwrap();
    assert!(report.is_there() && report.changes_nothing());
    assert_eq!(noted.0.lock().unwrap().len(), before);
    // Nor does the next one have to wait for it.
    let now = host.now();
    host.later(0, asked(COMMAND, "rest"));
    let report = serve(&mut manager).unwrap().1.unwrap();
    assert_eq!(report.timeline.began_at, Some(now));
    assert!(!report.changes_nothing());
    assert_eq!(host.0.borrow().waited_in_turn_ns / 1_000_000, 0);
}

#[test]
fn the_boosts_of_a_domain_share_what_is_reserved_for_them() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manner("c", Manner::Fails);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(
        matches!(&report.outcome.ending, Ending::Partly(_)),
        "{report:?}"
    );
    let boosts = host.0.borrow().boosts.clone();
    let of_it = boosts.iter().filter(|(domain, _)| domain == "c");
    let micros: Vec<u64> = of_it
        .map(|(_, at_most)| at_most.as_nanos() / 1_000)
        .collect();
    // Asked to switch and to fall back; it takes 50 us to answer.
    assert_eq!(micros, [500, 450]);
}

#[test]
fn others_may_reserve_while_an_agent_does_not_answer() {
    for manner in [Manner::Obeys, Manner::Fails, Manner::Hangs] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        host.manner("b", manner);
        let began = host.now();
        let _report = manager.change_to(&COMMAND, "rest").unwrap();
        let stage = host.0.borrow();
        assert!(!stage.changing);
        // Twice: for the change, and to take it back.
        assert!(stage.waited_in_turn_ns <= 4_000_000, "{manner:?}");
        let lasted = Instant::from_nanos(stage.now).saturating_since(began);
        assert_eq!(lasted > Duration::from_millis(15), manner == Manner::Hangs);
    }
}
