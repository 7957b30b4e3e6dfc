//! Tasks that are processes, stopped by SIGSTOP and continued by SIGCONT.

use std::io;

use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_linux::task_process::{Activity, SignalReach, TaskProcess};
use tailbound_time::{Clock, Duration, Instant};

use crate::agent::engine::TaskError;
use crate::agent::task_table::TaskControl;
use crate::wire::Name;

/// Between two looks at a process that has not stopped yet. The agent sleeps meanwhile: on its own
/// CPU it would keep the process from stopping.
const LOOK_AGAIN_AFTER: Duration = Duration::from_micros(20);
/// After this time a thread that was told to stop, and still counts as running, only waits for a
/// CPU: on one it would have been interrupted, which takes the kernel a few microseconds. (A virtual
/// CPU that is not run itself takes the interrupt in before it executes anything.)
const INTERRUPTED_WITHIN: Duration = Duration::from_micros(100);

/// A task of one or more processes. Their children are not followed; a cgroup holds them, too.
#[derive(Debug)]
pub struct SignalledProcesses {
    task: Name,
    processes: Vec<SignalledProcess>,
    stop_within: Duration,
}

/// One process, and what it was told last.
#[derive(Debug)]
struct SignalledProcess {
    process: TaskProcess,
    reach: SignalReach,
    told_at: Instant,
    /// What was seen of it right after, until it is looked at.
    seen: Option<Activity>,
}

impl SignalledProcesses {
    /// The task that consists of `processes`, which stop within `stop_within` or have failed to.
    pub fn new(task: Name, processes: Vec<TaskProcess>, stop_within: Duration) -> Self {
        let member = |process| SignalledProcess {
            process,
            reach: SignalReach::EveryThread,
            told_at: Instant::ORIGIN,
            seen: None,
        };
        Self {
            task,
            processes: processes.into_iter().map(member).collect(),
            stop_within,
        }
    }

    fn failed(&self, attempt: &str, pid: u32, source: io::Error) -> TaskError {
        match source.kind() {
            io::ErrorKind::NotFound => self.gone(pid),
            _ => TaskError::System {
                task: self.task.clone(),
                attempt: format!("{attempt} process {pid}"),
                source,
            },
        }
    }

    fn gone(&self, pid: u32) -> TaskError {
        TaskError::Gone {
            task: self.task.clone(),
            what: format!("process {pid}"),
        }
    }

    fn await_stop(&self, member: &SignalledProcess) -> Result<(), TaskError> {
        let pid = member.process.pid();
        // Since when every thread has known.
        let mut known_at = (member.reach == SignalReach::EveryThread).then_some(member.told_at);
        let mut seen = member.seen;
        loop {
            let activity = match seen.take() {
                Some(activity) => Ok(activity),
                None => member.process.activity(),
            };
            let activity = activity.map_err(|source| self.failed("look at", pid, source))?;
            let now = Monotonic.now();
            if activity.stopped > 0 || activity.threads() <= 1 {
                known_at = known_at.or(Some(now));
            }
            if is_held(activity, known_at.map(|at| now.saturating_since(at))) {
                return Ok(());
            }
            if now.saturating_since(member.told_at) >= self.stop_within {
                return Err(TaskError::GoesOn {
                    task: self.task.clone(),
                    what: format!("process {pid}"),
                    limit: self.stop_within,
                });
            }
            sleep_until(now.saturating_add(LOOK_AGAIN_AFTER))
                .map_err(|source| self.failed("wait for", pid, source))?;
        }
    }
}

/// Whether a process that was sent SIGSTOP executes nothing of its program any more. `known_for` is
/// how long every one of its threads has known; `None` where only some may know.
///
/// A thread that knows returns to the program no more; it may still be in a system call, or wait
/// for a CPU that others have. So a process has stopped when
///
/// - all of its threads are stopped; or
/// - all of them know, and none is on a CPU, or those that may be have had the time to be
///   interrupted; or
/// - none of them is ready, runs, or waits where signals do not reach: the signal has woken its
///   thread, which is asleep all the same, so the freezer has it (and all others in the cgroup).
fn is_held(activity: Activity, known_for: Option<Duration>) -> bool {
    if activity.threads() == activity.stopped {
        return true;
    }
    match known_for {
        Some(known_for) => activity.running == 0 || known_for >= INTERRUPTED_WITHIN,
        None => activity.running + activity.ready + activity.uninterruptible == 0,
    }
}

impl TaskControl for SignalledProcesses {
    fn is_started(&mut self) -> Result<bool, TaskError> {
        for SignalledProcess { process, .. } in &self.processes {
            let activity = process
                .activity()
                .map_err(|source| self.failed("look at", process.pid(), source))?;
            if activity.threads() > activity.stopped {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn begin_stop(&mut self) -> Result<(), TaskError> {
        let mut refused = None;
        for member in &mut self.processes {
            match member.process.stop() {
                Ok(stopping) => (member.reach, member.seen) = (stopping.reach, stopping.seen),
                // It executes nothing any more, which is what was asked for.
                Err(error) if error.kind() == io::ErrorKind::NotFound => member.seen = None,
                Err(source) => {
                    refused = Some((member.process.pid(), source));
                    break;
                }
            }
            member.told_at = Monotonic.now();
        }
        match refused {
            None => Ok(()),
            Some((pid, source)) => Err(self.failed("stop", pid, source)),
        }
    }

    fn finish_stop(&mut self) -> Result<(), TaskError> {
        self.processes
            .iter()
            .try_for_each(|member| self.await_stop(member))
    }

    fn start(&mut self) -> Result<(), TaskError> {
        // All that is left of a task starts, even where that is too little.
        let mut missing = None;
        for SignalledProcess { process, .. } in &self.processes {
            let ended = process
                .has_ended()
                .map_err(|source| self.failed("look at", process.pid(), source))?;
            if ended {
                missing = Some(process.pid());
                continue;
            }
            match process.resume() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    missing = Some(process.pid());
                }
                Err(source) => return Err(self.failed("continue", process.pid(), source)),
            }
        }
        missing.map_or(Ok(()), |pid| Err(self.gone(pid)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Threads that are stopped, running, ready, uninterruptible and sleeping.
    fn held(counts: [u32; 5], known_for: Option<Duration>) -> bool {
        let [stopped, running, ready, uninterruptible, sleeping] = counts;
        let activity = Activity {
            stopped,
            running,
            ready,
            uninterruptible,
            sleeping,
        };
        is_held(activity, known_for)
    }

    #[test]
    fn a_process_is_held_once_no_thread_can_return_to_its_program() {
        let just_now = Some(Duration::from_micros(1));
        let long_since = Some(INTERRUPTED_WITHIN);
        // Ended, or all stopped.
        assert!(held([0, 0, 0, 0, 0], None));
        assert!(held([3, 0, 0, 0, 0], None));
        // All know: one may be on a CPU for a moment, and is off it after that.
        assert!(!held([0, 1, 0, 0, 0], just_now));
        assert!(!held([2, 1, 0, 0, 0], just_now));
        assert!(held([0, 1, 0, 0, 0], long_since));
        // All know: ready, frozen, or in a disk's wait.
        assert!(held([1, 0, 1, 1, 1], just_now));
        // Several threads, none of which has told the others: only the freezer holds them.
        assert!(!held([0, 1, 0, 0, 2], None));
        assert!(!held([0, 0, 1, 0, 2], None));
        assert!(!held([0, 0, 0, 1, 2], None));
        assert!(held([0, 0, 0, 0, 3], None));
    }
}
