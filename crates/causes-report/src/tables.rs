//! Causes by band of quantiles, measured beside simulated.

use tailbound_report::{Cell, Table, columns, readable};
use tailbound_trace::explain::{DEFAULT_QUANTILES, Explanation, LatencyCause, QuantileBand};

use crate::LatencyCauses;

/// A cause, or the mean latency, of a service in some bands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CauseLine {
    /// The cause in words, or `mean latency`.
    pub name: String,
    /// By band: what was measured.
    pub measured: Vec<String>,
    /// By band: what the simulation has; empty where there is none.
    pub simulated: Vec<String>,
}

impl CauseLine {
    /// The line as cells: its name, and a cell for each band.
    pub fn row(&self, cell: impl Fn(&str, Option<&str>) -> String) -> Vec<String> {
        let cells = self.measured.iter().enumerate();
        let cells = cells
            .map(|(band, measured)| cell(measured, self.simulated.get(band).map(String::as_str)));
        std::iter::once(self.name.clone()).chain(cells).collect()
    }
}

/// The lines of an explanation, beside those of its prediction, which has the same bands.
pub fn cause_lines(measured: &Explanation, simulated: Option<&Explanation>) -> Vec<CauseLine> {
    let has = |explanation: &Explanation, cause: LatencyCause| {
        let mut bands = explanation.bands.iter();
        bands.any(|band| !band.of_cause(cause).is_zero())
    };
    let occurs = |cause: &LatencyCause| {
        has(measured, *cause) || simulated.is_some_and(|simulated| has(simulated, *cause))
    };
    let bands = |explanation: &Explanation| -> Vec<Option<QuantileBand>> {
        let at = |band: &QuantileBand| {
            explanation
                .bands
                .iter()
                .find(|one| one.to >= band.to - 1e-9)
        };
        measured
            .bands
            .iter()
            .map(|band| at(band).cloned())
            .collect()
    };
    let shares = |explanation: &Explanation, cause: LatencyCause| {
        let share = |band: Option<QuantileBand>| {
            band.map_or_else(String::new, |band| percent(band.share(cause)))
        };
        bands(explanation).into_iter().map(share).collect()
    };
    let mean = |band: QuantileBand| readable(band.total.scaled_down(1, band.requests.max(1)));
    let means = |explanation: &Explanation| {
        let bands = bands(explanation).into_iter();
        bands
            .map(|band| band.map_or_else(String::new, mean))
            .collect()
    };
    let mut lines: Vec<CauseLine> = LatencyCause::ALL
        .into_iter()
        .filter(occurs)
        .map(|cause| CauseLine {
            name: cause.words().to_string(),
            measured: shares(measured, cause),
            simulated: simulated.map(|one| shares(one, cause)).unwrap_or_default(),
        })
        .collect();
    lines.push(CauseLine {
        name: "mean latency".into(),
        measured: means(measured),
        simulated: simulated.map(means).unwrap_or_default(),
    });
    lines
}

/// A share of time as people read it.
pub fn percent(share: f64) -> String {
    match share {
        0.0 => "–".into(),
        share => format!("{:.1} %", share * 100.0),
    }
}

/// The name of a band.
pub fn band_name(band: &QuantileBand) -> String {
    let percent = |share: f64| format!("{}", (share * 1e6).round() / 1e4);
    format!("{} to {} %", percent(band.from), percent(band.to))
}

/// The causes of every recorded run.
pub(crate) fn causes(causes: &LatencyCauses) -> Table {
    let mut rows = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for measured in &causes.measured {
        let merged = measured.merged(&DEFAULT_QUANTILES);
        let simulated = causes
            .prediction_of(measured)
            .map(|one| one.merged(&DEFAULT_QUANTILES));
        if merged.bands.len() > names.len() {
            names = merged.bands.iter().map(band_name).collect();
        }
        for line in cause_lines(&merged, simulated.as_ref()) {
            let mut row = vec![
                Cell::text(&measured.subject),
                Cell::text(&measured.run),
                Cell::text(&line.name),
            ];
            row.extend(line.measured.iter().enumerate().map(|(band, share)| {
                Cell {
                    detail: line
                        .simulated
                        .get(band)
                        .map(|share| format!("simulated {share}")),
                    ..Cell::text(share)
                }
            }));
            rows.push(row);
        }
    }
    let numbers: Vec<&str> = names.iter().map(String::as_str).collect();
    let columns = columns(&["Service", "Run", "Of the latency"], &numbers);
    for row in &mut rows {
        row.resize_with(columns.len(), Cell::default);
    }
    Table {
        id: "causes",
        title: "What requests waited for",
        note: "Shares of the latency of those requests that lie between two quantiles, from a recording of the kernel's \
               events; below each, the share in the simulation of the same variant. Where the two differ, an assumption \
               of the prediction does not hold."
            .into(),
        columns,
        rows,
    }
}
