//! The requests of users, on the clock and the connections of the load generator.

use std::collections::BTreeMap;

use tailbound_simulator::workload::UserRequests;
use tailbound_time::{Duration, Instant};

use super::generator::LoadJob;
use crate::{LoadPlan, MeasurementError};

/// The users of a service under load.
pub(super) struct UserLoad<'a> {
    requests: UserRequests<'a>,
    /// The tasks that they ask, by their positions in the service.
    tasks: Vec<u32>,
    /// The work of a request whose law the description does not have, by the positions of tasks.
    expected: BTreeMap<u32, Duration>,
    /// The connection of the first user; those of the others follow.
    first_connection: u32,
    start: Instant,
}

impl<'a> UserLoad<'a> {
    /// The users of the plan's service, whose tasks are these; `None` if it has none.
    ///
    /// # Errors
    /// Users who ask what the service does not have, or whose files were not loaded.
    pub(super) fn of(
        plan: &'a LoadPlan,
        tasks: &[&String],
        first_connection: u32,
    ) -> Result<Option<Self>, MeasurementError> {
        let named = (plan.name.as_str(), &plan.service);
        let span = (plan.warm_up, plan.duration);
        let requests = UserRequests::of(named, span, plan.seed, &plan.inputs);
        let requests = requests.map_err(|error| MeasurementError::BadPlan {
            what: format!("the users of {}: {error}", plan.name),
            remedy: "correct them in the description, and give the plan its inputs".into(),
        })?;
        let Some(requests) = requests else {
            return Ok(None);
        };
        let place = |name: &str| tasks.iter().position(|task| *task == name);
        let asked = requests.tasks().filter_map(place).map(|at| at as u32);
        Ok(Some(Self {
            tasks: asked.collect(),
            requests,
            expected: BTreeMap::new(),
            first_connection,
            start: Instant::ORIGIN,
        }))
    }

    /// The most users at any time: each has a connection.
    pub(super) fn most(&self) -> u32 {
        self.requests.most()
    }

    /// The tasks that they ask, by their positions in the service.
    pub(super) fn tasks(&self) -> &[u32] {
        &self.tasks
    }

    /// Requests of a task ask for so much work where its law is not in the description.
    pub(super) fn expect(&mut self, task: u32, execution: Duration) {
        self.expected.insert(task, execution);
    }

    /// The load starts then.
    pub(super) fn start(&mut self, start: Instant) {
        self.start = start;
    }

    /// When the next request is due; `None` while all wait for replies, or have gone.
    pub(super) fn next_due(&self) -> Option<Instant> {
        let due = self.requests.next_due()?;
        Some(self.on_clock(Instant::from_nanos(due)))
    }

    /// The next request.
    pub(super) fn take(&mut self) -> Option<LoadJob<'a>> {
        let request = self.requests.take()?;
        let task = self.tasks[request.task];
        let expected = self.expected.get(&task).copied();
        Some(LoadJob {
            connection: self.first_connection + request.user,
            task,
            client: request.user,
            at: self.on_clock(request.at),
            execution: request.execution.or(expected).unwrap_or(Duration::ZERO),
            parameters: request.parameters,
            is_of_user: true,
        })
    }

    /// A user has a reply, or has lost the request.
    pub(super) fn replied(&mut self, user: u32, at: Instant) {
        let since = at.saturating_since(self.start);
        self.requests.replied(user, since.as_nanos());
    }

    fn on_clock(&self, at: Instant) -> Instant {
        self.start
            .saturating_add(at.saturating_since(Instant::ORIGIN))
    }
}
