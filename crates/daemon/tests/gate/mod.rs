//! Agents that wait at a step of a change for as long as a test has them: what is done there is
//! done in the midst of the change on any machine, however fast or slow.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration as StdDuration;

use tailbound_modes::agent::TaskControl;
use tailbound_modes::agent::TaskError;

/// Longer than any change takes, and an end to a test that forgets to open its gate.
const WAITS_AT_MOST: StdDuration = StdDuration::from_secs(20);

/// Where an agent may be made to wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// It has told its tasks to stop, and has not said that they have.
    Stop,
    /// It is told to start tasks, and has not.
    Start,
}

#[derive(Debug, Default)]
struct Inner {
    closed: Option<Step>,
    waiting: usize,
}

/// Holds the agents whose tasks are [`Gated`] with it.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<(Mutex<Inner>, Condvar)>);

impl Gate {
    /// Agents wait from now on where they come to `step`.
    pub fn close(&self, step: Step) {
        self.inner().closed = Some(step);
    }

    /// They go on, and none waits any more.
    pub fn open(&self) {
        self.inner().closed = None;
        self.0.1.notify_all();
    }

    /// Whether one waits now.
    pub fn is_reached(&self) -> bool {
        self.inner().waiting > 0
    }

    fn pass(&self, step: Step) {
        let mut inner = self.inner();
        if inner.closed != Some(step) {
            return;
        }
        inner.waiting += 1;
        let (mut inner, waited) = self
            .0
            .1
            .wait_timeout_while(inner, WAITS_AT_MOST, |inner| inner.closed == Some(step))
            .unwrap();
        inner.waiting -= 1;
        assert!(!waited.timed_out(), "nobody opened the gate");
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.0.lock().unwrap()
    }
}

/// A task whose agent waits at the gate before it goes on with it.
pub struct Gated<C> {
    pub gate: Gate,
    pub control: C,
}

impl<C: TaskControl> TaskControl for Gated<C> {
    fn is_started(&mut self) -> Result<bool, TaskError> {
        self.control.is_started()
    }

    fn begin_stop(&mut self) -> Result<(), TaskError> {
        self.control.begin_stop()
    }

    fn finish_stop(&mut self) -> Result<(), TaskError> {
        self.gate.pass(Step::Stop);
        self.control.finish_stop()
    }

    fn start(&mut self) -> Result<(), TaskError> {
        self.gate.pass(Step::Start);
        self.control.start()
    }
}
