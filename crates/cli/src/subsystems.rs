//! The subsystems at the command line: each has a verb, and lines in `status`.

mod top;

use clap::{ArgMatches, Command};
use tailbound_control::DaemonStatus;

use crate::failure::Failure;
use crate::output::Output;
use crate::verbs::balance::BalanceVerb;
use crate::verbs::mode::ModeVerb;

use self::top::Top;

/// All subsystems: a new one is a line here.
const ALL: [&dyn SubsystemVerb; 3] = [&Top, &ModeVerb, &BalanceVerb];

/// `SubsystemVerb` is what the command line has of a part of the system that is none of its core.
pub trait SubsystemVerb: Sync {
    /// Its verb, with its arguments.
    fn verb(&self) -> Command;

    /// Does what its verb was given.
    ///
    /// # Errors
    /// As every verb.
    fn carry_out(&self, arguments: &ArgMatches, output: &Output) -> Result<(), Failure>;

    /// What `status` says of it below the reservations; nothing if its section is not there.
    fn section(&self, _status: &DaemonStatus) -> Vec<String> {
        Vec::new()
    }
}

/// A command with the verbs of all subsystems.
pub fn with_verbs(command: Command) -> Command {
    command.subcommands(ALL.iter().map(|one| one.verb()))
}

/// Does what the verb of a subsystem was given; none if the verb is none of theirs.
pub fn carry_out(arguments: &ArgMatches, output: &Output) -> Option<Result<(), Failure>> {
    let (name, arguments) = arguments.subcommand()?;
    let subsystem = ALL.iter().find(|one| one.verb().get_name() == name)?;
    Some(subsystem.carry_out(arguments, output))
}

/// What the subsystems say in `status`.
pub fn sections(status: &DaemonStatus) -> Vec<String> {
    ALL.iter().flat_map(|one| one.section(status)).collect()
}
