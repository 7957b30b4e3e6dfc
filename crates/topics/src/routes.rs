//! Routes: tasks that pass messages on from one topic to another.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_messages::{Contract, circle};
use tailbound_model::{Check, KeyPath, Priority, Section};

use crate::{TopicDescription, Topics};

/// Routes between topics, by name: the tasks of a routing service, which pass messages on without knowing their types.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Routes(
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub  BTreeMap<String, RouteDescription>,
);

/// A route from a topic to another one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RouteDescription {
    /// The task whose jobs pass the messages on, as `domain/task`: messages of `from` release it, and it publishes on `to`.
    /// Its execution time is what passing a message on takes.
    pub task: String,
    /// The topic that is read.
    pub from: String,
    /// The topic that is published, of the same type.
    pub to: String,
    /// The most traffic that the route passes on; what is beyond is dropped and counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// The fixed priority of the route's thread where its domain has no reservation; an ordinary thread if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The form of the messages.
    #[serde(default)]
    pub form: MessageForm,
}

/// The form of the messages on a route.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MessageForm {
    /// Messages with a header of Tailbound: what comes a second time is dropped, and what has passed too many routers.
    #[default]
    Headed,
    /// A static link for messages of any version: of the header, only the number of routers that a message may still pass is
    /// read. Both topics have one name.
    Opaque,
}

impl Routes {
    /// The route of a task.
    pub fn of_task(&self, task: &str) -> Option<(&String, &RouteDescription)> {
        self.0.iter().find(|(_, route)| route.task == task)
    }
}

impl Section for Routes {
    const KEY: &'static str = "routes";

    fn check(&self, check: &mut Check<'_>) {
        let topics: Topics = check.description().section();
        let names: Vec<&str> = topics.0.keys().map(String::as_str).collect();
        for (name, route) in &self.0 {
            let place = KeyPath::root().key(Self::KEY).key(name);
            check.reference(&place.key("from"), "topic", &route.from, &names);
            check.reference(&place.key("to"), "topic", &route.to, &names);
            if let (Some(from), Some(to)) = (topics.0.get(&route.from), topics.0.get(&route.to)) {
                ends(check, &place, route, (from, to));
            }
            let mut others = self.0.iter().filter(|(other, _)| *other != name);
            if let Some((other, _)) = others.find(|(_, other)| other.task == route.task) {
                check.error(
                    &place.key("task"),
                    format!("`{}` is the task of route `{other}`, too", route.task),
                    "give each route a task of its own",
                );
            }
        }
        let joins = self
            .0
            .values()
            .map(|route| (route.from.as_str(), route.to.as_str()));
        if let Some(places) = circle(joins) {
            check.error(
                &KeyPath::root().key(Self::KEY),
                format!(
                    "a message would come back to where it was: {}",
                    places.join(" -> ")
                ),
                "leave one of these routes out",
            );
        }
    }
}

/// Complains of a route whose topics do not fit, or do not name its task.
fn ends(
    check: &mut Check<'_>,
    place: &KeyPath,
    route: &RouteDescription,
    (from, to): (&TopicDescription, &TopicDescription),
) {
    let here = place.key("task");
    if !from.released.contains(&route.task) {
        check.error(
            &here,
            format!("topic `{}` does not release `{}`", route.from, route.task),
            format!("write it into topics.{}.released", route.from),
        );
    }
    if !to.publishers.contains(&route.task) {
        check.error(
            &here,
            format!("topic `{}` is not published by `{}`", route.to, route.task),
            format!("write it into topics.{}.publishers", route.to),
        );
    }
    let type_of = |name: &String, topic: &TopicDescription| {
        topic.type_name.clone().unwrap_or_else(|| name.clone())
    };
    let (read, published) = (type_of(&route.from, from), type_of(&route.to, to));
    if read != published {
        check.error(
            &place.key("to"),
            format!("messages of type `{read}` come, and the topic has type `{published}`; a route converts nothing"),
            format!("write type_name = \"{read}\" at topics.{}", route.to),
        );
    }
    if from.size > to.size {
        check.error(
            &place.key("to"),
            format!(
                "messages of {} bytes come, and {} bytes fit",
                from.size, to.size
            ),
            format!("make topics.{}.size at least {}", route.to, from.size),
        );
    }
}
