//! The result of a campaign: its points, and the answers by them.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_model::LoadedDescription;
use tailbound_sampling::{
    ConditionAnswer, MarginalCost, ModelCoverage, PointRecord, PromiseOutcome, ResponseModel,
    SampleGrid, SampledVerdict, SamplingCampaign, Trend, answers, described_bandwidth,
    marginal_costs, measured_ratios, summaries, trend,
};
use tailbound_time::{Duration, nanoseconds};

use super::fitted_queue::FittedQueue;

/// The level of the model's prediction intervals.
pub(super) const MODEL_LEVEL: f64 = 0.9;
/// A trend over a campaign is reported where chance alone is rarer than this.
const TREND_CHANCE: f64 = 0.01;

/// Why a campaign ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CampaignEnd {
    /// Every point is measured, or the answer is known to the confidence.
    Complete,
    /// The time was over.
    TimeOver,
    /// The user wanted to end.
    Stopped,
}

/// `SampledCampaign` is a campaign with its measurements.
#[derive(Clone, Debug)]
pub struct SampledCampaign {
    /// The table of the description.
    pub campaign: SamplingCampaign,
    /// The points.
    pub grid: SampleGrid,
    /// The measurements, in their order.
    pub records: Vec<PointRecord>,
    /// Why it ended.
    pub end: CampaignEnd,
    /// What is to be known when reading the results.
    pub remarks: Vec<String>,
    /// The answers by condition.
    pub answers: Vec<ConditionAnswer>,
    /// The cost of one more of what is varied.
    pub costs: Vec<MarginalCost>,
    /// The coverage of the model's prediction intervals, at its level.
    pub coverage: Option<ModelCoverage>,
    /// The queueing model of each promise, where there is one.
    pub queues: Vec<FittedQueue>,
    /// The name of the description.
    pub name: String,
    pub(super) description: tailbound_model::Description,
}

/// The answers of a campaign, as a document.
#[derive(Clone, Debug, Serialize)]
pub struct SampledAnswer {
    /// The name of the description.
    pub name: String,
    /// Why the campaign ended.
    pub end: CampaignEnd,
    /// The number of measurements, and that of all points.
    pub measurements: usize,
    /// The number of points that could be measured.
    pub points: usize,
    /// The confidence of the answers, in percent.
    pub confidence: f64,
    /// The answers by condition.
    pub answers: Vec<ReservationAnswer>,
    /// The cost of one more of what is varied.
    pub costs: Vec<CostDocument>,
    /// The share of left-out points within the model's intervals of 90%, and the number of points.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub coverage: Option<ModelCoverage>,
    /// The queueing model of each promise, beside the regression of the same points.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub queues: Vec<FittedQueue>,
    /// Where the time of the measurements went.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overhead: Option<CampaignOverhead>,
    /// What is to be known when reading the results.
    pub remarks: Vec<String>,
}

/// The answer for a condition, as a document.
#[derive(Clone, Debug, Serialize)]
pub struct ReservationAnswer {
    /// The keys and values of the condition.
    pub condition: BTreeMap<String, String>,
    /// `cheapest`, `unreachable` or `not-found`.
    pub outcome: &'static str,
    /// The share of a CPU of all reservations of the campaign together, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share_percent: Option<f64>,
    /// The reservations by domain.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub reservations: BTreeMap<String, SampledBudget>,
    /// The probability that less would do, by more than the tolerance; none where every point was measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub chance_of_cheaper: Option<f64>,
    /// How often the reservation of the answer was measured; 0 without one.
    pub measured: usize,
    /// The fittest of the measured periods at each share.
    pub fittest_periods: Vec<PeriodAnswer>,
}

/// Budget and period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SampledBudget {
    /// CPU time per period.
    #[serde(rename = "budget_ns", with = "nanoseconds")]
    pub budget: Duration,
    /// The distance between replenishments.
    #[serde(rename = "period_ns", with = "nanoseconds")]
    pub period: Duration,
}

/// The fittest period at a share.
#[derive(Clone, Debug, Serialize)]
pub struct PeriodAnswer {
    /// The values of the point.
    pub point: BTreeMap<String, String>,
    /// The quantile over its limit: at most 1 where the promise is kept.
    pub ratio: f64,
    /// The number of periods that were measured at this share.
    pub measured: usize,
}

/// The cost of one more of something.
#[derive(Clone, Debug, Serialize)]
pub struct CostDocument {
    /// The key.
    pub key: String,
    /// From this value.
    pub from: String,
    /// To this one.
    pub to: String,
    /// Points of bandwidth for one more.
    pub points_per_unit: f64,
}

/// `CampaignOverhead` says where the time of the measurements went, the starts of the application apart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CampaignOverhead {
    /// The whole time.
    #[serde(rename = "taken_ns", with = "nanoseconds")]
    pub taken: Duration,
    /// The share of the time in which requests counted.
    pub measuring: f64,
    /// The share of the time in which requests warmed up.
    pub warming: f64,
    /// The share of the rest: choosing, reserving, waiting for late answers, restoring, writing.
    pub beyond: f64,
}

/// A row of the table of answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSummary {
    /// The condition in words.
    pub condition: String,
    /// The outcome in words.
    pub outcome: String,
    /// Budget and period of each domain.
    pub reservation: String,
    /// The share of a CPU.
    pub share: String,
    /// The chance that less would do.
    pub cheaper: String,
}

impl SampledCampaign {
    pub(super) fn of(
        loaded: &LoadedDescription,
        (campaign, grid, records): (SamplingCampaign, SampleGrid, Vec<PointRecord>),
        end: CampaignEnd,
        queues: Vec<FittedQueue>,
    ) -> Self {
        let summaries = summaries(&grid, &records);
        let model = ResponseModel::fit(&measured_ratios(&grid, &summaries), MODEL_LEVEL);
        let tolerance = campaign.tolerance_points.0;
        let answers = answers(&grid, &records, model.as_ref(), tolerance);
        let mut sampled = Self {
            costs: marginal_costs(&grid, &answers),
            coverage: model.and_then(|model| model.coverage()),
            queues,
            name: loaded.description.name.clone(),
            description: loaded.description.clone(),
            remarks: Vec::new(),
            campaign,
            grid,
            records,
            end,
            answers,
        };
        sampled.remarks = sampled.all_remarks();
        sampled
    }

    /// Whether every condition has an answer that keeps the promises.
    pub fn is_answered(&self) -> bool {
        let mut answers = self.answers.iter();
        answers.all(|answer| matches!(answer.verdict, SampledVerdict::Cheapest { .. }))
    }

    /// The domains whose reservations the campaign varies.
    pub fn domains(&self) -> Vec<String> {
        self.campaign.parts(&self.description).into_keys().collect()
    }

    /// Budget and period of each reservation of the campaign at a point.
    pub fn reservations(&self, point: usize) -> BTreeMap<String, SampledBudget> {
        let parts = self.campaign.parts(&self.description);
        let each = parts.iter().filter_map(|(name, part)| {
            let reservation = self.description.domains.get(name)?.reservation.as_ref()?;
            let share = self.grid.share(point);
            let described = described_bandwidth(reservation)?;
            let bandwidth = share.map_or(described, |share| share / 100.0 * part);
            let period = self.grid.period(point).or(reservation.period)?;
            let budget = Duration::from_secs_f64_nearest(period.as_secs_f64() * bandwidth);
            Some((name.clone(), SampledBudget { budget, period }))
        });
        each.collect()
    }

    /// What is to be known when reading the results.
    fn all_remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if let Some(drift) = self.drift() {
            remarks.push(format!(
                "the host drifted: the control point's promised quantile ended at {:.2} times of its beginning \
                 (chance alone: {:.1}%); compare points that were measured far apart with care",
                drift.factor,
                drift.chance * 100.0
            ));
        }
        for (domain, growth) in self.memory_growth() {
            remarks.push(format!(
                "the memory of domain \"{domain}\" grew from point to point, to {:.2} times of its beginning",
                growth.factor
            ));
        }
        remarks.extend(self.undecided_points());
        remarks.extend(self.metric_faults());
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for record in &self.records {
            for flag in &record.flags {
                *counts.entry(flag.word()).or_default() += 1;
            }
        }
        let all = self.records.len();
        for (word, count) in counts {
            remarks.push(format!("{count} of {all} measurements are marked {word}"));
        }
        remarks
    }

    /// The points below the answer of each condition whose quantile is within the limit, and whose interval is not: more
    /// time may show that they keep the promises.
    fn undecided_points(&self) -> Vec<String> {
        let summaries = summaries(&self.grid, &self.records);
        let conditions = self.grid.conditions().into_iter().zip(&self.answers);
        let each = conditions.filter_map(|(points, answer)| {
            let share = |point: &usize| self.grid.share(*point).unwrap_or(0.0);
            let below = match answer.verdict {
                SampledVerdict::Cheapest { point, .. } => share(&point),
                _ => f64::INFINITY,
            };
            let mut undecided = points.iter().filter(|point| {
                let summary = &summaries[**point];
                let is_within = summary.ratio().is_some_and(|ratio| ratio <= 0.0);
                share(point) < below
                    && is_within
                    && summary.outcome() == Some(PromiseOutcome::Undecided)
            });
            let first = undecided.next()?;
            let point = self.grid.in_words(*first);
            Some(format!(
                "cheaper points may keep the promises, too ({} of them, such as {point}): within the limit, but \
                 measured for too short a time to be sure; a longer most_time tells",
                1 + undecided.count()
            ))
        });
        each.collect()
    }

    /// How often each metric has no value, and why at first.
    fn metric_faults(&self) -> Vec<String> {
        let mut faults: BTreeMap<&String, Vec<&String>> = BTreeMap::new();
        for record in &self.records {
            for (name, why) in &record.metric_faults {
                faults.entry(name).or_default().push(why);
            }
        }
        let all = self.records.len();
        let each = faults.into_iter();
        each.map(|(name, why)| {
            let (count, first) = (why.len(), why[0]);
            format!("metric \"{name}\" has no value at {count} of {all} measurements; the first time: {first}")
        })
        .collect()
    }

    /// Where the time of the measurements went; `None` before the first one.
    pub fn overhead(&self) -> Option<CampaignOverhead> {
        let sum = |time: fn(&PointRecord) -> Duration| {
            let each = self.records.iter().map(time);
            each.fold(Duration::ZERO, Duration::saturating_add)
        };
        let taken = sum(|record| record.taken);
        let part = |time: Duration| time.as_secs_f64() / taken.as_secs_f64();
        let measuring = part(sum(|record| record.measured));
        let warming = part(sum(|record| record.warmed));
        (!taken.is_zero()).then_some(CampaignOverhead {
            taken,
            measuring,
            warming,
            beyond: 1.0 - measuring - warming,
        })
    }

    /// The trend of the control point over the campaign, where there is one.
    pub fn drift(&self) -> Option<Trend> {
        let controls = self
            .records
            .iter()
            .filter(|one| one.is_control && one.counts());
        let ratios: Vec<f64> = controls.map(|one| one.log_ratio().exp()).collect();
        trend(&ratios).filter(|trend| trend.chance <= TREND_CHANCE)
    }

    /// The growth of the memory of each domain over the campaign, where there is some.
    fn memory_growth(&self) -> Vec<(String, Trend)> {
        let mut series: BTreeMap<&String, Vec<f64>> = BTreeMap::new();
        for record in &self.records {
            for (domain, (_, after)) in &record.memory_bytes {
                series.entry(domain).or_default().push(*after as f64);
            }
        }
        let rises = |trend: &Trend| trend.chance <= TREND_CHANCE && trend.factor > 1.1;
        series
            .into_iter()
            .filter_map(|(domain, bytes)| Some((domain.clone(), trend(&bytes).filter(rises)?)))
            .collect()
    }

    /// The answers as a document.
    pub fn document(&self) -> SampledAnswer {
        let costs = self.costs.iter().map(|cost| CostDocument {
            key: cost.key.clone(),
            from: cost.from.clone(),
            to: cost.to.clone(),
            points_per_unit: cost.points_per_unit,
        });
        SampledAnswer {
            name: self.name.clone(),
            end: self.end,
            measurements: self.records.len(),
            points: self.grid.len(),
            confidence: self.campaign.confidence.0,
            answers: self.answers.iter().map(|one| self.answer(one)).collect(),
            costs: costs.collect(),
            coverage: self.coverage,
            queues: self.queues.clone(),
            overhead: self.overhead(),
            remarks: self.remarks.clone(),
        }
    }

    fn answer(&self, answer: &ConditionAnswer) -> ReservationAnswer {
        let (outcome, point, chance_of_cheaper, measured) = match answer.verdict {
            SampledVerdict::Cheapest {
                point,
                cheaper,
                measured,
            } => ("cheapest", Some(point), cheaper, measured),
            SampledVerdict::Unreachable => ("unreachable", None, None, 0),
            SampledVerdict::NotFound => ("not-found", None, None, 0),
        };
        let fittest = answer.fittest.iter().map(|fittest| PeriodAnswer {
            point: self.values(fittest.point),
            ratio: fittest.ratio.exp(),
            measured: fittest.measured,
        });
        ReservationAnswer {
            condition: answer.condition.clone(),
            outcome,
            share_percent: point.and_then(|point| self.grid.share(point)),
            reservations: point.map_or_else(BTreeMap::new, |point| self.reservations(point)),
            chance_of_cheaper,
            measured,
            fittest_periods: fittest.collect(),
        }
    }

    /// The axes with their values at a point.
    fn values(&self, point: usize) -> BTreeMap<String, String> {
        let axes = self.grid.axes().iter().zip(self.grid.values(point));
        axes.map(|(axis, value)| (axis.key.clone(), value.to_owned()))
            .collect()
    }

    /// The rows of the table of answers.
    pub fn rows(&self) -> Vec<TableSummary> {
        self.answers.iter().map(|answer| self.row(answer)).collect()
    }

    fn row(&self, answer: &ConditionAnswer) -> TableSummary {
        let condition: Vec<String> = answer
            .condition
            .iter()
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        let condition = match condition.is_empty() {
            true => "as described".to_owned(),
            false => condition.join(" "),
        };
        let SampledVerdict::Cheapest {
            point,
            cheaper,
            measured,
        } = answer.verdict
        else {
            let outcome = match answer.verdict {
                SampledVerdict::Unreachable => "unreachable: broken at the highest share, measured",
                _ => "no measured point kept the promises",
            };
            let none = || "-".to_owned();
            return TableSummary {
                condition,
                outcome: outcome.to_owned(),
                reservation: none(),
                share: none(),
                cheaper: none(),
            };
        };
        let each = self.reservations(point);
        let each: Vec<String> = each
            .iter()
            .map(|(name, own)| format!("{name} {} / {}", own.budget, own.period))
            .collect();
        TableSummary {
            condition,
            outcome: match measured {
                1 => "kept, once".to_owned(),
                times => format!("kept, {times} times"),
            },
            reservation: each.join(", "),
            share: self
                .grid
                .share(point)
                .map_or("-".into(), |share| format!("{share}%")),
            cheaper: cheaper.map_or("-".into(), |chance| format!("{:.0}%", chance * 100.0)),
        }
    }
}
