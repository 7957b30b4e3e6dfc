//! `tailbound mode`: the modes of an applied description.

mod add;
mod answer;
mod exports;
mod last;
mod list;
mod set;
mod table;
mod tracks;

use tailbound_daemon::{Client, ClientError};
use tailbound_enforcement::state_directory;

use crate::arguments::{ModeArguments, ModeWhat};
use crate::failure::Failure;
use crate::output::Output;

pub use table::{lines, modes};

/// How modes become known.
const REMEDY: &str =
    "`tailbound apply FILE` with a description that has modes makes them known, as root";

/// Tells the modes, or changes to one.
pub fn carry_out(arguments: &ModeArguments, output: &Output) -> Result<(), Failure> {
    let mut client = connect()?;
    match &arguments.what {
        ModeWhat::Last(arguments) => last::carry_out(&mut client, arguments, output),
        ModeWhat::List => list::carry_out(&mut client, output),
        ModeWhat::Add(arguments) => add::carry_out(&mut client, arguments, output),
        ModeWhat::Set(arguments) => set::carry_out(&mut client, arguments, output),
    }
}

/// A connection to a daemon that runs already: one that was started now would know no modes.
fn connect() -> Result<Client, Failure> {
    Client::connect(&state_directory()).map_err(|error| match error {
        ClientError::NotRunning { .. } => {
            Failure::with_help("no daemon is running, so no modes are known", REMEDY)
        }
        other => Failure::from_error(other),
    })
}
