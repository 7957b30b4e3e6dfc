//! Names of a description, looked up.

use tailbound_model::{Description, Domain, Service};

use crate::ExperimentError;

/// The domain that `service` runs in, with its name.
///
/// # Errors
/// The description has no such domain.
pub fn domain_of<'a>(
    description: &'a Description,
    service: &Service,
) -> Result<(&'a str, &'a Domain), ExperimentError> {
    description
        .domains
        .get_key_value(&service.domain)
        .map(|(name, domain)| (name.as_str(), domain))
        .ok_or_else(|| ExperimentError::Unknown {
            kind: "domain",
            name: service.domain.clone(),
            known: names(description.domains.keys()),
        })
}

/// The names, for an error.
pub fn names<'a>(known: impl Iterator<Item = &'a String>) -> String {
    let list: Vec<&str> = known.map(String::as_str).collect();
    if list.is_empty() {
        "none".into()
    } else {
        list.join(", ")
    }
}
