//! The jobs of a service, drawn as they are asked for.

use tailbound_model::{InputFiles, Service, Task};
use tailbound_time::Duration;

use super::WorkloadError;
use super::arrivals::ClientReleases;
use super::execution;
use super::streams::{Purpose, RandomStream};
use crate::hierarchy::{Job, JobSource};
use crate::timers::{NEVER, Queue};

/// All jobs of a service released before a horizon, as [`releases`](super::releases) lists them, without a list: what
/// they take in memory does not depend on how many they are.
///
/// Their tasks are numbered in the order of the names; their numbers count from 0. Each job of a task with jitter becomes
/// ready after a time of its own, evenly drawn up to the jitter, but not before the client's job before it; jobs that
/// become ready at the horizon or later are left out.
pub struct DrawnJobs<'a> {
    clients: Vec<RandomClient<'a>>,
    next: Queue,
    horizon: u64,
    count: u64,
}

struct RandomClient<'a> {
    task: usize,
    arriving: ClientReleases,
    /// How long the next job takes to become ready; none without jitter.
    lateness: Option<Lateness>,
    execution: execution::ExecutionSource<'a>,
    work: RandomStream,
}

/// How late the jobs of a client with jitter become ready.
struct Lateness {
    jitter: Duration,
    stream: RandomStream,
    /// When the next job becomes ready.
    ready: u64,
}

impl Lateness {
    /// `None` for a task without jitter.
    fn of(task: &Task, stream: RandomStream) -> Option<Self> {
        (!task.jitter.is_zero()).then_some(Self {
            jitter: task.jitter,
            stream,
            ready: 0,
        })
    }

    /// Draws when the job that arrives then becomes ready: no later than its jitter allows, since the job before it
    /// arrived no later.
    fn draw(&mut self, arrival: u64) {
        let drawn = self.stream.uniform(Duration::ZERO, self.jitter);
        let ready = arrival.saturating_add(drawn.as_nanos());
        self.ready = self.ready.max(ready);
    }
}

impl<'a> DrawnJobs<'a> {
    /// The same arguments as those of [`releases`](super::releases) yield the same jobs.
    ///
    /// # Errors
    /// As [`releases`](super::releases), and if only a calibration can tell an execution time.
    pub fn new(
        service: &Service,
        horizon: Duration,
        seed: u64,
        inputs: &'a InputFiles,
    ) -> Result<Self, WorkloadError> {
        let tasks = service.tasks.iter().enumerate();
        let tasks = tasks.map(|(task, (name, content))| (task, name.as_str(), content));
        Self::of_tasks(tasks, horizon, seed, inputs)
    }

    /// The jobs of several tasks together: each with its number in the plan, and the name that its
    /// random streams depend on. Of jobs released at once, those of the task in front come first.
    ///
    /// # Errors
    /// As [`DrawnJobs::new`].
    pub fn of_tasks<'t>(
        tasks: impl IntoIterator<Item = (usize, &'t str, &'t Task)>,
        horizon: Duration,
        seed: u64,
        inputs: &'a InputFiles,
    ) -> Result<Self, WorkloadError> {
        let mut clients = Vec::new();
        for (task, name, description) in tasks {
            for client in 0..description.clients {
                let stream = |purpose| RandomStream::of(seed, name, client, purpose);
                let source = execution::ExecutionSource::of(name, description, inputs)?;
                if matches!(source, execution::ExecutionSource::Unknown) {
                    let task = name.to_owned();
                    return Err(WorkloadError::ExecutionTimeUnknown { task });
                }
                let arrivals = stream(Purpose::Arrival);
                let mut client = RandomClient {
                    task,
                    arriving: ClientReleases::new(name, description, arrivals, inputs)?,
                    lateness: Lateness::of(description, stream(Purpose::Jitter)),
                    execution: source,
                    work: stream(Purpose::Execution),
                };
                client.draw_lateness();
                clients.push(client);
            }
        }
        let horizon = horizon.as_nanos();
        let next = clients.iter().map(|client| client.next_before(horizon));
        Ok(Self {
            next: Queue::new(next),
            clients,
            horizon,
            count: 0,
        })
    }
}

impl RandomClient<'_> {
    #[inline]
    fn next_before(&self, horizon: u64) -> u64 {
        let next = match &self.lateness {
            None => self.arriving.next(),
            Some(lateness) => self.arriving.next().map(|_| lateness.ready),
        };
        next.filter(|at| *at < horizon).unwrap_or(NEVER)
    }

    /// Draws how late the next job becomes ready.
    #[inline]
    fn draw_lateness(&mut self) {
        if let (Some(lateness), Some(arrival)) = (&mut self.lateness, self.arriving.next()) {
            lateness.draw(arrival);
        }
    }
}

impl JobSource for DrawnJobs<'_> {
    #[inline]
    fn next_release(&self) -> Option<u64> {
        Some(self.next.earliest()).filter(|at| *at != NEVER)
    }

    #[inline]
    fn take(&mut self) -> Option<Job> {
        let ready = self.next_release()?;
        let index = self.next.first();
        let client = &mut self.clients[index];
        let release = client.arriving.next()?;
        let job = Job {
            task: client.task,
            number: self.count,
            release,
            delay_ns: ready - release,
            work: client.execution.draw(&mut client.work)?.as_nanos(),
        };
        client.arriving.advance();
        client.draw_lateness();
        self.count += 1;
        self.next.change_first(client.next_before(self.horizon));
        Some(job)
    }
}
