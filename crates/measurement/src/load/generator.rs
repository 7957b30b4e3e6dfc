//! The generator's loop: take up what is due, send, read replies, wait.

mod reconnection;

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tailbound_linux::clock::Monotonic;
use tailbound_linux::polling::{Interest, Poller, Readiness};
use tailbound_model::{ExecutionTime, ParameterTable, Protocol};
use tailbound_time::{Clock, Duration, Instant};
use tailbound_trigger::trigger;

use reconnection::RetiredConnections;

use super::Gauge;
use super::spin_allowance::SpinAllowance;
use super::user_load::UserLoad;
use crate::connection::{Connection, ReadEnd};
use crate::protocol::Reply;
use crate::request::{Busy, Filling, RequestTemplate};
use crate::{ConnectionCounts, LoadConnection, LoadPlan, MeasurementError};

/// The longest sleep: how soon `stop` is seen.
const LONGEST_WAIT: Duration = Duration::from_millis(50);
/// How long answers are waited for once `stop` is seen.
const DRAIN_AFTER_STOP: Duration = Duration::from_millis(500);
/// How many releases are taken up before replies are looked at again.
const TAKEN_UP_AT_ONCE: usize = 64;
/// How many different texts of failures are kept.
const FAILURE_TEXTS: usize = 50;

/// The most jobs of users for whose records there is room before the load starts.
const FORESEEN_JOBS: usize = 4_000_000;

/// One release, with indices in place of names.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadJob<'a> {
    pub(super) connection: u32,
    /// The position of its task in the service.
    pub(super) task: u32,
    pub(super) client: u32,
    pub(super) at: Instant,
    /// The work to ask the synthetic service for.
    pub(super) execution: Duration,
    /// The values for its placeholders.
    pub(super) parameters: &'a [String],
    /// Whether a user waits for the reply.
    pub(super) is_of_user: bool,
}

/// Where one request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestStage {
    /// Not due yet, or never taken up.
    Planned,
    /// Waits for a place in flight.
    Held,
    /// Sent, not answered.
    Open,
    /// Answered well.
    Answered,
    /// Answered with an error.
    Refused,
    /// Its connection broke, or waiting for it ended.
    Lost,
}

/// The trail of a request before it is due.
const UNTOUCHED: Trail = Trail {
    stage: RequestStage::Planned,
    taken_up: Instant::ORIGIN,
    sent: None,
    ended: Instant::ORIGIN,
};

/// The times of one request, on CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Trail {
    pub(super) stage: RequestStage,
    pub(super) taken_up: Instant,
    pub(super) sent: Option<Instant>,
    pub(super) ended: Instant,
}

/// What the loop leaves behind.
#[derive(Debug)]
pub(super) struct Finished {
    /// The requests: the number of the task, the number of the client, and the intended send time of each.
    pub(super) requests: Vec<(u32, u32, Instant)>,
    /// One per request, in their order.
    pub(super) trails: Vec<Trail>,
    /// Texts of failures, with their counts.
    pub(super) failures: BTreeMap<String, u64>,
    /// Why it ended early.
    pub(super) interrupted: Option<String>,
    /// The connections, those that were closed meanwhile first.
    pub(super) connections: Vec<LoadConnection>,
    /// How many connections there were.
    pub(super) connection_counts: ConnectionCounts,
    /// Whether several requests were under way at once on a connection whose replies come in any order.
    pub(super) is_interleaved: bool,
}

/// One client of one task, or a user of several: a connection, and what it asks for.
struct LoadClient {
    connection: Connection,
    tasks: Vec<u32>,
    client: u32,
    /// Whether the poller watches for room to write.
    watched_for_room: bool,
    /// Whether the peer closed it; only HTTP's are opened again.
    closed: bool,
    /// Whether several requests were under way at once on a connection whose replies come in any order.
    is_interleaved: bool,
}

/// Everything that the loop works on.
pub(super) struct Generator<'a> {
    plan: &'a LoadPlan,
    fifo: bool,
    busy: Busy,
    poller: Poller,
    clients: Vec<LoadClient>,
    templates: Vec<RequestTemplate>,
    /// Those of the plan, then those of users as they come.
    jobs: Vec<LoadJob<'a>>,
    trails: Vec<Trail>,
    users: Option<UserLoad<'a>>,
    held: VecDeque<usize>,
    in_flight: u32,
    /// The next job of the plan, and how many of them there are.
    next: usize,
    planned: usize,
    released: u64,
    random: ChaCha8Rng,
    scratch: Vec<u8>,
    buffer: Vec<u8>,
    ready: Vec<Readiness>,
    replies: Vec<Reply>,
    answered: u64,
    failures: BTreeMap<String, u64>,
    /// Connections that were closed.
    connections: Vec<LoadConnection>,
    connection_counts: ConnectionCounts,
    /// Connections that take no new requests, and still answer old ones.
    retired: RetiredConnections,
    /// Clients whose connection has news of which no event tells.
    unheard: Vec<usize>,
}

impl LoadClient {
    /// The connection with the names that tables of the kernel have for it, for each task; none where they have none.
    /// What passes on an interleaved connection belongs to no single request, so that its name would mislead.
    fn ends(&self) -> impl Iterator<Item = LoadConnection> {
        let end = self.connection.end().ok().filter(|_| !self.is_interleaved);
        self.tasks.iter().filter_map(move |task| {
            Some(LoadConnection {
                task: *task,
                client: self.client,
                end: end.clone()?,
            })
        })
    }
}

impl<'a> Generator<'a> {
    /// Connects every client that the plan's releases name.
    pub(super) fn connect(plan: &'a LoadPlan, fifo: bool) -> Result<Self, MeasurementError> {
        let poller = Poller::new().map_err(|cause| host("watch connections", cause))?;
        let tasks: Vec<&String> = plan.service.tasks.keys().collect();
        let templates = tasks
            .iter()
            .map(|name| RequestTemplate::of_task(&plan.service, name, parameters(plan)))
            .collect::<Result<Vec<_>, _>>()?;
        let busy = busy(plan, &templates)?;
        let mut generator = Self {
            plan,
            fifo,
            busy,
            poller,
            clients: Vec::new(),
            templates,
            jobs: Vec::with_capacity(plan.releases.len()),
            trails: Vec::new(),
            users: None,
            held: VecDeque::with_capacity(1024),
            in_flight: 0,
            next: 0,
            planned: 0,
            released: 0,
            random: ChaCha8Rng::seed_from_u64(plan.seed),
            scratch: Vec::with_capacity(4096),
            buffer: vec![0; 64 * 1024],
            ready: Vec::with_capacity(64),
            replies: Vec::with_capacity(64),
            answered: 0,
            failures: BTreeMap::new(),
            connections: Vec::new(),
            connection_counts: ConnectionCounts::default(),
            retired: RetiredConnections::default(),
            unheard: Vec::new(),
        };
        generator.lay_out(&tasks)?;
        Ok(generator)
    }

    /// Turns releases into jobs, opening one connection per task and client.
    fn lay_out(&mut self, tasks: &[&String]) -> Result<(), MeasurementError> {
        let mut connections = BTreeMap::new();
        for release in &self.plan.releases {
            let Ok(template) = tasks.binary_search(&&release.task) else {
                RequestTemplate::of_task(&self.plan.service, &release.task, None)?;
                continue;
            };
            let connection = match connections.get(&(template, release.client)) {
                Some(connection) => *connection,
                None => {
                    let connection = self.open(vec![template as u32], release.client)?;
                    connections.insert((template, release.client), connection);
                    connection
                }
            };
            let execution = self.execution(release.execution, &release.task)?;
            self.jobs.push(LoadJob {
                connection,
                task: template as u32,
                client: release.client,
                at: release.at,
                execution,
                parameters: &[],
                is_of_user: false,
            });
        }
        self.planned = self.jobs.len();
        self.connect_users(tasks)?;
        self.make_room();
        Ok(())
    }

    /// Opens a connection for each user.
    fn connect_users(&mut self, tasks: &[&String]) -> Result<(), MeasurementError> {
        let first = self.clients.len() as u32;
        let Some(mut users) = UserLoad::of(self.plan, tasks, first)? else {
            return Ok(());
        };
        for task in users.tasks().to_vec() {
            let name = tasks[task as usize];
            let described = &self.plan.service.tasks[name];
            if let ExecutionTime::Calibrated { .. } = described.execution_time {
                users.expect(task, self.execution(None, name)?);
            }
        }
        for user in 0..users.most() {
            self.open(users.tasks().to_vec(), user)?;
        }
        self.users = Some(users);
        Ok(())
    }

    /// Room for all records, written in full now, so that no page of it is first touched while the load runs. How many
    /// requests users will send is not known: as many as of one that is answered at once, up to a limit.
    fn make_room(&mut self) {
        let later = self.plan.service.users.as_ref().map_or(0, |users| {
            let span = self.plan.warm_up.saturating_add(self.plan.duration);
            let think = users.think_time.mean().unwrap_or(Duration::ZERO);
            let each = span.as_secs_f64() / think.as_secs_f64().max(1e-3);
            (each * f64::from(users.most())).min(FORESEEN_JOBS as f64) as usize
        });
        let blank = LoadJob {
            connection: 0,
            task: 0,
            client: 0,
            at: Instant::ORIGIN,
            execution: Duration::ZERO,
            parameters: &[],
            is_of_user: false,
        };
        self.jobs.resize(self.planned + later, blank);
        self.jobs.truncate(self.planned);
        self.trails = vec![UNTOUCHED; self.planned + later];
        self.trails.truncate(self.planned);
    }

    fn open(&mut self, tasks: Vec<u32>, client: u32) -> Result<u32, MeasurementError> {
        let connection = Connection::open(&self.plan.endpoint, self.plan.service.protocol)?;
        let index = self.clients.len() as u32;
        self.connection_counts.at_start += 1;
        self.poller
            .add(&connection, u64::from(index), Interest::Read)
            .map_err(|cause| host("watch a connection", cause))?;
        self.clients.push(LoadClient {
            connection,
            tasks,
            client,
            watched_for_room: false,
            closed: false,
            is_interleaved: false,
        });
        Ok(index)
    }

    /// The work that a request to the synthetic service asks for; others ask for none.
    fn execution(&self, drawn: Option<Duration>, task: &str) -> Result<Duration, MeasurementError> {
        if self.plan.service.protocol != Protocol::Synthetic {
            return Ok(Duration::ZERO);
        }
        let described = self.plan.service.tasks.get(task);
        match (drawn, described.map(|task| &task.execution_time)) {
            (Some(drawn), _) => Ok(drawn),
            (
                None,
                Some(ExecutionTime::Calibrated {
                    expected: Some(expected),
                }),
            ) => Ok(*expected),
            _ => Err(MeasurementError::BadPlan {
                what: format!("the synthetic service is not told how long to work for {task}"),
                remedy: "give its execution time a value, a range, samples or an expected value"
                    .into(),
            }),
        }
    }

    /// Runs the whole load, release time zero being `start`.
    pub(super) fn run(mut self, start: Instant, stop: &AtomicBool, gauge: &Gauge) -> Finished {
        for job in &mut self.jobs {
            job.at = start.saturating_add(job.at.saturating_since(Instant::ORIGIN));
        }
        let mut last = self.jobs.last().map_or(start, |job| job.at);
        if let Some(users) = &mut self.users {
            users.start(start);
            let span = self.plan.warm_up.saturating_add(self.plan.duration);
            last = last.max(start.saturating_add(span));
        }
        let mut end = last.saturating_add(self.plan.drain);
        let mut allowance = SpinAllowance::new(self.fifo, Monotonic.now());
        let mut stopped = false;
        let interrupted = loop {
            if stop.load(Ordering::Relaxed) && !stopped {
                stopped = true;
                self.planned = self.next;
                self.users = None;
                end = end.min(Monotonic.now().saturating_add(DRAIN_AFTER_STOP));
            }
            let step = self.step(end, &mut allowance);
            gauge.released.store(self.released, Ordering::Relaxed);
            gauge.answered.store(self.answered, Ordering::Relaxed);
            let draining = self.next == self.planned && Monotonic.now() >= last;
            gauge.draining.store(draining, Ordering::Relaxed);
            match step {
                Ok(false) => {}
                Ok(true) => break stopped.then(|| "stopped by the caller".to_string()),
                Err(why) => break Some(why),
            }
        };
        self.finish(interrupted)
    }

    /// One round of the loop; true if there is nothing left to do or wait for.
    fn step(&mut self, end: Instant, allowance: &mut SpinAllowance) -> Result<bool, String> {
        self.take_up_due()?;
        let now = Monotonic.now();
        let next = self.next_due();
        let all_released = next.is_none();
        let idle = self.in_flight == 0 && self.held.is_empty();
        if all_released && (idle || now >= end) {
            return Ok(true);
        }
        self.wait(next.unwrap_or(end), now, allowance)?;
        for place in 0..self.ready.len() {
            self.handle(self.ready[place])?;
        }
        for place in std::mem::take(&mut self.unheard) {
            self.read(place)?;
        }
        Ok(false)
    }

    /// When the next job of the plan is due.
    fn next_planned(&self) -> Option<Instant> {
        let planned = self
            .jobs
            .get(self.next)
            .filter(|_| self.next < self.planned);
        planned.map(|job| job.at)
    }

    /// When the next job is due; `None` if there is none before a reply.
    fn next_due(&self) -> Option<Instant> {
        let asked = self.users.as_ref().and_then(UserLoad::next_due);
        match (self.next_planned(), asked) {
            (Some(planned), Some(asked)) => Some(planned.min(asked)),
            (planned, asked) => planned.or(asked),
        }
    }

    /// The index of the job that is due, if one is.
    fn take_due(&mut self, now: Instant) -> Option<usize> {
        let due = self.next_due().filter(|at| *at <= now)?;
        self.released += 1;
        if self.next_planned() == Some(due) {
            self.next += 1;
            return Some(self.next - 1);
        }
        self.jobs.push(self.users.as_mut()?.take()?);
        self.trails.push(UNTOUCHED);
        Some(self.jobs.len() - 1)
    }

    fn take_up_due(&mut self) -> Result<(), String> {
        for _ in 0..TAKEN_UP_AT_ONCE {
            let now = Monotonic.now();
            let Some(index) = self.take_due(now) else {
                return Ok(());
            };
            self.trails[index].taken_up = now;
            if self.has_room() {
                self.send(index)?;
                // Sent at once: then the lateness is up to the write, not up to the decision.
                self.trails[index].taken_up = self.trails[index].sent.unwrap_or(now);
            } else {
                self.trails[index].stage = RequestStage::Held;
                self.held.push_back(index);
            }
        }
        Ok(())
    }

    fn has_room(&self) -> bool {
        let limit = self.plan.service.max_in_flight;
        limit.is_none_or(|limit| self.in_flight < limit)
    }

    fn send(&mut self, index: usize) -> Result<(), String> {
        let job = self.jobs[index];
        let place = job.connection as usize;
        if self.clients[place].closed {
            self.reopen(place)?;
        } else if self.clients[place].connection.is_going_away() {
            self.retire(place)?;
        }
        let client = &mut self.clients[place];
        let mut filling = Filling {
            index: index as u64,
            random: &mut self.random,
            busy: self.busy,
            execution: job.execution,
            parameters: job.parameters,
        };
        let template = &self.templates[job.task as usize];
        let connection = &mut client.connection;
        connection.ask(template, &mut self.scratch, &mut filling);
        if !names_requests(self.plan.service.protocol) {
            client.is_interleaved |=
                self.plan.service.has_streams() && !connection.awaiting.is_empty();
            connection.awaiting.push_back(index);
        }
        self.in_flight += 1;
        let trail = &mut self.trails[index];
        trail.stage = RequestStage::Open;
        trail.sent = Some(Monotonic.now());
        trigger!("load.sent", index, job.at.as_nanos());
        self.flush(place)
    }

    fn flush(&mut self, place: usize) -> Result<(), String> {
        let client = &mut self.clients[place];
        if let Err(error) = client.connection.flush() {
            // What the service wrote before it closed is still to be read; reading tells the end.
            if !matches!(
                error.kind(),
                io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
            ) {
                return Err(format!("cannot send: {error}"));
            }
            return Ok(());
        }
        if client.connection.has_news() {
            self.unheard.push(place);
        }
        let client = &mut self.clients[place];
        let wants = client.connection.wants_to_write();
        if wants == client.watched_for_room {
            return Ok(());
        }
        client.watched_for_room = wants;
        let interest = if wants {
            Interest::ReadWrite
        } else {
            Interest::Read
        };
        self.poller
            .change(&client.connection, place as u64, interest)
            .map_err(|error| format!("cannot watch a connection: {error}"))
    }

    /// Sleeps, or spins where `due` is near, until something is ready or `due` has come.
    fn wait(
        &mut self,
        due: Instant,
        now: Instant,
        allowance: &mut SpinAllowance,
    ) -> Result<(), String> {
        let remaining = due.saturating_since(now);
        let sleep = if allowance.may_spin(now) {
            remaining.saturating_sub(self.plan.spin)
        } else {
            remaining
        };
        let sleep = match self.unheard.is_empty() {
            true => sleep.min(LONGEST_WAIT),
            false => Duration::ZERO,
        };
        let ready = self
            .poller
            .wait(Some(sleep))
            .map_err(|error| format!("cannot wait for replies: {error}"))?;
        self.ready.clear();
        self.ready.extend_from_slice(ready);
        if !sleep.is_zero() {
            allowance.note_sleep(Monotonic.now().saturating_since(now));
        }
        Ok(())
    }

    fn handle(&mut self, event: Readiness) -> Result<(), String> {
        let place = event.token as usize;
        if place >= self.clients.len() {
            return self.read_retired(event);
        }
        if event.writable {
            self.flush(place)?;
        }
        match event.readable {
            true => self.read(place),
            false => Ok(()),
        }
    }

    /// Reads what has come for a client, and sends what there is room for then.
    fn read(&mut self, place: usize) -> Result<(), String> {
        if self.clients[place].closed {
            return Ok(());
        }
        self.replies.clear();
        let client = &mut self.clients[place];
        let end = client.connection.read(&mut self.buffer, &mut self.replies);
        let now = Monotonic.now();
        for reply in std::mem::take(&mut self.replies) {
            let index = self.clients[place].connection.take_answered(&reply);
            self.take_reply(place, index, reply, now)?;
        }
        let client = &mut self.clients[place];
        let again = client.connection.take_unprocessed();
        let needs_flush = client.connection.wants_to_write() != client.watched_for_room;
        if let ReadEnd::Broken(why) = end {
            self.lose(place, &why, now)?;
        } else if needs_flush {
            self.flush(place)?;
        }
        self.send_again(again)?;
        self.send_held()
    }

    fn send_held(&mut self) -> Result<(), String> {
        while !self.held.is_empty() && self.has_room() {
            if let Some(index) = self.held.pop_front() {
                self.send(index)?;
            }
        }
        Ok(())
    }

    fn take_reply(
        &mut self,
        place: usize,
        index: Option<usize>,
        reply: Reply,
        now: Instant,
    ) -> Result<(), String> {
        let asked = index.filter(|index| {
            let job = self.jobs.get(*index);
            job.is_some_and(|job| job.connection as usize == place)
                && self.trails[*index].stage == RequestStage::Open
        });
        let Some(index) = asked else {
            return Err("the service answered what it was not asked".into());
        };
        let trail = &mut self.trails[index];
        trail.ended = reply.at.unwrap_or(now);
        trigger!("load.received", index, trail.ended.as_nanos());
        trail.stage = match reply.refused {
            None => RequestStage::Answered,
            Some(_) => RequestStage::Refused,
        };
        self.in_flight -= 1;
        self.answered += 1;
        self.tell_user(index);
        if let Some(text) = reply.refused {
            self.note_failure(text);
        }
        Ok(())
    }

    /// A request has ended: the user who waited for it goes on.
    fn tell_user(&mut self, index: usize) {
        let job = self.jobs[index];
        if let Some(users) = self.users.as_mut().filter(|_| job.is_of_user) {
            users.replied(job.client, self.trails[index].ended);
        }
    }

    fn note_failure(&mut self, text: String) {
        if self.failures.len() < FAILURE_TEXTS || self.failures.contains_key(&text) {
            *self.failures.entry(text).or_default() += 1;
        }
    }

    fn finish(mut self, interrupted: Option<String>) -> Finished {
        let now = Monotonic.now();
        for trail in &mut self.trails {
            if matches!(trail.stage, RequestStage::Held | RequestStage::Open) {
                trail.stage = RequestStage::Lost;
                trail.ended = now;
            }
        }
        self.connections
            .extend(self.clients.iter().flat_map(LoadClient::ends));
        for client in &self.clients {
            let streams = client.connection.streams_at_once();
            let most: &mut Option<u64> = &mut self.connection_counts.streams_at_once;
            *most = streams.max(*most);
        }
        let requests = self.jobs.iter();
        Finished {
            requests: requests.map(|job| (job.task, job.client, job.at)).collect(),
            connections: self.connections,
            connection_counts: self.connection_counts,
            trails: self.trails,
            failures: self.failures,
            interrupted,
            is_interleaved: self.clients.iter().any(|client| client.is_interleaved),
        }
    }
}

/// The values of the users' placeholders.
fn parameters(plan: &LoadPlan) -> Option<&ParameterTable> {
    let file = plan.service.users.as_ref()?.parameters.as_ref()?;
    plan.inputs.parameters(file)
}

/// Whether replies say which request they answer.
fn names_requests(protocol: Protocol) -> bool {
    matches!(protocol, Protocol::Synthetic | Protocol::IcmpEcho)
}

/// How `{busy:...}` is filled, if any template has it.
fn busy(plan: &LoadPlan, templates: &[RequestTemplate]) -> Result<Busy, MeasurementError> {
    let needed = templates.iter().any(RequestTemplate::needs_busy_rate);
    match (plan.busy, needed) {
        (Some(rate), _) => Ok(Busy::Rate(rate)),
        (None, false) => Ok(Busy::Unknown),
        (None, true) => Err(MeasurementError::BadPlan {
            what: "a request has {busy:...}, and nothing says how many iterations that is".into(),
            remedy: "calibrate first and give the plan its busy rate".into(),
        }),
    }
}

fn host(what: &str, cause: io::Error) -> MeasurementError {
    MeasurementError::Host {
        what: what.into(),
        cause,
        remedy: "raise the limit of open files, if that is what ran out".into(),
    }
}
