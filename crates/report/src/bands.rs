//! The section of prediction bands: what was said of a run before it, and what the run showed.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_assessment::band::{
    BandQuantile, FailedAssumption, Forecast, PastQuantile, PredictionBand, PromiseForecast,
    RunRecord, failed_assumptions,
};
use tailbound_distribution::{Distribution, Interval};
use tailbound_model::{Cpu, Percentile};
use tailbound_time::{Duration, nanoseconds};

use crate::wording::{UNKNOWN, readable, readable_difference};
use crate::{Cell, Outcome, ReportSection, RunReport, Table, columns};

/// The key of the bands in the result document.
const KEY: &str = "bands";

/// The band of a service in a variant, and the runs that it was about.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ServiceBand {
    /// The variant.
    pub variant: String,
    /// The service.
    pub service: String,
    /// The CPU whose supply counts; `None` for a domain with several.
    pub cpu: Option<Cpu>,
    /// The band, as it was before the first run.
    pub band: PredictionBand,
    /// The runs, in their order.
    pub runs: Vec<BandRun>,
    /// The host's history of bands; `None` where none is kept.
    #[serde(default)]
    pub history: Option<HistoryNote>,
}

/// Where earlier runs of the host are kept, and how many of them there were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistoryNote {
    /// The file.
    pub file: String,
    /// The earlier runs that count for the band.
    pub earlier: usize,
}

/// A measured run, held against the band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BandRun {
    /// The repetition, from 1.
    pub repetition: usize,
    /// The percentiles of the band.
    pub quantiles: Vec<RunQuantile>,
    /// The share of the run in which the CPU was taken away; `None` where its supply was not sampled.
    pub lost_share: Option<f64>,
    /// The level of execution times after the run against that of the calibration, where it was measured.
    pub level: Option<f64>,
}

/// A measured percentile, held against the band.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RunQuantile {
    /// The percentile.
    pub percentile: f64,
    /// The measured latency.
    #[serde(rename = "measured_ns", with = "nanoseconds")]
    pub measured: Duration,
    /// Whether the band holds it.
    pub held: bool,
    /// The assumptions that the run did not keep, where the band does not hold it.
    pub failed: Vec<FailedAssumption>,
}

impl ServiceBand {
    /// The percentiles of each run with what was predicted of them, for the host's history.
    pub fn past(&self) -> Vec<Vec<PastQuantile>> {
        let runs = self.runs.iter().map(|run| {
            let all = run.quantiles.iter();
            all.filter_map(|own| {
                let quantile = self.band.quantile(own.percentile)?;
                Some(quantile.past(own.measured))
            })
            .collect()
        });
        runs.collect()
    }

    /// Holds a measured run against the band. A percentile that the run does not know, since too many requests
    /// were lost, is left out.
    pub fn judge(&mut self, measured: &Distribution, record: &RunRecord<'_>) {
        let judged = self.band.quantiles.iter().filter_map(|quantile| {
            let value = measured.quantile(quantile.percentile / 100.0)?;
            let measured = value.high.filter(|high| *high == value.low)?;
            Some(RunQuantile {
                percentile: quantile.percentile,
                measured,
                held: quantile.holds(measured),
                failed: failed_assumptions(&self.band, quantile, measured, record),
            })
        });
        let run = BandRun {
            repetition: self.runs.len() + 1,
            quantiles: judged.collect(),
            lost_share: record.supply.map(|supply| supply.lost_share()),
            level: record.level,
        };
        self.runs.push(run);
    }
}

/// The section of prediction bands.
#[derive(Clone, Copy, Debug)]
pub struct BandsSection;

impl BandsSection {
    /// Puts the bands of a run into its document; without bands it stays as it is.
    ///
    /// # Errors
    /// A band cannot be written as JSON.
    pub fn put(report: &mut RunReport, bands: &[ServiceBand]) -> serde_json::Result<()> {
        if bands.is_empty() {
            return Ok(());
        }
        let data = serde_json::to_value(bands)?;
        report.sections.insert(KEY.into(), data);
        Ok(())
    }

    /// The verdicts before the run, as a table.
    pub fn forecasts(bands: &[ServiceBand]) -> Table {
        forecasts(bands)
    }

    /// The bands in a document; none in one without them.
    pub fn bands(report: &RunReport) -> Vec<ServiceBand> {
        let data = report.sections.get(KEY);
        data.and_then(|data| Vec::deserialize(data).ok())
            .unwrap_or_default()
    }
}

impl ReportSection for BandsSection {
    fn key(&self) -> &'static str {
        KEY
    }

    fn check(&self, data: &Value) -> serde_json::Result<()> {
        Vec::<ServiceBand>::deserialize(data).map(|_| ())
    }

    fn tables(&self, report: &RunReport) -> Vec<Table> {
        let bands = Self::bands(report);
        vec![forecasts(&bands), runs(&bands), failures(&bands)]
    }
}

/// The verdicts before the run.
fn forecasts(bands: &[ServiceBand]) -> Table {
    let rows = bands.iter().flat_map(|one| {
        let promises = one.band.promises.iter();
        promises.map(|promise| {
            vec![
                Cell::text(about(one, promise)),
                Cell::text(&one.variant),
                Cell::text(promised(promise)),
                Cell {
                    outcome: outcome(promise.forecast),
                    ..Cell::text(promise.forecast.words())
                },
                Cell::text(format!("{:.0}%", promise.kept * 100.0)),
            ]
        })
    });
    Table {
        id: "forecasts",
        title: "Before the run",
        note: "What was said of each promise before anything was measured: the share of simulated runs of \
               this length on this host, as it was when execution times were calibrated, that keep it. From \
               95% on it will be kept, up to 5% missed; between them the host decides."
            .into(),
        columns: columns(
            &["Service", "Variant", "Promised", "Forecast"],
            &["Kept in"],
        ),
        rows: rows.collect(),
    }
}

/// What a band says of a promise, in a line for people.
pub fn forecast_line(one: &ServiceBand, promise: &PromiseForecast) -> String {
    format!(
        "{}: {} {} {} (kept in {:.0}% of {} simulated runs of {})",
        one.variant,
        about(one, promise),
        promise.forecast.words(),
        promised(promise),
        promise.kept * 100.0,
        one.band.runs,
        one.band.duration
    )
}

fn about(one: &ServiceBand, promise: &PromiseForecast) -> String {
    match &promise.task {
        Some(task) => format!("{}.{task}", one.service),
        None => one.service.clone(),
    }
}

fn promised(promise: &PromiseForecast) -> String {
    let percentile = Percentile(promise.percentile);
    format!("{percentile} within {}", readable(promise.latency))
}

/// The outcome whose mark a forecast has.
fn outcome(forecast: Forecast) -> Option<Outcome> {
    match forecast {
        Forecast::WillKeep => Some(Outcome::Met),
        Forecast::WillMiss => Some(Outcome::Missed),
        Forecast::TooClose => Some(Outcome::Undecided),
    }
}

/// The bands, and under each the runs that it was about.
fn runs(bands: &[ServiceBand]) -> Table {
    let mut rows = Vec::new();
    for one in bands {
        let row = |source: Cell| vec![Cell::text(&one.service), Cell::text(&one.variant), source];
        let share = one.band.coverage * 100.0;
        let source = Cell::text("predicted").with_detail(Some(format!("{share:.0}% band")));
        let mut band = row(source);
        band.extend(one.band.quantiles.iter().map(band_cell));
        rows.push(band);
        for run in &one.runs {
            let source =
                Cell::text(format!("run {}", run.repetition)).with_detail(circumstances(run));
            let mut cells = row(source);
            cells.extend(one.band.quantiles.iter().map(|quantile| {
                let mut all = run.quantiles.iter();
                let own = all.find(|own| (own.percentile - quantile.percentile).abs() < 1e-9);
                own.map_or_else(|| Cell::text(UNKNOWN), run_cell)
            }));
            rows.push(cells);
        }
    }
    let names = bands.first().map_or_else(Vec::new, |one| {
        let percentiles = one.band.quantiles.iter();
        percentiles
            .map(|quantile| Percentile(quantile.percentile).to_string())
            .collect()
    });
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    Table {
        id: "bands",
        title: "Prediction bands",
        note: format!(
            "Where each percentile of a run of this length was predicted to lie, with phases of the host and \
             stalls as its calibration has seen them, and where it lay. The model's answer, under \
             \u{201c}Latencies\u{201d}, is about a run without end on a host that always works alike. {}",
            corrections(bands)
        ),
        columns: columns(&["Service", "Variant", "Source"], &names),
        rows,
    }
}

/// How bands were corrected, and where what corrects them is kept.
fn corrections(bands: &[ServiceBand]) -> String {
    let Some((note, band)) = bands
        .iter()
        .find_map(|one| Some((one.history.as_ref()?, &one.band)))
    else {
        return "No history of earlier runs corrects the bands.".into();
    };
    let corrections = band.quantiles.iter().filter_map(|one| one.correction);
    let factors: Vec<f64> = corrections.map(|correction| correction.factor).collect();
    let least = factors.iter().copied().reduce(f64::min);
    let most = factors.iter().copied().reduce(f64::max);
    let said = match least.zip(most) {
        Some((least, most)) => format!(
            "{} earlier runs of this host correct the bands (widths \u{d7} {least:.2} to {most:.2})",
            note.earlier
        ),
        None => "The bands are not corrected: no earlier run of this host knows these percentiles"
            .into(),
    };
    format!(
        "{said}; runs are kept in {}, which may be deleted at any time.",
        note.file
    )
}

fn band_cell(quantile: &BandQuantile) -> Cell {
    let ends = Interval {
        low: quantile.low,
        high: Some(quantile.high),
    };
    let sources = format!(
        "phases {}, stalls {}",
        readable_difference(quantile.phases_add_ns),
        readable_difference(quantile.stalls_add_ns)
    );
    Cell::interval(Some(ends)).with_detail(Some(sources))
}

fn run_cell(own: &RunQuantile) -> Cell {
    let inside = if own.held { "inside" } else { "outside" };
    Cell::interval(Some(Interval::exactly(own.measured))).with_detail(Some(inside.into()))
}

/// What was recorded of the host during a run.
fn circumstances(run: &BandRun) -> Option<String> {
    let lost = run.lost_share;
    let lost = lost.map(|share| format!("{:.2}% of the CPU lost to stalls", share * 100.0));
    let level = run.level;
    let level = level.map(|level| format!("requests {level:.2} \u{d7} the calibrated"));
    let all: Vec<String> = lost.into_iter().chain(level).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

/// The assumptions that runs outside their bands did not keep.
fn failures(bands: &[ServiceBand]) -> Table {
    let mut rows = Vec::new();
    for one in bands {
        for run in &one.runs {
            for quantile in &run.quantiles {
                let each = quantile.failed.iter().map(|assumption| {
                    vec![
                        Cell::text(&one.service),
                        Cell::text(&one.variant),
                        Cell::text(run.repetition.to_string()),
                        Cell::text(Percentile(quantile.percentile).to_string()),
                        Cell::text(assumption.words()),
                    ]
                });
                rows.extend(each);
            }
        }
    }
    Table {
        id: "failed-assumptions",
        title: "Why predictions missed",
        note: "For each percentile outside its band, what was recorded during the run that the band does not \
               allow for."
            .into(),
        columns: columns(
            &["Service", "Variant", "Run", "Percentile", "Assumption"],
            &[],
        ),
        rows,
    }
}
