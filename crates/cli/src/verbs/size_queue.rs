//! `tailbound size` without a file: the reservation of one queue, from the command line.

use tailbound_analysis::notation::PeriodRange;
use tailbound_analysis::sizing::{
    ServerKind, Sizing, SizingQuery, limit_periods, size_watched, spread_periods,
};
use tailbound_analysis::{AnalysisError, LimitStanza};
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_report::SizingGrid;
use tailbound_reservation::Rule;

use super::calculate::queue;
use super::predict_answer::tell_of_caps;
use super::size_answer::{SizingColumns, cells, export_html, header, shown, stopped};
use crate::arguments::{Format, SizeArguments};
use crate::failure::Failure;
use crate::output::Output;
use crate::search_progress::SearchProgress;

/// Sizes the reservation of the queue in `arguments`, or the CPU limit of a container with that load.
pub fn carry_out(
    arguments: &SizeArguments,
    is_limit: bool,
    output: &Output,
) -> Result<Sizing, Failure> {
    let queue = queue(&arguments.load, ReservationServer::Dedicated, output)?;
    let range = match (arguments.period, is_limit) {
        (period, true) => periods_of_limit(period)?,
        (Some(range), false) => range,
        (None, false) => {
            return Err(Failure::with_help(
                "no period is given",
                "give one or a range of them: --period 1ms..100ms",
            ));
        }
    };
    if arguments.slos.is_empty() {
        return Err(Failure::with_help(
            "nothing is promised",
            "give a percentile and a latency: --slo p99=30ms",
        ));
    }
    let query = SizingQuery {
        queue,
        promises: arguments.slos.clone(),
        kind: server_kind(arguments.load.server.as_ref())?.unwrap_or(ServerKind::Deferrable),
        periods: spread_periods(range.low, range.high, arguments.points),
        margin: PercentagePoints(arguments.margin_points),
    };
    let progress = SearchProgress::begin(output)?;
    let sized = size_watched(&query, &progress);
    drop(progress);
    let sizing = match sized {
        Err(error @ AnalysisError::Overloaded { .. }) => {
            return Err(Failure::Verdict(error.to_string()));
        }
        sizing => sizing.map_err(Failure::from_error)?,
    };
    let sizing = match is_limit {
        true => sizing.of_caps(),
        false => sizing,
    };
    render(&query, &sizing, arguments, output)?;
    if let Some(stopped) = stopped(std::iter::once(&sizing)) {
        return Err(stopped);
    }
    if sizing.best.is_none() {
        return Err(Failure::Verdict(
            "no budget at any of these periods keeps every promise".into(),
        ));
    }
    Ok(sizing)
}

/// The periods of a limit, as [`limit_periods`] has them.
pub fn periods_of_limit(asked: Option<PeriodRange>) -> Result<PeriodRange, Failure> {
    let periods = limit_periods(asked);
    periods.map_err(|error| Failure::with_help(error.what, error.right))
}

/// The kind of server to be sized; `None` where none is named.
pub fn server_kind(rule: Option<&Rule>) -> Result<Option<ServerKind>, Failure> {
    match rule {
        None => Ok(None),
        Some(Rule::Server(kind)) => Ok(Some(*kind)),
        Some(Rule::Unlimited | Rule::Windows(_) | Rule::WindowsAndSlack { .. }) => {
            Err(Failure::with_help(
                "a dedicated CPU has no budget to size",
                "use --server deferrable, or another; `tailbound predict --server dedicated` tells \
             what a CPU of its own reaches",
            ))
        }
    }
}

fn render(
    query: &SizingQuery,
    sizing: &Sizing,
    arguments: &SizeArguments,
    output: &Output,
) -> Result<(), Failure> {
    for refused in &sizing.infeasible {
        output.note(refused.to_string());
    }
    for assumption in &sizing.assumptions {
        output.detail(format!("taken for granted: {assumption}"));
    }
    tell_of_caps(sizing.cap_assumptions.iter(), output);
    let stanza = stanza(sizing, arguments);
    if let Some((what, stanza)) = &stanza
        && arguments.stanza.is_none()
    {
        output.note(format!(
            "to paste into {what}, {} points of margin included:\n\n    {}\n",
            query.margin.0,
            stanza.trim_end().replace('\n', "\n    ")
        ));
    }
    export_html(arguments.export_html.as_deref(), "A queue", || {
        let rate = query.queue.rate;
        let promises: Vec<String> = query
            .promises
            .iter()
            .map(|promise| {
                format!(
                    "p{} within {}",
                    promise.probability * 100.0,
                    promise.latency
                )
            })
            .collect();
        let rule = format!(
            "Least budget of a {} server that keeps {} for {rate} requests.",
            query.kind,
            promises.join(" and ")
        );
        vec![SizingGrid {
            name: "Queue".into(),
            rule,
            sizing: Some(sizing.clone()),
            objections: Vec::new(),
            stanza: stanza.as_ref().map(|(_, stanza)| stanza.clone()),
        }]
    })?;
    if let (Some(_), Some((_, stanza)), Format::Table) =
        (arguments.stanza, &stanza, output.format())
    {
        return output.print(stanza);
    }
    let shown = shown(sizing, arguments.all);
    let answer = SizingColumns::of(sizing);
    let table: Vec<Vec<String>> = shown.map(|choice| cells(sizing, choice, answer)).collect();
    output.rows(&header(answer), &table, sizing)
}

/// The choice as text to paste, and what it is pasted into.
fn stanza(sizing: &Sizing, arguments: &SizeArguments) -> Option<(&'static str, String)> {
    let choice = sizing.choice()?;
    let (budget, period) = (choice.with_margin?, choice.period);
    let form = arguments.stanza.unwrap_or(LimitStanza::Kubernetes);
    if let Some(limit) = sizing.limit_stanza(form) {
        return Some(("a container's manifest", limit));
    }
    let reservation = format!(
        "[domains.NAME.reservation]\nbudget = \"{budget}\"\nperiod = \"{period}\"\ncpus = [0]\n"
    );
    Some(("a domain", reservation))
}
