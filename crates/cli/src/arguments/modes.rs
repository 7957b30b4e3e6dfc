//! What can be asked of the modes of a host.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::ExportArguments;

/// The modes of an applied description: what holds, and a change to another one.
#[derive(Debug, Args)]
pub struct ModeArguments {
    /// What is asked.
    #[command(subcommand)]
    pub what: ModeWhat,
}

/// What is asked of the modes.
#[derive(Debug, Subcommand)]
pub enum ModeWhat {
    /// Which modes there are, which one holds, and what each domain has of it.
    List,
    /// Change to a mode, wait until that has ended, and tell how it went.
    ///
    /// Exit status: 0 if the mode holds then, 2 if the change was given up, 1 on errors.
    Set(ModeSetArguments),
    /// Tell how the last change went, whoever asked for it: a command, a trigger or an agent.
    Last(ModeLastArguments),
    /// Add modes to those of the applied description, while it is in force.
    ///
    /// The file holds tables [modes.NAME] and [domains.DOMAIN.modes.NAME] alone. They are checked with
    /// the applied description: whether each new mode fits and is schedulable, and how long changes to
    /// and from it take. Exit status: 0 if they are known then, 2 if they do not fit, 1 on errors.
    Add(ModeAddArguments),
}

/// Arguments of `mode add`.
#[derive(Debug, Args)]
pub struct ModeAddArguments {
    /// The file with the new modes (TOML).
    pub file: PathBuf,
}

/// Arguments of `mode set`.
#[derive(Debug, Args)]
pub struct ModeSetArguments {
    /// The mode, by its name in the description.
    pub mode: String,
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ChangeExportArguments,
}

/// Arguments of `mode last`.
#[derive(Debug, Args)]
pub struct ModeLastArguments {
    /// Where the answer is written to.
    #[command(flatten)]
    pub export: ChangeExportArguments,
}

/// Files that the course of a change is written to, beside standard output.
#[derive(Debug, Default, Args)]
pub struct ChangeExportArguments {
    /// Where the answer is written to.
    #[command(flatten)]
    pub answer: ExportArguments,
    /// Write the course of the change as a trace for Perfetto.
    #[arg(long, value_name = "FILE")]
    pub export_perfetto: Option<PathBuf>,
    /// Write a picture of the change as SVG.
    #[arg(long, value_name = "FILE")]
    pub export_svg: Option<PathBuf>,
    /// Write a picture of the change as an HTML page that needs no network.
    #[arg(long, value_name = "FILE")]
    pub export_html: Option<PathBuf>,
}
