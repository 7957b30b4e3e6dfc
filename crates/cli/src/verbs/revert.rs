//! `tailbound revert`: take reservations back.

use std::path::Path;

use tailbound_daemon::takeover::end_stopped;
use tailbound_daemon::{Client, ClientError, Selection};
use tailbound_enforcement::{recover, state_directory};

use crate::arguments::RevertArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Reverts one domain or all; without a daemon, what a dead one left behind.
pub fn carry_out(arguments: &RevertArguments, output: &Output) -> Result<(), Failure> {
    let selection = match &arguments.domain {
        Some(domain) => Selection::Domain(domain.clone()),
        None => Selection::All,
    };
    let state = state_directory();
    match Client::connect(&state) {
        Ok(mut client) => {
            let reverted = client.revert(selection).map_err(Failure::from_error)?;
            if reverted.is_empty() {
                output.note("nothing was in force");
            } else {
                output.note(format!("taken back: {}", reverted.join(", ")));
            }
            Ok(())
        }
        Err(ClientError::NotRunning { .. } | ClientError::Ended(_)) => {
            take_back(&state, "no daemon is running", output)
        }
        Err(ClientError::Slow(standstill)) if standstill.is_for_good() => {
            if let Selection::Domain(domain) = &selection {
                return Err(Failure::with_help(
                    standstill,
                    format!(
                        "\"{domain}\" cannot be taken back alone from a daemon that is stopped; revert \
                         everything, or continue it (kill -CONT)"
                    ),
                ));
            }
            output.note(standstill.to_string());
            take_back(&state, "the stopped daemon was ended", output)
        }
        Err(error) => Err(Failure::from_error(error)),
    }
}

/// Takes back from the journals what no daemon answers for any more, once whoever of a daemon and its
/// watchdog is left and stopped has been ended.
fn take_back(state: &Path, why: &str, output: &Output) -> Result<(), Failure> {
    match end_stopped(state) {
        Ok(_) => {}
        // A watchdog that is taking everything back already; recovery waits for its turn.
        Err(tailbound_daemon::takeover::TakeoverError::AtWork(_)) => {}
        Err(error) => return Err(Failure::from_error(error)),
    }
    let recovery = recover(state).map_err(Failure::from_error)?;
    let taken_back = match recovery.reverted.as_slice() {
        [] => "nothing was left behind".to_owned(),
        domains => format!("taken back: {}", domains.join(", ")),
    };
    output.note(format!("{why}; {taken_back}"));
    match recovery.failures.as_slice() {
        [] => Ok(()),
        failures => Err(Failure::error(failures.join("; "))),
    }
}
