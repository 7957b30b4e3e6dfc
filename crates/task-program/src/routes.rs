//! The routes of a domain: a router in the program, which logs what it passes on as jobs of the routes' tasks.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailbound_job_log::{LoggedJob, MessageId};
use tailbound_linux::clock::Monotonic;
use tailbound_messages::{MessageHeader, MessageKind};
use tailbound_pubsub::InProcess;
use tailbound_pubsub::routes::{PassageObserver, Router};
use tailbound_time::{Clock, Instant};

use crate::OwnTaskError;
use crate::plan::ProgramTask;
use crate::player::{MOST_LOGGED, PlayedTask};
use crate::route_plan::RoutePlan;

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
    /// Opens and begins the routes of these tasks; `None` where no task is one of a route. Topics in memory are in `memory`.
    pub fn begin(tasks: &[ProgramTask], memory: &InProcess) -> Result<Option<Self>, OwnTaskError> {
        let plan = RoutePlan::of_tasks(tasks);
        if plan.names().next().is_none() {
            return Ok(None);
        }
        let of_routes = tasks.iter().filter_map(|task| {
            let route = task.route.as_ref()?;
            Some((route.name.clone(), PlayedTask::of(task)))
        });
        let tasks: BTreeMap<String, PlayedTask> = of_routes.collect();
        let jobs = tasks.keys().map(|route| (route.clone(), Mutex::default()));
        let diary = Arc::new(PassageLog {
            jobs: jobs.collect(),
        });
        let mut router = Router::between(BTreeMap::new(), Arc::new(Monotonic));
        router.observe(Arc::<PassageLog>::clone(&diary));
        plan.put_into_force(&mut router, Some(memory))?;
        Ok(Some(Self {
            router,
            diary,
            tasks,
        }))
    }

    /// Ends the routes, which pass on what waits for them; what they did.
    pub fn end(self) -> Vec<PlayedTask> {
        let Self {
            router,
            diary,
            mut tasks,
        } = self;
        for status in router.end() {
            let Some(played) = tasks.get_mut(&status.name) else {
                continue;
            };
            if let Some(jobs) = diary.jobs.get(&status.name) {
                let mut jobs = jobs.lock().unwrap_or_else(PoisonError::into_inner);
                played.log.jobs = std::mem::take(&mut *jobs);
            }
            played.violations = status.counters.violations;
            played.failure = status.failure;
        }
        tasks.into_values().collect()
    }
}
