//! The loop of manager and applications, played against models.

use serde::Serialize;
use tailbound_time::Duration;

use crate::matching_value::MatchingValue;
use crate::plan::BalancePlan;
use crate::queue_model::QueueModel;
use crate::rule::RuleError;

/// Capacities have settled once all of them are within this share of the whole around their means at the end of the phase...
const SETTLED_WITHIN: f64 = 0.1;
/// ... for so many intervals in a row.
const SETTLED_FOR: usize = 5;

/// Why nothing can be played.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BalanceSimulationError {
    /// An application has no model.
    #[error("the application `{0}` has no model")]
    NoModel(String),
    /// The rule refuses the table.
    #[error(transparent)]
    Rule(#[from] RuleError),
}

/// `PlayedBalance` is what became of all applications.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlayedBalance {
    /// The period of the capacities.
    pub period_ns: u64,
    /// The capacity that was divided.
    pub whole_ns: u64,
    /// The interval.
    pub interval_ns: u64,
    /// The applications, by name.
    pub applications: Vec<PlayedApplication>,
    /// The times between changes of the load.
    pub phases: Vec<PlayedPhase>,
}

/// An application over all intervals.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlayedApplication {
    /// The name.
    pub name: String,
    /// One element for each interval, at its end.
    pub intervals: Vec<PlayedInterval>,
}

/// An application at the end of an interval.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlayedInterval {
    /// The capacity in the interval, per period.
    pub capacity_ns: u64,
    /// The matching value that was reported.
    pub matching_value: Option<f64>,
    /// The service level.
    pub service_level: f64,
    /// The longest latency of the window.
    pub latency_ns: Option<u64>,
}

/// The time between two changes of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlayedPhase {
    /// The first interval.
    pub first: usize,
    /// The interval behind the last.
    pub end: usize,
    /// The intervals until all capacities had settled; none if they had not by the middle of the phase.
    pub settled_after: Option<usize>,
    /// The share of the intervals since then in which all capacities were near their means: bursts of requests move them for a
    /// while.
    pub steadiness: Option<f64>,
    /// The greatest difference between the capacities, by weights and in shares of the whole, of applications whose level is
    /// below 1 at the end of the phase; none with fewer than two.
    pub unfairness: Option<f64>,
    /// The mean of each application in the second half of the phase.
    pub ends: Vec<PhaseEnd>,
}

/// An application in the second half of a phase.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseEnd {
    /// The name.
    pub name: String,
    /// The mean capacity, per period.
    pub capacity_ns: u64,
    /// The mean service level.
    pub service_level: f64,
    /// The mean of the reported matching values.
    pub matching_value: Option<f64>,
    /// The mean of the longest latencies.
    pub latency_ns: Option<u64>,
}

/// Plays all phases of the models.
///
/// # Errors
/// If an application has no model, or the table makes no rule.
pub fn simulate(plan: &BalancePlan, seed: u64) -> Result<PlayedBalance, BalanceSimulationError> {
    let mut rule = plan.rule()?;
    let mut models = Vec::new();
    for (index, application) in plan.applications.iter().enumerate() {
        let name = &application.name;
        let model = application.described.simulated.as_ref();
        let model = model.ok_or_else(|| BalanceSimulationError::NoModel(name.clone()))?;
        models.push(QueueModel::new(
            model,
            plan.period,
            seed.wrapping_add(index as u64),
        ));
    }
    let interval = plan.balance.interval;
    let length = plan
        .applications
        .iter()
        .map(|one| loaded_for(plan, &one.name))
        .max();
    let intervals = length
        .unwrap_or_default()
        .as_nanos()
        .div_ceil(interval.as_nanos());
    let names = plan.applications.iter().map(|one| one.name.clone());
    let mut played: Vec<PlayedApplication> = names
        .map(|name| PlayedApplication {
            name,
            intervals: Vec::new(),
        })
        .collect();
    for number in 1..=intervals {
        for ((model, capacity), played) in models.iter_mut().zip(rule.capacities()).zip(&mut played)
        {
            model.advance(number * interval.as_nanos(), *capacity);
            played.intervals.push(PlayedInterval {
                capacity_ns: capacity.as_nanos(),
                matching_value: model.reported(),
                service_level: model.level(),
                latency_ns: model.latency().map(Duration::as_nanos),
            });
        }
        let values: Vec<_> = models.iter().map(effective_value).collect();
        rule.step(&values);
    }
    let phases = phases(plan, &rule.whole(), &played);
    Ok(PlayedBalance {
        period_ns: plan.period.as_nanos(),
        whole_ns: rule.whole().as_nanos(),
        interval_ns: interval.as_nanos(),
        applications: played,
        phases,
    })
}

/// The value by which a modelled application takes part.
fn effective_value(model: &QueueModel) -> Option<MatchingValue> {
    let value = model.reported().and_then(MatchingValue::new)?;
    Some(value.at_level(model.level()))
}

/// The length of an application's load.
fn loaded_for(plan: &BalancePlan, name: &str) -> Duration {
    let model = plan
        .balance
        .applications
        .get(name)
        .and_then(|one| one.simulated.as_ref());
    let lengths = model
        .into_iter()
        .flat_map(|model| &model.phases)
        .map(|phase| phase.length);
    lengths.fold(Duration::ZERO, Duration::saturating_add)
}

fn phases(plan: &BalancePlan, whole: &Duration, played: &[PlayedApplication]) -> Vec<PlayedPhase> {
    let intervals = played.first().map_or(0, |one| one.intervals.len());
    let mut edges = vec![0, intervals];
    for application in plan.balance.applications.values() {
        let mut at_ns = 0;
        for phase in application.simulated.iter().flat_map(|model| &model.phases) {
            at_ns += phase.length.as_nanos();
            let edge = at_ns / plan.balance.interval.as_nanos();
            edges.push(usize::try_from(edge).unwrap_or(intervals).min(intervals));
        }
    }
    edges.sort_unstable();
    edges.dedup();
    let pairs = edges.windows(2);
    let phases = pairs.map(|pair| played_phase(plan, whole, played, pair[0], pair[1]));
    phases.collect()
}

fn played_phase(
    plan: &BalancePlan,
    whole: &Duration,
    played: &[PlayedApplication],
    first: usize,
    end: usize,
) -> PlayedPhase {
    let half = first + (end - first) / 2;
    let ends: Vec<PhaseEnd> = played
        .iter()
        .map(|one| phase_end(&one.name, &one.intervals[half..end]))
        .collect();
    let whole_ns = whole.as_nanos() as f64;
    let is_settled = |number: usize| {
        let off = played
            .iter()
            .zip(&ends)
            .map(|(one, end)| one.intervals[number].capacity_ns.abs_diff(end.capacity_ns));
        off.max().unwrap_or(0) as f64 <= SETTLED_WITHIN * whole_ns
    };
    let settled = (first..=half).find(|&begin| {
        let stretch = begin..(begin + SETTLED_FOR).min(end);
        stretch.clone().all(is_settled)
    });
    let steadiness = settled.map(|begin| {
        let steady = (begin..end).filter(|&interval| is_settled(interval));
        steady.count() as f64 / (end - begin).max(1) as f64
    });
    let weights: f64 = plan
        .applications
        .iter()
        .map(|one| f64::from(one.described.weight))
        .sum();
    let mean_weight = weights / plan.applications.len().max(1) as f64;
    let short = ends
        .iter()
        .zip(&plan.applications)
        .filter(|(end, _)| end.service_level < 0.99);
    let shares = short.map(|(end, one)| {
        end.capacity_ns as f64 / whole_ns * mean_weight / f64::from(one.described.weight)
    });
    let shares: Vec<f64> = shares.collect();
    let most = shares.iter().copied().fold(f64::MIN, f64::max);
    let least = shares.iter().copied().fold(f64::MAX, f64::min);
    PlayedPhase {
        first,
        end,
        settled_after: settled.map(|interval| interval - first),
        steadiness,
        unfairness: (shares.len() > 1).then_some(most - least),
        ends,
    }
}

fn phase_end(name: &str, intervals: &[PlayedInterval]) -> PhaseEnd {
    let count = intervals.len().max(1);
    let values: Vec<f64> = intervals
        .iter()
        .filter_map(|one| one.matching_value)
        .collect();
    let latencies: Vec<u64> = intervals.iter().filter_map(|one| one.latency_ns).collect();
    PhaseEnd {
        name: name.to_owned(),
        capacity_ns: intervals.iter().map(|one| one.capacity_ns).sum::<u64>() / count as u64,
        service_level: intervals.iter().map(|one| one.service_level).sum::<f64>() / count as f64,
        matching_value: (!values.is_empty())
            .then(|| values.iter().sum::<f64>() / values.len() as f64),
        latency_ns: (!latencies.is_empty())
            .then(|| latencies.iter().sum::<u64>() / latencies.len() as u64),
    }
}
