//! Pure analysis: response-time distributions, resource interfaces, schedulability.
//!
//! Nothing here reads a clock, a file or the kernel. Every result names the method and what it
//! takes for granted; every refusal says what would be right.

pub mod admission;
mod batches;
mod cap;
pub mod chains;
mod cpu_limit;
mod error;
mod format;
pub mod interfaces;
pub mod interference;
mod limit_stanza;
mod lundberg;
pub mod notation;
mod periodic_load;
mod promise;
mod query;
mod rational;
pub mod recovery;
pub mod resolution;
mod response_tail;
pub mod response_time;
pub mod schedulability;
mod search_watch;
pub mod sizing;
pub mod slotted;
mod sporadic_task;
pub mod transitions;
mod virtualization_agnostic;

pub use cap::{CapAssumption, rule_of_cap};
pub use cpu_limit::{CpuLimit, MILLI_CPU, Quota, USUAL_QUOTA_PERIOD};
pub use error::AnalysisError;
pub use format::FORMAT;
pub use limit_stanza::LimitStanza;
pub use periodic_load::{LONGEST_HYPERPERIOD, PeriodicLoad, PeriodicTask};
pub use promise::{Outlook, Promise};
pub use query::{Prediction, ProvedBracket, ServiceQuery, SharpPoints};
pub use response_time::{predict, predict_at, predict_watched};
pub use search_watch::{SearchStage, SearchWatch, Unwatched};
pub use sporadic_task::{LONGEST_PARAMETER, SporadicTask};
pub use virtualization_agnostic::{BandwidthPoint, bandwidth_curve, virtualization_agnostic};
