//! How changes from mode to mode are made.

use super::Check;
use crate::reading::Place;

/// Checks the numbers of mode changes, and that there is something to change between.
pub(super) fn mode_changes(check: &mut Check<'_>) {
    let place = Place::root().key("mode_changes");
    if !check.tree.names("mode_changes").is_empty() && check.tree.names("modes").is_empty() {
        check.error(
            &place,
            "there are no modes to change between",
            "leave it out, or describe modes",
        );
    }
    let changes = check.description.mode_changes;
    for (key, what, length) in [
        ("timeout", "the timeout", changes.timeout),
        ("boost", "the longest boost", changes.boost),
        (
            "least_gap",
            "the least gap between changes",
            changes.least_gap,
        ),
    ] {
        check.above_zero(&place.key(key), what, length);
    }
    if changes.boost > changes.timeout && !changes.timeout.is_zero() {
        check.error(
            &place.key("boost"),
            format!(
                "a boost of {} goes on after the timeout of {}",
                changes.boost, changes.timeout
            ),
            format!(
                "a boost ends with the timeout at the latest; write at most \"{}\"",
                changes.timeout
            ),
        );
    }
}
