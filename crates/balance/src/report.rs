//! An application's report, from the bytes of its answer: JSON, Prometheus' text format, or a Prometheus server's answer to a
//! query.

use serde::Deserialize;
use serde_json::Value;
use tailbound_application_report::{SeriesName, metric_samples};
use tailbound_time::Duration;

use crate::matching_value::{HoldReason, MatchingValue};

/// The metric that is the matching value where no other is named.
pub const USUAL_METRIC: &str = "tailbound_service_level_matching_value";
/// The metric that is the age of the last request, beside [`USUAL_METRIC`].
const USUAL_AGE_METRIC: &str = "tailbound_service_level_age_seconds";
/// The metric that is the service level, beside [`USUAL_METRIC`].
const USUAL_LEVEL_METRIC: &str = "tailbound_service_level";
/// A clock of another host may be ahead by so much.
const CLOCK_TOLERANCE_SECONDS: f64 = 1.0;

/// `LevelReport` is what a decision takes of a report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LevelReport {
    /// The matching value.
    pub matching_value: MatchingValue,
    /// The service level, 0 to 1; none where the source has only a matching value.
    pub service_level: Option<f64>,
    /// The longest latency of the window, which no decision needs.
    pub latency: Option<Duration>,
}

impl LevelReport {
    /// The value by which the application takes part in a division.
    pub fn effective(&self) -> MatchingValue {
        let value = self.matching_value;
        self.service_level
            .map_or(value, |level| value.at_level(level))
    }
}

/// A report without a service level.
impl From<MatchingValue> for LevelReport {
    fn from(matching_value: MatchingValue) -> Self {
        Self {
            matching_value,
            service_level: None,
            latency: None,
        }
    }
}

/// The keys of a report that a decision needs; others are passed over.
#[derive(Deserialize)]
struct ReportKeys {
    matching_value: Value,
    age_seconds: Value,
    #[serde(default)]
    service_level: Value,
    #[serde(default)]
    latency_seconds: Value,
}

/// The report of an application in JSON.
///
/// # Errors
/// Why the report is no measurement.
pub fn from_json(body: &[u8], stale_after: Duration) -> Result<LevelReport, HoldReason> {
    let report: ReportKeys =
        serde_json::from_slice(body).map_err(|error| HoldReason::NoReport(error.to_string()))?;
    let matching_value = match &report.matching_value {
        Value::Null => return Err(HoldReason::NoRequest),
        value => matching(number(value)?)?,
    };
    let service_level = match &report.service_level {
        Value::Null => None,
        level => Some(judged_level(number(level)?)?),
    };
    if !report.age_seconds.is_null() {
        fresh(number(&report.age_seconds)?, stale_after)?;
    }
    let latency = report.latency_seconds.as_f64();
    let is_length = |seconds: &f64| (0.0..1e9).contains(seconds);
    Ok(LevelReport {
        matching_value,
        service_level,
        latency: latency
            .filter(is_length)
            .map(Duration::from_secs_f64_nearest),
    })
}

/// The report in an answer in Prometheus' text format; its service level is read where no metric is named.
///
/// # Errors
/// Why the answer has no measurement.
pub fn from_metrics(
    body: &[u8],
    metric: Option<&str>,
    stale_after: Duration,
) -> Result<LevelReport, HoldReason> {
    let text =
        std::str::from_utf8(body).map_err(|error| HoldReason::NoReport(error.to_string()))?;
    let name = metric.unwrap_or(USUAL_METRIC);
    let value = match samples(text, name)?.as_slice() {
        [] if metric.is_none() && !samples(text, USUAL_LEVEL_METRIC)?.is_empty() => {
            return Err(HoldReason::NoRequest);
        }
        [] => return Err(HoldReason::NoReport(format!("there is no metric {name}"))),
        [value] => parsed(value)?,
        several => {
            let count = several.len();
            return Err(HoldReason::NoReport(format!(
                "the metric {name} has {count} values"
            )));
        }
    };
    let mut report = LevelReport::from(matching(value)?);
    if metric.is_some() {
        return Ok(report);
    }
    if let [age] = samples(text, USUAL_AGE_METRIC)?.as_slice() {
        fresh(parsed(age)?, stale_after)?;
    }
    if let [level] = samples(text, USUAL_LEVEL_METRIC)?.as_slice() {
        report.service_level = Some(judged_level(parsed(level)?)?);
    }
    Ok(report)
}

/// The matching value in a Prometheus server's answer to an instant query at `now_seconds` of the Unix epoch.
///
/// # Errors
/// Why the answer has no measurement.
pub fn from_query(
    body: &[u8],
    now_seconds: f64,
    stale_after: Duration,
) -> Result<MatchingValue, HoldReason> {
    let answer: Value =
        serde_json::from_slice(body).map_err(|error| HoldReason::NoReport(error.to_string()))?;
    let data = &answer["data"];
    let sample = match (
        data["resultType"].as_str(),
        data["result"].as_array().map(Vec::as_slice),
    ) {
        (Some("scalar"), _) => &data["result"],
        (Some("vector"), Some([one])) => &one["value"],
        (Some("vector"), Some([])) => return Err(HoldReason::NoRequest),
        (Some("vector"), Some(several)) => {
            let count = several.len();
            return Err(HoldReason::NoReport(format!(
                "the query has {count} values"
            )));
        }
        _ => return Err(HoldReason::NoReport("the answer has no value".to_owned())),
    };
    let value = sample[1]
        .as_str()
        .ok_or_else(|| HoldReason::NoReport("the sample has no value".to_owned()))?;
    let value = matching(parsed(value)?)?;
    let taken_seconds = number(&sample[0])?;
    let age_seconds = now_seconds - taken_seconds;
    match age_seconds < -CLOCK_TOLERANCE_SECONDS {
        true => Err(HoldReason::FromTheFuture),
        false => fresh(age_seconds.max(0.0), stale_after).map(|()| value),
    }
}

/// The values of the samples of a metric.
fn samples<'a>(text: &'a str, metric: &str) -> Result<Vec<&'a str>, HoldReason> {
    let series = SeriesName::parse(metric)
        .ok_or_else(|| HoldReason::NoReport(format!("\"{metric}\" is no name of a metric")))?;
    let samples =
        metric_samples(text, &series).map_err(|fault| HoldReason::NoReport(fault.to_string()))?;
    Ok(samples.into_iter().map(|sample| sample.value).collect())
}

fn parsed(text: &str) -> Result<f64, HoldReason> {
    text.parse()
        .map_err(|_| HoldReason::NoReport(format!("\"{text}\" is no number")))
}

fn number(value: &Value) -> Result<f64, HoldReason> {
    value
        .as_f64()
        .ok_or_else(|| HoldReason::NoReport(format!("{value} is no number")))
}

fn judged_level(level: f64) -> Result<f64, HoldReason> {
    match (0.0..=1.0).contains(&level) {
        true => Ok(level),
        false => Err(HoldReason::NoServiceLevel(level.to_string())),
    }
}

fn matching(value: f64) -> Result<MatchingValue, HoldReason> {
    MatchingValue::new(value).ok_or_else(|| HoldReason::NoMatchingValue(value.to_string()))
}

/// Refuses an age that is too long, or none.
fn fresh(age_seconds: f64, stale_after: Duration) -> Result<(), HoldReason> {
    if age_seconds.is_nan() || age_seconds < 0.0 {
        return Err(HoldReason::FromTheFuture);
    }
    match age_seconds > stale_after.as_secs_f64() {
        true => Err(HoldReason::Stale(Duration::from_secs(
            age_seconds.min(1e9) as u64
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;

    use super::*;

    const STALE_AFTER: Duration = Duration::from_secs(15);

    fn json(value: &str, age: &str) -> Result<i32, HoldReason> {
        let body = format!("{{\"matching_value\": {value}, \"age_seconds\": {age}, \"else\": []}}");
        from_json(body.as_bytes(), STALE_AFTER).map(|one| one.matching_value.millionths())
    }

    #[test]
    fn a_level_is_read_where_there_is_one() {
        let read = |level: &str| {
            let body = format!("{{\"matching_value\": 0.5, \"age_seconds\": 1{level}}}");
            from_json(body.as_bytes(), STALE_AFTER)
        };
        assert_eq!(read("").map(|one| one.service_level), Ok(None));
        let half = read(", \"service_level\": 0.85").unwrap();
        assert_eq!(half.service_level, Some(0.85));
        assert_eq!(half.effective().millionths(), -500_000);
        assert_eq!(
            read(", \"service_level\": 1.5"),
            Err(HoldReason::NoServiceLevel("1.5".into()))
        );
        assert!(matches!(
            read(", \"service_level\": \"full\""),
            Err(HoldReason::NoReport(_))
        ));
    }

    #[test]
    fn a_report_is_read_and_judged() {
        assert_eq!(json("-0.31", "0.4"), Ok(-310_000));
        assert_eq!(json("1", "15"), Ok(1_000_000));
        assert_eq!(json("0.5", "null"), Ok(500_000));
        assert_eq!(json("null", "null"), Err(HoldReason::NoRequest));
        assert_eq!(
            json("0.5", "16"),
            Err(HoldReason::Stale(Duration::from_secs(16)))
        );
        assert_eq!(json("0.5", "-1"), Err(HoldReason::FromTheFuture));
        assert_eq!(
            json("-1.5", "0"),
            Err(HoldReason::NoMatchingValue("-1.5".into()))
        );
        assert_eq!(json("7", "0"), Err(HoldReason::NoMatchingValue("7".into())));
        for (value, age) in [
            ("\"0.5\"", "0"),
            ("NaN", "0"),
            ("0.5", "\"1\""),
            ("true", "0"),
            ("1e999", "0"),
        ] {
            assert!(
                matches!(json(value, age), Err(HoldReason::NoReport(_))),
                "{value} {age}"
            );
        }
    }

    #[test]
    fn metrics_are_read_by_name() {
        let text = "# HELP x y\ntailbound_service_level 0.5\ntailbound_service_level_matching_value -0.25\n\
                    tailbound_service_level_age_seconds 3\nshop_match{a=\"} 7\"} 0.75 1700000000\ntwo{a=\"1\"} 1\ntwo{a=\"2\"} 1\nnan NaN\n";
        let read = |metric| {
            from_metrics(text.as_bytes(), metric, STALE_AFTER)
                .map(|one| one.matching_value.millionths())
        };
        assert_eq!(read(None), Ok(-250_000));
        let usual = from_metrics(text.as_bytes(), None, STALE_AFTER).unwrap();
        assert_eq!(usual.service_level, Some(0.5));
        assert_eq!(read(Some("shop_match")), Ok(750_000));
        assert!(matches!(read(Some("two")), Err(HoldReason::NoReport(_))));
        assert!(matches!(read(Some("shop")), Err(HoldReason::NoReport(_))));
        assert_eq!(
            read(Some("nan")),
            Err(HoldReason::NoMatchingValue("NaN".into()))
        );
        let stale = text.replace("age_seconds 3", "age_seconds 99");
        assert_eq!(
            from_metrics(stale.as_bytes(), None, STALE_AFTER),
            Err(HoldReason::Stale(Duration::from_secs(99)))
        );
        assert_eq!(
            from_metrics(b"tailbound_service_level 1\n", None, STALE_AFTER),
            Err(HoldReason::NoRequest)
        );
    }

    #[test]
    fn an_answer_to_a_query_is_read() {
        let read = |result: &str| {
            let body = format!("{{\"status\":\"success\",\"data\":{result}}}");
            from_query(body.as_bytes(), 1000.0, STALE_AFTER).map(MatchingValue::millionths)
        };
        let vector = |samples: &str| {
            read(&format!(
                "{{\"resultType\":\"vector\",\"result\":[{samples}]}}"
            ))
        };
        assert_eq!(
            vector("{\"metric\":{},\"value\":[999.5,\"-0.5\"]}"),
            Ok(-500_000)
        );
        assert_eq!(
            read("{\"resultType\":\"scalar\",\"result\":[1000,\"0.5\"]}"),
            Ok(500_000)
        );
        assert_eq!(vector(""), Err(HoldReason::NoRequest));
        assert_eq!(
            vector("{\"value\":[1002,\"0\"]}"),
            Err(HoldReason::FromTheFuture)
        );
        assert_eq!(
            vector("{\"value\":[900,\"0\"]}"),
            Err(HoldReason::Stale(Duration::from_secs(100)))
        );
        assert_eq!(
            vector("{\"value\":[1000,\"NaN\"]}"),
            Err(HoldReason::NoMatchingValue("NaN".into()))
        );
        assert!(matches!(
            vector("{\"value\":[1,\"0\"]},{\"value\":[1,\"0\"]}"),
            Err(HoldReason::NoReport(_))
        ));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_are_a_value_or_a_reason(body in prop::collection::vec(any::<u8>(), 0..200), text in "[a-z_{}\": 0-9.,\\-\\[\\]\n]{0,200}") {
            for bytes in [&body[..], text.as_bytes()] {
                let _ = from_json(bytes, STALE_AFTER);
                let _ = from_metrics(bytes, Some("a"), STALE_AFTER);
                let _ = from_query(bytes, 0.0, STALE_AFTER);
            }
        }
    }
}
