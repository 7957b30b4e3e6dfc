//! Hosts that send garbage, or almost what they should.

use std::io::Write;

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tailbound_modes::frame::{self, FrameError};
use tailbound_modes::wire::{AgentMessage, HostMessage, PROTOCOL_VERSION, Text, encode};

use super::subject::{DOMAIN, Language, Subject};
use crate::stage::{Host, change, name};

/// Bytes that JSON is made of, and some that it is not.
const BYTES: &[u8] = b"{}[]\",:\\u0189dea.-+Eeln\x01\xc3\xf0\x9f";
/// So many mutated messages are sent.
const CASES: u32 = 150;

pub fn outlives_garbage(language: Language) {
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let ping = encode(&HostMessage::Ping { nonce: 1 }).unwrap();
    let with = |place: usize, byte: u8| {
        let mut frame = ping.clone();
        frame[place] = byte;
        frame
    };
    let garbage = [
        b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(),
        // A header is wrong as soon as its first byte is.
        b"x".to_vec(),
        with(1, b'm'),
        with(3, PROTOCOL_VERSION as u8 + 1),
        with(4, 0xff),
        with(8, b'['),
        [ping.as_slice(), &[0; 100]].concat(),
        framed(b""),
        framed(b"null"),
        framed(b"{\"order\":\"ping\",\"nonce\":1,\"nonce\":1}"),
        framed(b"{\"order\":\"ping\",\"nonce\":1.0}"),
        framed(b"{\"order\":\"ping\",\"nonce\":-1}"),
        framed(b"{\"order\":\"ping\",\"nonce\":18446744073709551616}"),
        framed(b"{\"order\":\"ping\",\"nonce\":1} {}"),
        framed(b"{\"order\":\"obey\"}"),
        framed(b"{\"order\":[]}"),
        framed(&[b"{\"order\":\"ping\",\"x\":".as_slice(), &[b'['; 3_000]].concat()),
    ];
    for bytes in garbage {
        let mut peer = host.welcome(0);
        peer.send_in_vain(&bytes);
        let shown = bytes.escape_ascii().to_string();
        while let Some(answer) = peer.try_receive() {
            let is_pong = matches!(answer, AgentMessage::Pong { nonce: 1 });
            assert!(is_pong, "{shown} is answered by {answer:?}");
        }
    }
    // A frame in as many pieces as it has bytes is one all the same.
    let mut peer = host.welcome(0);
    for byte in encode(&change(1, "rest", &["move"], &["scan"])).unwrap() {
        peer.stream.write_all(&[byte]).unwrap();
    }
    assert!(matches!(
        peer.receive(),
        AgentMessage::Done { change: 1, .. }
    ));
    subject.end(&["stop move", "start scan"]);
}

fn framed(payload: &[u8]) -> Vec<u8> {
    let mut frame = encode(&HostMessage::Ping { nonce: 1 }).unwrap();
    frame.truncate(frame::HEADER_BYTES);
    frame[4..].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn messages() -> Vec<HostMessage> {
    vec![
        change(1_000, "rest", &["move"], &["scan", "hold"]),
        change(1_001, "run", &["scan"], &[]),
        HostMessage::Withdraw { change: 1_002 },
        HostMessage::Ping { nonce: u64::MAX },
        HostMessage::Welcome {
            domain: name(DOMAIN),
            mode: None,
            change: 1_000,
        },
        HostMessage::Refused {
            mode: name("run"),
            reason: Text::new("no \u{e4}\u{1f600} \"x\"\n"),
        },
    ]
}

/// A few bytes become others, vanish, or come twice.
fn mutate(payload: &mut Vec<u8>, draws: &mut ChaCha8Rng) {
    for _ in 0..draws.random_range(0..3) {
        let place = draws.random_range(0..payload.len());
        let end = (place + draws.random_range(1..6)).min(payload.len());
        match draws.random_range(0..3) {
            0 => payload[place] = BYTES[draws.random_range(0..BYTES.len())],
            1 if end - place < payload.len() => drop(payload.drain(place..end)),
            _ => {
                let copy = payload[place..end].to_vec();
                payload.splice(place..place, copy);
            }
        }
    }
}

/// What the Rust agent takes is taken, and nothing else; but for keys that this version does not know, which
/// the others pass over.
pub fn takes_what_the_rust_agent_takes(language: Language) {
    let host = Host::listen();
    let subject = Subject::start(language, &host.socket());
    let mut draws = ChaCha8Rng::seed_from_u64(11);
    let (mut taken, mut refused) = (0, 0);
    let messages = messages();
    let mut peer = host.welcome(0);
    for case in 0..CASES {
        let message = &messages[draws.random_range(0..messages.len())];
        let mut payload = serde_json::to_vec(message).unwrap();
        mutate(&mut payload, &mut draws);
        let shown = payload.escape_ascii().to_string();
        let judged: Result<HostMessage, FrameError> = frame::decode(&payload);
        peer.send_in_vain(&framed(&payload));
        peer.send_in_vain(&encode(&HostMessage::Ping { nonce: case.into() }).unwrap());
        let lives = loop {
            match peer.try_receive() {
                Some(AgentMessage::Pong { nonce }) if nonce == u64::from(case) => break true,
                Some(_) => {}
                None => break false,
            }
        };
        let expected = match judged {
            Ok(HostMessage::Welcome { domain, .. }) => Some(domain == name(DOMAIN)),
            Ok(_) => Some(true),
            Err(error) => (!error.to_string().contains("unknown field")).then_some(false),
        };
        if let Some(expected) = expected {
            assert_eq!(lives, expected, "{shown}");
            *(if expected { &mut taken } else { &mut refused }) += 1;
        }
        if !lives {
            peer = host.welcome(0);
        }
    }
    assert!(taken > CASES / 10 && refused > CASES / 10);
    drop(peer);
    subject.end_in_good_order();
}
