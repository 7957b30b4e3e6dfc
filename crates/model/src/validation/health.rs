//! Health monitoring of domains.

use super::Check;
use crate::description::Domain;
use crate::health::{HealthResponse, MOST_RESTARTS};
use crate::members::Members;
use crate::parser::KeyPath;

/// Checks the responses of a domain.
pub(super) fn responses(check: &mut Check<'_>, place: &KeyPath, name: &str, domain: &Domain) {
    let Some(health) = &domain.health else {
        return;
    };
    let here = place.key("health");
    let is_started = matches!(domain.members(name), Members::Started { .. });
    let has_modes = !check.description.modes.is_empty();
    for (key, response) in health.responses() {
        let word = match response {
            HealthResponse::Ignore => continue,
            HealthResponse::Restart => "restarts",
            HealthResponse::Stop => "stops",
        };
        if !is_started {
            check.error(
                &here.key(key),
                format!(
                    "`run` {word} only programs that it starts: if it died in between, somebody else's would stay stopped"
                ),
                "write \"ignore\", which records the event; or give `command` or `builtin`",
            );
        } else if has_modes {
            check.error(
                &here.key(key),
                "the system has modes, and a mode change may need the domain while it is started anew",
                "write \"ignore\", which records the event, or leave `modes` out",
            );
        }
    }
    windows(check, &here, name, domain);
    if !(1..=MOST_RESTARTS).contains(&health.restarts) {
        check.error(
            &here.key("restarts"),
            format!("{} is no number of restarts", health.restarts),
            format!("write 1 to {MOST_RESTARTS}; exit = \"stop\" restarts nothing"),
        );
    }
    check.above_zero(&here.key("interval"), "the interval", health.interval);
}

/// Complains of responses to windows where the domain has none in any mode.
fn windows(check: &mut Check<'_>, here: &KeyPath, name: &str, domain: &Domain) {
    let Some(health) = &domain.health else {
        return;
    };
    let reservations = check.reservations();
    let mut own = reservations.into_iter().filter(|(_, of, _)| *of == name);
    if own.any(|(_, _, reservation)| reservation.backend.has_windows()) {
        return;
    }
    let of_windows = [
        ("overrun", health.overrun),
        ("missed_window", health.missed_window),
    ];
    for (key, response) in of_windows {
        if response != HealthResponse::Ignore {
            check.error(
                &here.key(key),
                "the domain has no windows",
                "leave it out, or give the domain a reservation with windows",
            );
        }
    }
}
