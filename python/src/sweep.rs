//! Many simulations of one description.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use tailbound_sweep::{Axis, SweepError, SweepQuery};
use tailbound_time::Duration;

use crate::description::Description;
use crate::interruption::interruptible;
use crate::refusal::invalid;
use crate::simulation::Span;

/// The values of an axis: as the command line has them, or one by one.
#[derive(FromPyObject)]
pub enum Values {
    /// `1ms,2ms` or `1ms..3ms/1ms`.
    Text(String),
    /// Each as a file spells it.
    List(Vec<String>),
}

/// A planned sweep.
#[pyclass(frozen)]
pub struct Sweep(Arc<tailbound_sweep::Sweep>);

#[pymethods]
impl Sweep {
    /// Plans the sweep of a description.
    ///
    /// # Errors
    /// All that is wrong with the description, its axes or a point.
    #[staticmethod]
    fn plan(
        python: Python<'_>,
        description: PyRef<'_, Description>,
        vary: Vec<(String, Values)>,
        seeds: u64,
        span_ns: Span,
        mode: Option<String>,
        variant: Option<String>,
    ) -> PyResult<Self> {
        let axes: Result<Vec<Axis>, SweepError> = vary.into_iter().map(axis).collect();
        let query = SweepQuery {
            axes: axes.map_err(|error| invalid(python, error))?,
            seeds,
            duration: Duration::from_nanos(span_ns.0),
            warm_up: Duration::from_nanos(span_ns.1),
            mode,
            variant,
        };
        let loaded = description.loaded.clone();
        let planned = interruptible(python, move || {
            let file = loaded.path.display().to_string();
            tailbound_sweep::Sweep::plan(&loaded.text, &file, loaded.base(), query)
        })?;
        let planned = planned.map_err(|error| invalid(python, error))?;
        Ok(Self(Arc::new(planned)))
    }

    /// The sweep that another process packed.
    ///
    /// # Errors
    /// The bytes are no parcel, or another version's.
    #[staticmethod]
    fn from_parcel(python: Python<'_>, parcel: &[u8]) -> PyResult<Self> {
        let sweep = tailbound_sweep::Sweep::from_parcel(parcel);
        let sweep = sweep.map_err(|error| invalid(python, error))?;
        Ok(Self(Arc::new(sweep)))
    }

    /// The sweep as bytes for another process.
    ///
    /// # Errors
    /// A file is named by what is no text.
    fn to_parcel<'py>(&self, python: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let parcel = self.0.to_parcel();
        let parcel = parcel.map_err(|error| invalid(python, error))?;
        Ok(PyBytes::new(python, &parcel))
    }

    /// How many units there are.
    #[getter]
    fn units(&self) -> usize {
        self.0.units()
    }

    /// The first line of the results.
    #[getter]
    fn header(&self) -> String {
        self.0.header()
    }

    /// The rows of a unit.
    ///
    /// # Errors
    /// The point cannot be simulated.
    fn rows(&self, python: Python<'_>, unit: usize) -> PyResult<String> {
        let sweep = Arc::clone(&self.0);
        let rows = interruptible(python, move || sweep.rows(unit))?;
        rows.map_err(|error| invalid(python, error))
    }
}

fn axis((key, values): (String, Values)) -> Result<Axis, SweepError> {
    match values {
        Values::Text(text) => Ok(format!("{key}={text}").parse::<Axis>()?),
        Values::List(values) => Ok(Axis::of(key, values)?),
    }
}

/// What of a sweep is finished, in a file beside the results.
#[pyclass]
pub struct Collection(Option<tailbound_sweep::Collection>);

#[pymethods]
impl Collection {
    /// What is finished of a sweep whose results are to be in `out`.
    ///
    /// # Errors
    /// The journal is another sweep's or in use, or cannot be written.
    #[staticmethod]
    fn open(python: Python<'_>, sweep: &Sweep, out: PathBuf) -> PyResult<Self> {
        let opened = tailbound_sweep::Collection::open(&sweep.0, Path::new(&out));
        let opened = opened.map_err(|error| invalid(python, error))?;
        Ok(Self(Some(opened)))
    }

    /// The units that are not finished.
    ///
    /// # Errors
    /// The collection was closed.
    fn missing(&self) -> PyResult<Vec<usize>> {
        Ok(self.held()?.missing())
    }

    /// The results so far, with the first line.
    ///
    /// # Errors
    /// The collection was closed.
    fn text(&self) -> PyResult<String> {
        Ok(self.held()?.text())
    }

    /// Adds the rows of a unit.
    ///
    /// # Errors
    /// The journal cannot be written, or there is no such unit.
    fn add(&mut self, python: Python<'_>, unit: usize, rows: String) -> PyResult<()> {
        let held = self.0.as_mut().ok_or_else(closed)?;
        held.add(unit, rows).map_err(|error| invalid(python, error))
    }

    /// Writes the results and takes the journal away.
    ///
    /// # Errors
    /// Units are missing, or a file cannot be written.
    fn write(&mut self, python: Python<'_>) -> PyResult<()> {
        let held = self.0.take().ok_or_else(closed)?;
        held.write().map_err(|error| invalid(python, error))
    }

    /// Takes the journal away; the results are kept elsewhere.
    ///
    /// # Errors
    /// Units are missing, or the journal cannot be removed.
    fn close(&mut self, python: Python<'_>) -> PyResult<()> {
        let held = self.0.take().ok_or_else(closed)?;
        held.close().map_err(|error| invalid(python, error))
    }

    /// Lets go of the journal, from which the sweep can go on.
    fn leave(&mut self) {
        self.0 = None;
    }
}

impl Collection {
    fn held(&self) -> PyResult<&tailbound_sweep::Collection> {
        self.0.as_ref().ok_or_else(closed)
    }
}

fn closed() -> PyErr {
    PyValueError::new_err("the collection was closed")
}
