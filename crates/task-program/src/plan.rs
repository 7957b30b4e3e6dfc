//! What the program of a domain does: its tasks, and the topics that they read and publish.

use tailbound_model::{Arrivals, Description, Task};
use tailbound_pubsub::TransportError;
use tailbound_time::Duration;
use tailbound_topics::{RouteDescription, Routes, TopicDescription, Topics};

use crate::OwnTaskError;

/// A topic of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedTopic {
    /// The name.
    pub name: String,
    /// The description.
    pub description: TopicDescription,
}

/// A task of the domain.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramTask {
    /// The name within the domain.
    pub name: String,
    /// The task.
    pub task: Task,
    /// The topic of which each message releases a job; without one, the task has a clock.
    pub releasing: Option<PlannedTopic>,
    /// The topics of which each job reads the newest message.
    pub reads: Vec<PlannedTopic>,
    /// The topics on which each job publishes.
    pub publishes: Vec<PlannedTopic>,
    /// The route whose work the task is: it passes messages on and makes none.
    pub route: Option<PlannedRoute>,
}

/// A route of a task, from the topic that releases it to the one that it publishes.
#[derive(Clone, Debug, PartialEq)]
pub struct PlannedRoute {
    /// The name.
    pub name: String,
    /// The description.
    pub description: RouteDescription,
}

/// The tasks of a domain, and the grid of their phases.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramPlan {
    /// The domain.
    pub domain: String,
    /// Its tasks, in the order of their names.
    pub tasks: Vec<ProgramTask>,
    /// The periods of the whole system on which phases depend: of tasks, and the major frames of hosts.
    pub periods: Vec<Duration>,
    /// The seed of the system.
    pub seed: u64,
}

impl ProgramPlan {
    /// The plan of a domain.
    ///
    /// # Errors
    /// If there is no such domain, it has no tasks, or a task is released by several topics.
    pub fn of(description: &Description, domain: &str) -> Result<Self, OwnTaskError> {
        let content = description.domains.get(domain);
        let content = content.ok_or_else(|| OwnTaskError::Domain {
            domain: domain.to_owned(),
            reason: "there is none of this name".to_owned(),
        })?;
        if content.tasks.is_empty() {
            return Err(OwnTaskError::Domain {
                domain: domain.to_owned(),
                reason: "it has no tasks of its own; describe them at `tasks`".to_owned(),
            });
        }
        let sections = (description.section(), description.section());
        let tasks = content.tasks.iter();
        let tasks = tasks.map(|(name, task)| ProgramTask::of(domain, name, task, &sections));
        Ok(Self {
            domain: domain.to_owned(),
            tasks: tasks.collect::<Result<_, _>>()?,
            periods: periods(description),
            seed: description.seed,
        })
    }
}

impl ProgramTask {
    fn of(
        domain: &str,
        name: &str,
        task: &Task,
        (topics, routes): &(Topics, Routes),
    ) -> Result<Self, OwnTaskError> {
        let full = format!("{domain}/{name}");
        let of = |names: fn(&TopicDescription) -> &Vec<String>| {
            let topics = topics
                .0
                .iter()
                .filter(|(_, topic)| names(topic).contains(&full));
            let topics = topics.map(|(name, topic)| PlannedTopic {
                name: name.clone(),
                description: topic.clone(),
            });
            topics.collect::<Vec<PlannedTopic>>()
        };
        let mut releasing = of(|topic| &topic.released);
        let first = releasing.pop();
        if let (Some(first), Some(second)) = (&first, releasing.pop()) {
            return Err(OwnTaskError::Domain {
                domain: domain.to_owned(),
                reason: format!(
                    "task `{name}` is released by topics `{}` and `{}`; one topic releases a task",
                    second.name, first.name
                ),
            });
        }
        Ok(Self {
            name: name.to_owned(),
            task: task.clone(),
            releasing: first,
            reads: of(|topic| &topic.subscribers),
            publishes: of(|topic| &topic.publishers),
            route: routes
                .of_task(&full)
                .map(|(name, description)| PlannedRoute {
                    name: name.clone(),
                    description: description.clone(),
                }),
        })
    }

    /// The names of the topics that a job reads: first the one that releases it.
    pub fn read_names(&self) -> Vec<String> {
        let topics = self.releasing.iter().chain(&self.reads);
        topics.map(|topic| topic.name.clone()).collect()
    }
}

impl PlannedTopic {
    pub(crate) fn refused(&self, source: TransportError) -> OwnTaskError {
        OwnTaskError::Topic {
            topic: self.name.clone(),
            source,
        }
    }

    /// The topic for a transport.
    pub fn topic(&self) -> tailbound_pubsub::Topic {
        let description = &self.description;
        let count = |names: usize| u32::try_from(names).unwrap_or(u32::MAX);
        let subscribers = description.subscribers.len() + description.released.len();
        tailbound_pubsub::Topic {
            name: description
                .name
                .clone()
                .unwrap_or_else(|| self.name.clone()),
            type_name: description
                .type_name
                .clone()
                .unwrap_or_else(|| self.name.clone()),
            longest: usize::try_from(description.size).unwrap_or(usize::MAX),
            publishers: count(description.publishers.len()),
            subscribers: count(subscribers),
            quality: description.quality,
            contract: description.contract,
        }
    }
}

/// All periods on which the phases of a system depend.
fn periods(description: &Description) -> Vec<Duration> {
    let tasks = description
        .domains
        .values()
        .flat_map(|domain| domain.tasks.values());
    let tasks = tasks.filter_map(|task| match task.arrivals {
        Arrivals::Periodic { period, .. } => Some(period),
        _ => None,
    });
    let frames = description
        .hosts
        .values()
        .filter_map(|host| host.major_frame);
    tasks.chain(frames).collect()
}
