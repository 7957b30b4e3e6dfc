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
    /// complete `response` after its release, which is its execution time or more: the first job as late as
    /// that, all others at once (Bertogna & Cirinei 2007; the slack there is D - `response`).
    pub(super) fn workload(&self, length: u64, response: u64) -> Ramp {
        let reach = length + response - self.execution_ns;
        let (jobs, since_release) = (reach / self.period_ns, reach % self.period_ns);
        let grows = since_release < self.execution_ns;
        let until = if grows {
            self.execution_ns
        } else {
            self.period_ns
        };
        Ramp {
            value_ns: jobs * self.execution_ns + self.execution_ns.min(since_release),
            grows,
            for_ns: until - since_release,
        }
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

/// A quantity of time at some instant, and its growth right after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ramp {
    value_ns: u64,
    grows: bool,
    /// As long as this, above zero, it grows with time or stays as it is.
    for_ns: u64,
}

impl Ramp {
    /// A quantity that stays as it is.
    pub(super) const fn constant(value_ns: u64) -> Self {
        Self {
            value_ns,
            grows: false,
            for_ns: u64::MAX,
        }
    }

    /// The smaller of two quantities.
    pub(super) fn min(self, other: Self) -> Self {
        let (low, high) = match (self.value_ns, self.grows) <= (other.value_ns, other.grows) {
            true => (self, other),
            false => (other, self),
        };
        let meets_ns = match low.grows && !high.grows {
            true => high.value_ns - low.value_ns,
            false => u64::MAX,
        };
        Self {
            for_ns: low.for_ns.min(high.for_ns).min(meets_ns),
            ..low
        }
    }
}

/// The least r with r = C + floor(the interference in r / CPUs), each task's capped at r - C + 1,
/// if it is within the deadline (Bertogna & Cirinei 2007).
///
/// In x = r - C + 1 this is the least x above zero in which the interferences sum up to less than x on each
/// CPU. Where at least as many tasks are capped as there are CPUs, no x is one, and the iteration as published
/// goes on by a nanosecond a step, so that tasks of milliseconds take millions. All interferences are
/// straight between the ends of jobs: a step here goes to the answer, or to the next such end.
pub(super) fn global_bound<I: Iterator<Item = Ramp>>(
    task: &GlobalTask,
    cpus: u32,
    steps_left: &mut u64,
    interference: impl Fn(u64) -> I,
) -> GlobalBound {
    let cpus = u64::from(cpus);
    let mut capped_at = 1;
    while *steps_left > 0 {
        *steps_left -= 1;
        let response = task.execution_ns + capped_at - 1;
        if response > task.deadline_ns {
            return GlobalBound::None;
        }
        let cap = Ramp {
            value_ns: capped_at,
            grows: true,
            for_ns: u64::MAX,
        };
        let (mut sum, mut growing, mut straight_ns) = (0_u128, 0, u64::MAX);
        for one in interference(response).map(|one| one.min(cap)) {
            sum += u128::from(one.value_ns);
            growing += u64::from(one.grows);
            straight_ns = straight_ns.min(one.for_ns);
        }
        let Some(excess) = sum.checked_sub(u128::from(cpus) * u128::from(capped_at)) else {
            return GlobalBound::Within(response);
        };
        let to_answer = match cpus.saturating_sub(growing) {
            0 => u128::MAX,
            gain => excess / u128::from(gain) + 1,
        };
        let published = excess / u128::from(cpus) + 1;
        let step = to_answer.min(straight_ns.into()).max(published);
        // Beyond 2^61 it is beyond the deadline, too.
        capped_at += step.min(1 << 61) as u64;
    }
    GlobalBound::GivenUp
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The iteration as published, from below.
    fn published(task: &GlobalTask, others: &[(GlobalTask, u64)], cpus: u32) -> GlobalBound {
        let mut response = task.execution_ns;
        while response <= task.deadline_ns {
            let cap = response - task.execution_ns + 1;
            let one = |(other, late): &(GlobalTask, u64)| {
                other.workload(response, *late).value_ns.min(cap)
            };
            let delay_ns: u64 = others.iter().map(one).sum();
            let next = task.execution_ns + delay_ns / u64::from(cpus);
            if next <= response {
                return GlobalBound::Within(response);
            }
            response = next;
        }
        GlobalBound::None
    }

    fn task() -> impl Strategy<Value = GlobalTask> {
        (2_u64..60).prop_flat_map(|period_ns| {
            (1..=period_ns, 1..=period_ns).prop_map(move |(one, other)| GlobalTask {
                execution_ns: one.min(other),
                period_ns,
                deadline_ns: one.max(other),
            })
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]

        #[test]
        fn long_steps_reach_what_short_ones_do(
            own in task(),
            others in prop::collection::vec(task(), 0..7),
            cpus in 1_u32..5,
        ) {
            let own = GlobalTask { deadline_ns: 3 * own.deadline_ns, ..own };
            let late: Vec<_> = others.iter().map(|one| (*one, one.deadline_ns)).collect();
            let bound = global_bound(&own, cpus, &mut 1_000, |window| {
                late.iter().map(move |(other, response)| other.workload(window, *response))
            });
            prop_assert_eq!(bound, published(&own, &late, cpus));
        }
    }
}
