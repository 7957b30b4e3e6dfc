//! Metrics that an application reports of itself: how a report is asked for, and how a number is read from it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_application_report::{ReportFault, ReportPlace, finite_number, refuse_future};
use tailbound_model::ServiceTls;

/// The placeholder of an address or command for the beginning of the measurement.
pub const SINCE: &str = "{since_ms}";

/// A number that the application reports of itself, asked for after each measurement. `{since_ms}` in the address or the
/// command becomes the beginning of the measurement, in milliseconds since 1970 (UTC).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReportedMetric {
    /// The address of the report, `http://HOST:PORT/PATH` or `https://HOST:PORT/PATH`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The certificates by which a service at an `https` address is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ServiceTls>,
    /// The command that prints the report, in place of `url`: such as a client of a database with a query of a table in
    /// which the application writes its times.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// The place of the number in a report in JSON (a JSON Pointer, RFC 6901), such as `/requests/0/mean_ms`. Without
    /// `json`, `xml` and `prometheus` the whole report is the number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The place of the number in a report in XML: a path of elements from the root, each with conditions in brackets
    /// where several have its name, and perhaps an attribute, such as `/report/request[@name="get"]/@mean_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub xml: Option<String>,
    /// The series of the number in a report in the text format of Prometheus, such as `requests_total{code="200"}`: the one
    /// with this name and, among others, these labels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<String>,
    /// The place, in the same form, of the time that the report is of, in milliseconds since 1970 (UTC). A report that is of
    /// the future, or of before the measurement, has no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stamp_ms: Option<String>,
    /// Whether the number counts up since the start of the application, so that the difference of a report after the
    /// measurement and one before is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    #[schemars(extend("default" = false))]
    pub counter: bool,
}

/// Why a report has no value for a metric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricFault {
    /// The report has no number at the place.
    #[error(transparent)]
    Report(#[from] ReportFault),
    /// The number is negative.
    #[error("the value {text} is negative")]
    Negative {
        /// The value as the report has it.
        text: String,
    },
    /// The report is of a time before the measurement.
    #[error("the report is of {ago_ms} ms before the measurement")]
    Stale {
        /// How long before.
        ago_ms: i64,
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
    /// The place of a value in the reports of this metric: of `key`, where the form is the one of the number.
    fn place<'a>(&self, key: &'a str) -> ReportPlace<'a> {
        match (&self.json, &self.xml, &self.prometheus) {
            (Some(_), ..) => ReportPlace::Json(key),
            (_, Some(_), _) => ReportPlace::Xml(key),
            (_, _, Some(_)) => ReportPlace::Prometheus(key),
            (None, None, None) => ReportPlace::Whole,
        }
    }

    /// The number in a report of a measurement that began at a time, read now, both in milliseconds since 1970.
    ///
    /// # Errors
    /// There is none, or it makes no sense: NaN, infinite, negative, of the future, or of before the measurement.
    pub fn value_in(&self, report: &str, since_ms: i64, now_ms: i64) -> Result<f64, MetricFault> {
        let keys = [&self.json, &self.xml, &self.prometheus];
        let key = keys.into_iter().flatten().next();
        let place = self.place(key.map_or("", String::as_str));
        let text = place.text_in(report, now_ms)?;
        if let Some(stamp) = &self.stamp_ms {
            let stamp_ms = finite_number(&self.place(stamp).text_in(report, now_ms)?)? as i64;
            refuse_future(stamp_ms, now_ms)?;
            if stamp_ms < since_ms {
                let ago_ms = since_ms.saturating_sub(stamp_ms);
                return Err(MetricFault::Stale { ago_ms });
            }
        }
        match finite_number(&text)? {
            number if number < 0.0 => Err(MetricFault::Negative { text }),
            number => Ok(number),
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const NOW_MS: i64 = 1_700_000_000_000;

    #[test]
    fn numbers_are_read_from_all_forms() {
        let metric = |key: &str, place: &str| {
            let place = Some(place.to_owned());
            let mut metric = ReportedMetric::default();
            match key {
                "json" => metric.json = place,
                "xml" => metric.xml = place,
                _ => metric.prometheus = place,
            }
            metric
        };
        let value = |metric: ReportedMetric, report: &str| metric.value_in(report, 0, NOW_MS);
        assert_eq!(value(metric("json", "/a/0"), r#"{"a": ["2.5"]}"#), Ok(2.5));
        assert_eq!(value(metric("xml", "/a/@b"), "<a b='3'/>"), Ok(3.0));
        assert_eq!(value(metric("prometheus", "a"), "a 4\n"), Ok(4.0));
        assert_eq!(value(ReportedMetric::default(), " 42\n"), Ok(42.0));
    }

    #[test]
    fn numbers_that_make_no_sense_are_no_values() {
        let metric = ReportedMetric {
            json: Some("/a".to_owned()),
            stamp_ms: Some("/at".to_owned()),
            ..ReportedMetric::default()
        };
        let read = |report: String| metric.value_in(&report, NOW_MS - 5_000, NOW_MS);
        let of = |value: &str, at_ms: i64| format!("{{\"a\": {value}, \"at\": {at_ms}}}");
        assert_eq!(read(of("1", NOW_MS)), Ok(1.0));
        assert_eq!(read(of("0", NOW_MS - 5_000)), Ok(0.0));
        for (report, said) in [
            (of("-3", NOW_MS), "-3 is negative"),
            (of("\"NaN\"", NOW_MS), "the value is NaN"),
            (of("true", NOW_MS), "\"true\" is no number"),
            (of("null", NOW_MS), "nothing at /a"),
            (of("1", NOW_MS + 9_000), "9000 ms from now"),
            (of("1", NOW_MS - 6_000), "1000 ms before the measurement"),
            ("{\"a\": 1}".to_owned(), "nothing at /at"),
        ] {
            let fault = read(report).unwrap_err().to_string();
            assert!(fault.contains(said), "{fault}");
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
}
