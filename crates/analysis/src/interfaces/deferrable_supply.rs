//! A deferrable server as a resource: what it gives to tasks with work.
//!
//! The server keeps its budget while its tasks have nothing to do, so that it has been used up
//! before its time only by these tasks, no earlier than a budget after a replenishment. From there
//! the next replenishment is at most period - budget away, and then the server runs at once if
//! nobody is above it. With others above, it has run for its budget by its worst-case response
//! time after the replenishment. So in windows with work it gives what an explicit-deadline
//! periodic resource gives whose deadline is that response time; where that is the period, it is
//! the periodic resource model.

use serde::Serialize;
use tailbound_time::Duration;

use super::explicit_deadline_periodic::ExplicitDeadlinePeriodic;
use super::supply::SupplyBound;
use crate::AnalysisError;

/// The supply of a deferrable server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DeferrableSupply {
    explicit: ExplicitDeadlinePeriodic,
}

impl DeferrableSupply {
    /// A server of which nobody else on its CPU is above.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] as of [`ExplicitDeadlinePeriodic::new`].
    pub fn at_highest_priority(budget: Duration, period: Duration) -> Result<Self, AnalysisError> {
        Self::with_jitter(budget, period, Duration::ZERO)
    }

    /// A server that others may hold up by `jitter` altogether while it spends a budget.
    ///
    /// # Errors
    /// As of [`ExplicitDeadlinePeriodic::by_response_time`].
    pub fn with_jitter(
        budget: Duration,
        period: Duration,
        jitter: Duration,
    ) -> Result<Self, AnalysisError> {
        ExplicitDeadlinePeriodic::by_response_time(budget, period, jitter)
            .map(|explicit| Self { explicit })
    }

    /// The explicit-deadline periodic resource with the same supply.
    pub fn as_explicit_deadline(&self) -> ExplicitDeadlinePeriodic {
        self.explicit
    }
}

impl SupplyBound for DeferrableSupply {
    fn supplied_down(&self, window: Duration) -> Duration {
        self.explicit.supplied_down(window)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        self.explicit.time_to_supply(work)
    }

    fn rate(&self) -> (u64, u64) {
        self.explicit.rate()
    }

    fn delay_up(&self) -> Duration {
        self.explicit.delay_up()
    }

    fn repeats_after(&self) -> Duration {
        self.explicit.repeats_after()
    }

    fn name(&self) -> &'static str {
        "deferrable server by its worst-case response time (docs/concepts/interfaces.md)"
    }
}
