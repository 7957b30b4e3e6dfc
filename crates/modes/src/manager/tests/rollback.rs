//! Changes that are taken back, with agents that do not go back.

use super::*;

fn ordered_modes(orders: &[Order]) -> Vec<&str> {
    let names = orders.iter().filter_map(|order| match order {
        Order::Change { mode, .. } => Some(mode.as_str()),
        Order::Withdraw { .. } => None,
    });
    names.collect()
}

#[test]
fn one_that_does_not_go_back_keeps_no_other_from_it() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manners("b", &[Manner::Obeys, Manner::Fails]);
    host.0.borrow_mut().refuses.insert("c".into());
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    let back = report.rolled_back.unwrap();
    let causes = match &back.outcome.ending {
        Ending::Partly(causes) => causes.keys().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    assert_eq!(causes, ["b"]);
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (5, 1));
    assert_eq!(host.runs("a"), ["a-always", "a-run"]);
}

#[test]
fn who_does_not_answer_on_the_way_back_falls_back_and_leaves_the_others_room() {
    for last in [Manner::Hangs, Manner::Absent] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        host.manners("c", &[Manner::Obeys, last]);
        host.manner("b", Manner::Hangs);
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        let back = report.rolled_back.unwrap();
        let causes = match &back.outcome.ending {
            Ending::Partly(causes) => causes.keys().collect::<Vec<_>>(),
            other => panic!("{other:?}"),
        };
        assert_eq!(causes, ["c"]);
        assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (5, 1));
        assert_eq!(host.runs("a"), ["a-always", "a-run"]);
        let c = &manager.state().domains["c"];
        assert_eq!((c.interface.name.as_str(), &c.tasks), ("park", &None));
        assert!(host.0.borrow().most_percent <= 80);
    }
}

#[test]
fn who_cannot_go_back_is_asked_for_its_fallback() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manners("c", &[Manner::Obeys, Manner::Fails, Manner::Obeys]);
    host.manner("b", Manner::Hangs);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(report.rolled_back.is_some());
    assert_eq!(
        ordered_modes(&host.orders_since(0, "c")),
        ["rest", "run", "park"]
    );
    assert_eq!(host.runs("c"), ["c-always", "c-park"]);
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (5, 1));
}

#[test]
fn agents_of_which_nothing_is_known_are_told_what_holds_again() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manners("b", &[Manner::Hangs, Manner::Obeys]);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(report.rolled_back.is_some());
    assert_eq!(ordered_modes(&host.orders_since(0, "b")), ["rest", "run"]);
    settle(&host, &mut manager);
    assert_eq!(host.runs("b"), ["b-always", "b-run"]);
    assert!(manager.state().domains["b"].tasks.is_some());
}

/// Where nobody knows what runs, tasks of any mode may.
#[test]
fn whatever_may_run_is_stopped() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manner("c", Manner::Hangs);
    manager.change_to(&COMMAND, "rest").unwrap();
    assert_eq!(manager.state().domains["c"].tasks, None);
    let left = "c-full".to_owned();
    host.0
        .borrow_mut()
        .running
        .get_mut("c")
        .unwrap()
        .insert(left);
    host.manner("c", Manner::Obeys);
    manager.change_to(&COMMAND, "off").unwrap();
    assert_eq!(host.runs("c"), ["c-always", "c-off"]);
}

/// A change that is taken back, and is preempted at that: what is noted is still what held before.
#[test]
fn what_is_not_taken_back_to_its_end_is_no_mode_of_the_table() {
    let (host, manager) = manager(RequestsMeanwhile::Preempt);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    host.manner("b", Manner::Fails);
    host.manners("a", &[Manner::Obeys, Manner::Hangs]);
    host.later(5_000, asked(Asker::Command(2), "off"));
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    let back = report.rolled_back.unwrap();
    assert_eq!(back.outcome.ending, Ending::GivenUp(Cause::Preempted));
    let mixture = manager.state().clone();
    let whole = manager.table().in_mode("run");
    assert_ne!(mixture, whole);
    let last = noted.0.lock().unwrap().last().cloned();
    assert_eq!(last, Some(StepRecord::Holds { state: whole }));
}

/// Once a mode is reached as a whole it is what holds: nothing goes back to what was before the mixture.
#[test]
fn a_mode_that_is_reached_after_a_mixture_is_what_holds() {
    // The mode after the mixture is another one, or the same again before anything was done.
    for (after_us, mode) in [(5, "off"), (0, "run")] {
        let (host, manager) = manager(RequestsMeanwhile::Preempt);
        let noted = Noted::default();
        let mut manager = manager.with_journal(Box::new(noted.clone()));
        if mode == "run" {
            manager.set_options(one_by_one(&manager));
            host.manner("a", Manner::Fails);
        }
        host.later(after_us, asked(Asker::Command(2), mode));
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        assert_eq!(report.outcome.ending, Ending::GivenUp(Cause::Preempted));
        let (_, reached) = manager.serve_one(None).unwrap();
        assert!(reached.unwrap().is_there());
        let state = manager.state().clone();
        assert_eq!(state, manager.table().in_mode(mode));
        let last = noted.0.lock().unwrap().last().cloned();
        assert_eq!(
            last,
            Some(StepRecord::Holds {
                state: state.clone()
            })
        );
        host.manner("a", Manner::Obeys);
        host.manner("b", Manner::Fails);
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        assert!(report.rolled_back.is_some());
        assert_eq!(host.budget_ms("a"), budget_ms(&state, "a"));
    }
}

#[test]
fn a_mode_in_which_all_is_as_it_is_after_a_mixture_is_what_holds() {
    let (_, manager) = manager(RequestsMeanwhile::Preempt);
    let noted = Noted::default();
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    // As after a change from there that was preempted when it had done as much.
    manager.whole = Some(manager.table().in_mode("rest"));
    let report = manager.change_to(&COMMAND, "run").unwrap();
    assert!(report.changes_nothing());
    let state = manager.table().in_mode("run");
    let last = noted.0.lock().unwrap().last().cloned();
    assert_eq!(last, Some(StepRecord::Holds { state }));
}

fn one_by_one(manager: &HostModeManager<FakeHost, FakeHost, FakeHost>) -> Options {
    Options {
        policy: ChangePolicy::Sequential,
        ..manager.table().options()
    }
}

fn budget_ms(state: &State, domain: &str) -> u64 {
    let interface = &state.domains[domain].interface.interface;
    interface.budget.as_nanos() / 1_000_000
}

/// A host that was found in what does not fit, such as after a smaller share was left to its modes.
#[test]
fn where_there_is_no_way_back_what_held_is_still_what_is_noted() {
    let (host, manager) = manager(RequestsMeanwhile::Queue);
    let full = manager.table().in_mode("full");
    let noted = Noted::default();
    let mut manager = manager
        .in_state(full.clone())
        .with_journal(Box::new(noted.clone()));
    host.manner("b", Manner::Fails);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(!report.is_there() && report.rolled_back.is_none());
    assert_ne!(*manager.state(), full);
    let last = noted.0.lock().unwrap().last().cloned();
    assert_eq!(last, Some(StepRecord::Holds { state: full }));
}

/// What is left of old tasks in a mixture may be of any mode, so new ones wait the longest.
#[test]
fn in_a_mixture_new_tasks_wait_for_what_any_mode_may_have_left() {
    let offset = |from: &str, to: &str, ms: u64| StartOffset {
        from: from.into(),
        to: to.into(),
        domain: "a".into(),
        offset: Duration::from_millis(ms),
    };
    let offsets = vec![offset("run", "rest", 3), offset("rest", "off", 9)];
    let table = table(RequestsMeanwhile::Queue).with_offsets(offsets);
    let wait = |state: &State| {
        let target = table.mode("rest").unwrap();
        let changes = state.changes_to(&table, "rest", target);
        changes.iter().find(|it| it.domain == "a").unwrap().offset
    };
    let mut state = table.in_mode("run");
    assert_eq!(wait(&state), Duration::from_millis(3));
    let other = table.in_mode("off").domains["b"].clone();
    state.domains.insert("b".into(), other);
    assert_eq!(wait(&state), Duration::from_millis(9));
}
