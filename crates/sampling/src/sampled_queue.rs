//! The queue of a promise in the document of a model, and its predictions.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, nanoseconds};

use crate::{
    ModelQuestionError, PERIOD, PredictedRatio, QueueLoad, QueueingFit, SHARE, SampleGrid, number,
};

/// The forms of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ModelForm {
    /// The Gaussian process of [`crate::ResponseModel`].
    Regression,
    /// The queue of [`QueueingFit`].
    Queue,
}

impl ModelForm {
    /// The form in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Regression => "regression",
            Self::Queue => "queue",
        }
    }
}

/// `SampledQueue` is the queue of a promise with what it needs to predict: the loads of the campaign, and the reservation
/// where it was not varied.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledQueue {
    /// The queue.
    pub fit: QueueingFit,
    /// The load in each condition, in the order of [`SampleGrid::conditions`].
    pub loads: Vec<QueueLoad>,
    /// The described share of a CPU, of all reservations together.
    pub share: f64,
    /// The described period, the longest of the reservations.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
}

/// `QueueSetting` is a place on the axes as a queue sees it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct QueueSetting {
    /// The load.
    pub load: QueueLoad,
    /// The share of a CPU.
    pub share: f64,
    /// The period, in seconds.
    pub period_seconds: f64,
}

impl SampledQueue {
    /// The setting of a point of the axes; `None` for a document that lacks its load.
    pub(crate) fn at_point(&self, grid: &SampleGrid, point: usize) -> Option<QueueSetting> {
        let conditions = grid.conditions();
        let condition = conditions
            .iter()
            .position(|points| points.contains(&point))?;
        Some(QueueSetting {
            load: *self.loads.get(condition)?,
            share: grid
                .share(point)
                .map_or(self.share, |percent| percent / 100.0),
            period_seconds: grid.period(point).unwrap_or(self.period).as_secs_f64(),
        })
    }

    /// The setting of a load with values of the axes.
    ///
    /// # Errors
    /// The load lies outside of those of the campaign.
    pub(crate) fn at(
        &self,
        load: Option<QueueLoad>,
        values: &BTreeMap<String, String>,
        service: &str,
    ) -> Result<QueueSetting, ModelQuestionError> {
        let value = |key: &str| values.get(key).and_then(|text| number(text));
        let load = load.filter(|load| self.knows(load));
        Ok(QueueSetting {
            load: load.ok_or_else(|| ModelQuestionError::OtherLoad {
                service: service.to_owned(),
            })?,
            share: value(SHARE).map_or(self.share, |percent| percent / 100.0),
            period_seconds: value(PERIOD).unwrap_or_else(|| self.period.as_secs_f64()),
        })
    }

    /// Whether a load lies among those of the campaign.
    fn knows(&self, load: &QueueLoad) -> bool {
        let measures = |load: &QueueLoad| match *load {
            QueueLoad::Closed {
                users,
                think_seconds,
            } => (true, [f64::from(users), think_seconds]),
            QueueLoad::Open { rate_per_second } => (false, [rate_per_second, 0.0]),
        };
        let (is_closed, asked) = measures(load);
        let of_campaign = self.loads.iter().map(measures);
        let of_campaign: Vec<[f64; 2]> = of_campaign
            .filter(|(closed, _)| *closed == is_closed)
            .map(|(_, measures)| measures)
            .collect();
        (0..asked.len()).all(|index| {
            let of = |one: &[f64; 2]| one[index];
            let rounding = 1e-9 * asked[index].abs();
            of_campaign
                .iter()
                .any(|one| of(one) <= asked[index] + rounding)
                && of_campaign
                    .iter()
                    .any(|one| of(one) >= asked[index] - rounding)
        })
    }

    /// The prediction for a promised latency.
    pub(crate) fn predict(&self, setting: QueueSetting, limit: Duration) -> PredictedRatio {
        let point = crate::QueuedPoint {
            load: setting.load,
            share: setting.share,
            period_seconds: setting.period_seconds,
            limit_seconds: limit.as_secs_f64(),
            log_ratio: 0.0,
        };
        self.fit.predict(&point)
    }
}
