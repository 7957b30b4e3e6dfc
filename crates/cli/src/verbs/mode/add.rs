//! `tailbound mode add`: modes that the applied description did not have, admitted while it is in force.

use std::fs;
use std::path::Path;
use std::time::Instant;

use serde::Serialize;
use tailbound_analysis::FORMAT;
use tailbound_analysis::resolution::{with_agents, with_fallen};
use tailbound_analysis::transitions::TransitionBound;
use tailbound_assessment::schedulability::{DeadlineVerdict, ModeVerdict, judge_some};
use tailbound_control::Client;
use tailbound_experiment::host_check::unfit_modes;
use tailbound_experiment::host_set::HostSet;
use tailbound_linux::HostCapabilities;
use tailbound_model::{Extended, LoadedDescription};
use tailbound_modes::control::{ModesClient, RunningDescription};
use tailbound_modes::table_from_description::table_of;

use super::super::{apply, protocols, transitions};
use super::REMEDY;
use crate::arguments::ModeAddArguments;
use crate::excerpt;
use crate::failure::Failure;
use crate::output::Output;

/// What was admitted, as JSON.
#[derive(Serialize)]
struct Added<'a> {
    added: &'a [String],
    transitions: &'a [TransitionBound],
    /// To read, check and analyse the new modes.
    analysis_ns: u64,
    /// Until the daemon knew them.
    daemon_ns: u64,
}

/// Adds the modes of a file, all or none.
pub fn carry_out(
    client: &mut Client,
    arguments: &ModeAddArguments,
    output: &Output,
) -> Result<(), Failure> {
    let begun = Instant::now();
    let running = client.modes_description().map_err(Failure::from_error)?;
    let running = running.ok_or_else(|| Failure::with_help("no description is known", REMEDY))?;
    // To look at the host takes longer than all else here, and the daemon has.
    let host = client.host().map_err(Failure::from_error)?;
    let fragment = fs::read_to_string(&arguments.file).map_err(|error| {
        let file = arguments.file.display();
        Failure::with_help(
            format!("cannot read {file}: {error}"),
            "name a file of modes (TOML)",
        )
    })?;
    let extended = extended(&running, &fragment, &arguments.file, output)?;
    let added = extended.added.clone();
    let loaded = LoadedDescription {
        description: extended.description,
        path: running.file.clone(),
        text: extended.text,
        warnings: extended.warnings,
    };
    let transitions = admitted(&loaded, &added, &host, output)?;
    let table = table_of(&loaded.description).map_err(Failure::from_error)?;
    let table = table.with_offsets(protocols::offsets(&loaded.description)?);
    let analysed = begun.elapsed();
    let description = RunningDescription {
        file: running.file,
        text: loaded.text,
    };
    client
        .add_modes(table, Some(description))
        .map_err(super::failure)?;
    let addition_time = begun.elapsed().saturating_sub(analysed);
    let data = Added {
        added: &added,
        transitions: &transitions,
        analysis_ns: nanoseconds(analysed),
        daemon_ns: nanoseconds(addition_time),
    };
    let text = || text(&data);
    let rows: Vec<Vec<String>> = transitions.iter().map(transitions::cells).collect();
    output.rows_with(text, &transitions::HEADER, &rows, &data)
}

fn nanoseconds(time: std::time::Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The applied description with the modes of the fragment.
fn extended(
    running: &RunningDescription,
    fragment: &str,
    file: &Path,
    output: &Output,
) -> Result<Extended, Failure> {
    let extension = FORMAT.with_modes(&running.text, fragment, &file.display().to_string());
    let extended = extension.map_err(|problems| Failure::Description {
        problems,
        text: fragment.to_owned(),
    })?;
    if !extended.warnings.is_empty() && output.speaks() {
        excerpt::render(&extended.warnings, fragment);
    }
    Ok(extended)
}

/// The changes to and from the new modes, if all of these can be held and keep their deadlines.
fn admitted(
    loaded: &LoadedDescription,
    added: &[String],
    host: &HostCapabilities,
    output: &Output,
) -> Result<Vec<TransitionBound>, Failure> {
    let description = &loaded.description;
    let is_new = |mode: &str| added.iter().any(|one| one == mode);
    for mode in added {
        apply::requests(&apply::deployed(description, Some(mode))?, loaded)?;
    }
    let hosts = HostSet::with_only_here(description, host);
    let unfit = unfit_modes(description, &hosts, is_new).map_err(Failure::from_error)?;
    let mut against: Vec<String> = unfit.into_iter().map(|one| one.objection()).collect();
    let inputs = loaded.inputs().map_err(|problems| Failure::Description {
        problems,
        text: loaded.text.clone(),
    })?;
    let all = with_fallen(description).map_err(Failure::from_error)?;
    let wanted = |mode: Option<&str>| mode.is_some_and(|mode| is_new(all.mode_of(mode)));
    let judged = judge_some(&with_agents(&all.description), &inputs, wanted);
    for verdict in &judged.map_err(Failure::from_error)? {
        against.extend(missed(verdict, output));
    }
    if !against.is_empty() {
        against.push("nothing is added".into());
        return Err(Failure::Verdict(against.join("\n")));
    }
    transitions::concerning(description, added)
}

/// What of a mode is not kept; what is not known is only said.
fn missed(verdict: &ModeVerdict, output: &Output) -> Vec<String> {
    let mode = verdict.mode.as_deref().unwrap_or_default();
    let mut against = Vec::new();
    for task in &verdict.tasks {
        let name = task.name();
        let why = task.why.as_deref().unwrap_or("its bound is beyond it");
        match task.verdict {
            DeadlineVerdict::Missed => {
                against.push(format!("mode {mode}: {name} can miss its deadline: {why}"));
            }
            DeadlineVerdict::Undecided => {
                output.note(format!(
                    "warning: mode {mode}: {name} is not analysed: {why}"
                ));
            }
            DeadlineVerdict::Met | DeadlineVerdict::NoDeadline => {}
        }
    }
    for service in &verdict.services {
        if service.verdict == DeadlineVerdict::Missed {
            let name = &service.service;
            let why = service.why.as_deref().unwrap_or("its demand is too large");
            against.push(format!("mode {mode}: {name} can miss deadlines: {why}"));
        }
    }
    for cpu in verdict.cpus.iter().filter(|cpu| !cpu.admitted) {
        let failures = cpu.failures.join("; ");
        against.push(format!(
            "mode {mode}: CPU {} is overloaded: {failures}",
            cpu.cpu
        ));
    }
    against
}

fn text(data: &Added<'_>) -> String {
    let rows: Vec<Vec<String>> = data.transitions.iter().map(transitions::cells).collect();
    let length = |ns: u64| tailbound_time::Duration::from_nanos(ns / 1_000 * 1_000);
    format!(
        "added {}\n{}\nanalysed in {}, known to the daemon {} later\n",
        data.added.join(", "),
        crate::output::table(&transitions::HEADER, &rows),
        length(data.analysis_ns),
        length(data.daemon_ns),
    )
}
