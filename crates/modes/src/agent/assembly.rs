//! From the arguments of `tailbound-agent` to its tasks.

use std::io;
use std::path::PathBuf;

use tailbound_linux::task_group::TaskGroup;
use tailbound_linux::task_process::TaskProcess;

use crate::agent::arguments::{AgentArguments, ProcessArgument, TaskSource};
use crate::agent::engine::TaskError;
use crate::agent::freezer::FrozenGroup;
use crate::agent::signals::SignalledProcesses;
use crate::agent::task_table::{TaskControl, TaskTable};
use crate::agent::units::{SystemdUnit, UnitRunner};
use crate::wire::Name;

/// Why a task cannot be taken up.
#[derive(Debug, thiserror::Error)]
pub enum AssemblyError {
    /// A process cannot be taken up.
    #[error("task \"{task}\": process {pid}: {source}; name a process that lives and is yours")]
    Process {
        /// The task.
        task: Name,
        /// The process.
        pid: u32,
        /// Why.
        source: io::Error,
    },
    /// A process that would stop this one with itself.
    #[error("task \"{task}\": process {pid} is the agent itself; name the task's own process")]
    Oneself {
        /// The task.
        task: Name,
        /// The process.
        pid: u32,
    },
    /// A cgroup cannot be taken up.
    #[error(
        "task \"{task}\": cgroup {}: {source}; name a cgroup v2 other than the root one, without \
         the agent in it, that you may write to", .directory.display()
    )]
    Cgroup {
        /// The task.
        task: Name,
        /// The cgroup.
        directory: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The thread that runs `systemctl` cannot be started.
    #[error("task \"{task}\": cannot start a thread: {source}")]
    Thread {
        /// The task.
        task: Name,
        /// Why.
        source: io::Error,
    },
    /// It cannot be told whether the task is started.
    #[error(transparent)]
    State(#[from] TaskError),
}

/// Takes up the tasks that `arguments` name. Call it before the thread is given a real-time
/// priority.
///
/// # Errors
/// The first task that cannot be taken up.
pub fn tasks(arguments: &AgentArguments) -> Result<TaskTable, AssemblyError> {
    let mut table = TaskTable::new();
    let mut units = None;
    for (task, source) in &arguments.tasks {
        let task = task.clone();
        let control: Box<dyn TaskControl + Send> = match source {
            TaskSource::Processes(named) => {
                let processes = processes(&task, named)?;
                let within = arguments.stop_within;
                Box::new(SignalledProcesses::new(task.clone(), processes, within))
            }
            TaskSource::Cgroup(directory) => {
                let group = TaskGroup::open(directory).map_err(|source| AssemblyError::Cgroup {
                    task: task.clone(),
                    directory: directory.clone(),
                    source,
                })?;
                Box::new(FrozenGroup::new(task.clone(), group, arguments.stop_within))
            }
            TaskSource::Unit(unit) => {
                let runner = match &units {
                    Some(runner) => UnitRunner::clone(runner),
                    None => start_runner(&task, arguments)?,
                };
                units = Some(runner.clone());
                Box::new(SystemdUnit::new(task.clone(), unit.clone(), runner))
            }
        };
        table.add(task, control)?;
    }
    Ok(table)
}

fn start_runner(task: &Name, arguments: &AgentArguments) -> Result<UnitRunner, AssemblyError> {
    UnitRunner::start("systemctl".into(), arguments.unit_within).map_err(|source| {
        AssemblyError::Thread {
            task: task.clone(),
            source,
        }
    })
}

fn processes(task: &Name, named: &[ProcessArgument]) -> Result<Vec<TaskProcess>, AssemblyError> {
    let open = |process: &ProcessArgument| {
        let pid = process.pid;
        if pid == std::process::id() {
            let task = task.clone();
            return Err(AssemblyError::Oneself { task, pid });
        }
        TaskProcess::open(pid, process.started).map_err(|source| AssemblyError::Process {
            task: task.clone(),
            pid,
            source,
        })
    };
    named.iter().map(open).collect()
}
