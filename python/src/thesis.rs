//! The discretisation of the thesis, for comparisons.

use pyo3::prelude::*;
use tailbound_analysis::slotted::thesis::{self, ThesisQuery, ThesisResponses};
use tailbound_time::Duration;

use crate::interruption::interruptible;
use crate::refusal::refused;
use crate::response::rate;

/// What the thesis's own method answers.
#[pyclass(frozen, module = "tailbound._native")]
pub struct Discretised {
    responses: ThesisResponses,
}

#[pymethods]
impl Discretised {
    /// The shares of responses within each of the times.
    fn cdf(&self, at_ns: Vec<u64>) -> Vec<f64> {
        let share = |at_ns: &u64| self.responses.cdf(Duration::from_nanos(*at_ns));
        at_ns.iter().map(share).collect()
    }

    /// The least times, in nanoseconds, that these shares of the responses stay within; nothing
    /// where the workloads that are kept end before.
    fn quantile(&self, python: Python<'_>, probabilities: Vec<f64>) -> PyResult<Vec<Option<u64>>> {
        let distribution = self
            .responses
            .distribution()
            .map_err(|error| refused(python, &error))?;
        let high = |probability: &f64| {
            let interval = distribution.quantile(*probability)?;
            interval.high.map(Duration::as_nanos)
        };
        Ok(probabilities.iter().map(high).collect())
    }

    /// What was lost beyond the workloads that are kept, as a share of all jobs.
    #[getter]
    fn lost(&self) -> f64 {
        self.responses.lost
    }
}

/// Solves B/D(DS)/1 with so many slots per execution time.
///
/// # Errors
/// What the analysis refuses.
#[pyfunction]
#[pyo3(signature = (per_second, execution_time_ns, budget_ns, period_ns, slots, workloads, tolerance))]
#[allow(clippy::too_many_arguments)]
pub fn discretised(
    python: Python<'_>,
    per_second: f64,
    execution_time_ns: u64,
    budget_ns: u64,
    period_ns: u64,
    slots: u32,
    workloads: u32,
    tolerance: f64,
) -> PyResult<Discretised> {
    let query = ThesisQuery {
        rate: rate(python, per_second)?,
        execution_time: Duration::from_nanos(execution_time_ns),
        budget: Duration::from_nanos(budget_ns),
        period: Duration::from_nanos(period_ns),
        slots_per_execution: slots,
        workloads,
        tolerance,
    };
    interruptible(python, move || thesis::discretised(&query))?
        .map(|responses| Discretised { responses })
        .map_err(|error| refused(python, &error))
}
