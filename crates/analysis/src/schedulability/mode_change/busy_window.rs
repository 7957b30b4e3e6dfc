//! When a window ends in which there is always work, on any supply.

use tailbound_time::Duration;

use crate::AnalysisError;
use crate::interfaces::SupplyBound;
use crate::sporadic_task::SporadicTask;

/// The most steps towards the ends of windows that one analysis takes.
const MOST_STEPS: u64 = 10_000_000;

/// Searches for the ends of busy windows on a supply; counts its steps.
pub(super) struct BusyWindows<'a> {
    supply: &'a dyn SupplyBound,
    steps: u64,
}

impl<'a> BusyWindows<'a> {
    pub(super) const fn new(supply: &'a dyn SupplyBound) -> Self {
        Self { supply, steps: 0 }
    }

    /// The least window, `earliest` or longer, in which the supply does work of `once_ns` and
    /// every job that the `recurring` tasks release in it, all of them from its start on as often as
    /// they can. `None` where that is beyond `limit`.
    ///
    /// Every step counts the work in a window that is not too long, and goes on with the time that
    /// the supply takes for it, so that it steps over no end.
    pub(super) fn end(
        &mut self,
        once_ns: u128,
        recurring: &[SporadicTask],
        earliest: Duration,
        limit: Duration,
    ) -> Result<Option<Duration>, AnalysisError> {
        let mut window = earliest;
        while window <= limit {
            self.steps += 1;
            if self.steps > MOST_STEPS {
                return Err(AnalysisError::TooManySteps {
                    method: "the search for the end of a busy window",
                    limit: MOST_STEPS,
                });
            }
            let work = |task: &SporadicTask| {
                u128::from(task.jobs_ready(window)) * u128::from(task.execution().as_nanos())
            };
            let asked_ns = once_ns + recurring.iter().map(work).sum::<u128>();
            let asked = u64::try_from(asked_ns).map_or(Duration::MAX, Duration::from_nanos);
            let done = self.supply.time_to_supply(asked);
            if done <= window {
                return Ok(Some(window));
            }
            window = done;
        }
        Ok(None)
    }
}
