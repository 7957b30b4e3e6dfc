//! `tailbound mode`: the modes of an applied description.

mod add;
mod change_answer;
mod exports;
mod last;
mod list;
mod set;
mod table;
mod tracks;

use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde::Deserialize;
use tailbound_control::{Client, ClientError, DaemonStatus};
use tailbound_enforcement::state_directory;
use tailbound_experiment::mode_changes::SeenChange;
use tailbound_modes::control::{ModesRefusal, ModesSummary, SUBSYSTEM};
use tailbound_modes_report::ModeChange;
use tailbound_time::Duration;

use crate::arguments::{ModeArguments, ModeWhat};
use crate::failure::Failure;
use crate::output::Output;
use crate::subsystems::SubsystemVerb;

pub use table::{lines, modes};

/// How modes become known.
const REMEDY: &str =
    "`tailbound apply FILE` with a description that has modes makes them known, as root";

/// `ModeVerb` is the verb, and the section of `status`.
pub struct ModeVerb;

impl SubsystemVerb for ModeVerb {
    fn verb(&self) -> Command {
        // Behind `status`, in the order in which the help lists the verbs.
        ModeArguments::augment_args(Command::new("mode")).display_order(12)
    }

    fn carry_out(&self, arguments: &ArgMatches, output: &Output) -> Result<(), Failure> {
        let arguments = ModeArguments::from_arg_matches(arguments);
        carry_out(&arguments.map_err(Failure::from_error)?, output)
    }

    fn section(&self, status: &DaemonStatus) -> Vec<String> {
        let section = status.subsystems.get(SUBSYSTEM);
        let summary = section.and_then(|section| ModesSummary::deserialize(section).ok());
        summary.iter().flat_map(summary_lines).collect()
    }
}

/// What `status` says of modes.
fn summary_lines(summary: &ModesSummary) -> Vec<String> {
    let mut line = format!("mode {} of {}", summary.mode, summary.modes.join(", "));
    for (is_connected, text) in [
        (true, "agents connected: "),
        (false, "agents not connected: "),
    ] {
        let agents = summary.agents.iter();
        let some = agents.filter(|(_, connected)| **connected == is_connected);
        let some: Vec<&str> = some.map(|(domain, _)| domain.as_str()).collect();
        if !some.is_empty() {
            line.push_str(&format!("; {text}{}", some.join(", ")));
        }
    }
    let mut lines = vec![line];
    if summary.contradictions > 0 {
        lines.push(format!(
            "{} tasks run though their agents say that they are stopped; `tailbound mode list` names them",
            summary.contradictions
        ));
    }
    lines
}

/// A refusal of modes with what can be done about it; other errors as they are.
fn failure(error: ClientError) -> Failure {
    match ModesRefusal::of(&error) {
        Some(ModesRefusal::NoneKnown {}) => Failure::with_help("no modes are known", REMEDY),
        Some(refusal @ ModesRefusal::Unknown { .. }) => Failure::with_help(
            refusal,
            "`tailbound mode list` shows what holds, `tailbound mode add FILE` adds modes",
        ),
        _ => Failure::from_error(error),
    }
}

/// Tells the modes, or changes to one.
fn carry_out(arguments: &ModeArguments, output: &Output) -> Result<(), Failure> {
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
    let in_force_after = in_force_at.map(|at| tailbound_modes::change_phases::since(timeline, at));
    ModeChange {
        variant: seen.variant.clone(),
        repetition: seen.repetition,
        from: seen.report.from.clone(),
        to: seen.report.to.clone(),
        ending: change_answer::ending(&seen.report),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn status_says_which_mode_holds_and_which_agents_are_there() {
        let mut summary = ModesSummary {
            mode: "run".into(),
            modes: vec!["rest".into(), "run".into()],
            agents: [("arm".into(), true), ("camera".into(), false)].into(),
            contradictions: 0,
        };
        let line = "mode run of rest, run; agents connected: arm; agents not connected: camera";
        assert_eq!(summary_lines(&summary), [line]);
        summary.contradictions = 2;
        assert!(summary_lines(&summary)[1].starts_with("2 tasks run though"));
    }
}
