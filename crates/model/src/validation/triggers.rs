//! What asks for modes without being told to.

use tailbound_time::Duration;

use super::Check;
use crate::interface::Percent;
use crate::mode::Trigger;
use crate::mode_changes::ModeChanges;
use crate::parser::KeyPath;

/// Checks the triggers of every mode.
pub(super) fn triggers(check: &mut Check<'_>) {
    let description = check.description;
    for (name, mode) in &description.modes {
        let place = KeyPath::root().key("modes").key(name).key("triggers");
        for (index, trigger) in mode.triggers.iter().enumerate() {
            let here = place.index(index);
            match trigger {
                Trigger::Schedule { every, .. } => schedule(check, &here, *every),
                Trigger::Condition {
                    domain,
                    above,
                    below,
                    window,
                    ..
                } => {
                    counted(check, &here.key("domain"), domain);
                    threshold(check, &here, *above, *below);
                    span(check, &here.key("for"), domain, *window);
                }
            }
        }
    }
}

fn schedule(check: &mut Check<'_>, place: &KeyPath, every: Duration) {
    let here = place.key("every");
    check.above_zero(&here, "the distance of the requests", every);
    let least = check.description.section::<ModeChanges>().least_gap;
    if every < least && !every.is_zero() {
        check.error(
            &here,
            format!("it asks every {every}, and changes are at least {least} apart"),
            format!("ask at most every {least}, or shorten `least_gap` in [mode_changes]"),
        );
    }
}

/// Complains where nothing counts what happens to the domain.
fn counted(check: &mut Check<'_>, here: &KeyPath, name: &str) {
    let domains = check.names("domains");
    check.reference(here, "domain", name, &domains);
    let description = check.description;
    let Some(domain) = description.domains.get(name) else {
        return;
    };
    let mut modes = description.modes.values();
    let serves = modes.any(|mode| {
        let reserved = description.reservation_in(mode, name);
        reserved.is_some_and(|(reservation, _)| reservation.backend.has_manager())
    });
    if !serves {
        let message = match domain.reservation {
            Some(_) => "the domain's back end has no manager that would count",
            None => "the domain has no reservation, so no manager counts anything of it",
        };
        check.error(
            here,
            message,
            "look at a domain with a reservation of back end ds-freeze",
        );
    }
}

fn threshold(
    check: &mut Check<'_>,
    place: &KeyPath,
    above: Option<Percent>,
    below: Option<Percent>,
) {
    match (above, below) {
        (None, None) => check.error(
            place,
            "the condition has no threshold",
            "add `above` or `below`, in percent, such as above = 50",
        ),
        (Some(_), Some(_)) => check.error(
            &place.key("below"),
            "the condition has two thresholds",
            "give either `above` or `below`",
        ),
        (Some(share), None) if share.0 >= 100.0 => check.error(
            &place.key("above"),
            "no share is above 100%",
            "write a smaller number",
        ),
        (None, Some(share)) if share.0 <= 0.0 => check.error(
            &place.key("below"),
            "no share is below 0%",
            "write a larger number",
        ),
        _ => {}
    }
}

/// Complains of a stretch of time in which it may be that no period ends.
fn span(check: &mut Check<'_>, here: &KeyPath, name: &str, window: Duration) {
    check.above_zero(here, "the time that is counted over", window);
    let description = check.description;
    let modes = description.modes.values();
    let periods = modes.filter_map(|mode| description.reservation_in(mode, name)?.0.period);
    if let Some(longest) = periods.max().filter(|longest| *longest > window)
        && !window.is_zero()
    {
        check.error(
            here,
            format!("the periods of `{name}` are up to {longest} long, so none may end in it"),
            format!("count over several periods; write at least \"{longest}\""),
        );
    }
}
