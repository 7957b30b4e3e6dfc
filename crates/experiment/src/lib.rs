//! The whole story of an experiment: predict, simulate, apply, drive, measure, compare.
//!
//! Analysis, simulation, enforcement and measurement know nothing of each other; here they meet
//! over one description, and their distributions end in one result document.

pub mod campaign;
pub mod conditions;
pub mod driving;
mod error;
pub mod execution_times;
pub mod fitness;
pub mod forecast;
pub mod holding;
pub mod in_mode;
mod lookup;
mod loss_watch;
pub mod mode_changes;
mod observer;
pub mod programs;
pub mod repetition;
mod results;
pub mod schedulability;
mod simulated;
pub mod sizing;
pub mod testbed;
mod writing;

pub use campaign::{CampaignOptions, run};
pub use error::ExperimentError;
pub use loss_watch::LossWatch;
pub use observer::{Observer, Step, Unobserved};
pub use results::Results;
pub use writing::{Written, write, write_png, write_svg};
