//! What sizing answers, as rows and as JSON spells it.

use std::path::Path;

use serde::Serialize;
use tailbound_analysis::sizing::{Choice, Sizing};
use tailbound_model::{PercentagePoints, Percentile};
use tailbound_report::{SizingGrid, SizingPage, SizingPoint, render_sizing_html};
use tailbound_time::Duration;

use crate::failure::Failure;
use crate::output::write_file;

/// The headings of [`Row::cells`].
pub const HEADER: [&str; 5] = [
    "period",
    "least budget",
    "bandwidth",
    "with margin",
    "choice",
];

/// The budgets of one queue or one domain.
#[derive(Serialize)]
pub struct Answer {
    /// Whether some budget keeps every promise.
    pub feasible: bool,
    /// What the budgets with margin have on top of the least, in points of bandwidth.
    pub margin_points: f64,
    /// The choice: the least bandwidth.
    pub best: Option<Row>,
    /// Every period.
    pub rows: Vec<Row>,
    /// The proof that there is no answer.
    pub infeasible: Vec<Refusal>,
    /// What is taken for granted.
    pub assumptions: Vec<String>,
}

/// One period.
#[derive(Clone, Serialize)]
pub struct Row {
    /// The period.
    pub period_ns: u64,
    /// The least budget, if there is one.
    pub budget_ns: Option<u64>,
    /// Its bandwidth.
    pub bandwidth: Option<f64>,
    /// The least budget with the margin.
    pub budget_with_margin_ns: Option<u64>,
    /// How much less may be enough.
    pub resolution_ns: u64,
    /// Whether nothing beats it in both bandwidth and length of the period.
    pub on_front: bool,
}

/// Why a promise cannot be kept: what a CPU of its own reaches.
#[derive(Clone, Serialize)]
pub struct Refusal {
    /// The promised share of responses.
    pub p: f64,
    /// The promised latency.
    pub latency_ns: u64,
    /// At most this share is within it.
    pub dedicated_share_at_most: f64,
    /// The promised share takes at least this.
    pub dedicated_latency_at_least_ns: u64,
}

impl Answer {
    /// The answer of `found`.
    pub fn of(found: &Sizing, margin: PercentagePoints) -> Self {
        let rows: Vec<Row> = found.choices.iter().map(Row::of).collect();
        let refusals = found.infeasible.iter().map(|refused| Refusal {
            p: refused.promise.probability,
            latency_ns: refused.promise.latency.as_nanos(),
            dedicated_share_at_most: refused.share_at_most,
            dedicated_latency_at_least_ns: refused.latency.low.as_nanos(),
        });
        Self {
            feasible: found.best.is_some(),
            margin_points: margin.0,
            best: found.best.and_then(|index| rows.get(index).cloned()),
            infeasible: refusals.collect(),
            assumptions: found.assumptions.clone(),
            rows,
        }
    }

    /// The rows that a table shows: all, or those that nothing beats.
    pub fn shown(&self, all: bool) -> impl Iterator<Item = &Row> {
        let rows = self.rows.iter();
        rows.filter(move |row| all || row.on_front || self.best.is_none())
    }

    /// The cells of a row; the last says whether it is on the front, and whether it is the choice.
    pub fn cells(&self, row: &Row) -> Vec<String> {
        let text =
            |ns: Option<u64>| ns.map_or("-".into(), |ns| Duration::from_nanos(ns).to_string());
        let best = self.best.as_ref().map(|best| best.period_ns);
        let mark = match (row.on_front, best == Some(row.period_ns)) {
            (_, true) => "front, chosen",
            (true, false) => "front",
            (false, false) => "",
        };
        vec![
            text(Some(row.period_ns)),
            text(row.budget_ns),
            row.bandwidth
                .map_or("-".into(), |share| format!("{:.2} %", share * 100.0)),
            text(row.budget_with_margin_ns),
            mark.into(),
        ]
    }
}

impl Row {
    fn of(choice: &Choice) -> Self {
        Self {
            period_ns: choice.period.as_nanos(),
            budget_ns: choice.budget.map(Duration::as_nanos),
            bandwidth: choice.bandwidth(),
            budget_with_margin_ns: choice.with_margin.map(Duration::as_nanos),
            resolution_ns: choice.resolution.as_nanos(),
            on_front: choice.on_front,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Shares come from percentiles; a billionth of a point is beyond what anybody promises.
        let percentile = Percentile((self.p * 1e11).round() / 1e9);
        write!(
            out,
            "not even a CPU of its own keeps {percentile} within {}: it reaches {:.4} at most, and \
             {} for {percentile}",
            Duration::from_nanos(self.latency_ns),
            self.dedicated_share_at_most,
            Duration::from_nanos(self.dedicated_latency_at_least_ns),
        )
    }
}

impl Answer {
    /// The answer as a grid of a page.
    pub fn grid(&self, name: &str, rule: &str, stanza: Option<&str>) -> SizingGrid {
        let best = self.best.as_ref().map(|best| best.period_ns);
        let points = self.rows.iter().map(|row| SizingPoint {
            period: Duration::from_nanos(row.period_ns),
            budget: row.budget_ns.map(Duration::from_nanos),
            with_margin: row.budget_with_margin_ns.map(Duration::from_nanos),
            resolution: Duration::from_nanos(row.resolution_ns),
            on_front: row.on_front,
            chosen: best == Some(row.period_ns),
        });
        SizingGrid {
            name: name.into(),
            rule: rule.into(),
            margin_points: self.margin_points,
            points: points.collect(),
            objections: self.infeasible.iter().map(ToString::to_string).collect(),
            assumptions: self.assumptions.clone(),
            stanza: stanza.map(Into::into),
        }
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
