//! The two modes of a change, and which of their tasks stay as they are.

use std::collections::HashMap;

use tailbound_time::Duration;

use super::busy_window::BusyWindows;
use super::outcome::{NoTransition, TaskInTransition, TaskKind};
use crate::AnalysisError;
use crate::interfaces::SupplyBound;
use crate::sporadic_task::{SporadicTask, total_execution};

/// A task of a mode.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ModeTask {
    /// What it is known by in both modes; unique in each.
    pub name: String,
    /// Its place in the order of priorities: the lower one first. Tasks of equal rank may delay each
    /// other in any way.
    pub rank: u64,
    /// Its execution time, period and deadline.
    pub task: SporadicTask,
}

/// What the two modes run on.
#[derive(Clone, Copy)]
pub enum Supplies<'a> {
    /// The same in both.
    Same(&'a dyn SupplyBound),
    /// Another one in the new mode. It takes the place of the old one when the new mode starts: at
    /// the idle instant, or when the offset has passed. From then on its supply bound holds.
    Changing {
        /// That of the old mode.
        old: &'a dyn SupplyBound,
        /// That of the new mode.
        new: &'a dyn SupplyBound,
    },
    /// It changes at any instant, and these hold wherever that is: the first for every window up to the
    /// idle instant, the second for every window from there on.
    Covering {
        /// What the old tasks get, the change inside or not.
        old: &'a dyn SupplyBound,
        /// What the new tasks get, the change inside or not.
        new: &'a dyn SupplyBound,
    },
}

/// The old and the new mode.
#[derive(Clone, Copy)]
pub struct ModePair<'a> {
    old: &'a [ModeTask],
    new: &'a [ModeTask],
    supplies: Supplies<'a>,
}

/// Response times per task, or the names of those that miss their deadlines.
type InTime = Result<Vec<Duration>, Vec<String>>;

impl<'a> ModePair<'a> {
    /// The change from `old` to `new`; both may be empty.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a task with jitter or with a deadline beyond its period, and
    /// for a name that stands twice in a mode; [`AnalysisError::OutOfRange`] where the execution
    /// times of a mode sum up to too much.
    pub fn new(
        old: &'a [ModeTask],
        new: &'a [ModeTask],
        supplies: Supplies<'a>,
    ) -> Result<Self, AnalysisError> {
        check(old, "old")?;
        check(new, "new")?;
        Ok(Self { old, new, supplies })
    }

    /// The tasks of the old mode that are completed, changed ones included.
    pub(super) fn completed(&self) -> Vec<SporadicTask> {
        let new = by_name(self.new);
        let completed = self
            .old
            .iter()
            .filter(|one| new.get(one.name.as_str()) != Some(one));
        completed.map(|one| one.task).collect()
    }

    /// The tasks that both modes have in the same way.
    pub(super) fn unchanged(&self) -> Vec<SporadicTask> {
        let new = by_name(self.new);
        let unchanged = self
            .old
            .iter()
            .filter(|one| new.get(one.name.as_str()) == Some(one));
        unchanged.map(|one| one.task).collect()
    }

    /// All tasks of the old mode.
    pub(super) fn old_tasks(&self) -> Vec<SporadicTask> {
        self.old.iter().map(|one| one.task).collect()
    }

    /// What the old mode runs on.
    pub(super) fn old_supply(&self) -> &'a dyn SupplyBound {
        match self.supplies {
            Supplies::Same(supply) => supply,
            Supplies::Changing { old, .. } | Supplies::Covering { old, .. } => old,
        }
    }

    fn new_supply(&self) -> &'a dyn SupplyBound {
        match self.supplies {
            Supplies::Same(supply) => supply,
            Supplies::Changing { new, .. } | Supplies::Covering { new, .. } => new,
        }
    }

    /// Whether the reservation is the same before and after.
    pub(super) fn keeps_its_supply(&self) -> bool {
        matches!(self.supplies, Supplies::Same(_))
    }

    /// Whether jobs of unchanged tasks, where these are not delayed, may run across a change of the
    /// reservation.
    pub(super) fn runs_across_a_change(&self) -> bool {
        matches!(self.supplies, Supplies::Changing { .. }) && !self.unchanged().is_empty()
    }

    /// What every protocol needs: both modes schedulable by themselves. The response times of all
    /// tasks in them, or which mode is not.
    pub(super) fn alone(
        &self,
    ) -> Result<Result<Vec<TaskInTransition>, NoTransition>, AnalysisError> {
        let old = match response_times(self.old, self.old_supply())? {
            Ok(old) => old,
            Err(tasks) => return Ok(Err(NoTransition::OldModeMisses { tasks })),
        };
        let new = match response_times(self.new, self.new_supply())? {
            Ok(new) => new,
            Err(tasks) => return Ok(Err(NoTransition::NewModeMisses { tasks })),
        };
        Ok(Ok(self.in_transition(&old, &new)))
    }

    /// The old tasks in their order, then those that only the new mode has, in theirs.
    fn in_transition(&self, old: &[Duration], new: &[Duration]) -> Vec<TaskInTransition> {
        let in_new: HashMap<&str, (&ModeTask, Duration)> = self
            .new
            .iter()
            .zip(new)
            .map(|(one, response)| (one.name.as_str(), (one, *response)))
            .collect();
        let of_old = self.old.iter().zip(old).map(|(one, response)| {
            let new = in_new.get(one.name.as_str());
            let kind = match new {
                None => TaskKind::Completed,
                Some((new, _)) if *new == one => TaskKind::Unchanged,
                Some(_) => TaskKind::Changed,
            };
            TaskInTransition {
                name: one.name.clone(),
                kind,
                old_response: Some(*response),
                new_response: new.map(|(_, response)| *response),
            }
        });
        let in_old = by_name(self.old);
        let only_new = self.new.iter().zip(new);
        let only_new = only_new
            .filter(|(one, _)| !in_old.contains_key(one.name.as_str()))
            .map(|(one, response)| TaskInTransition {
                name: one.name.clone(),
                kind: TaskKind::New,
                old_response: None,
                new_response: Some(*response),
            });
        of_old.chain(only_new).collect()
    }
}

fn by_name(tasks: &[ModeTask]) -> HashMap<&str, &ModeTask> {
    tasks.iter().map(|one| (one.name.as_str(), one)).collect()
}

fn check(tasks: &[ModeTask], mode: &str) -> Result<(), AnalysisError> {
    let all: Vec<SporadicTask> = tasks.iter().map(|one| one.task).collect();
    total_execution(&all)?;
    if by_name(tasks).len() < tasks.len() {
        let what = format!(
            "the {mode} mode has two tasks of one name; give each its own, since tasks of the two \
             modes are told apart by name"
        );
        return Err(AnalysisError::Invalid { what });
    }
    for ModeTask { name, task, .. } in tasks {
        let (deadline, period) = (task.deadline(), task.period());
        if deadline > period {
            let what = format!(
                "task \"{name}\" of the {mode} mode has the deadline {deadline} beyond its period \
                 {period}; mode changes are analysed for deadlines up to the period"
            );
            return Err(AnalysisError::Invalid { what });
        }
        if !task.jitter().is_zero() {
            let what = format!(
                "task \"{name}\" of the {mode} mode has the jitter {}; mode changes are analysed \
                 without, since an arrival before the request would be released after it",
                task.jitter()
            );
            return Err(AnalysisError::Invalid { what });
        }
    }
    Ok(())
}

/// The response time of each task in a mode by itself, if all are within their deadlines.
///
/// A job is done by the end of its level's busy window: the least w that holds one job of it and
/// all that the others of its rank or above release in w (Joseph & Pandya 1986). With w within the
/// deadline, and that within the period, no second job of it is in the window.
fn response_times(tasks: &[ModeTask], supply: &dyn SupplyBound) -> Result<InTime, AnalysisError> {
    let mut windows = BusyWindows::new(supply);
    let mut in_time = Vec::with_capacity(tasks.len());
    let mut late = Vec::new();
    for (index, own) in tasks.iter().enumerate() {
        let others = tasks.iter().enumerate();
        let above: Vec<SporadicTask> = others
            .filter(|(other, one)| *other != index && one.rank <= own.rank)
            .map(|(_, one)| one.task)
            .collect();
        let once_ns = u128::from(own.task.execution().as_nanos());
        let earliest = Duration::from_nanos(1);
        match windows.end(once_ns, &above, earliest, own.task.deadline())? {
            Some(response) => in_time.push(response),
            None => late.push(own.name.clone()),
        }
    }
    Ok(if late.is_empty() {
        Ok(in_time)
    } else {
        Err(late)
    })
}
