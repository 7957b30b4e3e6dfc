//! A domain on this host with its daemon, and what must hold of them before and after.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::MutexGuard;
use std::thread;
use std::time::Duration as StdDuration;

use tailbound_control::{Client, RefusalKind, StartOptions};
use tailbound_enforcement::linux_kernel::LinuxKernel;
use tailbound_enforcement::{
    Change, KernelView, ReservationRequest, SchedulingSetting, Target, recover,
};
use tailbound_linux::clock::cpu_time_of_process;
use tailbound_linux::process::{
    children_of, die_with_parent, own_thread, process_started, send_signal,
};
use tailbound_linux::scheduling::affinity_of;
use tailbound_model::{
    BackendKind, BackendOptions, BudgetScope, Cpu, CpuSet, Priority, ResourceInterface,
};
use tailbound_time::Duration;

const SIGKILL: i32 = 9;
const SIGUSR1: i32 = 10;
/// Looks at the host until something has to have happened, and the time between them.
const LOOKS: u32 = 600;
const BETWEEN_LOOKS: StdDuration = StdDuration::from_millis(20);

/// Waits until `holds`, or fails the test.
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..LOOKS {
        if holds() {
            return;
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    panic!("not within {LOOKS} looks: {what}");
}

/// What a domain is before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    cgroup: PathBuf,
    scheduling: SchedulingSetting,
    affinity: CpuSet,
}

impl State {
    /// Whether the kernel runs it before every thread of ordinary priority.
    #[allow(dead_code)]
    pub fn is_real_time(&self) -> bool {
        matches!(self.scheduling, SchedulingSetting::Fifo { .. })
    }

    /// Whether it is a real-time thread of the same domain; which of them comes first is another matter.
    #[allow(dead_code)]
    pub fn is_beside(&self, other: &Self) -> bool {
        let same = self.cgroup == other.cgroup && self.affinity == other.affinity;
        same && self.is_real_time() && other.is_real_time()
    }
}

/// A busy process of ours, a private state directory, and whatever runs for them.
pub struct Stage {
    _alone: MutexGuard<'static, ()>,
    directory: tempfile::TempDir,
    /// The process whose reservation it is.
    pub busy: Child,
    kernel: LinuxKernel,
    /// Any directory of the hierarchy that the back end uses.
    hierarchy: PathBuf,
    /// What the busy process was.
    pub before: State,
    /// Daemons and watchdogs to be ended with the stage.
    pub processes: BTreeSet<u32>,
}

impl Stage {
    /// `None`, said aloud, where the host cannot do it.
    pub fn set(test: &str) -> Option<Self> {
        let alone = crate::alone();
        let directory = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        // With SIGUSR1 it starts a child as busy as itself.
        let script = "trap '(while :; do :; done) &' USR1; while :; do :; done";
        command.args(["-c", script]);
        let busy = die_with_parent(&mut command).spawn().unwrap();
        let kernel = LinuxKernel::new().unwrap();
        let mut stage = Self {
            _alone: alone,
            directory,
            kernel,
            hierarchy: PathBuf::new(),
            before: State {
                cgroup: PathBuf::new(),
                scheduling: SchedulingSetting::Idle,
                affinity: CpuSet::new(),
            },
            processes: BTreeSet::new(),
            busy,
        };
        let planned = stage.client().plan(&[stage.request()]);
        let plans = match planned {
            Ok(plans) => plans,
            Err(error) if error.refusal_kind() == Some(RefusalKind::MissingRequirement) => {
                eprintln!("SKIP {test}: needs the ds-freeze back end: {error}");
                return None;
            }
            Err(error) => panic!("{error}"),
        };
        stage.hierarchy = plans[0]
            .changes
            .iter()
            .find_map(|change| match change {
                Change::MoveProcess { directory, .. } => directory.parent().map(Path::to_owned),
                _ => None,
            })
            .expect("ds-freeze moves the process");
        while !stage.hierarchy.is_dir() {
            stage.hierarchy.pop();
        }
        stage.before = stage.now();
        Some(stage)
    }

    /// The state directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A connection to the daemon, which is started if there is none.
    pub fn client(&mut self) -> Client {
        let options = StartOptions {
            program: Some(env!("CARGO_BIN_EXE_tailboundd").into()),
            idle_time: Duration::from_secs(2),
            ..StartOptions::default()
        };
        let client = Client::connect_or_start(self.path(), &options).unwrap();
        self.processes.insert(client.daemon_pid());
        client
    }

    /// The name of the reservation.
    pub fn domain(&self) -> String {
        format!("daemon-test-{}", self.busy.id())
    }

    /// A reservation for the busy process.
    pub fn request(&self) -> ReservationRequest {
        request_for(self.busy.id())
    }

    /// What the busy process is now.
    pub fn now(&self) -> State {
        self.state_of(self.busy.id())
    }

    /// Has the busy process start a child, and returns it.
    pub fn fork(&self) -> u32 {
        send_signal(self.busy.id(), SIGUSR1).unwrap();
        let children = || children_of(self.busy.id()).unwrap();
        eventually("it has a child", || !children().is_empty());
        children()[0]
    }

    /// What thread `tid` is now.
    pub fn state_of(&self, tid: u32) -> State {
        self.state_while_it_lives(tid).unwrap()
    }

    /// The state of a thread, unless it has ended.
    pub fn state_while_it_lives(&self, tid: u32) -> Option<State> {
        Some(State {
            cgroup: self.kernel.cgroup_of(tid, &self.hierarchy).ok()?,
            scheduling: self.kernel.scheduling(tid).ok()?,
            affinity: self.kernel.affinity(tid).ok()?,
        })
    }

    /// The watchdog's process.
    pub fn watchdog(&mut self, client: &mut Client) -> u32 {
        let pid = client.status().unwrap().watchdog.pid.expect("a watchdog");
        self.processes.insert(pid);
        pid
    }

    /// The reservation holds.
    pub fn assert_reserved(&self) {
        let now = self.now();
        assert!(
            matches!(now.scheduling, SchedulingSetting::Fifo { .. }),
            "{now:?}"
        );
        assert_ne!(now.cgroup, self.before.cgroup);
    }

    /// As it was before, and running.
    pub fn expect_restored(&self) {
        eventually("the domain is as it was before", || {
            self.now() == self.before
        });
        let used = cpu_time_of_process(self.busy.id()).unwrap();
        eventually("the domain runs", || {
            cpu_time_of_process(self.busy.id()).unwrap() > used
        });
        eventually("its cgroups are gone", || {
            cgroups_named(&self.domain()).is_empty()
        });
        eventually("no journal is left", || journals_in(self.path()).is_empty());
    }

    /// The last thread of process `pid` exits.
    pub fn expect_gone(&self, pid: u32) {
        eventually("the process has ended", || process_started(pid).is_err());
    }

    /// Runs a daemon as somebody at a terminal does: as our child, leading a process group.
    pub fn daemon_in_foreground(&mut self) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tailboundd"));
        command.arg("--state-dir").arg(self.path());
        command.stdout(Stdio::piped()).process_group(0);
        let mut daemon = die_with_parent(&mut command).spawn().unwrap();
        self.processes.insert(daemon.id());
        let mut line = String::new();
        let stdout = daemon.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n", "{:?}", daemon.try_wait());
        daemon
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // Nothing is to be made again.
        let _ = std::fs::remove_file(self.path().join("modes.state"));
        // One that was started for the modes of a dead one is not known.
        if let Ok(client) = Client::connect(self.path()) {
            self.processes.insert(client.daemon_pid());
        }
        for pid in &self.processes {
            // Most have ended by now.
            let _ = send_signal(*pid, SIGKILL);
        }
        for _ in 0..LOOKS {
            if self
                .processes
                .iter()
                .all(|pid| process_started(*pid).is_err())
            {
                break;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
        // What a failed test left; a watchdog that we do not know of may do the same.
        let _ = recover(self.path());
        let children = children_of(self.busy.id()).unwrap_or_default();
        let _ = self.busy.kill();
        for child in children {
            let _ = send_signal(child, SIGKILL);
        }
        let _ = self.busy.wait();
    }
}

/// The cgroups of this name in all hierarchies.
pub fn cgroups_named(name: &str) -> Vec<PathBuf> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let mut left: Vec<PathBuf> = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>())
        .filter(|fields| fields[2].starts_with("cgroup"))
        .map(|fields| PathBuf::from(fields[1]))
        .collect();
    let mut cgroups = Vec::new();
    while let Some(directory) = left.pop() {
        // Others come and go meanwhile.
        let below = std::fs::read_dir(&directory)
            .into_iter()
            .flatten()
            .flatten();
        left.extend(below.map(|one| one.path()).filter(|path| path.is_dir()));
        if directory.file_name().is_some_and(|last| last == name) {
            cgroups.push(directory);
        }
    }
    cgroups
}

/// The journals of enforcers with this state directory.
pub fn journals_in(directory: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(directory).unwrap();
    files
        .map(|one| one.unwrap().path())
        .filter(|path| path.extension().is_some_and(|last| last == "journal"))
        .collect()
}

/// A reservation for process `pid` that it uses up.
pub fn request_for(pid: u32) -> ReservationRequest {
    // The last CPU that we may use.
    let cpu = *affinity_of(own_thread()).unwrap().last().unwrap();
    ReservationRequest {
        domain: format!("daemon-test-{pid}"),
        target: Target::Processes(vec![pid]),
        interface: ResourceInterface {
            budget: Duration::from_millis(2),
            period: Duration::from_millis(10),
            priority: Priority(40),
            cpus: [Cpu(cpu)].into(),
            budget_scope: BudgetScope::EachCpu,
            windows: Vec::new(),
            slack: Vec::new(),
        },
        backend: BackendKind::DsFreeze,
        options: BackendOptions::default(),
        interference: Default::default(),
    }
}
