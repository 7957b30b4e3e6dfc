//! The measurements of a service as a table over condition, share and period, from which figures are drawn.

use std::collections::BTreeMap;

use tailbound_report::{CurvePoint, NumberCurve};
use tailbound_sampling::{
    FittedModel, PERIOD, PointRecord, PromiseRecord, QuantileRecord, SHARE, SampledVerdict, number,
};

use super::result::SampledCampaign;

/// `CampaignTable` has the measurements of a service by point.
pub(super) struct CampaignTable<'a> {
    /// The campaign.
    pub sampled: &'a SampledCampaign,
    /// The service.
    pub service: &'a str,
    conditions: Vec<Vec<usize>>,
    means: BTreeMap<usize, MeanResponse>,
}

/// The means of the measurements of a point.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct MeanResponse {
    /// The mean latency.
    pub mean_ms: Option<f64>,
    /// The standard deviation of latencies.
    pub deviation_ms: Option<f64>,
}

fn mean_of(values: impl Iterator<Item = f64>) -> Option<f64> {
    let values: Vec<f64> = values.collect();
    let count = values.len() as f64;
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / count)
}

impl<'a> CampaignTable<'a> {
    /// The table of a service of a campaign.
    pub(super) fn of(sampled: &'a SampledCampaign, service: &'a str) -> Self {
        let mut table = Self {
            sampled,
            service,
            conditions: sampled.grid.conditions(),
            means: BTreeMap::new(),
        };
        for point in 0..sampled.grid.len() {
            let services = || {
                table
                    .records(point)
                    .filter_map(|one| one.services.get(service))
            };
            let means = services().filter_map(|own| own.mean);
            let deviations = services().filter_map(|own| own.deviation);
            let mean = MeanResponse {
                mean_ms: mean_of(means.map(|mean| mean.as_millis_f64())),
                deviation_ms: mean_of(deviations.map(|deviation| deviation.as_millis_f64())),
            };
            if mean.mean_ms.is_some() {
                table.means.insert(point, mean);
            }
        }
        table
    }

    /// The points of each condition.
    pub(super) fn conditions(&self) -> &[Vec<usize>] {
        &self.conditions
    }

    fn records(&self, point: usize) -> impl Iterator<Item = &'a PointRecord> {
        let records = self.sampled.records.iter();
        records.filter(move |record| record.point == point && record.counts())
    }

    /// The number of a measurement of a point that has latencies.
    pub(super) fn measurement_of(&self, point: usize) -> Option<usize> {
        let mut records = self.sampled.records.iter();
        records.position(|record| record.point == point && record.counts())
    }

    /// The means of a point, if it was measured.
    pub(super) fn mean(&self, point: usize) -> Option<&MeanResponse> {
        self.means.get(&point)
    }

    /// The first promise of the service, as any measurement has it.
    pub(super) fn promise(&self) -> Option<&'a PromiseRecord> {
        let services = self.sampled.records.iter();
        let mut services = services.filter_map(|record| record.services.get(self.service));
        services.find_map(|service| service.promises.first())
    }

    /// The answer of a condition.
    pub(super) fn chosen(&self, condition: usize) -> Option<usize> {
        match self.sampled.answers.get(condition)?.verdict {
            SampledVerdict::Cheapest { point, .. } => Some(point),
            _ => None,
        }
    }

    /// The values of a condition in words.
    pub(super) fn condition_in_words(&self, condition: usize) -> String {
        let answer = self.sampled.answers.get(condition);
        let values = answer.into_iter().flat_map(|answer| &answer.condition);
        let values: Vec<String> = values
            .map(|(key, value)| format!("{} {value}", short(key)))
            .collect();
        match values.is_empty() {
            true => "as described".to_owned(),
            false => values.join(", "),
        }
    }

    /// Share and period of a point in words.
    pub(super) fn reservation_in_words(&self, point: usize) -> String {
        let grid = &self.sampled.grid;
        let share = grid.share(point).map(|share| format!("share {share}%"));
        let period = grid.period(point).map(|period| format!("period {period}"));
        let parts: Vec<String> = share.into_iter().chain(period).collect();
        match parts.is_empty() {
            true => "as described".to_owned(),
            false => parts.join(", "),
        }
    }

    /// The values of an axis; one that is none where it is not varied.
    fn values(&self, key: &str) -> Vec<Option<String>> {
        let axes = self.sampled.grid.axes().iter();
        let own = axes.filter(|axis| axis.key == key);
        let values: Vec<Option<String>> = own
            .flat_map(|axis| axis.values.iter().cloned().map(Some))
            .collect();
        match values.is_empty() {
            true => vec![None],
            false => values,
        }
    }

    /// The shares.
    pub(super) fn shares(&self) -> Vec<Option<String>> {
        self.values(SHARE)
    }

    /// The periods.
    pub(super) fn periods(&self) -> Vec<Option<String>> {
        self.values(PERIOD)
    }

    /// The value of an axis at a point.
    fn value(&self, key: &str, point: usize) -> Option<&str> {
        let axis = self
            .sampled
            .grid
            .axes()
            .iter()
            .position(|axis| axis.key == key)?;
        self.sampled.grid.values(point).get(axis).copied()
    }

    /// The point of a condition with a share and a period.
    pub(super) fn point(
        &self,
        condition: usize,
        share: Option<&str>,
        period: Option<&str>,
    ) -> Option<usize> {
        let mut points = self.conditions.get(condition)?.iter().copied();
        points.find(|point| {
            self.value(SHARE, *point) == share && self.value(PERIOD, *point) == period
        })
    }

    /// A curve for each share over the period.
    pub(super) fn curves_over_period(
        &self,
        condition: usize,
        value: fn(&MeanResponse) -> Option<f64>,
    ) -> Vec<NumberCurve> {
        self.curves(condition, (SHARE, PERIOD), value)
    }

    /// A curve for each period over the share.
    pub(super) fn curves_over_share(
        &self,
        condition: usize,
        value: fn(&MeanResponse) -> Option<f64>,
    ) -> Vec<NumberCurve> {
        self.curves(condition, (PERIOD, SHARE), value)
    }

    fn curves(
        &self,
        condition: usize,
        (by, over): (&str, &str),
        value: fn(&MeanResponse) -> Option<f64>,
    ) -> Vec<NumberCurve> {
        if self.values(over).len() < 2 {
            return Vec::new();
        }
        let chosen = self.chosen(condition);
        let curves = self.values(by).into_iter().map(|own| {
            let points = self.conditions[condition].iter().copied();
            let points = points.filter(|point| self.value(by, *point) == own.as_deref());
            let points = points.filter_map(|point| {
                Some(CurvePoint {
                    x: place(over, self.value(over, point)?)?,
                    y: value(self.mean(point)?)?,
                    interval: None,
                    is_chosen: chosen == Some(point),
                })
            });
            NumberCurve {
                points: ascending(points.collect()),
                label: own
                    .as_deref()
                    .map_or_else(|| "measured".into(), |own| labelled(by, own)),
                band: Vec::new(),
            }
        });
        curves.filter(|curve| !curve.points.is_empty()).collect()
    }

    /// A curve for each share over the values of the one axis of conditions, at the period in the middle; with its key.
    /// `None` where conditions differ in several axes, or in words.
    pub(super) fn curves_over_condition(
        &self,
        value: fn(&MeanResponse) -> Option<f64>,
    ) -> Option<(String, Vec<NumberCurve>)> {
        let axes = self.sampled.grid.condition_axes();
        let [axis] = axes.as_slice() else {
            return None;
        };
        let axis = &self.sampled.grid.axes()[*axis];
        let periods = self.periods();
        let period = periods[periods.len() / 2].as_deref();
        let curves = self.shares().into_iter().map(|share| {
            let points = (0..self.conditions.len()).filter_map(|condition| {
                let point = self.point(condition, share.as_deref(), period)?;
                Some(CurvePoint {
                    x: number(self.value(&axis.key, point)?)?,
                    y: value(self.mean(point)?)?,
                    interval: None,
                    is_chosen: self.chosen(condition) == Some(point),
                })
            });
            NumberCurve {
                label: share
                    .as_deref()
                    .map_or_else(|| "measured".into(), |share| labelled(SHARE, share)),
                points: ascending(points.collect()),
                band: Vec::new(),
            }
        });
        let curves: Vec<NumberCurve> = curves.filter(|curve| curve.points.len() > 1).collect();
        Some((short(&axis.key).to_owned(), curves))
    }

    /// The points of a condition with the period of one of them, or with the period in the middle.
    pub(super) fn points_like(&self, condition: usize, chosen: Option<usize>) -> Vec<usize> {
        let periods = self.periods();
        let middle = periods[periods.len() / 2].clone();
        let period = match chosen {
            Some(point) => self.value(PERIOD, point).map(str::to_owned),
            None => middle,
        };
        let points = self.conditions[condition].iter().copied();
        points
            .filter(|point| self.value(PERIOD, *point) == period.as_deref())
            .collect()
    }

    /// The quantile of the first promise at points, each the middle one of its measurements.
    pub(super) fn quantile_points(
        &self,
        points: &[usize],
        chosen: Option<usize>,
    ) -> Vec<CurvePoint> {
        let drawn = points.iter().filter_map(|point| {
            let quantile = self.quantile(*point)?;
            let high = quantile.high.unwrap_or(quantile.value);
            Some(CurvePoint {
                x: place(SHARE, self.value(SHARE, *point)?)?,
                y: quantile.value.as_millis_f64(),
                interval: Some((quantile.low.as_millis_f64(), high.as_millis_f64())),
                is_chosen: chosen == Some(*point),
            })
        });
        ascending(drawn.collect())
    }

    fn quantile(&self, point: usize) -> Option<QuantileRecord> {
        let services = self
            .records(point)
            .filter_map(|one| one.services.get(self.service));
        let promises = services.filter_map(|service| service.promises.first());
        let mut quantiles: Vec<QuantileRecord> =
            promises.filter_map(|promise| promise.quantile).collect();
        quantiles.sort_by_key(|quantile| quantile.value);
        quantiles.get(quantiles.len() / 2).copied()
    }

    /// The predictions of the first promise at points, with their intervals.
    pub(super) fn band(&self, points: &[usize], fitted: &FittedModel<'_>) -> Vec<CurvePoint> {
        let Some(promise) = self.promise() else {
            return Vec::new();
        };
        let limit_ms = promise.limit.as_millis_f64();
        let drawn = points.iter().filter_map(|point| {
            let ratio = self.predicted(*point, fitted)?;
            let latency_ms = |log_ratio: f64| limit_ms * log_ratio.exp();
            Some(CurvePoint {
                x: place(SHARE, self.value(SHARE, *point)?)?,
                y: latency_ms(ratio.middle),
                interval: Some((latency_ms(ratio.low), latency_ms(ratio.high))),
                is_chosen: false,
            })
        });
        ascending(drawn.collect())
    }

    /// The prediction of the first promise at a point.
    pub(super) fn predicted(
        &self,
        point: usize,
        fitted: &FittedModel<'_>,
    ) -> Option<tailbound_sampling::PredictedRatio> {
        let promise = self.promise()?;
        let predicted = fitted.predict_point(point);
        let mut own = predicted
            .iter()
            .filter(|one| one.promise.service == self.service);
        own.find(|one| one.promise.task == promise.task && one.promise.limit == promise.limit)
            .map(|one| one.ratio)
    }

    /// The measured logarithm of the first promise's ratio at a point, the middle one of its measurements.
    pub(super) fn measured(&self, point: usize) -> Option<f64> {
        let services = self
            .records(point)
            .filter_map(|one| one.services.get(self.service));
        let promises = services.filter_map(|service| service.promises.first());
        let mut ratios: Vec<f64> = promises.map(PromiseRecord::log_ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// The points of two conditions with the same share and period, where both were measured.
    pub(super) fn common_points(&self, [one, other]: [usize; 2]) -> Vec<[usize; 2]> {
        let points = self.conditions[one].iter().copied();
        let pairs = points.filter_map(|point| {
            let twin = self.point(other, self.value(SHARE, point), self.value(PERIOD, point))?;
            (self.mean(point).is_some() && self.mean(twin).is_some()).then_some([point, twin])
        });
        pairs.collect()
    }
}

/// The last words of a key, which tell it from others: `users.count` of `services.web.users.count`.
fn short(key: &str) -> &str {
    let parts: Vec<&str> = key.split('.').collect();
    match parts.len() {
        0..=2 => key,
        count => {
            let kept: usize = parts[count - 2..].iter().map(|part| part.len()).sum();
            &key[key.len() - kept - 1..]
        }
    }
}

/// A value of an axis as a place in a figure: periods in milliseconds.
fn place(key: &str, value: &str) -> Option<f64> {
    let number = number(value)?;
    Some(if key == PERIOD { number * 1e3 } else { number })
}

fn labelled(key: &str, value: &str) -> String {
    match key {
        SHARE => format!("share {value}%"),
        _ => format!("{} {value}", short(key)),
    }
}

fn ascending(mut points: Vec<CurvePoint>) -> Vec<CurvePoint> {
    points.sort_by(|one, other| one.x.total_cmp(&other.x));
    points
}
