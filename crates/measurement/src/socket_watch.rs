//! Waiting for one socket, with an end.

use std::io;

use tailbound_linux::clock::Monotonic;
use tailbound_linux::polling::{Interest, Poller};
use tailbound_time::{Clock, Duration, Instant};

use crate::stream::Socket;

/// The longest wait before whoever waits looks at the socket again.
const STEP_LIMIT: Duration = Duration::from_millis(50);

/// `SocketWatch` waits for one socket, and gives up after a time.
pub(crate) struct SocketWatch {
    poller: Poller,
    within: Duration,
    give_up: Instant,
}

impl SocketWatch {
    /// A watch that gives up after a time from now.
    ///
    /// # Errors
    /// What the kernel says.
    pub(crate) fn begin(socket: &Socket, within: Duration) -> io::Result<Self> {
        let poller = Poller::new()?;
        poller.add(socket, 0, Interest::Read)?;
        Ok(Self {
            poller,
            within,
            give_up: Monotonic.now().saturating_add(within),
        })
    }

    /// Waits until something is to be read or, where that is wanted, can be written; a short time at most.
    ///
    /// # Errors
    /// `TimedOut` when the time is over, else what the kernel says.
    pub(crate) fn wait(&mut self, socket: &Socket, wants_to_write: bool) -> io::Result<()> {
        let left = self.give_up.saturating_since(Monotonic.now());
        if left == Duration::ZERO {
            let text = format!("no answer within {}", self.within);
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        let interest = match wants_to_write {
            true => Interest::ReadWrite,
            false => Interest::Read,
        };
        self.poller.change(socket, 0, interest)?;
        self.poller.wait(Some(left.min(STEP_LIMIT))).map(drop)
    }
}
