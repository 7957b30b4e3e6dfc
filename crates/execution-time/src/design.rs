//! The regression of execution times on counted events over clock frequencies.

use std::collections::{BTreeMap, BTreeSet};

use nalgebra::{DMatrix, DVector};

use crate::error::ModelError;
use crate::fit::Premise;
use crate::least_squares::NormalEquations;
use crate::run_table::{CORE, RunTable, SetPoint};

/// The name of the clock that never changes: its cycles are nanoseconds.
pub const CONSTANT: &str = "constant";
/// The fewest programs: one is left out of a regression over two others.
const FEWEST_PROGRAMS: usize = 3;
/// The share of a column's square below which what the projection leaves of it is rounding.
const VANISHING: f64 = 1e-12;

/// The seconds of a cycle of a clock at a set point; a nanosecond for the clock that never changes.
pub fn inverse_seconds(set_point: &SetPoint, clock: &str) -> f64 {
    match set_point.of(clock) {
        Some(frequency) => 1.0 / frequency.as_hertz_f64(),
        None => 1e-9,
    }
}

/// A program at a set point: the means of its runs there.
#[derive(Clone, Debug, PartialEq)]
pub struct SetPointMeans {
    pub set_point: SetPoint,
    pub seconds: f64,
    pub counts: Vec<f64>,
}

/// All observations of one program.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub name: String,
    pub observations: Vec<SetPointMeans>,
}

/// A candidate of the regression: the events of a counter, in cycles of a clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Regressor {
    pub counter: usize,
    pub clock: String,
}

/// The seconds and the counts of each run, by program and set point.
type Groups<'a> = BTreeMap<(&'a str, &'a SetPoint), Vec<(f64, &'a [u64])>>;

/// The programs of a recording, and the clocks that differ between set points.
#[derive(Clone, Debug, PartialEq)]
pub struct Observations {
    pub programs: Vec<Program>,
    /// The clocks that differ, the core's first; then the one that never changes.
    pub clocks: Vec<String>,
    /// The clocks that have one frequency everywhere.
    pub unvaried: Vec<String>,
}

impl Observations {
    /// The observations of a recording.
    ///
    /// # Errors
    /// Runs without a set point, too few programs, or a core that always has one frequency.
    pub fn of(recording: &RunTable) -> Result<Self, ModelError> {
        let too_little = |what: String, right: &str| ModelError::TooLittle {
            file: recording.file.clone(),
            what,
            right: right.into(),
        };
        let mut groups: Groups<'_> = BTreeMap::new();
        let mut order: Vec<&str> = Vec::new();
        for run in &recording.runs {
            let set_point = run.set_point.as_ref().ok_or_else(|| {
                too_little(
                    "there is no column `cpu_hz`".into(),
                    "write the core's frequency of each run in it",
                )
            })?;
            let group = groups.entry((run.program.as_str(), set_point)).or_default();
            group.push((run.time.as_secs_f64(), &run.counts));
            if !order.contains(&run.program.as_str()) {
                order.push(&run.program);
            }
        }
        let programs: Vec<Program> = order.iter().map(|name| program(name, &groups)).collect();
        let varies = |clock: &str| {
            let frequencies: BTreeSet<_> = groups
                .keys()
                .map(|(_, set_point)| set_point.of(clock))
                .collect();
            frequencies.len() > 1
        };
        if !varies(CORE) {
            let right = "record each program at two or more frequencies of the core";
            return Err(too_little(
                "the core has one frequency in all runs".into(),
                right,
            ));
        }
        let scaled = programs
            .iter()
            .filter(|program| program.observations.len() > 1)
            .count();
        if scaled < FEWEST_PROGRAMS {
            let what = format!("{scaled} programs were recorded at two set points or more");
            let right = "record at least 3, better 20 that differ in their use of memory";
            return Err(too_little(what, right));
        }
        let others = recording.clocks.iter().filter(|clock| *clock != CORE);
        let (varied, unvaried): (Vec<String>, Vec<String>) =
            others.cloned().partition(|clock| varies(clock));
        let mut clocks = vec![CORE.to_owned()];
        clocks.extend(varied);
        clocks.push(CONSTANT.to_owned());
        Ok(Self {
            programs,
            clocks,
            unvaried,
        })
    }

    /// The columns of a regression: for scaling, the core's cycles are the program's own, and need none.
    pub fn columns(&self, premise: Premise, counters: usize) -> Vec<Regressor> {
        let clocks = self.clocks.iter();
        let clocks = clocks.filter(|clock| premise == Premise::Absolute || *clock != CORE);
        let columns = clocks.flat_map(|clock| {
            (0..counters).map(|counter| Regressor {
                counter,
                clock: clock.clone(),
            })
        });
        columns.collect()
    }
}

/// The observations of the program `name`.
fn program(name: &str, groups: &Groups<'_>) -> Program {
    let own = groups.iter().filter(|((program, _), _)| *program == name);
    let observations = own.map(|((_, set_point), runs)| {
        let count = runs.len() as f64;
        let counters = runs.first().map_or(0, |(_, counts)| counts.len());
        let mean = |counter: usize| {
            runs.iter()
                .map(|(_, counts)| counts[counter] as f64)
                .sum::<f64>()
                / count
        };
        SetPointMeans {
            set_point: (*set_point).clone(),
            seconds: runs.iter().map(|(seconds, _)| seconds).sum::<f64>() / count,
            counts: (0..counters).map(mean).collect(),
        }
    });
    Program {
        name: name.to_owned(),
        observations: observations.collect(),
    }
}

impl Program {
    /// The normal equations of this program's rows. Each row is divided by its time, so that the regression makes
    /// relative errors least. For scaling, the cycles of the core are one unknown of each program: the projection
    /// orthogonal to their column takes them out of the equations.
    pub fn equations(&self, premise: Premise, columns: &[Regressor]) -> NormalEquations {
        let rows = self.observations.len();
        let mut matrix = DMatrix::from_fn(rows, columns.len(), |row, column| {
            let SetPointMeans {
                set_point,
                seconds,
                counts,
            } = &self.observations[row];
            let Regressor { counter, clock } = &columns[column];
            counts[*counter] * inverse_seconds(set_point, clock) / seconds
        });
        let mut observations = DVector::repeat(rows, 1.0);
        if premise == Premise::Scaling {
            let core = DVector::from_fn(rows, |row, _| {
                let SetPointMeans {
                    set_point, seconds, ..
                } = &self.observations[row];
                inverse_seconds(set_point, CORE) / seconds
            });
            let direction = core.normalize();
            for mut column in matrix.column_iter_mut() {
                let before = column.norm_squared();
                let along = direction.dot(&column);
                column.axpy(-along, &direction, 1.0);
                if column.norm_squared() <= VANISHING * before {
                    column.fill(0.0);
                }
            }
            let along = direction.dot(&observations);
            observations.axpy(-along, &direction, 1.0);
        }
        NormalEquations::of(&matrix, &observations)
    }
}
