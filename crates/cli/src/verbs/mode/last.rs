//! `tailbound mode last`: how the last change went.

use tailbound_control::Client;
use tailbound_modes::control::ModesClient;

use super::{REMEDY, exports};
use crate::arguments::ModeLastArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Prints what came of the last change.
pub fn carry_out(
    client: &mut Client,
    arguments: &ModeLastArguments,
    output: &Output,
) -> Result<(), Failure> {
    let status = client.modes().map_err(Failure::from_error)?;
    let status = status.ok_or_else(|| Failure::with_help("no modes are known", REMEDY))?;
    let report = status.last.ok_or_else(|| {
        let mode = &status.state.mode;
        let help = "`tailbound mode set MODE` changes it";
        Failure::with_help(
            format!("there was no change yet; mode `{mode}` holds"),
            help,
        )
    })?;
    exports::tell(&report, &arguments.export, output)
}
