//! A connection to the daemon's control socket, served by the daemon's own code over a socket pair.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;

use tailbound_control::control_frame::{
    ControlDecoder, ControlProtocol, RESPONSE_BYTES_MAX, decode,
};
use tailbound_control::protocol::Response;
use tailbound_daemon::connection::{ClientPatience, End, serve};
use tailbound_daemon::service::DaemonService;
use tailbound_enforcement::Recovery;
use tailbound_subsystem::Place;

use crate::fakes::{AlwaysProtected, FakeKernel};
use crate::stream::stream;

/// Whatever a client sends, every answer is one of the protocol, and its leases end with it.
pub fn check(bytes: &[u8]) {
    let Some((&first, bytes)) = bytes.split_first() else {
        return;
    };
    let trusted = first & 1 == 0;
    let kernel = FakeKernel::default();
    let place = Place {
        directory: "/nonexistent".into(),
        exit_when_idle: None,
    };
    let protection = Box::new(AlwaysProtected);
    let service = Arc::new(DaemonService::new(
        kernel.clone(),
        protection,
        Recovery::default(),
        place,
    ));
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let sent = stream::<ControlProtocol>(bytes);
    let mut answers = ours.try_clone().unwrap();
    let reader = thread::spawn(move || {
        let mut answered = Vec::new();
        let _until_closed = answers.read_to_end(&mut answered);
        answered
    });
    let writer = thread::spawn(move || {
        // The server may hang up before it has everything.
        let _sent = ours.write_all(&sent);
        let _over = ours.shutdown(Shutdown::Write);
    });
    let id = service.leases().connect();
    let ended = serve(&theirs, &service, id, trusted, ClientPatience::default());
    assert!(!matches!(ended, End::Idle), "{ended:?}");
    let _closed = theirs.shutdown(Shutdown::Both);
    drop(theirs);
    writer.join().unwrap();
    answers_are_of_the_protocol(&reader.join().unwrap());
    if !trusted {
        assert!(kernel.active().is_empty(), "strangers change nothing");
    }
    // A second client of the same service is served, and takes everything back.
    let second = service.leases().connect();
    service.disconnect(second);
    let _failure = service.give_up();
    assert!(kernel.active().is_empty());
}

fn answers_are_of_the_protocol(bytes: &[u8]) {
    let mut decoder = ControlDecoder::new(RESPONSE_BYTES_MAX);
    decoder.push(bytes);
    while let Some(payload) = decoder.next_payload().expect("frames of ours") {
        decode::<Response>(&payload).expect("an answer of the protocol");
    }
    assert!(!decoder.is_within_frame(), "the last answer is whole");
}
