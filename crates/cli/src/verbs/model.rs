//! `tailbound model`: models fitted to recorded runs.

use crate::arguments::{ModelArguments, ModelWhat};
use crate::failure::Failure;
use crate::output::Output;

/// Fits the model that is asked for.
pub fn carry_out(arguments: &ModelArguments, output: &Output) -> Result<(), Failure> {
    match &arguments.what {
        ModelWhat::Frequency(frequency) => super::model_frequency::carry_out(frequency, output),
    }
}
