//! One request for a report, and its answer.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration as Pause, Instant as Moment, SystemTime};

use tailbound_balance::{BalancedApplication, HoldReason, LevelReport, SourceAddress, report};
use tailbound_linux::control_socket::connect_within;
use tailbound_time::Duration;

/// The longest answer that is read.
const LONGEST_ANSWER: usize = 256 * 1024;
/// Why there is no answer, where the application may be overloaded.
const NOT_IN_TIME: &str = "not in time";
/// The most headers of an answer.
const MOST_HEADERS: usize = 64;

/// Asks an application for its report.
///
/// # Errors
/// Why there is no measurement.
pub fn level_report(
    application: &BalancedApplication,
    answer_within: Duration,
    stale_after: Duration,
) -> Result<LevelReport, HoldReason> {
    let deadline = Moment::now() + Pause::from_nanos(answer_within.as_nanos());
    let answer = ask(application, deadline).map_err(|error| {
        let is_late = [io::ErrorKind::TimedOut, io::ErrorKind::WouldBlock].contains(&error.kind());
        HoldReason::NoAnswer(if is_late {
            NOT_IN_TIME.to_owned()
        } else {
            error.to_string()
        })
    })?;
    let body = body(&answer)?;
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

/// All bytes of the answer, head and body.
fn ask(application: &BalancedApplication, deadline: Moment) -> io::Result<Vec<u8>> {
    let accept = if application.metric.is_some() {
        "text/plain"
    } else {
        "application/json"
    };
    let left = left(deadline)?;
    match application.source().map_err(io::Error::other)? {
        SourceAddress::Http { address, path } => {
            let stream = TcpStream::connect_timeout(&address, left)?;
            converse(
                stream,
                &request(&path, &address.to_string(), accept),
                deadline,
            )
        }
        SourceAddress::Unix { socket, path } => {
            let limit = Duration::from_nanos(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            let stream = connect_within(&socket, limit)?;
            converse(stream, &request(&path, "localhost", accept), deadline)
        }
        SourceAddress::Prometheus { address } => {
            let query = escaped(application.query.as_deref().unwrap_or_default());
            let path = format!("/api/v1/query?query={query}");
            let stream = TcpStream::connect_timeout(&address, left)?;
            converse(
                stream,
                &request(&path, &address.to_string(), accept),
                deadline,
            )
        }
    }
}

/// HTTP/1.0, so that no answer comes in chunks, and the connection ends with it.
fn request(path: &str, host: &str, accept: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: {host}\r\nAccept: {accept}\r\nConnection: close\r\n\r\n")
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

/// A stream whose waits have an end.
trait TimedStream: Read + Write {
    fn limit_waits(&self, limit: Pause) -> io::Result<()>;
}

impl TimedStream for TcpStream {
    fn limit_waits(&self, limit: Pause) -> io::Result<()> {
        self.set_write_timeout(Some(limit))?;
        self.set_read_timeout(Some(limit))
    }
}

impl TimedStream for UnixStream {
    fn limit_waits(&self, limit: Pause) -> io::Result<()> {
        self.set_write_timeout(Some(limit))?;
        self.set_read_timeout(Some(limit))
    }
}

/// Sends a request and reads until the other side has said all, within the time and the longest answer.
fn converse(mut stream: impl TimedStream, request: &str, deadline: Moment) -> io::Result<Vec<u8>> {
    stream.limit_waits(left(deadline)?)?;
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    let mut part = [0; 8192];
    loop {
        if is_whole(&answer) {
            return Ok(answer);
        }
        stream.limit_waits(left(deadline)?)?;
        let read = match stream.read(&mut part) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(too_late()),
            read => read?,
        };
        if read == 0 {
            return Ok(answer);
        }
        answer.extend_from_slice(&part[..read]);
        if answer.len() > LONGEST_ANSWER {
            return Err(io::Error::other(format!(
                "the answer is longer than {LONGEST_ANSWER} bytes"
            )));
        }
    }
}

fn left(deadline: Moment) -> io::Result<Pause> {
    let left = deadline.saturating_duration_since(Moment::now());
    if left.is_zero() {
        Err(too_late())
    } else {
        Ok(left)
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, NOT_IN_TIME)
}

/// The status and the place of the body in an answer; none while its head is not whole.
fn head(answer: &[u8]) -> Result<Option<(u16, usize, Option<usize>)>, HoldReason> {
    let mut headers = [httparse::EMPTY_HEADER; MOST_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let parsed = response
        .parse(answer)
        .map_err(|error| HoldReason::NoReport(format!("no HTTP: {error}")))?;
    let httparse::Status::Complete(begin) = parsed else {
        return Ok(None);
    };
    let length = response
        .headers
        .iter()
        .find(|one| one.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|one| std::str::from_utf8(one.value).ok()?.trim().parse().ok());
    Ok(Some((response.code.unwrap_or(0), begin, length)))
}

/// Whether an answer says how long it is, and is so long.
fn is_whole(answer: &[u8]) -> bool {
    let Ok(Some((_, begin, Some(length)))) = head(answer) else {
        return false;
    };
    answer.len() - begin >= length
}

fn body(answer: &[u8]) -> Result<&[u8], HoldReason> {
    match head(answer)? {
        Some((200, begin, Some(length))) if answer.len() - begin < length => {
            Err(HoldReason::NoReport("the answer ends early".to_owned()))
        }
        Some((200, begin, length)) => {
            let end = length.map_or(answer.len(), |length| begin + length);
            Ok(&answer[begin..end])
        }
        Some((status, ..)) => Err(HoldReason::NoReport(format!("the status is {status}"))),
        None => Err(HoldReason::NoReport("the answer ends early".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::net::TcpListener;
    use std::thread;

    use proptest::prelude::*;

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
        assert!(request.starts_with("GET /level HTTP/1.0\r\n"), "{request}");
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
        assert!(matches!(
            answered(answer, |_| {}).0,
            Err(HoldReason::NoAnswer(_))
        ));
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

    proptest! {
        #[test]
        fn arbitrary_answers_are_a_body_or_a_reason(answer in prop::collection::vec(any::<u8>(), 0..300), begin in 0_usize..3) {
            let begins: [&[u8]; 3] = [b"", b"HTTP/1.1 200 OK\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n"];
            let whole = [begins[begin], &answer].concat();
            let _ = (is_whole(&whole), body(&whole));
        }
    }
}
