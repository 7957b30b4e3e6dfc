//! Which task gets which priority: by rule, or by Audsley's optimal assignment.

use tailbound_model::{Scheduling, Task};
use tailbound_time::Duration;

use super::non_preemptive_response_time::non_preemptive_response_times;
use super::response_time::FixedPriorityAnalyzer;
use crate::AnalysisError;
use crate::sporadic_task::SporadicTask;

/// An order of priorities: a permutation of the indices of a set of tasks, the highest priority
/// first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PriorityOrder {
    highest_first: Vec<usize>,
}

impl PriorityOrder {
    /// The order in which the task `highest_first[0]` has the highest priority.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] where it is no permutation of 0, 1, ... .
    pub fn new(highest_first: Vec<usize>) -> Result<Self, AnalysisError> {
        let mut seen = vec![false; highest_first.len()];
        for index in &highest_first {
            match seen.get_mut(*index) {
                Some(seen) if !*seen => *seen = true,
                _ => {
                    let count = highest_first.len();
                    let what = format!(
                        "an order of {count} priorities has the task {index} twice or lacks \
                         another; it must hold every index from 0 to {} once",
                        count.saturating_sub(1)
                    );
                    return Err(AnalysisError::Invalid { what });
                }
            }
        }
        Ok(Self { highest_first })
    }

    /// The tasks as they stand: the first has the highest priority.
    #[must_use]
    pub fn as_given(count: usize) -> Self {
        Self {
            highest_first: (0..count).collect(),
        }
    }

    /// The indices of the tasks, that of the highest priority first.
    #[must_use]
    pub fn highest_first(&self) -> &[usize] {
        &self.highest_first
    }

    /// The tasks by priority, the highest first.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] where the order is for another number of tasks.
    pub fn ranked(&self, tasks: &[SporadicTask]) -> Result<Vec<SporadicTask>, AnalysisError> {
        self.check_count(tasks.len(), "tasks")?;
        Ok(self.pick(tasks))
    }

    /// Blocking times by priority; none for none.
    pub(super) fn ranked_blocking(
        &self,
        blocking: &[Duration],
    ) -> Result<Vec<Duration>, AnalysisError> {
        if !blocking.is_empty() {
            self.check_count(blocking.len(), "blocking times")?;
        }
        Ok(self.pick(blocking))
    }

    /// Values by priority, put back into the order of the tasks.
    pub(super) fn unranked<T: Copy>(&self, by_rank: &[T]) -> Vec<T> {
        let mut pairs: Vec<_> = self.highest_first.iter().zip(by_rank).collect();
        pairs.sort_unstable_by_key(|(index, _)| **index);
        pairs.into_iter().map(|(_, value)| *value).collect()
    }

    fn pick<T: Copy>(&self, values: &[T]) -> Vec<T> {
        let picked = self
            .highest_first
            .iter()
            .filter_map(|index| values.get(*index));
        picked.copied().collect()
    }

    fn check_count(&self, count: usize, of: &str) -> Result<(), AnalysisError> {
        if count == self.highest_first.len() {
            return Ok(());
        }
        let what = format!(
            "an order of {} priorities does not fit {count} {of}; give one priority per task",
            self.highest_first.len()
        );
        Err(AnalysisError::Invalid { what })
    }

    fn by_key<K: Ord>(tasks: &[SporadicTask], key: impl Fn(&SporadicTask) -> K) -> Self {
        let mut pairs: Vec<_> = tasks.iter().map(key).zip(0..).collect();
        pairs.sort();
        Self {
            highest_first: pairs.into_iter().map(|(_, index)| index).collect(),
        }
    }
}

/// The shorter the period, the higher the priority; the first of equals comes first.
///
/// Optimal for one CPU with preemption, implicit deadlines, and neither jitter nor blocking (Liu &
/// Layland, Journal of the ACM 20(1), 1973, Theorem 2).
#[must_use]
pub fn rate_monotonic(tasks: &[SporadicTask]) -> PriorityOrder {
    PriorityOrder::by_key(tasks, SporadicTask::period)
}

/// The shorter the deadline, the higher the priority; the first of equals comes first.
///
/// Optimal for one CPU with preemption, deadlines up to the periods, and neither jitter nor
/// priority-dependent blocking (Leung & Whitehead, Performance Evaluation 2(4), 1982).
#[must_use]
pub fn deadline_monotonic(tasks: &[SporadicTask]) -> PriorityOrder {
    PriorityOrder::by_key(tasks, SporadicTask::deadline)
}

/// Where a described task stands under fixed priorities, the lower number first; `None` of a scheduler without, and of a
/// task without what the scheduler goes by.
pub fn described_rank(scheduling: Scheduling, task: &Task) -> Option<u64> {
    match scheduling {
        Scheduling::Fifo | Scheduling::EarliestDeadlineFirst | Scheduling::RoundRobin => None,
        Scheduling::RateMonotonic => task.least_gap().map(Duration::as_nanos),
        Scheduling::DeadlineMonotonic => task.relative_deadline().map(Duration::as_nanos),
        Scheduling::FixedPriority => task
            .priority
            .map(|priority| u64::from(u8::MAX - priority.0)),
    }
}

/// What Audsley's assignment asks of a test: is this task schedulable right below those, right
/// above these?
#[derive(Clone, Copy, Debug)]
pub struct LowestQuestion<'a> {
    /// The index of the task.
    pub task: usize,
    /// The indices of the tasks with higher priorities, in no order that means anything.
    pub higher: &'a [usize],
    /// The indices of the tasks that already have lower priorities, the lowest first.
    pub lower: &'a [usize],
}

/// Audsley's optimal priority assignment (*On priority assignment in fixed priority scheduling*,
/// Information Processing Letters 79(1), 2001): finds an order that `test` accepts if there is one,
/// with at most n (n + 1) / 2 questions. `None` means that there is none.
///
/// Holds for tests that are OPA-compatible (Davis & Burns, Real-Time Systems 47(1), 2011): the
/// answer must not depend on the order among the higher or the lower priorities, and must not turn
/// to the worse for a task that gets a higher priority.
///
/// # Errors
/// Those of `test`.
pub fn audsley(
    count: usize,
    mut test: impl FnMut(LowestQuestion<'_>) -> Result<bool, AnalysisError>,
) -> Result<Option<PriorityOrder>, AnalysisError> {
    let mut open: Vec<usize> = (0..count).collect();
    let mut lowest_first: Vec<usize> = Vec::with_capacity(count);
    while !open.is_empty() {
        let mut is_placed = false;
        // From the last to the first, so that equals stand in the order they are given in.
        for place in (0..open.len()).rev() {
            let task = open.remove(place);
            let question = LowestQuestion {
                task,
                higher: &open,
                lower: &lowest_first,
            };
            if test(question)? {
                lowest_first.push(task);
                is_placed = true;
                break;
            }
            open.insert(place, task);
        }
        if !is_placed {
            return Ok(None);
        }
    }
    lowest_first.reverse();
    Ok(Some(PriorityOrder {
        highest_first: lowest_first,
    }))
}

/// Audsley's assignment by [response times](super::response_time::response_times): finds an order
/// under which all tasks meet their deadlines, arbitrary ones and jitter included, if there is one.
///
/// `blocking` is per task and must not depend on the order; it may be empty for none.
///
/// # Errors
/// As of [`response_times`](super::response_time::response_times), and
/// [`AnalysisError::TooManySteps`].
pub fn audsley_by_response_time(
    tasks: &[SporadicTask],
    blocking: &[Duration],
) -> Result<Option<PriorityOrder>, AnalysisError> {
    PriorityOrder::as_given(tasks.len()).ranked_blocking(blocking)?;
    let mut analyzer = FixedPriorityAnalyzer::new();
    let mut set: Vec<SporadicTask> = Vec::with_capacity(tasks.len());
    audsley(tasks.len(), |question| {
        set.clear();
        let indices = question.higher.iter().chain([&question.task]);
        set.extend(indices.filter_map(|index| tasks.get(*index).copied()));
        let own = blocking
            .get(question.task)
            .copied()
            .unwrap_or(Duration::ZERO);
        analyzer.lowest_schedulable(&set, own)
    })
}

/// Audsley's assignment where a job that has begun is not preempted, by
/// [`non_preemptive_response_times`].
/// The test is OPA-compatible: a task waits for the longest of the lower priorities, whatever their
/// order (Davis & Burns 2011, section 4.3).
///
/// # Errors
/// As of [`non_preemptive_response_times`].
pub fn audsley_without_preemption(
    tasks: &[SporadicTask],
    blocking: &[Duration],
) -> Result<Option<PriorityOrder>, AnalysisError> {
    PriorityOrder::as_given(tasks.len()).ranked_blocking(blocking)?;
    audsley(tasks.len(), |question| {
        let lower = question.lower.iter().rev();
        let higher = question.higher.iter().chain([&question.task]);
        let order = PriorityOrder::new(higher.chain(lower).copied().collect())?;
        let responses = non_preemptive_response_times(tasks, &order, blocking)?;
        let own = responses.tasks.get(question.task);
        Ok(own.is_some_and(|response| response.meets_deadline))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn task(execution_ms: u64, period_ms: u64, deadline_ms: u64) -> SporadicTask {
        let ms = Duration::from_millis;
        SporadicTask::new(ms(execution_ms), ms(period_ms), ms(deadline_ms)).unwrap()
    }

    #[test]
    fn an_order_is_a_permutation() {
        assert!(PriorityOrder::new(vec![2, 0, 1]).is_ok());
        assert!(PriorityOrder::new(vec![]).is_ok());
        for wrong in [vec![0, 0], vec![1, 2], vec![3]] {
            assert!(PriorityOrder::new(wrong).is_err());
        }
        let order = PriorityOrder::new(vec![2, 0, 1]).unwrap();
        assert_eq!(order.unranked(&['a', 'b', 'c']), ['b', 'c', 'a']);
        assert!(order.ranked(&[task(1, 2, 2)]).is_err());
    }

    #[test]
    fn rules_sort_by_their_key_and_keep_equals() {
        let tasks = [task(1, 8, 4), task(1, 9, 6), task(1, 5, 5), task(1, 8, 4)];
        assert_eq!(rate_monotonic(&tasks).highest_first(), [2, 0, 3, 1]);
        assert_eq!(deadline_monotonic(&tasks).highest_first(), [0, 3, 2, 1]);
    }

    #[test]
    fn optimal_where_no_rule_is() {
        // Lehoczky's set: deadline-monotonic fails with these deadlines, the other order does not.
        let tasks = [task(52, 100, 110), task(52, 140, 154)];
        let mut analyzer = FixedPriorityAnalyzer::new();
        let ranked = deadline_monotonic(&tasks).ranked(&tasks).unwrap();
        assert!(!analyzer.schedulable(&ranked, &[]).unwrap());
        let order = audsley_by_response_time(&tasks, &[]).unwrap().unwrap();
        assert_eq!(order.highest_first(), [1, 0]);
        let hopeless = [task(52, 100, 60), task(52, 140, 60)];
        assert_eq!(audsley_by_response_time(&hopeless, &[]).unwrap(), None);
    }
}
