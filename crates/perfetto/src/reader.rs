//! Reading a trace packet by packet.

use std::io::{self, BufRead, Read};

use prost::Message as _;

use crate::message::TracePacket;

/// The key of the field `packet` of a trace: field 1, a length and bytes.
const PACKET_KEY: u8 = 1 << 3 | 2;
/// The longest packet that is read; a length above is no packet.
const LONGEST_PACKET: u64 = 16 << 20;

/// Why bytes are no trace.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// Something else than a packet.
    #[error("byte {offset} of the trace: {what}")]
    Content {
        /// The place.
        offset: u64,
        /// The fault.
        what: String,
    },
    /// The source.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// The packets of a trace, as far as their fields are in [`message`](crate::message).
#[derive(Debug)]
pub struct PacketReader<R> {
    source: R,
    offset: u64,
    bytes: Vec<u8>,
}

impl<R: BufRead> PacketReader<R> {
    /// The packets of a source.
    pub fn new(source: R) -> Self {
        Self {
            source,
            offset: 0,
            bytes: Vec::new(),
        }
    }

    /// The next packet.
    ///
    /// # Errors
    /// Bytes that are no packet, or what the source says.
    pub fn next_packet(&mut self) -> Result<Option<TracePacket>, TraceError> {
        let offset = self.offset;
        let fault = |what: &str| TraceError::Content {
            offset,
            what: what.into(),
        };
        match self.next_byte()? {
            None => return Ok(None),
            Some(PACKET_KEY) => {}
            Some(_) => return Err(fault("no packet begins here")),
        }
        let length = self.length()?.filter(|length| *length <= LONGEST_PACKET);
        let length = length.ok_or_else(|| fault("a packet without a length"))?;
        self.bytes.clear();
        let mut content = self.source.by_ref().take(length);
        let there = content.read_to_end(&mut self.bytes)? as u64;
        self.offset += there;
        if there < length {
            return Err(fault("the packet ends early"));
        }
        let packet = TracePacket::decode(&self.bytes[..]);
        packet.map(Some).map_err(|cause| fault(&cause.to_string()))
    }

    /// A number of 7 bits a byte, the lowest first.
    fn length(&mut self) -> Result<Option<u64>, io::Error> {
        let mut number = 0;
        for place in 0..5 {
            let Some(byte) = self.next_byte()? else {
                return Ok(None);
            };
            number |= u64::from(byte & 0x7f) << (7 * place);
            if byte & 0x80 == 0 {
                return Ok(Some(number));
            }
        }
        Ok(None)
    }

    fn next_byte(&mut self) -> io::Result<Option<u8>> {
        let mut byte = [0];
        let there = self.source.read(&mut byte)?;
        self.offset += there as u64;
        Ok((there == 1).then_some(byte[0]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::message::TrackDescriptor;
    use crate::{PacketEvent, PacketWriter};

    #[test]
    fn packets_are_read_as_written_and_a_cut_is_told() {
        let mut writer = PacketWriter::new(Vec::new(), 2);
        let uuid = writer.describe(TrackDescriptor::default());
        assert_eq!(uuid, 1 << 32 | 1, "numbers of sequences do not collide");
        writer.begin(uuid, 5, PacketEvent::named("one"));
        let bytes = writer.finish().unwrap();
        let mut reader = PacketReader::new(&bytes[..]);
        let mut packets = Vec::new();
        while let Some(packet) = reader.next_packet().unwrap() {
            packets.push(packet);
        }
        assert_eq!(packets.len(), 2);
        assert_eq!(packets[1].timestamp_ns, Some(5));
        assert_eq!(packets[1].trusted_packet_sequence_id, Some(2));
        let mut reader = PacketReader::new(&bytes[..bytes.len() - 1]);
        reader.next_packet().unwrap();
        let cut = reader.next_packet().unwrap_err().to_string();
        assert!(cut.ends_with("the packet ends early"), "{cut}");
        let other = PacketReader::new(&b"# csv"[..]).next_packet().unwrap_err();
        assert_eq!(
            other.to_string(),
            "byte 0 of the trace: no packet begins here"
        );
    }
}
