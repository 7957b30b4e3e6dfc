//! The verbs, one file each: read arguments, call a library, render what it returns.

pub mod analyze;
mod analyze_file;
mod annotated_container;
pub mod apply;
pub mod balance;
pub mod calculate;
mod chains;
pub mod check;
pub mod compare;
pub mod doctor;
pub mod explain;
pub mod generate;
pub mod import;
pub mod interface;
mod interface_file;
pub mod internal;
pub mod measure;
pub mod metrics;
pub mod mode;
pub mod model;
mod model_frequency;
pub mod nri_plugin;
pub mod oci_hook;
pub mod own_tasks;
mod partition_table;
pub mod predict;
mod predict_answer;
mod predict_frequency;
mod predict_recovery;
mod predicted_chains;
mod protocols;
pub mod report;
pub mod revert;
pub mod route;
pub mod run_command;
pub mod run_file;
pub mod sample;
mod sampled_model;
mod schedule;
pub mod schema;
pub mod simulate;
mod simulated_chains;
pub mod size;
mod size_answer;
mod size_file;
mod size_frame;
mod size_queue;
pub mod status;
pub mod sweep;
mod topic_table;
pub mod trace;
mod transitions;

use std::path::Path;

use tailbound_analysis::FORMAT;
use tailbound_model::{InputFiles, LoadError, LoadedDescription};

use crate::excerpt;
use crate::failure::Failure;
use crate::output::Output;

/// Loads a description; its warnings go to standard error.
fn load(path: &Path, output: &Output) -> Result<LoadedDescription, Failure> {
    match FORMAT.load(path) {
        Ok(loaded) => {
            if !loaded.warnings.is_empty() && output.speaks() {
                excerpt::render(&loaded.warnings, &loaded.text);
            }
            Ok(loaded)
        }
        Err(LoadError::Problems { text, problems }) => Err(Failure::Description { problems, text }),
        Err(error) => Err(Failure::from_error(error)),
    }
}

/// The files that a description names.
fn inputs(loaded: &LoadedDescription) -> Result<InputFiles, Failure> {
    loaded.inputs().map_err(|problems| Failure::Description {
        problems,
        text: loaded.text.clone(),
    })
}
