//! The whole story of an experiment: predict, simulate, apply, drive, measure, compare.
//!
//! Analysis, simulation, enforcement and measurement know nothing of each other; here they meet
//! over one description, and their distributions end in one result document.

mod band_history;
mod bands;
mod calibration_record;
pub mod calibrations;
pub mod campaign;
mod chain_runs;
mod error;
mod health_monitor;
mod health_watch;
pub mod host_check;
mod host_prediction;
pub mod host_set;
mod host_sizing;
mod isolation;
pub mod load_run;
mod loss_watch;
mod measured_sample;
pub mod mode_changes;
mod observer;
pub mod port_set;
pub mod programs;
pub mod recorded_run;
pub mod repetition;
pub mod reservation_lease;
pub mod result_folder;
mod results;
pub mod sample_campaign;
mod sections;
pub mod testbed;

pub use calibration_record::{CalibrationRecord, RecordError};
pub use campaign::{CampaignOptions, run};
pub use error::ExperimentError;
pub use host_prediction::{HostPrediction, PredictedRun, predict_on_host};
pub use host_sizing::CalibratedHost;
pub use loss_watch::LossWatch;
pub use observer::{ExperimentStep, Observer};
pub use result_folder::{Written, write, write_png, write_svg};
pub use results::Results;
pub use sections::SECTIONS;
