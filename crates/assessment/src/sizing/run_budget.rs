//! The least budget with which promises are kept in a share of the runs on a calibrated host.

use rayon::prelude::*;
use tailbound_analysis::sizing::{RunBudget, ServerKind};
use tailbound_model::{BackendKind, ReservationServer};
use tailbound_time::Duration;

use crate::band::{BAND_RUNS, BandError, LEAST_RUNS};

/// Budgets are searched in so many parts of a period.
const PARTS: u64 = 1000;
/// The least budget by all runs is expected within so many parts of that by few.
const MARGIN: u64 = 16;

/// `RunGoal` is the share of runs in which promises are to be kept.
#[derive(Clone, Copy)]
pub struct RunGoal<'a> {
    /// The share, above 0 and below 1.
    pub probability: f64,
    /// The host.
    pub forecasts: &'a dyn RunForecasts,
}

/// `RunForecasts` is a calibrated host, whose runs are simulated.
pub trait RunForecasts {
    /// The runs of a service under a back end.
    ///
    /// # Errors
    /// Why they cannot be simulated.
    fn of(
        &self,
        service: &str,
        backend: BackendKind,
    ) -> Result<Box<dyn CalibratedRuns + '_>, String>;
}

/// `CalibratedRuns` are the runs of one service on a calibrated host, with a reservation of any size.
pub trait CalibratedRuns: Sync {
    /// How long releases count in a run.
    fn duration(&self) -> Duration;

    /// How many runs a band is made of.
    fn count(&self) -> usize;

    /// The share of the first `runs` runs in which `server` keeps every promise at once. Equal draws are made for all
    /// servers of a period.
    ///
    /// # Errors
    /// [`BandError`] says what is missing.
    fn kept(&self, server: ReservationServer, runs: usize) -> Result<f64, BandError>;

    /// The assumptions where promises are to be kept in a share of the runs.
    fn assumptions(&self, probability: f64) -> Vec<String> {
        let count = self.count() as f64;
        let error = (probability * (1.0 - probability) / count).sqrt();
        vec![
            format!(
                "the runs to come are like the simulated ones; their share is known to {:.1} points of percentage (one \
                 standard error)",
                error * 100.0
            ),
            "the arrivals are those of the run, whose seed is known; the phase of the budget's grid is any".into(),
            format!(
                "budgets were searched in {PARTS} parts of a period: what is told keeps the promises in enough runs, and \
                 a budget less by the resolution in too few"
            ),
        ]
    }
}

/// The least budget at each period; `None` where not even the whole of the period is enough.
///
/// # Errors
/// Why no budget can be told.
pub(super) fn least_budgets(
    runs: &dyn CalibratedRuns,
    (kind, probability): (ServerKind, f64),
    periods: &[Duration],
) -> Result<Vec<(Duration, Option<RunBudget>)>, String> {
    let most = 1.0 - 1.0 / runs.count() as f64;
    if probability > most {
        return Err(format!(
            "{} simulated runs tell no share above {:.2}%; ask for less{}",
            runs.count(),
            (most * 1e4).floor() / 1e2,
            match runs.count() < BAND_RUNS {
                true => ", or for a shorter run, of which more are simulated",
                false => "",
            }
        ));
    }
    let budget = |period: &Duration| {
        let search = RunSearch {
            runs,
            kind,
            probability,
            period: *period,
        };
        search.least_budget().map(|least| (*period, least))
    };
    let budgets: Result<Vec<_>, BandError> = periods.par_iter().map(budget).collect();
    budgets.map_err(|error| error.to_string())
}

/// `RunSearch` is the search at one period.
struct RunSearch<'a> {
    runs: &'a dyn CalibratedRuns,
    kind: ServerKind,
    probability: f64,
    period: Duration,
}

impl RunSearch<'_> {
    /// The budget of so many parts of the period.
    fn budget(&self, parts: u64) -> Duration {
        self.period.scaled_up(parts, PARTS).min(self.period)
    }

    fn kept(&self, parts: u64, runs: usize) -> Result<f64, BandError> {
        let server = self.kind.with(self.budget(parts), self.period);
        self.runs.kept(server, runs)
    }

    /// The least budget that keeps the promises in enough of all runs. Few runs tell where to look for it; all runs
    /// decide.
    fn least_budget(&self) -> Result<Option<RunBudget>, BandError> {
        let all = self.runs.count();
        let whole = (PARTS, self.kept(PARTS, all)?);
        if whole.1 < self.probability {
            return Ok(None);
        }
        let few = LEAST_RUNS.min(all);
        let (_, near) = self.halved((0, whole), few)?;
        let (below, above) = (near.0.saturating_sub(MARGIN), (near.0 + MARGIN).min(PARTS));
        let (mut too_little, mut enough) = (0, whole);
        for parts in [above, below] {
            match self.kept(parts, all)? {
                kept if kept >= self.probability => enough = (parts, kept),
                _ => too_little = too_little.max(parts),
            }
        }
        let (too_little, (parts, kept)) = self.halved((too_little, enough), all)?;
        let budget = self.budget(parts);
        Ok(Some(RunBudget {
            budget,
            resolution: budget.saturating_sub(self.budget(too_little)),
            kept,
        }))
    }

    /// Halves what lies between parts that are too little and parts that are enough, with the share of the runs in
    /// which these keep the promises, until they are neighbours.
    fn halved(
        &self,
        (mut too_little, mut enough): (u64, (u64, f64)),
        runs: usize,
    ) -> Result<(u64, (u64, f64)), BandError> {
        while enough.0 - too_little > 1 {
            let middle = u64::midpoint(enough.0, too_little);
            match self.kept(middle, runs)? {
                kept if kept >= self.probability => enough = (middle, kept),
                _ => too_little = middle,
            }
        }
        Ok((too_little, enough))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    /// Runs each of which keeps its promises from a bandwidth on.
    struct Needs(Vec<f64>);

    impl CalibratedRuns for Needs {
        fn duration(&self) -> Duration {
            Duration::from_secs(20)
        }

        fn count(&self) -> usize {
            self.0.len()
        }

        fn kept(&self, server: ReservationServer, runs: usize) -> Result<f64, BandError> {
            let (budget, period) = server.budget_and_period().unwrap();
            let bandwidth = budget.as_secs_f64() / period.as_secs_f64();
            let kept = self.0[..runs].iter().filter(|need| **need <= bandwidth);
            Ok(kept.count() as f64 / runs as f64)
        }
    }

    fn least(needs: &Needs, probability: f64, period: Duration) -> Option<RunBudget> {
        let budgets = least_budgets(needs, (ServerKind::Deferrable, probability), &[period]);
        let budgets = budgets.unwrap();
        assert_eq!(budgets[0].0, period);
        budgets[0].1
    }

    /// The needs of the runs in steps of a thousandth, in an order that leaves few runs with the lowest needs, with the
    /// highest, or with some of all.
    #[test]
    fn the_least_budget_is_that_of_all_runs_whatever_few_say() {
        let period = Duration::from_nanos(7_654_321);
        let ascending = |from: u64, step: u64| {
            let needs = (0..200).map(|index| (from + index * step) as f64 / 1000.0);
            needs.collect::<Vec<f64>>()
        };
        for (from, step) in [(1, 1), (200, 4), (600, 2), (999, 0), (1, 0)] {
            let mut descending = ascending(from, step);
            descending.reverse();
            let mut mixed = ascending(from, step);
            mixed.rotate_left(77);
            for needs in [ascending(from, step), descending, mixed].map(Needs) {
                for (probability, rank) in [(0.5, 100), (0.97, 194), (0.995, 199)] {
                    let parts = from + (rank - 1) * step;
                    let sized = least(&needs, probability, period).unwrap();
                    assert_eq!(sized.budget, period.scaled_up(parts, PARTS), "{parts}");
                    assert!(sized.kept >= probability, "{sized:?}");
                    let below = sized.budget.saturating_sub(sized.resolution);
                    assert_eq!(below, period.scaled_up(parts - 1, PARTS));
                }
            }
        }
    }

    #[test]
    fn where_a_whole_period_is_too_little_there_is_no_budget() {
        let mut needs = vec![0.5; 96];
        needs.extend([2.0; 4]);
        let needs = Needs(needs);
        let period = Duration::from_millis(10);
        assert_eq!(least(&needs, 0.97, period), None);
        let sized = least(&needs, 0.96, period).unwrap();
        assert_eq!(sized.budget, Duration::from_millis(5));
    }

    #[test]
    fn a_share_that_so_few_runs_cannot_tell_is_refused() {
        let needs = Needs(vec![0.5; 100]);
        let periods = [Duration::from_millis(10)];
        let refused = least_budgets(&needs, (ServerKind::Deferrable, 0.995), &periods);
        let refused = refused.unwrap_err();
        assert!(refused.contains("no share above 99.00%"), "{refused}");
        assert!(refused.contains("for a shorter run"), "{refused}");
    }
}
