//! Response times on servers whose rules follow the arrivals, on a grid of time.
//!
//! [`constant_bandwidth`] and [`polling`] take Poisson arrivals and any finite law of execution
//! times, first come, first served. If the budget and all execution times are whole slots of a
//! grid that is not too fine, nothing is rounded but the moment of arrival, and the answer is a
//! proved bracket. Otherwise execution times are shared out to the two slots around them, and
//! the answer is an estimate, since neither server is monotone in its load. The derivations stand
//! in docs/concepts/response-time-grid.md.
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

use crate::AnalysisError;
use bracket::Bracket;
pub use constant_bandwidth::constant_bandwidth;
pub use law::ExecutionLaw;
pub use polling::polling;
use slots::SlotPlan;

/// A question: how long do the responses of this load take under that reservation?
#[derive(Clone, Debug)]
pub struct SlottedQuery {
    /// Jobs per second; they come as a Poisson process.
    pub rate: Rate,
    /// The law of their execution times, which are independent.
    pub execution_times: ExecutionLaw,
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
    /// A query without overhead and with an automatic grid.
    pub fn new(
        rate: Rate,
        execution_times: ExecutionLaw,
        budget: Duration,
        period: Duration,
    ) -> Self {
        Self {
            rate,
            execution_times,
            budget,
            period,
            dispatch_overhead: Duration::ZERO,
            resolution: Resolution::Automatic,
        }
    }

    /// The load, in CPUs.
    pub fn utilisation(&self) -> f64 {
        self.rate.as_per_second() * self.execution_times.mean_seconds()
    }

    /// The reservation, in CPUs; zero without a period.
    pub fn bandwidth(&self) -> f64 {
        self.budget.as_nanos() as f64 / self.period.as_nanos().max(1) as f64
    }
}

/// What a solver finds for a plan.
struct SlottedBracket {
    bracket: Bracket,
    /// Whether the equilibrium that the solver found is proved to be near the true one.
    proved: bool,
}

/// The quantiles by which a grid is compared with one half as fine.
const COMPARED: [f64; 4] = [0.5, 0.9, 0.99, 0.999];

/// Puts an answer together; of an estimate, with the outcome of a grid half as fine.
fn answer(
    query: &SlottedQuery,
    plan: &SlotPlan,
    solve: impl Fn(&SlotPlan) -> Result<SlottedBracket, AnalysisError>,
    method: &str,
    of_server: &[&str],
) -> Result<SlottedPrediction, AnalysisError> {
    let found = solve(plan)?;
    let slot = plan.slots.time_up(plan.slots.ticks_per_slot());
    let mut assumptions = common_assumptions(query, of_server);
    let subject = "response time";
    let distribution = |evidence, bracket: &Bracket| {
        Distribution::from_bracket(
            Provenance::new(evidence, subject, method),
            bracket.optimistic.clone(),
            bracket.pessimistic.clone(),
        )
    };
    let proved = plan.exact && found.proved;
    if plan.exact {
        assumptions.push(format!(
            "budget and execution times are whole slots of {slot}; the moment of arrival is \
             rounded outward to slots"
        ));
    } else {
        let coarse = solve(&plan.halved(query)?)?;
        let fine = distribution(Evidence::Estimate, &found.bracket);
        let coarse = distribution(Evidence::Estimate, &coarse.bracket);
        assumptions.push(format!(
            "execution times are shared out to the slots of {slot} around them, which is no bound: \
             the server is not monotone in its load; with slots of twice that length the median, \
             p90, p99 and p99.9 move by {} at most",
            shift(&fine, &coarse)
        ));
    }
    if !found.proved {
        assumptions.push(
            "the workload at replenishments was iterated until it stood still, without a bound on \
             its error"
                .into(),
        );
    }
    let evidence = if proved {
        Evidence::Bound
    } else {
        Evidence::Estimate
    };
    let mut distribution = distribution(evidence, &found.bracket);
    distribution.provenance.assumptions.clone_from(&assumptions);
    Ok(SlottedPrediction {
        distribution,
        mean: found.bracket.mean,
        slot,
        method: method.into(),
        assumptions,
        utilisation: query.utilisation(),
        bandwidth: query.bandwidth(),
    })
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

/// The most that the middle of a compared quantile moves.
fn shift(fine: &Distribution, coarse: &Distribution) -> Duration {
    let middle = |distribution: &Distribution, probability| {
        let interval = distribution.quantile(probability)?;
        let (low, high) = (interval.low.as_nanos(), interval.high?.as_nanos());
        Some(low / 2 + high / 2)
    };
    let moved = |probability: &f64| {
        Some(middle(fine, *probability)?.abs_diff(middle(coarse, *probability)?))
    };
    let most = COMPARED.iter().filter_map(moved).max();
    Duration::from_nanos(most.unwrap_or(u64::MAX))
}
