//! The routes of a domain: a router in the program, which logs what it passes on as jobs of the routes' tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailbound_job_log::{LoggedJob, MessageId};
use tailbound_linux::clock::Monotonic;
use tailbound_messages::{MessageHeader, MessageKind};
use tailbound_pubsub::Transport;
use tailbound_pubsub::routes::{
    PassageObserver, RouteEnd, RouteForm, RouteTable, Router, TopicRoute,
};
use tailbound_time::{Clock, Instant};
use tailbound_topics::MessageForm;

use crate::OwnTaskError;
use crate::plan::{PlannedRoute, PlannedTopic, ProgramTask};
use crate::player::{MOST_LOGGED, PlayedTask};
use crate::transports::{space_name, transport};

/// The routes of a domain, which pass messages on until this ends.
pub(crate) struct Routing {
    router: Router,
    diary: Arc<PassageLog>,
    /// The tasks by the names of their routes.
    tasks: BTreeMap<String, PlayedTask>,
}

/// The jobs of routes, by the names of the routes.
#[derive(Default)]
struct PassageLog {
    jobs: BTreeMap<String, Mutex<Vec<LoggedJob>>>,
}

impl PassageObserver for PassageLog {
    fn passed(&self, route: &str, header: &MessageHeader, taken: Instant) {
        let message = MessageId {
            source: header.source,
            sequence: header.sequence,
        };
        // Signs of life and farewells are no work of a task.
        let is_work = matches!(header.kind, MessageKind::Data | MessageKind::Dispose);
        let Some(jobs) = self.jobs.get(route).filter(|_| is_work) else {
            return;
        };
        let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
        if jobs.len() < MOST_LOGGED {
            jobs.push(LoggedJob {
                release: taken,
                start: taken,
                end: Monotonic.now(),
                read: vec![Some(message)],
                published: vec![Some(message)],
            });
        }
    }
}

impl Routing {
    /// Opens and begins the routes of these tasks; `None` where no task is one of a route.
    pub fn begin(tasks: &[ProgramTask]) -> Result<Option<Self>, OwnTaskError> {
        let mut spaces: BTreeMap<String, Box<dyn Transport>> = BTreeMap::new();
        let (mut routes, mut played) = (Vec::new(), BTreeMap::new());
        for task in tasks {
            let (Some(route), Some(from), [to]) =
                (&task.route, &task.releasing, &task.publishes[..])
            else {
                continue;
            };
            for topic in [from, to] {
                let name = space_name(&topic.description);
                if !spaces.contains_key(&name) {
                    let transport = transport(&topic.description);
                    spaces.insert(name, transport.map_err(|source| topic.refused(source))?);
                }
            }
            routes.push(planned(route, from, to));
            played.insert(route.name.clone(), PlayedTask::of(task));
        }
        if routes.is_empty() {
            return Ok(None);
        }
        let jobs = played
            .iter()
            .map(|(route, _)| (route.clone(), Mutex::default()));
        let diary = Arc::new(PassageLog {
            jobs: jobs.collect(),
        });
        let mut router = Router::between(spaces, Arc::new(Monotonic));
        router.observe(Arc::<PassageLog>::clone(&diary));
        router.replace(&RouteTable::new(routes)?)?;
        Ok(Some(Self {
            router,
            diary,
            tasks: played,
        }))
    }

    /// Ends the routes, which pass on what waits for them; what they did.
    pub fn end(mut self) -> Vec<PlayedTask> {
        let statuses = self.router.status();
        // An empty table opens nothing, and so refuses nothing.
        let _ = self.router.replace(&RouteTable::default());
        for (route, played) in &mut self.tasks {
            if let Some(jobs) = self.diary.jobs.get(route) {
                let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                played.log.jobs = std::mem::take(&mut *jobs);
            }
            if let Some(status) = statuses.iter().find(|status| status.name == *route) {
                played.violations = status.counters.violations;
                played.failure.clone_from(&status.failure);
            }
        }
        self.tasks.into_values().collect()
    }
}

fn planned(route: &PlannedRoute, from: &PlannedTopic, to: &PlannedTopic) -> TopicRoute {
    let end = |topic: &PlannedTopic| RouteEnd {
        space: space_name(&topic.description),
        topic: topic.topic(),
    };
    TopicRoute {
        name: route.name.clone(),
        from: end(from),
        to: end(to),
        contract: route.description.contract,
        priority: route.description.priority.map(|priority| priority.0),
        form: match route.description.form {
            MessageForm::Headed => RouteForm::Headed,
            MessageForm::Opaque => RouteForm::Opaque,
        },
    }
}
