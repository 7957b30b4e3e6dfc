//! `tailbound schema`: the JSON Schema of the description file.

use crate::failure::Failure;
use crate::output::Output;

/// Prints the schema.
pub fn carry_out(output: &Output) -> Result<(), Failure> {
    let schema = tailbound_model::json_schema();
    let text = serde_json::to_string_pretty(&schema).map_err(Failure::from_error)?;
    output.print(&format!("{text}\n"))
}
