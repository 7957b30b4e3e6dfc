//! The windows of time partitions.

use tailbound_time::Duration;

use super::Check;
use crate::BackendKind;
use crate::description::Reservation;
use crate::parser::KeyPath;

/// Checks the windows of a reservation. Whether those of different domains overlap is the question of the admission.
pub(super) fn windows(
    check: &mut Check<'_>,
    place: &KeyPath,
    name: &str,
    reservation: &Reservation,
) {
    let here = place.key("windows");
    let backend = reservation.backend;
    if !backend.has_windows() {
        if !reservation.windows.is_empty() {
            let right = BackendKind::names(BackendKind::has_windows);
            check.error(
                &here,
                format!("the back end {backend} has no windows"),
                format!("leave them out, or set backend = \"{right}\""),
            );
        }
        if !reservation.slack.is_empty() {
            let right = BackendKind::names(BackendKind::has_windows);
            check.error(
                &place.key("slack"),
                format!("the back end {backend} has no windows that it could leave to others"),
                format!("leave it out, or set backend = \"{right}\""),
            );
        }
        return;
    }
    instead_of_budgets(check, place, reservation);
    named_once(check, &place.key("slack"), name, reservation);
    if reservation.windows.is_empty() {
        check.error(
            place,
            "the time partition has no window, so it never runs",
            "add `windows`, such as [{ offset = \"0ms\", length = \"4ms\" }]",
        );
    }
    let domain = check.description.domains.get(name);
    if domain.is_some_and(|domain| domain.inside.is_some()) {
        check.error(
            &here,
            "the windows of a time partition are those of the host",
            "leave `inside` of the domain out, or give it a budget and a period in place of windows",
        );
    }
    if domain.is_some_and(|domain| domain.agent.is_some()) {
        check.error(
            &here,
            "an agent stands still with its time partition, so that it does not answer the host in time",
            "leave `agent` of the domain out; windows change without one",
        );
    }
    let host = domain.and_then(|domain| check.description.host_of(domain));
    let frame = host.and_then(|(_, host)| host.major_frame);
    let switch = host.map(|(_, host)| host.overheads.window_begin());
    longer_than(check, &here, reservation, switch.unwrap_or_default());
    in_order(check, &here, reservation, frame);
}

/// Complains of the keys that say in another way how much a partition gets.
fn instead_of_budgets(check: &mut Check<'_>, place: &KeyPath, reservation: &Reservation) {
    let given = [
        ("budget", reservation.budget.is_some()),
        ("period", reservation.period.is_some()),
        ("derive", reservation.derive.is_some()),
        ("margin_points", reservation.margin_points.0 != 0.0),
    ];
    for (key, _) in given.into_iter().filter(|(_, given)| *given) {
        check.error(
            &place.key(key),
            "a time partition gets its windows, in each major frame of the host",
            format!("leave `{key}` out, or choose a back end with budgets"),
        );
    }
}

/// Complains of windows that leave their programs nothing.
fn longer_than(check: &mut Check<'_>, here: &KeyPath, reservation: &Reservation, switch: Duration) {
    for (index, window) in reservation.windows.iter().enumerate() {
        if window.length <= switch && !window.length.is_zero() {
            check.error(
                &here.index(index).key("length"),
                format!(
                    "the window of {} is over when its partition has been switched to, which takes {switch}",
                    window.length
                ),
                "lengthen it, or correct `overheads` of the host",
            );
        }
    }
}

fn in_order(
    check: &mut Check<'_>,
    here: &KeyPath,
    reservation: &Reservation,
    frame: Option<Duration>,
) {
    let least = reservation.backend.traits().smallest_budget;
    let mut end = Duration::ZERO;
    for (index, window) in reservation.windows.iter().enumerate() {
        let here = here.index(index);
        check.above_zero(&here.key("length"), "the window", window.length);
        if window.length < least && !window.length.is_zero() {
            check.error(
                &here.key("length"),
                format!(
                    "the window of {} is too short to be opened and closed",
                    window.length
                ),
                format!("a window lasts at least \"{least}\""),
            );
        }
        if window.offset < end {
            check.error(
                &here.key("offset"),
                format!(
                    "the window begins at {}, before the one in front of it ends",
                    window.offset
                ),
                format!("windows are in order; begin it at \"{end}\" or later"),
            );
        }
        end = end.max(window.offset.saturating_add(window.length));
        if let Some(frame) = frame.filter(|frame| end > *frame && !frame.is_zero()) {
            check.error(
                &here,
                format!("the window ends at {end}, after the major frame of {frame}"),
                "shorten it, or lengthen `major_frame` of the host",
            );
            return;
        }
    }
}

/// Complains of receivers of slack that are no other domains, or are named twice.
fn named_once(check: &mut Check<'_>, here: &KeyPath, name: &str, reservation: &Reservation) {
    let domains = check.names("domains");
    for (index, receiver) in reservation.slack.iter().enumerate() {
        let here = here.index(index);
        check.reference(&here, "domain", receiver, &domains);
        if receiver == name {
            check.error(
                &here,
                format!("`{receiver}` has what it leaves already"),
                "name another domain, or leave `slack` out",
            );
        }
    }
    let message = |receiver: &String| format!("`{receiver}` is there twice");
    check.no_repetition(here, &reservation.slack, message, "name each domain once");
}

/// Checks that what partitions leave goes to such as come after them, in every mode.
pub(super) fn slack(check: &mut Check<'_>) {
    let description = check.description;
    let mut complaints = Vec::new();
    let modes = description.modes.keys().map(|mode| Some(mode.as_str()));
    let modes: Vec<Option<&str>> = match description.modes.is_empty() {
        true => vec![None],
        false => modes.collect(),
    };
    for mode in modes {
        for donor in description.domains.keys() {
            let Some((place, given)) = reservation_in(check, mode, donor) else {
                continue;
            };
            for (index, receiver) in given.slack.iter().enumerate() {
                let is_other = description.domains.contains_key(receiver) && receiver != donor;
                let own = reservation_in(check, mode, receiver).map(|(_, own)| own);
                let Some((what, remedy)) = misfit(donor, given, receiver, own) else {
                    continue;
                };
                let here = place.key("slack").index(index);
                // A reservation stands in several modes.
                if is_other
                    && given.backend.has_windows()
                    && !complaints.contains(&(here.clone(), what.clone()))
                {
                    check.error(&here, what.clone(), remedy);
                    complaints.push((here, what));
                }
            }
        }
    }
}

/// The reservation of a domain in a mode, or without modes, with its place.
fn reservation_in<'a>(
    check: &Check<'a>,
    mode: Option<&'a str>,
    name: &str,
) -> Option<(KeyPath, &'a Reservation)> {
    match mode {
        Some(mode) => check.reservation_in(mode, name),
        None => {
            let reservation = check.description.domains.get(name)?.reservation.as_ref()?;
            let place = KeyPath::root().key("domains").key(name);
            Some((place.key("reservation"), reservation))
        }
    }
}

/// Why a domain cannot have what a donor leaves, and the remedy.
fn misfit(
    donor: &str,
    given: &Reservation,
    receiver: &str,
    own: Option<&Reservation>,
) -> Option<(String, String)> {
    let Some(own) = own.filter(|own| own.backend.has_windows()) else {
        return Some((
            format!("`{receiver}` is no time partition"),
            "name a domain with windows; one without a reservation runs whenever no partition does anyway".into(),
        ));
    };
    if !own.cpus.is_subset(&given.cpus) {
        return Some((
            format!("`{receiver}` runs on other CPUs, too, where `{donor}` has no windows"),
            "name a domain on the same CPUs, or on some of them".into(),
        ));
    }
    (own.priority >= given.priority).then(|| {
        (
            format!(
                "`{receiver}` at priority {} would not come after `{donor}` at {} in its windows",
                own.priority.0, given.priority.0
            ),
            format!("give `{receiver}` a lower priority than `{donor}`"),
        )
    })
}
