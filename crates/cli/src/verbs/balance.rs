//! `tailbound balance`: CPU time divided among applications that can serve less.

mod played;
mod promises;

use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use tailbound_balance::BalancePlan;
use tailbound_balance::simulation::simulate;

use crate::arguments::ExportArguments;
use crate::failure::Failure;
use crate::output::Output;
use crate::subsystems::SubsystemVerb;

/// Divide CPU time among applications that can serve less, by their matching values.
#[derive(Debug, Args)]
struct BalanceArguments {
    /// The description (TOML), with a table `[balance]`.
    file: PathBuf,
    /// Play the loop against the models of the applications; nothing is asked or changed.
    #[arg(long, required = true)]
    simulate: bool,
    /// The seed of the simulation, in place of the description's.
    #[arg(long)]
    seed: Option<u64>,
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
    promises::predict(&mut plan, &loaded, output)?;
    let seed = arguments.seed.unwrap_or(loaded.description.seed);
    let answer = simulate(&plan, seed).map_err(Failure::from_error)?;
    played::print(&answer, output)
}
