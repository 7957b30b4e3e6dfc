//! What is counted in the course of a simulation.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;

use super::result::JobTime;
use crate::hierarchy::{Completion, Job, JobSource, Piece, Sink};
use crate::tally::Tally;
use crate::timers::NEVER;

/// What is kept of response times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kept {
    /// How many fell into each class (at most 1/512 of its values wide): memory does not grow with the
    /// simulation.
    #[default]
    Classes,
    /// Each of them.
    All,
}

/// The response times of a task.
pub(super) enum Responses {
    Classes(Tally),
    All(Vec<u64>),
}

/// The part of a simulation that counts, in nanoseconds.
#[derive(Clone, Copy)]
pub(super) struct Span {
    pub(super) from: u64,
    pub(super) until: u64,
}

impl Span {
    #[inline]
    fn clip(self, from: u64, until: u64) -> u64 {
        until.min(self.until).saturating_sub(from.max(self.from))
    }

    /// When a part of the second half begins.
    fn part(self, index: usize) -> u64 {
        let half = (self.until - self.from) / 2;
        let length = (half / PARTS as u64).max(1);
        self.until - half + index as u64 * length
    }
}

/// The second half of the time that counts is looked at in so many parts for growth.
pub(super) const PARTS: usize = 4;

/// How many jobs of one queue wait, at the least, in each part of the second half.
pub(super) struct BacklogMinima {
    waiting: u64,
    released: u64,
    least: [u64; PARTS],
}

/// The counts of one task.
pub(super) struct TaskCount {
    pub(super) responses: Responses,
    pub(super) released: u64,
    pub(super) done: u64,
    pub(super) late: u64,
    pub(super) used: u64,
    deadline_ns: u64,
    /// The queue that it belongs to: the domain's virtual CPU.
    queue: usize,
}

/// The times of the jobs of a task, as far as they have begun or ended.
#[derive(Default)]
pub(super) struct TaskLog {
    /// The begins of jobs that have begun, by number.
    begun: BTreeMap<u64, u64>,
    pub(super) done: Vec<JobTime>,
}

impl TaskLog {
    #[cold]
    fn ran(&mut self, piece: &Piece) {
        self.begun.entry(piece.number).or_insert(piece.from);
    }

    #[cold]
    fn completed(&mut self, completion: &Completion) {
        // A job without work ends without having run.
        let begin = self.begun.remove(&completion.number);
        self.done.push(JobTime {
            release_ns: completion.release,
            begin_ns: begin.unwrap_or(completion.end),
            end_ns: completion.end,
        });
    }
}

/// Counts everything that a result is made of.
pub(super) struct Course {
    pub(super) span: Span,
    pub(super) tasks: Vec<TaskCount>,
    pub(super) depletions: Vec<u64>,
    pub(super) overhead: Vec<u64>,
    pub(super) busy: Vec<u64>,
    pub(super) switches: Vec<u64>,
    /// By task, the times of the jobs of those tasks that are watched.
    pub(super) logs: Vec<Option<TaskLog>>,
    /// What was on each CPU last.
    last: Vec<Option<(usize, u64)>>,
    pub(super) queues: Vec<BacklogMinima>,
    /// The part of the second half in which the last event was; none before it.
    part: Option<usize>,
    /// When the part after it begins; never after the last one.
    next_part: u64,
    waiting: Rc<Cell<u64>>,
}

impl Course {
    /// `tasks` has the deadline and the queue of each task.
    pub(super) fn new(
        span: Span,
        kept: Kept,
        tasks: &[(u64, usize)],
        reservations: usize,
        cpus: usize,
        waiting: Rc<Cell<u64>>,
    ) -> Self {
        let queues = tasks.iter().map(|(_, queue)| queue + 1).max().unwrap_or(0);
        let count = |(deadline, queue): &(u64, usize)| TaskCount {
            responses: match kept {
                Kept::Classes => Responses::Classes(Tally::default()),
                Kept::All => Responses::All(Vec::new()),
            },
            released: 0,
            done: 0,
            late: 0,
            used: 0,
            deadline_ns: *deadline,
            queue: *queue,
        };
        let backlog = |_| BacklogMinima {
            waiting: 0,
            released: 0,
            least: [u64::MAX; PARTS],
        };
        Self {
            span,
            tasks: tasks.iter().map(count).collect(),
            depletions: vec![0; reservations],
            overhead: vec![0; cpus],
            busy: vec![0; cpus],
            switches: vec![0; cpus],
            logs: tasks.iter().map(|_| None).collect(),
            last: vec![None; cpus],
            queues: (0..queues).map(backlog).collect(),
            part: None,
            next_part: span.part(0),
            waiting,
        }
    }

    /// Comes to a time: what waits now has waited through all parts in between.
    #[inline]
    fn come_to(&mut self, at: u64) {
        if at >= self.next_part {
            self.begin_parts(at);
        }
    }

    #[cold]
    fn begin_parts(&mut self, at: u64) {
        let first = self.part.map_or(0, |part| part + 1);
        let later = (first + 1..PARTS).take_while(|part| self.span.part(*part) <= at);
        let last = first + later.count();
        for queue in &mut self.queues {
            for least in &mut queue.least[first..=last] {
                *least = queue.waiting.min(*least);
            }
        }
        self.part = Some(last);
        self.next_part = match last + 1 {
            PARTS => u64::MAX,
            next => self.span.part(next),
        };
    }

    /// Ends the count at the end of the simulation.
    pub(super) fn end(&mut self) {
        self.come_to(self.span.until);
    }
}

impl BacklogMinima {
    /// The fewest jobs that waited in each part, and how many were released in all of them.
    pub(super) fn least(&self) -> ([u64; PARTS], u64) {
        (self.least, self.released)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.waiting
    }
}

impl Sink for Course {
    const WHOLE_PIECES: bool = true;

    #[inline]
    fn released(&mut self, job: &Job) {
        self.come_to(job.ready());
        let task = &mut self.tasks[job.task];
        if task.deadline_ns == HOG {
            return;
        }
        let queue = &mut self.queues[task.queue];
        queue.waiting += 1;
        queue.released += u64::from(self.part.is_some());
        self.waiting.set(self.waiting.get() + 1);
        task.released += u64::from(job.release >= self.span.from);
    }

    #[inline]
    fn completed(&mut self, completion: &Completion) {
        self.come_to(completion.end);
        let task = &mut self.tasks[completion.task];
        if task.deadline_ns == HOG {
            return;
        }
        let queue = &mut self.queues[task.queue];
        queue.waiting -= 1;
        if let Some(part) = self.part.filter(|_| completion.end < self.span.until) {
            queue.least[part] = queue.least[part].min(queue.waiting);
        }
        self.waiting.set(self.waiting.get() - 1);
        if let Some(log) = &mut self.logs[completion.task] {
            log.completed(completion);
        }
        if completion.release < self.span.from {
            return;
        }
        let response = completion.end - completion.release;
        task.done += 1;
        task.late += u64::from(response > task.deadline_ns);
        match &mut task.responses {
            Responses::Classes(tally) => tally.count(response),
            Responses::All(all) => all.push(response),
        }
    }

    #[inline]
    fn ran(&mut self, piece: &Piece) {
        let length = self.span.clip(piece.from, piece.until);
        self.tasks[piece.task].used += length;
        self.busy[piece.cpu] += length;
        if let Some(log) = &mut self.logs[piece.task] {
            log.ran(piece);
        }
        let now = Some((piece.task, piece.number));
        if self.last[piece.cpu] != now {
            let counts = self.span.from <= piece.from && piece.from < self.span.until;
            self.switches[piece.cpu] += u64::from(counts);
            self.last[piece.cpu] = now;
        }
    }

    #[inline]
    fn overhead(&mut self, cpu: usize, from: u64, until: u64) {
        self.overhead[cpu] += self.span.clip(from, until);
    }

    #[inline]
    fn ran_out(&mut self, reservation: usize, at: u64) {
        let counts = self.span.from <= at && at < self.span.until;
        self.depletions[reservation] += u64::from(counts);
    }
}

/// Stands for the deadline of what uses all the CPU time that it gets, which is no queue.
pub(super) const HOG: u64 = u64::MAX;

/// Stands for the deadline of a task that has none.
pub(super) const NEVER_DUE: u64 = u64::MAX - 1;

/// Jobs of a source, and what never ends; no more jobs once too many wait.
pub(super) struct Feed<S> {
    /// The jobs that never end, all released at the start.
    endless: Vec<Job>,
    jobs: S,
    /// When the next job is released; never, if there is none.
    next: u64,
    waiting: Rc<Cell<u64>>,
    most_waiting: u64,
    /// When there were too many.
    cut_off: Rc<Cell<Option<u64>>>,
}

impl<S: JobSource> Feed<S> {
    /// `cut_off` will say when more than so many waited.
    pub(super) fn new(
        endless: Vec<Job>,
        jobs: S,
        waiting: Rc<Cell<u64>>,
        most_waiting: u64,
        cut_off: Rc<Cell<Option<u64>>>,
    ) -> Self {
        let mut feed = Self {
            endless,
            jobs,
            next: NEVER,
            waiting,
            most_waiting,
            cut_off,
        };
        feed.look_ahead();
        feed
    }

    #[inline]
    fn look_ahead(&mut self) {
        self.next = if self.endless.is_empty() {
            self.jobs.next_release().unwrap_or(NEVER)
        } else {
            0
        };
    }
}

impl<S: JobSource> JobSource for Feed<S> {
    #[inline(always)]
    fn next_release(&self) -> Option<u64> {
        (self.next != NEVER).then_some(self.next)
    }

    #[inline]
    fn take(&mut self) -> Option<Job> {
        self.next_release()?;
        if let Some(job) = self.endless.pop() {
            self.look_ahead();
            return Some(job);
        }
        let job = self.jobs.take()?;
        if self.waiting.get() >= self.most_waiting {
            self.cut_off.set(Some(job.ready()));
            self.next = NEVER;
        } else {
            self.look_ahead();
        }
        Some(job)
    }
}

/// A sink that takes note of nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nothing;

impl Sink for Nothing {
    const WHOLE_PIECES: bool = true;

    fn completed(&mut self, _completion: &Completion) {}
}
