//! `tailbound schema`: the JSON Schema of the description file.

use tailbound_analysis::FORMAT;

use crate::failure::Failure;
use crate::output::Output;

/// Prints the schema.
pub fn carry_out(output: &Output) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(FORMAT.schema()).map_err(Failure::from_error)?;
    output.print(&format!("{text}\n"))
}
