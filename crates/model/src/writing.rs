//! From a description to its file.

use crate::description::Description;

/// Why a description cannot be written as a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the description cannot be written as TOML: {0}")]
pub struct NotWritable(String);

/// The description as a file that [`crate::parse`] reads back as the same description.
///
/// # Errors
/// If a number does not fit TOML, such as a seed of 2^63 or more.
pub fn to_toml(description: &Description) -> Result<String, NotWritable> {
    toml::to_string(description).map_err(|error| NotWritable(error.to_string()))
}
