//! Two domains on one CPU, one of them with an agent that behaves as it is told, and a daemon that
//! changes their modes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration as StdDuration;

use tailbound_control::{Client, Lease, RefusalKind, Selection, StartOptions};
use tailbound_enforcement::linux_kernel::LinuxKernel;
use tailbound_enforcement::{Change, KernelView, Plan, ReservationRequest, Target, recover};
use tailbound_linux::clock::{Monotonic, cpu_time_of_process, sleep_until};
use tailbound_linux::process::{
    boot_id, die_with_parent, own_thread, process_started, send_signal,
};
use tailbound_linux::scheduling::{SchedulingSetting, affinity_of, scheduling_of};
use tailbound_model::{
    AgentPlace, BackendKind, BackendOptions, BudgetScope, ChangePolicy, Cpu, Priority,
    RequestsMeanwhile, ResourceInterface, TaskProcesses, TaskStart,
};
use tailbound_modes::agent::callback::SwitchedByCall;
use tailbound_modes::agent::link::UnixConnector;
use tailbound_modes::agent::{Agent, AgentHandle, Patience, TaskTable};
use tailbound_modes::control::ModesClient;
use tailbound_modes::manager::Report;
use tailbound_modes::table::{self, ModeTable, Settings};
use tailbound_modes::transition::{DomainMode, Options};
use tailbound_modes::wire::{AgentClock, AgentMessage, Name, Text};
use tailbound_time::{Clock, ClockId, Duration};

const SIGKILL: i32 = 9;
const SIGCONT: i32 = 18;
const SIGSTOP: i32 = 19;

/// How the agent of the first domain behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Manner {
    /// It stops and continues the process.
    Obeys,
    /// It says that it has, and has not.
    Lies,
    /// It does not come back until it is to behave otherwise.
    Hangs,
}

/// Budgets of both domains in thousandths of the period, and the period.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// The mode.
    pub mode: &'static str,
    /// Of each domain.
    pub thousandths: [u64; 2],
    /// The period, as a multiple of the stage's.
    pub periods: u64,
    /// Whether the first domain's task runs.
    pub works: bool,
}

/// What one process is, for comparing.
pub type Before = (String, SchedulingSetting, String);

/// Two busy processes with their reservations.
pub struct ModesStage {
    _alone: MutexGuard<'static, ()>,
    directory: tempfile::TempDir,
    /// The busy processes.
    pub busy: [Child; 2],
    /// The CPU of both, where they have budgets of one.
    pub cpu: u32,
    scope: BudgetScope,
    backend: BackendKind,
    period: Duration,
    modes: Vec<Shares>,
    /// What a plan of each mode sets; whether it stands is asked of the kernel.
    plans: BTreeMap<&'static str, Vec<Plan>>,
    processes: Vec<u32>,
    before: [Before; 2],
    agent: Option<(AgentHandle, JoinHandle<()>)>,
    manner: Arc<AtomicU8>,
}

fn spin() -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", "while :; do :; done"]);
    die_with_parent(&mut command).spawn().unwrap()
}

fn told_of(pid: u32) -> Before {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let affinity = affinity_of(pid).unwrap();
    (groups, scheduling_of(pid).unwrap(), format!("{affinity:?}"))
}

impl ModesStage {
    /// Applies the first of these modes and loads all. `None`, said aloud, where the host cannot.
    pub fn set(
        test: &str,
        (backend, scope): (BackendKind, BudgetScope),
        period: Duration,
        modes: &[Shares],
        requests: RequestsMeanwhile,
    ) -> Option<(Self, Client)> {
        let alone = crate::alone();
        let busy = [spin(), spin()];
        let before = [told_of(busy[0].id()), told_of(busy[1].id())];
        let mut stage = Self {
            _alone: alone,
            directory: tempfile::tempdir().unwrap(),
            cpu: *affinity_of(own_thread()).unwrap().last().unwrap(),
            scope,
            busy,
            backend,
            period,
            modes: modes.to_vec(),
            plans: BTreeMap::new(),
            processes: Vec::new(),
            before,
            agent: None,
            manner: Arc::default(),
        };
        let options = StartOptions {
            program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
            idle_time: Duration::from_secs(2),
            ..StartOptions::default()
        };
        let mut client = Client::connect_or_start(stage.directory.path(), &options).unwrap();
        stage.processes.push(client.daemon_pid());
        for mode in modes {
            // The back end refuses one of them, and perhaps all: that is told next.
            if let Ok(plans) = client.plan(&stage.requests(mode)) {
                stage.plans.insert(mode.mode, plans);
            }
        }
        match client.apply(&stage.requests(&modes[0]), Lease::Persistent) {
            Ok(_) => {}
            Err(error) if error.refusal_kind() == Some(RefusalKind::MissingRequirement) => {
                eprintln!("SKIP {test}: {error}");
                return None;
            }
            Err(error) => panic!("{backend:?}: {error}"),
        }
        let watchdog = client.status().unwrap().watchdog.pid;
        stage.processes.extend(watchdog);
        let socket = client.load_modes(stage.table(requests), None).unwrap();
        stage.start_agent(socket);
        crate::stage::eventually("the agent is there", || {
            let modes = client.modes().unwrap().unwrap();
            modes.agents.contains(&stage.domain(0))
        });
        Some((stage, client))
    }

    /// The name of a domain.
    pub fn domain(&self, place: usize) -> String {
        format!("modes-{place}-{}", self.busy[place].id())
    }

    /// What a domain has in a mode.
    pub fn interface(&self, mode: &Shares, place: usize) -> ResourceInterface {
        let period = self.period * mode.periods;
        let budget_ns = period.as_nanos() * mode.thousandths[place] / 1_000;
        ResourceInterface {
            budget: Duration::from_nanos(budget_ns.max(1)),
            period,
            priority: Priority(40),
            cpus: match self.scope {
                BudgetScope::EachCpu => [Cpu(self.cpu)].into(),
                BudgetScope::AllCpus => {
                    let all = affinity_of(own_thread()).unwrap();
                    all.into_iter().map(Cpu).collect()
                }
            },
            budget_scope: self.scope,
            windows: Vec::new(),
            slack: Vec::new(),
        }
    }

    /// The reservations of a mode.
    pub fn requests(&self, mode: &Shares) -> Vec<ReservationRequest> {
        let request = |place: usize| ReservationRequest {
            domain: self.domain(place),
            target: Target::Processes(vec![self.busy[place].id()]),
            interface: self.interface(mode, place),
            backend: self.backend,
            options: BackendOptions::default(),
            interference: Default::default(),
        };
        vec![request(0), request(1)]
    }

    fn table(&self, requests: RequestsMeanwhile) -> ModeTable {
        let local = |mode: &Shares, place: usize| DomainMode {
            name: mode.mode.into(),
            interface: self.interface(mode, place),
            tasks: match place == 0 && mode.works {
                true => ["work".to_owned()].into(),
                false => [].into(),
            },
        };
        let modes = self.modes.iter().map(|mode| {
            let locals: BTreeMap<String, DomainMode> = (0..2)
                .map(|it| (self.domain(it), local(mode, it)))
                .collect();
            (mode.mode.to_owned(), locals)
        });
        let smallest = self.modes.iter().find(|mode| !mode.works);
        let agent = |fallback| table::AgentEntry {
            place: AgentPlace::Outside,
            may_request: [].into(),
            fallback,
        };
        let agents = [
            (self.domain(0), agent(smallest.map(|mode| local(mode, 0)))),
            (self.domain(1), agent(None)),
        ];
        let settings = Settings {
            options: Options {
                policy: ChangePolicy::Greedy,
                start: TaskStart::InForce,
                // Longer than a machine stands still for an agent that answers.
                timeout: Duration::from_secs(2),
            },
            requests,
            longest_boost: Duration::from_micros(500),
            least_gap: Duration::from_millis(1),
        };
        let initial = self.modes[0].mode.to_owned();
        let table = ModeTable::new(initial, modes.collect(), agents.into(), settings).unwrap();
        let work = TaskProcesses {
            pids: vec![self.busy[0].id()],
            cgroup: None,
        };
        let seen = [("work".to_owned(), work)].into();
        table.with_seen([(self.domain(0), seen)].into())
    }

    fn start_agent(&mut self, socket: PathBuf) {
        let mut tasks = TaskTable::new();
        let work: Name = "work".parse().unwrap();
        let (pid, manner) = (self.busy[0].id(), Arc::clone(&self.manner));
        let switch = move |start: bool| {
            while manner.load(Ordering::SeqCst) == Manner::Hangs as u8 {
                std::thread::sleep(StdDuration::from_millis(2));
            }
            if manner.load(Ordering::SeqCst) == Manner::Obeys as u8 {
                let signal = if start { SIGCONT } else { SIGSTOP };
                send_signal(pid, signal).map_err(|error| error.to_string())?;
            }
            Ok(())
        };
        let control = SwitchedByCall::new(work.clone(), true, switch);
        tasks.add(work, Box::new(control)).unwrap();
        let domain = self.domain(0).parse().unwrap();
        let connector = UnixConnector::new(socket);
        let boot = boot_id().unwrap();
        let patience = Patience::default();
        let mut agent = Agent::new(domain, &boot, connector, tasks, Monotonic, patience).unwrap();
        let handle = agent.handle();
        let thread = std::thread::spawn(move || agent.run(&mut |_| {}).unwrap());
        self.agent = Some((handle, thread));
    }

    /// The agent behaves so from now on.
    pub fn behave(&self, manner: Manner) {
        self.manner.store(manner as u8, Ordering::SeqCst);
    }

    /// Changes to a mode, and waits until all of it is in force.
    pub fn change(&self, client: &mut Client, mode: &str) -> Report {
        let report = client.set_mode(mode).unwrap();
        let undone = report.rolled_back.as_deref().unwrap_or(&report);
        if let Some(at) = undone.timeline.in_force_at() {
            sleep_until(at + Duration::from_millis(1)).unwrap();
        }
        report
    }

    /// The daemon says that a mode's reservations hold, and the kernel's settings are those that a plan
    /// of it makes.
    pub fn expect_settings(&self, client: &mut Client, mode: &str) {
        for one in client.status().unwrap().reservations {
            let requests = self.plans[mode].iter().map(|plan| &plan.request);
            let wanted = requests.clone().find(|it| it.domain == one.enforced.domain);
            assert_eq!(one.enforced.interface, wanted.unwrap().interface, "{mode}");
        }
        let kernel = LinuxKernel::new().unwrap();
        let what = format!("{:?}, {mode}", self.backend);
        let mut seen = 0;
        for change in self.plans[mode].iter().flat_map(|plan| &plan.changes) {
            match change {
                Change::WriteFile { file, value } if self.is_setting(file) => {
                    let is = std::fs::read_to_string(file).unwrap();
                    assert_eq!(is.trim(), value.trim(), "{what}: {}", file.display());
                    seen += 1;
                }
                Change::SetScheduling { tid, setting } => {
                    assert_eq!(kernel.scheduling(*tid).unwrap(), *setting, "{what}: {tid}");
                    seen += 1;
                }
                Change::SetAffinity { tid, cpus } => {
                    assert_eq!(kernel.affinity(*tid).unwrap(), *cpus, "{what}: {tid}");
                    seen += 1;
                }
                _ => {}
            }
        }
        if self.backend == BackendKind::None {
            let are = [0, 1].map(|place| told_of(self.busy[place].id()));
            assert_eq!(are, self.before, "{what}: it changes nothing");
        } else {
            assert!(seen >= 2, "{what}: the plans set nothing that can be read");
        }
    }

    /// Whether it is a file of one of the domains that nothing but a change of modes writes.
    fn is_setting(&self, file: &Path) -> bool {
        let own = file.to_string_lossy().contains("modes-");
        own && file.file_name().is_some_and(|name| name != "cgroup.freeze")
    }

    /// The share of the CPU that a process gets for a while.
    pub fn share(&self, place: usize, length: Duration) -> f64 {
        let used = || cpu_time_of_process(self.busy[place].id()).unwrap();
        let (begin, before) = (Monotonic.now(), used());
        sleep_until(begin + length).unwrap();
        let (end, after) = (Monotonic.now(), used());
        (after - before).as_secs_f64() / end.saturating_since(begin).as_secs_f64()
    }

    /// Takes all back; everything is as before.
    pub fn expect_restored(mut self, mut client: Client) {
        self.end_agent();
        client.revert(Selection::All).unwrap();
        for (busy, before) in self.busy.iter().zip(&self.before) {
            assert_eq!(told_of(busy.id()), *before);
        }
    }

    /// There is no agent from now on, and the process goes on.
    pub fn end_agent(&mut self) {
        self.behave(Manner::Obeys);
        if let Some((handle, thread)) = self.agent.take() {
            handle.end();
            let _panicked = thread.join();
        }
        // A thread of SCHED_DEADLINE must not leave that class asleep.
        let _gone = send_signal(self.busy[0].id(), SIGCONT);
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }
}

impl Drop for ModesStage {
    fn drop(&mut self) {
        self.end_agent();
        for pid in &self.processes {
            let _ended = send_signal(*pid, SIGKILL);
        }
        for _ in 0..300 {
            if self
                .processes
                .iter()
                .all(|pid| process_started(*pid).is_err())
            {
                break;
            }
            std::thread::sleep(StdDuration::from_millis(20));
        }
        let _restored = recover(self.directory.path());
        for busy in &mut self.busy {
            let _gone = busy.kill();
            let _reaped = busy.wait();
        }
    }
}

/// What an agent of a domain says first.
pub fn hello(domain: &str) -> AgentMessage {
    AgentMessage::Hello {
        domain: domain.parse().unwrap(),
        agent: Text::new("test"),
        clock: AgentClock {
            id: ClockId::Monotonic,
            boot: Text::new(boot_id().unwrap()),
        },
        tasks: Vec::new(),
        started: Vec::new(),
        change: 0,
        mode: None,
    }
}
