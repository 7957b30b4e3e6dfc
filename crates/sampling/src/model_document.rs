//! The model of a campaign as a document: the measured points, from which the model is fitted again where it is used.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_model::Axis;
use tailbound_time::{Duration, nanoseconds};

use crate::grid::number;
use crate::record::PointRecord;
use crate::response_model::INTERVAL_LEVEL;
use crate::sampled_queue::QueueSetting;
use crate::{
    ModelCoverage, ModelForm, PredictedRatio, QueueLoad, ResponseModel, SampleGrid, SampledQueue,
};

/// The version of the document.
pub const MODEL_VERSION: u32 = 1;
/// A place this far outside of an axis comes from rounding.
const ROUNDING: f64 = 1e-9;
/// The greatest logarithm of a ratio in a document, for points without any quantile.
const GREATEST_RATIO: f64 = 20.0;

/// `SampledModel` predicts the promises of an application from the points of its campaign.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledModel {
    /// The version of the document, [`MODEL_VERSION`].
    pub schema_version: u32,
    /// The kind of the document.
    pub kind: SampledModelKind,
    /// The name of the description.
    pub name: String,
    /// The domains whose reservations have the share together.
    pub domains: Vec<String>,
    /// The axes that were varied.
    pub axes: Vec<Axis>,
    /// The promises, each with its points.
    pub promises: Vec<SampledPromise>,
}

/// The kind of a document with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SampledModelKind {
    /// Quantiles over their limits at the points of a campaign.
    SampledResponse,
}

/// A promise with the points at which its quantile was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledPromise {
    /// The service.
    pub service: String,
    /// The task; all tasks together if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<String>,
    /// The percentile.
    pub percentile: f64,
    /// The promised latency.
    #[serde(rename = "limit_ns", with = "nanoseconds")]
    pub limit: Duration,
    /// The points.
    pub points: Vec<SampledRatio>,
    /// The queue that is fitted to the same points, where their loads say what a queue needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<SampledQueue>,
}

/// The ratio of a measured quantile to its limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampledRatio {
    /// The point, counted with the last axis fastest.
    pub point: usize,
    /// The logarithm of the ratio.
    pub log_ratio: f64,
}

/// Why a model does not answer.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ModelQuestionError {
    /// The document is of another version.
    #[error(
        "the model has form {version}, and this version of Tailbound reads form {MODEL_VERSION}; sample again"
    )]
    Version {
        /// Its version.
        version: u32,
    },
    /// The document has a point that its axes do not have.
    #[error("the model has the point {point}, and its axes have {points}, counted from 0")]
    Point {
        /// The point.
        point: usize,
        /// The number of points.
        points: usize,
    },
    /// Nothing was measured.
    #[error("the model has no point for a promise of service \"{service}\"; sample longer")]
    Empty {
        /// The service.
        service: String,
    },
    /// A queue is asked for, and the document has none.
    #[error(
        "the model has no queue for a promise of service \"{service}\": its points are too few, or the description states \
         no rate or number of users; ask the regression"
    )]
    NoQueue {
        /// The service.
        service: String,
    },
    /// The load of a description is none of those of the campaign.
    #[error(
        "the load of service \"{service}\" lies outside of those that were measured, so its queue does not know it; \
         sample there, or ask the regression"
    )]
    OtherLoad {
        /// The service.
        service: String,
    },
    /// The question has no value for an axis.
    #[error("the model depends on {key}, and the description has no value there")]
    Missing {
        /// The key.
        key: String,
    },
    /// The value lies outside of those that were measured.
    #[error(
        "{key} is {value}, and the model knows {least} to {greatest}: beyond that nothing was measured; sample \
         there, or ask within"
    )]
    Beyond {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// The first value of the axis.
        least: String,
        /// The last one.
        greatest: String,
    },
}

/// The prediction for a promise.
#[derive(Clone, Debug, PartialEq)]
pub struct PredictedPromise<'a> {
    /// The promise.
    pub promise: &'a SampledPromise,
    /// The quantile over its limit.
    pub ratio: PredictedRatio,
    /// The form of the model that predicts it.
    pub form: ModelForm,
}

/// `PromiseModel` is what is to be known of the model of a promise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PromiseModel<'a> {
    /// The promise.
    pub promise: &'a SampledPromise,
    /// The form that predicts.
    pub form: ModelForm,
    /// The number of points, and how many of them lie within the intervals that the others predict.
    pub coverage: Option<ModelCoverage>,
    /// The factor between measured quantiles and those of the regression, at the median of left-out points.
    pub regression_error_factor: f64,
    /// Whether predictions never rise with the share. They may where measurements do.
    pub is_falling: bool,
}

impl PredictedPromise<'_> {
    /// The latency at a logarithm of a ratio.
    pub fn latency(&self, log_ratio: f64) -> Duration {
        Duration::from_secs_f64_nearest(self.promise.limit.as_secs_f64() * log_ratio.exp())
    }
}

/// `FittedModel` is a model that is ready to be asked.
#[derive(Clone, Debug)]
pub struct FittedModel<'a> {
    grid: SampleGrid,
    promises: Vec<FittedPromise<'a>>,
}

/// A promise with its model.
#[derive(Clone, Debug)]
struct FittedPromise<'a> {
    promise: &'a SampledPromise,
    model: ResponseModel,
    /// The queue, where it predicts.
    queue: Option<&'a SampledQueue>,
    /// Whether no measurement contradicts that more of a CPU is never slower.
    is_falling: bool,
}

impl SampledModel {
    /// The model of the measurements of a campaign over these domains.
    pub fn of(
        name: &str,
        domains: Vec<String>,
        grid: &SampleGrid,
        records: &[PointRecord],
    ) -> Self {
        let mut promises: Vec<SampledPromise> = Vec::new();
        for record in records.iter().filter(|record| record.counts()) {
            let services = record.services.iter();
            let each = services.flat_map(|(service, own)| {
                own.promises.iter().map(move |promise| (service, promise))
            });
            for (service, promise) in each {
                let is_same = |one: &&mut SampledPromise| {
                    one.service == *service
                        && one.task == promise.task
                        && one.percentile == promise.percentile
                        && one.limit == promise.limit
                };
                let ratio = SampledRatio {
                    point: record.point,
                    log_ratio: promise.log_ratio().min(GREATEST_RATIO),
                };
                match promises.iter_mut().find(is_same) {
                    Some(same) => same.points.push(ratio),
                    None => promises.push(SampledPromise {
                        service: service.clone(),
                        task: promise.task.clone(),
                        percentile: promise.percentile,
                        limit: promise.limit,
                        points: vec![ratio],
                        queue: None,
                    }),
                }
            }
        }
        Self {
            schema_version: MODEL_VERSION,
            kind: SampledModelKind::SampledResponse,
            name: name.to_owned(),
            domains,
            axes: grid.axes().to_vec(),
            promises,
        }
    }

    /// The model, fitted to its points, in one form; if none is wanted, for each promise in the form that is nearer to
    /// points that were left out.
    ///
    /// # Errors
    /// The document is of another version, contradicts itself, or lacks a queue that is wanted.
    pub fn fit(&self, wanted: Option<ModelForm>) -> Result<FittedModel<'_>, ModelQuestionError> {
        if self.schema_version != MODEL_VERSION {
            let version = self.schema_version;
            return Err(ModelQuestionError::Version { version });
        }
        let grid = SampleGrid::new(self.axes.clone());
        let points = grid.len();
        let mut promises = Vec::new();
        for promise in &self.promises {
            if let Some(outside) = promise.points.iter().find(|one| one.point >= points) {
                let point = outside.point;
                return Err(ModelQuestionError::Point { point, points });
            }
            let ratios: Vec<(Vec<f64>, f64)> = promise
                .points
                .iter()
                .map(|one| (grid.place(one.point), one.log_ratio))
                .collect();
            let model = ResponseModel::fit(&ratios, INTERVAL_LEVEL);
            let service = promise.service.clone();
            let model = model.ok_or(ModelQuestionError::Empty { service })?;
            promises.push(FittedPromise {
                promise,
                queue: chosen_queue(promise, &model, wanted)?,
                is_falling: !is_contradicted(&grid, promise, &model),
                model,
            });
        }
        Ok(FittedModel { grid, promises })
    }
}

/// The queue of a promise, where it is the form that predicts.
fn chosen_queue<'a>(
    promise: &'a SampledPromise,
    regression: &ResponseModel,
    wanted: Option<ModelForm>,
) -> Result<Option<&'a SampledQueue>, ModelQuestionError> {
    let queue = promise.queue.as_ref();
    match wanted {
        Some(ModelForm::Regression) => Ok(None),
        Some(ModelForm::Queue) if queue.is_none() => {
            let service = promise.service.clone();
            Err(ModelQuestionError::NoQueue { service })
        }
        Some(ModelForm::Queue) => Ok(queue),
        None => Ok(queue.filter(|queue| queue.fit.error_factor < regression.error_factor())),
    }
}

/// Whether measurements that differ in their share alone contradict that more of a CPU is never slower.
fn is_contradicted(grid: &SampleGrid, promise: &SampledPromise, model: &ResponseModel) -> bool {
    let Some(axis) = grid.share_axis() else {
        return false;
    };
    let mut columns: BTreeMap<Vec<usize>, BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
    for measured in &promise.points {
        let mut others = grid.positions(measured.point);
        others.remove(axis);
        let column = columns.entry(others).or_default();
        let same = column.entry(measured.point).or_default();
        same.push(measured.log_ratio);
    }
    columns.into_values().any(|column| {
        let share = |point: &usize| grid.share(*point).unwrap_or(0.0);
        let mut points: Vec<usize> = column.keys().copied().collect();
        points.sort_by(|one, other| share(one).total_cmp(&share(other)));
        let mean = |point: &usize| column[point].iter().sum::<f64>() / column[point].len() as f64;
        model.is_risen(&points.iter().map(mean).collect::<Vec<f64>>())
    })
}

impl<'a> FittedModel<'a> {
    /// The points of the axes.
    pub fn grid(&self) -> &SampleGrid {
        &self.grid
    }

    /// What is to be known of the model of each promise.
    pub fn promises(&self) -> Vec<PromiseModel<'a>> {
        let each = self.promises.iter();
        each.map(|one| PromiseModel {
            promise: one.promise,
            form: one.form(),
            coverage: match one.queue {
                Some(queue) => queue.fit.coverage(),
                None => one.model.coverage(),
            },
            regression_error_factor: one.model.error_factor(),
            is_falling: one.is_falling || one.queue.is_some(),
        })
        .collect()
    }

    /// Predicts every promise at a point of the axes.
    pub fn predict_point(&self, point: usize) -> Vec<PredictedPromise<'a>> {
        let place = self.grid.place(point);
        let column = self.column(&place);
        let promises = self.promises.iter();
        promises
            .map(|one| {
                let setting = one
                    .queue
                    .and_then(|queue| queue.at_point(&self.grid, point));
                one.predict(&place, column.as_ref(), setting)
            })
            .collect()
    }

    /// Predicts every promise at values of all axes, by key, and the loads of services, which queues need.
    ///
    /// # Errors
    /// A value is missing, or a value or load lies outside of those that were measured.
    pub fn predict(
        &self,
        values: &BTreeMap<String, String>,
        loads: &BTreeMap<String, QueueLoad>,
    ) -> Result<Vec<PredictedPromise<'a>>, ModelQuestionError> {
        let axes = self.grid.axes().iter().enumerate();
        let place: Result<Vec<f64>, _> = axes
            .map(|(index, axis)| {
                let key = || axis.key.clone();
                let value = values
                    .get(&axis.key)
                    .ok_or_else(|| ModelQuestionError::Missing { key: key() })?;
                self.place(index, value).ok_or_else(|| {
                    let ends = [axis.values.first(), axis.values.last()];
                    let [least, greatest] = ends.map(|end| end.cloned().unwrap_or_default());
                    let (key, value) = (key(), value.clone());
                    ModelQuestionError::Beyond {
                        key,
                        value,
                        least,
                        greatest,
                    }
                })
            })
            .collect();
        let place = place?;
        let column = self.column(&place);
        let promises = self.promises.iter();
        promises
            .map(|one| {
                let service = &one.promise.service;
                let load = loads.get(service).copied();
                let setting = one.queue.map(|queue| queue.at(load, values, service));
                Ok(one.predict(&place, column.as_ref(), setting.transpose()?))
            })
            .collect()
    }

    fn place(&self, axis: usize, value: &str) -> Option<f64> {
        let by_number = number(value).and_then(|number| self.grid.scales()[axis].place(number));
        match by_number {
            Some(place) => (-ROUNDING..=1.0 + ROUNDING)
                .contains(&place)
                .then_some(place),
            None => {
                let values = &self.grid.axes()[axis].values;
                let at = values.iter().position(|one| one == value)?;
                Some(at as f64 / (values.len().max(2) - 1) as f64)
            }
        }
    }

    /// A place among those that differ from it in the share alone, in ascending order of it, and its index.
    fn column(&self, place: &[f64]) -> Option<PlaceColumn> {
        let axis = self.grid.share_axis()?;
        let mut shares = self.grid.share_places();
        let at = shares.partition_point(|share| *share < place[axis] - ROUNDING);
        if shares
            .get(at)
            .is_none_or(|share| *share > place[axis] + ROUNDING)
        {
            shares.insert(at, place[axis]);
        }
        let places = shares.into_iter().map(|share| {
            let mut other = place.to_vec();
            other[axis] = share;
            other
        });
        Some((places.collect(), at))
    }
}

/// Places that differ in the share alone, in ascending order of it, and the index of one of them.
type PlaceColumn = (Vec<Vec<f64>>, usize);

impl<'a> FittedPromise<'a> {
    fn form(&self) -> ModelForm {
        match self.queue {
            Some(_) => ModelForm::Queue,
            None => ModelForm::Regression,
        }
    }

    /// The prediction at a place; by the queue, where it predicts and knows the setting.
    fn predict(
        &self,
        place: &[f64],
        column: Option<&PlaceColumn>,
        setting: Option<QueueSetting>,
    ) -> PredictedPromise<'a> {
        let by_queue = self.queue.zip(setting);
        let form = match by_queue {
            Some(_) => ModelForm::Queue,
            None => ModelForm::Regression,
        };
        let ratio = match (by_queue, column) {
            (Some((queue, setting)), _) => queue.predict(setting, self.promise.limit),
            (None, Some((places, at))) if self.is_falling => {
                self.model.predict_falling(places, *at)
            }
            (None, _) => self.model.predict(place),
        };
        PredictedPromise {
            promise: self.promise,
            ratio,
            form,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::QueueingFit;

    fn model() -> SampledModel {
        let axes = ["users=10,20,40", "share=20..80/20"];
        let axes: Vec<Axis> = axes.iter().map(|text| text.parse().unwrap()).collect();
        let grid = SampleGrid::new(axes.clone());
        let ratio = |point| {
            let users = [10.0, 20.0, 40.0][grid.positions(point)[0]];
            (users / grid.share(point).unwrap() * 2.0).ln()
        };
        let points = (0..grid.len()).map(|point| SampledRatio {
            point,
            log_ratio: ratio(point),
        });
        SampledModel {
            schema_version: MODEL_VERSION,
            kind: SampledModelKind::SampledResponse,
            name: "shop".into(),
            domains: vec!["web".into()],
            axes,
            promises: vec![SampledPromise {
                service: "web".into(),
                task: None,
                percentile: 95.0,
                limit: Duration::from_millis(100),
                points: points.collect(),
                queue: None,
            }],
        }
    }

    fn ask(model: &SampledModel, users: &str, share: &str) -> Result<f64, ModelQuestionError> {
        let values = [("users", users), ("share", share)];
        let values = values.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let fitted = model.fit(None)?;
        let predicted = fitted.predict(&values.into_iter().collect(), &BTreeMap::new())?;
        Ok(predicted[0]
            .latency(predicted[0].ratio.middle)
            .as_millis_f64())
    }

    #[test]
    fn a_model_answers_within_its_points_and_refuses_beyond() {
        let model = model();
        let again: SampledModel =
            serde_json::from_str(&serde_json::to_string(&model).unwrap()).unwrap();
        assert_eq!(again, model);
        let latency_ms = ask(&again, "30", "70").unwrap();
        assert!((latency_ms - 85.7).abs() < 5.0, "{latency_ms}");
        let beyond = ask(&model, "50", "70").unwrap_err().to_string();
        assert!(
            beyond.contains("users is 50, and the model knows 10 to 40"),
            "{beyond}"
        );
        assert!(ask(&model, "30", "85").is_err());
        let nothing = BTreeMap::new();
        let fitted = model.fit(None).unwrap();
        assert!(fitted.predict(&nothing, &BTreeMap::new()).is_err());
    }

    #[test]
    fn predictions_never_rise_with_the_share_unless_measurements_do() {
        let mut model = model();
        for measured in &mut model.promises[0].points {
            measured.log_ratio += 0.05 * (measured.point as f64 * 2.0).sin();
        }
        let rises = |model: &SampledModel| {
            let shares = (20..=80).map(|share| ask(model, "30", &share.to_string()).unwrap());
            let latencies_ms: Vec<f64> = shares.collect();
            !latencies_ms.is_sorted_by(|one, other| *one >= other - 1e-9)
        };
        assert!(!rises(&model));
        assert!(model.fit(None).unwrap().promises()[0].is_falling);
        // An application that is slower the more it gets, as measured again and again.
        for measured in &mut model.promises[0].points {
            measured.log_ratio = (measured.point % 4) as f64;
        }
        assert!(rises(&model));
        assert!(!model.fit(None).unwrap().promises()[0].is_falling);
    }

    #[test]
    fn documents_that_contradict_themselves_are_refused() {
        let mut newer = model();
        newer.schema_version = MODEL_VERSION + 1;
        assert!(matches!(
            newer.fit(None),
            Err(ModelQuestionError::Version { .. })
        ));
        let mut outside = model();
        outside.promises[0].points[0].point = 12;
        assert!(matches!(
            outside.fit(None),
            Err(ModelQuestionError::Point { point: 12, .. })
        ));
        let mut empty = model();
        empty.promises[0].points.clear();
        assert!(matches!(
            empty.fit(None),
            Err(ModelQuestionError::Empty { .. })
        ));
    }

    /// A queue of ten to forty users who think for a tenth of a second.
    fn queue() -> SampledQueue {
        SampledQueue {
            fit: QueueingFit {
                demand: Duration::from_millis(2),
                wait_per_gap: 0.5,
                tail_factor: 2.0,
                floor: Duration::from_micros(100),
                points: 12,
                error_factor: 1.01,
                half_width: 0.1,
                covered: 11,
            },
            loads: [10, 20, 40]
                .map(|users| QueueLoad::Closed {
                    users,
                    think_seconds: 0.1,
                })
                .to_vec(),
            share: 0.5,
            period: Duration::from_millis(20),
        }
    }

    #[test]
    fn the_form_that_is_nearer_to_left_out_points_predicts() {
        let mut model = model();
        assert_eq!(
            model.fit(Some(ModelForm::Queue)).map(drop),
            Err(ModelQuestionError::NoQueue {
                service: "web".into()
            })
        );
        for measured in &mut model.promises[0].points {
            measured.log_ratio += 0.5 * (measured.point as f64 * 2.0).sin();
        }
        model.promises[0].queue = Some(queue());
        let form = |model: &SampledModel, wanted| model.fit(wanted).unwrap().promises()[0].form;
        assert_eq!(form(&model, None), ModelForm::Queue);
        let regression = Some(ModelForm::Regression);
        assert_eq!(form(&model, regression), ModelForm::Regression);
        if let Some(queue) = &mut model.promises[0].queue {
            queue.fit.error_factor = 40.0;
        }
        assert_eq!(form(&model, None), ModelForm::Regression);
        assert_eq!(form(&model, Some(ModelForm::Queue)), ModelForm::Queue);
    }

    #[test]
    fn a_queue_predicts_between_its_loads_and_refuses_beyond() {
        let mut model = model();
        model.promises[0].queue = Some(queue());
        let again: SampledModel =
            serde_json::from_str(&serde_json::to_string(&model).unwrap()).unwrap();
        assert_eq!(again, model);
        let fitted = again.fit(Some(ModelForm::Queue)).unwrap();
        let ask = |users: u32, share: &str| {
            let values = [("users", users.to_string()), ("share", share.to_owned())];
            let values = values.map(|(key, value)| (key.to_owned(), value));
            let load = QueueLoad::Closed {
                users,
                think_seconds: 0.1,
            };
            let loads = BTreeMap::from([("web".to_owned(), load)]);
            fitted.predict(&values.into_iter().collect(), &loads)
        };
        let at_point = fitted.predict_point(fitted.grid().point(&[1, 1]));
        assert_eq!(ask(20, "40").unwrap(), at_point);
        assert_eq!(at_point[0].form, ModelForm::Queue);
        let (few, many) = (ask(12, "40").unwrap(), ask(30, "40").unwrap());
        assert!(few[0].ratio.middle < at_point[0].ratio.middle);
        assert!(at_point[0].ratio.middle < many[0].ratio.middle);
        assert!(few[0].ratio.low < few[0].ratio.middle);
        // The regression's axes would allow it, and nobody was measured to think so long.
        let values = BTreeMap::from(
            [("users", "20"), ("share", "40")].map(|(key, value)| (key.into(), value.into())),
        );
        let load = QueueLoad::Closed {
            users: 20,
            think_seconds: 0.2,
        };
        for loads in [BTreeMap::new(), BTreeMap::from([("web".into(), load)])] {
            let refused = fitted.predict(&values, &loads);
            assert!(matches!(refused, Err(ModelQuestionError::OtherLoad { .. })));
        }
    }
}
