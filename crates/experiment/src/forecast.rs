//! What analysis says of one service in one variant.

use tailbound_analysis::{AnalysisError, Prediction, ServiceQuery, SharpPoints, predict_at};
use tailbound_distribution::Distribution;
use tailbound_model::{ReservationServer, Service};
use tailbound_report::Labelled;

use crate::ExperimentError;
use crate::execution_times::Known;

/// What analysis says.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Forecast {
    /// The predictions with their labels, the most faithful first.
    pub predicted: Vec<(&'static str, Prediction)>,
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
    points: &SharpPoints,
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
        match predict_at(&query, points) {
            Ok(mut prediction) => {
                let distribution = &mut prediction.overall;
                if let Some((trip, execution)) = known.trip_and_execution {
                    distribution.provenance.assumptions.push(format!(
                        "one request at a time: of a round trip of {trip}, {execution} is \
                         execution and uses budget (means)"
                    ));
                }
                forecast.predicted.push((label, prediction));
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

/// The distribution that a verdict is compared with: the faithful prediction.
pub fn faithful(forecast: &[Labelled]) -> Option<&Distribution> {
    forecast
        .iter()
        .find(|labelled| labelled.label == FAITHFUL)
        .map(|found| &found.distribution)
}
