//! The agent's end of a port of its virtual machine.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

use crate::preamble::{ASKS, PortInput, Scanner, preamble};

/// What is said before a session has begun: `hello`, and nothing else.
const FIRST_BYTES_MAX: usize = 128 * 1024;

/// A port in one session: it ends when the host begins another one.
pub struct PortLink<P> {
    port: P,
    scanner: Scanner,
    /// The session that was answered.
    session: Option<u64>,
    /// What is said first, kept until the host has said something: it may begin anew until then.
    first: Vec<u8>,
    heard: bool,
    ready: Vec<u8>,
    /// The host has begun another session.
    over: bool,
}

impl<P: Read + Write> PortLink<P> {
    /// Asks for a session on a port that never blocks.
    ///
    /// # Errors
    /// If the port takes nothing in.
    pub fn new(mut port: P) -> io::Result<Self> {
        write_whole(&mut port, &preamble(ASKS))?;
        Ok(Self {
            port,
            scanner: Scanner::default(),
            session: None,
            first: Vec::new(),
            heard: false,
            ready: Vec::new(),
            over: false,
        })
    }

    fn take(&mut self, input: PortInput) -> io::Result<()> {
        match input {
            PortInput::Session(session) if self.session == Some(session) || session == ASKS => {}
            PortInput::Session(_) if self.heard => self.over = true,
            PortInput::Session(session) => {
                self.session = Some(session);
                let mut bytes = preamble(session);
                bytes.extend(&self.first);
                write_whole(&mut self.port, &bytes)?;
            }
            PortInput::Bytes(bytes) if self.session.is_some() && !self.over => {
                self.heard = true;
                self.first.clear();
                self.ready.extend(bytes);
            }
            // Of a session that is over.
            PortInput::Bytes(_) => {}
        }
        Ok(())
    }

    fn give(&mut self, buffer: &mut [u8]) -> usize {
        let count = self.ready.len().min(buffer.len());
        for (place, byte) in buffer.iter_mut().zip(self.ready.drain(..count)) {
            *place = byte;
        }
        count
    }
}

/// What is said here is short: a port that does not take it in has nobody behind it.
fn write_whole(port: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
    match port.write(bytes)? {
        count if count == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::ConnectionReset.into()),
    }
}

impl<P: Read + Write> Read for PortLink<P> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if !self.ready.is_empty() {
                return Ok(self.give(buffer));
            }
            if self.over {
                return Ok(0);
            }
            let count = self.port.read(buffer)?;
            if count == 0 {
                return Ok(0);
            }
            for input in self.scanner.push(&buffer[..count]) {
                self.take(input)?;
            }
        }
    }
}

impl<P: Read + Write> Write for PortLink<P> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.heard {
            return self.port.write(bytes);
        }
        if self.first.len() + bytes.len() > FIRST_BYTES_MAX {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if self.session.is_some() {
            write_whole(&mut self.port, bytes)?;
        }
        self.first.extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.port.flush()
    }
}

impl<P: AsFd> AsFd for PortLink<P> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.port.as_fd()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::os::unix::net::UnixStream;

    use super::*;

    fn said(host: &mut UnixStream) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        match host.read(&mut bytes) {
            Ok(count) => bytes.truncate(count),
            Err(_) => bytes.clear(),
        }
        bytes
    }

    #[test]
    fn what_an_old_session_left_is_not_read_as_the_new_one() {
        let (mut host, guest) = UnixStream::pair().unwrap();
        host.set_nonblocking(true).unwrap();
        guest.set_nonblocking(true).unwrap();
        let mut link = PortLink::new(guest).unwrap();
        assert_eq!(said(&mut host), preamble(ASKS));
        assert_eq!(link.write(b"hello").unwrap(), 5);
        assert_eq!(said(&mut host), b"", "nobody has begun a session");
        let mut buffer = [0; 64];
        host.write_all(b"TM\0\x01\0\0\0\x50{\"half").unwrap();
        host.write_all(&preamble(7)).unwrap();
        let none = link.read(&mut buffer).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::WouldBlock);
        assert_eq!(said(&mut host), [preamble(7), b"hello".to_vec()].concat());
        // The host that has said so is gone, too; another one is there.
        host.write_all(&[preamble(9), b"welcome".to_vec()].concat())
            .unwrap();
        assert_eq!(link.read(&mut buffer).unwrap(), 7);
        assert_eq!(&buffer[..7], b"welcome");
        assert_eq!(said(&mut host), [preamble(9), b"hello".to_vec()].concat());
        link.write_all(b"done").unwrap();
        assert_eq!(said(&mut host), b"done");
        host.write_all(&preamble(11)).unwrap();
        assert_eq!(link.read(&mut buffer).unwrap(), 0, "this session is over");
    }
}
