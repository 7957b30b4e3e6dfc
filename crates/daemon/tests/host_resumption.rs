//! A daemon that is killed while modes change, at every step and at any instant: another one finishes
//! the change or rolls it back, and nothing else is left of the dead one.
//!
//! Needs what the ds-freeze back end needs; skips aloud where that is missing.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use tailbound_control::{Client, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::ReservationRequest;
use tailbound_linux::clock::{Monotonic, cpu_time_of_process};
use tailbound_linux::process::{boot_id, die_with_parent, own_thread, send_signal};
use tailbound_linux::scheduling::{affinity_of, set_affinity};
use tailbound_linux::task_process::TaskProcess;
use tailbound_model::{AgentPlace, BackendKind, ChangePolicy, RequestsMeanwhile, TaskStart};
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::signals::SignalledProcesses;
use tailbound_modes::agent::{Agent, AgentHandle, Patience, TaskTable};
use tailbound_modes::control::{ModesClient, ModesStatus};
use tailbound_modes::manager::journal::Fate;
use tailbound_modes::table::{self, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Options};
use tailbound_modes::wire::Name;
use tailbound_time::Duration;

use crate::gate::{Gate, Gated, Step};
use crate::stage::{Stage, cgroups_named, eventually, request_for};

const SIGKILL: i32 = 9;

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Two busy processes on a CPU: one has most of it in `run`, the other one in `rest`.
struct Cell {
    stage: Stage,
    other: Child,
    backend: BackendKind,
    table: ModeTable,
    /// Where both agents can be made to wait.
    gate: Gate,
}

/// Of all budgets and periods: where budgets end at ticks they have to be long.
fn scale(backend: BackendKind) -> u64 {
    match backend {
        BackendKind::Deadline => 15,
        _ => 1,
    }
}

fn requests(stage: &Stage, other: &Child, backend: BackendKind) -> [ReservationRequest; 2] {
    let with = |pid: u32, budget: Duration| {
        let mut request = request_for(pid);
        request.backend = backend;
        request.interface.budget = budget * scale(backend);
        request.interface.period = request.interface.period * scale(backend);
        request
    };
    [with(stage.busy.id(), ms(6)), with(other.id(), ms(1))]
}

fn table(requests: &[ReservationRequest; 2]) -> ModeTable {
    let local = |request: &ReservationRequest, mode: &str, budget: Duration, runs: bool| {
        let mut interface = request.interface.clone();
        interface.budget = budget;
        let tasks = runs.then(|| "work".to_owned()).into_iter().collect();
        let local = DomainMode {
            name: mode.into(),
            interface,
            tasks,
        };
        (request.domain.clone(), local)
    };
    let [first, second] = requests;
    let scale = scale(first.backend);
    let mode = |mode: &str, of_first: u64, of_second: u64| {
        let locals: BTreeMap<_, _> = [
            local(first, mode, ms(of_first) * scale, mode == "run"),
            local(second, mode, ms(of_second) * scale, mode == "rest"),
        ]
        .into();
        (mode.to_owned(), locals)
    };
    let agent = || table::AgentEntry {
        place: AgentPlace::Outside,
        may_request: [].into(),
        fallback: None,
    };
    let agents = requests.iter().map(|one| (one.domain.clone(), agent()));
    let settings = Settings {
        options: Options {
            policy: ChangePolicy::Prompt,
            start: TaskStart::InForce,
            timeout: ms(5_000),
        },
        requests: RequestsMeanwhile::Queue,
        longest_boost: Duration::from_micros(500),
        least_gap: ms(1),
    };
    let modes = [mode("run", 6, 1), mode("rest", 1, 6)].into();
    ModeTable::new("run".into(), modes, agents.collect(), settings).unwrap()
}

struct Running {
    handle: AgentHandle,
    thread: JoinHandle<()>,
}

/// An agent that stops and continues a process, in a thread of its own.
fn start_agent(domain: &str, pid: u32, gate: Gate, socket: &Path) -> Running {
    let mut tasks = TaskTable::new();
    let work: Name = "work".parse().unwrap();
    let process = TaskProcess::open(pid, None).unwrap();
    let control = SignalledProcesses::new(work.clone(), vec![process], ms(2_000));
    tasks.add(work, Box::new(Gated { gate, control })).unwrap();
    let mut agent = Agent::new(
        domain.parse().unwrap(),
        &boot_id().unwrap(),
        UnixConnector::new(socket.to_owned()),
        tasks,
        Monotonic,
        Patience::default(),
    )
    .unwrap();
    let handle = agent.handle();
    let thread = std::thread::spawn(move || agent.run(&mut |_| {}).unwrap());
    Running { handle, thread }
}

impl Cell {
    fn set(test: &str) -> Option<Self> {
        Self::set_over(test, BackendKind::DsFreeze)
    }

    fn set_over(test: &str, backend: BackendKind) -> Option<Self> {
        let mut stage = Stage::set(test)?;
        let mut command = Command::new("sh");
        command.args(["-c", "while :; do :; done"]);
        let mut other = die_with_parent(&mut command).spawn().unwrap();
        let requests = requests(&stage, &other, backend);
        if let Err(error) = stage.client().plan(&requests) {
            other.kill().unwrap();
            other.wait().unwrap();
            let missing = Some(RefusalKind::MissingRequirement);
            assert_eq!(error.refusal_kind(), missing, "{error}");
            eprintln!("SKIP {test}: {error}");
            return None;
        }
        let table = table(&requests);
        Some(Self {
            stage,
            other,
            backend,
            table,
            gate: Gate::default(),
        })
    }

    fn pids(&self) -> [u32; 2] {
        [self.stage.busy.id(), self.other.id()]
    }

    fn begin(&mut self) -> (Client, Vec<Running>) {
        let mut client = self.stage.client();
        let requests = requests(&self.stage, &self.other, self.backend);
        client.apply(&requests, Lease::Persistent).unwrap();
        let socket = client.load_modes(self.table.clone(), None).unwrap();
        let named = requests.iter().map(|one| one.domain.as_str());
        let agents = named.zip(self.pids());
        let agents =
            agents.map(|(domain, pid)| start_agent(domain, pid, self.gate.clone(), &socket));
        let agents = agents.collect();
        settled(&mut client);
        (client, agents)
    }

    fn journal(&self) -> std::path::PathBuf {
        self.stage.path().join("modes.state")
    }

    /// So many lines the journal has.
    fn lines(&self) -> usize {
        let text = std::fs::read(self.journal()).unwrap_or_default();
        text.iter().filter(|byte| **byte == b'\n').count()
    }

    /// The daemon after the one with this number.
    fn next_daemon(&mut self, dead: u32) -> Client {
        let mut next = None;
        eventually("there is another daemon", || {
            let client = Client::connect(self.stage.path()).ok();
            next = client.filter(|client| client.daemon_pid() != dead);
            next.is_some()
        });
        let client = next.unwrap();
        self.stage.processes.insert(client.daemon_pid());
        client
    }

    /// Reservations and tasks are those of the mode that holds.
    fn assert_whole(&self, client: &mut Client) -> ModesStatus {
        let modes = settled(client);
        let status = client.status().unwrap();
        for one in &status.reservations {
            let enforced = &one.enforced;
            let local = &self.table.mode(&modes.state.mode).unwrap()[&enforced.domain];
            assert_eq!(enforced.interface, local.interface, "{modes:?}");
        }
        assert_eq!(status.reservations.len(), 2);
        for (pid, runs_in) in self.pids().into_iter().zip(["run", "rest"]) {
            let work = TaskProcess::open(pid, None).unwrap();
            let stands = modes.state.mode != runs_in;
            eventually("the task runs if it should", || {
                (work.activity().unwrap().stopped > 0) == stands
            });
        }
        modes
    }

    /// All is taken back, and everything of ours is gone.
    fn end(mut self, mut client: Client, agents: Vec<Running>) {
        client.revert(Selection::All).unwrap();
        for agent in agents {
            agent.handle.end();
            agent.thread.join().unwrap();
        }
        for pid in self.pids() {
            TaskProcess::open(pid, None).unwrap().resume().unwrap();
        }
        assert!(!self.journal().exists());
        self.stage.expect_restored();
        let other = request_for(self.other.id()).domain;
        eventually("its cgroups are gone", || cgroups_named(&other).is_empty());
        let now = self.stage.state_of(self.other.id());
        assert_eq!(now, self.stage.before);
        self.other.kill().unwrap();
        self.other.wait().unwrap();
    }
}

/// What holds when both agents have said what they run.
fn settled(client: &mut Client) -> ModesStatus {
    let mut status = None;
    eventually("the agents have answered", || {
        let modes = client.modes().unwrap().expect("modes are known");
        let all_answered = modes.state.domains.values().all(|one| one.tasks.is_some());
        let holds = modes.agents.len() == 2 && all_answered;
        status = Some(modes);
        holds
    });
    status.unwrap()
}

/// Changes to the other mode, and kills the daemon when `now` says so. What another one made of it.
fn killed(
    cell: &mut Cell,
    mut client: Client,
    mut now: impl FnMut(&Cell) -> bool,
) -> (Client, ModesStatus) {
    let from = client.modes().unwrap().unwrap().state.mode;
    let to = if from == "run" { "rest" } else { "run" };
    let daemon = client.daemon_pid();
    let changing = std::thread::spawn(move || client.set_mode(to));
    while !now(cell) && !changing.is_finished() {
        std::hint::spin_loop();
    }
    send_signal(daemon, SIGKILL).unwrap();
    cell.gate.open();
    // It may have ended well just before.
    let _answer = changing.join().unwrap();
    let mut client = cell.next_daemon(daemon);
    let modes = cell.assert_whole(&mut client);
    let expected = match modes.resumed.expect("it has made them again") {
        Fate::Finished => vec![to],
        Fate::RolledBack => vec![from.as_str()],
        // Before the first step, or after the last.
        Fate::NoneUnderWay => vec![from.as_str(), to],
    };
    assert!(expected.contains(&modes.state.mode.as_str()), "{modes:?}");
    // This test's daemons may die as often as they like.
    let _counted = std::fs::remove_file(cell.stage.path().join("modes.restarts"));
    (client, modes)
}

/// Changes to the other mode, and kills the daemon while an agent is at `step`.
fn killed_at(cell: &mut Cell, client: Client, step: Step) -> (Client, Fate) {
    cell.gate.close(step);
    let (client, modes) = killed(cell, client, |cell| cell.gate.is_reached());
    (client, modes.resumed.unwrap())
}

/// Changes to the other mode, and kills the daemon when about so many records are written. How many
/// there are is looked at from outside, so the daemon may be further, or through.
fn killed_about(cell: &mut Cell, client: Client, records: usize) -> Client {
    let before = cell.lines();
    let (client, _) = killed(cell, client, |cell| {
        // It is read while it grows, and it is anew at times.
        let lines = cell.lines();
        lines >= before + records || lines < before
    });
    client
}

#[test]
fn a_change_is_finished_or_rolled_back_wherever_the_daemon_dies() {
    let Some(mut cell) = Cell::set("a_change_is_finished_or_rolled_back") else {
        return;
    };
    let (mut client, agents) = cell.begin();
    for records in 1..=10 {
        client = killed_about(&mut cell, client, records);
    }
    for after_us in [0, 500, 3_000, 12_000] {
        let begun = std::time::Instant::now();
        let wait = StdDuration::from_micros(after_us);
        (client, _) = killed(&mut cell, client, |_| begun.elapsed() >= wait);
    }
    cell.end(client, agents);
}

/// Nothing has been stopped, so all goes back; all that was to stop has, so all goes on.
#[track_caller]
fn assert_fates_at_the_steps(cell: &mut Cell, mut client: Client) -> Client {
    for _to_and_fro in 0..2 {
        let fate;
        (client, fate) = killed_at(cell, client, Step::Stop);
        assert_eq!(fate, Fate::RolledBack);
        let fate;
        (client, fate) = killed_at(cell, client, Step::Start);
        assert_eq!(fate, Fate::Finished);
    }
    client
}

#[test]
fn a_change_is_rolled_back_before_all_have_stopped_and_finished_afterwards() {
    let Some(mut cell) = Cell::set("a_change_is_rolled_back_before_all_have_stopped") else {
        return;
    };
    let (client, agents) = cell.begin();
    let client = assert_fates_at_the_steps(&mut cell, client);
    cell.end(client, agents);
}

#[test]
fn a_change_over_deadline_is_finished_or_rolled_back_where_the_daemon_dies() {
    let test = "a_change_over_deadline_is_finished_or_rolled_back";
    let Some(mut cell) = Cell::set_over(test, BackendKind::Deadline) else {
        return;
    };
    let (mut client, agents) = cell.begin();
    for records in [1, 4, 7] {
        client = killed_about(&mut cell, client, records);
    }
    let client = assert_fates_at_the_steps(&mut cell, client);
    cell.end(client, agents);
}

#[test]
fn daemons_that_die_again_and_again_are_not_started_for_ever() {
    let Some(mut cell) = Cell::set("daemons_that_die_again_and_again") else {
        return;
    };
    let (mut client, agents) = cell.begin();
    for _ in 0..3 {
        let daemon = client.daemon_pid();
        send_signal(daemon, SIGKILL).unwrap();
        client = cell.next_daemon(daemon);
        assert!(client.modes().unwrap().is_some());
    }
    let daemon = client.daemon_pid();
    send_signal(daemon, SIGKILL).unwrap();
    let mut client = cell.next_daemon(daemon);
    assert!(client.modes().unwrap().is_none());
    assert!(client.status().unwrap().reservations.is_empty());
    cell.end(client, agents);
}

#[test]
fn a_daemon_whose_program_was_replaced_is_started_again() {
    let Some(mut cell) = Cell::set("a_daemon_whose_program_was_replaced") else {
        return;
    };
    let other = cell.stage.client();
    let other_pid = other.daemon_pid();
    other.shutdown().unwrap();
    cell.stage.expect_gone(other_pid);
    let program = cell.stage.path().join("tailboundd");
    let installed = env!("CARGO_BIN_EXE_tailboundd");
    std::fs::copy(installed, &program).unwrap();
    let options = StartOptions {
        program: Some(program.clone()),
        ..StartOptions::default()
    };
    let first = Client::connect_or_start(cell.stage.path(), &options).unwrap();
    let (client, agents) = cell.begin();
    let daemon = client.daemon_pid();
    assert_eq!(daemon, first.daemon_pid());
    drop(first);
    // As an upgrade does it: under another name, and then in its place.
    let upgrade = program.with_extension("new");
    std::fs::copy(installed, &upgrade).unwrap();
    std::fs::rename(&upgrade, &program).unwrap();
    send_signal(daemon, SIGKILL).unwrap();
    let mut client = cell.next_daemon(daemon);
    assert_eq!(cell.assert_whole(&mut client).state.mode, "run");
    cell.end(client, agents);
}

/// Has a process that stands run on another CPU than the reserved one, and stand there.
fn stand_elsewhere(pid: u32) {
    let usable = affinity_of(pid).unwrap();
    let other = *usable.first().unwrap();
    set_affinity(pid, &[other].into()).unwrap();
    let process = TaskProcess::open(pid, None).unwrap();
    let used = cpu_time_of_process(pid).unwrap();
    process.resume().unwrap();
    eventually("it runs on the other CPU", || {
        cpu_time_of_process(pid).unwrap() > used
    });
    process.stop().unwrap();
    eventually("it stands", || process.activity().unwrap().stopped > 0);
    set_affinity(pid, &usable).unwrap();
}

/// While no daemon holds a task on its CPU, its agent may stop it on another one, and the kernel gives it no
/// SCHED_DEADLINE of the reserved CPU before it wakes there.
#[test]
fn a_task_that_was_stopped_on_another_cpu_is_reserved_over_deadline_again() {
    let test = "a_task_that_was_stopped_on_another_cpu";
    let Some(mut cell) = Cell::set_over(test, BackendKind::Deadline) else {
        return;
    };
    if affinity_of(own_thread()).unwrap().len() < 2 {
        eprintln!("SKIP {test}: needs two CPUs");
        return;
    }
    let other = cell.stage.client();
    let other_pid = other.daemon_pid();
    other.shutdown().unwrap();
    cell.stage.expect_gone(other_pid);
    let program = cell.stage.path().join("tailboundd");
    let installed = env!("CARGO_BIN_EXE_tailboundd");
    std::fs::copy(installed, &program).unwrap();
    let options = StartOptions {
        program: Some(program.clone()),
        ..StartOptions::default()
    };
    let first = Client::connect_or_start(cell.stage.path(), &options).unwrap();
    let (client, agents) = cell.begin();
    drop(first);
    // The next daemon waits until the task stands elsewhere.
    let (script, go) = (program.with_extension("new"), program.with_extension("go"));
    let wait = format!(
        "#!/bin/sh\nwhile [ ! -e {} ]; do sleep 0.01; done\nexec {installed} \"$@\"\n",
        go.display()
    );
    std::fs::write(&script, wait).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::rename(&script, &program).unwrap();
    let daemon = client.daemon_pid();
    send_signal(daemon, SIGKILL).unwrap();
    let stopped = cell.pids()[1];
    eventually("its reservation is taken back", || {
        cell.stage.state_of(stopped) == cell.stage.before
    });
    stand_elsewhere(stopped);
    std::fs::write(&go, "").unwrap();
    let mut client = cell.next_daemon(daemon);
    assert_eq!(cell.assert_whole(&mut client).state.mode, "run");
    cell.end(client, agents);
}

#[test]
fn what_was_reverted_is_not_made_again() {
    let Some(mut cell) = Cell::set("what_was_reverted_is_not_made_again") else {
        return;
    };
    let (mut client, agents) = cell.begin();
    client.revert(Selection::All).unwrap();
    let daemon = client.daemon_pid();
    send_signal(daemon, SIGKILL).unwrap();
    cell.stage.expect_gone(daemon);
    let mut client = cell.stage.client();
    assert!(client.modes().unwrap().is_none());
    // Without their reservations, applied anew for a command, they are not kept either.
    let requests = requests(&cell.stage, &cell.other, cell.backend);
    client.apply(&requests, Lease::Connection).unwrap();
    client.load_modes(cell.table.clone(), None).unwrap();
    assert!(!cell.journal().exists());
    cell.end(client, agents);
}
