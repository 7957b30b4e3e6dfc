//! What sizing answers, as rows and as a page.

use std::path::Path;

use tailbound_analysis::sizing::{Choice, Sizing};
use tailbound_report::{SizingGrid, SizingPage, SizingPoint, render_sizing_html};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::write_file;

/// The headings of [`cells`].
pub const HEADER: [&str; 5] = [
    "period",
    "least budget",
    "bandwidth",
    "with margin",
    "choice",
];

/// The rows that a table shows: all, or those that nothing beats.
pub fn shown(sizing: &Sizing, all: bool) -> impl Iterator<Item = &Choice> {
    let choices = sizing.choices.iter();
    choices.filter(move |choice| all || choice.on_front || sizing.best.is_none())
}

/// The cells of a row; the last says whether it is on the front, and whether it is the choice.
pub fn cells(sizing: &Sizing, choice: &Choice) -> Vec<String> {
    let text = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
    let mark = match (choice.on_front, is_chosen(sizing, choice)) {
        (_, true) => "front, chosen",
        (true, false) => "front",
        (false, false) => "",
    };
    let bandwidth = choice.bandwidth();
    vec![
        choice.period.to_string(),
        text(choice.budget),
        bandwidth.map_or("-".into(), |share| format!("{:.2} %", share * 100.0)),
        text(choice.with_margin),
        mark.into(),
    ]
}

fn is_chosen(sizing: &Sizing, choice: &Choice) -> bool {
    let chosen = sizing.choice();
    chosen.is_some_and(|chosen| chosen.period == choice.period)
}

/// The answer as a grid of a page.
pub fn grid(sizing: &Sizing, name: &str, rule: &str, stanza: Option<&str>) -> SizingGrid {
    let points = sizing.choices.iter().map(|choice| SizingPoint {
        period: choice.period,
        budget: choice.budget,
        with_margin: choice.with_margin,
        resolution: choice.resolution,
        on_front: choice.on_front,
        chosen: is_chosen(sizing, choice),
    });
    SizingGrid {
        name: name.into(),
        rule: rule.into(),
        margin_points: sizing.margin.0,
        points: points.collect(),
        objections: sizing.infeasible.iter().map(ToString::to_string).collect(),
        assumptions: sizing.assumptions.clone(),
        stanza: stanza.map(Into::into),
    }
}

/// Writes grids as a page where that is asked for.
pub fn export_html(
    file: Option<&Path>,
    title: &str,
    grids: impl FnOnce() -> Vec<SizingGrid>,
) -> Result<(), Failure> {
    let Some(file) = file else {
        return Ok(());
    };
    let page = SizingPage {
        title: title.into(),
        tailbound_version: env!("CARGO_PKG_VERSION").into(),
        grids: grids(),
    };
    write_file(file, &render_sizing_html(&page))
}
