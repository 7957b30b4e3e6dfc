//! The sending side of a topic over datagrams.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::net::UdpSocket;

use tailbound_linux::datagrams::{send_datagram, send_whole_datagram};
use tailbound_messages::HEADER_LENGTH;

use super::fragment::{Fragment, LONGEST_PART};
use super::{LONGEST_DATAGRAM, refused};
use crate::{Sender, TransportError};

/// Up to this length, in bytes, header and payload are copied side by side: that takes less than to send two parts.
const LONGEST_JOINED: usize = 2_048;

/// Sends a message as one datagram to each destination.
pub(super) struct DatagramSender {
    sockets: Vec<UdpSocket>,
    joined: Vec<u8>,
}

impl DatagramSender {
    pub(super) fn new(sockets: Vec<UdpSocket>) -> Self {
        Self {
            sockets,
            joined: Vec::with_capacity(LONGEST_JOINED),
        }
    }
}

impl Sender for DatagramSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        if header.len() + payload.len() > LONGEST_JOINED {
            return send_parts(&self.sockets, header, payload);
        }
        self.joined.clear();
        self.joined.extend_from_slice(header);
        self.joined.extend_from_slice(payload);
        send_to_all(&self.sockets, |socket| {
            send_whole_datagram(socket, &self.joined)
        })
    }
}

/// Sends a message in several datagrams, where it does not fit into one.
pub(super) struct FragmentSender {
    sockets: Vec<UdpSocket>,
    message: Vec<u8>,
    stream: u64,
    number: u64,
}

impl FragmentSender {
    pub(super) fn new(sockets: Vec<UdpSocket>) -> Self {
        Self {
            sockets,
            message: Vec::new(),
            stream: RandomState::new().build_hasher().finish(),
            number: 0,
        }
    }
}

impl Sender for FragmentSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        let length = header.len() + payload.len();
        if length <= LONGEST_DATAGRAM {
            return send_parts(&self.sockets, header, payload);
        }
        self.message.clear();
        self.message.extend_from_slice(header);
        self.message.extend_from_slice(payload);
        for (place, part) in self.message.chunks(LONGEST_PART).enumerate() {
            let fragment = Fragment {
                stream: self.stream,
                number: self.number,
                message_length: u32::try_from(length).unwrap_or(u32::MAX),
                offset: u32::try_from(place * LONGEST_PART).unwrap_or(u32::MAX),
            };
            send_parts(&self.sockets, &fragment.encode(), part)?;
        }
        self.number += 1;
        Ok(())
    }
}

fn send_parts(sockets: &[UdpSocket], first: &[u8], second: &[u8]) -> Result<(), TransportError> {
    send_to_all(sockets, |socket| send_datagram(socket, first, second))
}

/// Sends a datagram to all destinations, also if one of them cannot be sent to; the first failure counts.
fn send_to_all(
    sockets: &[UdpSocket],
    send: impl Fn(&UdpSocket) -> io::Result<()>,
) -> Result<(), TransportError> {
    let mut failure = None;
    for socket in sockets {
        let mut outcome = send(socket);
        if outcome.as_ref().is_err_and(is_refused) {
            // The kernel reports that nobody listened to the datagram before, in place of sending this one.
            outcome = send(socket);
        }
        match outcome {
            Err(error) if !is_refused(&error) => failure = failure.or(Some(error)),
            // Nobody listens: topics may be without subscribers.
            _ => {}
        }
    }
    match failure {
        Some(error) => Err(refused("send a datagram".to_owned(), error)),
        None => Ok(()),
    }
}

fn is_refused(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ConnectionRefused
}
