//! Soft tasks beside hard ones.

use super::Check;
use crate::parser::KeyPath;

/// Checks the domains with aperiodic policies, and what modes make of them.
pub(super) fn aperiodic(check: &mut Check<'_>) {
    let description = check.description;
    let domains = description.domains.iter();
    // Without tasks there is no order either, which is complained of already.
    for (name, _) in domains.filter(|(_, domain)| !domain.tasks.is_empty()) {
        let place = KeyPath::root().key("domains").key(name);
        for conflict in description.aperiodic_contradictions(name) {
            let keys = conflict.keys.iter();
            let here = keys.fold(place.clone(), |place, key| place.key(key));
            check.error(&here, conflict.message, conflict.remedy);
        }
    }
    for (place, name, reservation) in check.reservations() {
        let domain = description.domains.get(name);
        let own = domain.and_then(|domain| domain.reservation.as_ref());
        // What stands in the domain itself is complained of already.
        let of_mode = !own.is_some_and(|own| std::ptr::eq(own, reservation));
        let counts = domain.is_some_and(|domain| domain.aperiodic.is_some());
        if of_mode && counts && !reservation.backend.gives_whole_cpus() {
            check.error(
                &place,
                "the domain's aperiodic policy counts on a whole CPU, not on a budget",
                "leave it out, or write backend = \"dedicated\"",
            );
        }
    }
}
