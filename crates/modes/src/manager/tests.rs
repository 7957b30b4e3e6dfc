//! The host mode manager over a host and agents that do as they are told, or not.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addition;
mod claims;
mod host;
mod late_answers;
mod promises;
mod queue;
mod requests;
mod rollback;

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use tailbound_model::{
    AgentPlace, BudgetScope, ChangePolicy, Cpu, Priority, RequestsMeanwhile, TaskStart,
};

use tailbound_time::{Duration, Fraction};

use super::*;
use crate::table::{AgentEntry, Settings, StartOffset};
use crate::transition::Options;
use host::{FakeHost, Manner};

fn local(mode: &str, domain: &str, budget_ms: u64) -> DomainMode {
    DomainMode {
        name: mode.into(),
        interface: ResourceInterface {
            budget: Duration::from_millis(budget_ms),
            period: Duration::from_millis(10),
            priority: Priority(10),
            cpus: [Cpu(0)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        tasks: [format!("{domain}-{mode}"), format!("{domain}-always")].into(),
    }
}

fn settings(requests: RequestsMeanwhile) -> Settings {
    Settings {
        options: Options {
            policy: ChangePolicy::Prompt,
            start: TaskStart::InForce,
            timeout: Duration::from_millis(20),
        },
        requests,
        longest_boost: Duration::from_micros(500),
        least_gap: Duration::from_millis(1),
    }
}

/// Two modes, `run` and `rest`, of three domains on one CPU, of which 80 percent are theirs.
fn table(requests: RequestsMeanwhile) -> ModeTable {
    let mode = |name: &str, budgets: [u64; 3]| {
        let domains = ["a", "b", "c"].iter().zip(budgets);
        let locals =
            domains.map(|(domain, budget)| ((*domain).to_owned(), local(name, domain, budget)));
        (name.to_owned(), locals.collect())
    };
    let modes = [
        mode("run", [5, 2, 1]),
        mode("rest", [1, 2, 5]),
        mode("off", [1, 1, 1]),
        // More than there is.
        mode("full", [5, 2, 5]),
    ];
    let agent = |may: &[&str], fallback: Option<DomainMode>| AgentEntry {
        place: AgentPlace::Inside,
        may_request: may.iter().map(|mode| (*mode).to_owned()).collect(),
        fallback,
    };
    let agents = [
        ("a".to_owned(), agent(&[], None)),
        ("b".to_owned(), agent(&["rest", "run"], None)),
        ("c".to_owned(), agent(&[], Some(local("park", "c", 1)))),
    ];
    ModeTable::new(
        "run".into(),
        modes.into(),
        agents.into(),
        settings(requests),
    )
    .unwrap()
}

fn manager(
    requests: RequestsMeanwhile,
) -> (FakeHost, HostModeManager<FakeHost, FakeHost, FakeHost>) {
    let host = FakeHost::default();
    let table = table(requests);
    for (domain, local) in table.mode("run").unwrap() {
        host.manner(domain, Manner::Obeys);
        let mut stage = host.0.borrow_mut();
        stage
            .interfaces
            .insert(domain.clone(), local.interface.clone());
        stage.running.insert(domain.clone(), local.tasks.clone());
    }
    let limits = Limits::new().with(Cpu(0), Fraction::new(80, 100));
    let manager = HostModeManager::new(table, limits, host.clone(), host.clone(), host.clone());
    (host, manager)
}

const COMMAND: Asker = Asker::Command(1);

/// Serves what comes, for 10 ms.
fn settle(host: &FakeHost, manager: &mut HostModeManager<FakeHost, FakeHost, FakeHost>) {
    let until = Some(Instant::from_nanos(host.now().as_nanos() + 10_000_000));
    assert!(manager.serve_one(until).is_none());
}

#[test]
fn a_mode_changes_tasks_and_reservations() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed);
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (1, 5));
    assert_eq!(host.runs("a"), ["a-always", "a-rest"]);
    assert_eq!(host.runs("b"), ["b-always", "b-rest"]);
    assert!(host.0.borrow().most_percent <= 80);
    assert!(host.0.borrow().boosted.is_empty());
    assert_eq!(manager.state().mode, "rest");
    let again = manager.change_to(&COMMAND, "rest").unwrap();
    assert_eq!(again.timeline.steps, []);
}

/// A boost takes time to begin, and the message is written meanwhile.
#[test]
fn who_is_boosted_is_so_when_the_message_comes() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let boost = Options {
        policy: ChangePolicy::Boost,
        ..manager.table().options()
    };
    manager.set_options(boost);
    manager.change_to(&COMMAND, "rest").unwrap();
    let stage = host.0.borrow();
    assert!(stage.boosted_before.iter().eq(["a", "b", "c"]));
}

#[test]
fn what_cannot_be_done_is_taken_back() {
    for manner in [Manner::Fails, Manner::Hangs, Manner::Absent] {
        let (host, mut manager) = manager(RequestsMeanwhile::Queue);
        host.manner("b", manner);
        let report = manager.change_to(&COMMAND, "rest").unwrap();
        assert!(!report.is_there(), "{manner:?}");
        let back = report.rolled_back.unwrap();
        assert_eq!(back.outcome.ending, Ending::Completed, "{manner:?}");
        assert_eq!(manager.state().mode, "run");
        assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (5, 1));
        assert_eq!(host.runs("a"), ["a-always", "a-run"]);
        assert!(host.0.borrow().most_percent <= 80);
        assert!(host.0.borrow().boosted.is_empty());
        // One that said that its tasks are as before is believed; one that said nothing is not.
        let is_known = manager.state().domains["b"].tasks.is_some();
        assert_eq!(is_known, manner == Manner::Fails, "{manner:?}");
    }
}

#[test]
fn a_refused_reservation_is_taken_back_as_well() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.0.borrow_mut().refuses.insert("c".into());
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(matches!(
        &report.outcome.ending,
        Ending::GivenUp(Cause::Refused { .. })
    ));
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (5, 1));
    assert_eq!(host.runs("a"), ["a-always", "a-run"]);
    assert_eq!(host.runs("c"), ["c-always", "c-run"]);
}

#[test]
fn a_fallback_spares_the_others() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manner("c", Manner::Hangs);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert!(matches!(&report.outcome.ending, Ending::Partly(causes) if causes.contains_key("c")));
    assert_eq!(manager.state().mode, "rest");
    // It has grown before it was asked, and gets its fallback then.
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (1, 1));
    assert_eq!(host.0.borrow().withdrawn, ["c"]);
    // When it comes back it is told what its reservation is for.
    host.manner("c", Manner::Obeys);
    host.later(
        10,
        AgentEvent::Joined {
            domain: "c".into(),
            number: 100,
        },
    );
    let until = Some(Instant::from_nanos(host.now().as_nanos() + 1_000_000));
    assert!(manager.serve_one(until).is_none());
    assert_eq!(host.runs("c"), ["c-always", "c-park"]);
}

#[test]
fn a_liar_overloads_nobody_else() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    host.manner("a", Manner::Lies);
    let report = manager.change_to(&COMMAND, "rest").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed);
    // Its old tasks run on, with what the new ones were to have.
    assert_eq!((host.budget_ms("a"), host.budget_ms("c")), (1, 5));
    assert!(host.0.borrow().most_percent <= 80);
}

fn asked(by: Asker, mode: &str) -> AgentEvent {
    AgentEvent::Asked {
        by,
        mode: mode.into(),
    }
}

/// The answers to what is asked while a transition is under way.
fn answers(requests: RequestsMeanwhile, meanwhile: &[(Asker, &str)]) -> Vec<(Asker, String)> {
    let (host, mut manager) = manager(requests);
    host.later(0, asked(Asker::Command(0), "rest"));
    for (index, (asker, mode)) in meanwhile.iter().enumerate() {
        host.later(5 + index as u64, asked(asker.clone(), mode));
    }
    let mut answers = Vec::new();
    let until = Some(Instant::from_nanos(500_000_000));
    while let Some((asker, answer)) = manager.serve_one(until) {
        let answer = match answer {
            Ok(report) => match report.outcome.ending {
                Ending::GivenUp(cause) => cause.to_string(),
                _ => manager.state().mode.clone(),
            },
            Err(error) => error.to_string(),
        };
        answers.push((asker, answer));
    }
    answers
}

#[test]
fn requests_wait_replace_each_other_or_come_first() {
    let meanwhile = [(Asker::Command(1), "run"), (Asker::Command(2), "off")];
    let command = |number, answer: &str| (Asker::Command(number), answer.to_owned());
    assert_eq!(
        answers(RequestsMeanwhile::Queue, &meanwhile),
        [command(0, "rest"), command(1, "run"), command(2, "off")]
    );
    let replaced = ModeError::Replaced.to_string();
    assert_eq!(
        answers(RequestsMeanwhile::Merge, &meanwhile),
        [command(0, "rest"), command(1, &replaced), command(2, "off")]
    );
    assert_eq!(
        answers(RequestsMeanwhile::Preempt, &meanwhile),
        [
            command(0, &Cause::Preempted.to_string()),
            command(1, &replaced),
            command(2, "off"),
        ]
    );
}

#[test]
fn agents_ask_for_what_they_may() {
    let of = |domain: &str| Asker::Domain(domain.into());
    let flood: Vec<(Asker, &str)> = std::iter::repeat_n((of("a"), "off"), 500).collect();
    let flood_answers = answers(RequestsMeanwhile::Preempt, &flood);
    // None of them ends the transition, and few are remembered.
    assert_eq!(flood_answers[0], (Asker::Command(0), "rest".to_owned()));
    assert!(
        flood_answers[1..]
            .iter()
            .all(|(_, answer)| answer.contains("may not ask"))
    );
    assert!(
        (1..500).contains(&(flood_answers.len() - 1)),
        "{}",
        flood_answers.len()
    );
    let queue_answers = answers(
        RequestsMeanwhile::Queue,
        &[(of("b"), "run"), (of("b"), "run")],
    );
    assert_eq!(
        queue_answers.len(),
        3,
        "one waits, one is replaced: {queue_answers:?}"
    );
}

#[test]
fn changes_keep_their_distance() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let mut begun = Vec::new();
    for (number, mode) in ["rest", "run", "rest"].iter().enumerate() {
        host.later(number as u64, asked(Asker::Command(number as u64), mode));
    }
    while let Some((_, report)) = manager.serve_one(Some(Instant::from_nanos(900_000_000))) {
        begun.push(report.unwrap().timeline.began_at.unwrap());
    }
    assert_eq!(begun.len(), 3);
    for pair in begun.windows(2) {
        assert!(pair[1].saturating_since(pair[0]) >= Duration::from_millis(1));
    }
}

#[test]
fn a_table_is_whole() {
    let one: BTreeMap<String, DomainMode> = [("a".to_owned(), local("run", "a", 1))].into();
    let none = BTreeMap::new();
    let modes: BTreeMap<_, _> = [("run".to_owned(), one), ("off".to_owned(), none)].into();
    let table = |initial: &str| {
        let settings = settings(RequestsMeanwhile::Queue);
        ModeTable::new(initial.into(), modes.clone(), BTreeMap::new(), settings)
    };
    assert!(table("run").unwrap_err().to_string().contains("mode `off`"));
    assert!(table("fly").unwrap_err().to_string().contains("`fly`"));
}

/// A journal that the test reads.
#[derive(Clone, Default)]
struct Noted(std::sync::Arc<std::sync::Mutex<Vec<StepRecord>>>);

impl StepJournal for Noted {
    fn note(&mut self, record: &StepRecord) {
        self.0.lock().unwrap().push(record.clone());
    }
}

/// What each beginning of the journal of a change leads to: budgets of a and c, and the fate.
fn resumptions(
    set_up: impl Fn(&FakeHost),
    mode: &str,
) -> Vec<(Option<StepRecord>, (u64, u64), journal::Fate)> {
    let (host, manager) = manager(RequestsMeanwhile::Queue);
    set_up(&host);
    let noted = Noted::default();
    host.0.borrow_mut().noted = Some(noted.clone());
    let mut manager = manager.with_journal(Box::new(noted.clone()));
    let _report = manager.change_to(&COMMAND, mode).unwrap();
    let records = noted.0.lock().unwrap().clone();
    let table = manager.table().clone();
    let ends = 1..=records.len();
    ends.map(|end| {
        let resumption = journal::resumption(records[..end].iter().cloned(), &table).unwrap();
        let budget = |domain: &str| {
            let state = &resumption.state.domains[domain];
            state.interface.interface.budget.as_nanos() / 1_000_000
        };
        // Whoever has an agent is not believed to run anything in particular.
        let agents = resumption.state.domains.iter();
        let mut agents = agents.filter(|(name, _)| table.agent_place(name).is_some());
        assert!(agents.all(|(_, state)| state.tasks.is_none()));
        let last = records.get(end - 1).cloned();
        (last, (budget("a"), budget("c")), resumption.fate)
    })
    .collect()
}

#[test]
fn a_dead_managers_change_is_finished_once_all_that_shrink_have_stopped_their_tasks() {
    use journal::Fate;
    let resumptions = resumptions(|_| {}, "rest");
    assert_eq!(resumptions.first().unwrap().2, Fate::NoneUnderWay);
    assert_eq!(resumptions.last().unwrap().1, (1, 5));
    let switched = |one: &Option<StepRecord>| matches!(one, Some(StepRecord::Switched { domain }) if domain == "a");
    let stopped = resumptions
        .iter()
        .position(|(last, ..)| switched(last))
        .unwrap();
    for (place, (last, budgets, fate)) in resumptions.iter().enumerate() {
        let expected = match (place, last) {
            (_, Some(StepRecord::Holds { .. })) if place > 0 => ((1, 5), Fate::NoneUnderWay),
            (0, _) => ((5, 1), Fate::NoneUnderWay),
            _ if place < stopped => ((5, 1), Fate::RolledBack),
            _ => ((1, 5), Fate::Finished),
        };
        assert_eq!((*budgets, *fate), expected, "{place}: {last:?}");
    }
}

#[test]
fn a_dead_managers_change_that_was_being_taken_back_is_taken_back() {
    let manners = [Manner::Fails, Manner::Hangs, Manner::Absent];
    // Of the one that ends the change, and of one with a fallback on the way back.
    let pairs = manners
        .into_iter()
        .flat_map(|b| [Manner::Obeys, Manner::Hangs, Manner::Fails].map(|c| (b, c)));
    for manner in pairs {
        let set_up = |host: &FakeHost| {
            host.manner("b", manner.0);
            host.manners("c", &[Manner::Obeys, manner.1, Manner::Obeys]);
        };
        let resumptions = resumptions(set_up, "rest");
        let mut begins = resumptions
            .iter()
            .enumerate()
            .filter(|(_, (last, ..))| matches!(last, Some(StepRecord::Begins { .. })));
        let (_, back) = (begins.next().unwrap(), begins.next().unwrap().0);
        for (last, budgets, _) in &resumptions[back..] {
            assert_eq!(*budgets, (5, 1), "{manner:?} {last:?}");
        }
    }
}

#[test]
fn nothing_is_told_again_to_an_agent_that_has_answered() {
    let (host, mut manager) = manager(RequestsMeanwhile::Queue);
    let joined = |number| AgentEvent::Joined {
        domain: "a".into(),
        number,
    };
    for (manner, is_known) in [(Manner::Obeys, true), (Manner::Fails, false)] {
        host.manner("a", manner);
        host.later(10, joined(7));
        let until = Some(Instant::from_nanos(host.now().as_nanos() + 10_000_000));
        assert!(manager.serve_one(until).is_none());
        // One answer to the one order, and then silence.
        assert!(host.0.borrow().news.is_empty());
        assert_eq!(manager.state().domains["a"].tasks.is_some(), is_known);
    }
}
