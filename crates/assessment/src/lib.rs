//! Questions about a description, answered by analysis and simulation alone.
//!
//! The command line, the Python package and experiments ask them here, so that all of them get the same
//! answers. Every result serialises itself: lengths of time are integers of nanoseconds in fields whose
//! names end in `_ns`. The crate knows neither the kernel nor a daemon; what depends on a host comes in as
//! a [`sizing::HostFit`], and files come in as [`tailbound_model::InputFiles`].

pub mod analysis;
pub mod band;
pub mod chain_prediction;
pub mod chain_simulation;
pub mod chains;
pub mod deadline_test;
pub mod displaced_reaction;
mod error;
pub mod execution_times;
pub mod frame_sizing;
pub mod interface;
mod interfered_times;
pub mod mode_content;
pub mod observed_load;
pub mod own_task_causes;
mod predicted_supply;
pub mod prediction;
pub mod protocols;
pub mod recovery;
mod released_tasks;
pub mod schedulability;
pub mod service_simulation;
pub mod set_points;
pub mod simulation;
pub mod sizing;
pub mod task_set;

pub use error::AssessmentError;
