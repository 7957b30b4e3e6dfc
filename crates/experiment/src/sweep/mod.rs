//! Many simulations of one description, with some of its keys varied.
//!
//! A sweep is the product of its axes; each point of it is simulated with each seed. A *unit* is one
//! point with one seed: its rows are a function of the description, the axes and the seed alone, so
//! they may be computed anywhere and in any order. Results are written in the order of the units.

mod axis;
mod document;
mod error;
mod journal;
mod rows;
mod simulated;

use std::path::Path;
use std::sync::{Arc, Mutex};

use rayon::prelude::*;
use tailbound_model::{Description, InputFiles, Variant, check, load_inputs};
use tailbound_time::Duration;

pub use axis::Axis;
pub use error::SweepError;
pub use simulated::{SimulatedService, simulate_description};

use crate::forecast::Span;
use document::Document;
use journal::Journal;

/// The most units of a sweep.
pub const MOST_UNITS: usize = 1_000_000;

/// What is asked of a sweep.
#[derive(Clone, Debug, PartialEq)]
pub struct SweepQuery {
    /// The keys that are varied, the last one fastest.
    pub axes: Vec<Axis>,
    /// How many seeds each point is simulated with: the description's, and those that follow it.
    pub seeds: u64,
    /// How long releases count.
    pub duration: Duration,
    /// How long they do not, before.
    pub warm_up: Duration,
    /// The variant of the experiment; the first one if left out.
    pub variant: Option<String>,
}

/// A sweep whose every point is a valid description.
#[derive(Clone, Debug)]
pub struct Sweep {
    query: SweepQuery,
    points: Vec<Point>,
    fingerprint: u64,
}

/// One point.
#[derive(Clone, Debug)]
struct Point {
    /// The value of each axis.
    values: Vec<String>,
    description: Description,
    variant: Variant,
    inputs: Arc<InputFiles>,
}

impl Sweep {
    /// The sweep of the description `text`, whose relative paths start at `base`; `file` names it in
    /// problems.
    ///
    /// # Errors
    /// An axis that names no key of the description, a point that is no valid description, or too
    /// many points. Nothing has been simulated then.
    pub fn plan(
        text: &str,
        file: &str,
        base: &Path,
        query: SweepQuery,
    ) -> Result<Self, SweepError> {
        let document = Document::parse(text, file)?;
        for axis in &query.axes {
            document.find(&axis.key)?;
        }
        for (index, axis) in query.axes.iter().enumerate() {
            if query.axes[..index]
                .iter()
                .any(|other| other.key == axis.key)
            {
                let key = axis.key.clone();
                return Err(SweepError::VariedTwice { key });
            }
        }
        let lengths = query.axes.iter().map(|axis| axis.values.len());
        let seeds = usize::try_from(query.seeds).unwrap_or(usize::MAX);
        let units = lengths.fold(seeds, usize::saturating_mul);
        if units == 0 || units > MOST_UNITS {
            let most = MOST_UNITS;
            return Err(SweepError::Units { units, most });
        }
        let mut points: Vec<Point> = Vec::with_capacity(units / seeds);
        for number in 0..units / seeds {
            // The files that a description names are read once, unless an axis names others.
            let known = points.last().map(|point| Arc::clone(&point.inputs));
            let known = known.filter(|_| !query.axes.iter().any(Axis::names_files));
            points.push(point(&document, base, &query, number, known)?);
        }
        let fingerprint = journal::fingerprint(text, &query, &points);
        Ok(Self {
            query,
            points,
            fingerprint,
        })
    }

    /// How many units there are.
    pub fn units(&self) -> usize {
        self.points.len() * self.query.seeds as usize
    }

    /// The first line of the results, with its newline.
    pub fn header(&self) -> String {
        rows::header(&self.query.axes)
    }

    /// The rows of a unit, each with its newline.
    ///
    /// # Errors
    /// The point cannot be simulated.
    pub fn rows(&self, unit: usize) -> Result<String, SweepError> {
        let seeds = self.query.seeds as usize;
        let point = self.points.get(unit / seeds).ok_or(SweepError::NoUnit {
            unit,
            units: self.units(),
        })?;
        let span = Span {
            warm_up: self.query.warm_up,
            duration: self.query.duration,
            seed: point.description.seed.wrapping_add((unit % seeds) as u64),
        };
        let (description, variant) = (&point.description, &point.variant);
        let services = simulate_description(description, variant, &point.inputs, span);
        let services = services.map_err(|cause| SweepError::Simulation {
            point: told(&self.query.axes, &point.values),
            cause: Box::new(cause),
        })?;
        Ok(rows::rows(&point.values, description, span, &services))
    }

    /// Computes every unit on all cores and writes the results to `out`, whole or not at all: each
    /// unit goes to a journal beside it first, from which a sweep that was cut off goes on. `done`
    /// hears how many units are finished.
    ///
    /// # Errors
    /// A point cannot be simulated, a file cannot be written, or the journal is another sweep's.
    pub fn run(&self, out: &Path, done: impl Fn(usize) + Sync) -> Result<(), SweepError> {
        let (journal, finished) = Journal::open(out, self.fingerprint, self.units())?;
        done(finished.len());
        let missing: Vec<usize> = (0..self.units())
            .filter(|unit| !finished.contains_key(unit))
            .collect();
        let shared = Mutex::new((journal, finished));
        missing.into_par_iter().try_for_each(|unit| {
            let rows = self.rows(unit)?;
            let mut held = shared
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            let (journal, finished) = &mut *held;
            journal.add(unit, &rows)?;
            finished.insert(unit, rows);
            done(finished.len());
            Ok::<(), SweepError>(())
        })?;
        let (journal, finished) = shared
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        journal.finish(&self.header(), finished.values())
    }
}

/// Point `number`, counted with the last axis fastest.
fn point(
    document: &Document,
    base: &Path,
    query: &SweepQuery,
    number: usize,
    known: Option<Arc<InputFiles>>,
) -> Result<Point, SweepError> {
    let mut left = number;
    let mut values = Vec::with_capacity(query.axes.len());
    for axis in query.axes.iter().rev() {
        values.push(axis.values[left % axis.values.len()].clone());
        left /= axis.values.len();
    }
    values.reverse();
    let at = told(&query.axes, &values);
    let text = document.with(&query.axes, &values)?;
    let checked = check(&text, &at);
    let Some(description) = checked.description else {
        let problems = checked.problems;
        return Err(SweepError::Point {
            point: at,
            problems,
        });
    };
    let inputs = match known {
        Some(known) => known,
        None => match load_inputs(&description, base) {
            Ok(inputs) => Arc::new(inputs),
            Err(problems) => {
                return Err(SweepError::Point {
                    point: at,
                    problems,
                });
            }
        },
    };
    let variants = &description.experiment.variants;
    let wanted = query.variant.as_deref();
    let variant = variants
        .iter()
        .find(|variant| wanted.is_none_or(|name| variant.name == name));
    let variant = variant.cloned().ok_or_else(|| SweepError::NoVariant {
        name: wanted.unwrap_or_default().into(),
        known: variants
            .iter()
            .map(|one| one.name.as_str())
            .collect::<Vec<_>>()
            .join(", "),
    })?;
    Ok(Point {
        values,
        description,
        variant,
        inputs,
    })
}

/// A point in words.
fn told(axes: &[Axis], values: &[String]) -> String {
    let each = axes.iter().zip(values);
    let each: Vec<String> = each
        .map(|(axis, value)| format!("{}={value}", axis.key))
        .collect();
    match each.is_empty() {
        true => "the description".into(),
        false => each.join(" "),
    }
}

#[cfg(test)]
mod tests;
