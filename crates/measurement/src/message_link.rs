//! Connections that carry messages with bounds: a datagram, an echo request, a message of a topic for each frame.

use std::fmt;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsFd, BorrowedFd};

use tailbound_linux::echo_socket::EchoSocket;
use tailbound_time::Instant;

use crate::endpoint::{MessageCarrier, MessageEndpoint};
use crate::protocol::frame::FRAME_BYTES;
use crate::topic_link::TopicLink;

/// The frame of a message that came.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IncomingFrame {
    pub(crate) bytes: [u8; FRAME_BYTES],
    /// When the message came, where that is known more exactly than by when it is read.
    pub(crate) at: Option<Instant>,
}

/// A connection to one service; never blocks. Messages may be lost on the way.
pub(crate) trait MessageLink: fmt::Debug + Send {
    /// What a poller watches for messages that came.
    fn watched(&self) -> BorrowedFd<'_>;

    /// This end, as [`tailbound_linux::sockets`] names ends, where its tables know such ends.
    fn end(&self) -> io::Result<String> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Sends a frame, filled up to the length of messages.
    ///
    /// # Errors
    /// `WouldBlock` without room; else why the connection is broken.
    fn send(&mut self, frame: &[u8; FRAME_BYTES]) -> io::Result<()>;

    /// The frame of the next message that came; `None` if none waits.
    ///
    /// # Errors
    /// Why the connection is broken; `InvalidData` for a message without a frame.
    fn receive(&mut self) -> io::Result<Option<IncomingFrame>>;
}

/// Opens a link to a service.
///
/// # Errors
/// What the kernel or the transport says.
pub(crate) fn open(endpoint: &MessageEndpoint) -> io::Result<Box<dyn MessageLink>> {
    let size = endpoint.size;
    Ok(match &endpoint.carrier {
        MessageCarrier::Datagrams(address) => {
            let any = match address {
                std::net::SocketAddr::V4(_) => "0.0.0.0:0",
                std::net::SocketAddr::V6(_) => "[::]:0",
            };
            let socket = UdpSocket::bind(any)?;
            socket.connect(address)?;
            socket.set_nonblocking(true)?;
            Box::new(DatagramLink {
                socket,
                message: vec![0; size],
                received: vec![0; size + 1],
            })
        }
        MessageCarrier::Echo(address) => Box::new(EchoLink {
            socket: EchoSocket::connect(*address, size)?,
            message: vec![0; size],
        }),
        MessageCarrier::Topics(topics) => Box::new(TopicLink::open(topics, size)?),
    })
}

/// The frame at the beginning of a message.
pub(crate) fn frame_of(message: &[u8]) -> io::Result<[u8; FRAME_BYTES]> {
    let frame = message.first_chunk::<FRAME_BYTES>();
    frame.copied().ok_or_else(|| {
        let what = format!("a message of {} bytes came, without a frame", message.len());
        io::Error::new(io::ErrorKind::InvalidData, what)
    })
}

#[derive(Debug)]
struct DatagramLink {
    socket: UdpSocket,
    message: Vec<u8>,
    received: Vec<u8>,
}

impl MessageLink for DatagramLink {
    fn watched(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, frame: &[u8; FRAME_BYTES]) -> io::Result<()> {
        self.message[..FRAME_BYTES].copy_from_slice(frame);
        self.socket.send(&self.message).map(drop)
    }

    fn receive(&mut self) -> io::Result<Option<IncomingFrame>> {
        let count = match self.socket.recv(&mut self.received) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error),
        };
        let bytes = frame_of(&self.received[..count])?;
        Ok(Some(IncomingFrame { bytes, at: None }))
    }
}

#[derive(Debug)]
struct EchoLink {
    socket: EchoSocket,
    message: Vec<u8>,
}

impl MessageLink for EchoLink {
    fn watched(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    fn send(&mut self, frame: &[u8; FRAME_BYTES]) -> io::Result<()> {
        self.message[..FRAME_BYTES].copy_from_slice(frame);
        self.socket.send(&self.message)
    }

    fn receive(&mut self) -> io::Result<Option<IncomingFrame>> {
        let Some(payload) = self.socket.receive()? else {
            return Ok(None);
        };
        let bytes = frame_of(payload)?;
        Ok(Some(IncomingFrame { bytes, at: None }))
    }
}
