//! Tasks that are cgroups, stopped and continued by the v2 freezer.

use std::io;

use tailbound_linux::task_group::TaskGroup;
use tailbound_time::Duration;

use crate::agent::engine::TaskError;
use crate::agent::task_table::TaskControl;
use crate::wire::Name;

/// A task that is all processes of one cgroup and of those below it, their children included. It
/// may lie below a cgroup that something else freezes and thaws, such as the domain's reservation:
/// either keeps it from running.
#[derive(Debug)]
pub struct FrozenGroup {
    task: Name,
    group: TaskGroup,
    stop_within: Duration,
}

impl FrozenGroup {
    /// The task that is `group`, which freezes within `stop_within` or has failed to.
    pub fn new(task: Name, group: TaskGroup, stop_within: Duration) -> Self {
        Self {
            task,
            group,
            stop_within,
        }
    }

    fn failed(&self, attempt: &str, source: io::Error) -> TaskError {
        let (task, directory) = (self.task.clone(), self.group.directory().display());
        match source.kind() {
            io::ErrorKind::NotFound => TaskError::Gone {
                task,
                what: format!("cgroup {directory}"),
            },
            _ => TaskError::System {
                task,
                attempt: format!("{attempt} cgroup {directory}"),
                source,
            },
        }
    }
}

impl TaskControl for FrozenGroup {
    fn is_started(&mut self) -> Result<bool, TaskError> {
        match self.group.is_switched_off() {
            Ok(off) => Ok(!off),
            Err(source) => Err(self.failed("look at", source)),
        }
    }

    fn begin_stop(&mut self) -> Result<(), TaskError> {
        match self.group.set_frozen(true) {
            Ok(()) => Ok(()),
            // A group that was removed had no process left.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.failed("freeze", source)),
        }
    }

    fn finish_stop(&mut self) -> Result<(), TaskError> {
        match self.group.wait_frozen(self.stop_within) {
            Ok(true) => Ok(()),
            Ok(false) => Err(TaskError::GoesOn {
                task: self.task.clone(),
                what: format!("cgroup {}", self.group.directory().display()),
                limit: self.stop_within,
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(source) => Err(self.failed("wait for", source)),
        }
    }

    fn start(&mut self) -> Result<(), TaskError> {
        self.group
            .set_frozen(false)
            .map_err(|source| self.failed("thaw", source))
    }
}
