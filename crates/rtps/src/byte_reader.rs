//! Numbers in bytes of either order.

use std::net::{Ipv4Addr, SocketAddrV4};

use crate::{EntityId, Guid, GuidPrefix};

/// The kind of a locator that is an IPv4 address with a port of UDP.
pub(crate) const UDP_V4: i32 = 1;

/// Reads bytes from the front; every read is `None` when the bytes end before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteReader<'a> {
    bytes: &'a [u8],
    little_endian: bool,
}

impl<'a> ByteReader<'a> {
    pub(crate) fn new(bytes: &'a [u8], little_endian: bool) -> Self {
        Self {
            bytes,
            little_endian,
        }
    }

    /// The bytes that are left.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.bytes.split_at_checked(count)?;
        self.bytes = rest;
        Some(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*taken)
    }

    pub(crate) fn u16(&mut self) -> Option<u16> {
        let bytes = self.array()?;
        Some(match self.little_endian {
            true => u16::from_le_bytes(bytes),
            false => u16::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = self.array()?;
        Some(match self.little_endian {
            true => u32::from_le_bytes(bytes),
            false => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn i32(&mut self) -> Option<i32> {
        self.u32().map(u32::cast_signed)
    }

    /// A sequence number: the high half, with its sign, then the low one.
    pub(crate) fn sequence(&mut self) -> Option<i64> {
        let high = i64::from(self.i32()?);
        let low = i64::from(self.u32()?);
        Some((high << 32) | low)
    }

    pub(crate) fn entity(&mut self) -> Option<EntityId> {
        self.array().map(EntityId)
    }

    pub(crate) fn prefix(&mut self) -> Option<GuidPrefix> {
        self.array().map(GuidPrefix)
    }

    pub(crate) fn guid(&mut self) -> Option<Guid> {
        self.array().map(Guid::from_bytes)
    }

    /// A length in seconds and fractions of 2^-32 s, as one number that orders lengths.
    pub(crate) fn length(&mut self) -> Option<u64> {
        let seconds = u64::from(self.u32()?);
        let fraction = u64::from(self.u32()?);
        Some((seconds << 32) | fraction)
    }

    /// A locator, if it is an IPv4 address with a port; the inner `None` is a locator of another kind.
    pub(crate) fn locator(&mut self) -> Option<Option<SocketAddrV4>> {
        let kind = self.i32()?;
        let port = self.u32()?;
        let address: [u8; 16] = self.array()?;
        let host = Ipv4Addr::new(address[12], address[13], address[14], address[15]);
        let port = u16::try_from(port).ok().filter(|port| *port > 0);
        Some(
            port.filter(|_| kind == UDP_V4)
                .map(|port| SocketAddrV4::new(host, port)),
        )
    }

    /// A string of CDR: the length with the zero at the end, then the bytes.
    pub(crate) fn string(&mut self) -> Option<&'a str> {
        let length = self.u32()? as usize;
        let bytes = self.take(length)?;
        let (end, text) = bytes.split_last()?;
        match end {
            0 => std::str::from_utf8(text).ok(),
            _ => None,
        }
    }
}
