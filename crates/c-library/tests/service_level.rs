//! Service levels of programs in C and C++, whose reports are asked for as a manager does.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::process::{Child, Stdio};

use serde_json::Value;

use crate::programs::{Language, Linkage, command, compile, run};

#[test]
fn calls_in_c_have_the_outcomes_of_the_header() {
    if let Some(program) = compile("service_level.c", Language::C, Linkage::Shared) {
        run(&program);
    }
}

#[test]
fn the_types_of_cpp_end_requests_and_throw() {
    if let Some(program) = compile("service_level.cc", Language::Cpp17, Linkage::Shared) {
        run(&program);
    }
}

/// A program that reports at an address, and the port that it has said.
fn application(address: &str) -> Option<(Child, u16)> {
    let program = compile("service_level.c", Language::C, Linkage::Static)?;
    let mut command = command(&program);
    let command = command
        .arg(address)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    let mut said = BufReader::new(child.stdout.take().unwrap());
    said.read_line(&mut line).unwrap();
    Some((child, line.trim().parse().unwrap()))
}

fn asked(mut stream: impl Read + Write, target: &str) -> String {
    write!(stream, "GET {target} HTTP/1.0\r\nHost: localhost\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_program_in_c_answers_for_its_report_over_tcp_and_unix_sockets() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("shop.sock");
    // A program that was killed has left its socket.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let Some((mut over_tcp, port)) = application("http://127.0.0.1:0") else {
        return;
    };
    let (mut over_unix, no_port) = application(&format!("unix:{}", socket.display())).unwrap();
    assert_eq!(no_port, 0);
    // Whoever connects and says nothing holds up the next one for a moment only.
    let silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let answer = asked(
        TcpStream::connect(("127.0.0.1", port)).unwrap(),
        "/tailbound/service-level",
    );
    drop(silent);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
    let report: Value = serde_json::from_str(body).unwrap();
    assert_eq!(report["requests"], 1);
    assert_eq!(report["deadline_seconds"], 1.0);
    let metrics = asked(
        UnixStream::connect(&socket).unwrap(),
        "/tailbound/service-level?format=prometheus",
    );
    assert!(
        metrics.contains("\ntailbound_service_level_requests_total 1\n"),
        "{metrics}"
    );
    let elsewhere = asked(UnixStream::connect(&socket).unwrap(), "/");
    assert!(elsewhere.starts_with("HTTP/1.1 404"), "{elsewhere}");
    for child in [&mut over_tcp, &mut over_unix] {
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
    assert!(!socket.exists());
}
