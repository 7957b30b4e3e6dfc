//! The experiment.

use super::Check;
use crate::parser::KeyPath;

/// Checks lengths and variants.
pub(super) fn experiment(check: &mut Check<'_>) {
    let experiment = &check.description.experiment;
    let place = KeyPath::root().key("experiment");
    check.above_zero(&place.key("duration"), "the duration", experiment.duration);
    check.above_zero(&place.key("warm_up"), "the warm-up", experiment.warm_up);
    if experiment.variants.is_empty() {
        check.error(
            &place.key("variants"),
            "there is no variant to measure",
            "describe at least one, or leave `variants` out for the usual three",
        );
    }
    for (index, variant) in experiment.variants.iter().enumerate() {
        let here = place.key("variants").index(index);
        if experiment.variants[..index]
            .iter()
            .any(|other| other.name == variant.name)
        {
            let message = format!("there are two variants `{}`", variant.name);
            check.error(
                &here.key("name"),
                message,
                "give each variant a name of its own; `repetitions` repeats one",
            );
        }
        let without_budget = variant.backend.is_some_and(|kind| !kind.has_budget());
        if variant.margin_points.is_some() && without_budget {
            check.error(
                &here.key("margin_points"),
                "this variant has no budgets to add a margin to",
                "leave `margin_points` or `backend` out",
            );
        }
    }
}
