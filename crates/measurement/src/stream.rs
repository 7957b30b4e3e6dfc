//! A connected socket of either kind; never blocks.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use tailbound_linux::sockets::{tcp_end, unix_end};

/// A connected socket of either kind; never blocks.
#[derive(Debug)]
pub(crate) enum Stream {
    /// On this host.
    Unix(UnixStream),
    /// Over a network, or its loopback.
    Tcp(TcpStream),
}

impl Stream {
    /// Takes over a Unix socket.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of_unix(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        Ok(Self::Unix(stream))
    }

    /// Takes over a TCP socket; small messages go out at once.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn of_tcp(stream: TcpStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        Ok(Self::Tcp(stream))
    }

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

    /// Writes what the kernel takes now of `bytes`; returns how many those were.
    ///
    /// # Errors
    /// A broken connection; not that the kernel takes no more.
    pub(crate) fn write_some(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() {
            match self.write(&bytes[written..]) {
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
    pub(crate) fn read_some(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        loop {
            match self.read(buffer) {
                Ok(count) => return Ok(Some(count)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Unix(stream) => stream.as_fd(),
            Self::Tcp(stream) => stream.as_fd(),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.read(buffer),
            Self::Tcp(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Unix(stream) => stream.write(bytes),
            Self::Tcp(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
