//! Reports of applications over HTTP, with and without TLS.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;

use crate::testbed::nginx::{NginxServer, TestAuthority};
use crate::testbed::*;
use tailbound_measurement::endpoint::TlsClient;
use tailbound_measurement::{ReportRequest, ReportRequestError, ReportSocket, fetch_report};
use tailbound_model::{HttpVersion, ServiceTls};
use tailbound_time::Duration;

fn request<'a>(socket: ReportSocket<'a>, path: &'a str) -> ReportRequest<'a> {
    ReportRequest {
        socket,
        tls: None,
        host: "shop.test",
        path,
        accept: "*/*",
        within: NO_HURRY,
        limit_bytes: 1 << 20,
    }
}

fn client(folder: &Path, server_name: &str) -> Arc<TlsClient> {
    let tls = ServiceTls {
        authority: "authority.pem".into(),
        server_name: None,
        certificate: None,
        key: None,
    };
    let client = TlsClient::read(&tls, server_name, HttpVersion::One, folder);
    Arc::new(client.unwrap())
}

#[test]
fn reports_come_with_and_without_tls() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    TestAuthority::make(folder, "authority").certify("shop", 2999);
    let long = vec![b'x'; 600_000];
    std::fs::write(folder.join("report"), &long).unwrap();
    let root = folder.display();
    let servers = format!(
        "server {{ listen unix:{root}/plain; }}\nserver {{ listen unix:{root}/tls ssl;\n\
         ssl_certificate {root}/shop.pem;\nssl_certificate_key {root}/shop.key; }}\n"
    );
    let Some(_nginx) = NginxServer::start("reports", folder, &servers) else {
        return;
    };
    let (plain, tls) = (folder.join("plain"), folder.join("tls"));
    for socket in [&plain, &tls] {
        let give_up = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while UnixStream::connect(socket).is_err() && std::time::Instant::now() < give_up {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    let plain = request(ReportSocket::Unix(&plain), "/report");
    assert_eq!(fetch_report(&plain).unwrap(), long);
    let missing = ReportRequest {
        path: "/missing",
        ..plain.clone()
    };
    let refused = fetch_report(&missing);
    assert!(
        matches!(refused, Err(ReportRequestError::Status(404))),
        "{refused:?}"
    );
    let cut = ReportRequest {
        limit_bytes: 599_999,
        ..plain
    };
    let refused = fetch_report(&cut).unwrap_err().to_string();
    assert_eq!(refused, "the body exceeds the limit of 599999");

    let (right, other) = (client(folder, "shop.test"), client(folder, "other.test"));
    let mut tls = request(ReportSocket::Unix(&tls), "/report");
    tls.tls = Some(&right);
    assert_eq!(fetch_report(&tls).unwrap(), long);
    tls.tls = Some(&other);
    let refused = fetch_report(&tls).unwrap_err().to_string();
    assert!(refused.contains("not for other.test"), "{refused}");
    tls.tls = None;
    let refused = fetch_report(&tls);
    assert!(
        matches!(refused, Err(ReportRequestError::Status(400))),
        "{refused:?}"
    );
}

/// An application that answers with pieces without end, or with nothing.
#[test]
fn an_answer_that_does_not_end_is_given_up() {
    for piece in ["", "x"] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut head = [0; 1024];
            let _length = stream.read(&mut head).unwrap();
            let mut outcome = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while outcome.is_ok() && !piece.is_empty() {
                std::thread::sleep(std::time::Duration::from_millis(2));
                outcome = stream.write_all(piece.as_bytes());
            }
            // Until the other side has given up.
            let _end = stream.read(&mut head);
        });
        let sockets = [address];
        let mut asked = request(ReportSocket::Tcp(&sockets), "/report");
        asked.within = Duration::from_millis(100);
        let refused = fetch_report(&asked);
        assert!(
            matches!(refused, Err(ReportRequestError::TooLate(_))),
            "{refused:?}"
        );
        server.join().unwrap();
    }
}

/// A host has addresses of which only the second is listened at.
#[test]
fn the_first_address_that_takes_a_connection_counts() {
    let free = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = [free, listener.local_addr().unwrap()];
    let server = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let length = stream.read(&mut head).unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n7").unwrap();
        String::from_utf8_lossy(&head[..length]).into_owned()
    });
    let asked = request(ReportSocket::Tcp(&sockets), "/report?a=b");
    assert_eq!(fetch_report(&asked).unwrap(), b"7");
    let head = server.join().unwrap();
    assert!(
        head.starts_with("GET /report?a=b HTTP/1.1\r\nHost: shop.test\r\n"),
        "{head}"
    );
    let nobody = request(ReportSocket::Tcp(&sockets[..1]), "/report");
    let refused = fetch_report(&nobody);
    assert!(
        matches!(refused, Err(ReportRequestError::Connection(_))),
        "{refused:?}"
    );
}
