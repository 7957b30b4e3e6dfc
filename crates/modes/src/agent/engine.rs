//! What switches a domain's tasks, and how it can fail.

use std::io;

use tailbound_time::Duration;

use crate::wire::{Name, TaskLists};

/// Switches the tasks of one domain.
pub trait TaskEngine {
    /// The tasks that it can stop and start.
    fn tasks(&self) -> Vec<Name>;

    /// Those of them that are started, as far as it can tell.
    fn started(&self) -> Vec<Name>;

    /// Stops what `lists` has to stop, all of it, then starts what it has to start. What is stopped
    /// or started already stays so. Returns the tasks whose state became another one.
    ///
    /// When this returns, stopped tasks execute nothing any more.
    ///
    /// # Errors
    /// Why it could not; what it had switched until then is as before, but for what the error names
    /// in [`SwitchError::unrestored`].
    fn switch(&mut self, lists: &TaskLists) -> Result<TaskLists, SwitchError>;
}

/// Why tasks were not switched.
#[derive(Debug, thiserror::Error)]
#[error("{cause}{}", left_behind(.unrestored))]
pub struct SwitchError {
    /// Why.
    pub cause: TaskError,
    /// What is still to be stopped and started before all is as it was; empty where all is.
    pub unrestored: TaskLists,
}

impl SwitchError {
    /// A failure before anything was switched, or after all of it was put back.
    pub fn rolled_back(cause: TaskError) -> Self {
        Self {
            cause,
            unrestored: TaskLists::default(),
        }
    }

    /// Whether all is as it was.
    pub fn is_rolled_back(&self) -> bool {
        self.unrestored.stop.is_empty() && self.unrestored.start.is_empty()
    }
}

fn left_behind(left: &TaskLists) -> String {
    let names = |names: &[Name]| {
        let names: Vec<&str> = names.iter().map(Name::as_str).collect();
        names.join(", ")
    };
    match (left.stop.is_empty(), left.start.is_empty()) {
        (true, true) => String::new(),
        (false, true) => format!("; still started: {}", names(&left.stop)),
        (true, false) => format!("; still stopped: {}", names(&left.start)),
        (false, false) => format!(
            "; still started: {}; still stopped: {}",
            names(&left.stop),
            names(&left.start)
        ),
    }
}

/// Why one task does not stop or start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskError {
    /// The engine knows no such task.
    #[error("task \"{task}\" is not among those of this agent; name it with --task")]
    Unknown {
        /// The task.
        task: Name,
    },
    /// A task is to be stopped and started at once.
    #[error("task \"{task}\" is to be stopped and started by one change; put it into one list")]
    Both {
        /// The task.
        task: Name,
    },
    /// What the task consists of is not there any more.
    #[error("task \"{task}\": {what} has ended; start it anew and name it to the agent")]
    Gone {
        /// The task.
        task: Name,
        /// A process or a cgroup.
        what: String,
    },
    /// It goes on after it was told to stop.
    #[error("task \"{task}\": {what} had not stopped {limit} after it was told to")]
    GoesOn {
        /// The task.
        task: Name,
        /// A process, a cgroup or a unit.
        what: String,
        /// How long was waited for it.
        limit: Duration,
    },
    /// The kernel refuses.
    #[error("task \"{task}\": cannot {attempt}: {source}")]
    System {
        /// The task.
        task: Name,
        /// What was tried.
        attempt: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program that was asked to switch it says no, or the application itself does.
    #[error("task \"{task}\": {message}")]
    Refused {
        /// The task.
        task: Name,
        /// What it said.
        message: String,
    },
}
