//! From a description to its file.

use crate::description::Description;

/// Why a description cannot be written as a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotWritable {
    /// TOML's integers end at 2^63 - 1.
    #[error("the seed {0} does not fit TOML; use one below 2^63")]
    SeedTooLarge(u64),
    /// Something else does not fit TOML.
    #[error("the description cannot be written as TOML: {0}")]
    NotToml(String),
}

/// The description as a file that [`crate::parse`] reads back as the same description.
///
/// # Errors
/// If a number does not fit TOML, such as a seed of 2^63 or more.
pub fn to_toml(description: &Description) -> Result<String, NotWritable> {
    if i64::try_from(description.seed).is_err() {
        return Err(NotWritable::SeedTooLarge(description.seed));
    }
    toml::to_string(description).map_err(|error| NotWritable::NotToml(error.to_string()))
}
