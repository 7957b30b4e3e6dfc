//! What the report of a run says of chains: how old the data at their ends were, how late effects came, and where the time
//! went.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tailbound_distribution::{Distribution, Interval, StepCdf};
use tailbound_report::{
    Cell, Plot, ReportSection, RunReport, SeriesKind, Table, UNKNOWN, columns, readable,
};
use tailbound_time::Duration;

mod chain_plots;

/// The key of the chains in the result document.
const KEY: &str = "chains";

/// The most steps of a distribution in the document.
const STEPS: usize = 300;

/// A chain in one repetition of a variant, or as it was predicted for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainRow {
    /// The chain.
    pub chain: String,
    /// The variant.
    pub variant: String,
    /// The repetition, from 1; none where nothing was measured.
    pub repetition: Option<usize>,
    /// How the figures came about: bound, estimate or sample.
    pub evidence: String,
    /// The source of an estimate: a prediction, or a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<EstimateSource>,
    /// The ages of the data, the reaction times, and then the parts of the way in their order.
    pub times: Vec<ChainTime>,
    /// The outputs whose data were traced to the begin of the chain.
    pub traced: usize,
    /// The outputs whose data were not.
    pub untraced: usize,
}

/// The source of estimated times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EstimateSource {
    /// The laws of execution times and delays.
    Prediction,
    /// A simulation.
    Simulation,
}

impl EstimateSource {
    /// The kind of a plotted series.
    fn kind(self) -> SeriesKind {
        match self {
            Self::Prediction => SeriesKind::Predicted,
            Self::Simulation => SeriesKind::Simulated,
        }
    }
}

/// A time of a chain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChainTime {
    /// Its name: data age, reaction time, or the task or topic where it passes.
    pub name: String,
    /// The promised limit, if there is one.
    pub limit_ns: Option<u64>,
    /// The number of samples; none for a bound.
    pub count: Option<u64>,
    /// The time that half of the samples do not exceed.
    pub median_ns: Option<u64>,
    /// The time that 99% of the samples do not exceed.
    pub p99_ns: Option<u64>,
    /// The longest time.
    pub longest_ns: Option<u64>,
    /// The share of samples beyond the limit, in parts per million.
    pub beyond_limit_ppm: Option<u64>,
    /// The distribution function, for those times that are plotted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub curve: Option<StepCdf>,
}

impl ChainTime {
    /// A time that is bounded.
    pub fn bounded(name: impl Into<String>, bound: Duration, limit: Option<Duration>) -> Self {
        Self {
            name: name.into(),
            limit_ns: limit.map(Duration::as_nanos),
            count: None,
            median_ns: None,
            p99_ns: None,
            longest_ns: Some(bound.as_nanos()),
            beyond_limit_ppm: None,
            curve: None,
        }
    }

    /// The figures of a distribution that is plotted.
    pub fn plotted(name: impl Into<String>, times: &Distribution, limit: Option<Duration>) -> Self {
        Self {
            curve: times.pessimistic().map(|curve| curve.decimate(STEPS)),
            ..Self::of(name, times, limit)
        }
    }

    /// The figures of a distribution.
    pub fn of(name: impl Into<String>, times: &Distribution, limit: Option<Duration>) -> Self {
        // Of an interval its end counts: a longer time is the safe one.
        let end =
            |interval: Option<Interval>| interval.and_then(|it| it.high).map(Duration::as_nanos);
        let beyond = limit.filter(|_| times.count() != Some(0)).map(|limit| {
            let (low, _) = times.cdf(limit);
            ((1.0 - low) * 1e6).round().clamp(0.0, 1e6) as u64
        });
        Self {
            name: name.into(),
            limit_ns: limit.map(Duration::as_nanos),
            count: times.count(),
            median_ns: end(times.quantile(0.5)),
            p99_ns: end(times.quantile(0.99)),
            longest_ns: end(times.max()),
            beyond_limit_ppm: beyond,
            curve: None,
        }
    }
}

/// The section of chains.
#[derive(Clone, Copy, Debug)]
pub struct ChainsSection;

impl ChainsSection {
    /// Puts the chains of a run into its document; nothing where there is none.
    ///
    /// # Errors
    /// A row cannot be written as JSON.
    pub fn put(report: &mut RunReport, rows: &[ChainRow]) -> serde_json::Result<()> {
        if !rows.is_empty() {
            let data = serde_json::to_value(rows)?;
            report.sections.insert(KEY.into(), data);
        }
        Ok(())
    }

    /// The chains in a document; none in one without them.
    pub fn rows(report: &RunReport) -> Vec<ChainRow> {
        let data = report.sections.get(KEY);
        data.and_then(|data| Vec::deserialize(data).ok())
            .unwrap_or_default()
    }
}

impl ReportSection for ChainsSection {
    fn key(&self) -> &'static str {
        KEY
    }

    fn check(&self, data: &Value) -> serde_json::Result<()> {
        Vec::<ChainRow>::deserialize(data).map(|_| ())
    }

    fn plots(&self, report: &RunReport) -> Vec<Plot> {
        chain_plots::plots(&Self::rows(report))
    }

    fn tables(&self, report: &RunReport) -> Vec<Table> {
        let rows = Self::rows(report);
        let rows = rows
            .iter()
            .flat_map(|row| row.times.iter().map(move |time| cells(row, time)));
        vec![Table {
            id: "chains",
            title: "Chains",
            note: "How old the data at the end of each chain were: data age, when they were replaced there, and at the output, \
                   when they appeared; and how long a cause that came just too late waited for the first output with it. \
                   Below, the parts of the way of the data: the jobs of tasks from reading to the end, and topics from \
                   there to the job that read the message. Estimates are predicted from the laws of execution times and delays, or \
                   simulated for as long as the run."
                .to_owned(),
            columns: columns(
                &["Chain", "Variant", "Run", "Evidence", "Time"],
                &["Number", "Median", "99%", "Longest", "Limit", "Beyond"],
            ),
            rows: rows.collect(),
        }]
    }
}

/// The evidence of a row in words.
fn evidence(row: &ChainRow) -> String {
    match row.source {
        Some(source) => format!("{}, {}", row.evidence, source.kind().word()),
        None => row.evidence.clone(),
    }
}

fn cells(row: &ChainRow, time: &ChainTime) -> Vec<Cell> {
    let length = |ns: Option<u64>| {
        let length = ns.map(Duration::from_nanos);
        Cell::text(length.map_or_else(|| UNKNOWN.to_owned(), readable))
    };
    let number = |number: Option<String>| Cell::text(number.unwrap_or_else(|| UNKNOWN.to_owned()));
    let beyond = time
        .beyond_limit_ppm
        .map(|ppm| format!("{:.2}%", ppm as f64 / 1e4));
    vec![
        Cell::text(&row.chain),
        Cell::text(&row.variant),
        number(row.repetition.map(|number| number.to_string())),
        Cell::text(evidence(row)),
        Cell::text(&time.name),
        number(time.count.map(|count| count.to_string())),
        length(time.median_ns),
        length(time.p99_ns),
        length(time.longest_ns),
        length(time.limit_ns),
        number(beyond),
    ]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use tailbound_distribution::{Evidence, Provenance};
    use tailbound_report::VerticalAxis;

    use super::*;

    #[test]
    fn the_table_has_a_row_for_every_time_and_the_share_beyond_the_limit() {
        let provenance = Provenance::new(Evidence::Sample, "data age of braking", "logs");
        let samples = (1..=100).map(Duration::from_millis).collect();
        let ages = Distribution::from_samples(provenance, samples);
        let limit = Some(Duration::from_millis(98));
        let row = ChainRow {
            chain: "braking".to_owned(),
            variant: "reserved".to_owned(),
            repetition: Some(1),
            evidence: Evidence::Sample.to_string(),
            source: None,
            times: vec![
                ChainTime::plotted("data age", &ages, limit),
                ChainTime::of("speed", &ages, None),
            ],
            traced: 100,
            untraced: 0,
        };
        assert_eq!(row.times[0].beyond_limit_ppm, Some(20_000));
        let mut report = RunReport::default();
        ChainsSection::put(&mut report, &[]).unwrap();
        assert!(report.sections.is_empty());
        ChainsSection::put(&mut report, std::slice::from_ref(&row)).unwrap();
        assert_eq!(ChainsSection::rows(&report), [row]);
        let plots = ChainsSection.plots(&report);
        assert_eq!(
            plots[0].quantity.title(VerticalAxis::Share),
            "share of outputs within a data age"
        );
        let tables = ChainsSection.tables(&report);
        let texts: Vec<Vec<&str>> = tables[0]
            .rows
            .iter()
            .map(|row| row.iter().map(|cell| cell.text.as_str()).collect())
            .collect();
        assert_eq!(
            texts[0][4..],
            [
                "data age", "100", "50.0 ms", "99.0 ms", "100 ms", "98.0 ms", "2.00%"
            ]
        );
        assert_eq!(texts[1][9..], [UNKNOWN, UNKNOWN]);
    }

    #[test]
    fn a_plot_has_each_source_of_a_time_with_its_limit_and_its_bound() {
        let times = |evidence, source: Option<EstimateSource>, repetition| {
            let provenance = Provenance::new(evidence, "data age of braking", "by hand");
            let samples = (1..=10).map(Duration::from_millis).collect();
            let ages = Distribution::from_samples(provenance, samples);
            ChainRow {
                chain: "braking".to_owned(),
                variant: "reserved".to_owned(),
                repetition,
                evidence: evidence.to_string(),
                source,
                times: vec![ChainTime::plotted(
                    "data age",
                    &ages,
                    Some(Duration::from_millis(20)),
                )],
                traced: 10,
                untraced: 0,
            }
        };
        let bound = ChainRow {
            times: vec![ChainTime::bounded(
                "data age",
                Duration::from_millis(12),
                None,
            )],
            ..times(Evidence::Bound, None, None)
        };
        let rows = [
            bound,
            times(Evidence::Estimate, Some(EstimateSource::Prediction), None),
            times(Evidence::Estimate, Some(EstimateSource::Simulation), None),
            times(Evidence::Sample, None, Some(1)),
            times(Evidence::Sample, None, Some(2)),
        ];
        let mut report = RunReport::default();
        ChainsSection::put(&mut report, &rows).unwrap();
        assert_eq!(ChainsSection::rows(&report), rows);
        let plots = ChainsSection.plots(&report);
        assert_eq!(plots.len(), 1);
        assert_eq!(plots[0].service, "braking: data age");
        let series = plots[0].series.iter();
        let labels: Vec<&str> = series.map(|series| series.label.as_str()).collect();
        let expected = [
            "reserved, predicted",
            "reserved, simulated",
            "reserved, measured (run 1)",
            "reserved, measured (run 2)",
        ];
        assert_eq!(labels, expected);
        let marks = plots[0].promises.iter();
        let marks: Vec<(&str, u64)> = marks
            .map(|mark| (mark.label.as_str(), mark.latency.as_nanos() / 1_000_000))
            .collect();
        assert_eq!(marks, [("bound 12.0 ms", 12), ("allowed 20.0 ms", 20)]);
        let cells = ChainsSection.tables(&report).remove(0).rows;
        assert_eq!(cells[1][3].text, "estimate, predicted");
    }
}
