//! Streams of frames from fuzzed bytes. Lines become frames, so that a mutation of a message needs no
//! mutation of the length in its header; a line that begins with a zero byte goes out as it is.

use tailbound_control::frame::{FrameProtocol, HEADER_BYTES};

/// What a peer that speaks the protocol `P`, more or less, sends.
pub fn stream<P: FrameProtocol>(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        match line.split_first() {
            Some((0, raw)) => out.extend_from_slice(raw),
            _ => out.extend(framed::<P>(line)),
        }
    }
    out
}

/// The frame whose payload is `payload`.
pub fn framed<P: FrameProtocol>(payload: &[u8]) -> Vec<u8> {
    let mut frame = P::MAGIC.to_vec();
    frame.extend(P::VERSION.to_be_bytes());
    frame.extend((payload.len() as u32).to_be_bytes());
    assert_eq!(frame.len(), HEADER_BYTES);
    frame.extend_from_slice(payload);
    frame
}

/// The parts of `bytes` that a link delivers one after another: as long as `sizes` says, in turn.
pub fn parts<'a>(mut bytes: &'a [u8], sizes: &[u8]) -> Vec<&'a [u8]> {
    let mut parts = Vec::new();
    let mut sizes = sizes.iter().cycle();
    while !bytes.is_empty() {
        let size = sizes.next().map_or(bytes.len(), |size| usize::from(*size));
        let (part, rest) = bytes.split_at(size.clamp(1, bytes.len()));
        parts.push(part);
        bytes = rest;
    }
    parts
}
