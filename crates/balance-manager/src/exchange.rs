//! One request for a report, and its answer.

use std::time::SystemTime;

use tailbound_balance::{BalancedApplication, HoldReason, LevelReport, SourceAddress, report};
use tailbound_measurement::{ReportRequest, ReportRequestError, ReportSocket, fetch_report};
use tailbound_time::Duration;

/// The longest answer that is read, in bytes.
const LONGEST_ANSWER: usize = 256 * 1024;
/// Why there is no answer, where the application may be overloaded.
const NOT_IN_TIME: &str = "not in time";

/// Asks an application for its report.
///
/// # Errors
/// Why there is no measurement.
pub fn level_report(
    application: &BalancedApplication,
    answer_within: Duration,
    stale_after: Duration,
) -> Result<LevelReport, HoldReason> {
    let body = ask(application, answer_within)?;
    let body = body.as_slice();
    match (application.source(), &application.metric) {
        (Ok(SourceAddress::Prometheus { .. }), _) => {
            report::from_query(body, unix_seconds(), stale_after).map(LevelReport::from)
        }
        (_, Some(metric)) => report::from_metrics(body, Some(metric), stale_after),
        (_, None) => report::from_json(body, stale_after),
    }
}

/// Whether an application was asked and did not answer in time, as one does that is overloaded; a dead one refuses.
pub(crate) fn is_late(reason: &HoldReason) -> bool {
    matches!(reason, HoldReason::NoAnswer(text) if text == NOT_IN_TIME)
}

/// The time of the wall clock, which a Prometheus server dates its samples by.
fn unix_seconds() -> f64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The body of the answer.
fn ask(application: &BalancedApplication, within: Duration) -> Result<Vec<u8>, HoldReason> {
    let accept = match application.metric {
        Some(_) => "text/plain",
        None => "application/json",
    };
    let source = application.source();
    let source = source.map_err(|error| HoldReason::NoAnswer(error.to_string()))?;
    let (socket, host, path) = match &source {
        SourceAddress::Http { address, path } => (
            ReportSocket::Tcp(std::slice::from_ref(address)),
            address.to_string(),
            path.clone(),
        ),
        SourceAddress::Unix { socket, path } => (
            ReportSocket::Unix(socket),
            "localhost".to_owned(),
            path.clone(),
        ),
        SourceAddress::Prometheus { address } => {
            let query = escaped(application.query.as_deref().unwrap_or_default());
            (
                ReportSocket::Tcp(std::slice::from_ref(address)),
                address.to_string(),
                format!("/api/v1/query?query={query}"),
            )
        }
    };
    let request = ReportRequest {
        socket,
        tls: None,
        host: &host,
        path: &path,
        accept,
        within,
        limit_bytes: LONGEST_ANSWER,
    };
    fetch_report(&request).map_err(|error| match error {
        ReportRequestError::TooLate(_) => HoldReason::NoAnswer(NOT_IN_TIME.to_owned()),
        ReportRequestError::Connection(error) => HoldReason::NoAnswer(error.to_string()),
        error => HoldReason::NoReport(error.to_string()),
    })
}

/// A query as a part of a URL.
fn escaped(query: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
            char::from(byte).to_string()
        }
        other => format!("%{other:02X}"),
    };
    query.bytes().map(escape).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    const GENEROUS: Duration = Duration::from_secs(60);

    fn application(source: &str) -> BalancedApplication {
        BalancedApplication {
            domains: Vec::new(),
            source: source.to_owned(),
            metric: None,
            query: None,
            least: Duration::ZERO,
            most: None,
            weight: 1,
            promise: None,
            simulated: None,
        }
    }

    /// The outcome of asking a server that gives this answer once, and the request that the server got.
    fn answered(
        answer: &'static [u8],
        change: impl Fn(&mut BalancedApplication),
    ) -> (Result<i32, HoldReason>, String) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut application =
            application(&format!("http://{}/level", listener.local_addr().unwrap()));
        change(&mut application);
        let server = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && stream.read(&mut byte).unwrap() == 1 {
                request.extend(byte);
            }
            let _ = stream.write_all(answer);
            String::from_utf8(request).unwrap()
        });
        let report = level_report(&application, GENEROUS, Duration::from_secs(15));
        let value = report.map(|report| report.matching_value.millionths());
        (value, server.join().unwrap())
    }

    const REPORT: &[u8] =
        b"HTTP/1.1 200 OK\r\nContent-Length: 47\r\n\r\n{\"matching_value\": -0.500, \"age_seconds\": 0.10}tail";

    #[test]
    fn a_report_is_asked_for_and_read() {
        let (value, request) = answered(REPORT, |_| {});
        assert_eq!(value, Ok(-500_000));
        assert!(request.starts_with("GET /level HTTP/1.1\r\n"), "{request}");
        let (value, request) = answered(b"HTTP/1.0 200 OK\r\n\r\nshop 0.25\n", |one| {
            one.metric = Some("shop".into())
        });
        assert_eq!(value, Ok(250_000));
        assert!(request.contains("Accept: text/plain\r\n"), "{request}");
    }

    #[test]
    fn answers_that_are_no_report_are_reasons() {
        for answer in [
            &b""[..],
            b"HTTP/1.1 200",
            b"nonsense\r\n\r\n",
            b"HTTP/1.1 500 Oops\r\n\r\n{\"matching_value\": 0, \"age_seconds\": 0}",
            b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}",
            b"HTTP/1.1 200 OK\r\n\r\n<html>",
        ] {
            let (value, _) = answered(answer, |_| {});
            assert!(matches!(value, Err(HoldReason::NoReport(_))), "{value:?}");
        }
    }

    #[test]
    fn an_answer_without_end_is_cut() {
        let answer = Box::leak(vec![b'x'; LONGEST_ANSWER * 2].into_boxed_slice());
        answer[..19].copy_from_slice(b"HTTP/1.1 200 OK\r\n\r\n");
        let (value, _) = answered(answer, |_| {});
        let reason = value.unwrap_err().to_string();
        assert!(reason.contains("exceeds the limit"), "{reason}");
    }

    #[test]
    fn one_that_is_not_there_or_never_answers_is_a_reason() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        // The kernel takes the connection; nobody answers.
        let silent = application(&format!("http://{address}"));
        let limit = Duration::from_millis(50);
        assert!(matches!(
            level_report(&silent, limit, GENEROUS),
            Err(HoldReason::NoAnswer(_))
        ));
        let late = level_report(&silent, limit, GENEROUS).unwrap_err();
        assert!(is_late(&late), "{late}");
        drop(listener);
        let refused = level_report(&silent, GENEROUS, GENEROUS).unwrap_err();
        assert!(!is_late(&refused), "{refused}");
        assert!(matches!(
            level_report(&silent, GENEROUS, GENEROUS),
            Err(HoldReason::NoAnswer(_))
        ));
        let folder = tempfile::tempdir().unwrap();
        let nowhere = application(&format!("unix:{}", folder.path().join("socket").display()));
        assert!(matches!(
            level_report(&nowhere, GENEROUS, GENEROUS),
            Err(HoldReason::NoAnswer(_))
        ));
    }

    #[test]
    fn queries_are_escaped() {
        assert_eq!(
            escaped("1 - max(a{b=\"c\"})"),
            "1%20-%20max%28a%7Bb%3D%22c%22%7D%29"
        );
    }
}
