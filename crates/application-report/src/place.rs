//! The place of a value in a report.

use crate::prometheus::{SeriesName, metric_samples};
use crate::xml_path::XmlPath;
use crate::{ReportFault, shortened};

/// A time stamp this far ahead of our clock is one of the future: clocks of one host differ by less.
const AHEAD_MS: i64 = 1_000;

/// `ReportPlace` is the place of a value in a report, and with it the form of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportPlace<'a> {
    /// A JSON Pointer (RFC 6901) into a report in JSON.
    Json(&'a str),
    /// A path of elements in a report in XML, as [`XmlPath`] takes it.
    Xml(&'a str),
    /// A series in a report in the text format of Prometheus.
    Prometheus(&'a str),
    /// The report is the value.
    Whole,
}

impl ReportPlace<'_> {
    /// The value at the place in a report that was read at a time, in milliseconds since 1970.
    ///
    /// # Errors
    /// The report is of another form, has nothing there, or has several values there; a sample of Prometheus is of a time that
    /// has not come.
    pub fn text_in(self, report: &str, now_ms: i64) -> Result<String, ReportFault> {
        match self {
            Self::Json(pointer) => in_json(report, pointer),
            Self::Xml(path) => in_xml(report, path),
            Self::Prometheus(series) => in_prometheus(report, series, now_ms),
            Self::Whole => Ok(report.trim().to_owned()),
        }
    }
}

/// The number that a text is.
///
/// # Errors
/// The text is no number, NaN or infinite.
pub fn finite_number(text: &str) -> Result<f64, ReportFault> {
    let shown = || shortened(text);
    match text.parse::<f64>() {
        Err(_) => Err(ReportFault::NoNumber { text: shown() }),
        Ok(number) if !number.is_finite() => Err(ReportFault::NotFinite { text: shown() }),
        Ok(number) => Ok(number),
    }
}

/// Refuses a time stamp that is ahead of now.
///
/// # Errors
/// How far ahead the time stamp is.
pub fn refuse_future(stamp_ms: i64, now_ms: i64) -> Result<(), ReportFault> {
    match stamp_ms.saturating_sub(now_ms) {
        ahead_ms if ahead_ms > AHEAD_MS => Err(ReportFault::FromFuture { ahead_ms }),
        _ => Ok(()),
    }
}

fn in_json(report: &str, pointer: &str) -> Result<String, ReportFault> {
    let document: serde_json::Value =
        serde_json::from_str(report).map_err(|cause| ReportFault::Form {
            form: "JSON",
            cause: cause.to_string(),
        })?;
    match document.pointer(pointer) {
        None | Some(serde_json::Value::Null) => Err(ReportFault::Missing {
            place: pointer.to_owned(),
        }),
        Some(serde_json::Value::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
    }
}

fn in_xml(report: &str, path: &str) -> Result<String, ReportFault> {
    let malformed = |cause: String| ReportFault::Form { form: "XML", cause };
    let wanted = path
        .parse::<XmlPath>()
        .map_err(|error| malformed(error.to_string()))?;
    // External entities and document types are refused: a report needs neither, and both are ways to exhaust a reader.
    let document = roxmltree::Document::parse(report)
        .map_err(|cause| malformed(shortened(&cause.to_string())))?;
    let mut values = wanted.values_in(&document);
    match (values.pop(), values.len()) {
        (Some(value), 0) => Ok(value),
        (None, _) => Err(ReportFault::Missing {
            place: path.to_owned(),
        }),
        (Some(_), others) => Err(ReportFault::Several {
            count: others + 1,
            place: path.to_owned(),
            remedy: "add [@NAME=\"VALUE\"] or a number in brackets that only one has",
        }),
    }
}

fn in_prometheus(report: &str, series: &str, now_ms: i64) -> Result<String, ReportFault> {
    let wanted = SeriesName::parse(series).ok_or_else(|| ReportFault::Form {
        form: "text of Prometheus",
        cause: format!("\"{series}\" is no series"),
    })?;
    let samples = metric_samples(report, &wanted)?;
    match samples.as_slice() {
        [] => Err(ReportFault::Missing {
            place: series.to_owned(),
        }),
        [sample] => {
            if let Some(stamp_ms) = sample.stamp_ms {
                refuse_future(stamp_ms, now_ms)?;
            }
            Ok(sample.value.to_owned())
        }
        several => Err(ReportFault::Several {
            count: several.len(),
            place: series.to_owned(),
            remedy: "add labels that only one has",
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    const NOW_MS: i64 = 1_700_000_000_000;
    const TEXT: &str = r#"
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{code="200",path="/a \"b\""} 12
requests_total{code="500",} 1 1700000000000
seconds_sum 1.5e-3
late 3 1700000009000
"#;
    const XML: &str = r#"<?xml version="1.0"?>
<r:report xmlns:r="urn:report" until_ms="7"><request name="a/b" mean="1.5"><count> 3 </count></request>
<request name="c"><count><![CDATA[4]]></count></request></r:report>"#;

    #[test]
    fn values_of_all_forms_are_read() {
        let json = r#"{"requests": [{"mean_ms": 12.5}, {"mean_ms": "7"}]}"#;
        for (place, report, value) in [
            (ReportPlace::Json("/requests/0/mean_ms"), json, "12.5"),
            (ReportPlace::Json("/requests/1/mean_ms"), json, "7"),
            (
                ReportPlace::Prometheus(r#"requests_total{path="/a \"b\""}"#),
                TEXT,
                "12",
            ),
            (
                ReportPlace::Prometheus(r#"requests_total{code="500"}"#),
                TEXT,
                "1",
            ),
            (ReportPlace::Prometheus("seconds_sum"), TEXT, "1.5e-3"),
            (ReportPlace::Xml("/report/@until_ms"), XML, "7"),
            (ReportPlace::Xml("/report/request[1]/@mean"), XML, "1.5"),
            (
                ReportPlace::Xml(r#"/report/request[@name="a/b"]/count"#),
                XML,
                "3",
            ),
            (
                ReportPlace::Xml("/report/request[@name='c']/count"),
                XML,
                "4",
            ),
            (ReportPlace::Whole, " 42\n", "42"),
        ] {
            assert_eq!(place.text_in(report, NOW_MS).as_deref(), Ok(value));
        }
    }

    #[test]
    fn a_report_without_the_value_says_why() {
        let dtd = "<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>";
        let deep = "<a>".repeat(100_000);
        for (place, report, said) in [
            (ReportPlace::Json("/a"), "{}", "nothing at /a"),
            (ReportPlace::Json("/a"), r#"{"a": null}"#, "nothing at /a"),
            (ReportPlace::Json("/a"), "<html>", "no JSON"),
            (ReportPlace::Prometheus("none"), TEXT, "nothing at none"),
            (ReportPlace::Prometheus("requests_total"), TEXT, "2 values"),
            (ReportPlace::Prometheus("late"), TEXT, "9000 ms from now"),
            (ReportPlace::Prometheus("{"), TEXT, "\"{\" is no series"),
            (ReportPlace::Prometheus("a"), "a b c d", "\"a b c d\""),
            (
                ReportPlace::Xml("/report/none"),
                XML,
                "nothing at /report/none",
            ),
            (
                ReportPlace::Xml("/report/@none"),
                XML,
                "nothing at /report/@none",
            ),
            (ReportPlace::Xml("/report/request/count"), XML, "2 values"),
            (ReportPlace::Xml("report"), XML, "begin it with a slash"),
            (ReportPlace::Xml("/a"), "{}", "no XML"),
            (ReportPlace::Xml("/a"), dtd, "no XML"),
            (ReportPlace::Xml("/a"), &deep, "no XML"),
        ] {
            let fault = place.text_in(report, NOW_MS).unwrap_err().to_string();
            assert!(fault.contains(said), "{fault}");
        }
    }

    #[test]
    fn only_finite_numbers_are_numbers() {
        assert_eq!(finite_number("-1.5e3"), Ok(-1500.0));
        for (text, said) in [
            ("NULL", "\"NULL\" is no number"),
            ("", "\"\" is no number"),
            ("inf", "the value is inf"),
            ("NaN", "the value is NaN"),
        ] {
            assert_eq!(finite_number(text).unwrap_err().to_string(), said);
        }
    }

    proptest! {
        /// Reports come from programs that nobody trusts.
        #[test]
        fn no_report_breaks_the_reader(report in ".{0,80}", xml in "[</a b=\"1>&;!\\[\\]-]{0,60}", stamp: i64) {
            for place in [ReportPlace::Json("/a/0"), ReportPlace::Prometheus("a{b=\"c\"}"), ReportPlace::Xml("/a/b[2]/@c")] {
                let _any_outcome = place.text_in(&report, stamp);
                let _any_outcome = place.text_in(&format!("a{{b=\"c\"{report}"), stamp);
                let _any_outcome = place.text_in(&format!("<a>{xml}</a>"), stamp);
            }
        }
    }
}
