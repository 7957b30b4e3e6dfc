//! Response times on servers whose rules follow the arrivals, on a grid of time.
//!
//! [`constant_bandwidth`] and [`polling`] take Poisson arrivals and any finite law of execution
//! times, first come, first served. If the budget and all execution times are whole slots of a
//! grid that is not too fine, nothing is rounded but the moment of arrival, and the answer is a
//! proved bracket. Otherwise execution times are rounded down on one grid and up on another. On a
//! constant-bandwidth server the two yield a proved bracket, too; on a polling server, which is not
//! monotone in its load, an estimate. Jobs may come several at a time. The derivations stand in docs/concepts/response-time-grid.md.
//!
//! [`thesis`] is the discretisation of the thesis for deferrable servers, for comparisons only.

mod bracket;
mod compound;
mod constant_bandwidth;
mod law;
mod polling;
mod slots;
pub mod thesis;

use std::num::NonZeroU32;

use serde::Serialize;
use tailbound_distribution::{Distribution, Evidence, Interval, Provenance};
use tailbound_time::{Duration, Rate};

use crate::batches::BatchLaw;
use crate::{AnalysisError, SearchWatch, Unwatched};
use bracket::Bracket;
pub use constant_bandwidth::constant_bandwidth;
pub(crate) use constant_bandwidth::constant_bandwidth_watched;
pub use law::ExecutionLaw;
pub use polling::polling;
pub(crate) use polling::polling_watched;
use slots::{SlotPlans, SlotRounding};

/// A question: how long do the responses of this load take under that reservation?
#[derive(Clone, Debug)]
pub struct SlottedQuery {
    /// Batches of jobs per second; they come as a Poisson process.
    pub rate: Rate,
    /// The law of the jobs' execution times, which are independent.
    pub execution_times: ExecutionLaw,
    /// How many jobs come at a time, with probabilities; `[(1, 1.0)]` for single jobs.
    pub batches: Vec<(u32, f64)>,
    /// CPU time per period.
    pub budget: Duration,
    /// The length of the server's period, and its relative deadline.
    pub period: Duration,
    /// A constant added to every response: the way from client to service and back.
    pub dispatch_overhead: Duration,
    /// How fine the grid is.
    pub resolution: Resolution,
}

/// How fine a grid is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// The finest that a few hundred million operations pay for, on which nothing is rounded if
    /// there is such a one.
    #[default]
    Automatic,
    /// The finest that a hundredth of these operations pays for; where none is so cheap, the answer is a bracket that
    /// needs no solution.
    Rough,
    /// So many slots in the budget, at most 2048.
    SlotsPerBudget(NonZeroU32),
}

/// An answer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SlottedPrediction {
    /// The response times, as an optimistic and a pessimistic distribution function. The evidence
    /// tells whether they are proved to enclose the true one.
    pub distribution: Distribution,
    /// The mean response time.
    pub mean: Interval,
    /// The length of a slot, rounded up.
    pub slot: Duration,
    /// The method by name, with its source.
    pub method: String,
    /// The assumptions of the method.
    pub assumptions: Vec<String>,
    /// The load, in CPUs.
    pub utilisation: f64,
    /// The reservation, in CPUs.
    pub bandwidth: f64,
    /// Whether the computation was stopped, so that the grid is a rough one.
    pub is_stopped: bool,
}

impl SlottedPrediction {
    /// The least time that this share of the responses stays within; the upper end is `None`
    /// where the grid ends before it.
    pub fn quantile(&self, probability: f64) -> Interval {
        let unknown = Interval {
            low: Duration::ZERO,
            high: None,
        };
        self.distribution.quantile(probability).unwrap_or(unknown)
    }
}

impl SlottedQuery {
    /// A query of single jobs without overhead and with an automatic grid.
    pub fn new(
        rate: Rate,
        execution_times: ExecutionLaw,
        budget: Duration,
        period: Duration,
    ) -> Self {
        Self {
            rate,
            execution_times,
            batches: vec![(1, 1.0)],
            budget,
            period,
            dispatch_overhead: Duration::ZERO,
            resolution: Resolution::Automatic,
        }
    }

    /// The load, in CPUs.
    pub fn utilisation(&self) -> f64 {
        self.jobs_per_second() * self.execution_times.mean_seconds()
    }

    /// How many jobs come at a time.
    fn batch_law(&self) -> BatchLaw {
        BatchLaw::new(&self.batches)
    }

    fn jobs_per_second(&self) -> f64 {
        self.rate.as_per_second() * self.batch_law().mean()
    }

    /// The load as a share of the reservation.
    fn load(&self) -> f64 {
        self.utilisation() / self.bandwidth()
    }

    /// The same at least, where the execution times are known as a range.
    fn least_load(&self) -> f64 {
        self.jobs_per_second() * self.execution_times.least_mean_seconds() / self.bandwidth()
    }

    /// The mean response on a processor of so many CPUs' speed that is there all the time (Pollaczek and Khinchine),
    /// with the execution times of one end of what is known.
    fn processor_mean(&self, speed: f64, rounding: SlotRounding) -> Duration {
        let square = |(value, p): &(Duration, f64)| value.as_secs_f64().powi(2) * p;
        let atoms = self.execution_times.atoms_rounded(rounding).iter();
        let square: f64 = atoms.map(square).sum();
        let mean_seconds = match rounding {
            SlotRounding::Down => self.execution_times.least_mean_seconds(),
            SlotRounding::Up => self.execution_times.mean_seconds(),
        };
        // The work of a batch is a job of M/G/1, and a job waits for those of its batch before it, too.
        let batches = self.batch_law();
        let (jobs, pairs) = (batches.mean(), batches.mean_pairs());
        let square = jobs * square + pairs * mean_seconds.powi(2);
        let own_seconds = mean_seconds * (1.0 + pairs / (2.0 * jobs));
        let load = self.jobs_per_second() * mean_seconds;
        let waits = self.rate.as_per_second() * square / (2.0 * speed * (speed - load));
        Duration::from_secs_f64_nearest(own_seconds / speed + waits)
    }

    /// The rate at which the tail of the response times on a processor of the bandwidth decays.
    fn decay_per_second(&self) -> f64 {
        let batches = self.batch_law();
        let mean = self.execution_times.mean_seconds() * batches.mean();
        let moment = |theta: f64| self.moments(theta / mean).0;
        let longest = self.execution_times.atoms().last();
        let longest = longest.map_or(mean, |(value, _)| value.as_secs_f64());
        let longest = longest * f64::from(batches.longest());
        crate::lundberg::decay(self.load(), moment, (mean / longest, 64.0)) / mean
            * self.bandwidth()
    }

    /// The means of e^(theta work), theta per second: of a batch, and of a job with those of its batch before it.
    fn moments(&self, theta: f64) -> (f64, f64) {
        let atoms = self.execution_times.atoms().iter();
        let of_one = atoms.map(|(value, p)| p * (theta * value.as_secs_f64()).exp());
        self.batch_law().moments(of_one.sum())
    }

    /// The reservation, in CPUs; zero without a period.
    pub fn bandwidth(&self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos().max(1) as f64
    }
}

/// The answer of a solver, which has none where the watch stops it; on a rough grid then, which takes a hundredth of
/// the time.
fn answer_or_rough_one(
    query: &SlottedQuery,
    watch: &dyn SearchWatch,
    solver: fn(&SlottedQuery, &dyn SearchWatch) -> Result<Option<SlottedPrediction>, AnalysisError>,
) -> Result<SlottedPrediction, AnalysisError> {
    if let Some(answer) = solver(query, watch)? {
        return Ok(answer);
    }
    let rough = SlottedQuery {
        resolution: Resolution::Rough,
        ..query.clone()
    };
    let answer = solver(&rough, &Unwatched)?.ok_or_else(AnalysisError::stopped_unwatched)?;
    Ok(SlottedPrediction {
        is_stopped: true,
        ..answer
    })
}

/// What a solver finds.
struct SlottedBracket {
    bracket: Bracket,
    /// Whether the bracket is proved to enclose the truth.
    evidence: Evidence,
    /// What was rounded, in words.
    of_rounding: String,
}

/// Puts an answer together.
fn answer(
    query: &SlottedQuery,
    plans: &SlotPlans,
    law: SlottedBracket,
    method: &str,
    of_server: &[&str],
) -> SlottedPrediction {
    let mut assumptions = common_assumptions(query, of_server);
    assumptions.push(law.of_rounding);
    let mut provenance = Provenance::new(law.evidence, "response time", method);
    provenance.assumptions.clone_from(&assumptions);
    let Bracket {
        optimistic,
        pessimistic,
        mean,
    } = law.bracket;
    SlottedPrediction {
        distribution: Distribution::from_bracket(provenance, optimistic, pessimistic),
        mean,
        slot: plans.slot(),
        method: method.into(),
        assumptions,
        utilisation: query.utilisation(),
        bandwidth: query.bandwidth(),
        is_stopped: false,
    }
}

/// The words of a lattice on which nothing is rounded.
fn nothing_rounded(plans: &SlotPlans) -> String {
    format!(
        "budget and execution times are whole slots of {}; the moment of arrival is rounded outward to slots",
        plans.slot()
    )
}

/// What every answer takes for granted, and what is so of this server.
fn common_assumptions(query: &SlottedQuery, of_server: &[&str]) -> Vec<String> {
    let mut assumptions = vec![
        "releases form a Poisson process".to_string(),
        "execution times are independent draws from the given law".into(),
        "jobs are served first come, first served by one thread".into(),
        "the service has been running long enough to be in equilibrium".into(),
        "the reservation has the highest priority on its CPU, and its budget is spent only by the \
         service"
            .into(),
    ];
    assumptions.extend(of_server.iter().map(|text| (*text).to_string()));
    if !query.dispatch_overhead.is_zero() {
        assumptions.push(format!(
            "every response takes {} longer for the way there and back",
            query.dispatch_overhead
        ));
    }
    assumptions
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::search_watch::StopAfter;

    /// A load with whole slots, and one without, in 6 of 10 ms.
    fn queries() -> [SlottedQuery; 2] {
        [2_000, 2_371].map(|us| {
            let short = Duration::from_micros(us);
            let law = ExecutionLaw::new(vec![(short, 0.7), (short * 2, 0.3)]).unwrap();
            let ms = Duration::from_millis;
            SlottedQuery::new(Rate::per_second(150.0).unwrap(), law, ms(6), ms(10))
        })
    }

    /// Wherever a solver is stopped, its answer encloses that of the whole computation.
    #[test]
    fn a_stopped_answer_is_a_wider_bracket() {
        for query in queries() {
            for solver in [constant_bandwidth_watched, polling_watched] {
                let whole = solver(&query, &Unwatched).unwrap();
                let stopped = |times: &u32| {
                    let watch = StopAfter::asked(4_usize.pow(*times) - 1);
                    solver(&query, &watch).unwrap()
                };
                let mut answers = (0..).map(|times| stopped(&times));
                let early: Vec<_> = answers.by_ref().take_while(|one| one.is_stopped).collect();
                assert!(early.len() >= 3, "{} stops", early.len());
                for (answer, p) in early
                    .iter()
                    .flat_map(|one| [(one, 0.5), (one, 0.9), (one, 0.99)])
                {
                    let (wide, sharp) = (answer.quantile(p), whole.quantile(p));
                    assert!(wide.low <= sharp.low, "{p}: {wide:?} {sharp:?}");
                    let is_wider = wide.high.is_none_or(|high| Some(high) >= sharp.high);
                    assert!(is_wider, "{p}: {wide:?} {sharp:?}");
                }
            }
        }
    }

    /// An answer is whole unless it is stopped, however late the stop would have come.
    #[test]
    fn an_answer_that_is_not_stopped_is_whole() {
        for query in queries() {
            for solver in [constant_bandwidth_watched, polling_watched] {
                let whole = solver(&query, &Unwatched).unwrap();
                let mut asked = 64;
                while asked < 4_096 {
                    let answer = solver(&query, &StopAfter::asked(asked)).unwrap();
                    assert!(answer.is_stopped || answer == whole, "{asked}");
                    asked += asked / 2;
                }
            }
        }
    }

    /// Jobs of ten thousand budgets, for which no rough grid is cheap enough.
    #[test]
    fn a_stop_where_no_rough_grid_is_cheap_leaves_bounds_without_a_solution() {
        let ms = Duration::from_millis;
        let law = ExecutionLaw::new(vec![(ms(64_000), 0.5), (ms(64_001), 0.5)]).unwrap();
        let query = SlottedQuery::new(Rate::per_second(0.0056).unwrap(), law, ms(6), ms(10));
        for solver in [constant_bandwidth_watched, polling_watched] {
            let stopped = solver(&query, &StopAfter::asked(0)).unwrap();
            assert!(stopped.is_stopped);
            let of_rounding = stopped.assumptions.last().unwrap();
            assert!(
                of_rounding.starts_with("both ends are those of"),
                "{of_rounding}"
            );
            let p99 = stopped.quantile(0.99);
            assert!(p99.low >= ms(64_000), "{p99:?}");
            assert!(p99.high.is_some_and(|high| high > ms(64_000)), "{p99:?}");
        }
    }
}
