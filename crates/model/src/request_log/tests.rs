#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::form::nanoseconds;
use super::*;

fn read(text: &str) -> Result<RequestLog, String> {
    parse_request_log(text, None, "log").map_err(|problems| problems.to_string())
}

/// Begins and ends in microseconds after 2026-04-15T20:17:00Z.
fn microseconds(log: &RequestLog) -> Vec<(i64, i64)> {
    let after = |instant: Duration| (instant.as_nanos() as i64 - 1_776_284_220_000_000_000) / 1_000;
    let both = |request: &LoggedRequest| (after(request.start), after(request.end));
    log.requests.iter().map(both).collect()
}

#[test]
fn each_program_s_lines_tell_the_same_requests() {
    let nginx = "127.0.0.1 - - \"GET / HTTP/1.1\" 200 msec=1776284220.310, request_time=\"0.010\"\n\
                 127.0.0.1 - - \"GET /a;msec=1;b HTTP/1.1\" 200 msec=1776284220.305 request_time=0.002\n";
    let as_json = "{\"msec\": \"1776284220.305\", \"request_time\": \"0.002\"}\n\
                   {\"msec\": 1776284220.310, \"request_time\": 0.01}\n";
    let caddy = "{\"ts\": 1776284220.310, \"duration\": 1e-2, \"status\": 200}\n\
                 {\"ts\": 1776284220.305, \"duration\": 0.002}\n";
    let envoy = "{\"start_time\": \"2026-04-15T20:17:00.300Z\", \"duration\": 10}\n\
                 {\"start_time\": \"2026-04-15T20:17:00.303Z\", \"duration\": \"2\"}\n";
    let traefik = "{\"StartUTC\": \"2026-04-15T20:17:00.3Z\", \"Duration\": 10000000}\n\
                   {\"StartUTC\": \"2026-04-15T20:17:00.303Z\", \"Duration\": 2000000}\n";
    let expected = vec![(300_000, 310_000), (303_000, 305_000)];
    for text in [nginx, as_json, envoy, traefik] {
        assert_eq!(microseconds(&read(text).unwrap()), expected, "{text}");
    }
    // A number of JSON this large is exact to a quarter of a microsecond.
    for (one, other) in microseconds(&read(caddy).unwrap()).iter().zip(&expected) {
        assert!((one.0 - other.0).abs() <= 1 && (one.1 - other.1).abs() <= 1);
    }
    let resolutions = [nginx, caddy, envoy, traefik].map(|text| read(text).unwrap().resolution);
    let expected = [1_000, 1, 2_000, 0].map(Duration::from_micros);
    assert_eq!(resolutions, expected);
}

const SPANS: &str = r#"{"resourceSpans": [{"resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "web"}}]},
 "scopeSpans": [{"spans": [
  {"name": "GET /", "kind": 2, "startTimeUnixNano": "1776284220300000000", "endTimeUnixNano": "1776284220310000000"},
  {"name": "query", "kind": 3, "startTimeUnixNano": "1776284220301000000", "endTimeUnixNano": "1776284220302000000"}]}]}]}
{"resourceSpans": [{"scopeSpans": [{"spans": [
  {"name": "GET /", "kind": "SPAN_KIND_SERVER", "startTimeUnixNano": 1776284220303000000, "endTimeUnixNano": 1776284220305000000}]}]}]}
"#;

#[test]
fn spans_of_servers_are_requests_of_their_services() {
    let of = |service| {
        let log = parse_request_log(SPANS, Some(service), "spans.json");
        log.map(|log| microseconds(&log))
            .map_err(|problems| problems.to_string())
    };
    assert_eq!(of("web").unwrap(), [(300_000, 310_000)]);
    assert_eq!(of("").unwrap(), [(303_000, 305_000)]);
    let several = read(SPANS).unwrap_err();
    assert!(several.contains("several services"), "{several}");
    assert!(several.contains("one without a name, web"), "{several}");
    assert!(of("shop").unwrap_err().contains("of service shop"));
    let one = SPANS.lines().take(4).collect::<String>();
    assert_eq!(microseconds(&read(&one).unwrap()).len(), 1);
    let clients = one.replace("\"kind\": 2", "\"kind\": 3");
    assert!(read(&clients).unwrap_err().contains("of kind server"));
    let backwards = one.replace("1776284220310000000", "1776284220210000000");
    assert!(
        read(&backwards)
            .unwrap_err()
            .contains("ends before it begins")
    );
    let cut_off = &SPANS[..SPANS.len() - 8];
    let error = read(cut_off).unwrap_err();
    assert!(error.contains("log:6") && error.contains("EOF"), "{error}");
}

#[test]
fn what_is_no_log_is_told_with_its_line() {
    for (text, place, words) in [
        ("", "log:1:1", "no request"),
        ("200 GET /\n", "log:1:1", "no form that is known"),
        ("{\"ts\": 1\n", "log:1:1", "no JSON"),
        (
            "msec=2.5 request_time=0.1\n\nmsec=2.6\n",
            "log:3:1",
            "no request_time",
        ),
        (
            "msec=2.5 request_time=-\n",
            "log:1:1",
            "request_time is \"-\"",
        ),
        ("msec=2.5 request_time=3\n", "log:1:1", "msec is \"2.5\""),
        (
            "{\"start_time\": \"yesterday\", \"duration\": 3}",
            "log:1:1",
            "start_time is",
        ),
        (
            "{\"ts\": 5, \"duration\": -0.5}",
            "log:1:1",
            "duration is \"-0.5\"",
        ),
    ] {
        let error = read(text).unwrap_err();
        assert!(
            error.contains(place) && error.contains(words),
            "{text}: {error}"
        );
    }
    let named = parse_request_log("msec=2.5 request_time=0.1", Some("web"), "log");
    assert!(named.unwrap_err().to_string().contains("no services"));
}

#[test]
fn decimals_are_exact() {
    for (text, unit, expected) in [
        (
            "1776284220.123456789",
            1_000_000_000,
            Some(1_776_284_220_123_456_789),
        ),
        ("0.0000000019", 1_000_000_000, Some(1)),
        ("10.", 1_000, Some(10_000)),
        ("1.2e-5", 1_000_000_000, Some(12_000)),
        ("", 1, None),
        (".5", 1, None),
        ("-1", 1, None),
        ("NaN", 1, None),
        ("1e30", 1, None),
        ("18446744073709551616", 1, None),
        ("18446744073709551615", 2, None),
    ] {
        assert_eq!(nanoseconds(text, unit), expected, "{text}");
    }
}

proptest! {
    #[test]
    fn any_text_is_a_log_or_is_told_why_not(text in ".{0,200}", at in 0_usize..1_000, by in ".{0,3}") {
        let _ = read(&text);
        let mut spans = SPANS.to_owned();
        let at = at.min(spans.len() - 1);
        spans.replace_range(at..=at, &by);
        if let Ok(log) = read(&spans) {
            prop_assert!(log.requests.iter().all(|request| request.start <= request.end));
        }
    }

    #[test]
    fn requests_are_in_order(times in proptest::collection::vec((0_u64..5_000, 0_u64..500), 1..20)) {
        let lines = times.iter().map(|(end, length)| {
            let end = end + 1_000;
            format!("msec={}.{:03} request_time=0.{length:03}\n", end / 1_000, end % 1_000)
        });
        let log = read(&lines.collect::<String>()).unwrap();
        prop_assert!(log.requests.is_sorted());
        prop_assert_eq!(log.requests.len(), times.len());
    }
}
