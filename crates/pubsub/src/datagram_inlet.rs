//! A socket of datagrams with the memory for its datagrams, and the room that a topic needs in the kernel.

use std::net::UdpSocket;

use tailbound_linux::datagrams::{
    DatagramSlots, dropped_datagrams, grow_receive_buffer, receive_datagram, receive_datagrams,
    wait_for_datagram,
};
use tailbound_messages::LONGEST_DATAGRAM;
use tailbound_time::Duration;

use crate::data_space::longest_message;
use crate::{Topic, TransportError};

/// Limits of waits from this length on are left to the socket's own timeout, which is a tick of the kernel coarse, and saves
/// the call that waits more finely.
const COARSE_LIMIT: Duration = Duration::from_millis(50);

/// A socket and the slots that it is read into.
pub(crate) struct DatagramInlet {
    transport: &'static str,
    socket: UdpSocket,
    pub(crate) slots: DatagramSlots,
    timeout: Option<Duration>,
    /// The number of receptions that empty a full buffer. A flood that comes faster than it is read does not hold up the
    /// subscriber for longer.
    pub(crate) most_receptions: usize,
}

impl DatagramInlet {
    /// An inlet of a transport, of which the socket has `room` bytes in the kernel.
    pub(crate) fn new(
        transport: &'static str,
        socket: UdpSocket,
        room: usize,
        slots: DatagramSlots,
    ) -> Self {
        // The kernel's structure for a datagram is no smaller than this.
        const LEAST_CHARGE: usize = 256;
        Self {
            transport,
            socket,
            slots,
            timeout: None,
            // A reception that is not the last one receives at least two datagrams.
            most_receptions: room / LEAST_CHARGE / 2 + 1,
        }
    }

    /// Receives datagrams that wait into the slots from `first` on; how many came.
    pub(crate) fn receive(&mut self, first: usize, most: usize) -> Result<usize, TransportError> {
        let received = receive_datagrams(&self.socket, &mut self.slots, first, most);
        received.map_err(|error| self.failure(&error))
    }

    /// Receives one datagram into a slot. Whether one came.
    pub(crate) fn receive_one(&mut self, slot: usize, waits: bool) -> Result<bool, TransportError> {
        let received = receive_datagram(&self.socket, &mut self.slots, slot, waits);
        received.map_err(|error| self.failure(&error))
    }

    /// Whether a wait of this length is left to the socket's timeout, which is set then.
    pub(crate) fn waits_in_receive(
        &mut self,
        limit: Option<Duration>,
    ) -> Result<bool, TransportError> {
        if limit.is_some_and(|limit| limit < COARSE_LIMIT) {
            return Ok(false);
        }
        if self.timeout != limit {
            let timeout = limit.map(|limit| std::time::Duration::from_nanos(limit.as_nanos()));
            let set = self.socket.set_read_timeout(timeout);
            set.map_err(|error| self.failure(&error))?;
            self.timeout = limit;
        }
        Ok(true)
    }

    /// Waits for a datagram, without receiving it. Whether one is there.
    pub(crate) fn wait(&self, limit: Option<Duration>) -> Result<bool, TransportError> {
        // A wait without limit is one of many limits, since a signal ends each of them.
        const LONG: Duration = Duration::from_secs(3_600);
        loop {
            let ready = wait_for_datagram(&self.socket, limit.unwrap_or(LONG))
                .map_err(|error| self.failure(&error))?;
            if ready || limit.is_some() {
                return Ok(ready);
            }
        }
    }

    /// The datagrams that the kernel dropped for want of room.
    pub(crate) fn dropped(&self) -> Option<u64> {
        dropped_datagrams(&self.socket).ok()
    }

    fn failure(&self, error: &std::io::Error) -> TransportError {
        TransportError::Refused {
            transport: self.transport,
            attempt: "receive a datagram".to_owned(),
            reason: error.to_string(),
        }
    }
}

/// Gives a socket room for what may come while its subscriber does not run: what the contracts of the publishers admit in
/// an interval, and the history. The bytes of room that it has then.
pub(crate) fn give_room(
    transport: &'static str,
    socket: &UdpSocket,
    topic: &Topic,
) -> Result<usize, TransportError> {
    let admitted = topic.contract.map_or(0, |contract| contract.messages);
    let messages = admitted.max(topic.quality.history) as usize * topic.publishers as usize;
    // The kernel counts its own memory for each datagram: the structure around it, and pages that are not full.
    let longest = longest_message(topic);
    let datagrams = longest.div_ceil(LONGEST_DATAGRAM);
    let needed = messages.saturating_mul(longest + longest / 2 + datagrams * 1_280);
    let refused = |reason: String| TransportError::Refused {
        transport,
        attempt: format!(
            "make room for {messages} messages of topic `{}`",
            topic.name
        ),
        reason,
    };
    let room = grow_receive_buffer(socket, needed).map_err(|error| refused(error.to_string()))?;
    if room < needed {
        return Err(refused(format!(
            "the host admits {room} bytes of {needed}: raise net.core.rmem_max to {}, or shorten history or contract",
            needed.div_ceil(2)
        )));
    }
    Ok(room)
}
