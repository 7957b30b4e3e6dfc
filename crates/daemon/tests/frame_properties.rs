//! The codec of the control socket against arbitrary, mutated, split and truncated bytes.

use proptest::prelude::*;
use tailbound_control::control_frame::{
    ControlDecoder, FrameError, HEADER_BYTES, REQUEST_BYTES_MAX, decode, encode,
};
use tailbound_control::protocol::ControlRequest;
use tailbound_control::{Lease, Selection};
use tailbound_model::WhenEmpty;

use crate::fakes;

fn requests() -> impl Strategy<Value = ControlRequest> {
    let name = "[a-zA-Z0-9_.-]{0,20}";
    prop_oneof![
        "\\PC{0,40}".prop_map(|client| ControlRequest::Hello { client }),
        prop::collection::vec(name, 0..4).prop_map(|names| ControlRequest::Plan {
            requests: names.iter().map(|name| fakes::request(name)).collect(),
        }),
        (prop::collection::vec(name, 0..4), any::<bool>()).prop_map(|(names, stays)| {
            ControlRequest::Apply {
                requests: names.iter().map(|name| fakes::request(name)).collect(),
                lease: if stays {
                    Lease::Persistent
                } else {
                    Lease::Connection
                },
                when_empty: names
                    .iter()
                    .map(|name| (name.clone(), WhenEmpty::Keep))
                    .collect(),
            }
        }),
        name.prop_map(|domain| ControlRequest::Revert {
            selection: Selection::Domain(domain)
        }),
        Just(ControlRequest::Revert {
            selection: Selection::All
        }),
        Just(ControlRequest::Status {}),
        Just(ControlRequest::Host {}),
        Just(ControlRequest::Ledger {}),
        Just(ControlRequest::Metrics {}),
        Just(ControlRequest::Shutdown {}),
    ]
}

/// Everything that a decoder makes of `stream` when it comes in `chunks`, and how it ended.
fn decoded(stream: &[u8], chunks: &[usize]) -> (Vec<Vec<u8>>, Option<String>) {
    let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
    let mut payloads = Vec::new();
    let mut rest = stream;
    let mut sizes = chunks.iter().copied().cycle();
    loop {
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, Some(error.to_string())),
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

proptest! {
    #[test]
    fn a_request_comes_back_from_its_frame(request in requests()) {
        let frame = encode(&request, REQUEST_BYTES_MAX).unwrap();
        let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
        decoder.push(&frame);
        let payload = decoder.next_payload().unwrap().expect("a whole frame");
        prop_assert!(!decoder.is_within_frame());
        prop_assert_eq!(decode::<ControlRequest>(&payload).unwrap(), request);
    }

    #[test]
    fn frames_split_anywhere_give_the_same_requests(
        sent in prop::collection::vec(requests(), 0..5),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        let stream: Vec<u8> = sent
            .iter()
            .flat_map(|request| encode(request, REQUEST_BYTES_MAX).unwrap())
            .collect();
        let (payloads, error) = decoded(&stream, &chunks);
        prop_assert_eq!(error, None);
        let received: Vec<ControlRequest> = payloads.iter().map(|p| decode(p).unwrap()).collect();
        prop_assert_eq!(received, sent);
    }

    #[test]
    fn arbitrary_bytes_never_panic_nor_hoard(
        stream in prop::collection::vec(any::<u8>(), 0..2048),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        let (payloads, _) = decoded(&stream, &chunks);
        for payload in payloads {
            let _ = decode::<ControlRequest>(&payload);
        }
    }

    #[test]
    fn mutated_frames_never_panic(
        request in requests(),
        mutations in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        keep in any::<prop::sample::Index>(),
        chunks in prop::collection::vec(1_usize..64, 1..10),
    ) {
        let mut frame = encode(&request, REQUEST_BYTES_MAX).unwrap();
        for (place, byte) in mutations {
            let place = place.index(frame.len());
            frame[place] = byte;
        }
        frame.truncate(keep.index(frame.len() + 1));
        let (payloads, _) = decoded(&frame, &chunks);
        for payload in payloads {
            let _ = decode::<ControlRequest>(&payload);
        }
    }

    #[test]
    fn wrong_beginnings_are_rejected_without_waiting_for_more(stream in "[^T][ -~]{0,7}") {
        let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
        decoder.push(stream.as_bytes());
        prop_assert!(matches!(
            decoder.next_payload(),
            Err(FrameError::NotOurs { .. })
        ), "{}", stream);
    }

    #[test]
    fn a_length_beyond_the_limit_is_rejected_from_the_header(length in REQUEST_BYTES_MAX as u32 + 1..) {
        let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
        let mut header = encode(&ControlRequest::Status {}, REQUEST_BYTES_MAX).unwrap();
        header.truncate(HEADER_BYTES);
        header[4..8].copy_from_slice(&length.to_be_bytes());
        decoder.push(&header);
        let is_too_long = matches!(decoder.next_payload(), Err(FrameError::TooLong { .. }));
        prop_assert!(is_too_long);
    }
}

#[test]
fn another_version_is_told_before_the_payload_is_there() {
    let mut decoder = ControlDecoder::new(REQUEST_BYTES_MAX);
    decoder.push(b"TB\x00\x03\xff\xff\xff\xff");
    let error = decoder.next_payload().unwrap_err();
    assert!(
        matches!(error, FrameError::Version { version: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_frame_is_magic_version_length_and_payload() {
    let frame = encode(&ControlRequest::Status {}, REQUEST_BYTES_MAX).unwrap();
    assert_eq!(frame, b"TB\x00\x02\x00\x00\x00\x14{\"request\":\"status\"}");
}

#[test]
fn deeply_nested_json_is_an_error_not_a_stack_overflow() {
    let payload = "[".repeat(200_000);
    assert!(decode::<ControlRequest>(payload.as_bytes()).is_err());
}

#[test]
fn requests_that_are_too_long_are_not_sent() {
    let request = ControlRequest::Hello {
        client: "x".repeat(REQUEST_BYTES_MAX),
    };
    assert!(matches!(
        encode(&request, REQUEST_BYTES_MAX),
        Err(FrameError::TooLong { .. })
    ));
}
