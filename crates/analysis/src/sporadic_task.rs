//! The sporadic task: what schedulability tests and resource interfaces know of a workload.

use serde::Serialize;
use tailbound_time::Duration;

use crate::AnalysisError;

/// The longest execution time, period, deadline, jitter or blocking that is taken: 2^60 ns, 36
/// years. With it, every step of every analysis provably fits in 64 bits.
pub const LONGEST_PARAMETER: Duration = Duration::from_nanos(1 << 60);

/// The longest window in which jobs are counted.
const LONGEST_WINDOW: Duration = Duration::from_nanos(1 << 62);

/// A stream of jobs, at least `period` apart when they arrive.
///
/// A job becomes ready at most `jitter` after it arrives, needs the CPU for at most `execution`,
/// and is to be complete `deadline` after it *arrives*. Response times count from the arrival, too.
/// Jobs of a task become ready, and run, in the order in which they arrive. (Baruah, Mok & Rosier,
/// RTSS 1990; jitter as of Audsley et al., Software Engineering Journal 8(5), 1993.) A periodic task
/// with an offset that nobody relies on is one, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct SporadicTask {
    execution: Duration,
    period: Duration,
    deadline: Duration,
    jitter: Duration,
}

impl SporadicTask {
    /// A task with its worst-case execution time, the least time between two arrivals, and the
    /// relative deadline; no jitter. An execution time beyond the deadline is taken: no test will
    /// accept it.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for an execution time or a period of zero,
    /// [`AnalysisError::OutOfRange`] for anything beyond [`LONGEST_PARAMETER`].
    pub fn new(
        execution: Duration,
        period: Duration,
        deadline: Duration,
    ) -> Result<Self, AnalysisError> {
        for (value, name) in [(execution, "execution time"), (period, "period")] {
            if value.is_zero() {
                let what = format!("a sporadic task has the {name} zero; it must be above zero");
                return Err(AnalysisError::Invalid { what });
            }
        }
        check_range(execution, "execution time of a sporadic task")?;
        check_range(period, "period of a sporadic task")?;
        check_range(deadline, "deadline of a sporadic task")?;
        Ok(Self {
            execution,
            period,
            deadline,
            jitter: Duration::ZERO,
        })
    }

    /// A task whose deadline is its period.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn implicit(execution: Duration, period: Duration) -> Result<Self, AnalysisError> {
        Self::new(execution, period, period)
    }

    /// The same task, its jobs ready up to `jitter` after they arrive.
    ///
    /// # Errors
    /// [`AnalysisError::OutOfRange`] beyond [`LONGEST_PARAMETER`].
    pub fn with_jitter(self, jitter: Duration) -> Result<Self, AnalysisError> {
        check_range(jitter, "jitter of a sporadic task")?;
        Ok(Self { jitter, ..self })
    }

    /// The same task, its deadline no later than its period: the stricter of the two.
    #[must_use]
    pub fn constrained(self) -> Self {
        Self {
            deadline: self.deadline.min(self.period),
            ..self
        }
    }

    /// The worst-case execution time C.
    #[must_use]
    pub const fn execution(&self) -> Duration {
        self.execution
    }

    /// The least time T between two arrivals.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// The deadline D, relative to the arrival.
    #[must_use]
    pub const fn deadline(&self) -> Duration {
        self.deadline
    }

    /// The release jitter J: the longest time from arrival to readiness.
    #[must_use]
    pub const fn jitter(&self) -> Duration {
        self.jitter
    }

    /// How long after its readiness the latest job has until its deadline: D - J, or `None` where
    /// the jitter alone exceeds the deadline.
    #[must_use]
    pub const fn deadline_after_release(&self) -> Option<Duration> {
        self.deadline.checked_sub(self.jitter)
    }

    /// The most jobs that both become ready and are due within a window of this length; windows
    /// beyond 2^62 ns count as that long.
    #[must_use]
    pub fn jobs_due(&self, window: Duration) -> u64 {
        let window = window.min(LONGEST_WINDOW);
        // Below 2^63, as the jitter is below 2^60.
        match (window + self.jitter).checked_sub(self.deadline) {
            Some(beyond) => beyond / self.period + 1,
            None => 0,
        }
    }

    /// The most jobs that become ready within a window of this length; windows beyond 2^62 ns count
    /// as that long.
    #[must_use]
    pub fn jobs_ready(&self, window: Duration) -> u64 {
        if window.is_zero() {
            return 0;
        }
        let window = window.min(LONGEST_WINDOW);
        (window + self.jitter)
            .as_nanos()
            .div_ceil(self.period.as_nanos())
    }
}

/// Refuses what is longer than [`LONGEST_PARAMETER`].
pub(crate) fn check_range(value: Duration, quantity: &str) -> Result<(), AnalysisError> {
    if value <= LONGEST_PARAMETER {
        return Ok(());
    }
    Err(AnalysisError::OutOfRange {
        quantity: format!("the {quantity}, {value}"),
        limit: LONGEST_PARAMETER,
    })
}

/// The sum of all execution times, in nanoseconds.
///
/// # Errors
/// [`AnalysisError::OutOfRange`] where it exceeds [`LONGEST_PARAMETER`].
pub(crate) fn total_execution(tasks: &[SporadicTask]) -> Result<u64, AnalysisError> {
    let total = tasks.iter().fold(Duration::ZERO, |sum, task| {
        sum.saturating_add(task.execution)
    });
    check_range(total, "sum of all execution times")?;
    Ok(total.as_nanos())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let ms = Duration::from_millis;
        let zero = Duration::ZERO;
        assert!(matches!(
            SporadicTask::new(ms(1), zero, ms(1)),
            Err(AnalysisError::Invalid { .. })
        ));
        assert!(matches!(
            SporadicTask::new(zero, ms(1), ms(1)),
            Err(AnalysisError::Invalid { .. })
        ));
        let long = LONGEST_PARAMETER
            .checked_add(Duration::from_nanos(1))
            .unwrap();
        for (execution, period, deadline) in [
            (long, ms(1), ms(1)),
            (ms(1), long, ms(1)),
            (ms(1), ms(1), long),
        ] {
            assert!(matches!(
                SporadicTask::new(execution, period, deadline),
                Err(AnalysisError::OutOfRange { .. })
            ));
        }
        let task = SporadicTask::new(ms(9), ms(5), ms(3)).unwrap();
        assert!(task.with_jitter(long).is_err());
        assert_eq!(
            task.with_jitter(ms(4)).unwrap().deadline_after_release(),
            None
        );
    }
}
