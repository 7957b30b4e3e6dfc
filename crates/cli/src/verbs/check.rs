//! `tailbound check`: whether a description is well-formed, fits its hosts and is schedulable.

use std::collections::BTreeMap;

use serde::Serialize;
use tailbound_analysis::resolution::unenforceable;
use tailbound_analysis::resolution::{Deployment, ResolvedDomain, with_agents, with_fallen};
use tailbound_experiment::fitness::{Obstacle, obstacle};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, Description, Variant};

use super::protocols::{self, OneProtocol};
use super::transitions::{self, OneTransition};
use crate::arguments::CheckArguments;
use crate::failure::Failure;
use crate::output::{Output, table};

const HEADER: [&str; 7] = [
    "variant",
    "domain",
    "back end",
    "budget",
    "period",
    "bandwidth",
    "CPUs",
];

#[derive(Serialize)]
struct Checked<'a> {
    name: &'a str,
    reservations: Vec<CheckedReservation>,
    unfit: Vec<UnfitVariant>,
    #[serde(flatten)]
    of_modes: OfModes,
}

/// What there is to say of modes.
#[derive(Default, Serialize)]
struct OfModes {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unfit_modes: Vec<UnfitMode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    transitions: Vec<OneTransition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    protocols: Vec<OneProtocol>,
}

#[derive(Serialize)]
struct CheckedReservation {
    variant: String,
    domain: String,
    backend: BackendKind,
    budget_ns: u64,
    period_ns: u64,
    bandwidth: f64,
    cpus: Vec<u32>,
}

/// A variant that asks for more than there is.
#[derive(Serialize)]
struct UnfitVariant {
    variant: String,
    reason: String,
}

/// A mode that asks for more than there is.
#[derive(Serialize)]
pub(super) struct UnfitMode {
    pub(super) mode: String,
    pub(super) reason: String,
}

/// Loads, resolves every variant and admits it; applies nothing. Status 2 if one does not fit.
pub fn carry_out(arguments: &CheckArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(&arguments.file, output)?;
    let description = &loaded.description;
    tailbound_model::load_inputs(description, loaded.base()).map_err(|problems| {
        Failure::Description {
            problems,
            text: loaded.text.clone(),
        }
    })?;
    let mut host = HostCapabilities::probe();
    if arguments.elsewhere {
        let named = description.hosts.values().flat_map(|host| &host.cpus);
        host.online_cpus = named.map(|cpu| cpu.0).collect();
    }
    let unenforceable = unenforceable(description);
    let mut reservations = Vec::new();
    let mut unfit = Vec::new();
    for variant in &description.experiment.variants {
        let deployment = Deployment::of_run(description, variant).map_err(Failure::from_error)?;
        let resolved = deployment.reserved;
        if let Some(reason) = &unenforceable {
            unfit.push(UnfitVariant {
                variant: variant.name.clone(),
                reason: reason.clone(),
            });
            reservations.extend(checked(&variant.name, resolved));
            continue;
        }
        match obstacle(&resolved, &host) {
            Some(Obstacle::TooMuch(reason)) => unfit.push(UnfitVariant {
                variant: variant.name.clone(),
                reason,
            }),
            Some(Obstacle::Lacking(reason)) if !arguments.elsewhere => output.note(format!(
                "warning: variant {} cannot be enforced here: {reason}",
                variant.name
            )),
            _ => {}
        }
        reservations.extend(checked(&variant.name, resolved));
    }
    let of_modes = match unenforceable {
        Some(_) => OfModes::default(),
        None => of_modes(description, &host, output)?,
    };
    note_absent_cpus(description, &host, output);
    output.note(format!("{}: well-formed", arguments.file.display()));
    let name = &description.name;
    let answer = Checked {
        name,
        reservations,
        unfit,
        of_modes,
    };
    tell(&answer, output)
}

/// Prints what was found; status 2 if something stands against it.
fn tell(answer: &Checked<'_>, output: &Output) -> Result<(), Failure> {
    let rows: Vec<Vec<String>> = answer.reservations.iter().map(row).collect();
    let of_modes = &answer.of_modes;
    let variants = answer
        .unfit
        .iter()
        .map(|one| format!("variant {} does not fit: {}", one.variant, one.reason));
    let modes = of_modes
        .unfit_modes
        .iter()
        .map(|one| format!("mode {} does not fit: {}", one.mode, one.reason));
    let protocols = of_modes.protocols.iter();
    let protocols = protocols.filter_map(OneProtocol::objection);
    let reasons: Vec<String> = variants.chain(modes).chain(protocols).collect();
    let for_people = || {
        let changes = protocols::table_of(&of_modes.protocols);
        format!("{}\n{changes}", table(&HEADER, &rows))
    };
    output.rows_with(for_people, &HEADER, &rows, answer)?;
    if reasons.is_empty() {
        return Ok(());
    }
    Err(Failure::Verdict(reasons.join("\n")))
}

/// Whether the host can hold every mode, how long changes between them take, and whether these keep deadlines.
fn of_modes(
    description: &Description,
    host: &HostCapabilities,
    output: &Output,
) -> Result<OfModes, Failure> {
    let transitions = transitions::of(description)?;
    for one in &transitions {
        output.detail(one.line());
    }
    Ok(OfModes {
        unfit_modes: unfit_modes(description, host, |_| true)?,
        transitions,
        protocols: protocols::of(description)?,
    })
}

/// Those of the wanted modes, also with domains fallen back, that the host cannot hold: as described, and
/// with what agents take before all domains.
pub(super) fn unfit_modes(
    description: &Description,
    host: &HostCapabilities,
    is_wanted: impl Fn(&str) -> bool,
) -> Result<Vec<UnfitMode>, Failure> {
    let all = with_fallen(description).map_err(Failure::from_error)?;
    let with_agents = with_agents(&all.description);
    let mut unfit = Vec::new();
    let modes = all.description.modes.keys();
    for mode in modes.filter(|mode| is_wanted(all.mode_of(mode))) {
        let deployment = Deployment::of(&with_agents, Some(mode), &Variant::as_described());
        let deployment = deployment.map_err(Failure::from_error)?;
        if let Some(Obstacle::TooMuch(reason)) = obstacle(&deployment.reserved, host) {
            let mode = mode.clone();
            unfit.push(UnfitMode { mode, reason });
        }
    }
    Ok(unfit)
}

/// The budgets of a variant's reservations.
fn checked(variant: &str, resolved: BTreeMap<String, ResolvedDomain>) -> Vec<CheckedReservation> {
    let each = resolved.into_iter().filter_map(|(domain, resolved)| {
        let interface = resolved.enforced_interface()?;
        Some(CheckedReservation {
            variant: variant.into(),
            domain,
            backend: resolved.backend,
            budget_ns: interface.budget.as_nanos(),
            period_ns: interface.period.as_nanos(),
            bandwidth: interface.bandwidth().as_f64(),
            cpus: interface.cpus.iter().map(|cpu| cpu.0).collect(),
        })
    });
    each.collect()
}

fn row(reservation: &CheckedReservation) -> Vec<String> {
    let length = |ns: u64| tailbound_time::Duration::from_nanos(ns).to_string();
    let cpus: Vec<String> = reservation.cpus.iter().map(u32::to_string).collect();
    vec![
        reservation.variant.clone(),
        reservation.domain.clone(),
        reservation.backend.to_string(),
        length(reservation.budget_ns),
        length(reservation.period_ns),
        format!("{:.1}%", reservation.bandwidth * 100.0),
        cpus.join(","),
    ]
}

/// CPUs that no reservation needs are no error.
fn note_absent_cpus(description: &Description, here: &HostCapabilities, output: &Output) {
    for (name, host) in &description.hosts {
        let absent: Vec<String> = host
            .cpus
            .iter()
            .filter(|cpu| !here.online_cpus.contains(&cpu.0))
            .map(ToString::to_string)
            .collect();
        if !absent.is_empty() {
            let list = absent.join(", ");
            output.note(format!(
                "warning: host \"{name}\": CPU {list} is not online on this machine (if the \
                 description is for another one, add --elsewhere)"
            ));
        }
    }
}
