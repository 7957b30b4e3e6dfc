//! `tailbound run FILE`: the whole story of a description, and its report.

use std::path::{Path, PathBuf};

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, StartedProcesses};
use tailbound_experiment::{CampaignOptions, ExperimentError, run};
use tailbound_model::{LoadedDescription, Members};
use tailbound_modes::table::ModeTable;
use tailbound_modes_report::{ModeChange, ModesSection};
use tailbound_report::{Outcome, RunReport};

use crate::arguments::{Format, RunArguments};
use crate::failure::Failure;
use crate::held_command::HeldCommand;
use crate::interrupts;
use crate::output::Output;
use crate::progress::ProgressDisplay;

/// Runs, writes the report, prints the tables; status 2 if the described variant missed a promise.
pub fn carry_out(arguments: &RunArguments, output: &Output) -> Result<(), Failure> {
    let Some(file) = &arguments.file else {
        return Err(Failure::with_help(
            "nothing to run",
            "give a FILE or a command after `--`",
        ));
    };
    let mut loaded = super::load(file, output)?;
    // A simulation is of all hosts, unless one is named.
    if !arguments.simulate_only || arguments.host.is_some() {
        loaded.description = super::apply::part_of(&loaded.description, arguments.host.as_deref())?;
    }
    let inputs = super::inputs(&loaded)?;
    if arguments.dry_run {
        return dry_run(&loaded, output);
    }
    let modes = match arguments.simulate_only {
        true => None,
        false => super::apply::modes::of(&loaded.description)?,
    };
    let options = options(arguments, file, &loaded, modes)?;
    let stop = interrupts::watch()?;
    super::trace::listen(output);
    let mut progress = ProgressDisplay::new(output);
    let results = run(&loaded, &inputs, &options, &stop, &mut progress);
    drop(progress);
    let mut results = results.map_err(|error| match error {
        ExperimentError::Binding(error) => Failure::from_binding(error, &loaded),
        other => Failure::from_error(other),
    })?;
    results.report.finished_at = Some(utc_now()?);
    let changes = results.mode_changes.iter().map(super::mode::in_report);
    let changes: Vec<ModeChange> = changes.collect();
    ModesSection::put(&mut results.report, &changes).map_err(Failure::from_error)?;
    let written =
        tailbound_experiment::write(&results, &options.out).map_err(Failure::from_error)?;
    let report = results.report;
    for remark in &written.remarks {
        output.note(format!("note: {remark}"));
    }
    match output.format() {
        Format::Json => output.json(&report)?,
        _ => super::report::print_tables(&report, output)?,
    }
    output.note(format!("report: {}", written.html.display()));
    judge(&report)
}

fn options(
    arguments: &RunArguments,
    file: &Path,
    loaded: &LoadedDescription,
    modes: Option<ModeTable>,
) -> Result<CampaignOptions, Failure> {
    let executable = std::env::current_exe().map_err(Failure::from_error)?;
    let out = match &arguments.out {
        Some(out) => out.clone(),
        None => default_out(loaded),
    };
    std::fs::create_dir_all(&out).map_err(|error| {
        Failure::with_help(
            format!("cannot make {}: {error}", out.display()),
            "choose a folder that you may write with --out",
        )
    })?;
    let mut command = format!("tailbound run {}", file.display());
    if let Some(seed) = arguments.seed {
        command.push_str(&format!(" --seed {seed}"));
    }
    if arguments.duration_scale != 1.0 {
        command.push_str(&format!(" --duration-scale {}", arguments.duration_scale));
    }
    if let Some(host) = &arguments.host {
        command.push_str(&format!(" --host {host}"));
    }
    if arguments.simulate_only {
        command.push_str(" --simulate-only");
    }
    Ok(CampaignOptions {
        out,
        executable,
        duration_scale: arguments.duration_scale,
        seed: arguments.seed,
        simulate_only: arguments.simulate_only,
        commands: vec![command],
        started_at: utc_now()?,
        history: arguments.history.file(),
        modes,
        trace: arguments.trace,
    })
}

/// The time now, RFC 3339 in UTC, to the second.
pub(in crate::verbs) fn utc_now() -> Result<String, Failure> {
    let now = time::OffsetDateTime::now_utc();
    let now = now.replace_nanosecond(0).map_err(Failure::from_error)?;
    now.format(&time::format_description::well_known::Rfc3339)
        .map_err(Failure::from_error)
}

/// `out/NAME` beside the description.
fn default_out(loaded: &LoadedDescription) -> PathBuf {
    loaded.base().join("out").join(&loaded.description.name)
}

/// Every change that the reservations of the first variant would make. For each program that a run would
/// start, a held process stands in.
fn dry_run(loaded: &LoadedDescription, output: &Output) -> Result<(), Failure> {
    let Some(variant) = loaded.description.experiment.variants.first() else {
        return super::apply::dry_run(&[], output);
    };
    super::apply::refuse_misfit(&loaded.description, variant)?;
    let deployment = Deployment::of_run(&loaded.description, variant);
    let deployment = deployment.map_err(Failure::from_error)?;
    let mut held = Vec::new();
    let mut started = StartedProcesses::new();
    for name in deployment.reserved.keys() {
        let domain = &deployment.description.domains[name];
        let Members::Started { instances } = domain.members(name) else {
            continue;
        };
        let cpus = domain.allowed_cpus().iter().map(|cpu| cpu.0).collect();
        for _ in 0..instances {
            let stand_in = HeldCommand::stand_in(&cpus)?;
            output.note(format!(
                "domain \"{name}\": process {} stands in for what would be started",
                stand_in.pid()
            ));
            let processes = started.entry(name.clone()).or_default();
            processes.push(stand_in.pid());
            held.push(stand_in);
        }
    }
    let requests = binding::requests(&deployment, &started);
    let requests = requests.map_err(|error| Failure::from_binding(error, loaded))?;
    super::apply::dry_run(&requests, output)
}

/// The promises are about the system as described: its first variant.
fn judge(report: &RunReport) -> Result<(), Failure> {
    if let Some(why) = &report.interrupted {
        return Err(Failure::error(format!("the run ended early: {why}")));
    }
    let Some(first) = report.variants.first().map(|result| result.variant.clone()) else {
        return Ok(());
    };
    let described = report
        .variants
        .iter()
        .filter(|result| result.variant == first);
    let missed: Vec<String> = described
        .flat_map(|result| result.verdicts.iter().map(move |verdict| (result, verdict)))
        .filter(|(_, verdict)| verdict.outcome == Outcome::Missed)
        .map(|(result, verdict)| {
            format!(
                "{} {} within {}",
                result.service, verdict.slo.percentile, verdict.slo.latency
            )
        })
        .collect();
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(format!(
        "{first} missed: {}",
        missed.join(", ")
    )))
}
