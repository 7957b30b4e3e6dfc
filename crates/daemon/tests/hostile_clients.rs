//! A live server over socket pairs, without a kernel: whatever one client sends, or does not read,
//! the server goes on, other clients are served, and no lease outlives its client.

use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use proptest::prelude::*;
use tailbound_control::control_frame::{
    ControlDecoder, REQUEST_BYTES_MAX, RESPONSE_BYTES_MAX, decode, encode,
};
use tailbound_control::protocol::{ControlRequest, Response};
use tailbound_control::{HeldBy, Lease, RefusalKind};
use tailbound_daemon::connection::{ClientPatience, End, serve};
use tailbound_daemon::service::{DaemonService, Protection};
use tailbound_enforcement::Recovery;
use tailbound_subsystem::Place;
use tailbound_time::Duration;

use crate::fakes::{AlwaysProtected, FakeKernel, NeverProtected, request};

struct Server {
    service: Arc<DaemonService<FakeKernel>>,
    kernel: FakeKernel,
    patience: ClientPatience,
}

impl Server {
    fn new(patience: ClientPatience, protection: Box<dyn Protection>) -> Self {
        let kernel = FakeKernel::default();
        // Nobody loads modes here.
        let place = Place {
            directory: "/nonexistent".into(),
            exit_when_idle: None,
        };
        let service = DaemonService::new(kernel.clone(), protection, Recovery::default(), place);
        Self {
            service: Arc::new(service),
            kernel,
            patience,
        }
    }

    fn patient() -> Self {
        Self::new(ClientPatience::default(), Box::new(AlwaysProtected))
    }

    /// With a limit on frames so short that a test can wait for it.
    fn impatient() -> Self {
        let patience = ClientPatience {
            frame: Duration::from_millis(50),
            ..ClientPatience::default()
        };
        Self::new(patience, Box::new(AlwaysProtected))
    }

    fn connect(&self, trusted: bool) -> (TestClient, JoinHandle<End>) {
        self.connect_after(trusted, &[])
    }

    /// A client that has said something before it is served.
    fn connect_after(&self, trusted: bool, said: &[u8]) -> (TestClient, JoinHandle<End>) {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        ours.write_all(said).unwrap();
        let service = Arc::clone(&self.service);
        let patience = self.patience;
        let id = service.leases().connect();
        let thread = thread::spawn(move || serve(&theirs, &service, id, trusted, patience));
        let client = TestClient {
            stream: ours,
            decoder: ControlDecoder::new(RESPONSE_BYTES_MAX),
        };
        (client, thread)
    }

    /// A client that behaves is served.
    fn still_serves(&self) -> bool {
        let (mut client, thread) = self.connect(true);
        let served = matches!(
            client.ask(&ControlRequest::Status {}),
            Some(Response::Status { .. })
        );
        drop(client);
        served && matches!(thread.join(), Ok(End::ClientLeft))
    }
}

struct TestClient {
    stream: UnixStream,
    decoder: ControlDecoder,
}

impl TestClient {
    fn send(&mut self, request: &ControlRequest) {
        let frame = encode(request, REQUEST_BYTES_MAX).unwrap();
        self.stream.write_all(&frame).unwrap();
    }

    fn receive(&mut self) -> Option<Response> {
        let mut bytes = [0; 4096];
        loop {
            if let Some(payload) = self.decoder.next_payload().unwrap() {
                return Some(decode(&payload).unwrap());
            }
            match self.stream.read(&mut bytes) {
                Ok(0) | Err(_) => return None,
                Ok(count) => self.decoder.push(&bytes[..count]),
            }
        }
    }

    fn ask(&mut self, request: &ControlRequest) -> Option<Response> {
        self.send(request);
        self.receive()
    }

    /// The kind of refusal that the server says goodbye with.
    fn refusal(&mut self) -> Option<RefusalKind> {
        match self.receive()? {
            Response::Refused { refusal } => Some(refusal.kind),
            other => panic!("not refused: {other:?}"),
        }
    }
}

fn apply(domains: &[&str], lease: Lease) -> ControlRequest {
    ControlRequest::Apply {
        requests: domains.iter().map(|domain| request(domain)).collect(),
        lease,
        when_empty: Default::default(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn arbitrary_bytes_end_only_their_own_connection(
        bytes in prop::collection::vec(any::<u8>(), 0..4096),
    ) {
        let server = Server::patient();
        let (mut client, thread) = server.connect(true);
        // The server may hang up before it has everything.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(Shutdown::Write);
        let ended = thread.join();
        prop_assert!(matches!(ended, Ok(End::ClientLeft | End::Misbehaved)), "{ended:?}");
        prop_assert!(server.still_serves());
        prop_assert!(server.kernel.active().is_empty());
    }

    #[test]
    fn mutated_requests_end_at_most_their_own_connection(
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
    ) {
        let server = Server::patient();
        let (mut client, thread) = server.connect(true);
        let mut frame = encode(&apply(&["a", "b"], Lease::Connection), REQUEST_BYTES_MAX).unwrap();
        for (place, byte) in mutations {
            let place = place.index(frame.len());
            frame[place] = byte;
        }
        let _ = client.stream.write_all(&frame);
        let _ = client.stream.shutdown(Shutdown::Write);
        prop_assert!(thread.join().is_ok());
        prop_assert!(server.still_serves());
        prop_assert!(server.kernel.active().is_empty(), "the lease ended with its client");
    }

    #[test]
    fn a_client_killed_at_any_byte_leaves_nothing(keep in any::<prop::sample::Index>()) {
        let server = Server::patient();
        let (mut client, thread) = server.connect(true);
        let stream: Vec<u8> = [
            apply(&["a"], Lease::Connection),
            apply(&["b", "c"], Lease::Connection),
            ControlRequest::Status {},
        ]
        .iter()
        .flat_map(|request| encode(request, REQUEST_BYTES_MAX).unwrap())
        .collect();
        let kept = keep.index(stream.len() + 1);
        client.stream.write_all(&stream[..kept]).unwrap();
        drop(client);
        let ended = thread.join();
        prop_assert!(matches!(ended, Ok(End::ClientLeft)), "{ended:?}");
        prop_assert!(server.kernel.active().is_empty());
    }
}

#[test]
fn a_reservation_leased_to_a_connection_ends_with_it_and_a_persistent_one_stays() {
    let server = Server::patient();
    let (mut client, thread) = server.connect(true);
    for request in [
        apply(&["leased"], Lease::Connection),
        apply(&["stays"], Lease::Persistent),
    ] {
        let answer = client.ask(&request);
        assert!(
            matches!(answer, Some(Response::Applied { .. })),
            "{answer:?}"
        );
    }
    let Some(Response::Status { status }) = client.ask(&ControlRequest::Status {}) else {
        panic!("no status");
    };
    let held: Vec<HeldBy> = status.reservations.iter().map(|one| one.held_by).collect();
    assert_eq!(held, [HeldBy::Connection, HeldBy::Nobody]);
    drop(client);
    thread.join().unwrap();
    let left: Vec<String> = server.kernel.active().into_iter().collect();
    assert_eq!(left, ["stays"]);
}

#[test]
fn a_frame_that_never_ends_is_given_up_and_blocks_nobody() {
    let server = Server::impatient();
    let (mut slow, thread) = server.connect(true);
    slow.stream.write_all(b"TB\x00\x02\x00\x00\x10").unwrap();
    assert!(server.still_serves());
    assert_eq!(slow.refusal(), Some(RefusalKind::BadRequest));
    assert!(matches!(thread.join(), Ok(End::Misbehaved)));
}

#[test]
fn a_trickle_of_bytes_does_not_extend_the_time_for_a_frame() {
    let server = Server::impatient();
    let (mut slow, thread) = server.connect(true);
    let frame = encode(&apply(&["a"], Lease::Connection), REQUEST_BYTES_MAX).unwrap();
    for byte in frame.iter().cycle() {
        if slow.stream.write_all(&[*byte]).is_err() {
            break;
        }
        thread::sleep(std::time::Duration::from_millis(2));
    }
    assert!(matches!(thread.join(), Ok(End::Misbehaved)));
    assert!(server.kernel.active().is_empty());
}

#[test]
fn a_client_that_never_reads_is_given_up_and_blocks_nobody() {
    let server = Server::impatient();
    let (mut deaf, thread) = server.connect(true);
    // Answers pile up until the socket takes no more.
    let frame = encode(&ControlRequest::Metrics {}, REQUEST_BYTES_MAX).unwrap();
    while deaf.stream.write_all(&frame).is_ok() {}
    assert!(matches!(thread.join(), Ok(End::Misbehaved)));
    assert!(server.still_serves());
}

#[test]
fn silence_is_tolerated_from_a_lease_holder_only() {
    let patience = ClientPatience {
        idle_trusted: Duration::from_millis(20),
        idle_others: Duration::from_millis(20),
        ..ClientPatience::default()
    };
    let server = Server::new(patience, Box::new(AlwaysProtected));
    // It is silent from the lease on, not before.
    let lease = encode(&apply(&["a"], Lease::Connection), REQUEST_BYTES_MAX).unwrap();
    let (mut holder, holder_thread) = server.connect_after(true, &lease);
    holder.receive().unwrap();
    // Many times the limit pass for the others, one after another.
    for trusted in [true, false, true, false] {
        let (_silent, thread) = server.connect(trusted);
        assert!(matches!(thread.join(), Ok(End::Idle)));
    }
    let status = holder.ask(&ControlRequest::Status {});
    assert!(matches!(status, Some(Response::Status { .. })));
    drop(holder);
    assert!(matches!(holder_thread.join(), Ok(End::ClientLeft)));
    assert!(server.kernel.active().is_empty());
}

#[test]
fn other_users_may_look_but_not_touch() {
    let server = Server::patient();
    let (mut other, thread) = server.connect(false);
    for request in [
        ControlRequest::Plan { requests: vec![] },
        apply(&["a"], Lease::Persistent),
        ControlRequest::Revert {
            selection: tailbound_control::Selection::All,
        },
        ControlRequest::Change {
            domain: "a".into(),
            interface: request("a").interface,
        },
        ControlRequest::Shutdown {},
    ] {
        other.send(&request);
        assert_eq!(
            other.refusal(),
            Some(RefusalKind::NotPermitted),
            "{request:?}"
        );
    }
    for request in [
        ControlRequest::Hello {
            client: "me".into(),
        },
        ControlRequest::Status {},
        ControlRequest::Ledger {},
        ControlRequest::Metrics {},
    ] {
        let answer = other.ask(&request);
        assert!(
            !matches!(answer, None | Some(Response::Refused { .. })),
            "{answer:?}"
        );
    }
    drop(other);
    assert!(matches!(thread.join(), Ok(End::ClientLeft)));
}

#[test]
fn another_version_is_refused_in_words() {
    let server = Server::patient();
    let (mut client, thread) = server.connect(true);
    client
        .stream
        .write_all(b"TB\x00\x63\x00\x00\x00\x02{}")
        .unwrap();
    assert_eq!(client.refusal(), Some(RefusalKind::Version));
    assert!(matches!(thread.join(), Ok(End::Misbehaved)));
}

#[test]
fn nothing_is_enforced_without_a_watchdog() {
    let server = Server::new(ClientPatience::default(), Box::new(NeverProtected));
    let (mut client, thread) = server.connect(true);
    client.send(&apply(&["a"], Lease::Persistent));
    assert_eq!(client.refusal(), Some(RefusalKind::Unprotected));
    drop(client);
    thread.join().unwrap();
    assert!(server.kernel.active().is_empty());
}

#[test]
fn shutdown_takes_everything_back() {
    let server = Server::patient();
    let (mut client, thread) = server.connect(true);
    client.ask(&apply(&["a"], Lease::Persistent)).unwrap();
    assert_eq!(
        client.ask(&ControlRequest::Shutdown {}),
        Some(Response::ShuttingDown {})
    );
    assert!(matches!(thread.join(), Ok(End::Shutdown)));
    assert!(server.kernel.active().is_empty());
}
