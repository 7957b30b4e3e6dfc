//! Tasks that are systemd units, stopped and started by `systemctl`.

use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use tailbound_linux::control_socket::ProcessHandle;
use tailbound_time::Duration;

use crate::agent::engine::TaskError;
use crate::agent::task_table::TaskControl;
use crate::wire::Name;

/// How `systemctl` was called, and where its end is told.
struct Call {
    arguments: [String; 3],
    ended: Sender<io::Result<Option<ExitStatus>>>,
}

/// A thread that runs `systemctl` and waits for it, for as long as a unit of it is there.
///
/// The agent's own thread may be SCHED_FIFO. Such a thread must not collect the end of a child: it
/// can keep the CPU from the child that it waits for. So start this before the agent's thread is
/// given its priority; what it starts then has an ordinary one.
#[derive(Clone, Debug)]
pub struct UnitRunner {
    calls: Sender<Call>,
    limit: Duration,
}

impl UnitRunner {
    /// Starts the thread, which runs `program` (`systemctl` but in tests) and kills it where it
    /// takes longer than `limit`.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(program: PathBuf, limit: Duration) -> io::Result<Self> {
        let (calls, receiver) = mpsc::channel();
        thread::Builder::new()
            .name("units".to_owned())
            .spawn(move || serve(&program, limit, &receiver))?;
        Ok(Self { calls, limit })
    }

    fn begin(&self, arguments: [String; 3]) -> Receiver<io::Result<Option<ExitStatus>>> {
        let (ended, receiver) = mpsc::channel();
        // Where the thread is gone, the receiver will tell.
        let _gone = self.calls.send(Call { arguments, ended });
        receiver
    }
}

fn serve(program: &PathBuf, limit: Duration, calls: &Receiver<Call>) {
    while let Ok(call) = calls.recv() {
        let outcome = run(Command::new(program).args(&call.arguments), limit);
        let _nobody_waits = call.ended.send(outcome);
    }
}

/// Runs it to its end; `None` where it was killed at `limit`.
fn run(command: &mut Command, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?;
    let ended = ends_within(&child, limit);
    if !matches!(ended, Ok(true)) {
        // It may have ended since; the wait below collects it either way.
        let _ended = child.kill();
    }
    let status = child.wait()?;
    Ok(ended?.then_some(status))
}

fn ends_within(child: &Child, limit: Duration) -> io::Result<bool> {
    ProcessHandle::open(child.id())?.wait_ended(limit)
}

/// A task that is one systemd unit.
#[derive(Debug)]
pub struct SystemdUnit {
    task: Name,
    unit: String,
    runner: UnitRunner,
    stopping: Option<Receiver<io::Result<Option<ExitStatus>>>>,
}

impl SystemdUnit {
    /// The task that is `unit`, such as `web.service`.
    pub fn new(task: Name, unit: String, runner: UnitRunner) -> Self {
        Self {
            task,
            unit,
            runner,
            stopping: None,
        }
    }

    fn begin(&self, verb: &str) -> Receiver<io::Result<Option<ExitStatus>>> {
        // After "--" nothing is an option, whatever the unit is called.
        let arguments = [verb, "--", &self.unit].map(str::to_owned);
        self.runner.begin(arguments)
    }

    fn outcome(
        &self,
        verb: &str,
        ended: &Receiver<io::Result<Option<ExitStatus>>>,
    ) -> Result<ExitStatus, TaskError> {
        let outcome = ended
            .recv()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that runs it has ended")));
        match outcome {
            Ok(Some(status)) => Ok(status),
            Ok(None) => Err(TaskError::GoesOn {
                task: self.task.clone(),
                what: format!("systemctl {verb} {}", self.unit),
                limit: self.runner.limit,
            }),
            Err(source) => Err(TaskError::System {
                task: self.task.clone(),
                attempt: format!("run systemctl {verb} {}", self.unit),
                source,
            }),
        }
    }

    fn demand_success(&self, verb: &str, status: ExitStatus) -> Result<(), TaskError> {
        match status.success() {
            true => Ok(()),
            false => Err(TaskError::Refused {
                task: self.task.clone(),
                message: format!(
                    "systemctl {verb} {} ended with {status}; see systemctl status",
                    self.unit
                ),
            }),
        }
    }
}

impl TaskControl for SystemdUnit {
    fn is_started(&mut self) -> Result<bool, TaskError> {
        let ended = self.begin("is-active");
        // It fails for every state but "active".
        Ok(self.outcome("is-active", &ended)?.success())
    }

    fn begin_stop(&mut self) -> Result<(), TaskError> {
        self.stopping = Some(self.begin("stop"));
        Ok(())
    }

    fn finish_stop(&mut self) -> Result<(), TaskError> {
        let Some(ended) = self.stopping.take() else {
            return Ok(());
        };
        let status = self.outcome("stop", &ended)?;
        self.demand_success("stop", status)
    }

    fn start(&mut self) -> Result<(), TaskError> {
        // A stop that nobody waited for comes before it: the thread runs one call after another.
        self.stopping = None;
        let ended = self.begin("start");
        let status = self.outcome("start", &ended)?;
        self.demand_success("start", status)
    }
}
