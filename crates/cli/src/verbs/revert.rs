//! `tailbound revert`: take reservations back.

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
        Err(ClientError::NotRunning { .. }) => {
            let recovery = recover(&state).map_err(Failure::from_error)?;
            let taken_back = match recovery.reverted.as_slice() {
                [] => "nothing was left behind".to_owned(),
                domains => format!("taken back: {}", domains.join(", ")),
            };
            output.note(format!("no daemon is running; {taken_back}"));
            match recovery.failures.as_slice() {
                [] => Ok(()),
                failures => Err(Failure::error(failures.join("; "))),
            }
        }
        Err(error) => Err(Failure::from_error(error)),
    }
}
