//! The domains as they run: a virtual machine, processes, and an agent for each.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::spawn::{kill_group, spawn_on};
use tailbound_time::{Clock, Duration};

use crate::case::{Case, Domain, Kind};
use crate::commands::{StepError, Tailbound, tried};
use crate::counts::{Jobs, Output};
use crate::description::{Host, Place};

/// Agents of processes run on the housekeeping CPU, below what serves the virtual machine there.
const AGENT_PRIORITY: &str = "90";
/// The first of the priorities in the virtual machine, below its agent.
const GUEST_PRIORITIES: u8 = 50;
const GUEST_AGENT_PRIORITY: &str = "98";
/// What is waited for comes within a few seconds; an emulated machine on a busy host is slow.
const LONGEST_WAIT: Duration = Duration::from_secs(30);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// A command takes longer than a look.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(200);

/// Ctrl-C, or SIGTERM.
pub type Stop = Arc<AtomicBool>;

/// Sleeps; ends early when we are to stop.
///
/// # Errors
/// [`StepError::Interrupted`].
pub fn sleep(length: Duration, stop: &Stop) -> Result<(), StepError> {
    let end = Monotonic.now().saturating_add(length);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(StepError::Interrupted);
        }
        let left = end.saturating_since(Monotonic.now());
        if left.is_zero() {
            return Ok(());
        }
        let next = Monotonic.now().saturating_add(left.min(LOOK_AGAIN_AFTER));
        tried(sleep_until(next), || "sleep".into())?;
    }
}

/// Waits until `done`.
///
/// # Errors
/// [`StepError::Late`], [`StepError::Interrupted`], and what `done` fails with.
pub fn wait(
    what: &str,
    stop: &Stop,
    mut done: impl FnMut() -> Result<bool, StepError>,
) -> Result<(), StepError> {
    let end = Monotonic.now().saturating_add(LONGEST_WAIT);
    while !done()? {
        if Monotonic.now() > end {
            return Err(StepError::Late(what.into()));
        }
        sleep(LOOK_AGAIN_AFTER, stop)?;
    }
    Ok(())
}

/// A child that ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _killed = kill_group(&self.0);
        let _reaped = self.0.wait();
    }
}

/// Tasks of a domain, and what they say.
struct Started {
    place: Place,
    outputs: Vec<Output>,
    tasks: usize,
    /// Names and numbers of tasks that are processes of this host.
    processes: Vec<(String, u32)>,
    _children: Vec<Running>,
}

/// Everything that runs.
pub struct System<'a> {
    case: &'a Case,
    tailbound: &'a Tailbound,
    housekeeping: BTreeSet<u32>,
    cpu: u32,
    stop: Stop,
    domains: Vec<Started>,
    agents: Vec<Running>,
}

impl<'a> System<'a> {
    /// Starts all tasks of both modes, which wait for their agents, and times their loops.
    ///
    /// # Errors
    /// A program cannot be started, or is not ready in time.
    pub fn start(
        case: &'a Case,
        tailbound: &'a Tailbound,
        folder: &Path,
        cpus: (u32, u32),
        stop: &Stop,
    ) -> Result<Self, StepError> {
        let mut system = Self {
            case,
            tailbound,
            housekeeping: [cpus.1].into(),
            cpu: cpus.0,
            stop: Arc::clone(stop),
            domains: Vec::new(),
            agents: Vec::new(),
        };
        for domain in &case.domains {
            let started = match domain.kind {
                Kind::Machine => system.boot(domain, folder)?,
                Kind::Processes => system.start_processes(domain, folder)?,
            };
            system.domains.push(started);
        }
        wait("a task's timing of its loop", stop, || system.all_ready())?;
        Ok(system)
    }

    fn all_ready(&mut self) -> Result<bool, StepError> {
        let mut all = true;
        for domain in &mut self.domains {
            let mut ready = 0;
            for output in &mut domain.outputs {
                tried(output.read(), || "output of a task".into())?;
                ready += output.ready();
            }
            all &= ready == domain.tasks;
        }
        Ok(all)
    }

    fn start_processes(&self, domain: &Domain, folder: &Path) -> Result<Started, StepError> {
        let mut started = Started {
            place: Place::Pids(Vec::new()),
            outputs: Vec::new(),
            tasks: 0,
            processes: Vec::new(),
            _children: Vec::new(),
        };
        for (task, [name, period, work]) in arguments(domain) {
            let path = folder.join(&name);
            let file = tried(File::create(&path), || path.display().to_string())?;
            let mut command = Command::new(self.tailbound.program("periodic"));
            command
                .args(["--name", &name, "--period", &period, "--work", &work])
                .stdin(Stdio::null())
                .stdout(file);
            let child = spawn_on(&mut command, &BTreeSet::new());
            let child = tried(child, || "`periodic` cannot be started".into())?;
            started.processes.push((task, child.id()));
            started._children.push(Running(child));
            let output = Output::of(&path);
            started
                .outputs
                .push(tried(output, || path.display().to_string())?);
        }
        started.tasks = started.processes.len();
        let pids = started.processes.iter().map(|(_, pid)| *pid);
        started.place = Place::Pids(pids.collect());
        Ok(started)
    }

    fn boot(&self, domain: &Domain, folder: &Path) -> Result<Started, StepError> {
        let image = folder.join("image");
        let agent = self.tailbound.program("tailbound-agent");
        let periodic = self.tailbound.program("periodic");
        let mut pack = Command::new(guest_tool());
        pack.arg("pack").arg(&image).arg("--agent").arg(agent);
        pack.args(["--domain", domain.name]);
        pack.arg("--file");
        pack.arg(format!("{}=/bin/periodic", periodic.display()));
        let fifo = format!("--fifo={GUEST_AGENT_PRIORITY}");
        pack.args(["--agent-option", &fifo]);
        let mut tasks = 0;
        for (task, [name, period, work]) in arguments(domain) {
            let priority = priority_in_guest(domain, &task);
            pack.arg("--task").arg(format!(
                "{task}=/bin/periodic --name {name} --period {period} --work {work} --fifo {priority}"
            ));
            tasks += 1;
        }
        let packed = tried(pack.output(), || "tools/guest cannot be started".into())?;
        if !packed.status.success() {
            return Err(StepError::Command {
                command: "tools/guest pack".into(),
                status: packed.status.to_string(),
                said: String::from_utf8_lossy(&packed.stderr).into_owned(),
            });
        }
        let [console, qmp, port] = ["console", "qmp", "port"].map(|name| folder.join(name));
        let file = tried(File::create(&console), || console.display().to_string())?;
        let errors = tried(file.try_clone(), || console.display().to_string())?;
        let mut boot = Command::new(guest_tool());
        boot.arg("boot").arg(&image).args(["--name", domain.name]);
        boot.arg("--qmp").arg(&qmp).arg("--port").arg(&port);
        boot.stdin(Stdio::null()).stdout(file).stderr(errors);
        let machine = spawn_on(&mut boot, &BTreeSet::new());
        let machine = Running(tried(machine, || "QEMU cannot be started".into())?);
        let output = tried(Output::of(&console), || console.display().to_string())?;
        Ok(Started {
            place: Place::Machine { qmp, port },
            outputs: vec![output],
            tasks,
            processes: Vec::new(),
            _children: vec![machine],
        })
    }

    /// Where the case runs.
    pub fn host(&self) -> Host {
        Host {
            cpu: self.cpu,
            housekeeping: self.housekeeping.first().copied().unwrap_or(0),
            places: self.domains.iter().map(|one| one.place.clone()).collect(),
        }
    }

    /// Starts an agent for each domain of processes, and waits for all agents.
    ///
    /// # Errors
    /// A program cannot be started, or an agent does not connect.
    pub fn connect(&mut self) -> Result<(), StepError> {
        let socket = self.tailbound.modes()?;
        let socket = socket["socket"].as_str().unwrap_or_default().to_owned();
        for (domain, started) in self.case.domains.iter().zip(&self.domains) {
            if started.processes.is_empty() {
                continue;
            }
            let mut command = Command::new(self.tailbound.program("tailbound-agent"));
            command.args(["--domain", domain.name, "--fifo", AGENT_PRIORITY]);
            command.arg("--connect").arg(format!("unix:{socket}"));
            for (task, pid) in &started.processes {
                command.arg("--task").arg(format!("{task}=pid:{pid}"));
            }
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let child = spawn_on(&mut command, &self.housekeeping);
            let child = tried(child, || "tailbound-agent cannot be started".into())?;
            self.agents.push(Running(child));
        }
        let connected = wait("an agent", &self.stop, || {
            let modes = self.tailbound.modes()?;
            let domains = modes["domains"].as_array().cloned().unwrap_or_default();
            let mut all = domains.iter();
            let all = all.all(|one| one["agent"] == "connected" && one["tasks_known"] == true);
            sleep(
                if all { Duration::ZERO } else { ASK_AGAIN_AFTER },
                &self.stop,
            )?;
            Ok(all)
        });
        match connected {
            Err(StepError::Late(what)) => {
                let said = self.tailbound.ask(&["mode", "list"])?;
                Err(StepError::Late(format!("{what} ({})", said.out.trim())))
            }
            other => other,
        }
    }

    /// Ends the agents of processes.
    pub fn disconnect(&mut self) {
        self.agents.clear();
    }

    /// What each domain has told of since the last call.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn window(&mut self) -> Result<Vec<Jobs>, StepError> {
        let mut all = Vec::new();
        for domain in &mut self.domains {
            let mut jobs = Jobs::default();
            for output in &mut domain.outputs {
                let counts = tried(output.window(), || "output of a task".into())?;
                jobs = jobs.and(counts);
            }
            all.push(jobs);
        }
        Ok(all)
    }
}

/// Each task with its name, period and work for `periodic`.
fn arguments(domain: &Domain) -> Vec<(String, [String; 3])> {
    let one = |(name, task): (String, crate::generate::Task)| {
        let work = domain.kind.executed(task.execution);
        let arguments = [
            format!("{}.{name}", domain.name),
            task.period.to_string(),
            work.to_string(),
        ];
        (name, arguments)
    };
    domain.tasks().map(one).collect()
}

/// The shorter its period, the higher.
fn priority_in_guest(domain: &Domain, wanted: &str) -> u8 {
    let period = |name: &str| {
        let mut tasks = domain.tasks();
        tasks
            .find(|(task, _)| task == name)
            .map(|(_, task)| task.period)
    };
    let own = period(wanted).unwrap_or(Duration::ZERO);
    let shorter = domain.tasks().filter(|(_, task)| task.period < own);
    GUEST_PRIORITIES.saturating_sub(shorter.count() as u8)
}

/// The repository's tool for virtual machines.
fn guest_tool() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/guest")
}

/// The packages that virtual machines need and that are missing.
///
/// # Errors
/// The tool cannot be started.
pub fn missing_for_machines() -> Result<Vec<String>, StepError> {
    let asked = Command::new(guest_tool()).arg("missing").output();
    let asked = tried(asked, || "tools/guest cannot be started".into())?;
    let packages = String::from_utf8_lossy(&asked.stdout).into_owned();
    Ok(packages.split_whitespace().map(str::to_owned).collect())
}

/// The console of the virtual machine, where there is one.
pub fn console(folder: &Path) -> Option<String> {
    let bytes = fs::read(folder.join("console")).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
