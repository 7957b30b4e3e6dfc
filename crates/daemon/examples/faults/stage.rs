//! Two domains on one CPU, the daemon, agents where there are modes, and what becomes of them in a trial.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tailbound_control::launch::find_program;
use tailbound_control::{Client, Lease, Selection, StartOptions};
use tailbound_enforcement::{ReservationRequest, Target, recover};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{
    children_of, die_with_parent, own_thread, process_started, send_signal,
};
use tailbound_linux::scheduling::affinity_of;
use tailbound_model::{
    AgentPlace, BackendOptions, BudgetScope, ChangePolicy, Cpu, Priority, RequestsMeanwhile,
    ResourceInterface, TaskStart,
};
use tailbound_modes::control::ModesClient;
use tailbound_modes::table::{self, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Options};
use tailbound_time::Duration as Length;

use crate::host::{self, Snapshot};
use crate::inject::{self, SIGCONT, SIGKILL, Standing, Victims};
use crate::trial::{BackEnd, Fault, Outcome, Phase, Trial, WayBack};

/// Budgets of both domains in each mode, in thousandths of the period.
const MODES: [(&str, [u64; 2]); 2] = [("run", [400, 200]), ("rest", [150, 400])];
/// Where budgets end at ticks they have to be long.
const PERIOD: Length = Length::from_millis(100);
/// Between two looks at the host.
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);
/// How long what the daemon does goes on after the fault.
const GOES_ON: Duration = Duration::from_millis(40);

/// What goes on while the fault comes, in a thread that ends when it is told to, or refused.
struct Operation {
    over: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

struct Stage {
    directory: PathBuf,
    prefix: String,
    busy: Vec<Child>,
    /// The busy processes and their children.
    pids: Vec<u32>,
    cpu: u32,
    trial: Trial,
    agents: Vec<Child>,
    /// Daemons and watchdogs that were seen.
    ours: BTreeSet<u32>,
}

/// What a revert says that could not remove the journal.
const JOURNAL_STAYS: &str = "revert: not everything was restored: the journal ";

/// Carries a trial out; the host may take `within` to be as before.
pub fn run(trial: &Trial, within: Duration) -> Outcome {
    let mut stage = Stage::set(trial);
    let before = stage.snapshot();
    let outcome = stage.carry_out(&before, within);
    drop(stage);
    outcome
}

impl Stage {
    fn set(trial: &Trial) -> Self {
        let prefix = format!("faults-{}-{}", std::process::id(), trial.number);
        let directory = Path::new("/run").join(&prefix);
        std::fs::create_dir(&directory).expect("a folder in /run");
        // Small, so that it is full soon.
        let mut mount = Command::new("mount");
        mount.args([
            "-t",
            "tmpfs",
            "-o",
            "size=512k,mode=700",
            "tailbound-faults",
        ]);
        let mounted = mount.arg(&directory).status().expect("mount");
        assert!(mounted.success(), "a file system for the state directory");
        let spin = || {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 600 & while :; do :; done"]);
            die_with_parent(&mut command).spawn().expect("a shell")
        };
        let busy = vec![spin(), spin()];
        let mut pids = Vec::new();
        for child in &busy {
            pids.push(child.id());
            let children = || children_of(child.id()).unwrap_or_default();
            while children().is_empty() {
                thread::sleep(BETWEEN_LOOKS);
            }
            pids.extend(children());
        }
        Self {
            directory,
            prefix,
            busy,
            pids,
            cpu: *affinity_of(own_thread())
                .expect("CPUs")
                .last()
                .expect("a CPU"),
            trial: trial.clone(),
            agents: Vec::new(),
            ours: BTreeSet::new(),
        }
    }

    fn snapshot(&self) -> Snapshot {
        host::snapshot(&self.pids, &self.prefix)
    }

    fn client(&mut self) -> Result<Client, String> {
        let options = StartOptions {
            idle_time: Length::from_secs(2),
            ..StartOptions::default()
        };
        let client = Client::connect_or_start(&self.directory, &options);
        let client = client.map_err(|error| format!("no daemon: {error}"))?;
        self.ours.insert(client.daemon_pid());
        Ok(client)
    }

    fn domain(&self, place: usize) -> String {
        format!("{}-{place}", self.prefix)
    }

    fn interface(&self, mode: usize, place: usize) -> ResourceInterface {
        ResourceInterface {
            budget: Length::from_nanos(PERIOD.as_nanos() * MODES[mode].1[place] / 1_000),
            period: PERIOD,
            priority: Priority(40),
            cpus: [Cpu(self.cpu)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        }
    }

    fn requests(&self) -> Vec<ReservationRequest> {
        // It gives each thread a budget of its own.
        let processes = match self.trial.back_end {
            BackEnd::Deadline => 1,
            _ => 2,
        };
        (0..2)
            .map(|place| ReservationRequest {
                domain: self.domain(place),
                target: Target::Processes(self.pids[2 * place..2 * place + processes].to_vec()),
                interface: self.interface(0, place),
                backend: self.trial.back_end.kind(),
                options: BackendOptions::default(),
                interference: Default::default(),
            })
            .collect()
    }

    fn table(&self) -> ModeTable {
        let modes = MODES.iter().enumerate().map(|(mode, (name, _))| {
            let local = |place: usize| DomainMode {
                name: (*name).into(),
                interface: self.interface(mode, place),
                // The first domain works in the first mode, the other one in the second.
                tasks: (mode == place)
                    .then(|| "work".to_owned())
                    .into_iter()
                    .collect(),
            };
            let locals: BTreeMap<_, _> = (0..2)
                .map(|place| (self.domain(place), local(place)))
                .collect();
            ((*name).to_owned(), locals)
        });
        let agent = || table::AgentEntry {
            place: AgentPlace::Outside,
            may_request: [].into(),
            fallback: None,
        };
        let agents = (0..2).map(|place| (self.domain(place), agent()));
        // Every policy in turn; one of them boosts.
        let policies = [
            ChangePolicy::Prompt,
            ChangePolicy::Boost,
            ChangePolicy::Greedy,
        ];
        let settings = Settings {
            options: Options {
                policy: policies[(self.trial.number / 7 % 3) as usize],
                start: TaskStart::InForce,
                timeout: Length::from_secs(2),
            },
            requests: RequestsMeanwhile::Queue,
            longest_boost: Length::from_micros(500),
            least_gap: Length::from_millis(1),
        };
        ModeTable::new(
            MODES[0].0.into(),
            modes.collect(),
            agents.collect(),
            settings,
        )
        .expect("a table")
    }

    fn start_agents(&mut self, socket: &Path) {
        let daemon = find_program().expect("tailboundd");
        for place in 0..2 {
            let mut command = Command::new(daemon.with_file_name("tailbound-agent"));
            command.args(["--domain", &self.domain(place), "--connect"]);
            command.arg(format!("unix:{}", socket.display()));
            command.args(["--task", &format!("work=pid:{}", self.pids[2 * place])]);
            command.stdout(Stdio::null()).stderr(Stdio::null());
            self.agents.push(
                die_with_parent(&mut command)
                    .spawn()
                    .expect("tailbound-agent"),
            );
        }
    }

    fn carry_out(&mut self, before: &Snapshot, within: Duration) -> Outcome {
        match self.until_fault() {
            Ok((operation, mut standing, daemon)) => {
                let since = Instant::now();
                thread::sleep(GOES_ON);
                operation.over.store(true, Ordering::Relaxed);
                let restoration = self.way_back(before, within, (daemon, &mut standing), since);
                standing.undo();
                self.settle(operation, before, restoration, within)
            }
            Err(why) => Outcome::Skipped(why),
        }
    }

    /// Sets everything up and has the fault happen.
    fn until_fault(&mut self) -> Result<(Operation, Standing, u32), String> {
        let mut client = self.client()?;
        let daemon = client.daemon_pid();
        let describe = |error: tailbound_control::ClientError| error.to_string();
        if self.trial.phase != Phase::Apply {
            client
                .apply(&self.requests(), Lease::Persistent)
                .map_err(describe)?;
        }
        let watchdog = client.status().map_err(describe)?.watchdog.pid;
        self.ours.extend(watchdog);
        if self.trial.phase == Phase::ModeChange {
            let socket = client.load_modes(self.table(), None).map_err(describe)?;
            self.start_agents(&socket);
        }
        let operation = self.begin_operation(client);
        thread::sleep(self.trial.after);
        let agents: Vec<u32> = self.agents.iter().map(Child::id).collect();
        let watchdog =
            watchdog.or_else(|| children_of(daemon).unwrap_or_default().first().copied());
        self.ours.extend(watchdog);
        let victims = Victims {
            daemon,
            watchdog,
            agents: &agents,
            directory: &self.directory,
            cpu: self.cpu,
        };
        let standing = inject::inject(self.trial.fault, &victims)?;
        Ok((operation, standing, daemon))
    }

    fn begin_operation(&self, mut client: Client) -> Operation {
        let over = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&over);
        let (phase, requests) = (self.trial.phase, self.requests());
        let (domain, budgets) = (self.domain(0), [self.interface(1, 0), self.interface(0, 0)]);
        let mut steps = 0_usize;
        // One step of what goes on; false where there is none after it.
        let mut step = move || {
            steps += 1;
            match phase {
                Phase::Apply => {
                    let _refused = client.apply(&requests, Lease::Persistent);
                    false
                }
                Phase::Hold => false,
                Phase::Change => client.change(&domain, &budgets[steps % 2]).is_ok(),
                Phase::ModeChange => client.set_mode(MODES[steps % 2].0).is_ok(),
                Phase::Revert => {
                    let _refused = client.revert(Selection::All);
                    false
                }
            }
        };
        let thread = thread::spawn(move || while !until.load(Ordering::Relaxed) && step() {});
        Operation { over, thread }
    }

    /// Waits until the host is as before, or does what is needed for it; how long that took, or what is
    /// wrong.
    fn way_back(
        &mut self,
        before: &Snapshot,
        within: Duration,
        (daemon, standing): (u32, &mut Standing),
        since: Instant,
    ) -> Result<Duration, Vec<String>> {
        match self.trial.fault.way_back() {
            WayBack::ByItself => match self.by_itself(before, within, daemon, since) {
                Ok(Some(after)) => return Ok(after),
                // Another daemon holds one of the modes, as it should, until it is told otherwise.
                Ok(None) => {}
                Err(mut why) => {
                    why.insert(0, format!("not by itself within {} s", within.as_secs()));
                    return Err(why);
                }
            },
            WayBack::NextStart => drop(self.client().map_err(|why| vec![why])?),
            WayBack::Revert => {}
        }
        let began = Instant::now();
        match self.revert() {
            // All but the journal, which stays where nothing can be removed: the revert at the end takes it.
            Err(why) if self.trial.fault == Fault::ReadOnly && why.starts_with(JOURNAL_STAYS) => {}
            outcome => outcome.map_err(|why| vec![why])?,
        }
        if self.trial.fault == Fault::CpuUnplugged {
            // While a CPU is away, the kernel takes it out of every thread's affinity: what a revert leaves
            // shows when the CPU is back.
            standing.undo();
        }
        self.until_as_before(before, began, within)
    }

    /// Waits for the host to be as before and nobody there who changes it again; none where another
    /// daemon holds a mode instead.
    fn by_itself(
        &mut self,
        before: &Snapshot,
        within: Duration,
        daemon: u32,
        began: Instant,
    ) -> Result<Option<Duration>, Vec<String>> {
        if self.trial.phase != Phase::ModeChange {
            return self.until_as_before(before, began, within).map(Some);
        }
        loop {
            let now = self.snapshot();
            let differences = host::differences(before, &now);
            if differences.is_empty() && host::processes_with(&self.directory).is_empty() {
                return Ok(Some(began.elapsed()));
            }
            // Nobody asks a daemon that stands still: it would not answer.
            if process_started(daemon).is_err() && self.is_resumed(daemon) {
                return Ok(None);
            }
            if began.elapsed() > within {
                return Err(differences);
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Whether another daemon answers, and makes reservations.
    fn is_resumed(&mut self, dead: u32) -> bool {
        let Ok(mut client) = Client::connect(&self.directory) else {
            return false;
        };
        self.ours.insert(client.daemon_pid());
        let status = client.status();
        client.daemon_pid() != dead && status.is_ok_and(|status| !status.reservations.is_empty())
    }

    /// Reverts everything by a connection of its own.
    fn revert(&mut self) -> Result<(), String> {
        let mut client = self.client()?;
        let status = client.status().map_err(|error| error.to_string())?;
        self.ours.extend(status.watchdog.pid);
        match client.revert(Selection::All) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("revert: {error}")),
        }
    }

    fn until_as_before(
        &self,
        before: &Snapshot,
        began: Instant,
        within: Duration,
    ) -> Result<Duration, Vec<String>> {
        loop {
            let now = self.snapshot();
            if now == *before {
                return Ok(began.elapsed());
            }
            if began.elapsed() > within {
                return Err(host::differences(before, &now));
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }

    /// Ends everything, and adds to what was found what is still not as before.
    fn settle(
        &mut self,
        operation: Operation,
        before: &Snapshot,
        restoration: Result<Duration, Vec<String>>,
        within: Duration,
    ) -> Outcome {
        let mut why = restoration.as_ref().err().cloned().unwrap_or_default();
        for agent in &mut self.agents {
            let _gone = agent.kill();
            let _reaped = agent.wait();
        }
        // Those that stood still; tasks that an agent has stopped stay so without it, as they should.
        for pid in self.ours.iter().chain(&self.pids) {
            let _gone = send_signal(*pid, SIGCONT);
        }
        // A daemon that goes on carries out what it was asked before it stood still, which nobody has
        // answered yet: only what follows that has an order.
        let asked = Instant::now();
        while !operation.thread.is_finished() && asked.elapsed() < within {
            thread::sleep(BETWEEN_LOOKS);
        }
        let helped = self.after_help(before, within);
        match (why.is_empty(), helped) {
            (true, Err(more)) => why.extend(more),
            (false, Err(more)) => {
                why.push("not as before even after SIGCONT and revert".into());
                why.extend(more);
            }
            (false, Ok(())) => why.push("as before after SIGCONT and revert".into()),
            (true, Ok(())) => {}
        }
        why.extend(self.left_processes());
        // Its connection has ended with the daemon.
        let _panicked = operation.thread.join();
        match restoration {
            Ok(after) if why.is_empty() => Outcome::Restored(after),
            _ => Outcome::Failed { why },
        }
    }

    /// With a daemon that works: all can be reverted, runs, and could be reserved again.
    fn after_help(&mut self, before: &Snapshot, within: Duration) -> Result<(), Vec<String>> {
        let problem = |why: String| vec![why];
        self.revert().map_err(problem)?;
        self.until_as_before(before, Instant::now(), within)?;
        for child in &self.busy {
            let used = || cpu_time_of_process(child.id()).unwrap_or_default();
            let (began, before) = (Instant::now(), used());
            while used() == before {
                if began.elapsed() > within {
                    return Err(vec![format!("process {} does not run", child.id())]);
                }
                thread::sleep(BETWEEN_LOOKS);
            }
        }
        let mut client = self.client().map_err(problem)?;
        if let Err(error) = client.plan(&self.requests()) {
            return Err(vec![format!("the CPU is not free again: {error}")]);
        }
        let journals = host::journals_in(&self.directory);
        client.shutdown().map_err(|error| vec![error.to_string()])?;
        match journals.is_empty() {
            true => Ok(()),
            false => Err(vec![format!("journals are left: {journals:?}")]),
        }
    }

    /// Processes of ours that go on after the daemon was told to end.
    fn left_processes(&self) -> Vec<String> {
        let began = Instant::now();
        loop {
            let mut left: BTreeSet<u32> =
                host::processes_with(&self.directory).into_iter().collect();
            let own_processes = self
                .ours
                .iter()
                .filter(|pid| process_started(**pid).is_ok());
            left.extend(own_processes);
            if left.is_empty() {
                return Vec::new();
            }
            if began.elapsed() > Duration::from_secs(10) {
                return vec![format!("processes are left: {left:?}")];
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        let left = self
            .ours
            .iter()
            .copied()
            .chain(host::processes_with(&self.directory));
        for pid in left.collect::<Vec<_>>() {
            let _gone = send_signal(pid, SIGKILL);
        }
        for agent in &mut self.agents {
            let _gone = agent.kill();
            let _reaped = agent.wait();
        }
        for _ in 0..200 {
            if self.ours.iter().all(|pid| process_started(*pid).is_err()) {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        // What a failed trial left.
        let _done = recover(&self.directory);
        for pid in &self.pids {
            let _gone = send_signal(*pid, SIGKILL);
        }
        for child in &mut self.busy {
            let _reaped = child.wait();
        }
        for _ in 0..200 {
            let unmounted = Command::new("umount")
                .arg(&self.directory)
                .stderr(Stdio::null())
                .status();
            if unmounted.is_ok_and(|status| status.success()) {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        let _gone = std::fs::remove_dir(&self.directory);
    }
}
