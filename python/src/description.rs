//! Descriptions as objects.

use std::path::PathBuf;

use pyo3::prelude::*;
use tailbound_analysis::FORMAT;
use tailbound_model::LoadedDescription;

use crate::refusal::{in_words, invalid};

/// A description of a system: hosts, domains, services, tasks, promises.
///
/// Made by ``Description.load`` from a file, or by ``Description.parse`` from a text. Both raise
/// ``AnalysisError`` with all that is wrong, each with line, key and remedy.
#[pyclass(frozen, module = "tailbound")]
pub struct Description {
    pub loaded: LoadedDescription,
}

#[pymethods]
impl Description {
    /// Reads the description (TOML) in a file; paths in it start at the file's folder.
    #[staticmethod]
    fn load(python: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let loaded = python.detach(|| FORMAT.load(&path));
        let loaded = loaded.map_err(|error| invalid(python, in_words(&error)))?;
        Ok(Self { loaded })
    }

    /// Reads a description (TOML) from a text; paths in it start at the working directory.
    #[staticmethod]
    fn parse(python: Python<'_>, text: String) -> PyResult<Self> {
        let loaded = python.detach(|| FORMAT.load_text(text, "description"));
        let loaded = loaded.map_err(|problems| invalid(python, problems))?;
        Ok(Self { loaded })
    }

    /// Its name.
    #[getter]
    fn name(&self) -> &str {
        &self.loaded.description.name
    }

    /// The text that it was read from.
    #[getter]
    fn text(&self) -> &str {
        &self.loaded.text
    }

    /// What is allowed in it and looks like a mistake.
    #[getter]
    fn warnings(&self) -> Vec<String> {
        let warnings = self.loaded.warnings.iter();
        warnings.map(ToString::to_string).collect()
    }

    fn __repr__(&self) -> String {
        format!("<Description {}>", self.loaded.description.name)
    }
}
