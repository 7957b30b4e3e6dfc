//! Lists of parameters, in announcements and before the data of a submessage (DDSI-RTPS 2.3, section 9.4.2.11).

use std::net::SocketAddrV4;

use crate::byte_reader::{ByteReader, UDP_V4};

/// The numbers of parameters (DDSI-RTPS 2.3, section 9.6.2.2; DDS-XTypes 1.3, section 7.6.3.1).
pub(crate) mod parameter {
    pub(crate) const PAD: u16 = 0x0000;
    pub(crate) const SENTINEL: u16 = 0x0001;
    pub(crate) const PARTICIPANT_LEASE: u16 = 0x0002;
    pub(crate) const TOPIC_NAME: u16 = 0x0005;
    pub(crate) const TYPE_NAME: u16 = 0x0007;
    pub(crate) const DOMAIN: u16 = 0x000f;
    pub(crate) const PROTOCOL_VERSION: u16 = 0x0015;
    pub(crate) const VENDOR: u16 = 0x0016;
    pub(crate) const RELIABILITY: u16 = 0x001a;
    pub(crate) const LIVELINESS: u16 = 0x001b;
    pub(crate) const DURABILITY: u16 = 0x001d;
    pub(crate) const OWNERSHIP: u16 = 0x001f;
    pub(crate) const PRESENTATION: u16 = 0x0021;
    pub(crate) const DEADLINE_QUALITY: u16 = 0x0023;
    pub(crate) const DESTINATION_ORDER: u16 = 0x0025;
    pub(crate) const PARTITION: u16 = 0x0029;
    pub(crate) const UNICAST_LOCATOR: u16 = 0x002f;
    pub(crate) const DEFAULT_UNICAST_LOCATOR: u16 = 0x0031;
    pub(crate) const METATRAFFIC_UNICAST_LOCATOR: u16 = 0x0032;
    pub(crate) const HISTORY: u16 = 0x0040;
    pub(crate) const PARTICIPANT_GUID: u16 = 0x0050;
    pub(crate) const BUILTIN_ENDPOINTS: u16 = 0x0058;
    pub(crate) const ENDPOINT_GUID: u16 = 0x005a;
    pub(crate) const KEY_HASH: u16 = 0x0070;
    pub(crate) const STATUS: u16 = 0x0071;
    pub(crate) const REPRESENTATION: u16 = 0x0073;
}

/// The encapsulation of a list in little-endian byte order, and the kind of one in the other order.
const LITTLE_ENDIAN: [u8; 4] = [0, 3, 0, 0];
const BIG_ENDIAN: [u8; 2] = [0, 2];

/// The parameters of a list, one after another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ParameterList<'a> {
    reader: ByteReader<'a>,
    little_endian: bool,
}

/// A parameter: its number, and a reader of its value.
pub(crate) type Parameter<'a> = (u16, ByteReader<'a>);

impl<'a> ParameterList<'a> {
    /// The list at the front of bytes.
    pub(crate) fn new(bytes: &'a [u8], little_endian: bool) -> Self {
        Self {
            reader: ByteReader::new(bytes, little_endian),
            little_endian,
        }
    }

    /// The list of an announcement, which says its byte order itself; `None` if it is no list.
    pub(crate) fn of_payload(payload: &'a [u8]) -> Option<Self> {
        let (head, bytes) = payload.split_first_chunk::<4>()?;
        match [head[0], head[1]] {
            kind if kind == LITTLE_ENDIAN[..2] => Some(Self::new(bytes, true)),
            kind if kind == BIG_ENDIAN => Some(Self::new(bytes, false)),
            _ => None,
        }
    }

    /// The next parameter: `Some(None)` at the end of the list, `None` if the bytes end before it.
    pub(crate) fn next(&mut self) -> Option<Option<Parameter<'a>>> {
        loop {
            let number = self.reader.u16()?;
            let length = self.reader.u16()?;
            if number == parameter::SENTINEL {
                return Some(None);
            }
            let value = self.reader.take(length.into())?;
            if number != parameter::PAD {
                return Some(Some((number, ByteReader::new(value, self.little_endian))));
            }
        }
    }

    /// The bytes behind the list, once its end was reached.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

/// Writes a list of parameters, in little-endian byte order.
#[derive(Debug, Default)]
pub(crate) struct ParameterWriter {
    bytes: Vec<u8>,
}

impl ParameterWriter {
    /// The beginning of the list of an announcement.
    pub(crate) fn announcement() -> Self {
        Self {
            bytes: LITTLE_ENDIAN.to_vec(),
        }
    }

    pub(crate) fn put(&mut self, number: u16, value: &[u8]) -> &mut Self {
        let length = value.len().next_multiple_of(4);
        self.bytes.extend_from_slice(&number.to_le_bytes());
        let announced = u16::try_from(length).unwrap_or(u16::MAX);
        self.bytes.extend_from_slice(&announced.to_le_bytes());
        self.bytes.extend_from_slice(value);
        self.bytes
            .resize(self.bytes.len() + length - value.len(), 0);
        self
    }

    pub(crate) fn put_numbers(&mut self, number: u16, values: &[u32]) -> &mut Self {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.put(number, &bytes)
    }

    pub(crate) fn put_string(&mut self, number: u16, text: &str) -> &mut Self {
        let length = u32::try_from(text.len() + 1).unwrap_or(u32::MAX);
        let mut bytes = length.to_le_bytes().to_vec();
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
        self.put(number, &bytes)
    }

    pub(crate) fn put_locator(&mut self, number: u16, address: SocketAddrV4) -> &mut Self {
        let mut bytes = UDP_V4.to_le_bytes().to_vec();
        bytes.extend_from_slice(&u32::from(address.port()).to_le_bytes());
        bytes.extend_from_slice(&[0; 12]);
        bytes.extend_from_slice(&address.ip().octets());
        self.put(number, &bytes)
    }

    /// Ends the list.
    pub(crate) fn finish(&mut self) -> Vec<u8> {
        self.put(parameter::SENTINEL, &[]);
        std::mem::take(&mut self.bytes)
    }
}
