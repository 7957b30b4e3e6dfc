//! Which reservation keeps promises.

use pyo3::prelude::*;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::sizing::{Choice, Infeasible, Promise, ServerKind, SizingQuery};
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_time::Duration;

use crate::refusal::{invalid, refused};
use crate::response::{execution_times, rate};

/// Period, least budget, budget with margin, and resolution, all in nanoseconds; whether the
/// choice is on the front.
type ChoiceRow = (u64, Option<u64>, Option<u64>, u64, bool);
/// Probability, promised latency, the share that a CPU of its own reaches within it at most, and
/// the bounds of the latency that it reaches; times in nanoseconds.
type InfeasibleRow = (f64, u64, f64, u64, Option<u64>);

/// The choices in the order of the periods, the index of the best, and the promises that not even
/// a CPU of its own keeps.
///
/// # Errors
/// What the analysis refuses, and a server that is not sized.
#[pyfunction]
#[pyo3(signature = (per_second, service_ns, batches, promises_ns, server, periods_ns, margin_points))]
#[allow(clippy::too_many_arguments)]
pub fn size(
    python: Python<'_>,
    per_second: f64,
    service_ns: Vec<(u64, f64)>,
    batches: Vec<(u32, f64)>,
    promises_ns: Vec<(f64, u64)>,
    server: &str,
    periods_ns: Vec<u64>,
    margin_points: f64,
) -> PyResult<(Vec<ChoiceRow>, Option<usize>, Vec<InfeasibleRow>)> {
    let kind = match server {
        "deferrable" => ServerKind::Deferrable,
        "periodic" => ServerKind::Periodic,
        other => {
            let what = format!(
                "a server \"{other}\" is not sized; choose \"deferrable\" or \"periodic\" (predict \
                 tells what a budget of another gives)"
            );
            return Err(invalid(python, what));
        }
    };
    let promise = |(probability, latency_ns): (f64, u64)| Promise {
        probability,
        latency: Duration::from_nanos(latency_ns),
    };
    let query = SizingQuery {
        queue: PoissonQueue {
            rate: rate(python, per_second)?,
            execution_times: execution_times(&service_ns),
            batches,
            server: ReservationServer::Dedicated,
        },
        promises: promises_ns.into_iter().map(promise).collect(),
        kind,
        periods: periods_ns.into_iter().map(Duration::from_nanos).collect(),
        margin: PercentagePoints(margin_points),
    };
    let found = python
        .detach(|| tailbound_analysis::sizing::size(&query))
        .map_err(|error| refused(python, &error))?;
    let choices = found.choices.iter().map(choice_row).collect();
    let infeasible = found.infeasible.iter().map(infeasible_row).collect();
    Ok((choices, found.best, infeasible))
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
