//! What sizing answers, as rows and as a page.

use std::path::Path;

use tailbound_analysis::CpuLimit;
use tailbound_analysis::sizing::{Choice, Sizing};
use tailbound_report::{SizingGrid, SizingPage, render_sizing_html};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::write_file;

/// `SizingColumns` says which columns an answer has: the share of runs only where budgets were found by runs, and limits in place
/// of bandwidths where budgets are quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizingColumns {
    /// Budgets of a reservation.
    Budgets,
    /// Budgets that were found by runs.
    BudgetsByRuns,
    /// Quotas of a cap.
    Limits,
}

impl SizingColumns {
    /// The columns of an answer.
    pub fn of(sizing: &Sizing) -> Self {
        match sizing.cap_assumptions.is_empty() {
            true => Self::Budgets,
            false => Self::Limits,
        }
    }
}

/// The mark of a budget whose search was stopped.
const OPEN: &str = "less may do";

/// Why the budgets are not the least, where the searches of `sizings` were stopped.
pub fn stopped<'a>(sizings: impl Iterator<Item = &'a Sizing>) -> Option<Failure> {
    let open: usize = sizings.map(|sizing| sizing.open.len()).sum();
    let what = format!(
        "stopped: {open} periods are open; each budget that is told is enough, and a lesser one may be"
    );
    (open > 0).then_some(Failure::Stopped(what))
}

/// The headings of [`cells`].
pub fn header(columns: SizingColumns) -> Vec<&'static str> {
    let kept = (columns == SizingColumns::BudgetsByRuns).then_some("kept in");
    let first = match columns {
        SizingColumns::Limits => ["period", "least quota", "limit", "with margin"],
        _ => ["period", "least budget", "bandwidth", "with margin"],
    };
    let rest = ["evidence", "choice"];
    first.into_iter().chain(kept).chain(rest).collect()
}

/// The rows that a table shows: all, or those that nothing beats.
pub fn shown(sizing: &Sizing, all: bool) -> impl Iterator<Item = &Choice> {
    let choices = sizing.choices.iter();
    choices.filter(move |choice| all || choice.on_front || sizing.best.is_none())
}

/// The cells of a row; the last says whether it is on the front, and whether it is the choice.
pub fn cells(sizing: &Sizing, choice: &Choice, columns: SizingColumns) -> Vec<String> {
    let text = |time: Option<Duration>| time.map_or("-".into(), |time| time.to_string());
    let limit = |limit: Option<CpuLimit>| limit.map_or("-".into(), |limit| limit.to_string());
    let mark = match (choice.on_front, sizing.is_chosen(choice)) {
        (_, true) => "front, chosen",
        (true, false) => "front",
        (false, false) => "",
    };
    let mark = match (sizing.is_open(choice), mark) {
        (false, mark) => mark.to_owned(),
        (true, "") => OPEN.to_owned(),
        (true, mark) => format!("{mark}, {OPEN}"),
    };
    let bandwidth = choice.bandwidth();
    let limits = sizing.limits(choice);
    let (share, with_margin) = match columns {
        SizingColumns::Limits => (
            limit(limits.map(|(least, _)| least)),
            limit(limits.map(|(_, with_margin)| with_margin)),
        ),
        _ => (
            bandwidth.map_or("-".into(), |share| format!("{:.2} %", share * 100.0)),
            text(choice.with_margin),
        ),
    };
    let mut cells = vec![
        choice.period.to_string(),
        text(choice.budget),
        share,
        with_margin,
    ];
    if columns == SizingColumns::BudgetsByRuns {
        let kept = choice.kept.map(|kept| format!("{:.1} %", kept * 100.0));
        cells.push(kept.unwrap_or_else(|| "-".into()));
    }
    cells.extend([sizing.evidence.to_string(), mark]);
    cells
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
