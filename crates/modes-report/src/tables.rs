//! What was measured in each mode, and the changes between them.

use tailbound_distribution::Distribution;
use tailbound_report::{
    CONFIDENCE, Cell, RowIntervals, RunReport, Table, UNKNOWN, VariantResult, columns,
    merge_by_name, quantile_names, quantile_row, readable,
};
use tailbound_time::Duration;

use crate::ModeChange;

/// The latencies in each mode and during each kind of change, all repetitions together.
pub(super) fn latencies(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    for result in &report.variants {
        let parts = result.measured.iter().flat_map(|run| &run.per_mode);
        for (_, mode, measured) in merge_by_name(parts) {
            let mut row = quantile_row(result, mode, &measured, RowIntervals::OfSample);
            row.push(late(result, &measured));
            rows.push(row);
        }
    }
    let mut numbers = quantile_names();
    numbers.push("Late");
    Table {
        id: "modes",
        title: "Latencies by mode",
        note: format!(
            "What was measured of the requests that were due while a mode held, or while it was changed \
             (from the begin of the change until the last reservation was in force), all repetitions \
             together. Late are those beyond a promised latency, whatever its percentile. Under a \
             percentile stands its {}% confidence interval.",
            CONFIDENCE * 100.0
        ),
        columns: columns(&["Service", "Variant", "Mode"], &numbers),
        rows,
    }
}

/// How many took longer than each promised latency.
fn late(result: &VariantResult, measured: &Distribution) -> Cell {
    let of_all = result.verdicts.iter().filter(|one| one.slo.task.is_none());
    let mut limits: Vec<Duration> = of_all.map(|verdict| verdict.slo.latency).collect();
    limits.sort_unstable();
    limits.dedup();
    let counted = limits.into_iter().map(|limit| {
        let answered = measured.samples().iter().filter(|it| **it > limit);
        let lost = measured.censored().iter().filter(|it| **it > limit);
        let limit = readable(limit);
        format!("{} beyond {limit}", answered.count() + lost.count())
    });
    let counted: Vec<String> = counted.collect();
    Cell::text(match counted.is_empty() {
        true => UNKNOWN.to_owned(),
        false => counted.join(", "),
    })
}

/// The changes, in the order in which they were made.
pub(super) fn changes(changes: &[ModeChange]) -> Table {
    let length = |ns: Option<u64>| {
        let length = ns.map(Duration::from_nanos);
        Cell::text(length.map_or_else(|| UNKNOWN.to_owned(), readable))
    };
    let rows = changes.iter().map(|change| {
        vec![
            Cell::text(&change.variant),
            Cell::text(format!("{} \u{2192} {}", change.from, change.to)),
            Cell::text(&change.ending),
            Cell::text(change.repetition.to_string()),
            length(Some(change.began_after_ns)),
            length(change.latency_ns),
            length(change.in_force_after_ns),
        ]
    });
    Table {
        id: "mode-changes",
        title: "Mode changes",
        note: "Each change of modes while something was measured: when it began, from the start of the \
               load; how long it took; and when the last reservation was in force, from its begin."
            .into(),
        columns: columns(
            &["Variant", "Change", "Ending"],
            &["Run", "Began after", "Took", "In force after"],
        ),
        rows: rows.collect(),
    }
}
