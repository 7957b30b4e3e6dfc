//! Pure analysis: response-time distributions, resource interfaces, schedulability.
//!
//! Nothing here reads a clock, a file or the kernel. Every result names the method and what it
//! takes for granted; every refusal says what would be right.

mod error;
mod query;
pub mod response_time;

pub use error::AnalysisError;
pub use query::{Prediction, ServiceQuery};
pub use response_time::predict;
