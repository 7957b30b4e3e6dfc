//! How far response times are from others, or from measured ones.

use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_distribution::{
    Distribution, Evidence, Interval, Provenance, kolmogorov_smirnov, wasserstein1_up_to,
};
use tailbound_time::Duration;

use crate::refusal::{invalid, refused};
use crate::response::{Answer, Ends, split};

/// A probability below which no response is told apart: the first step of a distribution.
const FIRST: f64 = 1e-9;

/// The quantiles of either side, the Wasserstein-1 distance up to a probability as its lower end,
/// middle and upper end in nanoseconds, and the bounds of the Kolmogorov-Smirnov distance.
type Compared = (Ends, Ends, (u64, u64, u64), (f64, f64));

/// Compares an answer with another, or with samples. Distances are taken between step functions
/// of `steps` quantiles.
///
/// # Errors
/// A probability out of range, no samples, and distributions that are not known up to `up_to`.
#[pyfunction]
#[pyo3(signature = (left, right, samples_ns, probabilities, up_to, steps))]
pub fn compare(
    python: Python<'_>,
    left: PyRef<'_, Answer>,
    right: Option<PyRef<'_, Answer>>,
    samples_ns: Option<Vec<u64>>,
    probabilities: Vec<f64>,
    up_to: f64,
    steps: u32,
) -> PyResult<Compared> {
    if !(up_to > 0.0 && up_to < 1.0) || steps == 0 {
        let what = "responses are compared up to a probability above 0 and below 1, in at least \
                    one step";
        return Err(invalid(python, what));
    }
    let levels = levels(up_to, steps);
    let (left, right) = (&*left, right.as_deref());
    let told = |error: Refused| refused(python, &error);
    let (one, one_ends) = python
        .detach(|| Ok((left.distribution(&levels)?, left.ends(&probabilities)?)))
        .map_err(told)?;
    let (other, other_ends) = match (right, samples_ns) {
        (Some(right), None) => python
            .detach(|| Ok((right.distribution(&levels)?, right.ends(&probabilities)?)))
            .map_err(told)?,
        (None, Some(samples_ns)) => measured(python, &samples_ns, &probabilities)?,
        _ => {
            return Err(invalid(
                python,
                "compare with other response times, or with samples",
            ));
        }
    };
    let distance = python
        .detach(|| wasserstein1_up_to(&one, &other, up_to))
        .map_err(|error| invalid(python, error))?;
    let largest = python
        .detach(|| kolmogorov_smirnov(&one, &other))
        .map_err(|error| invalid(python, error))?;
    let distance = [distance.low, distance.midpoint, distance.high].map(Duration::as_nanos);
    Ok((one_ends, other_ends, distance.into(), largest))
}

/// Probabilities that rise evenly to `up_to`.
fn levels(up_to: f64, steps: u32) -> Vec<f64> {
    let rising = (1..=steps).map(|step| up_to * f64::from(step) / f64::from(steps));
    std::iter::once(FIRST).chain(rising).collect()
}

fn measured(
    python: Python<'_>,
    samples_ns: &[u64],
    probabilities: &[f64],
) -> PyResult<(Distribution, Ends)> {
    let samples = samples_ns.iter().copied().map(Duration::from_nanos);
    let provenance = Provenance::new(Evidence::Sample, "response time", "as given");
    let distribution = Distribution::from_samples(provenance, samples.collect());
    let quantiles: Option<Vec<Interval>> = probabilities
        .iter()
        .map(|probability| distribution.quantile(*probability))
        .collect();
    match quantiles {
        Some(quantiles) => Ok((distribution, split(&quantiles))),
        None => Err(invalid(
            python,
            "there are no samples to compare with; give at least one",
        )),
    }
}
