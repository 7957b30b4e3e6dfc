//! The laws of relative deadlines and of first releases.

use tailbound_time::Duration;

use super::error::GenerateError;
use crate::workload::streams::RandomStream;

/// The law of the relative deadlines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadlines {
    /// The period.
    Implicit,
    /// Uniform from the execution time to the period.
    Constrained,
    /// Uniform from the execution time to so many periods.
    Arbitrary {
        /// How many; at least 1.
        most_periods: u64,
    },
}

impl Deadlines {
    pub(super) fn check(self) -> Result<(), GenerateError> {
        match self {
            Self::Arbitrary { most_periods: 0 } => Err(GenerateError::DeadlineFactor { factor: 0 }),
            _ => Ok(()),
        }
    }

    pub(super) fn draw(
        self,
        execution: Duration,
        period: Duration,
        stream: &mut RandomStream,
    ) -> Duration {
        let longest = match self {
            Self::Implicit => return period,
            Self::Constrained => period,
            Self::Arbitrary { most_periods } => {
                period.checked_mul(most_periods).unwrap_or(Duration::MAX)
            }
        };
        stream.uniform(execution, longest)
    }
}

/// The law of the first releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offsets {
    /// All tasks start together.
    Zero,
    /// Uniform over the period, its end left out (thesis, section 3.4.1: free offsets).
    Uniform,
}

impl Offsets {
    pub(super) fn draw(self, period: Duration, stream: &mut RandomStream) -> Duration {
        match self {
            Self::Zero => Duration::ZERO,
            Self::Uniform => Duration::from_nanos(stream.below(period.as_nanos())),
        }
    }
}
