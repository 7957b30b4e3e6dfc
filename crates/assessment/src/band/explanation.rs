//! Which assumption of a prediction has failed, by what was recorded during the run.

use serde::{Deserialize, Serialize};
use tailbound_time::Duration;

use super::{BandQuantile, PredictionBand, SupplyProcess};

/// The lateness of the load generator that matters, as a share of the measured quantile.
const LATE_SHARE: f64 = 0.1;
/// The overrun of a budget that matters, as a share of it.
const OVERRUN_SHARE: f64 = 0.02;
/// The level of a run that matters, beyond those of the calibration's rounds.
const LEVEL_SLACK: f64 = 0.03;

/// What was recorded during a run beside its latencies.
#[derive(Clone, Copy, Debug, Default)]
pub struct RunRecord<'a> {
    /// The 99th percentile of the load generator's lateness.
    pub lateness: Option<Duration>,
    /// The level of execution times in or right after the run, against that of the calibration.
    pub level: Option<f64>,
    /// The supply of the service's CPU during the run.
    pub supply: Option<&'a SupplyProcess>,
    /// The 99th percentile of the overrun of the budget.
    pub overrun: Option<Duration>,
    /// The budget.
    pub budget: Option<Duration>,
    /// How long the domain was stopped although it had budget.
    pub held: Option<Duration>,
}

/// An assumption of a prediction that the run did not keep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum FailedAssumption {
    /// The host was in a phase that the calibration has not seen.
    Phase {
        /// The level of the run against that of the calibration.
        level: f64,
        /// The least level of a round of the calibration.
        least: f64,
        /// The greatest.
        most: f64,
    },
    /// The CPU was taken away for more, or less, than in the calibration.
    Stall {
        /// The share of the run that was lost.
        lost: f64,
        /// The least share that the band allows for.
        least: f64,
        /// The greatest.
        most: f64,
    },
    /// The budget was not enforced as described.
    Overrun {
        /// The share of the budget by which it was overrun at p99.
        share: f64,
    },
    /// The domain was stopped although it had budget.
    Held {
        /// For how long in all, in milliseconds.
        milliseconds: f64,
    },
    /// The load generator sent late.
    GeneratorLate {
        /// Its lateness at p99, as a share of the measured quantile.
        share: f64,
    },
    /// Nothing that was recorded explains it.
    Unexplained,
}

impl FailedAssumption {
    /// The assumption in words.
    pub fn words(&self) -> String {
        let percent = |share: f64| format!("{:.2}%", share * 100.0);
        match self {
            Self::Phase { level, least, most } => format!(
                "phase: requests took {level:.2} times as long as in the calibration, whose rounds lay \
                 between {least:.2} and {most:.2}"
            ),
            Self::Stall { lost, least, most } => format!(
                "stall: the host took the CPU away for {} of the run; the band allows for {} to {}",
                percent(*lost),
                percent(*least),
                percent(*most)
            ),
            Self::Overrun { share } => {
                format!(
                    "overrun: the budget was exceeded by {} at p99",
                    percent(*share)
                )
            }
            Self::Held { milliseconds } => format!(
                "overrun: the domain was stopped for {milliseconds:.1} ms although it had budget"
            ),
            Self::GeneratorLate { share } => format!(
                "generator late: the load was sent late by {} of the quantile at p99",
                percent(*share)
            ),
            Self::Unexplained => "nothing that was recorded explains it".into(),
        }
    }
}

/// The assumptions that failed where a measured quantile lies outside its band; none where it lies inside.
pub fn failed_assumptions(
    band: &PredictionBand,
    quantile: &BandQuantile,
    measured: Duration,
    record: &RunRecord<'_>,
) -> Vec<FailedAssumption> {
    if quantile.holds(measured) {
        return Vec::new();
    }
    let above = measured > quantile.high;
    let mut failed = Vec::new();
    failed.extend(record.level.and_then(|level| phase(band, level, above)));
    failed.extend(record.supply.and_then(|supply| stall(band, supply, above)));
    failed.extend(overrun(record));
    let share = |time: Duration| time.as_secs_f64() / measured.as_secs_f64().max(1e-9);
    let late = record.lateness.map(share);
    failed.extend(
        late.filter(|share| above && *share > LATE_SHARE)
            .map(|share| FailedAssumption::GeneratorLate { share }),
    );
    if failed.is_empty() {
        failed.push(FailedAssumption::Unexplained);
    }
    failed
}

fn phase(band: &PredictionBand, level: f64, above: bool) -> Option<FailedAssumption> {
    let (least, most) = band.levels;
    let beyond = match above {
        true => level > most * (1.0 + LEVEL_SLACK),
        false => level < least / (1.0 + LEVEL_SLACK),
    };
    beyond.then_some(FailedAssumption::Phase { level, least, most })
}

fn stall(band: &PredictionBand, supply: &SupplyProcess, above: bool) -> Option<FailedAssumption> {
    let lost = supply.lost_share();
    let (least, most) = band.lost_share;
    let beyond = match above {
        true => lost > most,
        false => lost < least,
    };
    beyond.then_some(FailedAssumption::Stall { lost, least, most })
}

fn overrun(record: &RunRecord<'_>) -> Option<FailedAssumption> {
    if let Some(held) = record.held.filter(|held| !held.is_zero()) {
        let milliseconds = held.as_millis_f64();
        return Some(FailedAssumption::Held { milliseconds });
    }
    let (overrun, budget) = (record.overrun?, record.budget?);
    let share = overrun.as_secs_f64() / budget.as_secs_f64().max(1e-9);
    (share > OVERRUN_SHARE).then_some(FailedAssumption::Overrun { share })
}
