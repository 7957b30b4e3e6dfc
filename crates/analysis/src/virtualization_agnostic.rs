//! Budget and period under which a load behaves as on a CPU of its own.

use serde::Serialize;
use tailbound_model::{Bandwidth, PercentagePoints};
use tailbound_time::Duration;

use crate::periodic_load::LeastBudgets;
use crate::{AnalysisError, PeriodicLoad};

/// The virtualization-agnostic resource interface (Li 2021, Theorem 2): the period is the
/// hyperperiod, the budget the work in it, so that the bandwidth is the utilisation; then
/// `margin` points of bandwidth are added (the thesis advises 5, section 3.3), at most up to a
/// whole CPU. A margin below zero takes bandwidth away, which breaks the theorem and is good for
/// showing that. Returns budget and period.
///
/// # Errors
/// [`AnalysisError::HyperperiodTooLong`] beyond an hour, [`AnalysisError::Overloaded`] where one
/// CPU does not suffice, [`AnalysisError::Invalid`] where nothing is left of the budget.
pub fn virtualization_agnostic(
    load: &PeriodicLoad,
    margin: PercentagePoints,
) -> Result<(Duration, Duration), AnalysisError> {
    if load.tasks.is_empty() {
        return Err(AnalysisError::Invalid {
            what: "there is no task to derive budget and period from; give at least one, or \
                   budget and period"
                .into(),
        });
    }
    let (work, period) = load.work_per_hyperperiod()?;
    // In millionths of a point, so that five points are exactly five.
    let margin_millionths = (margin.0 * 1e6).round() as i128;
    let margin_ns = div_ceil(
        margin_millionths * i128::from(period.as_nanos()),
        100_000_000,
    );
    let budget_ns = (i128::from(work.as_nanos()) + margin_ns).min(i128::from(period.as_nanos()));
    let budget = match u64::try_from(budget_ns) {
        Ok(budget_ns) if budget_ns > 0 => Duration::from_nanos(budget_ns),
        _ => {
            return Err(AnalysisError::Invalid {
                what: format!("a margin of {} points leaves no budget; raise it", margin.0),
            });
        }
    };
    Ok((budget, period))
}

/// A point of the curve W(P) (Li 2021, Fig. 3.3b): a period, and the least budget with which a
/// deferrable server at the highest priority yields the schedule of a CPU of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BandwidthPoint {
    /// The period P of the server; above zero.
    pub period: Duration,
    /// The least budget, W(P) P.
    pub least_budget: Duration,
}

impl BandwidthPoint {
    /// W(P) = least budget / period, exactly; `None` for a period of zero, which no curve has.
    pub fn bandwidth(&self) -> Option<Bandwidth> {
        Bandwidth::new(self.least_budget, self.period)
    }
}

/// The curve W(P) at the given periods, in their order; each point is exact, as of
/// [`PeriodicLoad::least_budget`]. No point lies below the utilisation, and those at multiples of
/// the hyperperiod lie on it (Theorem 2).
///
/// # Errors
/// As of [`PeriodicLoad::least_budget`]; [`AnalysisError::Invalid`] for a period of zero.
pub fn bandwidth_curve(
    load: &PeriodicLoad,
    periods: impl IntoIterator<Item = Duration>,
) -> Result<Vec<BandwidthPoint>, AnalysisError> {
    let budgets = LeastBudgets::of(load)?;
    let point = |period: Duration| {
        if period.is_zero() {
            return Err(AnalysisError::Invalid {
                what: "a server has no period of zero; give periods above zero".into(),
            });
        }
        Ok(BandwidthPoint {
            period,
            least_budget: budgets.of_period(period)?,
        })
    };
    periods.into_iter().map(point).collect()
}

/// The quotient rounded up, of a numerator of either sign and a denominator above zero.
fn div_ceil(numerator: i128, denominator: i128) -> i128 {
    numerator.div_euclid(denominator) + i128::from(numerator.rem_euclid(denominator) != 0)
}
