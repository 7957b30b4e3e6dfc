//! The jobs that are released and not done.

use std::collections::VecDeque;

use super::HardTask;
use crate::hierarchy::Job;

/// Hard tasks in the order of their ranks, and the queue of soft jobs.
#[derive(Clone, Debug)]
pub(super) struct Jobs {
    pub(super) hard: Vec<Hard>,
    pub(super) soft: VecDeque<Job>,
}

/// A hard task in the course of a simulation.
#[derive(Clone, Debug)]
pub(super) struct Hard {
    /// The most that a job executes.
    pub(super) worst: u64,
    pub(super) period_ns: u64,
    pub(super) relative_deadline_ns: u64,
    /// Unfinished jobs; of the first one `work` is what is left of it.
    pub(super) backlog: VecDeque<Job>,
    /// What the first of them has executed.
    pub(super) executed: u64,
    /// No job is released before this that is not released yet.
    pub(super) next_release: u64,
}

/// A hard job that is done.
#[derive(Clone, Copy, Debug)]
pub(super) struct Done {
    pub(super) task: usize,
    pub(super) release: u64,
    pub(super) executed: u64,
}

impl Jobs {
    pub(super) fn new(tasks: &[HardTask]) -> Self {
        let hard = tasks.iter().map(|task| Hard {
            worst: task.execution.as_nanos(),
            period_ns: task.period.as_nanos(),
            relative_deadline_ns: task.deadline.as_nanos(),
            backlog: VecDeque::new(),
            executed: 0,
            next_release: task.offset.as_nanos(),
        });
        Self {
            hard: hard.collect(),
            soft: VecDeque::new(),
        }
    }

    /// The hard task with the lowest rank of those that have a job.
    pub(super) fn first_hard(&self) -> Option<usize> {
        self.hard.iter().position(|task| !task.backlog.is_empty())
    }

    pub(super) fn soft_waits(&self) -> bool {
        !self.soft.is_empty()
    }
}

impl Hard {
    /// What its released jobs may still execute.
    pub(super) fn remaining_worst(&self) -> u64 {
        let all = self.worst.saturating_mul(self.backlog.len() as u64);
        all.saturating_sub(self.executed)
    }
}
