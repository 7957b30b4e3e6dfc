//! `tailbound size` without a file: the reservation of one queue, from the command line.

use tailbound_analysis::AnalysisError;
use tailbound_analysis::sizing::{ServerKind, Sizing, SizingQuery, size, spread_periods};
use tailbound_model::{PercentagePoints, ReservationServer};
use tailbound_report::SizingGrid;
use tailbound_reservation::Rule;

use super::calculate::queue;
use super::size_answer::{cells, export_html, header, shown};
use crate::arguments::SizeArguments;
use crate::failure::Failure;
use crate::output::Output;

/// Sizes the reservation of the queue in `arguments`.
pub fn carry_out(arguments: &SizeArguments, output: &Output) -> Result<(), Failure> {
    let queue = queue(&arguments.load, ReservationServer::Dedicated)?;
    let Some(range) = &arguments.period else {
        return Err(Failure::with_help(
            "no period is given",
            "give one or a range of them: --period 1ms..100ms",
        ));
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
    let found = match size(&query) {
        Err(error @ AnalysisError::Overloaded { .. }) => {
            return Err(Failure::Verdict(error.to_string()));
        }
        found => found.map_err(Failure::from_error)?,
    };
    render(&query, &found, arguments, output)?;
    if found.best.is_none() {
        return Err(Failure::Verdict(
            "no budget at any of these periods keeps every promise".into(),
        ));
    }
    Ok(())
}

/// The kind of server to be sized; `None` where none is named.
pub fn server_kind(rule: Option<&Rule>) -> Result<Option<ServerKind>, Failure> {
    match rule {
        None => Ok(None),
        Some(Rule::Server(kind)) => Ok(Some(*kind)),
        Some(Rule::Unlimited | Rule::Windows(_)) => Err(Failure::with_help(
            "a dedicated CPU has no budget to size",
            "use --server deferrable, or another; `tailbound predict --server dedicated` tells \
             what a CPU of its own reaches",
        )),
    }
}

fn render(
    query: &SizingQuery,
    found: &Sizing,
    arguments: &SizeArguments,
    output: &Output,
) -> Result<(), Failure> {
    for refused in &found.infeasible {
        output.note(refused.to_string());
    }
    for assumption in &found.assumptions {
        output.detail(format!("taken for granted: {assumption}"));
    }
    let chosen = found
        .choice()
        .and_then(|choice| Some((choice.with_margin?, choice.period)));
    let stanza = chosen.map(|(budget, period)| {
        format!(
            "[domains.NAME.reservation]\nbudget = \"{budget}\"\nperiod = \"{period}\"\ncpus = [0]\n"
        )
    });
    if let Some(stanza) = &stanza {
        output.note(format!(
            "to paste into a domain, {} points of margin included:\n\n    {}\n",
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
            sizing: Some(found.clone()),
            objections: Vec::new(),
            stanza: stanza.clone(),
        }]
    })?;
    let shown = shown(found, arguments.all);
    let table: Vec<Vec<String>> = shown.map(|choice| cells(found, choice, false)).collect();
    output.rows(&header(false), &table, found)
}
