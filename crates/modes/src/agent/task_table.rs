//! A task engine of named tasks, each switched in its own way, that puts everything back if one of
//! them fails.

use crate::agent::engine::{SwitchError, TaskEngine, TaskError};
use crate::wire::{Name, TaskLists};

/// One task that can be stopped and started. Stopping is in two parts, so that all tasks of a change
/// stop at the same time.
pub trait TaskControl {
    /// Whether it is started now.
    ///
    /// # Errors
    /// Why that cannot be told.
    fn is_started(&mut self) -> Result<bool, TaskError>;

    /// Has it stop; does not wait for that.
    ///
    /// # Errors
    /// Why it cannot be told to.
    fn begin_stop(&mut self) -> Result<(), TaskError>;

    /// Waits until it executes nothing any more.
    ///
    /// # Errors
    /// [`TaskError::GoesOn`] where it does not stop within its limit.
    fn finish_stop(&mut self) -> Result<(), TaskError>;

    /// Has it go on.
    ///
    /// # Errors
    /// [`TaskError::Gone`] where there is nothing left of it.
    fn start(&mut self) -> Result<(), TaskError>;
}

struct TaskEntry {
    name: Name,
    control: Box<dyn TaskControl + Send>,
    started: bool,
}

/// Tasks by name. See [`TaskEngine::switch`] for what it promises.
#[derive(Default)]
pub struct TaskTable {
    entries: Vec<TaskEntry>,
}

/// What was begun, in order, by place in the table; for putting it back.
#[derive(Default)]
struct Begun {
    stops: Vec<usize>,
    starts: Vec<usize>,
}

impl TaskTable {
    /// A table without tasks.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a task; one of the same name is replaced.
    ///
    /// # Errors
    /// Why it cannot be told whether it is started.
    pub fn add(
        &mut self,
        name: Name,
        mut control: Box<dyn TaskControl + Send>,
    ) -> Result<(), TaskError> {
        let started = control.is_started()?;
        self.entries.retain(|entry| entry.name != name);
        self.entries.push(TaskEntry {
            name,
            control,
            started,
        });
        Ok(())
    }

    fn places(&self, names: &[Name]) -> Result<Vec<usize>, TaskError> {
        let mut places = Vec::with_capacity(names.len());
        for name in names {
            let place = self.entries.iter().position(|entry| entry.name == *name);
            let place = place.ok_or_else(|| TaskError::Unknown { task: name.clone() })?;
            if !places.contains(&place) {
                places.push(place);
            }
        }
        Ok(places)
    }

    fn carry_out(
        &mut self,
        stops: &[usize],
        starts: &[usize],
        begun: &mut Begun,
    ) -> Result<(), TaskError> {
        // What fails half-way counts as begun.
        for &place in stops {
            begun.stops.push(place);
            self.entries[place].control.begin_stop()?;
        }
        for &place in stops {
            self.entries[place].control.finish_stop()?;
        }
        for &place in starts {
            begun.starts.push(place);
            self.entries[place].control.start()?;
        }
        Ok(())
    }

    /// Puts back what was begun, starts before stops, so that old and new tasks do not run together;
    /// returns what could not be put back.
    fn put_back(&mut self, begun: &Begun) -> TaskLists {
        let mut unrestored = TaskLists::default();
        for &place in begun.starts.iter().rev() {
            let entry = &mut self.entries[place];
            if entry.started {
                continue;
            }
            let stopped = entry.control.begin_stop();
            if stopped.and_then(|()| entry.control.finish_stop()).is_err() {
                entry.started = true;
                unrestored.stop.push(entry.name.clone());
            }
        }
        for &place in begun.stops.iter().rev() {
            let entry = &mut self.entries[place];
            if !entry.started {
                continue;
            }
            match entry.control.start() {
                // What has ended by itself is not held back by us.
                Ok(()) | Err(TaskError::Gone { .. }) => {}
                Err(_) => {
                    entry.started = false;
                    unrestored.start.push(entry.name.clone());
                }
            }
        }
        unrestored
    }

    /// Notes what was carried out, and tells what became another state by it.
    fn note(&mut self, places: &[usize], started: bool) -> Vec<Name> {
        let mut changed = Vec::new();
        for &place in places {
            let entry = &mut self.entries[place];
            if entry.started != started {
                entry.started = started;
                changed.push(entry.name.clone());
            }
        }
        changed
    }
}

impl TaskEngine for TaskTable {
    fn tasks(&self) -> Vec<Name> {
        self.entries
            .iter()
            .map(|entry| entry.name.clone())
            .collect()
    }

    fn started(&self) -> Vec<Name> {
        let started = self.entries.iter().filter(|entry| entry.started);
        started.map(|entry| entry.name.clone()).collect()
    }

    fn switch(&mut self, lists: &TaskLists) -> Result<TaskLists, SwitchError> {
        let stops = self.places(&lists.stop).map_err(SwitchError::rolled_back)?;
        let starts = self
            .places(&lists.start)
            .map_err(SwitchError::rolled_back)?;
        if let Some(&both) = stops.iter().find(|place| starts.contains(place)) {
            let task = self.entries[both].name.clone();
            return Err(SwitchError::rolled_back(TaskError::Both { task }));
        }
        let mut begun = Begun::default();
        match self.carry_out(&stops, &starts, &mut begun) {
            Ok(()) => Ok(TaskLists {
                stop: self.note(&stops, false),
                start: self.note(&starts, true),
            }),
            Err(cause) => {
                let unrestored = self.put_back(&begun);
                Err(SwitchError { cause, unrestored })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::collections::BTreeSet;
    use std::sync::{Arc, Mutex};

    use proptest::prelude::*;

    use super::*;

    /// What tasks did, in order, and which of their operations fail, counted from the first.
    #[derive(Default)]
    struct Stage {
        running: BTreeSet<usize>,
        done: Vec<(usize, &'static str)>,
        failing: BTreeSet<usize>,
    }

    struct Actor {
        number: usize,
        stage: Arc<Mutex<Stage>>,
    }

    impl Actor {
        fn act(&self, what: &'static str) -> Result<(), TaskError> {
            let mut stage = self.stage.lock().unwrap();
            let operation = stage.done.len();
            stage.done.push((self.number, what));
            match what {
                // What fails half-way has stopped or started some of it.
                "stop" => _ = stage.running.remove(&self.number),
                "start" => _ = stage.running.insert(self.number),
                _ => {}
            }
            match stage.failing.contains(&operation) {
                true => Err(TaskError::Refused {
                    task: name(self.number),
                    message: format!("operation {operation} fails"),
                }),
                false => Ok(()),
            }
        }
    }

    impl TaskControl for Actor {
        fn is_started(&mut self) -> Result<bool, TaskError> {
            Ok(self.stage.lock().unwrap().running.contains(&self.number))
        }

        fn begin_stop(&mut self) -> Result<(), TaskError> {
            self.act("stop")
        }

        fn finish_stop(&mut self) -> Result<(), TaskError> {
            self.act("stopped")
        }

        fn start(&mut self) -> Result<(), TaskError> {
            self.act("start")
        }
    }

    fn name(number: usize) -> Name {
        Name::try_from(format!("t{number}")).unwrap()
    }

    fn names(numbers: impl IntoIterator<Item = usize>) -> Vec<Name> {
        numbers.into_iter().map(name).collect()
    }

    fn table(running: &[usize], failing: BTreeSet<usize>) -> (TaskTable, Arc<Mutex<Stage>>) {
        let stage = Arc::new(Mutex::new(Stage {
            running: running.iter().copied().collect(),
            failing,
            ..Stage::default()
        }));
        let mut table = TaskTable::new();
        for number in 0..6 {
            let stage = Arc::clone(&stage);
            table
                .add(name(number), Box::new(Actor { number, stage }))
                .unwrap();
        }
        (table, stage)
    }

    #[test]
    fn every_stop_is_finished_before_the_first_start() {
        let (mut table, stage) = table(&[0, 1], BTreeSet::new());
        let lists = TaskLists {
            stop: names([0, 1]),
            start: names([2, 3]),
        };
        assert_eq!(table.switch(&lists).unwrap(), lists);
        let order: Vec<&str> = stage
            .lock()
            .unwrap()
            .done
            .iter()
            .map(|(_, what)| *what)
            .collect();
        assert_eq!(
            order,
            ["stop", "stop", "stopped", "stopped", "start", "start"]
        );
        assert_eq!(table.started(), names([2, 3]));
    }

    #[test]
    fn what_was_so_already_is_told_as_unchanged() {
        let (mut table, _) = table(&[0], BTreeSet::new());
        let lists = TaskLists {
            stop: names([1, 1]),
            start: names([0]),
        };
        assert_eq!(table.switch(&lists).unwrap(), TaskLists::default());
    }

    #[test]
    fn tasks_that_are_unknown_or_in_both_lists_touch_nothing() {
        let (mut table, stage) = table(&[0], BTreeSet::new());
        let unknown = TaskLists {
            stop: names([0, 9]),
            start: vec![],
        };
        let both = TaskLists {
            stop: names([0]),
            start: names([0]),
        };
        for lists in [unknown, both] {
            assert!(table.switch(&lists).unwrap_err().is_rolled_back());
        }
        assert!(stage.lock().unwrap().done.is_empty());
    }

    #[test]
    fn what_cannot_be_put_back_is_named() {
        // Operation 0 stops task 0, 1 fails to stop task 1, 2 and 3 fail to start them again.
        let (mut table, stage) = table(&[0, 1], BTreeSet::from([1, 2, 3]));
        let lists = TaskLists {
            stop: names([0, 1]),
            start: vec![],
        };
        let error = table.switch(&lists).unwrap_err();
        assert_eq!(error.unrestored.start, names([1, 0]));
        assert!(
            error.to_string().contains("still stopped: t1, t0"),
            "{error}"
        );
        assert_eq!(table.started(), vec![]);
        // A later attempt succeeds.
        stage.lock().unwrap().failing.clear();
        table.switch(&error.unrestored).unwrap();
        assert_eq!(table.started(), names([0, 1]));
    }

    proptest! {
        #[test]
        fn one_failure_anywhere_leaves_everything_as_it_was(
            running in prop::collection::btree_set(0_usize..6, 0..6),
            chosen in prop::collection::btree_set(0_usize..6, 1..6),
            split in 0_usize..6,
            fails_at in 0_usize..18,
        ) {
            let running: Vec<usize> = running.into_iter().collect();
            let (mut table, stage) = table(&running, BTreeSet::from([fails_at]));
            let (stop, start): (Vec<_>, Vec<_>) = chosen.iter().partition(|n| **n < split);
            let lists = TaskLists { stop: names(stop), start: names(start) };
            let expected: Vec<Name> = match table.switch(&lists) {
                Ok(_) => {
                    let kept = table.tasks().into_iter().filter(|t| {
                        let ran = names(running.clone()).contains(t);
                        lists.start.contains(t) || (ran && !lists.stop.contains(t))
                    });
                    kept.collect()
                }
                Err(error) => {
                    prop_assert!(error.is_rolled_back(), "{error}");
                    names(running.clone())
                }
            };
            prop_assert_eq!(table.started(), expected.clone());
            let truth = names(stage.lock().unwrap().running.iter().copied());
            prop_assert_eq!(truth, expected);
        }
    }
}
