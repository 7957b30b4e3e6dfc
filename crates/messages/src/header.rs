//! The header before each message: who sent it, when, of which data.

use tailbound_time::Instant;

/// The length of an encoded header, in bytes.
pub const HEADER_LENGTH: usize = 64;
/// The longest datagram over IPv4, without the heads of IP and UDP, in bytes.
pub const LONGEST_DATAGRAM: usize = 65_507;
const MAGIC: [u8; 2] = *b"tb";
const VERSION: u8 = 1;

/// The header of a message. Transports carry it before the payload, and routers pass it on as it is: source, sequence,
/// instance and time stamps survive every hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageHeader {
    /// What the message means.
    pub kind: MessageKind,
    /// The number of routers that the message may still pass, so that a loop of routes ends.
    pub hops_left: u8,
    /// The topic, by the hash of its name and type.
    pub topic: u64,
    /// The publisher, drawn at random when it was made.
    pub source: u64,
    /// The publisher's number of the message, from 0. Signs of life have the number of the next message.
    pub sequence: u64,
    /// The instance that the message is about, a hash of its key; 0 without keys.
    pub instance: u64,
    /// The time at which the message was published, on the source's clock.
    pub source_time: Instant,
    /// The time of the oldest measurement that went into the message: the source time of the first message of a chain.
    pub origin_time: Instant,
    /// The length of the payload, in bytes.
    pub payload_length: u32,
}

/// What a message means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum MessageKind {
    /// The payload is the new value of the instance.
    Data = 0,
    /// The instance is gone.
    Dispose = 1,
    /// The publisher lives.
    Alive = 2,
    /// The publisher ends.
    Farewell = 3,
}

/// Why bytes are no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// Fewer bytes than a header has.
    #[error("{length} bytes are no message: a header has 64")]
    Short {
        /// The number of bytes.
        length: usize,
    },
    /// Bytes that another program sent.
    #[error("the bytes are no message of tailbound")]
    Foreign,
    /// A message of a version that this library does not read.
    #[error(
        "the message is of version {version}, and this library reads version 1: update the older side"
    )]
    Version {
        /// The version.
        version: u8,
    },
    /// A kind that the version does not have.
    #[error("the message is of kind {kind}, which version 1 does not have")]
    Kind {
        /// The number of the kind.
        kind: u8,
    },
    /// A payload of another length than the header says.
    #[error("the header announces {announced} bytes of payload, and {length} came")]
    Length {
        /// The length in the header.
        announced: u32,
        /// The length that came.
        length: usize,
    },
}

/// A message as it came, possibly garbage: the bytes where a header is, and those of the payload. They need not lie side by side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawMessage<'m> {
    /// [`HEADER_LENGTH`] bytes; fewer in a message that is shorter, which has no payload then.
    pub header: &'m [u8],
    /// What follows.
    pub payload: &'m [u8],
}

impl<'m> From<&'m [u8]> for RawMessage<'m> {
    #[inline]
    fn from(message: &'m [u8]) -> Self {
        let (header, payload) = message.split_at(message.len().min(HEADER_LENGTH));
        Self { header, payload }
    }
}

impl<'m> RawMessage<'m> {
    /// Reads the header, and yields it with the payload.
    ///
    /// # Errors
    /// If the bytes are no message of this version, or the payload has another length than the header says.
    #[inline]
    pub fn decode(self) -> Result<(MessageHeader, &'m [u8]), HeaderError> {
        let Self { header, payload } = self;
        let Some((bytes, [])) = header.split_first_chunk::<HEADER_LENGTH>() else {
            let length = header.len().saturating_add(payload.len());
            return Err(HeaderError::Short { length });
        };
        if bytes[..2] != MAGIC {
            return Err(HeaderError::Foreign);
        }
        if bytes[2] != VERSION {
            return Err(HeaderError::Version { version: bytes[2] });
        }
        let kind = match bytes[3] {
            0 => MessageKind::Data,
            1 => MessageKind::Dispose,
            2 => MessageKind::Alive,
            3 => MessageKind::Farewell,
            kind => return Err(HeaderError::Kind { kind }),
        };
        let announced = u32::from_le_bytes([bytes[8], bytes[9], bytes[10], bytes[11]]);
        if usize::try_from(announced) != Ok(payload.len()) {
            let length = payload.len();
            return Err(HeaderError::Length { announced, length });
        }
        let number = |place: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[place..place + 8]);
            u64::from_le_bytes(number)
        };
        let header = MessageHeader {
            kind,
            hops_left: bytes[4],
            topic: number(16),
            source: number(24),
            sequence: number(32),
            instance: number(40),
            source_time: Instant::from_nanos(number(48)),
            origin_time: Instant::from_nanos(number(56)),
            payload_length: announced,
        };
        Ok((header, payload))
    }
}

/// Why a message passes no router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HopFault {
    /// Bytes that another program sent.
    Foreign,
    /// The message has passed as many routers as a message may.
    Spent,
}

/// Takes one off the number of routers that a message may still pass, which counts as at most `most`. Every version has this number
/// and the mark of a message in the same bytes, so that a loop of routers ends also for versions that they do not read.
///
/// # Errors
/// If the bytes are no message of any version, or the message may pass no router.
pub fn take_hop(header: &mut [u8; HEADER_LENGTH], most: u8) -> Result<(), HopFault> {
    if header[..2] != MAGIC {
        return Err(HopFault::Foreign);
    }
    let left = header[4].min(most).checked_sub(1);
    header[4] = left.ok_or(HopFault::Spent)?;
    Ok(())
}

impl MessageHeader {
    /// Writes the header, in little-endian byte order.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_LENGTH] {
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.kind as u8;
        bytes[4] = self.hops_left;
        bytes[8..12].copy_from_slice(&self.payload_length.to_le_bytes());
        let numbers = [
            self.topic,
            self.source,
            self.sequence,
            self.instance,
            self.source_time.as_nanos(),
            self.origin_time.as_nanos(),
        ];
        for (place, number) in bytes[16..].chunks_exact_mut(8).zip(numbers) {
            place.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Reads the header of a message, and yields it with the payload; as [`RawMessage::decode`].
    ///
    /// # Errors
    /// As there.
    #[inline]
    pub fn decode(message: &[u8]) -> Result<(Self, &[u8]), HeaderError> {
        RawMessage::from(message).decode()
    }
}
