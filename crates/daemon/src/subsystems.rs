//! The subsystems of the daemon.

use std::path::Path;
use std::sync::Arc;

use tailbound_subsystem::{Place, Registration, Remains, ReservationHost, Subsystem};

/// All subsystems: a new one is a line here.
const ALL: [Registration; 2] = [
    tailbound_balance_manager::REGISTRATION,
    tailbound_modes_service::REGISTRATION,
];

/// The subsystems of a daemon that starts.
pub fn start(host: &Arc<dyn ReservationHost>, place: &Place) -> Vec<Box<dyn Subsystem>> {
    let started = ALL.iter();
    started
        .map(|one| (one.start)(Arc::clone(host), place.clone()))
        .collect()
}

/// What a dead daemon left that the next one makes again.
pub fn remains(directory: &Path) -> Option<Remains> {
    ALL.iter().find_map(|one| (one.remains)(directory))
}
