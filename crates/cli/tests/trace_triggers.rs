//! `tailbound trace triggers` with a process that does not do what it is asked.

use std::io::{BufRead, BufReader, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::process::Command;

/// Serves one connection as a program with one trigger does, but refuses to end recordings.
fn serve_without_end(listener: &UnixListener) {
    let (stream, _) = listener.accept().unwrap();
    for line in BufReader::new(&stream).lines() {
        let answer = match line.unwrap().as_str() {
            "list" => "test.one off 1\nok 1\n",
            "stop" => "error the recording is stuck\n",
            _ => "ok 1\n",
        };
        (&stream).write_all(answer.as_bytes()).unwrap();
    }
}

#[test]
fn a_recording_that_is_not_ended_is_an_error() {
    let pid = std::process::id().to_string();
    let name = format!("tailbound-triggers-{pid}");
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let listener = UnixListener::bind_addr(&address).unwrap();
    let server = std::thread::spawn(move || serve_without_end(&listener));
    let output = Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .args([
            "trace",
            "triggers",
            &pid,
            "record",
            "*",
            "--duration",
            "1ms",
        ])
        .output()
        .unwrap();
    server.join().unwrap();
    let faults = String::from_utf8(output.stderr).unwrap();
    let expected = format!("was not ended: process {pid}: the recording is stuck");
    assert!(faults.contains(&expected), "{faults}");
    assert_eq!(output.status.code(), Some(1));
}
