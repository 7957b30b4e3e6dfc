//! The periodic resource model (Shin and Lee 2003).

use serde::Serialize;
use tailbound_time::Duration;

use super::explicit_deadline_periodic::ExplicitDeadlinePeriodic;
use super::supply::SupplyBound;
use crate::AnalysisError;

/// The budget is given somewhere in every period: Γ = (Π, Θ) of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct PeriodicResource {
    /// With the period as deadline, it is the same.
    explicit: ExplicitDeadlinePeriodic,
}

impl PeriodicResource {
    /// A resource of `budget` in every `period`.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] unless budget <= period and
    /// 0 < period <= [`LONGEST`](super::demand::LONGEST).
    pub fn new(budget: Duration, period: Duration) -> Result<Self, AnalysisError> {
        let explicit = ExplicitDeadlinePeriodic::new(budget, period, period)?;
        Ok(Self { explicit })
    }

    /// The CPU time per period.
    pub fn budget(&self) -> Duration {
        self.explicit.budget()
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.explicit.period()
    }

    /// The linear supply bound function, (Θ / Π) (t - 2 (Π - Θ)), rounded down.
    pub fn supplied_linearly_down(&self, window: Duration) -> Duration {
        self.explicit.supplied_linearly_down(window)
    }
}

impl SupplyBound for PeriodicResource {
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
        self.explicit.longest_gap()
    }

    fn repeats_after(&self) -> Duration {
        self.explicit.period()
    }

    fn name(&self) -> &'static str {
        "periodic resource model (Shin and Lee 2003)"
    }
}
