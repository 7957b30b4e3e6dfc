//! Histograms of execution times in Prometheus's text format.

use std::collections::BTreeMap;
use std::ops::Range;

use tailbound_time::Duration;

use crate::inputs::{Lines, lines_with};
use crate::{Bin, Problems};

/// The end of the names of a histogram's counts.
const BUCKET: &str = "_bucket";
/// The units that the name of a histogram ends in, in nanoseconds.
const UNITS: [(&str, f64); 4] = [
    ("_seconds", 1e9),
    ("_milliseconds", 1e6),
    ("_ms", 1e6),
    ("_microseconds", 1e3),
];

/// `Bucket` is one line of a histogram: so many observations of a series lie at or below a bound.
struct Bucket<'a> {
    metric: &'a str,
    /// The labels without the bound, as they stand in the file.
    series: String,
    /// In the unit of the metric; infinite for the last one.
    end: f64,
    count: u64,
    span: Range<usize>,
}

/// Reads a histogram of execution times from an exposition in Prometheus's text format, such as the answer of a
/// `/metrics` page: the lines `NAME_bucket{...,le="0.1"} 42`. `metric` names the histogram, with or without `_bucket`; it
/// may be left out where there is one alone. The series of all its other labels count together. The name ends in its unit,
/// as Prometheus's naming rules have it. `file` names the file in problems.
///
/// # Errors
/// Every malformed line, up to twenty of them; a histogram that is not there, has no observation, or has observations
/// above its last finite bound.
pub fn parse_exposition(
    text: &str,
    metric: Option<&str>,
    file: &str,
) -> Result<Vec<Bin>, Problems> {
    let mut problems = Lines::new(text, file);
    let mut buckets = Vec::new();
    for (span, line) in lines_with(text, None) {
        if line.starts_with('#') {
            continue;
        }
        match bucket(line, span.clone()) {
            Ok(bucket) => buckets.extend(bucket),
            Err((message, remedy)) => problems.fail(span, message, remedy),
        }
    }
    let asked = metric.map(|name| name.strip_suffix(BUCKET).unwrap_or(name));
    let Some((metric, nanoseconds)) = chosen(&buckets, asked, &mut problems) else {
        return problems.outcome(Vec::new());
    };
    let mut by_series: BTreeMap<&str, Vec<&Bucket<'_>>> = BTreeMap::new();
    for bucket in buckets.iter().filter(|bucket| bucket.metric == metric) {
        by_series.entry(&bucket.series).or_default().push(bucket);
    }
    let mut bins: BTreeMap<(Duration, Duration), u64> = BTreeMap::new();
    for series in by_series.values_mut() {
        add_series(series, nanoseconds, &mut bins, &mut problems);
    }
    let bins: Vec<Bin> = bins
        .into_iter()
        .map(|((from, to), count)| Bin { from, to, count })
        .collect();
    if bins.is_empty() && problems.problems.is_empty() {
        let message = format!("histogram {metric} has no observation");
        problems.fail(0..0, message, "take the exposition after some requests");
    }
    problems.outcome(bins)
}

/// The bucket of a line; `None` of a line that is about something else.
fn bucket(line: &str, span: Range<usize>) -> Result<Option<Bucket<'_>>, (String, &'static str)> {
    const FORM: &str = "a bucket is a line such as request_seconds_bucket{le=\"0.1\"} 42";
    let Some((name, rest)) = line.split_once('{') else {
        return Ok(None);
    };
    let Some(metric) = name.trim().strip_suffix(BUCKET) else {
        return Ok(None);
    };
    let labels =
        labels(rest).ok_or_else(|| (format!("{name} has labels that do not end"), FORM))?;
    let ((mut inner, value), mut bound) = (labels, None);
    inner.retain(|(label, text)| {
        let is_bound = label == "le";
        if is_bound {
            bound = Some(text.clone());
        }
        !is_bound
    });
    let bound = bound.ok_or_else(|| (format!("{name} has no label le"), FORM))?;
    let bound = match bound.as_str() {
        "+Inf" | "Inf" => f64::INFINITY,
        number => match number.parse::<f64>() {
            Ok(bound) if bound >= 0.0 && bound.is_finite() => bound,
            _ => return Err((format!("le=\"{number}\" is no bound of a time"), FORM)),
        },
    };
    let count = value.split_whitespace().next().unwrap_or_default();
    let count = match count.parse::<f64>() {
        Ok(count) if (0.0..=9e15).contains(&count) && count.fract() == 0.0 => count as u64,
        _ => return Err((format!("\"{count}\" is no count of observations"), FORM)),
    };
    let series = inner
        .into_iter()
        .map(|(label, text)| format!("{label}={text:?},"));
    Ok(Some(Bucket {
        metric,
        series: series.collect(),
        end: bound,
        count,
        span,
    }))
}

/// The labels up to the closing brace, and what follows it; `None` where no brace closes them.
fn labels(text: &str) -> Option<(Vec<(String, String)>, &str)> {
    let mut labels = Vec::new();
    let mut rest = text.trim_start();
    loop {
        rest = rest.trim_start_matches([',', ' ']);
        if let Some(after) = rest.strip_prefix('}') {
            return Some((labels, after));
        }
        let (label, quoted) = rest.split_once('=')?;
        let mut value = String::new();
        let mut characters = quoted.trim_start().strip_prefix('"')?.chars();
        loop {
            match characters.next()? {
                '"' => break,
                '\\' => value.push(match characters.next()? {
                    'n' => '\n',
                    other => other,
                }),
                other => value.push(other),
            }
        }
        labels.push((label.trim().to_owned(), value));
        rest = characters.as_str();
    }
}

/// The histogram that is asked for, or the only one, with its unit in nanoseconds.
fn chosen<'a>(
    buckets: &[Bucket<'a>],
    asked: Option<&str>,
    problems: &mut Lines<'_>,
) -> Option<(&'a str, f64)> {
    let mut names: Vec<&str> = buckets.iter().map(|bucket| bucket.metric).collect();
    names.sort_unstable();
    names.dedup();
    let present = match names.is_empty() {
        true => "the file has none: histograms have lines NAME_bucket{le=\"...\"}".to_owned(),
        false => format!("it has {}", names.join(", ")),
    };
    let metric = match (asked, names.as_slice()) {
        (Some(asked), names) => names.iter().find(|name| **name == asked).copied(),
        (None, [only]) => Some(*only),
        (None, _) => None,
    };
    let Some(metric) = metric else {
        if problems.problems.is_empty() {
            let message = match asked {
                Some(asked) => format!("there is no histogram {asked}"),
                None => "which histogram is meant is not clear".into(),
            };
            problems.fail(0..0, message, &format!("name one of the file: {present}"));
        }
        return None;
    };
    let unit = UNITS.iter().find(|(end, _)| metric.ends_with(end));
    let Some((_, nanoseconds)) = unit else {
        let message = format!("the name of histogram {metric} does not say its unit");
        let remedy = "take one whose name ends in _seconds, _milliseconds, _ms or _microseconds";
        problems.fail(0..0, message, remedy);
        return None;
    };
    Some((metric, *nanoseconds))
}

/// Adds the observations of a series between each two of its bounds.
fn add_series(
    series: &mut [&Bucket<'_>],
    nanoseconds: f64,
    bins: &mut BTreeMap<(Duration, Duration), u64>,
    problems: &mut Lines<'_>,
) {
    series.sort_by(|a, b| a.end.total_cmp(&b.end));
    let (mut from, mut below) = (Duration::ZERO, 0);
    for bucket in series.iter() {
        let Some(count) = bucket.count.checked_sub(below) else {
            let message = format!(
                "{} observations after {below} of a lower bound",
                bucket.count
            );
            problems.fail(
                bucket.span.clone(),
                message,
                "counts of buckets are cumulative",
            );
            return;
        };
        if bucket.end.is_infinite() {
            if count > 0 {
                let message = format!("{count} observations lie above {from}, the last bound");
                let remedy = "give the histogram a bucket above its longest observation: nothing is known of how long \
                              these took";
                problems.fail(bucket.span.clone(), message, remedy);
            }
            return;
        }
        let to = Duration::from_secs_f64_nearest(bucket.end * nanoseconds / 1e9);
        if count > 0 {
            *bins.entry((from, to)).or_default() += count;
        }
        (from, below) = (to, bucket.count);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    const PAGE: &str = r#"
# HELP http_request_duration_seconds Time of a request.
# TYPE http_request_duration_seconds histogram
http_request_duration_seconds_bucket{path="/a}b",le="0.005"} 3
http_request_duration_seconds_bucket{path="/a}b",le="0.01"} 10
http_request_duration_seconds_bucket{path="/a}b",le="+Inf"} 10
http_request_duration_seconds_sum{path="/a}b"} 0.06
http_request_duration_seconds_bucket{path="/\"",le="0.01",} 4e0 1700000000000
http_request_duration_seconds_bucket{path="/\"",le="+Inf"} 4 # {trace_id="x"} 0.01
go_gc_pauses_seconds_count 7
go_goroutines 12
"#;

    fn bins(text: &str, metric: Option<&str>) -> Result<Vec<(u64, u64, u64)>, String> {
        let us = |time: Duration| time.as_nanos() / 1_000;
        let parsed = parse_exposition(text, metric, "metrics.txt");
        let bins = parsed.map_err(|problems| problems.to_string())?;
        Ok(bins
            .iter()
            .map(|bin| (us(bin.from), us(bin.to), bin.count))
            .collect())
    }

    /// The series of all paths count together, also where their bounds are not the same.
    #[test]
    fn a_histogram_is_read_from_the_page_of_a_service() {
        let expected = vec![(0, 5_000, 3), (0, 10_000, 4), (5_000, 10_000, 7)];
        let name = "http_request_duration_seconds";
        for metric in [
            None,
            Some(name),
            Some("http_request_duration_seconds_bucket"),
        ] {
            assert_eq!(bins(PAGE, metric), Ok(expected.clone()), "{metric:?}");
        }
    }

    #[test]
    fn what_is_no_histogram_says_where_and_why() {
        let line = |le: &str, count: &str| format!("t_seconds_bucket{{le=\"{le}\"}} {count}\n");
        let one = line("0.1", "5") + &line("+Inf", "5");
        for (text, metric, part) in [
            (
                PAGE,
                Some("other_seconds"),
                "there is no histogram other_seconds",
            ),
            ("go_goroutines 12\n", None, "the file has none"),
            (
                &(one.clone() + "u_seconds_bucket{le=\"1\"} 1\n"),
                None,
                "it has t_seconds, u_seconds",
            ),
            (
                "t_bucket{le=\"1\"} 1\n",
                None,
                "histogram t does not say its unit",
            ),
            (
                "t_seconds_bucket{le=\"1\" 1\n",
                None,
                "metrics.txt:1:1: error: t_seconds_bucket has labels that do not end",
            ),
            ("t_seconds_bucket{x=\"1\"} 1\n", None, "has no label le"),
            (&line("-1", "5"), None, "le=\"-1\" is no bound"),
            (&line("1", "-5"), None, "\"-5\" is no count"),
            (&line("1", "0.5"), None, "\"0.5\" is no count"),
            (
                &(line("0.1", "5") + &line("0.2", "4")),
                None,
                "metrics.txt:2:1: error: 4 observations after 5 of a lower bound",
            ),
            (
                &(line("0.1", "5") + &line("+Inf", "7")),
                None,
                "2 observations lie above 100ms, the last bound",
            ),
            (&line("0.1", "0"), None, "t_seconds has no observation"),
        ] {
            let error = bins(text, metric).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_reason_to_panic(text in "\\PC{0,48}|(t_seconds_bucket\\{le=\"[0-9.e+Inf-]{0,6}\",?\\} [0-9e.]{0,4}\n){0,4}") {
            let _ = parse_exposition(&text, None, "metrics.txt");
        }
    }
}
