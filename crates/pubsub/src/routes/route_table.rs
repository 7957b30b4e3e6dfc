//! Routes and their checks.

use std::collections::BTreeMap;

use tailbound_messages::{Contract, Reliability, circle};

use crate::Topic;

/// A topic in a data space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteEnd {
    /// The name of the data space, by which the router has its transport.
    pub space: String,
    /// The topic.
    pub topic: Topic,
}

impl RouteEnd {
    fn vertex(&self) -> (&str, &str) {
        (&self.space, &self.topic.name)
    }
}

/// The form of the messages on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RouteForm {
    /// Messages with the header of this library: the router drops what comes a second time and what has passed too many
    /// routers.
    #[default]
    Headed,
    /// Of the header, only the number of routers that the message may still pass is read: a static link, which passes on what it
    /// gets. Static links carry messages of another version of this library, too. A message in a loop of them ends after 16.
    Opaque,
}

/// Messages of a topic of one data space, published in another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopicRoute {
    /// The name of the route.
    pub name: String,
    /// The topic that is read.
    pub from: RouteEnd,
    /// The topic that is published.
    pub to: RouteEnd,
    /// The most traffic that the route passes on; what is beyond is dropped and counted.
    pub contract: Option<Contract>,
    /// The priority of the route's thread under SCHED_FIFO, from 1; without one, the thread is an ordinary one.
    pub priority: Option<u8>,
    /// The form of its messages.
    pub form: RouteForm,
}

/// Routes that may be in force together: no two of one name, none to a topic that cannot take the messages, and no cycle.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RouteTable {
    routes: BTreeMap<String, TopicRoute>,
}

/// Why routes are no table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    /// Two routes of one name.
    #[error("there are two routes `{name}`: give one of them another name")]
    Repetition {
        /// The name.
        name: String,
    },
    /// Routes in a circle.
    #[error("a message would come back to where it was: {cycle}; leave one of these routes out")]
    Cycle {
        /// The topics of the circle, with their data spaces.
        cycle: String,
    },
    /// A topic that cannot take the messages of another.
    #[error("route `{name}`: topic `{to}` cannot take the messages of `{from}`: {reason}")]
    Incompatible {
        /// The route.
        name: String,
        /// The topic that is read.
        from: String,
        /// The topic that is published.
        to: String,
        /// The difference, and a remedy.
        reason: String,
    },
}

impl RouteTable {
    /// A table of these routes.
    ///
    /// # Errors
    /// If two have one name, one has incompatible ends, or they form a cycle.
    pub fn new(routes: Vec<TopicRoute>) -> Result<Self, RouteError> {
        let mut table = Self::default();
        for route in routes {
            incompatibility(&route)?;
            let name = route.name.clone();
            if table.routes.insert(name.clone(), route).is_some() {
                return Err(RouteError::Repetition { name });
            }
        }
        let ends = table
            .iter()
            .map(|route| (route.from.vertex(), route.to.vertex()));
        match circle(ends) {
            None => Ok(table),
            Some(places) => {
                let names = places
                    .iter()
                    .map(|(space, topic)| format!("{space}/{topic}"));
                let cycle = names.collect::<Vec<_>>().join(" -> ");
                Err(RouteError::Cycle { cycle })
            }
        }
    }

    /// The routes, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &TopicRoute> {
        self.routes.values()
    }

    /// The route of a name.
    pub fn get(&self, name: &str) -> Option<&TopicRoute> {
        self.routes.get(name)
    }
}

fn incompatibility(route: &TopicRoute) -> Result<(), RouteError> {
    let (from, to) = (&route.from.topic, &route.to.topic);
    let reason = if from.type_name != to.type_name {
        format!(
            "they have types `{}` and `{}`; a router converts nothing",
            from.type_name, to.type_name
        )
    } else if from.longest > to.longest {
        format!(
            "messages of {} bytes come, and {} bytes fit; make it larger",
            from.longest, to.longest
        )
    } else if from.quality.reliability == Reliability::BestEffort
        && to.quality.reliability == Reliability::Reliable
    {
        "a lost message stays lost, and reliable delivery is promised; make both best-effort, or both reliable".to_owned()
    } else if route.form == RouteForm::Opaque && from.name != to.name {
        "a static link reads no headers, and the name stands there; give both ends one name"
            .to_owned()
    } else {
        return Ok(());
    };
    Err(RouteError::Incompatible {
        name: route.name.clone(),
        from: from.name.clone(),
        to: to.name.clone(),
        reason,
    })
}
