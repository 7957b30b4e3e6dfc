//! Many simulations of one description, with some of its keys varied.
//!
//! A sweep is the product of its axes; each point of it is simulated with each seed. A *unit* is one
//! point with one seed: its rows are a function of the description, the axes and the seed alone, so
//! they may be computed anywhere and in any order. Results are written in the order of the units.
//!
//! Planning and computing a unit touch no file but those that the description names; a [`Sweep`] goes
//! to other processes and machines as a parcel. What is finished is in a [`Collection`], whose journal
//! is the same whoever computes the units.

mod collection;
mod document;
mod error;
mod journal;
mod parcel;
mod rows;

use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::sync::Mutex;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use tailbound_analysis::FORMAT;
use tailbound_analysis::resolution::Deployment;
use tailbound_assessment::chain_simulation::CountedSpan;
use tailbound_assessment::simulation::{SystemSimulation, simulate_system};
use tailbound_model::{Description, InputFiles, Variant, files_named, load_inputs};
use tailbound_simulator::host::{lay_out, promises, simulate_host};
use tailbound_time::Duration;

pub use collection::Collection;
pub use document::VariedDescription;
pub use error::SweepError;
pub use journal::{JournalError, UnitJournal, hash_of};
pub use tailbound_model::{Axis, AxisError};

/// The most units of a sweep.
pub const MOST_UNITS: usize = 1_000_000;

/// What is asked of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SweepQuery {
    /// The keys that are varied, the last one fastest.
    pub axes: Vec<Axis>,
    /// How many seeds each point is simulated with: the description's, and those that follow it.
    pub seeds: u64,
    /// How long releases count.
    pub duration: Duration,
    /// How long they do not, before.
    pub warm_up: Duration,
    /// The mode that the system is in; the initial one if left out.
    pub mode: Option<String>,
    /// The variant of the experiment; as described if left out.
    pub variant: Option<String>,
}

/// A sweep whose every point is a description that can be simulated.
#[derive(Clone, Debug)]
pub struct Sweep {
    query: SweepQuery,
    document: VariedDescription,
    /// The files that any point names, each once.
    inputs: InputFiles,
    fingerprint: u64,
}

/// One point.
struct Point {
    /// The value of each axis.
    values: Vec<String>,
    /// What stands at that point, as its mode and variant have it.
    description: Description,
}

impl Sweep {
    /// The sweep of the description `text`, whose relative paths start at `base`; `file` names it in
    /// problems.
    ///
    /// # Errors
    /// An axis that names no key of the description, a point that is no description that can be
    /// simulated, or too many points. Nothing has been simulated then.
    pub fn plan(
        text: &str,
        file: &str,
        base: &Path,
        query: SweepQuery,
    ) -> Result<Self, SweepError> {
        let document = VariedDescription::parse(text, file)?;
        check_axes(&document, &query.axes)?;
        let points = count_points(&query)?;
        let mut sweep = Self {
            query,
            document,
            inputs: InputFiles::default(),
            fingerprint: 0,
        };
        let (mut read, mut seen) = (BTreeSet::new(), HashMap::new());
        for number in 0..points {
            let (values, checked) = sweep.checked(number)?;
            sweep.check_values(number, &checked, &mut seen)?;
            let named = files_named(&checked);
            if !named.is_subset(&read) {
                let inputs = load_inputs(&checked, base).map_err(|problems| {
                    let point = in_words(&sweep.query.axes, &values);
                    SweepError::Point { point, problems }
                })?;
                sweep.inputs.merge(inputs);
                read.extend(named);
            }
            let point = sweep.hosted(values, &checked)?;
            for host in point.description.hosts.keys() {
                lay_out(&point.description, host, &sweep.inputs)
                    .map_err(|cause| sweep.not_simulated(&point, cause))?;
            }
        }
        sweep.fingerprint = journal::fingerprint(text, &sweep.query, &sweep.inputs);
        Ok(sweep)
    }

    /// Refuses two values of one key that mean the same: readers of the results would count one of
    /// them twice. `seen` has the points so far, by the hash of their description.
    fn check_values(
        &self,
        number: usize,
        checked: &Description,
        seen: &mut HashMap<u64, usize>,
    ) -> Result<(), SweepError> {
        // Every value is seen where all other keys have their first one.
        let varied = self.positions(number).into_iter().filter(|at| *at > 0);
        if varied.count() > 1 {
            return Ok(());
        }
        let hash = journal::hash_of(&format_args!("{checked:?}"));
        let Some(other) = seen.insert(hash, number) else {
            return Ok(());
        };
        match self.checked(other)?.1 == *checked {
            false => Ok(()),
            true => Err(SweepError::SamePoint {
                first: self.point_in_words(other),
                second: self.point_in_words(number),
            }),
        }
    }

    /// How many units there are.
    pub fn units(&self) -> usize {
        count_points(&self.query).map_or(0, |points| points * self.query.seeds as usize)
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
        let units = self.units();
        if unit >= units {
            return Err(SweepError::NoUnit { unit, units });
        }
        let seeds = self.query.seeds as usize;
        let (values, checked) = self.checked(unit / seeds)?;
        let point = self.hosted(values, &checked)?;
        let seed = point.description.seed.wrapping_add((unit % seeds) as u64);
        let system = self.simulate(&point, seed)?;
        let promises = promises(&point.description, &system.hosts);
        Ok(rows::rows(&point.values, seed, &system, &promises))
    }

    /// Computes every unit on all cores and writes the results to `out`, whole or not at all: each
    /// unit goes to a journal beside it first, from which a sweep that was cut off goes on. `done`
    /// hears how many units are finished.
    ///
    /// # Errors
    /// A point cannot be simulated, a file cannot be written, or the journal is another sweep's.
    pub fn run(&self, out: &Path, done: impl Fn(usize) + Sync) -> Result<(), SweepError> {
        let collection = Collection::open(self, out)?;
        done(collection.finished());
        let missing = collection.missing();
        let shared = Mutex::new(collection);
        missing.into_par_iter().try_for_each(|unit| {
            let rows = self.rows(unit)?;
            let mut collection = shared
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            collection.add(unit, rows)?;
            done(collection.finished());
            Ok::<(), SweepError>(())
        })?;
        let collection = shared
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        collection.write()
    }

    /// The position of each axis at point `number`, counted with the last axis fastest.
    fn positions(&self, number: usize) -> Vec<usize> {
        let mut left = number;
        let axes = self.query.axes.iter().rev();
        let mut positions: Vec<usize> = axes
            .map(|axis| {
                let position = left % axis.values.len();
                left /= axis.values.len();
                position
            })
            .collect();
        positions.reverse();
        positions
    }

    fn values(&self, number: usize) -> Vec<String> {
        let axes = self.query.axes.iter().zip(self.positions(number));
        axes.map(|(axis, at)| axis.values[at].clone()).collect()
    }

    fn point_in_words(&self, number: usize) -> String {
        in_words(&self.query.axes, &self.values(number))
    }

    /// The values of point `number`, and the description there.
    fn checked(&self, number: usize) -> Result<(Vec<String>, Description), SweepError> {
        let axes = &self.query.axes;
        let values = self.values(number);
        let point = in_words(axes, &values);
        let checked = FORMAT.check(&self.document.with(axes, &values)?, &point);
        match checked.description {
            Some(description) => Ok((values, description)),
            None => {
                let problems = checked.problems;
                Err(SweepError::Point { point, problems })
            }
        }
    }

    /// The point as its mode and variant have it.
    fn hosted(&self, values: Vec<String>, checked: &Description) -> Result<Point, SweepError> {
        let as_described = Variant::as_described();
        let variant = match &self.query.variant {
            Some(name) => variant_named(checked, name)?,
            None => &as_described,
        };
        let deployment = Deployment::of(checked, self.query.mode.as_deref(), variant);
        let deployment = deployment.map_err(|cause| SweepError::Resolution {
            point: in_words(&self.query.axes, &values),
            cause,
        })?;
        Ok(Point {
            values,
            description: deployment.description,
        })
    }

    fn simulate(&self, point: &Point, seed: u64) -> Result<SystemSimulation, SweepError> {
        let span = CountedSpan {
            seed,
            warm_up: self.query.warm_up,
            duration: self.query.duration,
        };
        simulate_system(&point.description, &self.inputs, span, simulate_host)
            .map_err(|cause| self.not_simulated(point, cause))
    }

    fn not_simulated(
        &self,
        point: &Point,
        cause: tailbound_simulator::host::HostError,
    ) -> SweepError {
        SweepError::Simulation {
            point: in_words(&self.query.axes, &point.values),
            cause: Box::new(cause),
        }
    }
}

fn check_axes(document: &VariedDescription, axes: &[Axis]) -> Result<(), SweepError> {
    for axis in axes {
        // The column of the seeds has that name, and the points would share seeds.
        if axis.key == "seed" {
            return Err(SweepError::SeedVaried);
        }
        document.find(&axis.key)?;
    }
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|other| other.key == axis.key) {
            let key = axis.key.clone();
            return Err(SweepError::VariedTwice { key });
        }
    }
    Ok(())
}

/// How many points there are.
fn count_points(query: &SweepQuery) -> Result<usize, SweepError> {
    let lengths = query.axes.iter().map(|axis| axis.values.len());
    let seeds = usize::try_from(query.seeds).unwrap_or(usize::MAX);
    let units = lengths.fold(seeds, usize::saturating_mul);
    if units == 0 || units > MOST_UNITS {
        let most = MOST_UNITS;
        return Err(SweepError::Units { units, most });
    }
    Ok(units / seeds)
}

fn variant_named<'a>(description: &'a Description, name: &str) -> Result<&'a Variant, SweepError> {
    let variants = &description.experiment.variants;
    let variant = variants.iter().find(|variant| variant.name == name);
    variant.ok_or_else(|| {
        let names: Vec<&str> = variants.iter().map(|one| one.name.as_str()).collect();
        SweepError::NoVariant {
            name: name.to_owned(),
            variants: names.join(", "),
        }
    })
}

/// A point in words.
fn in_words(axes: &[Axis], values: &[String]) -> String {
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
