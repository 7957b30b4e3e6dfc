//! Frames of the control socket and of the mode protocol, and the beginnings of sessions on serial ports.

use serde::Serialize;
use serde::de::DeserializeOwned;
use tailbound_control::control_frame::{ControlProtocol, REQUEST_BYTES_MAX};
use tailbound_control::frame::{Decoder, FrameProtocol, decode, encode};
use tailbound_control::protocol::{ControlRequest, Response};
use tailbound_daemon::watch_channel::{WatchOrder, WatchReport};
use tailbound_modes::preamble::{PortInput, Scanner};
use tailbound_modes::wire::{AgentMessage, HostMessage, ModeProtocol, PAYLOAD_BYTES_MAX};

use crate::stream::{parts, stream};

/// However the bytes come apart, the messages are the same; each returns from a frame of its own.
pub fn check(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let (sizes, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    control(&stream::<ControlProtocol>(bytes), sizes);
    modes(&stream::<ModeProtocol>(bytes), sizes);
    scans(bytes, sizes);
}

fn control(stream: &[u8], sizes: &[u8]) {
    for payload in payloads::<ControlProtocol>(stream, sizes, REQUEST_BYTES_MAX) {
        returns::<ControlProtocol, ControlRequest>(&payload);
        returns::<ControlProtocol, Response>(&payload);
        returns::<ControlProtocol, WatchOrder>(&payload);
        returns::<ControlProtocol, WatchReport>(&payload);
    }
}

fn modes(stream: &[u8], sizes: &[u8]) {
    for payload in payloads::<ModeProtocol>(stream, sizes, PAYLOAD_BYTES_MAX) {
        returns::<ModeProtocol, HostMessage>(&payload);
        returns::<ModeProtocol, AgentMessage>(&payload);
    }
}

type Outcome = (Vec<Vec<u8>>, Option<String>);

fn cut<P: FrameProtocol>(parts: Vec<&[u8]>, most: usize) -> Outcome {
    let mut decoder = Decoder::<P>::new(most);
    let mut payloads = Vec::new();
    for part in parts {
        decoder.push(part);
        loop {
            match decoder.next_payload() {
                Ok(Some(payload)) => payloads.push(payload),
                Ok(None) => break,
                Err(error) => return (payloads, Some(error.to_string())),
            }
        }
    }
    (payloads, None)
}

fn payloads<P: FrameProtocol>(stream: &[u8], sizes: &[u8], most: usize) -> Vec<Vec<u8>> {
    let whole = cut::<P>(vec![stream], most);
    let (payloads, error) = cut::<P>(parts(stream, sizes), most);
    assert_eq!(whole.0, payloads, "the parts of a stream change no message");
    assert_eq!(whole.1.is_some(), error.is_some());
    payloads
}

fn returns<P: FrameProtocol, T>(payload: &[u8])
where
    T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let Ok(message) = decode::<T>(payload) else {
        return;
    };
    let frame = encode::<P, T>(&message, usize::MAX >> 1).expect("what came can be sent");
    let (payloads, error) = cut::<P>(vec![&frame], usize::MAX >> 1);
    assert_eq!((payloads.len(), error), (1, None));
    assert_eq!(decode::<T>(&payloads[0]).expect("our own frame"), message);
}

fn scans(bytes: &[u8], sizes: &[u8]) {
    let scan = |parts: Vec<&[u8]>| {
        let mut scanner = Scanner::default();
        let inputs = parts.into_iter().flat_map(|part| scanner.push(part));
        // Bytes come in parts of any size; only their order counts.
        let mut whole: Vec<PortInput> = Vec::new();
        for one in inputs.collect::<Vec<_>>() {
            match (whole.last_mut(), one) {
                (Some(PortInput::Bytes(before)), PortInput::Bytes(more)) => before.extend(more),
                (_, other) => whole.push(other),
            }
        }
        whole
    };
    assert_eq!(scan(vec![bytes]), scan(parts(bytes, sizes)));
}
