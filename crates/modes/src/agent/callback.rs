//! Tasks that switch themselves: the agent is part of the application, which is called.

use crate::agent::engine::{SwitchError, TaskEngine, TaskError};
use crate::agent::task_table::TaskControl;
use crate::wire::{Name, TaskLists};

/// A task that is switched by a function: `true` starts it, `false` stops it. When the function
/// returns from a stop, the task executes nothing any more.
pub struct SwitchedByCall<F> {
    task: Name,
    started: bool,
    call: F,
}

impl<F: FnMut(bool) -> Result<(), String>> SwitchedByCall<F> {
    /// The task that `call` switches, and whether it is started now.
    pub fn new(task: Name, started: bool, call: F) -> Self {
        Self {
            task,
            started,
            call,
        }
    }

    fn set(&mut self, started: bool) -> Result<(), TaskError> {
        (self.call)(started).map_err(|message| TaskError::Refused {
            task: self.task.clone(),
            message,
        })?;
        self.started = started;
        Ok(())
    }
}

impl<F: FnMut(bool) -> Result<(), String>> TaskControl for SwitchedByCall<F> {
    fn is_started(&mut self) -> Result<bool, TaskError> {
        Ok(self.started)
    }

    fn begin_stop(&mut self) -> Result<(), TaskError> {
        self.set(false)
    }

    fn finish_stop(&mut self) -> Result<(), TaskError> {
        Ok(())
    }

    fn start(&mut self) -> Result<(), TaskError> {
        self.set(true)
    }
}

/// A whole domain that is switched by one function, which puts back what it changed where it
/// fails, as [`TaskEngine::switch`] demands.
pub struct DomainCallback<F> {
    started: Vec<(Name, bool)>,
    call: F,
}

impl<F: FnMut(&TaskLists) -> Result<(), SwitchError>> DomainCallback<F> {
    /// The domain with these tasks, each with whether it is started now, that `call` switches.
    pub fn new(tasks: impl IntoIterator<Item = (Name, bool)>, call: F) -> Self {
        Self {
            started: tasks.into_iter().collect(),
            call,
        }
    }

    fn unknown(&self, lists: &TaskLists) -> Option<Name> {
        let mut named = lists.stop.iter().chain(&lists.start);
        let unknown = named.find(|name| self.started.iter().all(|(task, _)| task != *name));
        unknown.cloned()
    }

    fn note(&mut self, names: &[Name], to: bool) -> Vec<Name> {
        let mut changed = Vec::new();
        for (task, started) in &mut self.started {
            if *started != to && names.contains(task) {
                *started = to;
                changed.push(task.clone());
            }
        }
        changed
    }
}

impl<F: FnMut(&TaskLists) -> Result<(), SwitchError>> TaskEngine for DomainCallback<F> {
    fn tasks(&self) -> Vec<Name> {
        self.started.iter().map(|(task, _)| task.clone()).collect()
    }

    fn started(&self) -> Vec<Name> {
        let started = self.started.iter().filter(|(_, started)| *started);
        started.map(|(task, _)| task.clone()).collect()
    }

    fn switch(&mut self, lists: &TaskLists) -> Result<TaskLists, SwitchError> {
        if let Some(task) = self.unknown(lists) {
            return Err(SwitchError::rolled_back(TaskError::Unknown { task }));
        }
        if let Some(task) = lists.stop.iter().find(|task| lists.start.contains(task)) {
            let task = task.clone();
            return Err(SwitchError::rolled_back(TaskError::Both { task }));
        }
        match (self.call)(lists) {
            Ok(()) => Ok(TaskLists {
                stop: self.note(&lists.stop, false),
                start: self.note(&lists.start, true),
            }),
            Err(error) => {
                self.note(&error.unrestored.stop, true);
                self.note(&error.unrestored.start, false);
                Err(error)
            }
        }
    }
}
