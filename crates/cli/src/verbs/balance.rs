//! `tailbound balance`: CPU time divided among applications that can serve less.

mod division_table;
mod interval_log;
mod promises;
mod session;
mod simulation_answer;
mod step_picture;

use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches};
use tailbound_balance::BalancePlan;
use tailbound_balance::simulation::{BalanceSimulationError, simulate};
use tailbound_control::DaemonStatus;
use tailbound_time::Duration;

use self::step_picture::{IntervalRecord, PictureArguments};
use crate::arguments::ExportArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::subsystems::SubsystemVerb;

/// Divide CPU time among applications that can serve less, by their matching values.
///
/// The reservations of the applications hold for as long as the command runs, and with --detach until they are reverted.
/// SIGUSR1 prints the state.
#[derive(Debug, Args)]
struct BalanceArguments {
    /// The description (TOML), with a table `[balance]`.
    file: PathBuf,
    /// Play the loop against the models of the applications; nothing is asked or changed.
    #[arg(long)]
    simulate: bool,
    /// The seed of the simulation, in place of the description's.
    #[arg(long, requires = "simulate")]
    seed: Option<u64>,
    /// Have the daemon divide until `tailbound revert`, and end.
    #[arg(long, conflicts_with_all = ["simulate", "duration", "log"])]
    detach: bool,
    /// The time after which the command ends; with Ctrl-C if left out.
    #[arg(short, long, conflicts_with = "simulate")]
    duration: Option<Duration>,
    /// A file that gets a line of CSV for each application in each interval.
    #[arg(long, value_name = "FILE", conflicts_with = "simulate")]
    log: Option<PathBuf>,
    /// Draw the log of a division that has ended, or the intervals of a simulation (CSV); nothing is asked or changed.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["simulate", "duration", "log", "detach"])]
    from_log: Option<PathBuf>,
    /// Where a picture is written to.
    #[command(flatten)]
    picture: PictureArguments,
    /// Where the answer is written to.
    #[command(flatten)]
    export: ExportArguments,
}

/// `BalanceVerb` is the verb.
pub struct BalanceVerb;

impl SubsystemVerb for BalanceVerb {
    fn verb(&self) -> Command {
        // Behind `mode`, in the order in which the help lists the verbs.
        BalanceArguments::augment_args(Command::new("balance")).display_order(12)
    }

    fn carry_out(&self, arguments: &ArgMatches, output: &Output) -> Result<(), Failure> {
        let arguments = BalanceArguments::from_arg_matches(arguments);
        carry_out(&arguments.map_err(Failure::from_error)?, output)
    }

    fn section(&self, status: &DaemonStatus) -> Vec<String> {
        division_table::section(status)
    }
}

fn carry_out(arguments: &BalanceArguments, output: &Output) -> Result<(), Failure> {
    let output = &output.exporting(&arguments.export);
    let loaded = super::load(&arguments.file, output)?;
    let Some(mut plan) = BalancePlan::of(&loaded.description) else {
        return Err(Failure::with_help(
            "the description has no table [balance]",
            "describe balance.applications; docs/guides/balance.md has an example",
        ));
    };
    let title = format!("Division of \"{}\"", loaded.description.name);
    if let Some(log) = &arguments.from_log {
        return draw_log(log, &title, arguments, output);
    }
    promises::predict(&mut plan, &loaded, output)?;
    if !arguments.simulate {
        return session::carry_out(plan, &loaded, arguments, output);
    }
    let seed = arguments.seed.unwrap_or(loaded.description.seed);
    let answer = simulate(&plan, seed).map_err(|error| match &error {
        BalanceSimulationError::NoModel(name) => Failure::with_help(
            error.to_string(),
            format!("describe balance.applications.{name}.simulated; docs/guides/balance.md has an example"),
        ),
        BalanceSimulationError::Rule(_) => Failure::from_error(error),
    })?;
    let steps = IntervalRecord::of_simulation(&answer);
    arguments
        .picture
        .write(&steps, &format!("{title}, simulated"))?;
    simulation_answer::print(&answer, output)
}

/// Draws a division that has ended.
fn draw_log(
    log: &Path,
    title: &str,
    arguments: &BalanceArguments,
    output: &Output,
) -> Result<(), Failure> {
    if !arguments.picture.is_asked_for() {
        return Err(Failure::with_help(
            "no picture is asked for",
            "give --export-svg FILE or --export-html FILE",
        ));
    }
    let steps = IntervalRecord::of_log(log)?;
    arguments.picture.write(&steps, title)?;
    steps.tell(output);
    Ok(())
}
