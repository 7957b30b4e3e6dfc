//! Echo requests of ICMP, which the kernel of the other end answers.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use crate::system_call::{check, descriptor};

/// Type, code, checksum, identifier and sequence number.
const HEADER_BYTES: usize = 8;
/// The type of an echo request.
const REQUEST: u8 = 8;
/// The type of an echo reply.
const REPLY: u8 = 0;

/// A socket that sends echo requests to one address and receives the replies; never blocks.
#[derive(Debug)]
pub struct EchoSocket {
    socket: File,
    /// The identifier of our requests where the kernel leaves it to us: on a raw socket.
    identifier: Option<u16>,
    sequence: u16,
    packet: Vec<u8>,
    received: Vec<u8>,
}

impl EchoSocket {
    /// A socket for requests to `address` with at most `payload_bytes` bytes of payload: of the kind for which
    /// `net.ipv4.ping_group_range` has the group, or else a raw one.
    ///
    /// # Errors
    /// What the kernel says; without either right, that of the raw socket (CAP_NET_RAW).
    pub fn connect(address: Ipv4Addr, payload_bytes: usize) -> io::Result<Self> {
        let datagrams = socket(libc::SOCK_DGRAM);
        let (socket, identifier) = match datagrams {
            Ok(socket) => (socket, None),
            Err(_) => (socket(libc::SOCK_RAW)?, Some(next_identifier())),
        };
        let name = libc::sockaddr_in {
            sin_family: libc::AF_INET as libc::sa_family_t,
            sin_port: 0,
            sin_addr: libc::in_addr {
                s_addr: u32::from_ne_bytes(address.octets()),
            },
            sin_zero: [0; 8],
        };
        let length = size_of_val(&name) as libc::socklen_t;
        // SAFETY: `name` is an address of the length that is given.
        check(unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) })?;
        Ok(Self {
            socket: File::from(socket),
            identifier,
            sequence: 0,
            packet: Vec::with_capacity(HEADER_BYTES + payload_bytes),
            // A raw socket gives the header of IP, too, which has at most 60 bytes.
            received: vec![0; 60 + HEADER_BYTES + payload_bytes],
        })
    }

    /// Sends one request.
    ///
    /// # Errors
    /// `WouldBlock` without room; else what the kernel says.
    pub fn send(&mut self, payload: &[u8]) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let identifier = self.identifier.unwrap_or_default();
        self.packet.clear();
        self.packet.extend_from_slice(&[REQUEST, 0, 0, 0]);
        self.packet.extend_from_slice(&identifier.to_be_bytes());
        self.packet.extend_from_slice(&self.sequence.to_be_bytes());
        self.packet.extend_from_slice(payload);
        let sum = checksum(&self.packet);
        self.packet[2..4].copy_from_slice(&sum.to_be_bytes());
        (&self.socket).write(&self.packet).map(drop)
    }

    /// The payload of the next reply to us; `None` if none waits. Other packets are passed over.
    ///
    /// # Errors
    /// What the kernel says of the socket, such as that the address cannot be reached.
    pub fn receive(&mut self) -> io::Result<Option<&[u8]>> {
        let payload = loop {
            let count = match (&self.socket).read(&mut self.received) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if let Some(payload) = reply(&self.received[..count], self.identifier) {
                break payload;
            }
        };
        Ok(Some(&self.received[payload]))
    }
}

impl AsFd for EchoSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn socket(kind: libc::c_int) -> io::Result<OwnedFd> {
    let kind = kind | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: the call makes a descriptor that is ours.
    unsafe { descriptor(libc::socket(libc::AF_INET, kind, libc::IPPROTO_ICMP)) }
}

/// An identifier that no other raw socket of this process has, and hardly one of another process.
fn next_identifier() -> u16 {
    static COUNT: AtomicU16 = AtomicU16::new(0);
    let process = std::process::id() as u16;
    process.rotate_left(6) ^ COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Where the payload lies in a packet that is a reply to us; with an identifier, the packet begins with the header of IP.
fn reply(packet: &[u8], identifier: Option<u16>) -> Option<std::ops::Range<usize>> {
    let begin = match identifier {
        None => 0,
        Some(_) => usize::from(*packet.first()? & 0x0f) * 4,
    };
    let header = packet.get(begin..begin + HEADER_BYTES)?;
    let names_us = identifier.is_none_or(|ours| header[4..6] == ours.to_be_bytes());
    (header[0] == REPLY && header[1] == 0 && names_us).then_some(begin + HEADER_BYTES..packet.len())
}

/// The Internet checksum (RFC 1071): the complement of the sum of all 16-bit words in ones' complement.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| {
        let low = pair.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([pair[0], low]))
    });
    // At most 2^15 words of 16 bits: the sum fits.
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_checksum_is_that_of_the_standard() {
        // The example of RFC 1071, section 3: the sum is ddf2.
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(checksum(&bytes), !0xddf2);
        assert_eq!(checksum(&[0xff]), !0xff00);
    }

    #[test]
    fn replies_of_others_are_passed_over() {
        let mut packet = vec![0x45; 20];
        packet.extend_from_slice(&[REPLY, 0, 0, 0, 0x12, 0x34, 0, 1, 7, 8]);
        assert_eq!(reply(&packet, Some(0x1234)), Some(28..30));
        assert_eq!(reply(&packet, Some(0x1235)), None);
        assert_eq!(reply(&packet[20..], None), Some(8..10));
        packet[20] = REQUEST;
        assert_eq!(reply(&packet, Some(0x1234)), None);
    }

    #[test]
    fn the_kernel_answers_on_the_loopback() {
        let mut socket = match EchoSocket::connect(Ipv4Addr::LOCALHOST, 100) {
            Ok(socket) => socket,
            Err(cause) => {
                eprintln!("SKIP echo socket: needs CAP_NET_RAW or a ping_group_range: {cause}");
                return;
            }
        };
        for length in [0, 1, 33, 100] {
            let payload = vec![length; usize::from(length)];
            socket.send(&payload).unwrap();
            let answer = loop {
                if let Some(answer) = socket.receive().unwrap() {
                    break answer;
                }
                std::thread::yield_now();
            };
            assert_eq!(answer, payload);
        }
        assert!(socket.receive().unwrap().is_none());
    }

    proptest! {
        #[test]
        fn no_packet_panics(packet in prop::collection::vec(any::<u8>(), 0..80), ours: Option<u16>) {
            if let Some(payload) = reply(&packet, ours) {
                prop_assert!(packet.get(payload).is_some());
            }
        }
    }
}
