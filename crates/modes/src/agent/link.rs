//! Links to the host: what the agent needs of one, and how it makes them.

use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use tailbound_linux::control_socket::connect_non_blocking;
use tailbound_linux::control_socket::peer_credentials;
use tailbound_linux::process::effective_uid;
use tailbound_time::Duration;

/// A stream of bytes that never blocks, with a descriptor that can be polled: a Unix or TCP socket,
/// a virtio-serial port, a vsock.
pub trait Link: Read + Write + AsFd {}

impl<T: Read + Write + AsFd> Link for T {}

/// Makes links to one host, one after another.
pub trait Connector {
    /// What it makes.
    type Link: Link;

    /// Connects, without blocking for long.
    ///
    /// # Errors
    /// Why there is no link now; the agent tries again later.
    fn connect(&mut self) -> Result<Self::Link, ConnectError>;
}

/// Why there is no link.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ConnectError {
    /// Nobody listens, or what the kernel says otherwise.
    #[error("cannot connect to {address}: {source}")]
    Unreachable {
        /// Where to.
        address: String,
        /// Why not.
        source: io::Error,
    },
    /// Somebody else listens.
    #[error(
        "{address} belongs to uid {uid}, which may not switch tasks here; connect to a host manager \
         of root's or of uid {expected}"
    )]
    NotTrusted {
        /// Where to.
        address: String,
        /// Who listens.
        uid: u32,
        /// Who may, beside root.
        expected: u32,
    },
}

/// Connects to a Unix socket of root or of one trusted user.
#[derive(Clone, Debug)]
pub struct UnixConnector {
    path: PathBuf,
    trusted_uid: u32,
}

impl UnixConnector {
    /// Connects to the socket at `path`, which root or this process's user listens on.
    pub fn new(path: PathBuf) -> Self {
        Self {
            path,
            trusted_uid: effective_uid(),
        }
    }

    /// Trusts a listener of user `uid` in place of this process's user: in a container with user
    /// ids of its own, the host's root has another number.
    #[must_use]
    pub fn trusting(self, uid: u32) -> Self {
        Self {
            trusted_uid: uid,
            ..self
        }
    }

    fn address(&self) -> String {
        format!("unix:{}", self.path.display())
    }
}

impl Connector for UnixConnector {
    type Link = UnixStream;

    fn connect(&mut self) -> Result<UnixStream, ConnectError> {
        let unreachable = |source| ConnectError::Unreachable {
            address: self.address(),
            source,
        };
        let stream = connect_non_blocking(&self.path).map_err(unreachable)?;
        let peer = peer_credentials(&stream).map_err(unreachable)?;
        if peer.uid != 0 && peer.uid != self.trusted_uid {
            return Err(ConnectError::NotTrusted {
                address: self.address(),
                uid: peer.uid,
                expected: self.trusted_uid,
            });
        }
        Ok(stream)
    }
}

/// The pauses between attempts to connect: each twice as long as the one before, up to a longest.
#[derive(Clone, Copy, Debug)]
pub struct Pauses {
    least: Duration,
    most: Duration,
    next: Duration,
}

impl Pauses {
    /// From `least` up to `most`.
    pub fn new(least: Duration, most: Duration) -> Self {
        Self {
            least,
            most,
            next: least,
        }
    }

    /// A connection that began well lasted for `lived`. If that is longer than the pause that would
    /// follow, the pauses start anew; a host that closes every connection soon is not asked more and
    /// more often.
    pub fn connection_ended(&mut self, lived: Duration) {
        if lived > self.next {
            self.next = self.least;
        }
    }

    /// The pause to make now.
    pub fn take(&mut self) -> Duration {
        let pause = self.next;
        self.next = pause.saturating_add(pause).min(self.most);
        pause
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use std::os::unix::net::UnixListener;

    use super::*;

    #[test]
    fn pauses_grow_and_start_anew_after_a_connection_that_lasted() {
        let ms = Duration::from_millis;
        let mut pauses = Pauses::new(ms(10), ms(50));
        let taken: Vec<Duration> = (0..4).map(|_| pauses.take()).collect();
        assert_eq!(taken, [ms(10), ms(20), ms(40), ms(50)]);
        pauses.connection_ended(ms(1));
        assert_eq!(pauses.take(), ms(50));
        pauses.connection_ended(ms(51));
        assert_eq!(pauses.take(), ms(10));
    }

    #[test]
    fn only_sockets_of_trusted_users_are_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("s");
        let mut connector = UnixConnector::new(path.clone());
        assert!(matches!(
            connector.connect(),
            Err(ConnectError::Unreachable { .. })
        ));
        let _listener = UnixListener::bind(&path).unwrap();
        assert!(connector.connect().is_ok());
        if effective_uid() != 0 {
            let other = connector.trusting(effective_uid() + 1).connect();
            assert!(matches!(other, Err(ConnectError::NotTrusted { .. })));
        }
    }
}
