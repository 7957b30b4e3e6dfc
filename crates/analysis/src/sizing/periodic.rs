//! The least budgets of periodic and sporadic tasks: the curve W(P) as an answer of sizing.

use rayon::prelude::*;
use tailbound_distribution::Evidence;
use tailbound_model::PercentagePoints;
use tailbound_time::Duration;

use super::{Choice, Sizing, best, check_margin, check_periods, mark_front, plus_margin};
use crate::periodic_load::LeastBudgets;
use crate::{AnalysisError, PeriodicLoad};

/// The least budget at each period of a deferrable server, at the highest priority, under which the
/// tasks run as on a CPU of their own: W(P) times P (Li 2021, section 3.2.2), exact.
///
/// # Errors
/// [`AnalysisError::Invalid`] for a query that makes no sense and a load without tasks, and what
/// [`PeriodicLoad::least_budget`] refuses.
pub fn size_periodic(
    load: &PeriodicLoad,
    periods: &[Duration],
    margin: PercentagePoints,
) -> Result<Sizing, AnalysisError> {
    check_periods(periods)?;
    check_margin(margin)?;
    if load.tasks.is_empty() {
        return Err(AnalysisError::Invalid {
            what: "there is no task to find a budget for; give at least one".into(),
        });
    }
    let budgets = LeastBudgets::of(load)?;
    let choice = |period: &Duration| {
        let budget = budgets.of_period(*period)?;
        Ok(Choice {
            period: *period,
            budget: Some(budget),
            with_margin: Some(plus_margin(budget, *period, margin)),
            resolution: Duration::ZERO,
            on_front: false,
            kept: None,
        })
    };
    let mut choices: Vec<Choice> = periods
        .par_iter()
        .map(choice)
        .collect::<Result<_, AnalysisError>>()?;
    mark_front(&mut choices);
    Ok(Sizing {
        margin,
        best: best(&choices),
        choices,
        open: Vec::new(),
        infeasible: Vec::new(),
        evidence: Evidence::Bound,
        assumptions: vec![
            "budgets are exact to a nanosecond".into(),
            "the tasks run as on a CPU of their own: in no period is the budget used up".into(),
            "the reservation has the highest priority on its CPU".into(),
        ],
        cap_assumptions: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::PeriodicTask;

    fn gamma1() -> PeriodicLoad {
        let ms = Duration::from_millis;
        let task = |(offset, execution, period)| PeriodicTask {
            offset: Some(ms(offset)),
            execution: ms(execution),
            period: ms(period),
        };
        let tasks = [
            (150, 40, 250),
            (100, 200, 500),
            (50, 100, 1_000),
            (0, 200, 2_000),
        ];
        PeriodicLoad {
            tasks: tasks.into_iter().map(task).collect(),
        }
    }

    /// The task set of the thesis's figure 3.3: utilisation 76 %, reached at the hyperperiod.
    #[test]
    fn the_hyperperiod_needs_no_more_than_the_utilisation() {
        let periods = [500, 1_000, 2_000, 3_000].map(Duration::from_millis);
        let sizing = size_periodic(&gamma1(), &periods, PercentagePoints(5.0)).unwrap();
        let best = &sizing.choices[sizing.best.unwrap()];
        assert_eq!(best.period, Duration::from_secs(2));
        assert_eq!(best.budget, Some(Duration::from_millis(1_520)));
        assert_eq!(best.with_margin, Some(Duration::from_millis(1_620)));
        assert!(
            sizing
                .choices
                .iter()
                .all(|choice| choice.bandwidth().unwrap() >= 0.76)
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let margin = PercentagePoints(5.0);
        let period = [Duration::from_millis(10)];
        assert!(size_periodic(&PeriodicLoad::default(), &period, margin).is_err());
        assert!(size_periodic(&gamma1(), &[], margin).is_err());
        assert!(size_periodic(&gamma1(), &[Duration::ZERO], margin).is_err());
        assert!(size_periodic(&gamma1(), &period, PercentagePoints(-1.0)).is_err());
    }
}
