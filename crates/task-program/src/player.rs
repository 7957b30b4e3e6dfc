//! The threads of the program, one a task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use tailbound_job_log::{JobLog, LoggedJob, MessageId};
use tailbound_linux::clock::{Monotonic, sleep_until, thread_cpu_time};
use tailbound_measurement::synthetic::work_until;
use tailbound_model::InputFiles;
use tailbound_pubsub::{
    DataOrigin, InProcess, IncomingMessage, PublishError, Publisher, Subscriber,
};
use tailbound_simulator::hierarchy::JobSource;
use tailbound_simulator::workload::DrawnJobs;
use tailbound_time::{Clock, Duration, Instant};

use crate::OwnTaskError;
use crate::plan::{ProgramPlan, ProgramTask};
use crate::routes::Routing;
use crate::transports::Spaces;

/// The longest time for which a task does not see that it is to end.
const ATTENTION: Duration = Duration::from_millis(100);
/// The jobs that a log has at most; later ones are carried out and not logged.
pub(crate) const MOST_LOGGED: usize = 1_000_000;
/// Jobs are drawn for so long: no program of ours runs longer.
const HORIZON: Duration = Duration::from_secs(366 * 24 * 3600);

/// What a task did.
#[derive(Clone, Debug, PartialEq)]
pub struct PlayedTask {
    /// The name within the domain.
    pub name: String,
    /// Its jobs.
    pub log: JobLog,
    /// The jobs after the log was full.
    pub unlogged: u64,
    /// The releases that a task with a clock left out, because the job before had not ended a whole period later.
    pub skipped: u64,
    /// The messages that were not sent, because the contract of a topic does not admit them.
    pub violations: u64,
    /// The failure of a transport that ended the task.
    pub failure: Option<String>,
}

/// Carries out the tasks of a plan until `stop`; returns what they did.
///
/// # Errors
/// If a topic cannot be opened or jobs cannot be drawn; then nothing has begun.
pub fn play(
    plan: &ProgramPlan,
    inputs: &InputFiles,
    stop: &AtomicBool,
) -> Result<Vec<PlayedTask>, OwnTaskError> {
    let memory = InProcess::default();
    let mut spaces = Spaces::around(memory.clone());
    let mut players = Vec::new();
    for task in plan.tasks.iter().filter(|task| task.route.is_none()) {
        players.push(Player::open(plan, task, inputs, &mut spaces)?);
    }
    let routing = Routing::begin(&plan.tasks, &memory)?;
    let begin = crate::epoch(Monotonic.now(), plan.periods.iter().copied());
    let played = thread::scope(|scope| {
        let threads: Vec<_> = players
            .into_iter()
            .map(|player| {
                let name = player.task.name.clone();
                let builder = thread::Builder::new().name(name);
                builder.spawn_scoped(scope, move || player.run(begin, stop))
            })
            .collect();
        let ended = threads.into_iter().map(|thread| {
            let thread = thread.map_err(|source| OwnTaskError::Host {
                attempt: "start the thread of a task",
                source,
            })?;
            Ok(thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        });
        ended.collect::<Result<Vec<_>, OwnTaskError>>()
    });
    let mut played = played?;
    if let Some(routing) = routing {
        while !stop.load(Ordering::Relaxed) {
            thread::sleep(std::time::Duration::from_nanos(ATTENTION.as_nanos()));
        }
        played.extend(routing.end());
    }
    Ok(played)
}

impl PlayedTask {
    /// A task that has done nothing yet.
    pub(crate) fn of(task: &ProgramTask) -> Self {
        let publishes = task.publishes.iter().map(|topic| topic.name.clone());
        Self {
            name: task.name.clone(),
            log: JobLog {
                reads: task.read_names(),
                publishes: publishes.collect(),
                jobs: Vec::new(),
            },
            unlogged: 0,
            skipped: 0,
            violations: 0,
            failure: None,
        }
    }
}

/// A task that is about to run.
struct Player<'a> {
    task: &'a ProgramTask,
    jobs: DrawnJobs<'a>,
    releasing: Option<Subscriber>,
    reads: Vec<Reader>,
    publishers: Vec<Publisher>,
    /// The bytes of the messages of each topic.
    payloads: Vec<Vec<u8>>,
    played: PlayedTask,
}

/// The newest message of a topic.
#[derive(Clone, Copy, Debug)]
struct ReadMessage {
    id: MessageId,
    origin: Instant,
}

/// The newest value of a topic: a message stays until a newer one comes.
struct Reader {
    subscriber: Subscriber,
    newest: Option<ReadMessage>,
}

impl Reader {
    fn new(subscriber: Subscriber) -> Self {
        Self {
            subscriber,
            newest: None,
        }
    }

    fn newest(&mut self) -> Result<Option<ReadMessage>, String> {
        let Self { subscriber, newest } = self;
        let mut read = || subscriber.take(|message| *newest = Some(ReadMessage::of(message)));
        while read().map_err(|error| error.to_string())? {}
        Ok(self.newest)
    }
}

impl ReadMessage {
    fn of(message: &IncomingMessage<'_>) -> Self {
        Self {
            id: MessageId {
                source: message.header.source,
                sequence: message.header.sequence,
            },
            origin: message.header.origin_time,
        }
    }
}

impl<'a> Player<'a> {
    fn open(
        plan: &ProgramPlan,
        task: &'a ProgramTask,
        inputs: &'a InputFiles,
        spaces: &mut Spaces,
    ) -> Result<Self, OwnTaskError> {
        // The simulation draws the jobs of own tasks under this name.
        let stream = format!("{}.{}", plan.domain, task.name);
        let drawn = [(0, stream.as_str(), &task.task)];
        let jobs = DrawnJobs::of_tasks(drawn, HORIZON, plan.seed, inputs)?;
        let mut subscriber = |topic| spaces.subscriber(topic);
        let releasing = task.releasing.as_ref().map(&mut subscriber).transpose()?;
        let reads = task
            .reads
            .iter()
            .map(|topic| Ok(Reader::new(subscriber(topic)?)));
        let reads = reads.collect::<Result<_, OwnTaskError>>()?;
        let publishers = task.publishes.iter().map(|topic| spaces.publisher(topic));
        let payloads = task
            .publishes
            .iter()
            .map(|topic| vec![0; topic.topic().longest]);
        Ok(Self {
            task,
            jobs,
            releasing,
            reads,
            publishers: publishers.collect::<Result<_, _>>()?,
            payloads: payloads.collect(),
            played: PlayedTask::of(task),
        })
    }

    fn run(mut self, begin: Instant, stop: &AtomicBool) -> PlayedTask {
        let ended = match self.releasing.is_some() {
            true => self.run_by_messages(stop),
            false => self.run_by_clock(begin, stop),
        };
        self.played.failure = ended.err();
        self.played
    }

    fn run_by_clock(&mut self, begin: Instant, stop: &AtomicBool) -> Result<(), String> {
        while let Some(job) = self.jobs.take() {
            let release = begin.saturating_add(Duration::from_nanos(job.release));
            if !sleep_or_stop(release, stop)? {
                return Ok(());
            }
            // A later job is due already: as in a control loop, this one is left out.
            let next = self
                .jobs
                .next_release()
                .map(|next| begin.saturating_add(Duration::from_nanos(next)));
            if next.is_some_and(|next| next <= Monotonic.now()) {
                self.played.skipped += 1;
                continue;
            }
            self.carry_out(release, None, Duration::from_nanos(job.work))?;
        }
        Ok(())
    }

    fn run_by_messages(&mut self, stop: &AtomicBool) -> Result<(), String> {
        while !stop.load(Ordering::Relaxed) {
            let Some(releasing) = &mut self.releasing else {
                return Ok(());
            };
            let mut message = None;
            let came = releasing.take(|content| message = Some(ReadMessage::of(content)));
            if !came.map_err(|error| error.to_string())? {
                // What they say is in the subscriber's counts; one that is left would end every wait.
                while releasing.take_event().is_some() {}
                releasing
                    .wait(Some(ATTENTION))
                    .map_err(|error| error.to_string())?;
                continue;
            }
            let Some(job) = message.and_then(|_| self.jobs.take()) else {
                continue;
            };
            self.carry_out(Monotonic.now(), message, Duration::from_nanos(job.work))?;
        }
        Ok(())
    }

    /// Reads, works, publishes, and writes it down.
    fn carry_out(
        &mut self,
        release: Instant,
        message: Option<ReadMessage>,
        work: Duration,
    ) -> Result<(), String> {
        let begun = thread_cpu_time();
        let start = Monotonic.now();
        let is_released = self.releasing.is_some();
        let mut read: Vec<Option<MessageId>> =
            Vec::with_capacity(self.reads.len() + usize::from(is_released));
        let mut origin = message.map(|message| message.origin);
        if is_released {
            read.push(message.map(|message| message.id));
        }
        for reader in &mut self.reads {
            let newest = reader.newest()?;
            read.push(newest.map(|message| message.id));
            let older = newest.map(|message| message.origin);
            origin = origin.into_iter().chain(older).min();
        }
        work_until(begun.saturating_add(work));
        let mut published = Vec::with_capacity(self.publishers.len());
        for (publisher, payload) in self.publishers.iter_mut().zip(&self.payloads) {
            let origin = origin.unwrap_or(start);
            let (source, sequence) = (publisher.source(), publisher.sequence());
            let sent = publisher.publish_from(DataOrigin::at(origin), payload);
            published.push(match sent {
                Ok(()) => Some(MessageId { source, sequence }),
                Err(PublishError::Contract { .. }) => {
                    self.played.violations += 1;
                    None
                }
                Err(error) => return Err(error.to_string()),
            });
        }
        let end = Monotonic.now();
        if self.played.log.jobs.len() < MOST_LOGGED {
            self.played.log.jobs.push(LoggedJob {
                release,
                start,
                end,
                read,
                published,
            });
        } else {
            self.played.unlogged += 1;
        }
        Ok(())
    }
}

/// Sleeps until `release`; whether the task goes on then.
fn sleep_or_stop(release: Instant, stop: &AtomicBool) -> Result<bool, String> {
    loop {
        if stop.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let soon = Monotonic.now().saturating_add(ATTENTION);
        // A job that is due within a second is not woken for, in between, to look at `stop`.
        let until = if release.saturating_since(soon) < Duration::from_secs(1) {
            release
        } else {
            soon
        };
        sleep_until(until).map_err(|error| error.to_string())?;
        if until == release {
            return Ok(!stop.load(Ordering::Relaxed));
        }
    }
}
