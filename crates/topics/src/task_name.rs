//! Names of tasks in topics and chains.

use std::fmt;

use serde::{Deserialize, Serialize};
use tailbound_model::{Description, Task};

/// The name of one of a domain's own tasks, written `domain/task`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TaskName {
    /// The domain.
    pub domain: String,
    /// The task.
    pub task: String,
}

impl TaskName {
    /// The task of that name; `None` unless there is exactly one slash with something on both sides.
    pub fn parse(text: &str) -> Option<Self> {
        let (domain, task) = text.split_once('/')?;
        let is_whole = !domain.is_empty() && !task.is_empty() && !task.contains('/');
        is_whole.then(|| Self {
            domain: domain.to_owned(),
            task: task.to_owned(),
        })
    }

    /// The task in a description; `None` if there is none.
    pub fn task_in<'a>(&self, description: &'a Description) -> Option<&'a Task> {
        description.domains.get(&self.domain)?.tasks.get(&self.task)
    }

    /// The name of the host that the task runs on; `None` where the description does not say it.
    pub fn host_in<'a>(&self, description: &'a Description) -> Option<&'a str> {
        let domain = description.domains.get(&self.domain)?;
        description.host_of(domain).map(|(name, _)| name)
    }
}

impl fmt::Display for TaskName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}/{}", self.domain, self.task)
    }
}

impl From<TaskName> for String {
    fn from(name: TaskName) -> Self {
        name.to_string()
    }
}

impl TryFrom<String> for TaskName {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        Self::parse(&text).ok_or_else(|| {
            format!(
                "\"{text}\" names no task; write the domain and its task, such as \"camera/grab\""
            )
        })
    }
}
