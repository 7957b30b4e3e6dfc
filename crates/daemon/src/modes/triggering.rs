//! What asks for modes without being told to, at work: the triggers are fed with time and ledgers here.

use std::collections::BTreeMap;

use tailbound_modes::manager::Asker;
use tailbound_modes::triggers::Triggers;
use tailbound_time::Instant;

use super::{Manager, SharedLeases, lock};
use crate::leases::Reservations;
use crate::log::note;

/// Looks at the triggers, and asks for the modes that they want; whether there was one.
pub(super) fn look<R: Reservations>(
    triggers: &mut Triggers,
    manager: &mut Manager<R>,
    leases: &SharedLeases<R>,
    now: Instant,
) -> bool {
    if triggers.next_look().is_none_or(|next| next > now) {
        return false;
    }
    let domains = triggers.domains(now);
    let counts: BTreeMap<_, _> = if domains.is_empty() {
        BTreeMap::new()
    } else {
        let leases = lock(leases);
        let reservations = leases.reservations();
        domains
            .into_iter()
            .filter_map(|domain| {
                let ledger = reservations.ledger(domain)?;
                Some((domain.to_owned(), (&ledger).into()))
            })
            .collect()
    };
    let holds = manager.state().mode.clone();
    let asking = triggers.look(now, &holds, &counts);
    for trigger in &asking {
        note(format_args!(
            "{} asks for mode `{}`",
            trigger.name, trigger.mode
        ));
        manager.ask(Asker::Trigger(trigger.name.clone()), &trigger.mode);
    }
    !asking.is_empty()
}
