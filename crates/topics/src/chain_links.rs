//! The topics that join the tasks of a chain.

use std::fmt;

use serde::Serialize;

use crate::{Chain, TaskName, Topics};

/// The way from one task of a chain to the next one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChainLink {
    /// The task that publishes at the end of its jobs.
    pub publisher: TaskName,
    /// The topic.
    pub topic: String,
    /// The task that takes the message.
    pub subscriber: TaskName,
    /// How the subscriber takes the message.
    pub reads: ReadRule,
}

/// How a task takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadRule {
    /// The newest message at the beginning of each job.
    Newest,
    /// Each message releases a job.
    Released,
}

/// The reason why a path is no chain, and the element of the path at which it shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathFault {
    /// The position in the path.
    pub index: usize,
    /// The fault.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for PathFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}; {}", self.message, self.remedy)
    }
}

impl std::error::Error for PathFault {}

impl PathFault {
    fn at(index: usize, message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self {
            index,
            message: message.into(),
            remedy: remedy.into(),
        }
    }
}

impl Chain {
    /// The tasks of the path with their positions in it.
    pub fn tasks(&self) -> impl Iterator<Item = (usize, TaskName)> {
        let each = self.path.iter().enumerate();
        each.filter_map(|(index, element)| Some((index, TaskName::parse(element)?)))
    }

    /// The links from task to task.
    ///
    /// # Errors
    /// If two neighbours share no topic or several, or a task stands twice in the path.
    pub fn links(&self, topics: &Topics) -> Result<Vec<ChainLink>, PathFault> {
        let tasks: Vec<(usize, TaskName)> = self.tasks().collect();
        if let Some(index) = self.ends_with_topic(&tasks) {
            let message = format!(
                "the path has \"{}\" at its end, and a path begins and ends with a task",
                self.path[index]
            );
            return Err(PathFault::at(
                index,
                message,
                "write a task as \"domain/task\"",
            ));
        }
        if tasks.len() < 2 {
            return Err(PathFault::at(
                0,
                "a chain has two tasks at least",
                "name the task that measures and the task that acts",
            ));
        }
        for (position, (index, task)) in tasks.iter().enumerate() {
            if tasks[..position].iter().any(|(_, earlier)| earlier == task) {
                let message = format!("task {task} stands in the path twice");
                let remedy = "a chain passes each task once; describe a loop as two chains";
                return Err(PathFault::at(*index, message, remedy));
            }
        }
        let pairs = tasks.windows(2);
        let links = pairs.map(|pair| self.link(topics, &pair[0], &pair[1]));
        links.collect()
    }

    /// The position of a topic before the first or behind the last task.
    fn ends_with_topic(&self, tasks: &[(usize, TaskName)]) -> Option<usize> {
        let (first, last) = (tasks.first()?.0, tasks.last()?.0);
        match (first, last + 1 == self.path.len()) {
            (0, true) => None,
            (0, false) => Some(last + 1),
            _ => Some(0),
        }
    }

    fn link(
        &self,
        topics: &Topics,
        (from, publisher): &(usize, TaskName),
        (to, subscriber): &(usize, TaskName),
    ) -> Result<ChainLink, PathFault> {
        let shared: Vec<(&String, ReadRule)> = topics.between(publisher, subscriber).collect();
        let between = &self.path[from + 1..*to];
        let (topic, reads) = match (between, shared.as_slice()) {
            ([_, second, ..], _) => {
                let message = format!("two topics stand between {publisher} and {subscriber}");
                let remedy =
                    format!("name one of them, or the task between them; \"{second}\" is none");
                return Err(PathFault::at(from + 2, message, remedy));
            }
            ([name], shared) => match shared.iter().find(|(topic, _)| *topic == name) {
                Some(link) => *link,
                None => {
                    let message =
                        format!("topic `{name}` does not lead from {publisher} to {subscriber}");
                    return Err(PathFault::at(from + 1, message, remedy_of(shared)));
                }
            },
            ([], [only]) => *only,
            ([], []) => {
                let message = format!("no topic leads from {publisher} to {subscriber}");
                return Err(PathFault::at(*to, message, remedy_of(&[])));
            }
            ([], several) => {
                let message = format!("several topics lead from {publisher} to {subscriber}");
                return Err(PathFault::at(*to, message, remedy_of(several)));
            }
        };
        Ok(ChainLink {
            publisher: publisher.clone(),
            topic: topic.clone(),
            subscriber: subscriber.clone(),
            reads,
        })
    }
}

fn remedy_of(shared: &[(&String, ReadRule)]) -> String {
    let names: Vec<String> = shared.iter().map(|(name, _)| format!("`{name}`")).collect();
    match names.is_empty() {
        true => "add a topic with the one as publisher and the other as subscriber, or the tasks between them"
            .to_owned(),
        false => format!("write one of {} between the two tasks", names.join(", ")),
    }
}

impl Topics {
    /// The topics from one task to another, with how the latter takes their messages.
    pub fn between<'a>(
        &'a self,
        publisher: &'a TaskName,
        subscriber: &'a TaskName,
    ) -> impl Iterator<Item = (&'a String, ReadRule)> {
        let is = |names: &[String], task: &TaskName| {
            names
                .iter()
                .any(|name| TaskName::parse(name).as_ref() == Some(task))
        };
        self.0.iter().filter_map(move |(name, topic)| {
            let reads = match topic {
                _ if !is(&topic.publishers, publisher) => return None,
                _ if is(&topic.released, subscriber) => ReadRule::Released,
                _ if is(&topic.subscribers, subscriber) => ReadRule::Newest,
                _ => return None,
            };
            Some((name, reads))
        })
    }

    /// The topic whose messages release the jobs of a task.
    pub fn releasing(&self, task: &TaskName) -> Option<(&String, &crate::TopicDescription)> {
        self.0.iter().find(|(_, topic)| {
            let mut released = topic.released.iter();
            released.any(|name| TaskName::parse(name).as_ref() == Some(task))
        })
    }
}
