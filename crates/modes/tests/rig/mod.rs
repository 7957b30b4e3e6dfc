//! A host mode manager with agents behind links that fail.

pub mod faults;
pub mod ledger;

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::process::boot_id;
use tailbound_model::{
    AgentPlace, BudgetScope, ChangePolicy, Cpu, Priority, RequestsMeanwhile, ResourceInterface,
    TaskStart,
};
use tailbound_modes::agent::callback::DomainCallback;
use tailbound_modes::agent::link::Connector;
use tailbound_modes::agent::{Agent, AgentHandle, Event, Patience};
use tailbound_modes::links::{AgentLinks, Ways};
use tailbound_modes::manager::{Asker, HostModeManager, Report};
use tailbound_modes::table::{self, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Limits, Options};
use tailbound_modes::wire::{Name, TaskLists};
use tailbound_time::{Clock, Duration, Fraction};

use ledger::Ledger;

pub fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

pub fn interface(budget_ms: u64) -> ResourceInterface {
    ResourceInterface {
        budget: ms(budget_ms),
        period: ms(10),
        priority: Priority(50),
        cpus: [Cpu(0)].into(),
        budget_scope: BudgetScope::EachCpu,
        windows: Vec::new(),
        slack: Vec::new(),
    }
}

/// What is reserved for two domains on one CPU, full in either mode: they take turns.
pub const BUDGETS: [(&str, [(&str, u64); 2]); 2] = [
    ("run", [("arm", 7), ("eye", 2)]),
    ("rest", [("arm", 2), ("eye", 7)]),
];

fn table() -> ModeTable {
    let local = |mode: &str, budget_ms: u64| DomainMode {
        name: mode.into(),
        interface: interface(budget_ms),
        tasks: [format!("{mode}-task")].into(),
    };
    let modes = BUDGETS.map(|(mode, domains)| {
        let locals = domains.map(|(domain, budget)| (domain.to_owned(), local(mode, budget)));
        (mode.to_owned(), BTreeMap::from(locals))
    });
    let agent = || table::AgentEntry {
        place: AgentPlace::Inside,
        may_request: BTreeSet::new(),
        fallback: None,
    };
    let settings = Settings {
        options: Options {
            policy: ChangePolicy::Prompt,
            start: TaskStart::InForce,
            timeout: ms(200),
        },
        requests: RequestsMeanwhile::Queue,
        longest_boost: ms(1),
        least_gap: ms(1),
    };
    let agents = [("arm".to_owned(), agent()), ("eye".to_owned(), agent())];
    ModeTable::new("run".into(), modes.into(), agents.into(), settings).unwrap()
}

/// A host with its socket.
pub struct Host {
    pub manager: HostModeManager<Ledger, AgentLinks<Monotonic>, Monotonic>,
    pub socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Host {
    pub fn new(folder: tempfile::TempDir, ways: Ways) -> Self {
        let socket = folder.path().join("modes");
        let listener = UnixListener::bind(&socket).unwrap();
        let authority = Box::new(|_: &_, _: &str| Ok(()));
        let (mut links, _commands) = AgentLinks::new(listener, authority, Monotonic).unwrap();
        links.open(ways).unwrap();
        let limits = Limits::new().with(Cpu(0), Fraction::new(1, 1));
        let ledger = Ledger::new(BUDGETS[0].1.map(|(domain, ms)| (domain, interface(ms))));
        let manager = HostModeManager::new(table(), limits, ledger, links, Monotonic);
        Self {
            manager,
            socket,
            _folder: folder,
        }
    }

    /// Serves agents for so long.
    pub fn serve(&mut self, length: Duration) {
        let until = Monotonic.now() + length;
        while self.manager.serve_one(Some(until)).is_some() {}
    }

    /// Serves agents until it holds.
    pub fn serve_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let began = std::time::Instant::now();
        while !holds(self) {
            assert!(began.elapsed().as_secs() < 60, "never: {what}");
            self.serve(ms(5));
        }
    }

    pub fn is_present(&mut self, domain: &str) -> bool {
        self.manager.agents().present().contains(&domain)
    }

    pub fn change(&mut self, mode: &str) -> Report {
        let report = self.manager.change_to(&Asker::Command(1), mode).unwrap();
        self.manager.reservations().expect_no_boost();
        report
    }

    /// Changes until all of it holds, and the agents have switched; the agents are there in the end.
    pub fn expect_recovery(&mut self, mode: &str, agents: &[&Running]) {
        let task: Name = format!("{mode}-task").parse().unwrap();
        self.serve_until("a change is made as a whole", |host| {
            let there = ["arm", "eye"].iter().all(|domain| host.is_present(domain));
            let made = there && host.change(mode).is_there();
            made && agents
                .iter()
                .all(|agent| agent.runs() == [task.clone()].into())
        });
    }
}

/// An agent in a thread of its own, whose tasks are names in a set.
pub struct Running {
    handle: AgentHandle,
    running: Arc<Mutex<BTreeSet<Name>>>,
    pub events: Arc<Mutex<Vec<String>>>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    pub fn start(domain: &str, connector: impl Connector + Send + 'static) -> Self {
        let running = Arc::new(Mutex::new(BTreeSet::from(["run-task".parse().unwrap()])));
        let switched = Arc::clone(&running);
        let tasks = [("run-task", true), ("rest-task", false)];
        let tasks = tasks.map(|(task, runs)| (task.parse::<Name>().unwrap(), runs));
        let engine = DomainCallback::new(tasks, move |lists: &TaskLists| {
            let mut running = switched.lock().unwrap();
            running.retain(|task| !lists.stop.contains(task));
            running.extend(lists.start.iter().cloned());
            Ok(())
        });
        let patience = Patience {
            silence: Some(ms(3_000)),
            answer: ms(1_000),
            pause_least: ms(1),
            pause_most: ms(50),
        };
        let name: Name = domain.parse().unwrap();
        let boot = boot_id().unwrap();
        let events = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&events);
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let made = Agent::new(name, &boot, connector, engine, Monotonic, patience);
            let mut agent = made.unwrap();
            sender.send(agent.handle()).unwrap();
            let mut observe = |event: Event| log.lock().unwrap().push(format!("{event:?}"));
            agent.run(&mut observe).unwrap();
        });
        Self {
            handle: receiver.recv().unwrap(),
            running,
            events,
            thread: Some(thread),
        }
    }

    pub fn runs(&self) -> BTreeSet<Name> {
        self.running.lock().unwrap().clone()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.handle.end();
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}
