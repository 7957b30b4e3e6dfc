//! Distributions as CSV files, with their provenance in comment lines.
//!
//! ```text
//! # tailbound distribution 1
//! # evidence: sample
//! # subject: latency of redis.sort
//! # method: measured from the intended send time
//! latency_ns
//! 1203400
//! ```
//!
//! The header line says what the rows are: `latency_ns` samples; `latency_ns,censored` samples, of
//! which those marked 1 are known only to be at least so long; `latency_ns,cumulative` a
//! distribution function; `latency_ns,cumulative_low,cumulative_high` two that enclose it, with an
//! empty cell where a function has no step. A comment `# order: arrival` says that the samples of one run stand in
//! the order in which they arrived; otherwise they are sorted, and their order of arrival is not known.

use std::fmt::Write as _;

use tailbound_time::{ClockId, Duration};

use crate::{Arrival, Distribution, Evidence, Provenance, Shape, StepCdf, StepCdfError};

const TITLE: &str = "tailbound distribution 1";
const ORDER: &str = "order: arrival";
const SAMPLES: &str = "latency_ns";
const CENSORED: &str = "latency_ns,censored";
const CURVE: &str = "latency_ns,cumulative";
const BRACKET: &str = "latency_ns,cumulative_low,cumulative_high";

/// Why a text is no distribution; lines count from 1.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CsvError {
    /// The file has no header.
    #[error(
        "no header line; write \"{SAMPLES}\" above a list of latencies in nanoseconds, \
         one per line"
    )]
    HeaderMissing,
    /// The header is none of ours.
    #[error(
        "line {line}: \"{text}\" is no header; write \"{SAMPLES}\", \"{CENSORED}\", \"{CURVE}\" \
         or \"{BRACKET}\""
    )]
    HeaderUnknown {
        /// Where.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// The first comment names a later version of the format.
    #[error("line {line}: \"{text}\" is of another version; this program reads \"{TITLE}\"")]
    Version {
        /// Where.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// A row has too few or too many cells.
    #[error("line {line}: {count} cells where the header has {expected}")]
    Cells {
        /// Where.
        line: usize,
        /// How many there are.
        count: usize,
        /// How many there should be.
        expected: usize,
    },
    /// A cell is not what its column holds, or a comment about the provenance not what its key stands for.
    #[error("line {line}: \"{text}\" is no {column}; write {right}")]
    Cell {
        /// Where.
        line: usize,
        /// The column, or the key.
        column: &'static str,
        /// What stands there.
        text: String,
        /// What could.
        right: &'static str,
    },
    /// The rows of a curve are no distribution function.
    #[error("the rows are no distribution function: {0}")]
    Curve(#[from] StepCdfError),
}

impl Distribution {
    /// The distribution as CSV, all values exact; see the head of this file for the format.
    pub fn to_csv(&self) -> String {
        let mut out = provenance_lines(&self.provenance);
        if let Some([run]) = self.runs().as_deref() {
            arrival_rows(&mut out, run, !self.censored().is_empty());
            return out;
        }
        match &self.shape {
            Shape::Samples(samples) => {
                line(&mut out, format_args!("{SAMPLES}"));
                for value in samples {
                    line(&mut out, format_args!("{}", value.as_nanos()));
                }
            }
            Shape::Censored { samples, censored } => {
                line(&mut out, format_args!("{CENSORED}"));
                for (values, mark) in [(samples, 0), (censored, 1)] {
                    for value in values {
                        line(&mut out, format_args!("{},{mark}", value.as_nanos()));
                    }
                }
            }
            Shape::Curve(curve) => {
                line(&mut out, format_args!("{CURVE}"));
                for (at, cumulative) in curve.steps() {
                    line(&mut out, format_args!("{},{cumulative}", at.as_nanos()));
                }
            }
            Shape::Bracket {
                optimistic,
                pessimistic,
            } => bracket_rows(&mut out, pessimistic.steps(), optimistic.steps()),
        }
        out
    }

    /// Reads what [`Distribution::to_csv`] writes, and plain files of values under a header line.
    /// Comments are optional; without them the evidence is a sample of unknown origin.
    ///
    /// # Errors
    /// [`CsvError`] with the line and what would be right there.
    pub fn from_csv(text: &str) -> Result<Self, CsvError> {
        let mut provenance = Provenance::new(Evidence::Sample, "", "read from a file");
        let mut rows = text
            .lines()
            .enumerate()
            .map(|(index, row)| (index + 1, row.trim()));
        let mut in_order = false;
        let header = loop {
            let Some((number, row)) = rows.next() else {
                return Err(CsvError::HeaderMissing);
            };
            match row.strip_prefix('#') {
                Some(comment) if comment.trim() == ORDER => in_order = true,
                Some(comment) => read_comment(&mut provenance, comment.trim(), number)?,
                None if row.is_empty() => {}
                None => break (number, row),
            }
        };
        let (line, names) = header;
        let cells: Vec<&str> = names.split(',').map(str::trim).collect();
        let rows = rows.filter(|(_, row)| !row.is_empty() && !row.starts_with('#'));
        let shape = match cells.join(",").as_str() {
            SAMPLES | CENSORED => {
                let arrivals = match cells.len() {
                    1 => read_samples(rows)?,
                    _ => read_censored(rows)?,
                };
                return Ok(match in_order {
                    true => Self::from_arrivals(provenance, arrivals),
                    false => Self::from_unordered(provenance, arrivals),
                });
            }
            CURVE => read_curve(rows)?,
            BRACKET => read_bracket(rows)?,
            _ => {
                return Err(CsvError::HeaderUnknown {
                    line,
                    text: shown(names),
                });
            }
        };
        Ok(Self {
            provenance,
            shape,
            arrival_order: None,
        })
    }
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _written = writeln!(out, "{text}");
}

fn arrival_rows(out: &mut String, run: &[Arrival], with_marks: bool) {
    line(out, format_args!("# {ORDER}"));
    line(
        out,
        format_args!("{}", if with_marks { CENSORED } else { SAMPLES }),
    );
    for arrival in run {
        let (value, mark) = match arrival {
            Arrival::Known(value) => (value.as_nanos(), 0),
            Arrival::AtLeast(value) => (value.as_nanos(), 1),
        };
        match with_marks {
            true => line(out, format_args!("{value},{mark}")),
            false => line(out, format_args!("{value}")),
        }
    }
}

fn bracket_rows(out: &mut String, low: &[(Duration, f64)], high: &[(Duration, f64)]) {
    line(out, format_args!("{BRACKET}"));
    let (mut low, mut high) = (low.iter().peekable(), high.iter().peekable());
    loop {
        let next_low = low.peek().map(|(at, _)| *at);
        let next_high = high.peek().map(|(at, _)| *at);
        let Some(at) = next_low.into_iter().chain(next_high).min() else {
            break;
        };
        let cell = |step: Option<&(Duration, f64)>| {
            step.map_or(String::new(), |(_, cumulative)| cumulative.to_string())
        };
        let low_cell = cell(low.next_if(|(step, _)| *step == at));
        let high_cell = cell(high.next_if(|(step, _)| *step == at));
        line(
            out,
            format_args!("{},{low_cell},{high_cell}", at.as_nanos()),
        );
    }
}

fn provenance_lines(provenance: &Provenance) -> String {
    let mut out = format!("# {TITLE}\n");
    let mut comment = |key: &str, value: String| {
        line(&mut out, format_args!("# {key}: {}", escaped(&value)));
    };
    comment("evidence", provenance.evidence.to_string());
    comment("subject", provenance.subject.clone());
    comment("method", provenance.method.clone());
    for assumption in &provenance.assumptions {
        comment("assumption", assumption.clone());
    }
    if let Some(seed) = provenance.seed {
        comment("seed", seed.to_string());
    }
    if let Some(clock) = provenance.clock {
        comment("clock", clock_name(clock).into());
    }
    if let Some(host) = &provenance.host {
        comment("host", host.clone());
    }
    if let Some(warm_up) = provenance.warm_up {
        comment("warm_up_ns", warm_up.as_nanos().to_string());
    }
    out
}

fn clock_name(clock: ClockId) -> &'static str {
    match clock {
        ClockId::Monotonic => "monotonic",
        ClockId::MonotonicRaw => "monotonic-raw",
        ClockId::Realtime => "realtime",
        ClockId::Virtual => "virtual",
    }
}

fn read_comment(provenance: &mut Provenance, comment: &str, line: usize) -> Result<(), CsvError> {
    if comment.starts_with("tailbound distribution ") && comment != TITLE {
        return Err(CsvError::Version {
            line,
            text: shown(comment),
        });
    }
    let Some((key, value)) = comment.split_once(':') else {
        return Ok(());
    };
    let value = unescaped(value.trim());
    let wrong = |column, right| CsvError::Cell {
        line,
        column,
        text: shown(&value),
        right,
    };
    match key {
        "evidence" => {
            provenance.evidence = [
                Evidence::Bound,
                Evidence::Estimate,
                Evidence::Band,
                Evidence::Sample,
            ]
            .into_iter()
            .find(|evidence| evidence.to_string() == value)
            .ok_or_else(|| wrong("evidence", "bound, estimate, band or sample"))?;
        }
        "subject" => provenance.subject = value,
        "method" => provenance.method = value,
        "assumption" => provenance.assumptions.push(value),
        "seed" => {
            let seed = value.parse().map_err(|_| wrong("seed", "a whole number"))?;
            provenance.seed = Some(seed);
        }
        "clock" => {
            let clock = [
                ClockId::Monotonic,
                ClockId::MonotonicRaw,
                ClockId::Realtime,
                ClockId::Virtual,
            ]
            .into_iter()
            .find(|clock| clock_name(*clock) == value)
            .ok_or_else(|| wrong("clock", "monotonic, monotonic-raw, realtime or virtual"))?;
            provenance.clock = Some(clock);
        }
        "host" => provenance.host = Some(value),
        "warm_up_ns" => {
            let length = value
                .parse()
                .map_err(|_| wrong("warm-up", "a whole number of nanoseconds"))?;
            provenance.warm_up = Some(Duration::from_nanos(length));
        }
        _ => {}
    }
    Ok(())
}

/// One line of text: backslashes and line breaks are written as `\\`, `\n` and `\r`, and so is a
/// space at either end, which trimming would take away.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let last = text.chars().count().saturating_sub(1);
    for (index, c) in text.chars().enumerate() {
        let at_end = index == 0 || index == last;
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if at_end && c.is_whitespace() => {
                let _written = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.push_str(before);
        let (c, length) = match after.chars().next() {
            Some('n') => ('\n', 1),
            Some('r') => ('\r', 1),
            Some('\\') => ('\\', 1),
            Some('u') => code_point(after).unwrap_or(('\\', 0)),
            _ => ('\\', 0),
        };
        out.push(c);
        rest = &after[length..];
    }
    out.push_str(rest);
    out
}

/// The character of `u{2003}...`, and how many bytes its escape takes.
fn code_point(text: &str) -> Option<(char, usize)> {
    let (digits, _) = text.strip_prefix("u{")?.split_once('}')?;
    let c = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    Some((c, digits.len() + 3))
}

/// A foreign text, cut to a length that fits a message.
fn shown(text: &str) -> String {
    const LONGEST: usize = 80;
    if text.chars().count() <= LONGEST {
        return text.into();
    }
    text.chars().take(LONGEST).chain("...".chars()).collect()
}

fn cells<const N: usize>(row: &str, line: usize) -> Result<[&str; N], CsvError> {
    let cells: Vec<&str> = row.split(',').map(str::trim).collect();
    <[&str; N]>::try_from(cells).map_err(|cells| CsvError::Cells {
        line,
        count: cells.len(),
        expected: N,
    })
}

fn latency(cell: &str, line: usize) -> Result<Duration, CsvError> {
    let nanoseconds = cell.parse().map_err(|_| CsvError::Cell {
        line,
        column: "latency_ns",
        text: shown(cell),
        right: "a whole number of nanoseconds, 0 or more",
    })?;
    Ok(Duration::from_nanos(nanoseconds))
}

fn probability(cell: &str, line: usize) -> Result<f64, CsvError> {
    let parsed: Option<f64> = cell.parse().ok();
    parsed
        .filter(|value| (0.0..=1.0).contains(value))
        .ok_or_else(|| CsvError::Cell {
            line,
            column: "cumulative probability",
            text: shown(cell),
            right: "a number from 0 to 1",
        })
}

fn read_samples<'a>(
    rows: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Vec<Arrival>, CsvError> {
    let read = rows.map(|(line, row)| {
        let [value] = cells(row, line)?;
        Ok(Arrival::Known(latency(value, line)?))
    });
    read.collect()
}

fn read_censored<'a>(
    rows: impl Iterator<Item = (usize, &'a str)>,
) -> Result<Vec<Arrival>, CsvError> {
    let read = rows.map(|(line, row)| {
        let [value, mark] = cells(row, line)?;
        let value = latency(value, line)?;
        match mark {
            "0" => Ok(Arrival::Known(value)),
            "1" => Ok(Arrival::AtLeast(value)),
            _ => Err(CsvError::Cell {
                line,
                column: "mark of a censored value",
                text: shown(mark),
                right: "0 for a known value, 1 for one that is at least so long",
            }),
        }
    });
    read.collect()
}

fn read_curve<'a>(rows: impl Iterator<Item = (usize, &'a str)>) -> Result<Shape, CsvError> {
    let mut steps = Vec::new();
    for (line, row) in rows {
        let [at, cumulative] = cells(row, line)?;
        steps.push((latency(at, line)?, probability(cumulative, line)?));
    }
    Ok(Shape::Curve(StepCdf::new(steps)?))
}

fn read_bracket<'a>(rows: impl Iterator<Item = (usize, &'a str)>) -> Result<Shape, CsvError> {
    let (mut pessimistic, mut optimistic) = (Vec::new(), Vec::new());
    for (line, row) in rows {
        let [at, low, high] = cells(row, line)?;
        let at = latency(at, line)?;
        for (cell, steps) in [(low, &mut pessimistic), (high, &mut optimistic)] {
            if !cell.is_empty() {
                steps.push((at, probability(cell, line)?));
            }
        }
    }
    Ok(Shape::Bracket {
        optimistic: StepCdf::new(optimistic)?,
        pessimistic: StepCdf::new(pessimistic)?,
    })
}
