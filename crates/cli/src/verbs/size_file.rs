//! `tailbound size FILE`: the reservations that keep what a description promises.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::{LimitStanza, SearchWatch, Unwatched};
use tailbound_assessment::AssessmentError;
use tailbound_assessment::analysis::refuse_what_is_only_simulated;
use tailbound_assessment::sizing::{
    Budgets, RunGoal, ServiceSizing, SizingOptions, in_percent, size_services,
};
use tailbound_experiment::host_set::HostSet;
use tailbound_experiment::{CalibratedHost, CalibrationRecord};
use tailbound_linux::HostCapabilities;
use tailbound_model::{BackendKind, InputFiles, LoadedDescription, PercentagePoints};
use tailbound_report::SizingGrid;

use super::predict_answer::tell_of_caps;
use super::size_answer::{SizingColumns, cells, export_html, header, shown, stopped};
use super::size_queue::{periods_of_limit, server_kind};
use crate::arguments::{Format, SizeArguments};
use crate::failure::Failure;
use crate::output::Output;
use crate::search_progress::SearchProgress;

/// All answers.
#[derive(Serialize)]
struct Answers<'a> {
    sizings: &'a [ServiceSizing],
}

/// Sizes the services of a description.
pub fn carry_out(file: &Path, arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let loaded = super::load(file, output)?;
    refuse_what_is_only_simulated(&loaded.description)?;
    let description = &loaded.description;
    let inputs = super::inputs(&loaded)?;
    let mut host = HostCapabilities::probe();
    // What the CPUs of the description are is its own business here.
    let named = description.hosts.values().flat_map(|host| &host.cpus);
    host.online_cpus = named.map(|cpu| cpu.0).collect();
    let record = arguments
        .on_host
        .calibration
        .as_deref()
        .map(CalibrationRecord::read);
    let record = record.transpose().map_err(Failure::from_error)?;
    let calibrated = record
        .as_ref()
        .map(|record| calibrated(&loaded, &inputs, record, (arguments, output)));
    let calibrated = calibrated.transpose()?;
    let runs = calibrated.as_ref().zip(arguments.probability);
    let periods = match arguments.limit {
        true => Some(periods_of_limit(arguments.period)?),
        false => arguments.period,
    };
    // Runs of a calibrated host have no best answer so far.
    let progress = match runs {
        None => Some(SearchProgress::begin(output)?),
        Some(_) => None,
    };
    let watch = progress
        .as_ref()
        .map(|progress| progress as &dyn SearchWatch);
    let options = SizingOptions {
        watch: watch.unwrap_or(&Unwatched),
        service: arguments.load.service.as_deref(),
        backend: arguments.limit.then_some(BackendKind::CPU_LIMIT),
        periods: periods.map(|range| (range.low, range.high)),
        points: arguments.points,
        margin: PercentagePoints(arguments.margin_points),
        server: server_kind(arguments.load.server.as_ref())?,
        host: &HostSet::with_only_here(description, &host),
        runs: runs.map(|(forecasts, probability)| RunGoal {
            probability,
            forecasts,
        }),
    };
    let sized = size_services(description, &inputs, &options);
    drop(progress);
    let sizings = sized.map_err(|error| match error {
        AssessmentError::Empty { .. } => Failure::with_help(
            error.to_string(),
            "describe one with its tasks and SLOs, or size a queue without a file: tailbound size \
                 --rate 200/s --execution-time 2ms --slo p99=30ms --period 1ms..100ms",
        ),
        error => Failure::from_assessment(error),
    })?;
    export_html(arguments.export_html.as_deref(), &description.name, || {
        sizings.iter().map(grid).collect()
    })?;
    render(&sizings, arguments, output)?;
    let budgets = sizings.iter().filter_map(|one| one.budgets.as_ref());
    if let Some(stopped) = stopped(budgets.map(|budgets| &budgets.sizing)) {
        return Err(stopped);
    }
    verdict(&sizings, arguments.probability)
}

/// The host of a calibration.
fn calibrated<'a>(
    loaded: &'a LoadedDescription,
    inputs: &'a InputFiles,
    record: &'a CalibrationRecord,
    (arguments, output): (&SizeArguments, &Output),
) -> Result<CalibratedHost<'a>, Failure> {
    let history = arguments.on_host.history.file();
    let from = (record, history.as_deref());
    let host = CalibratedHost::new(loaded, inputs, from, arguments.on_host.run());
    let (host, remarks) = host.map_err(Failure::from_error)?;
    remarks.iter().for_each(|remark| output.note(remark));
    Ok(host)
}

/// Status 2 where a promise cannot be kept, 1 where nothing could be sized.
fn verdict(sizings: &[ServiceSizing], probability: Option<f64>) -> Result<(), Failure> {
    let infeasible = sizings.iter().filter(|one| one.is_infeasible());
    let names: Vec<&str> = infeasible.map(|one| one.service.as_str()).collect();
    if !names.is_empty() {
        let share = probability.map_or_else(String::new, |share| {
            format!(" in {}% of runs", in_percent(share))
        });
        return Err(Failure::Verdict(format!(
            "no budget at any of these periods keeps every promise of {}{share}",
            names.join(", ")
        )));
    }
    if sizings.iter().all(|one| one.budgets.is_none()) {
        return Err(Failure::error("no service could be sized"));
    }
    Ok(())
}

fn render(
    sizings: &[ServiceSizing],
    arguments: &SizeArguments,
    output: &Output,
) -> Result<(), Failure> {
    let columns_of = match arguments.probability {
        _ if arguments.limit => SizingColumns::Limits,
        Some(_) => SizingColumns::BudgetsByRuns,
        None => SizingColumns::Budgets,
    };
    let mut columns = vec!["service"];
    columns.extend(header(columns_of));
    let mut rows = Vec::new();
    for one in sizings {
        let name = one.name();
        let Some(budgets) = &one.budgets else {
            let why = one.refused.as_deref().unwrap_or_default();
            output.note(format!("{name}: {why}"));
            let mut row = vec!["-".to_owned(); columns.len() - 1];
            row[0] = name;
            row.push("not sized".into());
            rows.push(row);
            continue;
        };
        tell(&name, budgets, output);
        let sizing = &budgets.sizing;
        for choice in shown(sizing, arguments.all) {
            let mut row = vec![name.clone()];
            row.extend(cells(sizing, choice, columns_of));
            rows.push(row);
        }
    }
    let sized = sizings.iter().filter_map(|one| one.budgets.as_ref());
    tell_of_caps(
        sized.flat_map(|budgets| &budgets.sizing.cap_assumptions),
        output,
    );
    if arguments.limit {
        return limits(sizings, arguments, (&columns, &rows), output);
    }
    for one in sizings {
        if let Some(stanza) = one
            .budgets
            .as_ref()
            .and_then(|budgets| budgets.stanza.as_ref())
        {
            let indented = stanza.trim_end().replace('\n', "\n    ");
            output.note(format!(
                "in place of the reservation of domain {}:\n\n    {indented}\n",
                one.domain
            ));
        }
    }
    output.rows(&columns, &rows, &Answers { sizings })
}

/// Prints limits, and what sets them; that alone where it is asked for.
fn limits(
    sizings: &[ServiceSizing],
    arguments: &SizeArguments,
    (columns, rows): (&[&str], &[Vec<String>]),
    output: &Output,
) -> Result<(), Failure> {
    let form = arguments.stanza.unwrap_or(LimitStanza::Kubernetes);
    let mut only = String::new();
    for one in sizings {
        let budgets = one.budgets.as_ref();
        let Some(stanza) = budgets.and_then(|budgets| budgets.sizing.limit_stanza(form)) else {
            continue;
        };
        let indented = stanza.trim_end().replace('\n', "\n    ");
        only.push_str(&format!("# {}\n{stanza}", one.name()));
        if arguments.stanza.is_none() {
            output.note(format!(
                "to paste into the manifest of {}'s container, {} points of margin included:\n\n    {indented}\n",
                one.name(),
                arguments.margin_points,
            ));
        }
    }
    match (arguments.stanza, output.format()) {
        (Some(_), Format::Table) => output.print(&only),
        _ => output.rows(columns, rows, &Answers { sizings }),
    }
}

fn tell(name: &str, budgets: &Budgets, output: &Output) {
    output.note(format!("{name}: {}", method(budgets)));
    for refused in &budgets.sizing.infeasible {
        output.note(format!("{name}: {refused}"));
    }
    for assumption in &budgets.sizing.assumptions {
        output.detail(format!("{name}: taken for granted: {assumption}"));
    }
    if let Some(why) = &budgets.does_not_fit {
        output.note(format!("{name}: the choice would not be admitted: {why}"));
    }
}

/// The answer as a grid of a page.
fn grid(one: &ServiceSizing) -> SizingGrid {
    let budgets = one.budgets.as_ref();
    let refused = one.refused.iter().filter(|_| budgets.is_none());
    let misfit = budgets.and_then(|budgets| budgets.does_not_fit.as_ref());
    SizingGrid {
        name: one.name(),
        rule: budgets.map_or_else(|| "Not sized.".into(), method),
        sizing: budgets.map(|budgets| budgets.sizing.clone()),
        objections: refused.chain(misfit).cloned().collect(),
        stanza: budgets.and_then(|budgets| budgets.stanza.clone()),
    }
}

/// How the budgets were found, and of which periods.
fn method(budgets: &Budgets) -> String {
    let periods = &budgets.periods;
    format!(
        "{}; periods from {} to {}, {}",
        budgets.rule, periods.low, periods.high, periods.why
    )
}
