//! The numbers of a page, as the JSON block that its script and anyone else reads.

use serde_json::{Value, json};
use tailbound_distribution::Interval;
use tailbound_time::Duration;

use crate::palette::Theme;
use crate::{Plot, RunReport, Table, VerticalAxis};

/// Everything that the page shows as a number.
pub(crate) fn page_data(report: &RunReport, plots: &[Plot], tables: &[Table]) -> Value {
    json!({
        "schema_version": report.schema_version,
        "tailbound_version": report.tailbound_version,
        "name": report.name,
        "seed": report.seed,
        "palette": {
            "light": Theme::Light.palette().variants(),
            "dark": Theme::Dark.palette().variants(),
        },
        "plots": plots.iter().map(plot_data).collect::<Vec<_>>(),
        "tables": tables.iter().map(table_data).collect::<Vec<_>>(),
        "comparisons": report.comparisons,
        "verdicts": report.variants.iter().flat_map(|result| {
            result.verdicts.iter().map(|verdict| json!({
                "service": result.service,
                "variant": result.variant,
                "verdict": verdict,
            }))
        }).collect::<Vec<_>>(),
    })
}

fn plot_data(plot: &Plot) -> Value {
    json!({
        "id": plot.id,
        "service": plot.service,
        "scale": plot.scale(VerticalAxis::Share).word(),
        "share_extent_ns": plot.extent(VerticalAxis::Share).as_nanos(),
        "tail_extent_ns": plot.extent(VerticalAxis::Tail).as_nanos(),
        "tail_floor": plot.tail_floor(),
        "share_title": capitalised(&plot.quantity.title(VerticalAxis::Share)),
        "tail_title": capitalised(&plot.quantity.title(VerticalAxis::Tail)),
        "promises": plot.promises.iter().map(|promise| json!({
            "label": promise.label,
            "latency_ns": promise.latency.as_nanos(),
            "probability": promise.probability,
        })).collect::<Vec<_>>(),
        "series": plot.series.iter().map(|series| json!({
            "label": series.label,
            "variant": series.variant,
            "colour": series.colour,
            "kind": series.kind.word(),
            "upper": steps_data(&series.upper),
            "lower": series.lower.as_deref().map(steps_data),
        })).collect::<Vec<_>>(),
    })
}

/// The text with a capital letter at its begin.
pub(super) fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_ascii_uppercase());
    first.into_iter().chain(letters).collect()
}

fn steps_data(steps: &[(Duration, f64)]) -> Value {
    json!({
        "at_ns": steps.iter().map(|(at, _)| at.as_nanos()).collect::<Vec<_>>(),
        "cumulative": steps.iter().map(|(_, cumulative)| cumulative).collect::<Vec<_>>(),
    })
}

fn table_data(table: &Table) -> Value {
    let rows = table.rows.iter().map(|row| {
        let cells = row.iter().map(|cell| match cell.value {
            Some(Interval { low, high }) => json!({
                "low_ns": low.as_nanos(),
                "high_ns": high.map(Duration::as_nanos),
            }),
            None => json!(cell.text),
        });
        cells.collect::<Vec<_>>()
    });
    json!({
        "id": table.id,
        "columns": table.columns.iter().map(|column| &column.name).collect::<Vec<_>>(),
        "rows": rows.collect::<Vec<_>>(),
    })
}
