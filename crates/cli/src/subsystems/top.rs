//! `tailbound top`: reservations as they are used, refreshed until somebody has seen enough.

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use tailbound_control::{Client, ClientError};
use tailbound_enforcement::state_directory;
use tailbound_top::{HEADER, StatusSample, TopView, cells, lines, live};

use super::{SubsystemVerb, sections};
use crate::arguments::Format;
use crate::failure::Failure;
use crate::output::{Output, table};
use crate::verbs::status::without_daemon;

/// How long a view is shown.
const REFRESHED_EVERY: Duration = Duration::from_secs(1);

/// What is in force and how it is used, refreshed every second until `q`.
#[derive(Debug, Args)]
struct TopArguments {
    /// Print it once, and end; so it is, too, where standard input or output is no terminal.
    #[arg(long)]
    once: bool,
}

/// `Top` is the verb.
pub struct Top;

impl SubsystemVerb for Top {
    fn verb(&self) -> Command {
        // Behind `status`, in the order in which the help lists the verbs.
        TopArguments::augment_args(Command::new("top")).display_order(11)
    }

    fn carry_out(&self, arguments: &ArgMatches, output: &Output) -> Result<(), Failure> {
        let arguments = TopArguments::from_arg_matches(arguments).map_err(Failure::from_error)?;
        let watched = io::stdin().is_terminal() && io::stdout().is_terminal();
        if arguments.once || !watched || output.format() != Format::Table {
            return print(output);
        }
        let mut client = match Client::connect(&state_directory()) {
            Err(ClientError::NotRunning { .. }) => return print(output),
            client => client.map_err(Failure::from_error)?,
        };
        let mut before = None;
        let next = || {
            let now = sample(&mut client)?;
            let view = TopView::of(before.as_ref(), &now);
            before = Some(now);
            Ok::<TopView, ClientError>(view)
        };
        live(REFRESHED_EVERY, next).map_err(Failure::from_error)
    }
}

fn sample(client: &mut Client) -> Result<StatusSample, ClientError> {
    let status = client.status()?;
    let sections = sections(&status);
    Ok(StatusSample { status, sections })
}

/// Prints what is in force and how it was used since it is.
fn print(output: &Output) -> Result<(), Failure> {
    let view = match Client::connect(&state_directory()) {
        Err(ClientError::NotRunning { .. }) => {
            output.note(without_daemon());
            TopView::default()
        }
        client => {
            let mut client = client.map_err(Failure::from_error)?;
            TopView::of(None, &sample(&mut client).map_err(Failure::from_error)?)
        }
    };
    let rows: Vec<Vec<String>> = view.reservations.iter().map(cells).collect();
    let for_people = || {
        let table = std::iter::once(table(&HEADER, &rows));
        table.chain(lines(&view)).map(|line| line + "\n").collect()
    };
    output.rows_with(for_people, &HEADER, &rows, &view)
}
