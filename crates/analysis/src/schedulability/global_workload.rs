//! What the analyses of global scheduling share: how much a task can execute in a window.

use crate::AnalysisError;
use crate::sporadic_task::{SporadicTask, total_execution};

/// A task in nanoseconds. Where it fits into its period, what it executes in a window of 2^61 is below
/// 2^62.
#[derive(Clone, Copy, Debug)]
pub(super) struct GlobalTask {
    pub(super) execution_ns: u64,
    pub(super) period_ns: u64,
    pub(super) deadline_ns: u64,
}

impl GlobalTask {
    /// The most that the task executes in any window of the given length, if each of its jobs is
    /// complete `response` after its release: the first job as late as that, all others at once
    /// (Bertogna & Cirinei 2007; the slack there is D - `response`).
    pub(super) fn workload(&self, length: u64, response: u64) -> u64 {
        // A job is complete no sooner than its execution time after its release.
        let reach = (length + response).saturating_sub(self.execution_ns);
        let jobs = reach / self.period_ns;
        jobs * self.execution_ns + self.execution_ns.min(reach - jobs * self.period_ns)
    }
}

/// The tasks, if the analyses of global scheduling are for them.
///
/// # Errors
/// [`AnalysisError::Invalid`] for no CPU at all, a task with jitter, or a deadline beyond the
/// period; [`AnalysisError::OutOfRange`] where the execution times sum up to too much.
pub(super) fn global_tasks(
    tasks: &[SporadicTask],
    cpus: u32,
) -> Result<Vec<GlobalTask>, AnalysisError> {
    if cpus == 0 {
        return Err(AnalysisError::Invalid {
            what: "no CPU to schedule on; give at least one".into(),
        });
    }
    total_execution(tasks)?;
    let one = |(index, task): (usize, &SporadicTask)| {
        if task.deadline() > task.period() || !task.jitter().is_zero() {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "tests of global scheduling are for deadlines up to the periods and no jitter, \
                     and task {index} has period {}, deadline {}, jitter {}; \
                     shorten the deadline by both",
                    task.period(),
                    task.deadline(),
                    task.jitter()
                ),
            });
        }
        Ok(GlobalTask {
            execution_ns: task.execution().as_nanos(),
            period_ns: task.period().as_nanos(),
            deadline_ns: task.deadline().as_nanos(),
        })
    };
    tasks.iter().enumerate().map(one).collect()
}

/// Whether a job of one of the tasks cannot even be complete in time alone. If not, all fit into
/// their periods.
pub(super) fn any_hopeless(tasks: &[GlobalTask]) -> bool {
    tasks
        .iter()
        .any(|task| task.execution_ns > task.deadline_ns)
}

/// How far a response-time bound got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GlobalBound {
    /// The bound, within the deadline.
    Within(u64),
    /// None within the deadline.
    None,
    /// None found in the steps that were left.
    GivenUp,
}

/// The most steps towards bounds that are taken for a set; then it is not accepted.
pub(super) const MOST_STEPS: u64 = 4_000_000;

/// The least r with r = C + floor(the interference in r / CPUs), each task's capped at r - C + 1,
/// if it is within the deadline (Bertogna & Cirinei 2007).
pub(super) fn global_bound(
    task: &GlobalTask,
    cpus: u32,
    steps_left: &mut u64,
    mut interference: impl FnMut(u64, u64) -> u128,
) -> GlobalBound {
    let mut response = task.execution_ns;
    while *steps_left > 0 {
        *steps_left -= 1;
        if response > task.deadline_ns {
            return GlobalBound::None;
        }
        let cap = response - task.execution_ns + 1;
        // Beyond 2^61 it is beyond the deadline, too.
        let delay = interference(response, cap) / u128::from(cpus);
        let next = task.execution_ns + delay.min(1 << 61) as u64;
        if next <= response {
            return GlobalBound::Within(response);
        }
        response = next;
    }
    GlobalBound::GivenUp
}
