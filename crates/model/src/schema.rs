//! The JSON Schema of a description.

use crate::description::Description;

/// The JSON Schema of a description file, for editors and other programs.
pub fn json_schema() -> serde_json::Value {
    schemars::schema_for!(Description).to_value()
}
