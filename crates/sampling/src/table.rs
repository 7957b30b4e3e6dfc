//! The table `[sampling]` of a description.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_model::{
    Axis, AxisError, Check, Description, Percent, PercentagePoints, Percentile, Reservation,
    Section,
};
use tailbound_time::Duration;

use crate::ReportedMetric;
use crate::table_check::check_table;

/// The campaign of `tailbound sample`: which points it measures, how well, for how long, and for which promises.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SamplingCampaign {
    /// The way in which points are chosen.
    #[serde(default)]
    pub design: SamplingDesign,
    /// The services whose promises (`slos`) count; all services with promises if left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub services: Vec<String>,
    /// The shares of a CPU that the reservations of the campaign have together, in percent: values with commas, or
    /// `START..END/STEP`. The budget of a reservation is its part of the share times the period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<String>,
    /// The periods of the reservations of the campaign: values with commas, or `START..END/STEP`. Without `share`, budgets
    /// keep their bandwidth.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period: Option<String>,
    /// The reservations of the campaign, by domain, each with its part of the share; all reservations with a budget, in the
    /// proportions of their bandwidths, if left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub proportions: BTreeMap<String, f64>,
    /// Other keys of the description that are varied, each with dots, and their values: with commas, or
    /// `START..END/STEP`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub axes: BTreeMap<String, String>,
    /// What the application reports of itself, by name: a column `metric_NAME` of the data set each.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metrics: BTreeMap<String, ReportedMetric>,
    /// The number of times that a point is measured.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100), extend("default" = 1))]
    pub repeats: u32,
    /// The number of times that an answer is measured again before it counts: of many points that were measured once, the
    /// cheapest that kept the promises is more likely than others to have kept them by luck. 0 for none.
    #[serde(default = "one")]
    #[schemars(range(min = 0, max = 100), extend("default" = 1))]
    pub confirmations: u32,
    /// The number of measurements between two of the control point, which shows a host that drifts; 0 for none. The control
    /// point is in the middle of all axes.
    #[serde(default = "eight")]
    #[schemars(range(min = 0, max = 1000), extend("default" = 8))]
    pub control_distance: u32,
    /// The time for which a point runs before it counts; a run-in that lasts longer is cut off by rule MSER-5.
    #[serde(default = "one_second")]
    #[schemars(extend("default" = "1s"))]
    pub warm_up: Duration,
    /// The time for which each point is measured at least.
    #[serde(default = "five_seconds")]
    #[schemars(extend("default" = "5s"))]
    pub least_time: Duration,
    /// The time for which each point is measured at most.
    #[serde(default = "thirty_seconds")]
    #[schemars(extend("default" = "30s"))]
    pub most_time: Duration,
    /// The distance of either end of the confidence interval of a promised quantile from that quantile, in percent of it, at
    /// which a point is done.
    #[serde(default = "ten_percent")]
    #[schemars(extend("default" = 10.0))]
    pub precision: Percent,
    /// The confidence of intervals and of the answer, in percent.
    #[serde(default = "ninety_five")]
    #[schemars(extend("default" = 95.0))]
    pub confidence: Percentile,
    /// The difference of bandwidth that does not matter, at which an adaptive campaign is done.
    #[serde(default = "five_points")]
    #[schemars(extend("default" = 5.0))]
    pub tolerance_points: PercentagePoints,
    /// The time after which no other point begins; unlimited if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_budget: Option<Duration>,
}

/// The way in which a campaign chooses its points.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SamplingDesign {
    /// Every combination of the values of all axes, in random order.
    #[default]
    Factorial,
    /// The point next that says most about the least bandwidth at which the promises are kept, until that is known to the
    /// confidence, or the time is over. Needs `share`.
    Adaptive,
}

fn one() -> u32 {
    1
}

fn eight() -> u32 {
    8
}

fn one_second() -> Duration {
    Duration::from_secs(1)
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn thirty_seconds() -> Duration {
    Duration::from_secs(30)
}

fn ten_percent() -> Percent {
    Percent(10.0)
}

fn ninety_five() -> Percentile {
    Percentile(95.0)
}

fn five_points() -> PercentagePoints {
    PercentagePoints(5.0)
}

impl Default for SamplingCampaign {
    /// The table with every key left out, which samples nothing.
    fn default() -> Self {
        Self {
            design: SamplingDesign::default(),
            services: Vec::new(),
            share: None,
            period: None,
            proportions: BTreeMap::new(),
            axes: BTreeMap::new(),
            metrics: BTreeMap::new(),
            repeats: one(),
            confirmations: one(),
            control_distance: eight(),
            warm_up: one_second(),
            least_time: five_seconds(),
            most_time: thirty_seconds(),
            precision: ten_percent(),
            confidence: ninety_five(),
            tolerance_points: five_points(),
            time_budget: None,
        }
    }
}

impl Section for SamplingCampaign {
    const KEY: &'static str = "sampling";

    fn check(&self, check: &mut Check<'_>) {
        check_table(self, check);
    }
}

/// The name of the axis of shares, in records and files.
pub const SHARE: &str = "share";
/// The name of the axis of periods.
pub const PERIOD: &str = "period";

impl SamplingCampaign {
    /// Whether the campaign varies anything.
    pub fn varies(&self) -> bool {
        self.share.is_some() || self.period.is_some() || !self.axes.is_empty()
    }

    /// The axes: those of other keys first, then `share` and `period`.
    ///
    /// # Errors
    /// A text that is no list of values.
    pub fn all_axes(&self) -> Result<Vec<Axis>, AxisError> {
        let own = [(SHARE, &self.share), (PERIOD, &self.period)];
        let own = own
            .into_iter()
            .filter_map(|(name, values)| Some((name, values.as_ref()?.as_str())));
        let others = self
            .axes
            .iter()
            .map(|(key, values)| (key.as_str(), values.as_str()));
        others
            .chain(own)
            .map(|(key, values)| format!("{key}={values}").parse())
            .collect()
    }

    /// The part of the share that each reservation of the campaign has; the parts sum up to 1.
    pub fn parts(&self, description: &Description) -> BTreeMap<String, f64> {
        let weights: BTreeMap<String, f64> = match self.proportions.is_empty() {
            false => self.proportions.clone(),
            true => {
                let domains = description.domains.iter();
                let bandwidths = domains.filter_map(|(name, domain)| {
                    Some((
                        name.clone(),
                        described_bandwidth(domain.reservation.as_ref()?)?,
                    ))
                });
                bandwidths.collect()
            }
        };
        let sum: f64 = weights.values().sum();
        weights
            .into_iter()
            .map(|(name, weight)| (name, weight / sum))
            .collect()
    }

    /// The services with promises that count.
    pub fn promised<'a>(&'a self, description: &'a Description) -> Vec<&'a str> {
        let services = description.services.iter();
        let promised = services.filter(|(_, service)| !service.slos.is_empty());
        let named =
            |name: &str| self.services.is_empty() || self.services.iter().any(|one| one == name);
        let names = promised.map(|(name, _)| name.as_str());
        names.filter(|name| named(name)).collect()
    }
}

/// The bandwidth of a reservation that has a budget and a period.
pub fn described_bandwidth(reservation: &Reservation) -> Option<f64> {
    let (budget, period) = (reservation.budget?, reservation.period?);
    (!period.is_zero()).then(|| budget.as_secs_f64() / period.as_secs_f64())
}
