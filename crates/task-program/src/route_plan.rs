//! The routes of a description that one program has, and the data spaces between which they pass messages on.

use std::collections::BTreeMap;

use tailbound_model::Description;
use tailbound_pubsub::InProcess;
use tailbound_pubsub::routes::{RouteEnd, RouteForm, RouteStatus, RouteTable, Router, TopicRoute};
use tailbound_topics::{MessageForm, RouteDescription, Routes, TaskName, Topics};

use crate::OwnTaskError;
use crate::plan::{PlannedTopic, ProgramTask};
use crate::transports::transport;

/// Routes of a description, for one program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RoutePlan {
    routes: Vec<TopicRoute>,
    /// A topic of each data space, by the name of the data space.
    spaces: BTreeMap<String, PlannedTopic>,
}

/// The part of the routes of a description that a program has: all, those of a host, or those of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteChoice {
    /// The host on which the tasks of the routes are.
    pub host: Option<String>,
    /// The domain of which the tasks of the routes are.
    pub domain: Option<String>,
}

impl RouteChoice {
    fn has(&self, task: &TaskName, description: &Description) -> bool {
        let is_of_host = |host: &String| task.host_in(description) == Some(host);
        self.host.as_ref().is_none_or(is_of_host)
            && self
                .domain
                .as_ref()
                .is_none_or(|domain| *domain == task.domain)
    }

    fn in_words(&self) -> String {
        let host = self.host.iter().map(|name| format!("on host `{name}`"));
        let domain = self.domain.iter().map(|name| format!("in domain `{name}`"));
        let words: Vec<String> = host.chain(domain).collect();
        words.join(" ")
    }
}

impl RoutePlan {
    /// The routes of the choice.
    ///
    /// # Errors
    /// If there are none.
    pub fn of(description: &Description, choice: &RouteChoice) -> Result<Self, OwnTaskError> {
        let (topics, routes): (Topics, Routes) = (description.section(), description.section());
        let mut plan = Self::default();
        for (name, route) in &routes.0 {
            let task = TaskName::parse(&route.task);
            if task.is_some_and(|task| choice.has(&task, description)) {
                plan.add_described(name, route, &topics);
            }
        }
        match plan.routes.is_empty() {
            false => Ok(plan),
            true => Err(OwnTaskError::NoRoute {
                reason: absence(&routes, choice, description),
            }),
        }
    }

    /// The routes of the tasks that are the work of one.
    pub(crate) fn of_tasks(tasks: &[ProgramTask]) -> Self {
        let mut plan = Self::default();
        for task in tasks {
            if let (Some(route), Some(from), [to]) =
                (&task.route, &task.releasing, &task.publishes[..])
            {
                plan.add(&route.name, &route.description, (from, to));
            }
        }
        plan
    }

    /// The names of the routes.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.routes.iter().map(|route| route.name.as_str())
    }

    /// The names of the data spaces.
    pub fn data_spaces(&self) -> impl Iterator<Item = &str> {
        self.spaces.keys().map(String::as_str)
    }

    /// Has the router pass on what the plan says, in place of the routes of before; the last numbers of those that end. Topics
    /// in memory are in `memory`.
    pub(crate) fn put_into_force(
        &self,
        router: &mut Router,
        memory: Option<&InProcess>,
    ) -> Result<Vec<RouteStatus>, OwnTaskError> {
        let table = RouteTable::new(self.routes.clone())?;
        for (name, topic) in &self.spaces {
            router.add_space(name, || transport(topic, memory))?;
        }
        Ok(router.replace(&table)?)
    }

    fn add_described(&mut self, name: &str, route: &RouteDescription, topics: &Topics) {
        let topic = |name: &String| {
            let description = topics.0.get(name)?.clone();
            let name = name.clone();
            Some(PlannedTopic { name, description })
        };
        if let (Some(from), Some(to)) = (topic(&route.from), topic(&route.to)) {
            self.add(name, route, (&from, &to));
        }
    }

    fn add(
        &mut self,
        name: &str,
        route: &RouteDescription,
        (from, to): (&PlannedTopic, &PlannedTopic),
    ) {
        let end = |topic: &PlannedTopic| RouteEnd {
            space: topic.description.data_space(),
            topic: topic.topic(),
        };
        self.routes.push(TopicRoute {
            name: name.to_owned(),
            from: end(from),
            to: end(to),
            contract: route.contract,
            priority: route.priority.map(|priority| priority.0),
            form: match route.form {
                MessageForm::Headed => RouteForm::Headed,
                MessageForm::Opaque => RouteForm::Opaque,
            },
        });
        for topic in [from, to] {
            let space = topic.description.data_space();
            self.spaces.entry(space).or_insert_with(|| topic.clone());
        }
    }
}

/// Why a choice has no routes.
fn absence(routes: &Routes, choice: &RouteChoice, description: &Description) -> String {
    if routes.0.is_empty() {
        return "the description has no routes; write [routes.NAME] with `task`, `from` and `to`"
            .to_owned();
    }
    let tasks = routes.0.iter().map(|(name, route)| {
        let task = TaskName::parse(&route.task);
        let host = task.as_ref().and_then(|task| task.host_in(description));
        format!(
            "`{name}` by {} on host `{}`",
            route.task,
            host.unwrap_or("?")
        )
    });
    let tasks: Vec<String> = tasks.collect();
    format!(
        "no route is {}; there are {}",
        choice.in_words(),
        tasks.join(", ")
    )
}
