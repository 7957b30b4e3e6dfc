//! The bounded-delay resource model (Mok, Feng and Chen 2001).

use serde::Serialize;
use tailbound_time::Duration;

use super::demand::LONGEST;
use super::supply::SupplyBound;
use crate::AnalysisError;

/// A CPU that is slower by the rate α, and late by at most the delay Δ: (α, Δ).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BoundedDelay {
    /// α as a fraction.
    numerator: u64,
    denominator: u64,
    delay: Duration,
}

impl BoundedDelay {
    /// The resource with α = `numerator / denominator`.
    ///
    /// # Errors
    /// [`AnalysisError::Invalid`] for a denominator of zero or beyond 2^55, a rate above one CPU,
    /// or a delay beyond [`LONGEST`].
    pub fn new(numerator: u64, denominator: u64, delay: Duration) -> Result<Self, AnalysisError> {
        if denominator == 0
            || denominator > LONGEST.as_nanos()
            || numerator > denominator
            || delay > LONGEST
        {
            return Err(AnalysisError::Invalid {
                what: format!(
                    "{numerator}/{denominator} of a CPU after {delay} is no bounded-delay \
                     resource; the rate must be at most one CPU, its denominator above zero, and \
                     the delay at most {LONGEST}"
                ),
            });
        }
        Ok(Self {
            numerator,
            denominator,
            delay,
        })
    }

    /// The tightest such bound of another supply on one CPU: its rate and its delay.
    ///
    /// # Errors
    /// As of [`new`](Self::new).
    pub fn of(supply: &impl SupplyBound) -> Result<Self, AnalysisError> {
        let (numerator, denominator) = supply.rate();
        Self::new(numerator, denominator, supply.delay_up())
    }
}

impl SupplyBound for BoundedDelay {
    fn supplied_down(&self, window: Duration) -> Duration {
        window
            .saturating_sub(self.delay)
            .scaled_down(self.numerator, self.denominator)
    }

    fn time_to_supply(&self, work: Duration) -> Duration {
        match (work.is_zero(), self.numerator) {
            (true, _) => Duration::ZERO,
            (false, 0) => Duration::MAX,
            (false, numerator) => work
                .scaled_up(self.denominator, numerator)
                .saturating_add(self.delay),
        }
    }

    fn rate(&self) -> (u64, u64) {
        (self.numerator, self.denominator)
    }

    fn delay_up(&self) -> Duration {
        self.delay
    }

    fn repeats_after(&self) -> Duration {
        Duration::from_nanos(self.denominator)
    }

    fn name(&self) -> &'static str {
        "bounded-delay resource model (Mok, Feng and Chen 2001)"
    }
}
