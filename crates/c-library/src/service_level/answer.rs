//! The answer to a request for a report, as docs/reference/service-level-interface.md has it; text in, text out.

use std::fmt::Write as _;

use super::controller::LevelAccount;

/// The path of the report.
const PATH: &str = "/tailbound/service-level";

/// The form of a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReportFormat {
    Json,
    Prometheus,
}

/// The report as JSON.
pub(crate) fn json(report: &LevelAccount) -> String {
    let number = |number: Option<f64>| number.map_or("null".to_owned(), |one| format!("{one:?}"));
    let seconds = |ns: Option<i128>| number(ns.map(|ns| ns as f64 / 1e9));
    format!(
        "{{\"matching_value\": {}, \"service_level\": {}, \"latency_seconds\": {}, \"deadline_seconds\": {}, \
         \"requests\": {}, \"age_seconds\": {}}}",
        number(report.matching_value()),
        number(Some(report.service_level)),
        seconds(report.latency_ns),
        seconds(Some(report.deadline_ns)),
        report.requests,
        seconds(report.age_ns)
    )
}

/// The report as metrics.
fn metrics(report: &LevelAccount) -> String {
    let seconds = |ns: i128| ns as f64 / 1e9;
    let samples = [
        ("", "gauge", Some(report.service_level)),
        ("_matching_value", "gauge", report.matching_value()),
        ("_latency_seconds", "gauge", report.latency_ns.map(seconds)),
        (
            "_deadline_seconds",
            "gauge",
            Some(seconds(report.deadline_ns)),
        ),
        ("_requests_total", "counter", Some(report.requests as f64)),
        ("_age_seconds", "gauge", report.age_ns.map(seconds)),
    ];
    let mut text = String::new();
    for (suffix, kind, value) in samples {
        if let Some(value) = value {
            let name = format!("tailbound_service_level{suffix}");
            // Writing to a String cannot fail.
            let _written = writeln!(text, "# TYPE {name} {kind}\n{name} {value}");
        }
    }
    text
}

/// The whole answer to the head of a request.
pub(crate) fn answer(head: &str, report: impl FnOnce() -> LevelAccount) -> String {
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (method, target) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let is_http = words
        .next()
        .is_some_and(|version| version.starts_with("HTTP/1."));
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let accept = lines.filter_map(|line| line.split_once(':'));
    let mut accept = accept.filter(|(name, _)| name.eq_ignore_ascii_case("accept"));
    let accept = accept.next().map_or("", |(_, value)| value);
    if !is_http {
        return whole("400 Bad Request", "", "", true);
    }
    if path != PATH {
        return whole("404 Not Found", "", "", method != "HEAD");
    }
    if !["GET", "HEAD"].contains(&method) {
        return whole("405 Method Not Allowed", "Allow: GET, HEAD\r\n", "", true);
    }
    let Some(format) = format(query, accept) else {
        return whole("400 Bad Request", "", "", method != "HEAD");
    };
    let (kind, body) = match format {
        ReportFormat::Json => ("application/json", json(&report())),
        ReportFormat::Prometheus => (
            "text/plain; version=0.0.4; charset=utf-8",
            metrics(&report()),
        ),
    };
    let headers = format!("Content-Type: {kind}\r\n");
    whole("200 OK", &headers, &body, method == "GET")
}

fn whole(status: &str, headers: &str, body: &str, has_body: bool) -> String {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}Cache-Control: no-store\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    match has_body {
        true => head + body,
        false => head,
    }
}

/// The form that is asked for: by the query, which goes before the header; none if it is no form.
fn format(query: &str, accept: &str) -> Option<ReportFormat> {
    let mut asked = query
        .split('&')
        .filter_map(|one| one.strip_prefix("format="));
    match asked.next() {
        Some("json") => return Some(ReportFormat::Json),
        Some("prometheus") => return Some(ReportFormat::Prometheus),
        Some(_) => return None,
        None => {}
    }
    let text = preference(accept, "text/plain");
    let json = preference(accept, "application/json");
    Some(match text > json {
        true => ReportFormat::Prometheus,
        false => ReportFormat::Json,
    })
}

/// How much an Accept header wants a type: by the most exact range that has it.
fn preference(accept: &str, kind: &str) -> f64 {
    let family = kind.split_once('/').map_or("", |(family, _)| family);
    let mut best = (0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let exactness = match parts.next().unwrap_or("") {
            named if named.eq_ignore_ascii_case(kind) => 3,
            named if named.eq_ignore_ascii_case(&format!("{family}/*")) => 2,
            "*/*" => 1,
            _ => continue,
        };
        let quality = parts.find_map(|part| part.strip_prefix("q="));
        let quality = quality.map_or(Some(1.0), |text| text.parse::<f64>().ok());
        let quality = quality
            .filter(|one| (0.0..=1.0).contains(one))
            .unwrap_or(0.0);
        if exactness > best.0 || exactness == best.0 && quality > best.1 {
            best = (exactness, quality);
        }
    }
    best.1
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    const SCENARIOS: &str = include_str!("../../../../docs/reference/service-level-scenarios.json");

    const REPORT: LevelAccount = LevelAccount {
        service_level: 0.62,
        deadline_ns: 1_000_000_000,
        latency_ns: Some(1_310_000_000),
        requests: 4711,
        age_ns: Some(400_000_000),
    };

    #[test]
    fn forms_are_those_of_the_interface() {
        let all: Value = serde_json::from_str(SCENARIOS).unwrap();
        for case in all["formats"].as_array().unwrap() {
            let text = |key: &str| case[key].as_str().unwrap();
            let head = format!(
                "{} {PATH}?{} HTTP/1.1\r\nAccept: {}\r\n\r\n",
                text("method"),
                text("query"),
                text("accept")
            );
            let answer = answer(&head, || REPORT);
            let status = case["status"].as_u64().unwrap();
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status} ")),
                "{case}: {answer}"
            );
            let kind = match case["format"].as_str() {
                Some("json") => "Content-Type: application/json\r\n",
                Some(_) => "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n",
                None => "Cache-Control: no-store\r\n",
            };
            assert!(answer.contains(kind), "{case}: {answer}");
            assert_eq!(
                answer.contains("Allow: GET, HEAD\r\n"),
                status == 405,
                "{case}"
            );
            assert_eq!(
                answer.ends_with("\r\n\r\n"),
                text("method") == "HEAD" || status != 200
            );
        }
    }

    #[test]
    fn a_report_has_all_keys_and_metrics_have_those_with_a_value() {
        let report: Value = serde_json::from_str(&json(&REPORT)).unwrap();
        assert_eq!(report["service_level"], 0.62);
        assert_eq!(report["latency_seconds"], 1.31);
        assert_eq!(report["requests"], 4711);
        let quiet = LevelAccount {
            latency_ns: None,
            age_ns: None,
            ..REPORT
        };
        let report: Value = serde_json::from_str(&json(&quiet)).unwrap();
        assert_eq!(report["matching_value"], Value::Null);
        assert_eq!(report.as_object().unwrap().len(), 6);
        let text = metrics(&quiet);
        assert!(
            text.contains("\ntailbound_service_level_requests_total 4711\n"),
            "{text}"
        );
        assert!(
            !text.contains("matching_value") && !text.contains("age"),
            "{text}"
        );
    }

    proptest! {
        #[test]
        fn any_head_gets_an_answer(head in ".{0,200}") {
            let text = answer(&head, || REPORT);
            prop_assert!(text.starts_with("HTTP/1.1 "));
        }
    }
}
