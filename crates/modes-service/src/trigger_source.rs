//! What asks for modes without being told to, at work: the triggers are fed with time and ledgers here.

use std::collections::BTreeMap;

use tailbound_modes::manager::Asker;
use tailbound_modes::triggers::Triggers;
use tailbound_subsystem::ReservationHost;
use tailbound_time::Instant;
use tracing::info;

use crate::modes::DaemonModeManager;

/// Looks at the triggers, and asks for the modes that they want; whether there was one.
pub(crate) fn look(
    triggers: &mut Triggers,
    manager: &mut DaemonModeManager,
    host: &dyn ReservationHost,
    now: Instant,
) -> bool {
    if triggers.next_look().is_none_or(|next| next > now) {
        return false;
    }
    let domains = triggers.domains(now);
    let counts = domains.into_iter().filter_map(|domain| {
        let ledger = host.ledger(domain)?;
        Some((domain.to_owned(), (&ledger).into()))
    });
    let counts: BTreeMap<_, _> = counts.collect();
    let holds = manager.state().mode.clone();
    let asking = triggers.look(now, &holds, &counts);
    for trigger in &asking {
        info!("{} asks for mode `{}`", trigger.name, trigger.mode);
        manager.ask(Asker::Trigger(trigger.name.clone()), &trigger.mode);
    }
    !asking.is_empty()
}
