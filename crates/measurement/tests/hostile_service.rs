//! Services that are not there, refuse, hang up, answer garbage or nothing.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::testbed::*;
use tailbound_linux::clock::Monotonic;
use tailbound_measurement::{
    CalibrationPlan, Endpoint, Measurement, MeasurementError, Progress, ServiceTimeSource,
    await_readiness, await_service, measure,
};
use tailbound_model::{Protocol, Request, Service};
use tailbound_time::{Clock, Duration};

fn ignore(_: Progress) {}

/// A service that does `behave` with each of its connections, one after the other.
fn misbehaving(
    folder: &Path,
    connections: usize,
    behave: impl Fn(UnixStream) + Send + 'static,
) -> Endpoint {
    let path = folder.join("bad");
    let listener = UnixListener::bind(&path).unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().take(connections).flatten() {
            behave(stream);
        }
    });
    Endpoint::Unix(path)
}

fn pinging() -> Service {
    let mut task = task(periodic(ms(5), ms(0)), ms(1));
    task.request = Some(command(&["PING"]));
    service(Protocol::Redis, &[("ping", task)])
}

/// Where whatever happens to the connection ends the measurement.
const UNTIL_IT_ENDS: Duration = Duration::from_secs(30);

fn measured_against(endpoint: &Endpoint, service: &Service, drain: Duration) -> Measurement {
    let mut plan = plan(service, endpoint, ms(0), ms(200));
    plan.drain = drain;
    measure(&plan, NEVER, &mut ignore).unwrap()
}

#[test]
fn nobody_there_is_a_connect_error() {
    let folder = tempfile::tempdir().unwrap();
    let missing = Endpoint::Unix(folder.path().join("none"));
    let closed = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Endpoint::Tcp(listener.local_addr().unwrap())
    };
    let stale = folder.path().join("stale");
    drop(UnixListener::bind(&stale).unwrap());
    for endpoint in [missing, closed, Endpoint::Unix(stale)] {
        let plan = plan(&pinging(), &endpoint, ms(0), ms(100));
        let error = measure(&plan, NEVER, &mut ignore).unwrap_err();
        assert!(matches!(error, MeasurementError::Connect { .. }), "{error}");
        let error = await_service(&endpoint, Protocol::Redis, ms(50), NEVER).unwrap_err();
        assert!(
            matches!(error, MeasurementError::NotReady { .. }),
            "{error}"
        );
    }
}

/// Answers that are errors say that the service is not ready; each is asked for anew until one is good.
#[test]
fn a_service_is_ready_at_the_first_good_answer() {
    let folder = tempfile::tempdir().unwrap();
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let endpoint = misbehaving(folder.path(), 3, move |mut stream| {
        let mut head = [0; 1024];
        let length = stream.read(&mut head).unwrap();
        assert!(head[..length].starts_with(b"GET /ready HTTP/1.1\r\n"));
        let status = match counted.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => "503 Service Unavailable",
            _ => "200 OK",
        };
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n").unwrap();
    });
    let mut service = pinging();
    service.protocol = Protocol::Http;
    service.ready = Some(Request::Http {
        path: "/ready".into(),
    });
    await_readiness(&service, &endpoint, UNTIL_IT_ENDS, NEVER).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 3);
    let error = await_readiness(&service, &endpoint, ms(50), NEVER).unwrap_err();
    assert!(
        matches!(error, MeasurementError::NotReady { .. }),
        "nobody answers any more: {error}"
    );
}

#[test]
fn hanging_up_interrupts_and_open_requests_become_lower_bounds() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 1, |mut stream| {
        let mut buffer = [0; 14];
        for _ in 0..3 {
            stream.read_exact(&mut buffer).unwrap();
            stream.write_all(b"+PONG\r\n").unwrap();
        }
        stream.read_exact(&mut buffer).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        // With requests unread the end would be a reset.
        let _until_they_leave = stream.read_to_end(&mut Vec::new());
    });
    let measured = measured_against(&endpoint, &pinging(), UNTIL_IT_ENDS);
    let interrupted = measured.interrupted.unwrap();
    assert!(interrupted.contains("closed"), "{interrupted}");
    assert_eq!(measured.counts.answered, 3);
    assert!(measured.counts.unanswered >= 1);
    assert!(!measured.overall.censored().is_empty());
}

#[test]
fn garbage_interrupts_with_the_protocol_named() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 1, |mut stream| {
        let mut buffer = [0; 14];
        stream.read_exact(&mut buffer).unwrap();
        stream
            .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            .unwrap();
        let _until_they_leave = stream.read_to_end(&mut Vec::new());
    });
    let measured = measured_against(&endpoint, &pinging(), UNTIL_IT_ENDS);
    let interrupted = measured.interrupted.unwrap();
    assert!(interrupted.contains("RESP2"), "{interrupted}");
}

#[test]
fn an_answer_to_nothing_interrupts() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 1, |mut stream| {
        stream.write_all(b"+OK\r\n").unwrap();
        let _until_they_leave = stream.read_to_end(&mut Vec::new());
    });
    // Nothing is asked before the answer is there.
    let service = pinging();
    let mut plan = plan(&service, &endpoint, ms(0), ms(200));
    plan.start_at = Some(Monotonic.now().saturating_add(UNTIL_IT_ENDS));
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    let interrupted = measured.interrupted.unwrap();
    assert!(interrupted.contains("not asked"), "{interrupted}");
}

#[test]
fn a_silent_service_ends_with_the_drain_and_nothing_answered() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 1, |mut stream| {
        let _until_they_leave = stream.read_to_end(&mut Vec::new());
    });
    let measured = measured_against(&endpoint, &pinging(), ms(100));
    assert_eq!(measured.interrupted, None);
    assert_eq!((measured.counts.sent, measured.counts.unanswered), (40, 40));
    assert_eq!(measured.overall.censored().len(), 40);
}

#[test]
fn a_service_that_reads_nothing_does_not_block_the_generator() {
    let folder = tempfile::tempdir().unwrap();
    let (ended, measuring) = std::sync::mpsc::channel::<()>();
    let endpoint = misbehaving(folder.path(), 1, move |stream| {
        let _until_all_was_measured = measuring.recv();
        drop(stream);
    });
    let mut service = pinging();
    let large = "x".repeat(100_000);
    service.tasks.get_mut("ping").unwrap().request = Some(command(&["SET", "k", &large]));
    let measured = measured_against(&endpoint, &service, ms(100));
    drop(ended);
    assert_eq!(measured.counts.released, 40);
    assert_eq!(measured.counts.answered, 0);
}

/// Answers on each connection as an HTTP server that ends every third response by closing.
fn closing_http(mut stream: UnixStream, error_status: &str) {
    let error =
        format!("HTTP/1.1 {error_status}\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n");
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
        &error,
        "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nuntil the end",
    ];
    for answer in answers {
        let mut request = Vec::new();
        while !request.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            if stream.read_exact(&mut byte).is_err() {
                return;
            }
            request.extend_from_slice(&byte);
        }
        assert!(request.starts_with(b"GET /x HTTP/1.1\r\n"));
        stream.write_all(answer.as_bytes()).unwrap();
    }
}

fn getting() -> Service {
    let mut task = task(periodic(ms(10), ms(0)), ms(1));
    task.request = Some(Request::Http { path: "/x".into() });
    service(Protocol::Http, &[("get", task)])
}

#[test]
fn http_is_calibrated_by_round_trips_over_connections_that_close() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 100, |stream| closing_http(stream, "200 OK"));
    let mut plan = CalibrationPlan::new("h", getting(), endpoint);
    plan.fifo_priority = None;
    (plan.requests, plan.warm_up, plan.limit) = (20, 2, NO_HURRY);
    let calibration = calibrated(&plan);
    assert_eq!(calibration.execution_times["get"].count(), Some(20));
    assert_eq!(calibration.source, ServiceTimeSource::RoundTrip);
    assert!(calibration.trivial_round_trip.is_none() && !calibration.remarks.is_empty());
}

#[test]
fn http_goes_on_after_a_close_and_counts_error_statuses() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = misbehaving(folder.path(), 100, |stream| {
        closing_http(stream, "503 Busy")
    });
    let mut service = getting();
    // What was sent before the close would be lost with it, if the machine stood still there.
    service.max_in_flight = Some(1);
    let mut plan = plan(&service, &endpoint, ms(0), ms(300));
    plan.drain = NO_HURRY;
    let measured = measure(&plan, NEVER, &mut ignore).unwrap();
    assert_eq!(measured.interrupted, None);
    assert_eq!(measured.counts.released, 30);
    assert_eq!(measured.counts.answered, 20);
    assert_eq!(measured.failures["HTTP status 503"], 10);
}

#[test]
fn plans_that_contradict_themselves_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let endpoint = Endpoint::Unix(folder.path().join("none"));
    let good = plan(&pinging(), &endpoint, ms(0), ms(100));
    let mut empty = good.clone();
    empty.releases.clear();
    let mut unsorted = good.clone();
    unsorted.releases.reverse();
    let mut closed = good.clone();
    closed.service.max_in_flight = Some(0);
    for plan in [empty, unsorted, closed] {
        let error = measure(&plan, NEVER, &mut ignore).unwrap_err();
        assert!(matches!(error, MeasurementError::BadPlan { .. }), "{error}");
    }
    let server = SyntheticService::start_in(folder.path(), tailbound_model::Scheduling::Fifo);
    let mut unknown = good.clone();
    unknown.endpoint = server.endpoint.clone();
    unknown.releases[0].task = "nobody".into();
    let error = measure(&unknown, NEVER, &mut ignore).unwrap_err();
    assert!(error.to_string().contains("nobody"), "{error}");
    let mut busy = good;
    busy.endpoint = server.endpoint.clone();
    let request = Some(command(&["EVAL", "{busy:1ms}"]));
    busy.service.tasks.get_mut("ping").unwrap().request = request;
    let error = measure(&busy, NEVER, &mut ignore).unwrap_err();
    assert!(error.to_string().contains("calibrate"), "{error}");
}
