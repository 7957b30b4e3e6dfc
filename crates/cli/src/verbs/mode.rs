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
use tailbound_experiment::mode_changes::SeenChange;
use tailbound_report::ModeChange;
use tailbound_time::Duration;

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

/// A change that was made while something was measured, for the result document.
pub fn in_report(seen: &SeenChange) -> ModeChange {
    let timeline = &seen.report.timeline;
    let in_force_at = timeline.in_force_at();
    let in_force_after = in_force_at.map(|at| tailbound_modes::parts::since(timeline, at));
    ModeChange {
        variant: seen.variant.clone(),
        repetition: seen.repetition,
        from: seen.report.from.clone(),
        to: seen.report.to.clone(),
        ending: answer::ending(&seen.report),
        began_after_ns: seen.began_after.as_nanos(),
        latency_ns: timeline.latency().map(Duration::as_nanos),
        in_force_after_ns: in_force_after.map(Duration::as_nanos),
        tracks: tracks::of(&seen.report),
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
