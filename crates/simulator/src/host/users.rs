//! The users of services in a simulation: they ask again when they were answered.

use std::cell::RefCell;
use std::rc::Rc;

use tailbound_time::Duration;

use super::layout::{LaidPlan, LaidTask};
use super::problem::HostError;
use super::run::HostQuery;
use crate::hierarchy::{Completion, Job, JobSource, Sink};
use crate::workload::{UserRequests, WorkloadError, mean_pause};
use tailbound_model::Description;

/// The first number of a user's job; those of other jobs count from 0.
const FIRST_NUMBER: u64 = 1 << 62;

/// The users of all services of a plan.
pub(super) struct SimulatedUsers<'a> {
    services: Vec<ServiceUsers<'a>>,
    /// All users of these services together.
    most: u64,
    /// The jobs so far.
    jobs: u64,
}

struct ServiceUsers<'a> {
    requests: UserRequests<'a>,
    /// The position in the plan of each task that they ask.
    tasks: Vec<usize>,
    /// The number of users of the services before it.
    before: u64,
}

impl<'a> SimulatedUsers<'a> {
    /// Those of the services of a plan; `None` if these have none.
    pub(super) fn of(
        laid: &'a LaidPlan,
        query: &HostQuery<'a>,
    ) -> Result<Option<Rc<RefCell<Self>>>, HostError> {
        let mut all = Self {
            services: Vec::new(),
            most: 0,
            jobs: 0,
        };
        let span = (query.warm_up, query.duration);
        for (name, service) in &query.description.services {
            let place = |task: &str| {
                let is_it =
                    |laid: &LaidTask| laid.service.as_ref() == Some(name) && laid.name == task;
                laid.tasks.iter().position(is_it)
            };
            // A service is one queue, so that its tasks are in one plan.
            let steps = service.users.iter().flat_map(|users| users.steps(service));
            if service.users.is_none() || steps.into_iter().any(|step| place(&step.task).is_none())
            {
                continue;
            }
            // The plan has execution times that the description leaves to a calibration.
            let content = |task: &str| {
                let laid = &laid.tasks[place(task)?];
                Some((laid.name.as_str(), laid.task.as_ref()?))
            };
            let named = (name.as_str(), service);
            let requests = UserRequests::of_tasks(named, content, span, query.seed, query.inputs)?;
            let Some(requests) = requests else { continue };
            if let Some(task) = requests.uncalibrated() {
                let task = task.to_owned();
                return Err(WorkloadError::ExecutionTimeUnknown { task }.into());
            }
            let tasks: Vec<usize> = requests.tasks().filter_map(place).collect();
            let before = all.most;
            all.most += u64::from(requests.most());
            all.services.push(ServiceUsers {
                requests,
                tasks,
                before,
            });
        }
        Ok((all.most > 0).then(|| Rc::new(RefCell::new(all))))
    }

    /// The service whose users ask next, with the time.
    fn next(&self) -> Option<(u64, usize)> {
        let services = self.services.iter().enumerate();
        let due = services.filter_map(|(index, one)| Some((one.requests.next_due()?, index)));
        due.min()
    }

    fn take(&mut self) -> Option<Job> {
        let (release, index) = self.next()?;
        let service = &mut self.services[index];
        let request = service.requests.take()?;
        let user = service.before + u64::from(request.user);
        let number = FIRST_NUMBER + self.jobs * self.most + user;
        self.jobs += 1;
        Some(Job {
            task: service.tasks[request.task],
            number,
            release,
            delay_ns: 0,
            work: request.execution?.as_nanos(),
        })
    }

    fn replied(&mut self, completion: &Completion) {
        let Some(number) = completion.number.checked_sub(FIRST_NUMBER) else {
            return;
        };
        let user = number % self.most;
        let service = self.services.partition_point(|one| one.before <= user) - 1;
        let service = &mut self.services[service];
        let user = (user - service.before) as u32;
        service.requests.replied(user, completion.end);
    }
}

/// Jobs of a source, and those that users ask for.
pub(super) struct FeedWithUsers<'a, S> {
    pub(super) feed: S,
    pub(super) users: Option<Rc<RefCell<SimulatedUsers<'a>>>>,
}

impl<S: JobSource> FeedWithUsers<'_, S> {
    /// When users ask next.
    #[inline]
    fn asked(&self) -> Option<u64> {
        Some(self.users.as_ref()?.borrow().next()?.0)
    }
}

impl<S: JobSource> JobSource for FeedWithUsers<'_, S> {
    #[inline(always)]
    fn next_release(&self) -> Option<u64> {
        let next = self.feed.next_release();
        match self.asked() {
            None => next,
            Some(asked) => Some(next.map_or(asked, |next| next.min(asked))),
        }
    }

    #[inline]
    fn take(&mut self) -> Option<Job> {
        match (self.asked(), self.feed.next_release()) {
            (Some(asked), next) if next.is_none_or(|next| asked < next) => {
                self.users.as_ref()?.borrow_mut().take()
            }
            _ => self.feed.take(),
        }
    }
}

/// Tells users of the completions of what they asked for.
pub(super) struct Replies<'a> {
    pub(super) users: Option<Rc<RefCell<SimulatedUsers<'a>>>>,
}

impl Sink for Replies<'_> {
    const WHOLE_PIECES: bool = true;

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        if let Some(users) = &self.users {
            users.borrow_mut().replied(completion);
        }
    }
}

/// How many jobs of a task users ask for at most, about, with what they are.
pub(super) fn events(
    description: &Description,
    task: &LaidTask,
    length: Duration,
) -> Option<(f64, String)> {
    let name = task.service.as_ref()?;
    let service = description.services.get(name)?;
    let users = service.users.as_ref()?;
    let steps = users.steps(service);
    // Counted once, at the first task of the session.
    (steps.first()?.task == task.name).then_some(())?;
    let pause = mean_pause(users, service)?;
    let each = super::run::ratio(length, pause);
    Some((
        each * f64::from(users.most()),
        format!("requests of users of {name}"),
    ))
}
