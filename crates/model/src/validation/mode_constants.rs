//! What mode changes cannot change of a reservation.

use super::Check;
use crate::description::Reservation;
use crate::parser::KeyPath;

/// Complains of domains whose CPUs or back end differ between modes, so that there is no change from
/// one to the other: all modes are compared with the first one, since what is equal to it is equal
/// among itself. What domains fall back to is compared, too.
pub(super) fn check(check: &mut Check<'_>) {
    let description = check.description;
    let initial = description.initial_mode.as_deref();
    let initial = initial.and_then(|name| description.modes.get_key_value(name));
    let Some((first, _)) = initial.or(description.modes.iter().next()) else {
        return;
    };
    for (name, domain) in &description.domains {
        let of_first = check.reservation_in(first, name);
        for mode in description.modes.keys().filter(|mode| *mode != first) {
            let here = KeyPath::root().key("modes").key(mode);
            let of_mode = check.reservation_in(mode, name);
            compare(check, name, (first, &of_first), here, of_mode);
        }
        let Some((fallback, local)) = domain.fallback_mode() else {
            continue;
        };
        let here = super::reservation_of_local_mode(name, fallback);
        if let Some(reservation) = &local.reservation {
            let own = Some((here.clone(), reservation));
            compare(check, name, (first, &of_first), here, own);
        }
    }
}

type PlacedReservation<'a> = Option<(KeyPath, &'a Reservation)>;

fn compare(
    check: &mut Check<'_>,
    name: &str,
    (first, of_first): (&str, &PlacedReservation<'_>),
    here: KeyPath,
    other: PlacedReservation<'_>,
) {
    let (place, what) = match (of_first, other) {
        (None, None) => return,
        (Some(_), None) => (here, format!("`{name}` has no reservation here, and one")),
        (None, Some((place, _))) => (place, format!("`{name}` has a reservation here, and none")),
        (Some((_, before)), Some((place, after))) => match difference(before, after) {
            Some((key, difference)) => (place.key(key), difference),
            None => return,
        },
    };
    check.error(
        &place,
        format!("{what} in mode `{first}`: there is no change between the two"),
        "mode changes give another budget, period and priority; keep CPUs and back end in all modes, \
         with a small budget where little is needed",
    );
}

/// What differs that no change of a reservation in force can make: its key, and how.
fn difference(before: &Reservation, after: &Reservation) -> Option<(&'static str, String)> {
    if before.backend != after.backend {
        let (here, there) = (after.backend, before.backend);
        return Some((
            "backend",
            format!("the back end is {here} here, and {there}"),
        ));
    }
    if before.cpus != after.cpus {
        let list = |reservation: &Reservation| {
            let cpus = reservation.cpus.iter().map(ToString::to_string);
            cpus.collect::<Vec<_>>().join(", ")
        };
        let (here, there) = (list(after), list(before));
        return Some((
            "cpus",
            format!("it holds on CPU {here} here, and on {there}"),
        ));
    }
    if before.budget_scope != after.budget_scope {
        let (here, there) = (after.budget_scope, before.budget_scope);
        return Some((
            "budget_scope",
            format!("the budget is for {here} here, and for {there}"),
        ));
    }
    if before.options != after.options {
        return Some(("options", "the options here are not those".into()));
    }
    if before.vcpus != after.vcpus {
        return Some((
            "vcpus",
            "another number of virtual CPUs is here than".into(),
        ));
    }
    None
}
