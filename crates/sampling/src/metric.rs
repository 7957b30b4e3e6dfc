//! Metrics that an application reports of itself: how a report is asked for, and how a number is read from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A time stamp this far ahead of our clock is one of the future: clocks of one host differ by less.
const AHEAD_MS: i64 = 1_000;
/// The placeholder of an address or command for the beginning of the measurement.
pub const SINCE: &str = "{since_ms}";

/// A number that the application reports of itself, asked for after each measurement. `{since_ms}` in the address or the
/// command becomes the beginning of the measurement, in milliseconds since 1970 (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedMetric {
    /// The address of the report, `http://HOST:PORT/PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The command that prints the report, in place of `url`: such as a client of a database with a query of a table in
    /// which the application writes its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The place of the number in a report in JSON (a JSON Pointer, RFC 6901), such as `/requests/0/mean_ms`. Without
    /// `json` and `prometheus` the whole report is the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The series of the number in a report in the text format of Prometheus, such as `requests_total{code="200"}`: the one
    /// with this name and, among others, these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<String>,
    /// Whether the number counts up since the start of the application, so that the difference of a report after the
    /// measurement and one before is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub counter: bool,
}

/// Why a report has no value for a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricFault {
    /// The report is not of the form that it should have.
    #[error("the report is no {form}: {cause}")]
    Form {
        /// JSON, or the text format of Prometheus.
        form: &'static str,
        /// What is wrong.
        cause: String,
    },
    /// The report lacks the number.
    #[error("the report has nothing at {place}")]
    Missing {
        /// The pointer or series.
        place: String,
    },
    /// Several series are meant.
    #[error("{count} series of the report are {series}; add labels that only one has")]
    Several {
        /// How many.
        count: usize,
        /// The series.
        series: String,
    },
    /// There is something else than a number.
    #[error("\"{text}\" is no number")]
    NoNumber {
        /// What is there.
        text: String,
    },
    /// The number is NaN or infinite.
    #[error("the value is {text}")]
    NotFinite {
        /// What is there.
        text: String,
    },
    /// The number is negative.
    #[error("the value {text} is negative")]
    Negative {
        /// What is there.
        text: String,
    },
    /// The number is of a time that has not come.
    #[error("the value is of {ahead_ms} ms from now")]
    FromFuture {
        /// How far ahead.
        ahead_ms: i64,
    },
    /// A counter is lower than before.
    #[error("the counter fell from {before} to {after}: the application counted anew")]
    Fell {
        /// Before the measurement.
        before: String,
        /// After it.
        after: String,
    },
}

impl ReportedMetric {
    /// The number in a report that was read at a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// There is none, or it makes no sense: NaN, infinite, negative, or of the future.
    pub fn value_in(&self, report: &str, now_ms: i64) -> Result<f64, MetricFault> {
        let text = match (&self.json, &self.prometheus) {
            (Some(pointer), _) => in_json(report, pointer)?,
            (None, Some(series)) => in_prometheus(report, series, now_ms)?,
            (None, None) => report.trim().to_owned(),
        };
        let shown = || shortened(&text);
        let number = text.parse::<f64>();
        match number {
            Err(_) => Err(MetricFault::NoNumber { text: shown() }),
            Ok(number) if !number.is_finite() => Err(MetricFault::NotFinite { text: shown() }),
            Ok(number) if number < 0.0 => Err(MetricFault::Negative { text: shown() }),
            Ok(number) => Ok(number),
        }
    }

    /// The value of a measurement: that after it, or of a counter how much it rose meanwhile.
    ///
    /// # Errors
    /// A counter that fell.
    pub fn value_between(&self, before: f64, after: f64) -> Result<f64, MetricFault> {
        match self.counter {
            false => Ok(after),
            true if after >= before => Ok(after - before),
            true => Err(MetricFault::Fell {
                before: before.to_string(),
                after: after.to_string(),
            }),
        }
    }
}

/// `ReportAddress` is the address of a report, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportAddress {
    /// Host and port, as a socket has them.
    pub authority: String,
    /// The path with its query.
    pub path: String,
}

impl ReportAddress {
    /// The parts of `http://HOST:PORT/PATH`; port 80 and path `/` if left out. `None` for anything else.
    pub fn parse(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("http://")?;
        let is_printable = |letter: char| letter.is_ascii_graphic();
        if !rest.chars().all(is_printable) {
            return None;
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, ""),
        };
        let (host, port) = match authority.rsplit_once(':') {
            // A colon within brackets belongs to an address of version 6.
            Some((host, port)) if !port.contains(']') => (host, port.parse::<u16>().ok()?),
            _ => (authority, 80),
        };
        if host.is_empty() || host.contains('@') {
            return None;
        }
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Self {
            authority: format!("{host}:{port}"),
            path: format!("{slash}{path}"),
        })
    }
}

/// Whether a text names a series of Prometheus.
pub(crate) fn is_series(text: &str) -> bool {
    SeriesName::parse(text).is_some_and(|(_, rest)| rest.trim().is_empty())
}

/// The first letters of a text, on one line.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(60).collect()
}

fn in_json(report: &str, pointer: &str) -> Result<String, MetricFault> {
    let document: serde_json::Value =
        serde_json::from_str(report).map_err(|cause| MetricFault::Form {
            form: "JSON",
            cause: cause.to_string(),
        })?;
    match document.pointer(pointer) {
        None | Some(serde_json::Value::Null) => Err(MetricFault::Missing {
            place: pointer.to_owned(),
        }),
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
    }
}

fn in_prometheus(report: &str, series: &str, now_ms: i64) -> Result<String, MetricFault> {
    let malformed = |cause: String| MetricFault::Form {
        form: "text of Prometheus",
        cause,
    };
    let wanted = SeriesName::parse(series)
        .filter(|(_, rest)| rest.trim().is_empty())
        .ok_or_else(|| malformed(format!("\"{series}\" is no series")))?
        .0;
    let mut matching = Vec::new();
    for line in report.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (name, rest) =
            SeriesName::parse(line).ok_or_else(|| malformed(format!("\"{}\"", shortened(line))))?;
        if wanted.is_part_of(&name) {
            matching.push(rest);
        }
    }
    let &[rest] = matching.as_slice() else {
        return Err(match matching.len() {
            0 => MetricFault::Missing {
                place: series.to_owned(),
            },
            count => MetricFault::Several {
                count,
                series: series.to_owned(),
            },
        });
    };
    let mut words = rest.split_whitespace();
    let value = words.next().unwrap_or_default().to_owned();
    let stamp = words.next().and_then(|stamp| stamp.parse::<i64>().ok());
    match stamp.map(|stamp| stamp.saturating_sub(now_ms)) {
        Some(ahead_ms) if ahead_ms > AHEAD_MS => Err(MetricFault::FromFuture { ahead_ms }),
        _ => Ok(value),
    }
}

/// `SeriesName` is a series of Prometheus: a name, and labels with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeriesName {
    name: String,
    labels: Vec<(String, String)>,
}

impl SeriesName {
    /// The series at the start of a line, and the rest of the line.
    fn parse(line: &str) -> Option<(Self, &str)> {
        let is_name = |letter: char| letter.is_ascii_alphanumeric() || "_:".contains(letter);
        let end = line.find(|letter| !is_name(letter)).unwrap_or(line.len());
        let (name, mut rest) = line.split_at(end);
        if name.is_empty() {
            return None;
        }
        let mut labels = Vec::new();
        if let Some(inside) = rest.strip_prefix('{') {
            rest = inside.trim_start();
            loop {
                if let Some(after) = rest.strip_prefix('}') {
                    rest = after;
                    break;
                }
                let (label, value) = rest.split_once('=')?;
                let (value, after) = quoted(value.trim_start())?;
                labels.push((label.trim().to_owned(), value));
                let after = after.trim_start();
                rest = after.strip_prefix(',').unwrap_or(after).trim_start();
            }
        }
        let name = name.to_owned();
        Some((Self { name, labels }, rest))
    }

    /// Whether another series has this name and at least these labels.
    fn is_part_of(&self, other: &Self) -> bool {
        let has = |label: &(String, String)| other.labels.contains(label);
        self.name == other.name && self.labels.iter().all(has)
    }
}

/// The text in quotes at the start, and what follows it.
fn quoted(text: &str) -> Option<(String, &str)> {
    let inside = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, &inside[at + 1..])),
            '\\' => match letters.next()?.1 {
                'n' => value.push('\n'),
                other => value.push(other),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    fn json(pointer: &str) -> ReportedMetric {
        ReportedMetric {
            json: Some(pointer.to_owned()),
            ..ReportedMetric::default()
        }
    }

    fn prometheus(series: &str) -> ReportedMetric {
        ReportedMetric {
            prometheus: Some(series.to_owned()),
            ..ReportedMetric::default()
        }
    }

    const TEXT: &str = r#"
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",path="/a \"b\""} 12
requests_total{code="500",} 1 1700000000000
seconds_sum 1.5e-3
late 3 1700000009000
odd NaN
"#;

    #[test]
    fn numbers_are_read_from_all_forms() {
        let value = |metric: &ReportedMetric, report: &str| metric.value_in(report, NOW_MS);
        let report = r#"{"requests": [{"mean_ms": 12.5}, {"mean_ms": "7"}]}"#;
        assert_eq!(value(&json("/requests/0/mean_ms"), report), Ok(12.5));
        assert_eq!(value(&json("/requests/1/mean_ms"), report), Ok(7.0));
        let series = r#"requests_total{path="/a \"b\""}"#;
        assert_eq!(value(&prometheus(series), TEXT), Ok(12.0));
        let series = r#"requests_total{code="500"}"#;
        assert_eq!(value(&prometheus(series), TEXT), Ok(1.0));
        assert_eq!(value(&prometheus("seconds_sum"), TEXT), Ok(1.5e-3));
        assert_eq!(value(&ReportedMetric::default(), " 42\n"), Ok(42.0));
    }

    #[test]
    fn what_makes_no_sense_is_no_value() {
        let fault = |metric: &ReportedMetric, report: &str| {
            metric.value_in(report, NOW_MS).unwrap_err().to_string()
        };
        let own = ReportedMetric::default();
        for (metric, report, said) in [
            (&json("/a"), "{}", "nothing at /a"),
            (&json("/a"), r#"{"a": null}"#, "nothing at /a"),
            (&json("/a"), "<html>", "no JSON"),
            (&json("/a"), r#"{"a": -3}"#, "-3 is negative"),
            (&prometheus("none"), TEXT, "nothing at none"),
            (&prometheus("requests_total"), TEXT, "2 series"),
            (&prometheus("late"), TEXT, "9000 ms from now"),
            (&prometheus("odd"), TEXT, "the value is NaN"),
            (&prometheus("{"), TEXT, "\"{\" is no series"),
            (&own, "NULL\n", "\"NULL\" is no number"),
            (&own, "inf", "the value is inf"),
            (&own, "", "\"\" is no number"),
        ] {
            let fault = fault(metric, report);
            assert!(fault.contains(said), "{fault}");
        }
    }

    #[test]
    fn addresses_are_taken_apart() {
        let parts = |url: &str| {
            let address = ReportAddress::parse(url)?;
            Some((address.authority, address.path))
        };
        let some = |authority: &str, path: &str| Some((authority.to_owned(), path.to_owned()));
        assert_eq!(
            parts("http://127.0.0.1:80/a?b=1"),
            some("127.0.0.1:80", "/a?b=1")
        );
        assert_eq!(parts("http://[::1]:8080"), some("[::1]:8080", "/"));
        assert_eq!(parts("http://[::1]/m"), some("[::1]:80", "/m"));
        assert_eq!(parts("http://host?q"), some("host:80", "/?q"));
        for none in [
            "https://host/",
            "host:80/",
            "http://",
            "http://:80/",
            "http://host:port/",
            "http://host/a b",
            "http://host/\r\nX: y",
            "http://user@host/",
        ] {
            assert_eq!(parts(none), None, "{none}");
        }
    }

    #[test]
    fn counters_are_differences() {
        let mut metric = ReportedMetric::default();
        assert_eq!(metric.value_between(5.0, 3.0), Ok(3.0));
        metric.counter = true;
        assert_eq!(metric.value_between(3.0, 5.0), Ok(2.0));
        assert!(metric.value_between(5.0, 3.0).is_err());
    }

    proptest! {
        /// Reports come from programs that nobody trusts.
        #[test]
        fn no_report_breaks_the_reader(report in ".{0,80}", stamp: i64) {
            for metric in [json("/a/0"), prometheus("a{b=\"c\"}"), ReportedMetric::default()] {
                let _any_outcome = metric.value_in(&report, stamp);
                let _any_outcome = metric.value_in(&format!("a{{b=\"c\"{report}"), stamp);
            }
        }
    }
}
