//! A connected stream, encrypted or not; never blocks.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use tailbound_linux::sockets::{tcp_end, unix_end};

use crate::tls::TlsSession;

/// A connected socket of either kind; never blocks.
#[derive(Debug)]
pub(crate) enum Socket {
    /// On this host.
    Unix(UnixStream),
    /// Over a network, or its loopback.
    Tcp(TcpStream),
}

/// A connected stream, encrypted or not; never blocks.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Shared with whoever watches the socket while the stream is inside a protocol's own connection.
    socket: Arc<Socket>,
    tls: Option<Box<TlsSession>>,
}

impl Socket {
    /// This end, as [`tailbound_linux::sockets`] names ends.
    ///
    /// # Errors
    /// What the kernel says of the descriptor.
    pub(crate) fn end(&self) -> io::Result<String> {
        match self {
            Self::Unix(stream) => unix_end(stream),
            Self::Tcp(stream) => stream.local_addr().map(tcp_end),
        }
    }

    /// Tells the peer that nothing more will be written.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn end_writing(&self) -> io::Result<()> {
        match self {
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// Writes what the kernel takes now of `bytes`; returns how many those were.
    ///
    /// # Errors
    /// A broken connection; not that the kernel takes no more.
    fn write_some(&self, bytes: &[u8]) -> io::Result<usize> {
        let (mut socket, mut written) = (self, 0);
        while written < bytes.len() {
            match socket.write(&bytes[written..]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => written += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(written)
    }

    /// Reads what is there, up to a full `buffer`: `None` if nothing is, 0 at the end.
    ///
    /// # Errors
    /// A broken connection.
    fn read_some(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let mut socket = self;
        loop {
            match socket.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Stream {
    /// Takes over a Unix socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::plain(Socket::Unix(stream)))
    }

    /// Takes over a TCP socket; small messages go out at once.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self::plain(Socket::Tcp(stream)))
    }

    fn plain(socket: Socket) -> Self {
        Self {
            socket: Arc::new(socket),
            tls: None,
        }
    }

    /// The same, encrypted; the handshake goes on with every read and write.
    pub(crate) fn encrypted(self, session: TlsSession) -> Self {
        Self {
            tls: Some(Box::new(session)),
            ..self
        }
    }

    /// The socket below, for whoever watches it.
    pub(crate) fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// The encryption, where there is one.
    pub(crate) fn tls(&self) -> Option<&TlsSession> {
        self.tls.as_deref()
    }

    /// Goes on with the handshake of TLS; whether it is over.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn shake_hands(&mut self) -> io::Result<bool> {
        match &mut self.tls {
            None => Ok(true),
            Some(tls) => tls.shake_hands(&self.socket),
        }
    }

    /// Takes what there is room for of `bytes`, and writes what the kernel takes now; returns how many were taken.
    ///
    /// # Errors
    /// A broken connection; not that there is no more room.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.tls {
            None => self.socket.write_some(bytes),
            Some(tls) => tls.write_some(&self.socket, bytes),
        }
    }

    /// Whether bytes that were taken are still to be written.
    pub(crate) fn has_unsent(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_unsent())
    }

    /// Reads what is there, up to a full `buffer`: `None` if nothing is, 0 at the end.
    ///
    /// # Errors
    /// A broken connection.
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match &mut self.tls {
            None => self.socket.read_some(buffer),
            Some(tls) => tls.read_some(&self.socket, buffer),
        }
    }

    /// Whether a read that does not fill its buffer has emptied the socket: records of TLS come one by one.
    pub(crate) fn is_emptied_by_short_read(&self) -> bool {
        self.tls.is_none()
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Read for &Socket {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match *self {
            Socket::Unix(stream) => (&*stream).read(buffer),
            Socket::Tcp(stream) => (&*stream).read(buffer),
        }
    }
}

impl Write for &Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match *self {
            Socket::Unix(stream) => (&*stream).write(bytes),
            Socket::Tcp(stream) => (&*stream).write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
