//! Campaigns: many settings of one application, measured one after the other, and the answers that follow.
//!
//! The choice and the judgement of points are in `tailbound-sampling`; here they meet a running application, a
//! journal and the files of the data set.

mod campaign_table;
mod data_set;
mod error;
mod figures;
mod fitted_queue;
mod model_file;
mod plan;
mod point;
mod reports;
mod result;
mod run;
mod slices;
mod surface_figure;

pub use data_set::write_data_set;
pub use error::SampleError;
pub use figures::write_report;
pub use fitted_queue::{FittedQueue, described_loads};
pub use model_file::{axis_values, read_model};
pub use result::{
    CampaignEnd, CampaignOverhead, CostDocument, PeriodAnswer, ReservationAnswer, SampledAnswer,
    SampledBudget, SampledCampaign, TableSummary,
};
pub use run::{SampleOptions, sample};
