//! The tables of a report as plain rows; the terminal and the page lay them out.

use std::collections::BTreeMap;

use tailbound_assessment::band::MeasuredInterval;
use tailbound_distribution::{
    Distribution, Interval, IntervalMethod, QuantileInterval, WANTED_WIDTH, merge,
};

use crate::comparison::PERCENTILES;
use crate::wording::{
    UNKNOWN, readable, readable_difference, readable_interval, readable_option, readable_ratio,
    readable_share,
};
use crate::{
    CONFIDENCE, MeasuredRun, Outcome, ReportSection, RunReport, VariantResult, WindowLedger,
};

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// A short name that stays the same: `verdicts`, `latencies`, `tasks`, `run-lengths`, `distances`, `load`, `ledger`,
    /// and those of the sections of subsystems.
    pub id: &'static str,
    /// The heading.
    pub title: &'static str,
    /// One sentence on how to read it.
    pub note: String,
    /// The columns.
    pub columns: Vec<Column>,
    /// The rows, with a cell for every column.
    pub rows: Vec<Vec<Cell>>,
}

/// A column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its heading.
    pub name: String,
    /// Whether its cells are numbers, set to the right.
    pub numeric: bool,
}

/// A cell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// What a person reads.
    pub text: String,
    /// A second, smaller text, such as a confidence interval.
    pub detail: Option<String>,
    /// The value that the text rounds.
    pub value: Option<Interval>,
    /// The outcome that it states.
    pub outcome: Option<Outcome>,
}

impl Cell {
    /// A cell with a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            ..Self::default()
        }
    }

    /// A cell with a value, and its text.
    pub fn interval(value: Option<Interval>) -> Self {
        Self {
            text: readable_option(value),
            value,
            ..Self::default()
        }
    }

    /// The same with a second text.
    #[must_use]
    pub fn with_detail(mut self, detail: Option<String>) -> Self {
        self.detail = detail;
        self
    }
}

impl Outcome {
    /// The outcome in a word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::Undecided => "undecided",
            Self::NotMeasured => "not measured",
        }
    }
}

/// Columns of texts, and behind them columns of numbers.
pub fn columns(texts: &[&str], numbers: &[&str]) -> Vec<Column> {
    let column = |numeric| {
        move |name: &&str| Column {
            name: (*name).to_owned(),
            numeric,
        }
    };
    let mut columns: Vec<Column> = texts.iter().map(column(false)).collect();
    columns.extend(numbers.iter().map(column(true)));
    columns
}

/// All tables of a report that have any row: those of the measurements, and those of subsystems.
pub fn tables(report: &RunReport, sections: &[&dyn ReportSection]) -> Vec<Table> {
    let mut all = vec![
        verdicts(report),
        latencies(report),
        tasks(report),
        run_lengths(report),
    ];
    all.extend(sections.iter().flat_map(|section| section.tables(report)));
    all.extend([distances(report), load(report), ledger(report)]);
    all.retain(|table| !table.rows.is_empty());
    all
}

/// The percent of the confidence that intervals are given with.
fn confidence_percent() -> f64 {
    CONFIDENCE * 100.0
}

fn verdicts(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    for result in &report.variants {
        for verdict in &result.verdicts {
            let about = match &verdict.slo.task {
                Some(task) => format!("{}.{task}", result.service),
                None => result.service.clone(),
            };
            let promise = format!(
                "{} within {}",
                verdict.slo.percentile,
                readable(verdict.slo.latency)
            );
            let interval = verdict.measured.map(readable_interval);
            rows.push(vec![
                Cell::text(about),
                Cell::text(&result.variant),
                Cell::text(promise),
                Cell {
                    outcome: Some(verdict.outcome),
                    ..Cell::text(verdict.outcome.word())
                },
                Cell::interval(verdict.predicted)
                    .with_detail(verdict.outlook.map(|outlook| outlook.to_string())),
                Cell::interval(verdict.quantile).with_detail(interval),
            ]);
        }
    }
    Table {
        id: "verdicts",
        title: "Promises",
        note: format!(
            "A promise is met if the whole {}% confidence interval of the measured percentile lies \
             within it, and missed if the whole interval lies beyond.",
            confidence_percent()
        ),
        columns: columns(
            &["Service", "Variant", "Promised", "Outcome"],
            &["Predicted", "Measured"],
        ),
        rows,
    }
}

/// The parts of each name as one sample, with the name, and a cell of it and the number of requests.
pub fn merge_by_name<'a>(
    parts: impl Iterator<Item = (&'a String, &'a Distribution)>,
) -> Vec<(&'a str, Cell, Distribution)> {
    let mut by_name: BTreeMap<&str, Vec<&Distribution>> = BTreeMap::new();
    for (name, part) in parts {
        by_name.entry(name).or_default().push(part);
    }
    let merged = by_name.into_iter().filter_map(|(name, parts)| {
        let together = merge(&parts).ok()?;
        let count = together.count().map(|count| format!("{count} requests"));
        Some((name, Cell::text(name).with_detail(count), together))
    });
    merged.collect()
}

fn latencies(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    for result in &report.variants {
        for predicted in &result.predicted {
            let source = Cell::text("predicted").with_detail(Some(predicted.label.clone()));
            rows.push(quantile_row(
                result,
                source,
                &predicted.distribution,
                RowIntervals::Absent,
            ));
        }
        if let Some(simulated) = &result.simulated {
            // A simulation is a sample too, but the user asks what the host did.
            let source = Cell::text("simulated");
            rows.push(quantile_row(
                result,
                source,
                simulated,
                RowIntervals::Absent,
            ));
        }
        if let Some(measured) = result.measured_together() {
            let repetitions = result.measured.len();
            let detail = (repetitions > 1).then(|| format!("{repetitions} repetitions"));
            let source = Cell::text("measured").with_detail(detail);
            rows.push(quantile_row(
                result,
                source,
                &measured,
                RowIntervals::Of(None),
            ));
        }
    }
    Table {
        id: "latencies",
        title: "Latencies",
        note: format!(
            "Predictions are bounds from low to high. Under a measured percentile stands its {}% \
             confidence interval; \u{2265} means that the run was too short, or too many requests \
             were lost, to bound it from above. {}",
            confidence_percent(),
            interval_methods(report)
        )
        .trim_end()
        .to_owned(),
        columns: columns(&["Service", "Variant", "Source"], &quantile_names()),
        rows,
    }
}

/// The names of the columns of [`quantile_row`] behind the third.
pub fn quantile_names() -> Vec<&'static str> {
    let names = PERCENTILES.iter().map(|(name, _)| *name);
    names.chain(["max"]).collect()
}

/// The measured latencies of each task, where a service has several.
fn tasks(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    for result in &report.variants {
        let parts = result.measured.iter().flat_map(|run| &run.per_task);
        for (task, cell, measured) in merge_by_name(parts) {
            let intervals = RowIntervals::Of(Some(task));
            rows.push(quantile_row(result, cell, &measured, intervals));
        }
    }
    Table {
        id: "tasks",
        title: "Latencies by task",
        note: format!(
            "What was measured of each task, all repetitions together; under a percentile stands \
             its {}% confidence interval.",
            confidence_percent()
        ),
        columns: columns(&["Service", "Variant", "Task"], &quantile_names()),
        rows,
    }
}

/// How the confidence intervals of a report came about.
fn interval_methods(report: &RunReport) -> String {
    let measured = |result: &&VariantResult| !result.measured.is_empty();
    let of_result = |result: &VariantResult| {
        let mut methods = result.intervals.iter().map(|one| one.method);
        methods.next().unwrap_or_default()
    };
    let measured = report.variants.iter().filter(measured);
    let methods: Vec<(IntervalMethod, &str)> = measured
        .map(|result| (of_result(result), result.variant.as_str()))
        .collect();
    let Some((first, _)) = methods.first() else {
        return String::new();
    };
    if methods.iter().all(|(method, _)| method == first) {
        return format!("They come from {}.", method_words(*first));
    }
    let kinds = [
        IntervalMethod::FittedQueue,
        IntervalMethod::BatchMeans,
        IntervalMethod::OrderStatistics,
    ];
    let sentences = kinds.into_iter().filter_map(|kind| {
        let own = methods.iter().filter(|(method, _)| *method == kind);
        let mut variants: Vec<&str> = own.map(|(_, variant)| *variant).collect();
        variants.dedup();
        let words = method_words(kind);
        (!variants.is_empty())
            .then(|| format!("In {} they come from {words}.", variants.join(", ")))
    });
    sentences.collect::<Vec<_>>().join(" ")
}

/// The source of an interval.
fn method_words(method: IntervalMethod) -> &'static str {
    match method {
        IntervalMethod::FittedQueue => {
            "the scatter from run to run of the queue that was fitted to the measurement"
        }
        IntervalMethod::BatchMeans => {
            "batches of consecutive requests, which show how much latencies depend on each other"
        }
        IntervalMethod::OrderStatistics => {
            "order statistics, which take requests for independent and are too narrow where requests queue"
        }
    }
}

/// How long runs must be for narrow intervals.
fn run_lengths(report: &RunReport) -> Table {
    let with_intervals = |result: &&VariantResult| !result.intervals.is_empty();
    let rows = report.variants.iter().filter(with_intervals).map(|result| {
        let mut row = vec![Cell::text(&result.service), Cell::text(&result.variant)];
        row.extend(PERCENTILES.iter().map(|(_, probability)| {
            let interval = result.interval(None, probability * 100.0);
            interval.map_or_else(
                || Cell::text(UNKNOWN),
                |interval| {
                    let short = interval
                        .too_short
                        .then(|| "this one was too short".to_owned());
                    Cell::text(readable(interval.needed)).with_detail(short)
                },
            )
        }));
        row
    });
    let names: Vec<&str> = PERCENTILES.iter().map(|(name, _)| *name).collect();
    Table {
        id: "run-lengths",
        title: "How long a run must be",
        note: format!(
            "The length of a run whose {}% confidence interval reaches {}% to either side of the measured \
             percentile, as far as this run can tell. One of the length that was measured is too short for a \
             percentile without an upper end, or beyond which fewer than ten of its requests lie, or where a \
             queue was fitted, whose ends are more than a factor of four apart. Further \
             repetitions have the same arrivals, and hardly make an interval narrower.",
            confidence_percent(),
            WANTED_WIDTH * 100.0
        ),
        columns: columns(&["Service", "Variant"], &names),
        rows: rows.collect(),
    }
}

/// The confidence intervals under the percentiles of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowIntervals<'a> {
    /// None: the row is no sample of the host.
    Absent,
    /// Those that the sample itself says.
    OfSample,
    /// Those that were found of the measurement, of a task or of all; where there are none, those that the sample
    /// itself says.
    Of(Option<&'a str>),
}

/// A row with the percentiles of a distribution, and their confidence intervals.
pub fn quantile_row(
    result: &VariantResult,
    about: Cell,
    distribution: &Distribution,
    intervals: RowIntervals<'_>,
) -> Vec<Cell> {
    let mut row = vec![
        Cell::text(&result.service),
        Cell::text(&result.variant),
        about,
    ];
    for (_, probability) in PERCENTILES {
        let plain = || {
            let interval = distribution.quantile_interval(probability, CONFIDENCE);
            interval.as_ref().map(QuantileInterval::ends)
        };
        let interval = match intervals {
            RowIntervals::Absent => None,
            RowIntervals::OfSample => plain(),
            RowIntervals::Of(task) => {
                let fitted = result.interval(task, probability * 100.0);
                fitted.map(MeasuredInterval::ends).or_else(plain)
            }
        };
        let detail = interval.map(readable_interval);
        row.push(Cell::interval(distribution.quantile(probability)).with_detail(detail));
    }
    row.push(Cell::interval(distribution.max()));
    row
}

fn distances(report: &RunReport) -> Table {
    let rows = report.comparisons.iter().map(|comparison| {
        let covered =
            (comparison.covered < 1.0).then(|| format!("up to p{}", comparison.covered * 100.0));
        let bounds = comparison
            .wasserstein1_bounds
            .filter(|bounds| bounds.exact().is_none())
            .map(readable_interval);
        let mut row = vec![
            Cell::text(&comparison.service),
            Cell::text(&comparison.left),
            Cell::text(&comparison.right),
            Cell::interval(Some(Interval::exactly(comparison.wasserstein1)))
                .with_detail(covered.or(bounds)),
            Cell::interval(comparison.noise_floor.map(Interval::exactly)),
            Cell::text(
                comparison
                    .ratio_to_noise()
                    .map_or_else(|| UNKNOWN.into(), readable_ratio),
            ),
        ];
        row.extend(PERCENTILES.iter().map(|(name, _)| {
            let difference = comparison.quantile_differences_ns.get(*name);
            Cell::text(difference.map_or_else(|| UNKNOWN.into(), |ns| readable_difference(*ns)))
        }));
        row
    });
    let names: Vec<String> = PERCENTILES
        .iter()
        .map(|(name, _)| format!("\u{394} {name}"))
        .collect();
    let mut numbers = vec!["Distance", "Noise floor", "Ratio"];
    numbers.extend(names.iter().map(String::as_str));
    Table {
        id: "distances",
        title: "How far apart",
        note: "The Wasserstein-1 distance is the area between two distribution functions. The \
               noise floor is the distance between two measurements of the same dedicated CPU: \
               below a ratio of about 1, two distributions cannot be told apart on this host. \
               \u{394} is right minus left."
            .into(),
        columns: columns(&["Service", "Left", "Right"], &numbers),
        rows: rows.collect(),
    }
}

/// The connections of a repetition, and (+) those that were opened later.
fn connections(run: &MeasuredRun) -> String {
    match &run.connections {
        None => UNKNOWN.into(),
        Some(totals) if totals.replacements == 0 => totals.at_start.to_string(),
        Some(totals) => format!("{} + {}", totals.at_start, totals.replacements),
    }
}

/// The most streams at once on a connection of a repetition.
fn streams(run: &MeasuredRun) -> String {
    let most = run.connections.and_then(|totals| totals.streams_at_once);
    most.map_or_else(|| UNKNOWN.into(), |most| most.to_string())
}

fn load(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    for result in &report.variants {
        for (index, run) in result.measured.iter().enumerate() {
            let lateness = |probability| Cell::interval(run.lateness.quantile(probability));
            rows.push(vec![
                Cell::text(&result.service),
                Cell::text(&result.variant),
                Cell::text((index + 1).to_string()),
                Cell::text(run.sent.to_string()),
                Cell::text(run.answered.to_string()),
                Cell::text(run.failed.to_string()),
                Cell::text(connections(run)),
                Cell::text(streams(run)),
                lateness(0.5),
                lateness(0.99),
                Cell::interval(run.lateness.max()),
            ]);
        }
    }
    Table {
        id: "load",
        title: "Load generator",
        note: "How late the load generator itself sent. Latencies count from the intended send \
               time, so its lateness is part of them; it should stay far below the promises. \
               Connections are those at the start, and (+) those opened later in place of others, \
               which the service had closed; streams are the most of HTTP/2 at once on one of them."
            .into(),
        columns: columns(
            &["Service", "Variant"],
            &[
                "Run",
                "Sent",
                "Answered",
                "Failed",
                "Connections",
                "Streams",
                "Late p50",
                "Late p99",
                "Late max",
            ],
        ),
        rows,
    }
}

const LEDGER_NOTE: &str = "What each reservation gave out, period by period. The overrun is CPU time used \
    beyond the budget in periods that used it up; a domain that is busy for long is \
    held now and then although it has budget, to stay clear of the kernel's real-time \
    throttling.";

const LEDGER_COLUMNS: [&str; 9] = [
    "Run",
    "Periods",
    "Depleted",
    "Used",
    "Overrun p50",
    "Overrun p99",
    "Overrun max",
    "Held",
    "Manager",
];

const WINDOW_NOTE: &str = " A begin or an end of a window is late from a millisecond on, by the host where the \
    manager's sleep ended late, by a partition where stopping others took long, and by the manager where \
    it was at work otherwise. The worst start is the longest delay of the begin of a window.";

const WINDOW_COLUMNS: [&str; 6] = [
    "Late by host",
    "By partition",
    "By manager",
    "Missed",
    "Overruns",
    "Worst start",
];

fn window_cells(windows: Option<&WindowLedger>) -> [Cell; 6] {
    let count = |of: fn(&WindowLedger) -> u64| {
        Cell::text(windows.map_or_else(|| "-".into(), |it| of(it).to_string()))
    };
    let worst = windows.map(|it| tailbound_time::Duration::from_nanos(it.worst_start_ns));
    [
        count(|it| it.late_by_host),
        count(|it| it.late_by_partition),
        count(|it| it.late_by_manager),
        count(|it| it.missed),
        count(|it| it.overruns),
        Cell::interval(worst.map(Interval::exactly)),
    ]
}

fn ledger(report: &RunReport) -> Table {
    let mut rows = Vec::new();
    let mut runs = report.variants.iter().flat_map(|one| &one.measured);
    let has_windows = runs.any(|run| run.ledger.as_ref().is_some_and(|it| it.windows.is_some()));
    for result in &report.variants {
        for (index, run) in result.measured.iter().enumerate() {
            let Some(ledger) = &run.ledger else { continue };
            let time = |ns| {
                let value = tailbound_time::Duration::from_nanos(ns);
                Cell::interval(Some(Interval::exactly(value)))
            };
            rows.push(vec![
                Cell::text(&result.service),
                Cell::text(&result.variant),
                Cell::text((index + 1).to_string()),
                Cell::text(ledger.periods.to_string()),
                Cell::text(ledger.depletions.to_string()),
                Cell::text(readable_share(ledger.used_ns, ledger.reserved_ns)),
                time(ledger.overrun_p50_ns),
                time(ledger.overrun_p99_ns),
                time(ledger.overrun_max_ns),
                time(ledger.held_ns),
                time(ledger.manager_ns),
            ]);
            if let (true, Some(row)) = (has_windows, rows.last_mut()) {
                row.extend(window_cells(ledger.windows.as_ref()));
            }
        }
    }
    let mut names = LEDGER_COLUMNS.to_vec();
    let mut note = LEDGER_NOTE.to_owned();
    if has_windows {
        names.extend(WINDOW_COLUMNS);
        note.push_str(WINDOW_NOTE);
    }
    Table {
        id: "ledger",
        title: "Reservations",
        note,
        columns: columns(&["Service", "Variant"], &names),
        rows,
    }
}
