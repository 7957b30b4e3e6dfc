//! How far response times are from others, or from measured ones.

use std::sync::Arc;

use pyo3::prelude::*;
use tailbound_analysis::AnalysisError as Refused;
use tailbound_distribution::{
    DistanceError, Distribution, Evidence, Interval, Provenance, kolmogorov_smirnov,
    wasserstein1_up_to,
};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::{invalid, refused};
use crate::response::{Answer, Ends, Source, split};

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
    let left = left.source();
    let right = match (right, samples_ns) {
        (Some(right), None) => Side::Answer(right.source()),
        (None, Some(samples_ns)) => Side::Samples(samples_ns),
        _ => {
            return Err(invalid(
                python,
                "compare with other response times, or with samples",
            ));
        }
    };
    let compared = interruptible(python, move || {
        let (one, one_ends) = Side::Answer(left).at(&levels, &probabilities)?;
        let (other, other_ends) = right.at(&levels, &probabilities)?;
        let distance = wasserstein1_up_to(&one, &other, up_to).map_err(Failed::Distance)?;
        let largest = kolmogorov_smirnov(&one, &other).map_err(Failed::Distance)?;
        Ok((one_ends, other_ends, distance, largest))
    })?;
    let (one_ends, other_ends, distance, largest) = compared.map_err(|failed| match failed {
        Failed::Analysis(error) => refused(python, &error),
        Failed::Distance(error) => invalid(python, error),
        Failed::NoSamples => invalid(
            python,
            "there are no samples to compare with; give at least one",
        ),
    })?;
    let distance = [distance.low, distance.midpoint, distance.high].map(Duration::as_nanos);
    Ok((one_ends, other_ends, distance.into(), largest))
}

/// Probabilities that rise evenly to `up_to`.
fn levels(up_to: f64, steps: u32) -> Vec<f64> {
    let rising = (1..=steps).map(|step| up_to * f64::from(step) / f64::from(steps));
    std::iter::once(FIRST).chain(rising).collect()
}

/// What is compared.
enum Side {
    Answer(Arc<Source>),
    Samples(Vec<u64>),
}

/// Why there is no comparison.
enum Failed {
    Analysis(Refused),
    Distance(DistanceError),
    NoSamples,
}

impl Side {
    /// The distribution as a step function of these levels, and its quantiles.
    fn at(&self, levels: &[f64], probabilities: &[f64]) -> Result<(Distribution, Ends), Failed> {
        match self {
            Self::Answer(source) => {
                let distribution = source.distribution(levels).map_err(Failed::Analysis)?;
                let ends = source.ends(probabilities).map_err(Failed::Analysis)?;
                Ok((distribution, ends))
            }
            Self::Samples(samples_ns) => {
                let samples = samples_ns.iter().copied().map(Duration::from_nanos);
                let provenance = Provenance::new(Evidence::Sample, "response time", "as given");
                let distribution = Distribution::from_samples(provenance, samples.collect());
                let quantiles: Option<Vec<Interval>> = probabilities
                    .iter()
                    .map(|probability| distribution.quantile(*probability))
                    .collect();
                let ends = split(&quantiles.ok_or(Failed::NoSamples)?);
                Ok((distribution, ends))
            }
        }
    }
}
