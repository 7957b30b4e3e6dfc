//! How the values of arguments are read.

use tailbound_model::{BackendKind, UnknownBackend};

pub(super) fn scale(text: &str) -> Result<f64, String> {
    let number: f64 = text
        .parse()
        .map_err(|_| "a factor is a number such as 0.1")?;
    if number.is_finite() && (0.001..=1000.0).contains(&number) {
        Ok(number)
    } else {
        Err("a factor lies between 0.001 and 1000".into())
    }
}

pub(super) fn back_end(text: &str) -> Result<BackendKind, String> {
    text.parse()
        .map_err(|unknown: UnknownBackend| unknown.to_string())
}

pub(super) fn scheduling(text: &str) -> Result<tailbound_model::Scheduling, String> {
    by_name(
        text,
        "fifo, rate-monotonic, deadline-monotonic, earliest-deadline-first, fixed-priority",
    )
}

/// Reads a name as the description file spells it, so that there is one spelling.
pub(super) fn by_name<T: serde::de::DeserializeOwned>(
    text: &str,
    names: &str,
) -> Result<T, String> {
    serde_json::from_value(serde_json::Value::String(text.into()))
        .map_err(|_| format!("unknown name; use one of {names}"))
}
