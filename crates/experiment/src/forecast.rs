//! What analysis and simulation say of one service in one variant.

use std::collections::BTreeMap;

use tailbound_analysis::{AnalysisError, ServiceQuery, predict};
use tailbound_distribution::Distribution;
use tailbound_model::{ExecutionTime, InputFiles, ReservationServer, Service};
use tailbound_report::Labelled;
use tailbound_simulator::workload::{draw_execution_times, releases};
use tailbound_simulator::{Simulation, SimulationQuery, simulate};
use tailbound_time::Duration;

use crate::ExperimentError;
use crate::execution_times::Known;

/// What analysis says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The predictions, the most faithful first.
    pub predicted: Vec<Labelled>,
    /// Why there is none.
    pub refused: Option<String>,
}

/// The label of the prediction from the whole distribution of execution times.
pub const FAITHFUL: &str = "execution times as known";

/// Predicts the response times of a service on a reservation server: from all that is known of
/// the execution times, and, where they vary, from their mean and their maximum alone (thesis,
/// section 4.4: approximation and lower bound of the distribution function).
///
/// # Errors
/// The description itself makes no sense to the analysis.
pub fn forecast(
    name: &str,
    service: &Service,
    known: &Known,
    server: Option<ReservationServer>,
) -> Result<Forecast, ExperimentError> {
    let Some(server) = server else {
        let why = "no analysis holds: the kernel promises this domain nothing";
        return Ok(Forecast {
            predicted: Vec::new(),
            refused: Some(why.into()),
        });
    };
    let mut cases = vec![(FAITHFUL, known.clone())];
    if known.varies() {
        let mean = known.reduced("mean execution time", |times| {
            times
                .mean()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        let worst = known.reduced("worst-case execution time", |times| {
            times
                .max()
                .map(|interval| interval.high.unwrap_or(interval.low))
        });
        cases.push(("mean execution time", mean));
        cases.push(("worst-case execution time", worst));
    }
    let mut forecast = Forecast::default();
    for (label, known) in cases {
        let query = ServiceQuery {
            name,
            service,
            server: known.as_seen(server),
            execution_times: known.measured,
            dispatch_overhead: known.dispatch_overhead,
        };
        match predict(&query) {
            Ok(prediction) => {
                let mut distribution = prediction.overall;
                if let Some((trip, execution)) = known.trip_and_execution {
                    distribution.provenance.assumptions.push(format!(
                        "one request at a time: of a round trip of {trip}, {execution} is \
                         execution and uses budget (means)"
                    ));
                }
                let label = label.into();
                forecast.predicted.push(Labelled {
                    label,
                    distribution,
                });
            }
            Err(AnalysisError::Invalid { what }) => {
                return Err(AnalysisError::Invalid { what }.into());
            }
            Err(error) if label == FAITHFUL => forecast.refused = Some(error.to_string()),
            // The worst case may overload a reservation that the real mixture does not.
            Err(_) => {}
        }
    }
    Ok(forecast)
}

/// How long and from which seed a service is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Span {
    /// What is released before and counts for nothing.
    pub warm_up: Duration,
    /// How long releases count after it.
    pub duration: Duration,
    /// The seed of arrivals and execution times.
    pub seed: u64,
}

/// Simulates the service on a reservation server with the arrivals that a load generator with the
/// same seed sends.
///
/// # Errors
/// The arrivals or execution times cannot be drawn.
pub fn simulation(
    name: &str,
    service: &Service,
    known: &Known,
    server: ReservationServer,
    inputs: &InputFiles,
    span: Span,
) -> Result<Simulation, ExperimentError> {
    let query = SimulationQuery {
        name,
        service,
        server: known.as_seen(server),
        grid_phase: Duration::ZERO,
        warm_up: span.warm_up,
        dispatch_overhead: known.dispatch_overhead,
        seed: span.seed,
        record_jobs: false,
    };
    let horizon = span.warm_up.saturating_add(span.duration);
    let mut releases = releases(service, horizon, span.seed, inputs)?;
    draw_execution_times(&mut releases, &redrawn(service, known), span.seed)?;
    Ok(simulate(&query, &releases)?)
}

/// The distributions that take the place of what the description draws: not of histograms, which it
/// draws more finely, and not of traces, where each job has its own.
fn redrawn(service: &Service, known: &Known) -> BTreeMap<String, Distribution> {
    let mut measured = known.measured.clone();
    if known.trip_and_execution.is_none() {
        measured.retain(|task, _| {
            let described = service.tasks.get(task).map(|task| &task.execution_time);
            !matches!(
                described,
                Some(ExecutionTime::Histogram { .. } | ExecutionTime::Trace {})
            )
        });
    }
    measured
}

/// The distribution that a verdict is compared with: the faithful prediction.
pub fn faithful(forecast: &[Labelled]) -> Option<&Distribution> {
    forecast
        .iter()
        .find(|labelled| labelled.label == FAITHFUL)
        .map(|found| &found.distribution)
}
