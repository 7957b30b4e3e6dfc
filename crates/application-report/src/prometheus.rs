//! The text format of Prometheus.

use crate::{ReportFault, shortened};

/// `SeriesName` is a series of Prometheus: a name, and labels with their values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SeriesName {
    name: String,
    labels: Vec<(String, String)>,
}

/// A sample of a series.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricSample<'a> {
    /// The value, as written.
    pub value: &'a str,
    /// The time of the sample, in milliseconds since 1970, where the report says one.
    pub stamp_ms: Option<i64>,
}

impl SeriesName {
    /// The series that a text is, such as `requests_total{code="200"}`; `None` for any other text.
    pub fn parse(text: &str) -> Option<Self> {
        let (series, rest) = Self::begin_of(text)?;
        rest.trim().is_empty().then_some(series)
    }

    /// The series at the start of a line, and the rest of the line.
    fn begin_of(line: &str) -> Option<(Self, &str)> {
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

/// The samples of a report whose series have the name and, among others, the labels of a series.
///
/// # Errors
/// The report is not in the text format of Prometheus.
pub fn metric_samples<'a>(
    report: &'a str,
    series: &SeriesName,
) -> Result<Vec<MetricSample<'a>>, ReportFault> {
    let mut samples = Vec::new();
    for line in report.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let malformed = || ReportFault::Form {
            form: "text of Prometheus",
            cause: format!("\"{}\"", shortened(line)),
        };
        let (name, rest) = SeriesName::begin_of(line).ok_or_else(malformed)?;
        let mut words = rest.split_whitespace();
        let value = words.next().ok_or_else(malformed)?;
        let stamp_ms = match words.next() {
            None => None,
            Some(stamp) => Some(stamp.parse().map_err(|_| malformed())?),
        };
        if series.is_part_of(&name) {
            samples.push(MetricSample { value, stamp_ms });
        }
    }
    Ok(samples)
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
