//! HTTP over TLS, and HTTP/2, against nginx and against servers of the tests.

use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::testbed::http2_server::serve_http2;
use crate::testbed::nginx::{NginxServer, TestAuthority, certify_itself};
use crate::testbed::*;
use crate::users::users;
use tailbound_measurement::{
    ConnectionCounts, Endpoint, Measurement, MeasurementError, Progress, RecordOutcome,
    await_service, measure,
};
use tailbound_model::{Arrivals, HttpVersion, Protocol, Request, Service, ServiceTls};
use tailbound_time::Duration;

fn ignore(_: Progress) {}

const BOTH: [HttpVersion; 2] = [HttpVersion::One, HttpVersion::Two];

/// A service at a socket, asked every 2 ms.
fn web(socket: &str, version: HttpVersion, path: &str) -> Service {
    let mut look = task(periodic(ms(2), ms(0)), us(10));
    look.request = Some(Request::Http { path: path.into() });
    Service {
        endpoint: format!("unix:{socket}"),
        http_version: version,
        ..service(Protocol::Http, &[("look", look)])
    }
}

fn secured(mut service: Service, authority: &str, name: &str) -> Service {
    service.tls = Some(ServiceTls {
        authority: authority.into(),
        server_name: Some(name.into()),
        certificate: None,
        key: None,
    });
    service
}

fn drive(service: &Service, folder: &Path, duration: Duration) -> Measurement {
    let endpoint = Endpoint::of_service(service, folder).unwrap();
    await_service(&endpoint, Protocol::Http, NO_HURRY, NEVER).unwrap();
    let mut plan = plan(service, &endpoint, ms(0), duration);
    plan.drain = NO_HURRY;
    measure(&plan, NEVER, &mut ignore).unwrap()
}

fn all_are_answered(measured: &Measurement, number: u64) {
    assert_eq!(measured.interrupted, None);
    assert_eq!(measured.failures, [].into());
    assert_eq!(measured.counts.answered, number);
}

/// Why a service cannot be driven.
fn refusal(service: &Service, folder: &Path) -> String {
    let endpoint = match Endpoint::of_service(service, folder) {
        Ok(endpoint) => endpoint,
        Err(error) => return error.to_string(),
    };
    let error = await_service(&endpoint, Protocol::Http, NO_HURRY, NEVER).unwrap_err();
    assert!(
        matches!(error, MeasurementError::Handshake { .. }),
        "{error}"
    );
    error.to_string()
}

/// One server of nginx on a socket with TLS, by the certificate of that name.
fn tls_server(socket: &str, certificate: &str, folder: &Path, more: &str) -> String {
    let root = folder.display();
    format!(
        "server {{ listen unix:{root}/{socket} ssl{more}\nssl_certificate {root}/{certificate}.pem;\n\
         ssl_certificate_key {root}/{certificate}.key; }}\n"
    )
}

#[test]
fn every_version_is_spoken_with_and_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = TestAuthority::make(folder, "authority");
    authority.certify("shop", 2999);
    std::fs::write(folder.join("page"), "hello").unwrap();
    std::fs::write(folder.join("large"), vec![b'x'; 3 << 20]).unwrap();
    let root = folder.display();
    let servers = [
        format!("server {{ listen unix:{root}/plain1; }}\n"),
        format!("server {{ listen unix:{root}/plain2 http2; }}\n"),
        tls_server("tls1", "shop", folder, ";"),
        tls_server("tls2", "shop", folder, " http2;"),
    ];
    let Some(_nginx) = NginxServer::start("versions", folder, &servers.concat()) else {
        return;
    };
    for version in BOTH {
        let number = if version == HttpVersion::One { 1 } else { 2 };
        let plain = web(&format!("plain{number}"), version, "/page?{random}");
        all_are_answered(&drive(&plain, folder, ms(100)), 50);
        let tls = web(&format!("tls{number}"), version, "/page");
        let tls = secured(tls, "authority.pem", "shop.test");
        let measured = drive(&tls, folder, ms(100));
        all_are_answered(&measured, 50);
        // Larger than what may be sent ahead: the client makes room as it reads.
        let large = secured(
            web(&format!("tls{number}"), version, "/large"),
            "authority.pem",
            "shop.test",
        );
        all_are_answered(&drive(&large, folder, ms(8)), 4);
        let missing = web(&format!("plain{number}"), version, "/missing");
        let measured = drive(&missing, folder, ms(20));
        assert_eq!(measured.failures["HTTP status 404"], 10);
    }
}

#[test]
fn users_wait_for_replies_in_every_version() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    TestAuthority::make(folder, "authority").certify("shop", 2999);
    std::fs::write(folder.join("page"), "hello").unwrap();
    let servers =
        tls_server("tls1", "shop", folder, ";") + &tls_server("tls2", "shop", folder, " http2;");
    let Some(_nginx) = NginxServer::start("users of HTTP", folder, &servers) else {
        return;
    };
    for (version, socket, streams) in [
        (HttpVersion::One, "tls1", None),
        (HttpVersion::Two, "tls2", Some(1)),
    ] {
        let mut service = secured(web(socket, version, "/page"), "authority.pem", "shop.test");
        for task in service.tasks.values_mut() {
            task.arrivals = Arrivals::Users {};
        }
        service.users = Some(users(4, ms(3), &[("look", 1)]));
        let measured = drive(&service, folder, ms(400));
        assert_eq!(measured.interrupted, None);
        assert_eq!(measured.failures, [].into());
        let expected = ConnectionCounts {
            at_start: 4,
            replacements: 0,
            streams_at_once: streams,
        };
        assert_eq!(measured.connection_counts, expected);
        for user in 0..4 {
            let own = measured.records.iter().filter(|one| one.client == user);
            let own: Vec<_> = own.collect();
            assert!(!own.is_empty(), "{:?}", measured.counts);
            for pair in own.windows(2) {
                assert_eq!(pair[1].intended, pair[0].replied + ms(3));
            }
        }
    }
}

#[test]
fn a_server_that_closes_its_connections_loses_no_request_of_version_2() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = TestAuthority::make(folder, "authority");
    authority.certify("shop", 2999);
    std::fs::write(folder.join("page"), "hello").unwrap();
    let few = " http2;\nkeepalive_requests 7;";
    let servers = tls_server("tls", "shop", folder, few)
        + &tls_server("tls1", "shop", folder, ";\nkeepalive_requests 7;");
    let Some(_nginx) = NginxServer::start("closing", folder, &servers) else {
        return;
    };
    let two = web("tls", HttpVersion::Two, "/page");
    let two = secured(two, "authority.pem", "shop.test");
    let measured = drive(&two, folder, ms(200));
    all_are_answered(&measured, 100);
    assert!(measured.connection_counts.replacements >= 10);
    let one = web("tls1", HttpVersion::One, "/page");
    let one = secured(one, "authority.pem", "shop.test");
    let measured = drive(&one, folder, ms(200));
    assert_eq!(measured.interrupted, None);
    // A request that is under way while the server closes is lost in version 1.1, and told.
    let counts = measured.counts;
    assert!(counts.answered >= 7, "{counts:?}");
    assert_eq!(counts.answered + counts.unanswered, 100);
}

#[test]
fn certificates_are_judged_and_faults_told() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = TestAuthority::make(folder, "authority");
    authority.certify("shop", 2999);
    authority.certify("old", 2001);
    TestAuthority::make(folder, "other");
    std::fs::write(folder.join("text.pem"), "no certificate").unwrap();
    let servers = tls_server("tls", "shop", folder, ";") + &tls_server("old", "old", folder, ";");
    let Some(_nginx) = NginxServer::start("certificates", folder, &servers) else {
        return;
    };
    let one = |socket: &str| web(socket, HttpVersion::One, "/");
    let cases = [
        (
            secured(one("tls"), "authority.pem", "other.test"),
            "is for shop.test, not for other.test; set tls.server_name",
        ),
        (
            secured(one("old"), "authority.pem", "shop.test"),
            "has expired",
        ),
        (
            secured(one("tls"), "other.pem", "shop.test"),
            "vouched for by none of",
        ),
        (secured(one("tls"), "other.pem", "shop.test"), "other.pem"),
        (
            secured(one("tls"), "text.pem", "shop.test"),
            "text.pem: the file has no certificate",
        ),
        (secured(one("tls"), "gone.pem", "shop.test"), "gone.pem"),
        (
            secured(
                web("tls", HttpVersion::Two, "/"),
                "authority.pem",
                "shop.test",
            ),
            "change http_version",
        ),
    ];
    for (service, expected) in cases {
        let text = refusal(&service, folder);
        assert!(text.contains(expected), "{expected:?} is missing: {text}");
    }
}

#[test]
fn a_certificate_that_vouches_for_itself_is_taken_where_it_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    TestAuthority::make(folder, "authority");
    certify_itself(folder, "own", 2999);
    certify_itself(folder, "old", 2001);
    std::fs::write(folder.join("page"), "hello").unwrap();
    let servers =
        tls_server("own", "own", folder, " http2;") + &tls_server("old", "old", folder, ";");
    let Some(_nginx) = NginxServer::start("own certificates", folder, &servers) else {
        return;
    };
    let two = web("own", HttpVersion::Two, "/page");
    let listed = secured(two.clone(), "own.pem", "shop.test");
    all_are_answered(&drive(&listed, folder, ms(20)), 10);
    for (service, expected) in [
        (
            secured(two.clone(), "authority.pem", "shop.test"),
            "where it vouches for itself, name its file in tls.authority",
        ),
        (
            secured(two, "own.pem", "other.test"),
            "not for other.test; set tls.server_name",
        ),
        (
            secured(web("old", HttpVersion::One, "/"), "old.pem", "shop.test"),
            "has expired",
        ),
    ] {
        let text = refusal(&service, folder);
        assert!(text.contains(expected), "{expected:?} is missing: {text}");
    }
}

#[test]
fn a_service_may_ask_for_a_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let authority = TestAuthority::make(folder, "authority");
    authority.certify("shop", 2999);
    authority.certify("client", 2999);
    std::fs::write(folder.join("page"), "hello").unwrap();
    let asks = format!(
        ";\nssl_verify_client on;\nssl_client_certificate {}/authority.pem;",
        folder.display()
    );
    let servers = tls_server("tls", "shop", folder, &asks);
    let Some(_nginx) = NginxServer::start("clients", folder, &servers) else {
        return;
    };
    let mut service = secured(
        web("tls", HttpVersion::One, "/page"),
        "authority.pem",
        "shop.test",
    );
    let measured = drive(&service, folder, ms(20));
    assert_eq!(measured.counts.answered, 0, "{:?}", measured.failures);
    if let Some(tls) = &mut service.tls {
        tls.certificate = Some("client.pem".into());
        tls.key = Some("client.key".into());
    }
    all_are_answered(&drive(&service, folder, ms(20)), 10);
}

#[test]
fn replies_are_matched_to_their_streams() {
    let folder = tempfile::tempdir().unwrap();
    // Each second request is answered badly, and first.
    serve_http2(&folder.path().join("s"), 100, |peer| {
        loop {
            let (first, second) = (peer.next_request()?, peer.next_request()?);
            peer.answer(second, false)?;
            peer.answer(first, true)?;
        }
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(40));
    assert_eq!(measured.interrupted, None);
    let outcomes: Vec<RecordOutcome> = measured.records.iter().map(|one| one.outcome).collect();
    let pairs = [RecordOutcome::Answered, RecordOutcome::Refused]
        .into_iter()
        .cycle();
    assert_eq!(outcomes, pairs.take(20).collect::<Vec<_>>());
    // What passed on the connection belongs to no single request.
    assert_eq!(measured.connections.len(), 0);
}

#[test]
fn a_refused_stream_is_a_refused_request() {
    let folder = tempfile::tempdir().unwrap();
    serve_http2(&folder.path().join("s"), 100, |peer| {
        loop {
            let refused = peer.next_request()?;
            peer.refuse(refused)?;
            let answered = peer.next_request()?;
            peer.answer(answered, true)?;
        }
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(40));
    assert_eq!(measured.interrupted, None);
    assert_eq!(
        measured.failures["the service reset the stream: REFUSED_STREAM"],
        10
    );
    assert_eq!(measured.counts.answered, 10);
}

#[test]
fn no_more_streams_are_open_than_the_service_allows() {
    let folder = tempfile::tempdir().unwrap();
    let most = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&most);
    serve_http2(&folder.path().join("s"), 2, move |peer| {
        peer.stream.set_nonblocking(false)?;
        let mut open = Vec::new();
        loop {
            let timeout = std::time::Duration::from_millis(5);
            peer.stream
                .set_read_timeout(Some(timeout).filter(|_| !open.is_empty()))?;
            match peer.next_request() {
                Ok(stream) => open.push(stream),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    for stream in std::mem::take(&mut open) {
                        peer.answer(stream, true)?;
                    }
                }
                Err(error) => return Err(error),
            }
            seen.fetch_max(open.len(), Ordering::Relaxed);
        }
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(40));
    all_are_answered(&measured, 20);
    assert_eq!(most.load(Ordering::Relaxed), 2);
}

#[test]
fn requests_wait_while_a_service_allows_no_streams() {
    let folder = tempfile::tempdir().unwrap();
    serve_http2(&folder.path().join("s"), 100, move |peer| {
        for round in 0.. {
            let stream = peer.next_request()?;
            if round % 5 == 3 {
                peer.allow(0)?;
                peer.answer(stream, true)?;
                std::thread::sleep(std::time::Duration::from_millis(10));
                peer.allow(2)?;
            } else {
                peer.answer(stream, true)?;
            }
        }
        Ok(())
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(60));
    all_are_answered(&measured, 30);
    assert_eq!(measured.connection_counts.replacements, 0);
}

#[test]
fn a_service_that_says_goodbye_answers_what_it_has_and_gets_the_rest_anew() {
    let folder = tempfile::tempdir().unwrap();
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    // The first connection is that of the readiness check.
    serve_http2(&folder.path().join("s"), 100, move |peer| {
        seen.fetch_max(peer.number + 1, Ordering::Relaxed);
        let first = peer.next_request()?;
        let second = peer.next_request()?;
        let third = peer.next_request()?;
        peer.answer(first, true)?;
        if peer.number == 1 {
            // It has begun the second and not the third.
            peer.say_goodbye(second)?;
            std::thread::sleep(std::time::Duration::from_millis(20));
            peer.answer(second, true)?;
            return peer.next_request().map(drop);
        }
        peer.answer(second, true)?;
        peer.answer(third, true)?;
        loop {
            let next = peer.next_request()?;
            peer.answer(next, true)?;
        }
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(80));
    all_are_answered(&measured, 40);
    assert_eq!(connections.load(Ordering::Relaxed), 3);
    let counts = measured.connection_counts;
    assert_eq!((counts.at_start, counts.replacements), (1, 1));
    assert!(counts.streams_at_once >= Some(3), "{counts}");
}

#[test]
fn garbage_in_mid_run_costs_the_requests_of_its_connection() {
    let folder = tempfile::tempdir().unwrap();
    serve_http2(&folder.path().join("s"), 100, |peer| {
        for _ in 0..4 {
            let stream = peer.next_request()?;
            peer.answer(stream, true)?;
        }
        peer.next_request()?;
        peer.stream.write_all(&[0xff; 400])
    });
    let measured = drive(&web("s", HttpVersion::Two, "/"), folder.path(), ms(60));
    assert_eq!(measured.interrupted, None);
    assert!(measured.counts.answered >= 4, "{:?}", measured.failures);
    assert!(!measured.failures.is_empty());
    let ended = measured.counts.answered + measured.counts.failed();
    assert_eq!(ended, 30, "{:?}", measured.failures);
}

#[test]
fn a_service_of_another_protocol_is_no_service_of_http_2_or_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    TestAuthority::make(folder, "authority");
    let listener = UnixListener::bind(folder.join("s")).unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let _asked = stream.read(&mut [0; 1024]);
            let _answered =
                stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let two = web("s", HttpVersion::Two, "/");
    let tls = secured(
        web("s", HttpVersion::One, "/"),
        "authority.pem",
        "shop.test",
    );
    for (service, expected) in [
        (two, "does the service speak HTTP/2?"),
        (tls, "does the service speak TLS?"),
    ] {
        let endpoint = Endpoint::of_service(&service, folder).unwrap();
        let error = await_service(&endpoint, Protocol::Http, ms(1), NEVER).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
