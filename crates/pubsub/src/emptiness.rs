//! The memory that nothing waited, which saves a subscriber that keeps up a look behind each message.

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};

/// The time for which a socket that was empty counts as such.
const EMPTINESS: Duration = Duration::from_micros(100);

/// The last time at which nothing waited in a socket.
///
/// A subscriber that keeps up waits for messages one by one, and to look behind each for a newer one would cost a system call.
/// So a message that would have had to give its place to newer ones is delivered in their place, if it came at most
/// [`EMPTINESS`] before.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Emptiness {
    at: Instant,
}

impl Emptiness {
    /// A socket that has not been looked at.
    pub(crate) fn unseen() -> Self {
        Self {
            at: Instant::ORIGIN,
        }
    }

    /// Whether the socket was empty a moment ago.
    pub(crate) fn lasts(&self) -> bool {
        Monotonic.now().saturating_since(self.at) <= EMPTINESS
    }

    /// Looks into the socket; `look` says whether it is empty then. The time before the look counts.
    pub(crate) fn look<E>(&mut self, look: impl FnOnce() -> Result<bool, E>) -> Result<(), E> {
        let begin = Monotonic.now();
        if look()? {
            self.at = begin;
        }
        Ok(())
    }
}
