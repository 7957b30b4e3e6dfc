//! `tailbound size FILE`: the reservations that keep what a description promises.

use std::path::Path;

use serde::Serialize;
use tailbound_experiment::fitness::{Obstacle, obstacle};
use tailbound_experiment::in_mode::modes;
use tailbound_experiment::sizing::{
    Budgets, Outcome, Rule, ServiceSizing, SizingOptions, size_services, with_reservation,
};
use tailbound_linux::HostCapabilities;
use tailbound_model::{Description, PercentagePoints, Reservation};
use tailbound_report::SizingGrid;
use tailbound_time::Duration;

use super::size_answer::{Answer, HEADER, export_html};
use super::size_queue::server_kind;
use crate::arguments::SizeArguments;
use crate::failure::Failure;
use crate::output::Output;

/// All answers, as JSON spells them.
#[derive(Serialize)]
struct Answers<'a> {
    sizings: &'a [Sizing],
}

/// The answer for one service in one mode.
#[derive(Serialize)]
struct Sizing {
    mode: Option<String>,
    service: String,
    domain: String,
    /// Why there is none.
    refused: Option<String>,
    #[serde(flatten)]
    found: Option<Found>,
}

#[derive(Serialize)]
struct Found {
    rule: String,
    periods: PeriodsLookedAt,
    #[serde(flatten)]
    answer: Answer,
    /// The reservation of the choice, as TOML to paste.
    stanza: Option<String>,
    /// Why the description with it would not be admitted.
    does_not_fit: Option<String>,
}

#[derive(Serialize)]
struct PeriodsLookedAt {
    low_ns: u64,
    high_ns: u64,
    why: String,
}

/// Sizes the services of a description.
pub fn carry_out(file: &Path, arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    super::refuse_what_is_only_simulated(&loaded.description)?;
    // Sizing goes by the modes of the system; what domains call their own modes is written into them.
    let description = &loaded.description.with_inline_modes();
    let inputs = loaded.inputs().map_err(|problems| Failure::Description {
        problems,
        text: loaded.text.clone(),
    })?;
    let mut domains = description.domains.values();
    if description.services.is_empty() && domains.all(|domain| domain.tasks.is_empty()) {
        return Err(Failure::with_help(
            "the description has no tasks, so there is nothing to size",
            "describe one with its tasks and SLOs, or size a queue without a file: tailbound size \
             --rate 200/s --service 2ms --slo p99=30ms --period 1ms..100ms",
        ));
    }
    let service = match &arguments.load.service {
        Some(name) => Some(super::measure::chosen_service(description, Some(name))?),
        None => None,
    };
    let mut host = HostCapabilities::probe();
    // What the CPUs of the description are is its own business here.
    let named = description.hosts.values().flat_map(|host| &host.cpus);
    host.online_cpus = named.map(|cpu| cpu.0).collect();
    let options = SizingOptions {
        service: service.as_deref(),
        periods: arguments
            .period
            .as_ref()
            .map(|range| (range.low, range.high)),
        points: arguments.points,
        margin: PercentagePoints(arguments.margin),
        server: server_kind(arguments.load.server)?,
        host: &host,
    };
    let found = size_services(description, &inputs, &options).map_err(Failure::from_error)?;
    let sizings: Vec<Sizing> = found
        .iter()
        .map(|one| sizing(one, description, &options))
        .collect();
    export_html(arguments.export_html.as_deref(), &description.name, || {
        sizings.iter().map(grid).collect()
    })?;
    render(&sizings, arguments.all, output)?;
    verdict(&found)
}

/// Status 2 where a promise cannot be kept, 1 where nothing could be sized.
fn verdict(found: &[ServiceSizing]) -> Result<(), Failure> {
    let infeasible = |one: &&ServiceSizing| match &one.outcome {
        Outcome::Sized(budgets) => budgets.sizing.best.is_none(),
        Outcome::Overloaded(_) => true,
        Outcome::NotSized(_) => false,
    };
    let names: Vec<&str> = found
        .iter()
        .filter(infeasible)
        .map(|one| one.service.as_str())
        .collect();
    if !names.is_empty() {
        return Err(Failure::Verdict(format!(
            "no budget at any of these periods keeps every promise of {}",
            names.join(", ")
        )));
    }
    let not_sized = |one: &ServiceSizing| matches!(one.outcome, Outcome::NotSized(_));
    if found.iter().all(not_sized) {
        return Err(Failure::error("no service could be sized"));
    }
    Ok(())
}

fn sizing(one: &ServiceSizing, description: &Description, options: &SizingOptions<'_>) -> Sizing {
    let (refused, found) = match &one.outcome {
        Outcome::Sized(budgets) => {
            let found = found(one, budgets, description, options);
            (None, Some(found))
        }
        Outcome::Overloaded(why) | Outcome::NotSized(why) => (Some(why.clone()), None),
    };
    Sizing {
        mode: one.mode.clone(),
        service: one.service.clone(),
        domain: one.domain.clone(),
        refused,
        found,
    }
}

fn found(
    one: &ServiceSizing,
    budgets: &Budgets,
    description: &Description,
    options: &SizingOptions<'_>,
) -> Found {
    let answer = Answer::of(&budgets.sizing, options.margin);
    let mode = one.mode.as_deref();
    let stanza = budgets
        .reservation
        .as_ref()
        .map(|reservation| stanza(mode, &one.domain, reservation, &answer));
    let does_not_fit = budgets.reservation.as_ref().and_then(|reservation| {
        let pasted = with_reservation(description, mode, &one.domain, reservation);
        misfit(&pasted, mode, options.host)
    });
    Found {
        rule: rule(budgets.rule),
        periods: PeriodsLookedAt {
            low_ns: budgets.range.low.as_nanos(),
            high_ns: budgets.range.high.as_nanos(),
            why: budgets.range.why.clone(),
        },
        answer,
        stanza,
        does_not_fit,
    }
}

fn rule(rule: Rule) -> String {
    match rule {
        Rule::Promises(kind) => {
            format!("least budget of a {kind} server that keeps every promise")
        }
        Rule::AsOnOwnCpu => "W(P): least budget of a deferrable server under which the tasks run \
                             as on a CPU of their own (Li 2021, section 3.2)"
            .into(),
    }
}

/// Why the reservations of the mode do not fit its hosts, if so.
fn misfit(
    description: &Description,
    mode: Option<&str>,
    host: &HostCapabilities,
) -> Option<String> {
    let modes = modes(description);
    let in_mode = modes.iter().find(|one| one.mode == mode)?;
    let mut resolved = std::collections::BTreeMap::new();
    for domain in in_mode.reservations.keys() {
        match in_mode.resolved(domain) {
            Ok(Some(one)) => resolved.insert((*domain).to_owned(), one),
            Ok(None) => continue,
            Err(error) => return Some(error.to_string()),
        };
    }
    match obstacle(&resolved, host) {
        Some(Obstacle::TooMuch(reason)) => Some(reason),
        _ => None,
    }
}

/// The reservation as a table of a description, with how its budget came about.
fn stanza(mode: Option<&str>, domain: &str, reservation: &Reservation, answer: &Answer) -> String {
    let table = match mode {
        Some(mode) => format!("modes.{mode}.reservations.{domain}"),
        None => format!("domains.{domain}.reservation"),
    };
    let cpus: Vec<String> = reservation.cpus.iter().map(ToString::to_string).collect();
    let mut lines = vec![format!("[{table}]")];
    if let Some(best) = &answer.best {
        let least = Duration::from_nanos(best.budget_ns.unwrap_or_default());
        lines.push(format!(
            "# least budget {least} ({:.2} %), and a margin of {} points of bandwidth",
            best.bandwidth.unwrap_or_default() * 100.0,
            answer.margin_points
        ));
    }
    lines.push(format!("backend = \"{}\"", reservation.backend));
    for (key, value) in [
        ("budget", reservation.budget),
        ("period", reservation.period),
    ] {
        if let Some(value) = value {
            lines.push(format!("{key} = \"{value}\""));
        }
    }
    if let Some(kind) = reservation.server {
        lines.push(format!("server = \"{kind}\""));
    }
    lines.push(format!("priority = {}", reservation.priority.0));
    lines.push(format!("cpus = [{}]", cpus.join(", ")));
    lines.join("\n") + "\n"
}

fn render(sizings: &[Sizing], all: bool, output: &Output) -> Result<(), Failure> {
    let mut rows = Vec::new();
    for one in sizings {
        let name = one.name();
        let Some(found) = &one.found else {
            let why = one.refused.as_deref().unwrap_or_default();
            output.note(format!("{name}: {why}"));
            let dash = || "-".to_owned();
            rows.push(vec![
                name,
                dash(),
                dash(),
                dash(),
                dash(),
                "not sized".into(),
            ]);
            continue;
        };
        tell(&name, found, output);
        for row in found.answer.shown(all) {
            let mut cells = vec![name.clone()];
            cells.extend(found.answer.cells(row));
            rows.push(cells);
        }
    }
    for one in sizings {
        if let Some(stanza) = one.found.as_ref().and_then(|found| found.stanza.as_ref()) {
            let indented = stanza.trim_end().replace('\n', "\n    ");
            output.note(format!(
                "in place of the reservation of domain {}:\n\n    {indented}\n",
                one.domain
            ));
        }
    }
    let mut header = vec!["service"];
    header.extend(HEADER);
    output.rows(&header, &rows, &Answers { sizings })
}

fn tell(name: &str, found: &Found, output: &Output) {
    output.note(format!("{name}: {}", found.told()));
    for refused in &found.answer.infeasible {
        output.note(format!("{name}: {refused}"));
    }
    for assumption in &found.answer.assumptions {
        output.detail(format!("{name}: taken for granted: {assumption}"));
    }
    if let Some(why) = &found.does_not_fit {
        output.note(format!("{name}: the choice would not be admitted: {why}"));
    }
}

/// The answer as a grid of a page.
fn grid(one: &Sizing) -> SizingGrid {
    let name = one.name();
    let Some(found) = &one.found else {
        return SizingGrid {
            name,
            rule: "Not sized.".into(),
            objections: one.refused.iter().cloned().collect(),
            ..SizingGrid::default()
        };
    };
    let rule = found.told();
    let mut grid = found.answer.grid(&name, &rule, found.stanza.as_deref());
    grid.objections.extend(found.does_not_fit.clone());
    grid
}

impl Sizing {
    fn name(&self) -> String {
        match &self.mode {
            Some(mode) => format!("{} in mode {mode}", self.service),
            None => self.service.clone(),
        }
    }
}

impl Found {
    /// How the budgets were found, and of which periods.
    fn told(&self) -> String {
        format!(
            "{}; periods from {} to {}, {}",
            self.rule,
            Duration::from_nanos(self.periods.low_ns),
            Duration::from_nanos(self.periods.high_ns),
            self.periods.why
        )
    }
}
