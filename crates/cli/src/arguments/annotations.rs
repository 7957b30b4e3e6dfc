//! The reservation of a container, as its annotations ask for it: the options of `apply` under the names that
//! annotations have.

use std::collections::BTreeMap;
use std::error::Error;

use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser};

use super::ReservationArguments;
use crate::failure::Failure;

/// The first part of the name of every annotation of ours; the name of an option follows.
pub const ANNOTATION_PREFIX: &str = "tailbound.";

/// `AnnotatedReservation` is the reservation that a container has in its annotations, each of which is an option:
/// `tailbound.budget=4ms` is `--budget 4ms`.
#[derive(Debug, Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
pub struct AnnotatedReservation {
    /// The reservation itself.
    #[command(flatten)]
    pub reservation: ReservationArguments,
    /// The domain, for `status` and `revert`.
    #[arg(long)]
    pub name: Option<String>,
    /// Whether the container may run only with its reservation. [`Self::is_optional`] answers this, since other
    /// annotations may be refused; the field is here for the list of options and the check of its value.
    #[arg(long, action = clap::ArgAction::Set, default_value_t = true)]
    pub required: bool,
    /// The container.
    #[arg(last = true, group = "subject")]
    container: String,
}

impl AnnotatedReservation {
    /// The reservation that the annotations of a container ask for; `None` where none of them is ours.
    ///
    /// # Errors
    /// There is no such annotation of ours, or its option does not take the value.
    pub fn of(
        container: &str,
        annotations: &BTreeMap<String, String>,
    ) -> Result<Option<Self>, Failure> {
        let ours = annotations.iter().filter_map(|(name, value)| {
            let option = name.strip_prefix(ANNOTATION_PREFIX)?;
            Some((option, value))
        });
        let ours: Vec<(&str, &String)> = ours.collect();
        if ours.is_empty() {
            return Ok(None);
        }
        let names = names();
        let is_one = |option: &str| names.iter().any(|name| name == option);
        if let Some((unknown, _)) = ours.iter().find(|(option, _)| !is_one(option)) {
            let names: Vec<String> = names.iter().map(|name| annotation(name)).collect();
            return Err(Failure::with_help(
                format!(
                    "container {container}: there is no annotation {}",
                    annotation(unknown)
                ),
                format!("there is {}", names.join(", ")),
            ));
        }
        let words = ours.iter().map(|(name, value)| format!("--{name}={value}"));
        let words = words.chain(["--".to_owned(), container.to_owned()]);
        match Self::try_parse_from(words) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(error) => Err(refusal(container, &error)),
        }
    }

    /// Whether the annotations of a container say that it may run without its reservation, whatever else they say.
    pub fn is_optional(annotations: &BTreeMap<String, String>) -> bool {
        let required = annotations.get(&annotation("required"));
        required.is_some_and(|required| required == "false")
    }
}

/// The name of the annotation of an option.
fn annotation(option: &str) -> String {
    format!("{ANNOTATION_PREFIX}{option}")
}

/// The options that an annotation may name.
fn names() -> Vec<String> {
    let command = AnnotatedReservation::command();
    let options = command.get_arguments().filter_map(clap::Arg::get_long);
    options.map(str::to_owned).collect()
}

/// Why an annotation has no value that its option takes.
fn refusal(container: &str, error: &clap::Error) -> Failure {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    // An option as clap shows it: `--budget <BUDGET>`.
    let option = context(ContextKind::InvalidArg);
    let option = option.split(' ').next().unwrap_or_default();
    let name = annotation(option.trim_start_matches('-'));
    let value = context(ContextKind::InvalidValue);
    let (why, help) = match (error.source(), error.get(ContextKind::ValidValue)) {
        (Some(source), _) => (source.to_string(), None),
        (None, Some(ContextValue::Strings(values))) => {
            let help = format!("it is one of {}", values.join(", "));
            ("it has no such value".to_owned(), Some(help))
        }
        (None, _) => ("it needs another value".to_owned(), None),
    };
    let message = format!("container {container}: annotation {name}={value}: {why}");
    match help {
        Some(help) => Failure::with_help(message, help),
        None => Failure::error(message),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tailbound_model::BackendKind;
    use tailbound_time::Duration;

    use super::*;

    fn read(annotations: &[(&str, &str)]) -> Result<Option<AnnotatedReservation>, Failure> {
        let owned = |&(name, value): &(&str, &str)| (name.to_owned(), value.to_owned());
        AnnotatedReservation::of("redis", &annotations.iter().map(owned).collect())
    }

    #[track_caller]
    fn refused(annotations: &[(&str, &str)]) -> String {
        match read(annotations).unwrap_err() {
            Failure::Error { message, help } => {
                format!("{message}; {}", help.unwrap_or_default())
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn annotations_are_the_options_of_apply() {
        let annotated = read(&[
            ("tailbound.budget", "4ms"),
            ("tailbound.period", "10ms"),
            ("tailbound.cpus", "0,1"),
            ("tailbound.priority", "50"),
            ("tailbound.backend", "nice"),
            ("tailbound.name", "cache"),
            ("tailbound.required", "false"),
            ("io.podman.annotations.label", "app=redis"),
        ]);
        let annotated = annotated.unwrap().unwrap();
        assert_eq!(annotated.reservation.budget, Some(Duration::from_millis(4)));
        assert_eq!(annotated.reservation.cpus, [0, 1]);
        assert_eq!(annotated.reservation.priority, 50);
        assert_eq!(annotated.reservation.backend, BackendKind::Nice);
        assert_eq!(annotated.name.as_deref(), Some("cache"));
        assert!(!annotated.required);
        let plain = read(&[("tailbound.budget", "4ms")]).unwrap().unwrap();
        assert!(plain.required);
        assert_eq!(plain.reservation.backend, BackendKind::default());
    }

    #[test]
    fn a_container_without_annotations_of_ours_asks_for_nothing() {
        assert!(read(&[]).unwrap().is_none());
        let other = read(&[("tailboundary", "x"), ("org.tailbound.budget", "4ms")]);
        assert!(other.unwrap().is_none());
    }

    #[test]
    fn an_error_names_the_annotation_and_the_container() {
        assert_eq!(
            refused(&[("tailbound.budgets", "4ms")]),
            "container redis: there is no annotation tailbound.budgets; there is tailbound.budget, \
             tailbound.period, tailbound.cpus, tailbound.budget-scope, tailbound.priority, tailbound.backend, tailbound.name, \
             tailbound.required"
        );
        let budget = refused(&[("tailbound.budget", "4 parsecs")]);
        assert!(
            budget.starts_with("container redis: annotation tailbound.budget=4 parsecs: "),
            "{budget}"
        );
        let backend = refused(&[("tailbound.backend", "magic")]);
        assert!(backend.contains("tailbound.backend=magic: "), "{backend}");
        assert!(backend.contains("ds-freeze"), "{backend}");
        assert_eq!(
            refused(&[("tailbound.required", "perhaps")]),
            "container redis: annotation tailbound.required=perhaps: it has no such value; it is one of true, false"
        );
        let cpus = refused(&[("tailbound.cpus", "0,x")]);
        assert!(cpus.contains("annotation tailbound.cpus=x: "), "{cpus}");
    }

    #[test]
    fn only_a_plain_no_lets_a_container_run_without_its_reservation() {
        let optional = |value: &str| {
            let annotations = [("tailbound.required".to_owned(), value.to_owned())];
            AnnotatedReservation::is_optional(&annotations.into())
        };
        assert!(optional("false"));
        assert!(!optional("true"));
        assert!(!optional("nope"));
        assert!(!AnnotatedReservation::is_optional(&BTreeMap::new()));
    }
}
