//! Campaigns of measurements over many settings of an application: the table `[sampling]` of a description, the order
//! and the choice of points, the judgement of each, and the model that is fitted to them.
//!
//! Everything here is a function of the description, the records so far and a seed; no clock and no file is touched.
//! The run of a campaign on a host, with its journal and its data set, is in `tailbound-experiment`.

mod adaptive;
mod answer;
mod gaussian_process;
mod grid;
mod metric;
mod model_document;
mod monotony;
mod normal;
mod queueing_model;
mod record;
mod response_model;
mod sampled_queue;
mod steady_state;
mod table;
mod table_check;
mod trend;
mod turn;

pub use adaptive::AdaptiveDesign;
pub use answer::{
    ConditionAnswer, FittestPeriod, MarginalCost, PointSummary, SampledVerdict, answers,
    marginal_costs, measured_ratios, summaries, unconfirmed,
};
pub use grid::{AxisScale, MOST_POINTS, SampleGrid, number};
pub use metric::{MetricFault, ReportedMetric, SINCE};
pub use model_document::{
    FittedModel, MODEL_VERSION, ModelQuestionError, PredictedPromise, PromiseModel, SampledModel,
    SampledModelKind, SampledPromise, SampledRatio,
};
pub use queueing_model::{QueueLoad, QueuedPoint, QueueingFit, fit_queue};
pub use record::{
    PointFlag, PointRecord, PromiseOutcome, PromiseRecord, QuantileRecord, ServiceRecord,
};
pub use response_model::{ModelCoverage, PredictedRatio, ResponseModel};
pub use sampled_queue::{ModelForm, SampledQueue};
pub use steady_state::{RunIn, run_in};
pub use table::{PERIOD, SHARE, SamplingCampaign, SamplingDesign, described_bandwidth};
pub use trend::{Trend, trend};
pub use turn::{CampaignTurn, factorial_turns};
