//! Which reservation keeps promises.

use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_analysis::notation::PeriodRange;
use tailbound_analysis::sizing::{Choice, Infeasible, ServerKind, Sizing, SizingQuery};
use tailbound_analysis::{LimitStanza, Promise};
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};
use crate::response::{GivenQueue, GivenTimes};
use crate::tasks::{PeriodicRow, load};

/// Period, least budget, budget with margin, and resolution, all in nanoseconds; whether the
/// choice is on the front.
type ChoiceRow = (u64, Option<u64>, Option<u64>, u64, bool);
/// Probability, promised latency, the share that a CPU of its own reaches within it at most, and
/// the bounds of the latency that it reaches; times in nanoseconds.
type InfeasibleRow = (f64, u64, f64, u64, Option<u64>);

/// The least CPU limit without and with the margin, and what sets the second by the name of its form.
type LimitRow = (String, String, Vec<(&'static str, String)>);

/// The choices in the order of the periods, the index of the best, the promises that not even a CPU
/// of its own keeps, the evidence of all that, what is taken for granted, and the CPU limit of the best, if that is asked
/// for.
pub type SizingRow = (
    Vec<ChoiceRow>,
    Option<usize>,
    Vec<InfeasibleRow>,
    String,
    Vec<String>,
    Option<LimitRow>,
);

/// The budgets that keep promises.
///
/// # Errors
/// What the analysis refuses, and a server that is not sized.
#[pyfunction]
#[pyo3(signature = (per_second, execution_time, batches, slo_ns, server, periods_ns, margin_points, is_limit))]
#[allow(clippy::too_many_arguments)]
pub fn size(
    python: Python<'_>,
    per_second: f64,
    execution_time: GivenTimes,
    batches: Vec<(u32, f64)>,
    slo_ns: Vec<(f64, u64)>,
    server: &str,
    periods_ns: Vec<u64>,
    margin_points: f64,
    is_limit: bool,
) -> PyResult<SizingRow> {
    let promise = |(probability, latency_ns): (f64, u64)| Promise {
        probability,
        latency: Duration::from_nanos(latency_ns),
    };
    let server_kind = kind(python, server)?;
    let load = (per_second, batches);
    let queue = GivenQueue::new(python, load, execution_time, ReservationServer::Dedicated)?;
    let query = SizingQuery {
        queue: queue.listed().map_err(|error| refused(python, &error))?,
        promises: slo_ns.into_iter().map(promise).collect(),
        kind: server_kind,
        periods: periods_ns.into_iter().map(Duration::from_nanos).collect(),
        margin: PercentagePoints(margin_points),
    };
    let answer = interruptible(python, move || tailbound_analysis::sizing::size(&query))?;
    let answer = match is_limit {
        true => answer.map(Sizing::of_caps),
        false => answer,
    };
    answer_row(python, answer)
}

/// The shortest and the longest period of a CPU limit, in nanoseconds: those that are given, if the kernel takes them,
/// or that of containers.
///
/// # Errors
/// Periods that the kernel does not take.
#[pyfunction]
pub fn limit_periods(python: Python<'_>, range_ns: Option<(u64, u64)>) -> PyResult<(u64, u64)> {
    let asked = range_ns.map(|(low, high)| PeriodRange {
        low: Duration::from_nanos(low),
        high: Duration::from_nanos(high),
    });
    let periods = tailbound_analysis::sizing::limit_periods(asked);
    let periods =
        periods.map_err(|error| invalid(python, format!("{}; {}", error.what, error.right)))?;
    Ok((periods.low.as_nanos(), periods.high.as_nanos()))
}

/// The budgets of a deferrable server under which tasks run as on a CPU of their own.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
pub fn size_periodic(
    python: Python<'_>,
    tasks_ns: Vec<PeriodicRow>,
    periods_ns: Vec<u64>,
    margin_points: f64,
) -> PyResult<SizingRow> {
    let load = load(tasks_ns);
    let periods: Vec<Duration> = periods_ns.into_iter().map(Duration::from_nanos).collect();
    let margin = PercentagePoints(margin_points);
    let answer = interruptible(python, move || {
        tailbound_analysis::sizing::size_periodic(&load, &periods, margin)
    })?;
    answer_row(python, answer)
}

/// So many periods between two, spread as the command line spreads them.
#[pyfunction]
pub fn spread_periods(low_ns: u64, high_ns: u64, points: u32) -> Vec<u64> {
    let (low, high) = (Duration::from_nanos(low_ns), Duration::from_nanos(high_ns));
    let periods = tailbound_analysis::sizing::spread_periods(low, high, points);
    periods.into_iter().map(Duration::as_nanos).collect()
}

/// The kind of server of that name.
pub fn kind(python: Python<'_>, server: &str) -> PyResult<ServerKind> {
    let named = SIZED.into_iter().find(|kind| kind.to_string() == server);
    named.ok_or_else(|| {
        if server == "dedicated" {
            let what = "a dedicated CPU has no budget to size; choose server=\"deferrable\", or \
                        another (predict tells what a CPU of its own reaches)";
            return invalid(python, what);
        }
        let names = SIZED.map(|kind| kind.to_string());
        let what = format!("there is no server \"{server}\" to size; choose one of {names:?}");
        invalid(python, what)
    })
}

/// The kinds of server that are sized.
const SIZED: [ServerKind; 4] = [
    ServerKind::Deferrable,
    ServerKind::Periodic,
    ServerKind::Polling,
    ServerKind::ConstantBandwidth,
];

fn answer_row(python: Python<'_>, answer: Result<Sizing, Refused>) -> PyResult<SizingRow> {
    let sizing = answer.map_err(|error| refused(python, &error))?;
    Ok(row(&sizing))
}

/// A sizing as it crosses the border.
pub fn row(sizing: &Sizing) -> SizingRow {
    let choices = sizing.choices.iter().map(choice_row).collect();
    let infeasible = sizing.infeasible.iter().map(infeasible_row).collect();
    let (evidence, assumptions) = (sizing.evidence.to_string(), sizing.assumptions.clone());
    let limit = limit_row(sizing);
    (
        choices,
        sizing.best,
        infeasible,
        evidence,
        assumptions,
        limit,
    )
}

fn limit_row(sizing: &Sizing) -> Option<LimitRow> {
    let (limit, with_margin) = sizing.limits(sizing.choice()?)?;
    let forms = LimitStanza::ALL.into_iter();
    let stanzas = forms.filter_map(|form| Some((form.name(), sizing.limit_stanza(form)?)));
    Some((
        limit.to_string(),
        with_margin.to_string(),
        stanzas.collect(),
    ))
}

fn choice_row(choice: &Choice) -> ChoiceRow {
    (
        choice.period.as_nanos(),
        choice.budget.map(Duration::as_nanos),
        choice.with_margin.map(Duration::as_nanos),
        choice.resolution.as_nanos(),
        choice.on_front,
    )
}

fn infeasible_row(refusal: &Infeasible) -> InfeasibleRow {
    (
        refusal.promise.probability,
        refusal.promise.latency.as_nanos(),
        refusal.share_at_most,
        refusal.latency.low.as_nanos(),
        refusal.latency.high.map(Duration::as_nanos),
    )
}
