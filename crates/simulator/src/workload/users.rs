//! The requests of users who wait for replies: a closed loop.
//!
//! The simulator and the load generator ask the same users: who asks what, and how long each thinks, depends on the seed
//! alone; when a request is sent depends on when the one before was answered.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tailbound_model::{
    ExecutionTime, InputFiles, ParameterTable, SampleCount, Service, Task, ThinkTime, UserStep,
    Users,
};
use tailbound_time::{Duration, Instant};

use super::execution::{ExecutionSource, cumulative};
use super::streams::{Purpose, RandomStream};
use super::{Release, WorkloadError};

/// The users of a service, and the requests that they are about to send.
pub struct UserRequests<'a> {
    users: &'a Users,
    parameters: Option<&'a ParameterTable>,
    thinking: Thinking<'a>,
    /// The task of each request of a session, by its position among `tasks`.
    session: Vec<usize>,
    tasks: Vec<AskedTask<'a>>,
    people: Vec<User>,
    /// When each user who thinks sends the next request, the first of them on top.
    due: BinaryHeap<Reverse<(u64, u32)>>,
    warm_up: Duration,
    horizon: u64,
}

/// A task that users ask.
struct AskedTask<'a> {
    name: &'a str,
    execution: ExecutionSource<'a>,
}

/// One user.
struct User {
    thought: RandomStream,
    work: RandomStream,
    /// The next request of the session.
    step: usize,
    /// The rows of the session's parameters.
    rows: usize,
    choice: RandomStream,
}

/// How long users think.
enum Thinking<'a> {
    Constant(Duration),
    Exponential { min: Duration, mean: Duration },
    Samples(&'a [SampleCount], Vec<u64>),
}

/// A request that a user sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UserRequest<'a> {
    /// The user, from 0.
    pub user: u32,
    /// The task, by its position among [`UserRequests::tasks`].
    pub task: usize,
    /// When it is sent, from the start of the run.
    pub at: Instant,
    /// How long it runs on a CPU of its own; `None` where the description leaves that to a calibration.
    pub execution: Option<Duration>,
    /// The values for its placeholders, in the order of the columns; empty without parameters.
    pub parameters: &'a [String],
}

impl<'a> UserRequests<'a> {
    /// The users of `service` in a run with this warm-up, who send no request after it and this duration; `None` for a
    /// service without users. `name` is that of the service.
    ///
    /// # Errors
    /// As of [`releases`](super::releases).
    pub fn of(
        (name, service): (&str, &'a Service),
        span: (Duration, Duration),
        seed: u64,
        inputs: &'a InputFiles,
    ) -> Result<Option<Self>, WorkloadError> {
        let content = |task: &str| {
            let (name, content) = service.tasks.get_key_value(task)?;
            Some((name.as_str(), content))
        };
        Self::of_tasks((name, service), content, span, seed, inputs)
    }

    /// The same, where tasks are other than the service has them: `content` has the name and the content of each.
    ///
    /// # Errors
    /// As of [`UserRequests::of`].
    pub fn of_tasks(
        (name, service): (&str, &'a Service),
        content: impl Fn(&str) -> Option<(&'a str, &'a Task)>,
        (warm_up, duration): (Duration, Duration),
        seed: u64,
        inputs: &'a InputFiles,
    ) -> Result<Option<Self>, WorkloadError> {
        let Some(users) = &service.users else {
            return Ok(None);
        };
        let parameters = match &users.parameters {
            None => None,
            Some(file) => {
                Some(
                    inputs
                        .parameters(file)
                        .ok_or_else(|| WorkloadError::InputMissing {
                            task: name.into(),
                            file: file.clone(),
                        })?,
                )
            }
        };
        let (session, tasks) = session(&users.steps(service), content, inputs)?;
        let mut requests = Self {
            users,
            parameters,
            thinking: Thinking::of(name, &users.think_time, inputs)?,
            session,
            tasks,
            people: (0..users.most())
                .map(|user| User::of(name, user, seed))
                .collect(),
            due: BinaryHeap::with_capacity(users.most() as usize),
            warm_up,
            horizon: warm_up.saturating_add(duration).as_nanos(),
        };
        for user in 0..users.most() {
            requests.come(user, 0, true);
        }
        Ok(Some(requests))
    }

    /// A task of which only a calibration can tell the execution time, if users ask one.
    pub fn uncalibrated(&self) -> Option<&'a str> {
        let mut tasks = self.tasks.iter();
        let unknown = |task: &&AskedTask<'_>| matches!(task.execution, ExecutionSource::Unknown);
        Some(tasks.find(unknown)?.name)
    }

    /// The names of the tasks that users ask.
    pub fn tasks(&self) -> impl Iterator<Item = &'a str> {
        self.tasks.iter().map(|task| task.name)
    }

    /// The largest number of users at any time.
    pub fn most(&self) -> u32 {
        self.users.most()
    }

    /// When the next request is sent, in nanoseconds; `None` while all users wait for replies, or have gone.
    #[inline]
    pub fn next_due(&self) -> Option<u64> {
        self.due.peek().map(|Reverse((at, _))| *at)
    }

    /// The next request. Its user sends no other until [`UserRequests::replied`].
    pub fn take(&mut self) -> Option<UserRequest<'a>> {
        let Reverse((at, number)) = self.due.pop()?;
        let user = &mut self.people[number as usize];
        let task = self.session[user.step];
        let row = self.parameters.map(|table| table.row(user.rows, user.step));
        let request = UserRequest {
            user: number,
            task,
            at: Instant::from_nanos(at),
            execution: self.tasks[task].execution.draw(&mut user.work),
            parameters: row.unwrap_or_default(),
        };
        user.step += 1;
        if user.step == self.session.len() {
            self.begin_session(number);
        }
        Some(request)
    }

    /// A user has the reply to the last request, so many nanoseconds from the start of the run, and thinks.
    pub fn replied(&mut self, user: u32, at: u64) {
        let thought = self.think(user);
        self.come(user, at.saturating_add(thought), false);
    }

    /// Releases of [`UserRequests::take`] look like this in lists of releases.
    pub fn release(&self, request: &UserRequest<'_>) -> Release {
        Release {
            task: self.tasks[request.task].name.into(),
            client: request.user,
            at: request.at,
            execution: request.execution,
        }
    }

    fn begin_session(&mut self, user: u32) {
        let user = &mut self.people[user as usize];
        user.step = 0;
        if let Some(table) = self.parameters {
            user.rows = user.choice.below(table.sessions() as u64) as usize;
        }
    }

    /// The next request of a user comes then. Whoever has just come, or is away then and comes back later, begins a session
    /// with a part of a thought, so that those who come together do not ask together.
    fn come(&mut self, user: u32, at: u64, is_new: bool) {
        let Some(present) = self.presence(user, at) else {
            return;
        };
        let at = match present == at && !is_new {
            true => at,
            false => {
                self.begin_session(user);
                present.saturating_add(self.first_thought(user))
            }
        };
        if at < self.horizon {
            self.due.push(Reverse((at, user)));
        }
    }

    /// When a user is there: the first time from `at` on, in nanoseconds from the start of the run.
    fn presence(&self, user: u32, at: u64) -> Option<u64> {
        let warm_up = self.warm_up.as_nanos();
        if at < warm_up && user < self.users.count {
            return Some(at);
        }
        let counted = Duration::from_nanos(at.saturating_sub(warm_up));
        let present = self.users.next_above(user, counted)?;
        Some(present.as_nanos().saturating_add(warm_up))
    }

    fn think(&mut self, user: u32) -> u64 {
        self.thinking
            .draw(&mut self.people[user as usize].thought)
            .as_nanos()
    }

    /// A part of a thought, as of someone who has been there for a while.
    fn first_thought(&mut self, user: u32) -> u64 {
        let whole = self.think(user);
        let part = self.people[user as usize].thought.unit();
        (whole as f64 * part) as u64
    }
}

/// The requests of a session by the position of their tasks, and these tasks.
fn session<'a>(
    steps: &[UserStep],
    content: impl Fn(&str) -> Option<(&'a str, &'a Task)>,
    inputs: &'a InputFiles,
) -> Result<(Vec<usize>, Vec<AskedTask<'a>>), WorkloadError> {
    let mut session = Vec::new();
    let mut tasks: Vec<AskedTask<'a>> = Vec::new();
    for step in steps {
        let Some((name, task)) = content(&step.task) else {
            return Err(WorkloadError::NoSuchTask {
                task: step.task.clone(),
            });
        };
        let place = match tasks.iter().position(|asked| asked.name == name) {
            Some(place) => place,
            None => {
                let execution = ExecutionSource::of(name, task, inputs)?;
                tasks.push(AskedTask { name, execution });
                tasks.len() - 1
            }
        };
        session.extend(std::iter::repeat_n(place, step.times as usize));
    }
    match session.is_empty() {
        true => Err(WorkloadError::NoSession),
        false => Ok((session, tasks)),
    }
}

impl User {
    fn of(service: &str, number: u32, seed: u64) -> Self {
        let stream = |purpose| RandomStream::of(seed, service, number, purpose);
        Self {
            thought: stream(Purpose::Thought),
            work: stream(Purpose::Execution),
            step: 0,
            rows: 0,
            choice: stream(Purpose::Session),
        }
    }
}

impl<'a> Thinking<'a> {
    fn of(service: &str, law: &ThinkTime, inputs: &'a InputFiles) -> Result<Self, WorkloadError> {
        Ok(match law {
            ThinkTime::Constant { value } => Self::Constant(*value),
            ThinkTime::Exponential { min, mean } => Self::Exponential {
                min: *min,
                mean: *mean,
            },
            ThinkTime::Samples { file } => {
                let (task, file) = (service.to_owned(), file.clone());
                match inputs.samples(&file) {
                    None => return Err(WorkloadError::InputMissing { task, file }),
                    Some(samples) => match cumulative(samples.iter().map(|one| one.count)) {
                        Some(counts) => Self::Samples(samples, counts),
                        None => return Err(WorkloadError::NoSamples { task, file }),
                    },
                }
            }
        })
    }

    fn draw(&self, stream: &mut RandomStream) -> Duration {
        match self {
            Self::Constant(value) => *value,
            Self::Exponential { min, mean } => {
                let rest = mean.saturating_sub(*min).as_nanos() as f64 * stream.exponential();
                min.saturating_add(Duration::from_nanos(rest.round() as u64))
            }
            Self::Samples(samples, counts) => {
                let drawn = stream.below(counts.last().copied().unwrap_or(1));
                let index = counts.partition_point(|count| *count <= drawn);
                samples.get(index).map_or(Duration::ZERO, |one| one.value)
            }
        }
    }
}

/// The mean time from one request of a user to the next, less the response time, where the description has it.
pub(crate) fn mean_pause(users: &Users, service: &Service) -> Option<Duration> {
    let steps = users.steps(service);
    let (mut work, mut count) = (0.0, 0.0);
    for step in &steps {
        let task = service.tasks.get(&step.task)?;
        let mean = match &task.execution_time {
            ExecutionTime::Samples { .. } => return None,
            law => law.mean()?,
        };
        work += mean.as_secs_f64() * f64::from(step.times);
        count += f64::from(step.times);
    }
    let think = users.think_time.mean()?;
    let work = Duration::from_nanos((work / count.max(1.0) * 1e9) as u64);
    Some(think.saturating_add(work))
}
