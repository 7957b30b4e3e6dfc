//! `tailbound apply`: put the reservations of a description into force, and make its modes known; or that of one
//! unit or container.

mod grant;
pub(super) mod modes;
mod named_cgroup;
mod reservation_unit;

use std::collections::BTreeMap;
use std::path::Path;

use tailbound_analysis::resolution::Deployment;
use tailbound_enforcement::binding::{self, BindingError, StartedProcesses};
use tailbound_enforcement::{CgroupName, Enforcer, ReservationRequest};
use tailbound_experiment::host_check::{Obstacle, obstacle_of_run};
use tailbound_experiment::host_set::{HostSet, part_of_this_machine};
use tailbound_linux::HostCapabilities;
use tailbound_model::{Description, LoadedDescription, Variant, WhenEmpty};
use tailbound_modes::table::ModeTable;

use crate::arguments::ApplyArguments;
use crate::failure::Failure;
use crate::output::Output;
use grant::Grant;
pub(super) use named_cgroup::domain_called;

/// Puts reservations into force, or prints what that would change.
pub fn carry_out(arguments: &ApplyArguments, output: &Output) -> Result<(), Failure> {
    if let (Some(unit), Some(program)) = (&arguments.unit, &arguments.print_unit_file) {
        return output.print(&reservation_unit::text(
            unit,
            program.as_deref(),
            arguments,
        )?);
    }
    let unit = arguments.unit.clone().map(CgroupName::Unit);
    let container = arguments.container.clone().map(CgroupName::Container);
    let label = arguments.container_label.clone();
    let label = label.map(CgroupName::ContainerLabel);
    let pod = arguments.pod.clone().map(CgroupName::Pod);
    match (unit.or(container).or(label).or(pod), &arguments.file) {
        (Some(name), _) => named_cgroup::carry_out(arguments, name, output),
        (None, Some(file)) => apply_description(file, arguments, output),
        (None, None) => Err(Failure::with_help(
            "nothing to apply",
            "give a FILE, a --unit, a --container, a --container-label or a --pod",
        )),
    }
}

/// Applies what is described, a description with modes as its initial mode says.
fn apply_description(
    file: &Path,
    arguments: &ApplyArguments,
    output: &Output,
) -> Result<(), Failure> {
    let mut loaded = super::load(file, output)?;
    loaded.description = part_of(&loaded.description, arguments.host.as_deref())?;
    let table = modes::of(&loaded.description)?;
    let requests = match &table {
        None => requests(&deployed(&loaded.description, None)?, &loaded)?,
        Some(table) => initial_requests(&loaded, table)?,
    };
    refuse_misfit(&loaded.description, &Variant::as_described())?;
    if arguments.dry_run {
        return planned(&requests, table.as_ref(), output);
    }
    let mut grant = Grant::begin(arguments.hold)?;
    if let Some(table) = &table {
        modes::refuse_other(&mut grant.client, table)?;
    }
    grant.apply(&requests, when_empty(&loaded.description), output)?;
    if let Some(table) = &table {
        modes::load(&mut grant.client, table, &loaded, &requests, output)?;
    }
    grant.end(&requests, output)
}

/// What of a description is on this machine.
pub(super) fn part_of(
    description: &Description,
    host: Option<&str>,
) -> Result<Description, Failure> {
    part_of_this_machine(description, host).map_err(Failure::from_error)
}

/// Refuses a variant of a description of which this host cannot hold all reservations, in every mode.
pub(super) fn refuse_misfit(description: &Description, variant: &Variant) -> Result<(), Failure> {
    let hosts = HostSet::with_only_here(description, &HostCapabilities::probe());
    let obstacle = obstacle_of_run(description, variant, &hosts);
    match obstacle.map_err(Failure::from_error)? {
        Some(Obstacle::TooMuch(reason)) => Err(Failure::error(reason)),
        // What the host lacks, the plan names with its remedy.
        Some(Obstacle::Lacking(_)) | None => Ok(()),
    }
}

/// Plans on this host and prints every change in the kernel's words; changes nothing.
pub fn dry_run(requests: &[ReservationRequest], output: &Output) -> Result<(), Failure> {
    planned(requests, None, output)
}

/// The same, and a line per mode.
fn planned(
    requests: &[ReservationRequest],
    modes: Option<&ModeTable>,
    output: &Output,
) -> Result<(), Failure> {
    let enforcer = Enforcer::new().map_err(Failure::from_error)?;
    let plans = enforcer.plan(requests).map_err(Failure::from_error)?;
    if output.format() == crate::arguments::Format::Json {
        let mut data = serde_json::json!({ "plans": plans });
        if let Some(table) = modes {
            data["modes"] = serde_json::json!(super::mode::modes(table));
        }
        return output.json(&data);
    }
    let mut text: Vec<String> = plans.iter().flat_map(|plan| plan.dry_run()).collect();
    text.extend(modes.into_iter().flat_map(super::mode::lines));
    output.print(&(text.join("\n") + "\n"))
}

/// What becomes of reservations without members, where the description says so.
pub(super) fn when_empty(description: &Description) -> BTreeMap<String, WhenEmpty> {
    let domains = description.domains.iter();
    let rules = domains.filter_map(|(name, domain)| {
        let rule = domain.reservation.as_ref()?.when_empty?;
        Some((name.clone(), rule))
    });
    rules.collect()
}

/// The description as it is applied: in a mode if one is named.
pub(super) fn deployed(
    description: &Description,
    mode: Option<&str>,
) -> Result<Deployment, Failure> {
    let deployment = Deployment::of(description, mode, &Variant::as_described());
    deployment.map_err(Failure::from_error)
}

/// The requests of the initial mode. Those of all modes are made, so that none turns out to be
/// impossible only when it is asked for.
fn initial_requests(
    loaded: &LoadedDescription,
    table: &ModeTable,
) -> Result<Vec<ReservationRequest>, Failure> {
    let mut initial = Vec::new();
    for mode in table.names() {
        let requests = requests(&deployed(&loaded.description, Some(mode))?, loaded)?;
        if mode == table.initial() {
            initial = requests;
        }
    }
    modes::check(table, &initial)?;
    Ok(initial)
}

/// A request per reserved domain; they must run already, since nothing is started here.
pub(super) fn requests(
    deployment: &Deployment,
    loaded: &LoadedDescription,
) -> Result<Vec<ReservationRequest>, Failure> {
    let requests = binding::requests(deployment, &StartedProcesses::new());
    let requests = requests.map_err(|error| match error {
        BindingError::NotStarted { .. } => Failure::with_help(
            error.to_string(),
            format!(
                "give its `pids` (or the name of a `unit` or `container`) to `apply`, or use `tailbound run {}`",
                loaded.path.display()
            ),
        ),
        other => Failure::from_binding(other, loaded),
    })?;
    if requests.is_empty() {
        return Err(Failure::with_help(
            "no domain has a reservation",
            "add one to a domain",
        ));
    }
    Ok(requests)
}
