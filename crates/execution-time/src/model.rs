//! The model of a platform, and its file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::demand::{CountedWorkload, CycleDemand};
use crate::design::{CONSTANT, Observations};
use crate::error::ModelError;
use crate::fit::{Fit, Premise, Regression};
use crate::power::SetPointPower;
use crate::run_table::{CORE, RunTable, SetPoint, SetPointNotation};

/// The version of the file that is read and written.
pub const SCHEMA_VERSION: u32 = 1;

/// Where a model comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelSource {
    /// The recording.
    pub file: String,
    /// The comments at its top: whether it was measured or simulated, by what, and where.
    pub notes: Vec<String>,
    /// The number of programs.
    pub programs: usize,
    /// The number of runs.
    pub runs: usize,
    /// The events among which the regressions chose.
    pub counters: Vec<String>,
    /// The most counters that a regression was allowed.
    pub most_counters: usize,
    /// Clocks that had one frequency in all runs, whose influence is unknown.
    pub unvaried_clocks: Vec<String>,
}

/// What counted events tell of execution times on one platform.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FrequencyModel {
    /// The version of the file.
    pub schema_version: u32,
    /// The release that wrote it.
    pub tailbound_version: String,
    /// The data behind it.
    pub source: ModelSource,
    /// The clocks that the model knows, the core's first.
    pub clocks: Vec<String>,
    /// The set points of the recording, or those that were stated with their power.
    pub set_points: Vec<SetPointPower>,
    /// From a measured time to other set points.
    pub scaling: Fit,
    /// From counts alone.
    pub absolute: Fit,
}

/// The fields that every version of the file has.
#[derive(Deserialize)]
struct Version {
    schema_version: u32,
}

impl FrequencyModel {
    /// The model of a recording, of at most `most_counters` counters; `stated` are set points with their power.
    ///
    /// # Errors
    /// The recording holds too little for a regression, or a stated set point lacks a clock of it.
    pub fn fit(
        recording: &RunTable,
        stated: Option<Vec<SetPointPower>>,
        most_counters: usize,
    ) -> Result<Self, ModelError> {
        let observations = Observations::of(recording)?;
        let counters = &recording.counters;
        let fit = |premise| {
            Regression::new(premise, &observations, counters.len(), most_counters).fit(counters)
        };
        let (scaling, absolute) = (fit(Premise::Scaling), fit(Premise::Absolute));
        let clocks = observations
            .clocks
            .iter()
            .filter(|clock| *clock != CONSTANT);
        let mut recorded: Vec<SetPoint> = recording
            .runs
            .iter()
            .filter_map(|run| run.set_point.clone())
            .collect();
        recorded.sort();
        recorded.dedup();
        let recorded = recorded.into_iter().map(|set_point| SetPointPower {
            set_point,
            power: None,
        });
        let model = Self {
            schema_version: SCHEMA_VERSION,
            tailbound_version: env!("CARGO_PKG_VERSION").into(),
            source: ModelSource {
                file: recording.file.clone(),
                notes: recording.notes.clone(),
                programs: observations.programs.len(),
                runs: recording.runs.len(),
                counters: counters.clone(),
                most_counters,
                unvaried_clocks: observations.unvaried.clone(),
            },
            clocks: clocks.cloned().collect(),
            set_points: stated.unwrap_or_else(|| recorded.collect()),
            scaling,
            absolute,
        };
        for point in &model.set_points {
            model.covers(&point.set_point)?;
        }
        Ok(model)
    }

    /// Reads the text of the file `file`.
    ///
    /// # Errors
    /// The text is no model, is of another version, or contradicts itself.
    pub fn parse(file: &str, text: &str) -> Result<Self, ModelError> {
        let no_model = |cause| ModelError::NoModel {
            file: file.to_owned(),
            cause,
        };
        let Version { schema_version } = serde_json::from_str(text).map_err(no_model)?;
        if schema_version != SCHEMA_VERSION {
            return Err(ModelError::Version {
                file: file.to_owned(),
                version: schema_version,
                supported: SCHEMA_VERSION,
            });
        }
        let model: Self = serde_json::from_str(text).map_err(no_model)?;
        model.check(file)?;
        Ok(model)
    }

    /// The text of the file.
    pub fn to_json(&self) -> String {
        // Every field has a form in JSON: numbers are finite, keys are texts.
        serde_json::to_string_pretty(self).unwrap_or_default() + "\n"
    }

    fn check(&self, file: &str) -> Result<(), ModelError> {
        let wrong = |key: &str, what: String, right: &str| ModelError::Contradiction {
            file: file.to_owned(),
            key: key.to_owned(),
            what,
            right: right.to_owned(),
        };
        if self.clocks.first().map(String::as_str) != Some(CORE) {
            return Err(wrong(
                "clocks",
                "the first clock is not `cpu`".into(),
                "fit the model again",
            ));
        }
        for (key, fit) in [("scaling", &self.scaling), ("absolute", &self.absolute)] {
            for term in &fit.terms {
                let (counter, clock) = (&term.counter, &term.clock);
                if clock != CONSTANT && !self.clocks.contains(clock) {
                    let what = format!("the clock \"{clock}\" of a term is not among `clocks`");
                    return Err(wrong(key, what, "fit the model again"));
                }
                if !(term.cycles_per_event.is_finite() && term.cycles_per_event >= 0.0) {
                    let what = format!(
                        "`{counter}` costs {} cycles of {clock}",
                        term.cycles_per_event
                    );
                    return Err(wrong(key, what, "cycles are finite and not negative"));
                }
            }
        }
        let lacking = self
            .set_points
            .iter()
            .find(|point| self.covers(&point.set_point).is_err());
        lacking.map_or(Ok(()), |point| {
            let what = format!(
                "the set point {} does not have all of `clocks`",
                point.set_point
            );
            Err(wrong("set_points", what, "fit the model again"))
        })
    }

    /// Whether a set point has every clock of the model.
    fn covers(&self, set_point: &SetPoint) -> Result<(), ModelError> {
        match self
            .clocks
            .iter()
            .find(|clock| set_point.of(clock).is_none())
        {
            None => Ok(()),
            Some(clock) => Err(ModelError::SetPoint {
                what: format!(
                    "the set point {set_point} has no frequency of the clock \"{clock}\""
                ),
                right: format!("name every clock: {}", self.clocks.join(", ")),
            }),
        }
    }

    /// The set point that a text means.
    ///
    /// # Errors
    /// The text does not name one set point.
    pub fn set_point(&self, notation: &SetPointNotation) -> Result<SetPoint, ModelError> {
        let candidates: Vec<SetPoint> = self
            .set_points
            .iter()
            .map(|point| point.set_point.clone())
            .collect();
        notation.resolve(&self.clocks, &candidates)
    }

    /// The regression that a workload needs: from its measured time where that was measured at a set point of this
    /// platform, else from its counts alone.
    pub fn fit_for(&self, workload: &CountedWorkload) -> &Fit {
        match workload.set_point {
            Some(_) => &self.scaling,
            None => &self.absolute,
        }
    }

    /// The cycles of each clock that a workload needs; `file` is where its counts are from.
    ///
    /// # Errors
    /// An event of the model was not counted, or the workload's set point lacks a clock.
    pub fn demand(
        &self,
        file: &str,
        workload: &CountedWorkload,
    ) -> Result<CycleDemand, ModelError> {
        let mut cycles: BTreeMap<String, f64> = BTreeMap::new();
        for term in &self.fit_for(workload).terms {
            let count = workload.counts.get(&term.counter).ok_or_else(|| {
                let present: Vec<&str> = workload.counts.keys().map(String::as_str).collect();
                ModelError::CounterMissing {
                    file: file.to_owned(),
                    counter: term.counter.clone(),
                    present: present.join(", "),
                }
            })?;
            *cycles.entry(term.clock.clone()).or_default() += term.cycles_per_event * count;
        }
        let Some(set_point) = &workload.set_point else {
            let demand = CycleDemand {
                cycles,
                limited: false,
            };
            return match demand.cycles.values().any(|cycles| *cycles > 0.0) {
                true => Ok(demand),
                false => Err(ModelError::Elsewhere(format!(
                    "{file}: no event of the model occurred, so that the counts alone tell no time; record the run at a \
                     set point of the model, with a column `cpu_hz`"
                ))),
            };
        };
        self.covers(set_point)?;
        Ok(CycleDemand::measured(workload.time, set_point, cycles))
    }

    /// How many times as long as measured the workload takes at `target`.
    ///
    /// # Errors
    /// `target` lacks a clock of the model.
    pub fn slowdown(
        &self,
        workload: &CountedWorkload,
        demand: &CycleDemand,
        target: &SetPoint,
    ) -> Result<f64, ModelError> {
        self.covers(target)?;
        Ok(demand.seconds_at(target) / workload.time.as_secs_f64())
    }

    /// The clocks of `target` that lie outside of the set points that the model was made from.
    pub fn extrapolated<'a>(&'a self, target: &'a SetPoint) -> impl Iterator<Item = &'a str> {
        let outside = |clock: &&String| {
            let frequencies = self
                .set_points
                .iter()
                .filter_map(|point| point.set_point.of(clock));
            let (least, most) = (frequencies.clone().min(), frequencies.max());
            let own = target.of(clock);
            own < least || own > most
        };
        self.clocks.iter().filter(outside).map(String::as_str)
    }
}
