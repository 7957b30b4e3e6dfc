//! A daemon that starts makes again what was in force when another one died.

use std::path::Path;

use tailbound_linux::clock::Monotonic;
use tailbound_modes::manager::journal::Resumption;
use tailbound_time::Clock;
use tracing::warn;

use crate::journal::{self, Loaded, RESTARTS_IN_ALL_MAX, RESTARTS_MAX, RESTARTS_WITHIN};

/// What a dead daemon left in its state directory, unless daemons have died there too often.
pub fn left(directory: &Path) -> Option<(Loaded, Resumption)> {
    let remains = match journal::left(directory) {
        Ok(Some(remains)) => remains,
        Ok(None) => {
            // Of another boot, if it is there.
            journal::forget(directory);
            journal::forget_restarts(directory);
            return None;
        }
        Err(reason) => {
            warn!(
                "{}: {reason}; the modes are not made again",
                journal::path_in(directory).display()
            );
            journal::forget(directory);
            return None;
        }
    };
    if !journal::count_restart(directory, Monotonic.now()) {
        warn!(
            "the daemon has died more than {RESTARTS_MAX} times within {RESTARTS_WITHIN}, or more than \
             {RESTARTS_IN_ALL_MAX} times since the modes were loaded, or nobody knows how often; the modes \
             and their reservations are not made again"
        );
        journal::forget(directory);
        return None;
    }
    Some(remains)
}
