//! The sections on how the results came about.

use std::collections::BTreeMap;

use super::escape::{escaped, relative_reference};
use super::table_markup;
use crate::wording::{UNKNOWN, exactly};
use crate::{Cell, RunReport, Table, VariantResult, columns};

pub(super) fn variants(report: &RunReport) -> String {
    let rows: Vec<Vec<Cell>> = report.variants.iter().map(variant_row).collect();
    if rows.is_empty() {
        return String::new();
    }
    let table = Table {
        id: "variants",
        title: "Variants",
        note: String::new(),
        columns: columns(
            &[
                "Variant",
                "Service",
                "Enforced by",
                "Budget and period",
                "CPUs",
                "Neighbours",
            ],
            &[],
        ),
        rows,
    };
    format!(
        "<section id=\"variants\"><h2>Variants</h2>{}</section>\n",
        table_markup(&table)
    )
}

fn variant_row(result: &VariantResult) -> Vec<Cell> {
    let (mut budget, mut cpus) = (UNKNOWN.to_owned(), UNKNOWN.to_owned());
    if let Some(interface) = &result.interface {
        let (length, period) = (exactly(interface.budget), exactly(interface.period));
        budget = match interface.period.is_zero() {
            // A report may come from a file, so its period may be anything, even zero.
            true => format!("{length} every {period}"),
            false if interface.shares_budget() => {
                let count = interface.cpus.len();
                format!("{length} every {period} on {count} CPUs together")
            }
            false => format!("{length} every {period} ({})", interface.bandwidth()),
        };
        let list: Vec<String> = interface.cpus.iter().map(ToString::to_string).collect();
        cpus = list.join(", ");
    }
    let neighbours = match result.neighbours {
        true => "running",
        false => "stopped",
    };
    let backend = result.backend.traits().title;
    [
        &result.variant,
        &result.service,
        backend,
        &budget,
        &cpus,
        neighbours,
    ]
    .map(Cell::text)
    .into()
}

/// The methods by which the distributions were found, each with what it takes for granted.
pub(super) fn methods(report: &RunReport) -> String {
    let mut methods: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for result in &report.variants {
        let predicted = result
            .predicted
            .iter()
            .map(|labelled| &labelled.distribution);
        let measured = result.measured.iter().map(|run| &run.overall);
        for distribution in predicted.chain(&result.simulated).chain(measured) {
            let provenance = &distribution.provenance;
            let assumptions = methods
                .entry(format!("{} ({})", provenance.method, provenance.evidence))
                .or_default();
            for assumption in &provenance.assumptions {
                if !assumptions.contains(assumption) {
                    assumptions.push(assumption.clone());
                }
            }
        }
    }
    let items: String = methods
        .iter()
        .map(|(method, assumptions)| {
            let assumptions: String = assumptions
                .iter()
                .map(|assumption| format!("<li>{}</li>", escaped(assumption)))
                .collect();
            format!(
                "<dt>{}</dt><dd><ul>{assumptions}</ul></dd>",
                escaped(method)
            )
        })
        .collect();
    match items.as_str() {
        "" => String::new(),
        items => format!(
            "<section id=\"methods\"><h2>Methods and assumptions</h2><dl class=\"methods\">{items}\
             </dl></section>\n"
        ),
    }
}

pub(super) fn host(report: &RunReport) -> String {
    let rows: String = report
        .host
        .iter()
        .map(|(name, value)| {
            format!(
                "<tr class=\"group\"><th scope=\"row\">{}</th><td>{}</td></tr>",
                escaped(name),
                escaped(value)
            )
        })
        .collect();
    match rows.as_str() {
        "" => String::new(),
        rows => format!(
            "<section id=\"host\"><h2>Host</h2><div class=\"scroll\" tabindex=\"0\" \
             role=\"region\" aria-label=\"Host\"><table class=\"facts\"><tbody>{rows}</tbody>\
             </table></div></section>\n"
        ),
    }
}

pub(super) fn repeat(report: &RunReport) -> String {
    let mut out = String::from("<section id=\"repeat\"><h2>Repeat it</h2>");
    if !report.commands.is_empty() {
        out.push_str(&format!(
            "<pre class=\"commands\" tabindex=\"0\">{}</pre>",
            escaped(&report.commands.join("\n"))
        ));
    }
    if !report.description_toml.is_empty() {
        out.push_str(&format!(
            "<details><summary>The description, as run</summary><pre tabindex=\"0\">{}</pre>\
             </details>",
            escaped(&report.description_toml)
        ));
    }
    let links: String = report
        .raw_data
        .iter()
        .map(|raw| {
            format!(
                "<li><a href=\"{}\">{}</a></li>",
                relative_reference(&raw.path),
                escaped(&raw.label)
            )
        })
        .collect();
    if !links.is_empty() {
        out.push_str(&format!(
            "<h3>Raw data</h3><ul class=\"links\">{links}</ul>"
        ));
    }
    out + "</section>\n"
}
