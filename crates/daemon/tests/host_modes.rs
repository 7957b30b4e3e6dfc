//! Mode changes by the real daemon on this host, with a real agent that stops and continues a real
//! process.
//!
//! Needs what the ds-freeze back end needs; skips aloud where that is missing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc;
use std::thread::JoinHandle;

use tailbound_control::{Client, ClientError, Lease};
use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::boot_id;
use tailbound_linux::task_process::TaskProcess;
use tailbound_model::{
    self as model, AgentPlace, ChangePolicy, Metric, Percent, RequestsMeanwhile, ResourceInterface,
    TaskStart,
};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::signals::SignalledProcesses;
use tailbound_modes::agent::{Agent, AgentHandle, Event, Patience, TaskTable};
use tailbound_modes::control::{ModesClient, ModesRefusal};
use tailbound_modes::table::{self, ModeTable, Settings, StartOffset};
use tailbound_modes::transition::{Cause, DomainMode, Ending, Options, StepKind};
use tailbound_modes::triggers::ModeTrigger;
use tailbound_modes::wire::Name;
use tailbound_time::Duration;

use crate::stage::{Stage, eventually};

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn settings() -> Settings {
    Settings {
        options: Options {
            policy: ChangePolicy::Prompt,
            start: TaskStart::InForce,
            timeout: ms(2_000),
        },
        requests: RequestsMeanwhile::Queue,
        longest_boost: Duration::from_micros(500),
        least_gap: ms(1),
    }
}

/// The domain with its task in `run`, and with less and without it in `rest`.
fn table(stage: &Stage, initial: &ResourceInterface) -> ModeTable {
    let local = |name: &str, budget: Duration, tasks: &[&str]| DomainMode {
        name: name.into(),
        interface: ResourceInterface {
            budget,
            ..initial.clone()
        },
        tasks: tasks.iter().map(|task| (*task).to_owned()).collect(),
    };
    let mode = |name: &str, local: DomainMode| {
        let locals: BTreeMap<String, DomainMode> = [(stage.domain(), local)].into();
        (name.to_owned(), locals)
    };
    let modes = [
        mode("run", local("run", initial.budget, &["work"])),
        mode("rest", local("rest", ms(1), &[])),
    ];
    let agent = table::AgentEntry {
        place: AgentPlace::Outside,
        may_request: ["rest".to_owned()].into(),
        fallback: None,
    };
    let settings = settings();
    let agents = [(stage.domain(), agent)].into();
    ModeTable::new("run".into(), modes.into(), agents, settings).unwrap()
}

/// An agent in a thread of its own.
struct Running {
    handle: AgentHandle,
    refused: mpsc::Receiver<String>,
    thread: JoinHandle<()>,
}

fn start_agent(stage: &Stage, socket: &Path) -> Running {
    let mut tasks = TaskTable::new();
    let work: Name = "work".parse().unwrap();
    let process = TaskProcess::open(stage.busy.id(), None).unwrap();
    let control = SignalledProcesses::new(work.clone(), vec![process], ms(2_000));
    tasks.add(work, Box::new(control)).unwrap();
    let mut agent = Agent::new(
        stage.domain().parse().unwrap(),
        &boot_id().unwrap(),
        UnixConnector::new(socket.to_owned()),
        tasks,
        Monotonic,
        Patience::default(),
    )
    .unwrap();
    let handle = agent.handle();
    let (sender, refused) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let mut observe = |event| {
            if let Event::Refused { mode, .. } = event {
                let _nobody_waits = sender.send(mode.to_string());
            }
        };
        agent.run(&mut observe).unwrap();
    });
    Running {
        handle,
        refused,
        thread,
    }
}

impl Running {
    fn end(self) {
        self.handle.end();
        self.thread.join().unwrap();
    }
}

fn agents(client: &mut Client) -> BTreeSet<String> {
    let modes = client.modes().unwrap().expect("modes are loaded");
    modes.agents.into_iter().collect()
}

fn budget(client: &mut Client) -> Duration {
    let status = client.status().unwrap();
    status.reservations[0].enforced.interface.budget
}

fn is_not_in_force(error: &ClientError) -> bool {
    matches!(
        ModesRefusal::of(error),
        Some(ModesRefusal::NotInForce { .. })
    )
}

#[test]
fn a_mode_changes_a_reservation_and_stops_a_process() {
    let Some(mut stage) = Stage::set("a_mode_changes_a_reservation") else {
        return;
    };
    let mut client = stage.client();
    let request = stage.request();
    let table = table(&stage, &request.interface);
    let early = client.load_modes(table.clone(), None).unwrap_err();
    assert!(is_not_in_force(&early), "{early}");
    assert!(
        early.to_string().contains("apply the description first"),
        "{early}"
    );
    assert!(client.modes().unwrap().is_none());
    let none = ModesRefusal::of(&client.set_mode("rest").unwrap_err());
    assert_eq!(none, Some(ModesRefusal::NoneKnown {}));

    client
        .apply(std::slice::from_ref(&request), Lease::Persistent)
        .unwrap();
    let socket = client.load_modes(table, None).unwrap();
    let agent = start_agent(&stage, &socket);
    eventually("the agent is there", || !agents(&mut client).is_empty());
    // Modes that do not fit what is in force take the others away from nobody.
    let mut other = request.interface.clone();
    other.budget = ms(1);
    let other = self::table(&stage, &other);
    let unfit = client.load_modes(other, None).unwrap_err();
    assert!(is_not_in_force(&unfit), "{unfit}");
    assert_eq!(agents(&mut client).len(), 1);
    let work = TaskProcess::open(stage.busy.id(), None).unwrap();
    let report = client.set_mode("rest").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    assert_eq!(budget(&mut client), ms(1));
    eventually("the task stands still", || {
        work.activity().unwrap().stopped > 0
    });
    let unknown = client.set_mode("fly").unwrap_err().to_string();
    assert!(unknown.contains("rest, run"), "{unknown}");

    let report = client.set_mode("run").unwrap();
    assert_eq!(report.outcome.ending, Ending::Completed, "{report:?}");
    assert_eq!(budget(&mut client), request.interface.budget);
    eventually("the task runs", || work.activity().unwrap().stopped == 0);
    // It may ask for one mode, and not for the other.
    agent.handle.request("run".parse().unwrap()).unwrap();
    assert_eq!(agent.refused.recv().unwrap(), "run");
    agent.handle.request("rest".parse().unwrap()).unwrap();
    eventually("the agent's mode holds", || {
        client.modes().unwrap().unwrap().state.mode == "rest"
    });
    assert!(client.set_mode("run").unwrap().is_there());

    agent.end();
    eventually("the agent is gone", || agents(&mut client).is_empty());
    let report = client.set_mode("rest").unwrap();
    let cause = &report.outcome.ending;
    assert!(
        matches!(cause, Ending::GivenUp(Cause::NoAgent { .. })),
        "{report:?}"
    );
    assert_eq!(client.modes().unwrap().unwrap().state.mode, "run");
    assert_eq!(budget(&mut client), request.interface.budget);
    // Without its reservation the modes are those of nothing.
    client.revert(tailbound_control::Selection::All).unwrap();
    assert!(client.modes().unwrap().is_none() && !socket.exists());
    stage.expect_restored();
}

/// The busy process with less in `rest` than in `run`, without an agent.
fn table_with_triggers(stage: &Stage, triggers: &[ModeTrigger]) -> ModeTable {
    let initial = stage.request().interface;
    let mode = |name: &str, budget: Duration| {
        let local = DomainMode {
            name: name.into(),
            interface: ResourceInterface {
                budget,
                ..initial.clone()
            },
            tasks: BTreeSet::new(),
        };
        let locals: BTreeMap<String, DomainMode> = [(stage.domain(), local)].into();
        (name.to_owned(), locals)
    };
    let modes = [mode("run", initial.budget), mode("rest", ms(1))].into();
    let (agents, settings) = (BTreeMap::new(), settings());
    let table = ModeTable::new("run".into(), modes, agents, settings).unwrap();
    table.with_triggers(triggers.to_vec())
}

#[test]
fn a_schedule_and_a_condition_change_modes() {
    let Some(mut stage) = Stage::set("a_schedule_and_a_condition") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    // The process uses up whatever it gets, in each mode.
    let exhausted = model::Trigger::Condition {
        domain: stage.domain(),
        metric: Metric::Depletions,
        above: Some(Percent(50.0)),
        below: None,
        window: ms(100),
    };
    let by_the_clock = model::Trigger::Schedule {
        every: ms(400),
        offset: ms(800),
    };
    let triggers = [
        ModeTrigger::described("rest", 0, &exhausted),
        ModeTrigger::described("run", 0, &by_the_clock),
    ];
    client
        .load_modes(table_with_triggers(&stage, &triggers), None)
        .unwrap();
    let mut fired = || {
        let modes = client.modes().unwrap().unwrap();
        let fired: Vec<u64> = modes.triggers.iter().map(|one| one.fired).collect();
        (modes.state.mode, fired)
    };
    eventually("the condition has asked", || fired().1[0] == 1);
    eventually("the schedule has asked, and got it", || {
        let (mode, fired) = fired();
        mode == "run" && fired[1] > 0
    });
    // It holds still, and it has not ceased to.
    assert_eq!(fired().1[0], 1);
    assert_eq!(budget(&mut client), stage.request().interface.budget);
    client.revert(tailbound_control::Selection::All).unwrap();
    stage.expect_restored();
}

#[test]
fn modes_are_added_to_those_that_are_known() {
    let Some(mut stage) = Stage::set("modes_are_added") else {
        return;
    };
    let mut client = stage.client();
    client.apply(&[stage.request()], Lease::Persistent).unwrap();
    let table = table_with_triggers(&stage, &[]);
    let none = ModesRefusal::of(&client.add_modes(table.clone(), None).unwrap_err());
    assert_eq!(none, Some(ModesRefusal::NoneKnown {}));
    client.load_modes(table.clone(), None).unwrap();
    let with = |budget_ms: u64| {
        let mut modes: BTreeMap<_, _> = table
            .names()
            .into_iter()
            .map(|name| (name.to_owned(), table.mode(name).unwrap().clone()))
            .collect();
        let mut locals = modes["run"].clone();
        locals.get_mut(&stage.domain()).unwrap().interface.budget = ms(budget_ms);
        modes.insert("more".into(), locals);
        ModeTable::new("run".into(), modes, BTreeMap::new(), settings()).unwrap()
    };
    let refused = client.add_modes(with(10), None).unwrap_err().to_string();
    assert!(
        refused.contains("mode `more`") && refused.contains("does not fit"),
        "{refused}"
    );
    let unknown = client.set_mode("more").unwrap_err().to_string();
    assert!(unknown.contains("rest, run"), "{unknown}");
    client.add_modes(with(3), None).unwrap();
    assert!(client.set_mode("more").unwrap().is_there());
    assert_eq!(budget(&mut client), ms(3));
    let again = client.add_modes(with(3), None).unwrap_err().to_string();
    assert!(again.contains("known already"), "{again}");
    let other = client.add_modes(with(2), None).unwrap_err().to_string();
    assert!(other.contains("mode `more` differs"), "{other}");
    client.revert(tailbound_control::Selection::All).unwrap();
    stage.expect_restored();
}

#[test]
fn new_tasks_wait_for_what_is_left_of_old_ones() {
    let Some(mut stage) = Stage::set("new_tasks_wait") else {
        return;
    };
    let mut client = stage.client();
    let request = stage.request();
    let offset = StartOffset {
        from: "rest".into(),
        to: "run".into(),
        domain: stage.domain(),
        offset: ms(60),
    };
    let table = table(&stage, &request.interface).with_offsets(vec![offset]);
    client.apply(&[request], Lease::Persistent).unwrap();
    let socket = client.load_modes(table, None).unwrap();
    let agent = start_agent(&stage, &socket);
    eventually("the agent is there", || !agents(&mut client).is_empty());
    assert!(client.set_mode("rest").unwrap().is_there());
    let report = client.set_mode("run").unwrap();
    assert!(report.is_there(), "{report:?}");
    let steps = &report.timeline.steps;
    let at = |is: fn(&StepKind) -> bool| steps.iter().find(|step| is(&step.kind)).unwrap().at;
    let accepted = at(|kind| matches!(kind, StepKind::InterfaceAccepted { .. }));
    let sent = at(|kind| *kind == StepKind::Sent);
    assert!(sent.saturating_since(accepted) >= ms(60), "{report:?}");
    client.revert(tailbound_control::Selection::All).unwrap();
    agent.end();
    stage.expect_restored();
}
