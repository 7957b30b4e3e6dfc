//! The wire of the mode managers against arbitrary, mutated, split and truncated bytes.

use proptest::prelude::*;
use serde::de::DeserializeOwned;
use tailbound_control::frame::{FrameError, HEADER_BYTES, decode};
use tailbound_modes::wire::{
    AgentClock, AgentMessage, HostMessage, NAME_BYTES_MAX, Name, PAYLOAD_BYTES_MAX, TASKS_MAX,
    TEXT_BYTES_MAX, Text, decoder, encode,
};
use tailbound_time::{ClockId, Instant};

fn name() -> impl Strategy<Value = Name> {
    "[a-z0-9][a-z0-9_.-]{0,30}".prop_map(|text| Name::try_from(text).unwrap())
}

fn names() -> impl Strategy<Value = Vec<Name>> {
    prop::collection::vec(name(), 0..5)
}

fn text() -> impl Strategy<Value = Text> {
    "\\PC{0,60}".prop_map(Text::new)
}

fn instant() -> impl Strategy<Value = Instant> {
    any::<u64>().prop_map(Instant::from_nanos)
}

fn from_host() -> impl Strategy<Value = HostMessage> {
    prop_oneof![
        (name(), prop::option::of(name()), any::<u64>()).prop_map(|(domain, mode, change)| {
            HostMessage::Welcome {
                domain,
                mode,
                change,
            }
        }),
        (any::<u64>(), name(), names(), names()).prop_map(|(change, mode, start, stop)| {
            HostMessage::Change {
                change,
                mode,
                start,
                stop,
            }
        }),
        any::<u64>().prop_map(|change| HostMessage::Withdraw { change }),
        any::<u64>().prop_map(|nonce| HostMessage::Ping { nonce }),
        (name(), text()).prop_map(|(mode, reason)| HostMessage::Refused { mode, reason }),
    ]
}

fn from_agent() -> impl Strategy<Value = AgentMessage> {
    let change = any::<u64>;
    let hello = (
        name(),
        text(),
        text(),
        names(),
        names(),
        change(),
        prop::option::of(name()),
    );
    prop_oneof![
        hello.prop_map(|(domain, agent, boot, tasks, started, change, mode)| {
            let id = ClockId::Monotonic;
            let clock = AgentClock { id, boot };
            AgentMessage::Hello {
                domain,
                agent,
                clock,
                tasks,
                started,
                change,
                mode,
            }
        }),
        (change(), instant(), instant()).prop_map(|(change, received_ns, switched_ns)| {
            AgentMessage::Done {
                change,
                received_ns,
                switched_ns,
            }
        }),
        (change(), instant(), instant()).prop_map(|(change, received_ns, switched_ns)| {
            AgentMessage::Withdrawn {
                change,
                received_ns,
                switched_ns,
            }
        }),
        (change(), text(), any::<bool>()).prop_map(|(change, reason, rolled_back)| {
            AgentMessage::Failed {
                change,
                reason,
                rolled_back,
            }
        }),
        name().prop_map(|mode| AgentMessage::Request { mode }),
        any::<u64>().prop_map(|nonce| AgentMessage::Pong { nonce }),
    ]
}

/// Everything that a decoder makes of `stream` when it comes in `chunks`, and how it ended.
fn decoded(stream: &[u8], chunks: &[usize]) -> (Vec<Vec<u8>>, Option<FrameError>) {
    let mut decoder = decoder();
    let mut payloads = Vec::new();
    let mut rest = stream;
    let mut sizes = chunks.iter().copied().cycle();
    loop {
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, Some(error)),
            }
        }
        if rest.is_empty() {
            return (payloads, None);
        }
        let size = sizes.next().unwrap_or(1).clamp(1, rest.len());
        let (now, later) = rest.split_at(size);
        decoder.push(now);
        rest = later;
    }
}

fn all_of<T: DeserializeOwned>(stream: &[u8], chunks: &[usize]) -> Vec<T> {
    let (payloads, error) = decoded(stream, chunks);
    assert!(error.is_none(), "{error:?}");
    payloads
        .iter()
        .map(|payload| decode(payload).unwrap())
        .collect()
}

fn try_both(payload: &[u8]) {
    let _ = decode::<HostMessage>(payload);
    let _ = decode::<AgentMessage>(payload);
}

proptest! {
    #[test]
    fn messages_split_anywhere_come_back(
        of_host in prop::collection::vec(from_host(), 0..4),
        of_agent in prop::collection::vec(from_agent(), 0..4),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        let stream: Vec<u8> = of_host.iter().flat_map(|m| encode(m).unwrap()).collect();
        prop_assert_eq!(all_of::<HostMessage>(&stream, &chunks), of_host);
        let stream: Vec<u8> = of_agent.iter().flat_map(|m| encode(m).unwrap()).collect();
        prop_assert_eq!(all_of::<AgentMessage>(&stream, &chunks), of_agent);
    }

    #[test]
    fn arbitrary_bytes_never_panic(
        stream in prop::collection::vec(any::<u8>(), 0..2048),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        decoded(&stream, &chunks).0.iter().for_each(|payload| try_both(payload));
        try_both(&stream);
    }

    #[test]
    fn mutated_messages_never_panic(
        (host, agent) in (from_host(), from_agent()),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        let mut stream = encode(&host).unwrap();
        stream.extend(encode(&agent).unwrap());
        for (place, byte) in mutations {
            let place = place.index(stream.len());
            stream[place] = byte;
        }
        stream.truncate(keep.index(stream.len() + 1));
        decoded(&stream, &chunks).0.iter().for_each(|payload| try_both(payload));
    }

    #[test]
    fn what_is_taken_is_within_its_bounds(message in from_host(), at in any::<prop::sample::Index>(), byte: u8) {
        let mut payload = encode(&message).unwrap().split_off(HEADER_BYTES);
        let place = at.index(payload.len());
        payload[place] = byte;
        // What a mutated message reads as, if it reads at all, can be sent on.
        if let Ok(read) = decode::<HostMessage>(&payload) {
            let again = encode(&read).unwrap().split_off(HEADER_BYTES);
            prop_assert_eq!(decode::<HostMessage>(&again).unwrap(), read);
        }
    }

    #[test]
    fn names_are_what_descriptions_allow(text in "\\PC{0,8}") {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        let good = text.chars().next().is_some_and(plain)
            && text.chars().all(|c| plain(c) || "-_.".contains(c));
        prop_assert_eq!(Name::try_from(text).is_ok(), good);
    }
}

#[test]
fn a_change_is_these_bytes() {
    let list = |name: &str| vec![name.parse().unwrap()];
    let frame = encode(&HostMessage::Change {
        change: 7,
        mode: "run".parse().unwrap(),
        start: list("control"),
        stop: list("calibrate"),
    })
    .unwrap();
    let json =
        br#"{"order":"change","change":7,"mode":"run","start":["control"],"stop":["calibrate"]}"#;
    assert_eq!(
        frame[..HEADER_BYTES],
        [b'T', b'M', 0, 1, 0, 0, 0, json.len() as u8]
    );
    assert_eq!(frame[HEADER_BYTES..], json[..]);
}

#[test]
fn times_are_integer_nanoseconds() {
    let frame = encode(&AgentMessage::Done {
        change: 7,
        received_ns: Instant::from_nanos(u64::MAX),
        switched_ns: Instant::from_nanos(12),
    })
    .unwrap();
    let json =
        br#"{"report":"done","change":7,"received_ns":18446744073709551615,"switched_ns":12}"#;
    assert_eq!(frame[HEADER_BYTES..], json[..]);
}

#[test]
fn fields_that_nobody_knows_and_values_out_of_bounds_are_refused() {
    let wrong = [
        r#"{"order":"ping","nonce":1,"more":2}"#.to_owned(),
        r#"{"order":"ping"}"#.to_owned(),
        r#"{"order":"pong","nonce":1}"#.to_owned(),
        r#"{"order":"withdraw","change":-1}"#.to_owned(),
        r#"{"order":"withdraw","change":1.5}"#.to_owned(),
        format!(
            r#"{{"order":"refused","mode":"run","reason":"{}"}}"#,
            "x".repeat(TEXT_BYTES_MAX + 1)
        ),
        format!(
            r#"{{"order":"refused","mode":"{}","reason":""}}"#,
            "x".repeat(NAME_BYTES_MAX + 1)
        ),
        format!(
            r#"{{"order":"change","change":1,"mode":"run","stop":[],"start":[{}"x"]}}"#,
            r#""x","#.repeat(TASKS_MAX)
        ),
    ];
    for json in wrong {
        assert!(decode::<HostMessage>(json.as_bytes()).is_err(), "{json}");
    }
    let longest = format!(
        r#"{{"order":"refused","mode":"{}","reason":"{}"}}"#,
        "x".repeat(NAME_BYTES_MAX),
        "x".repeat(TEXT_BYTES_MAX)
    );
    assert!(decode::<HostMessage>(longest.as_bytes()).is_ok());
}

#[test]
fn the_longest_messages_fit_their_frames() {
    let name: Name = "x".repeat(NAME_BYTES_MAX).parse().unwrap();
    let half = vec![name.clone(); TASKS_MAX / 2];
    let change = HostMessage::Change {
        change: u64::MAX,
        mode: name,
        start: half.clone(),
        stop: half,
    };
    assert!(encode(&change).unwrap().len() <= PAYLOAD_BYTES_MAX + HEADER_BYTES);
}

#[test]
fn texts_are_cut_between_characters() {
    let text = Text::new("\u{e9}".repeat(TEXT_BYTES_MAX));
    assert_eq!(text.as_str().len(), TEXT_BYTES_MAX);
    let odd = Text::new(format!("x{}", "\u{e9}".repeat(TEXT_BYTES_MAX)));
    assert_eq!(odd.as_str().len(), TEXT_BYTES_MAX - 1);
}

#[test]
fn a_client_of_the_control_socket_is_told_apart_at_its_first_bytes() {
    let (_, error) = decoded(b"TB\x00\x01", &[1]);
    let text = error.expect("an error").to_string();
    assert!(
        text.contains("mode protocol") && text.contains("\"TM\""),
        "{text}"
    );
    let (_, error) = decoded(b"TM\x00\x02\xff\xff\xff\xff", &[3]);
    assert!(matches!(
        error,
        Some(FrameError::Version {
            version: 2,
            expected: 1,
            ..
        })
    ));
}
