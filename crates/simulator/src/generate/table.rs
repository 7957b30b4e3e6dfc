//! Generated sets as rows of fields and as a document, with utilisations after rounding.

use serde::{Serialize, Serializer, ser::SerializeStruct};

use super::{GenerateError, GeneratedTask, Recipe, task_name, task_set};

/// The columns of a table of generated sets.
pub const COLUMNS: [&str; 7] = [
    "set",
    "task",
    "utilisation",
    "execution_ns",
    "period_ns",
    "deadline_ns",
    "offset_ns",
];

/// Generated sets of one seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSets {
    /// The seed.
    pub seed: u64,
    /// The utilisation that each set was drawn for.
    pub utilisation: f64,
    /// The sets.
    pub sets: Vec<TaskSet>,
}

/// One of several sets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TaskSet {
    /// Its number, from 1.
    pub set: u32,
    /// Its tasks.
    pub tasks: Vec<NamedTask>,
}

/// A generated task with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct NamedTask {
    /// The name.
    pub name: String,
    /// The task.
    pub task: GeneratedTask,
}

impl TaskSets {
    /// The first `count` sets of a seed.
    ///
    /// # Errors
    /// As [`task_set`].
    pub fn draw(recipe: &Recipe, seed: u64, count: u32) -> Result<Self, GenerateError> {
        let sets = (0..count).map(|number| {
            let drawn = task_set(recipe, seed, number)?;
            let names = (0..drawn.len()).map(|index| task_name(index, drawn.len()));
            let tasks = names
                .zip(&drawn)
                .map(|(name, &task)| NamedTask { name, task });
            Ok(TaskSet {
                set: number + 1,
                tasks: tasks.collect(),
            })
        });
        Ok(Self {
            seed,
            utilisation: recipe.utilisation,
            sets: sets.collect::<Result<_, _>>()?,
        })
    }

    /// All tasks, each with its fields in the order of [`COLUMNS`].
    pub fn rows(&self) -> Vec<Vec<String>> {
        let rows = self.sets.iter().flat_map(|set| {
            let tasks = set.tasks.iter();
            tasks.map(|one| one.task.fields(set.set, &one.name).to_vec())
        });
        rows.collect()
    }
}

impl Serialize for NamedTask {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        let task = &self.task;
        let mut fields = out.serialize_struct("NamedTask", 6)?;
        fields.serialize_field("task", &self.name)?;
        fields.serialize_field("utilisation", &task.utilisation_rounded())?;
        fields.serialize_field("execution_ns", &task.execution.as_nanos())?;
        fields.serialize_field("period_ns", &task.period.as_nanos())?;
        fields.serialize_field("deadline_ns", &task.deadline.as_nanos())?;
        fields.serialize_field("offset_ns", &task.offset.as_nanos())?;
        fields.end()
    }
}

impl GeneratedTask {
    /// Execution time / period, after the execution time was rounded.
    fn utilisation_rounded(&self) -> f64 {
        self.execution.as_nanos() as f64 / self.period.as_nanos() as f64
    }

    /// The fields of the task `name` of set number `set`, which counts from 1, in the order of
    /// [`COLUMNS`].
    pub fn fields(&self, set: u32, name: &str) -> [String; 7] {
        [
            set.to_string(),
            name.to_owned(),
            self.utilisation_rounded().to_string(),
            self.execution.as_nanos().to_string(),
            self.period.as_nanos().to_string(),
            self.deadline.as_nanos().to_string(),
            self.offset.as_nanos().to_string(),
        ]
    }
}
