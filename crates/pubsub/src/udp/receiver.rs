//! The receiving side of a topic over datagrams.

use std::net::UdpSocket;

use tailbound_linux::datagrams::{DATAGRAMS_AT_ONCE, DatagramSlots};
use tailbound_messages::RawMessage;
use tailbound_time::Duration;

use super::fragment::{Fragment, FragmentAssembly};
use super::{LONGEST_DATAGRAM, NAME};
use crate::data_space::longest_message;
use crate::datagram_inlet::DatagramInlet;
use crate::emptiness::Emptiness;
use crate::message_store::MessageStore;
use crate::{Receiver, Topic, TransportError};

/// Receives messages of one datagram each, straight into the slots of the history.
pub(super) struct DatagramReceiver {
    inlet: DatagramInlet,
    history: usize,
    first: usize,
    count: usize,
    /// Whether what waits was received just now, for the call of `take` that follows `wait`.
    fresh: bool,
    emptiness: Emptiness,
}

impl DatagramReceiver {
    pub(super) fn new(socket: UdpSocket, room: usize, topic: &Topic) -> Self {
        let history = topic.quality.history as usize;
        // A datagram longer than a message shows by the byte that it has more.
        let slots = DatagramSlots::new(history + DATAGRAMS_AT_ONCE, longest_message(topic) + 1);
        Self {
            inlet: DatagramInlet::new(NAME, socket, room, slots),
            history,
            first: 0,
            count: 0,
            fresh: false,
            emptiness: Emptiness::unseen(),
        }
    }

    /// Receives one datagram. Whether one came.
    fn receive_one(&mut self, waits: bool) -> Result<bool, TransportError> {
        if self.count == 0 {
            // A subscriber that keeps up uses one slot, which stays in the caches of the CPU.
            self.first = 0;
        }
        let next = (self.first + self.count) % self.inlet.slots.count();
        let came = self.inlet.receive_one(next, waits)?;
        self.note_received(usize::from(came));
        Ok(came)
    }

    /// Counts datagrams that came. Those beyond the history take the places of the oldest ones.
    fn note_received(&mut self, received: usize) {
        self.count += received;
        let excess = self.count.saturating_sub(self.history);
        self.first = (self.first + excess) % self.inlet.slots.count();
        self.count -= excess;
    }

    /// Reads the socket until it is empty.
    fn drain(&mut self) -> Result<(), TransportError> {
        let mut emptiness = self.emptiness;
        let outcome = emptiness.look(|| self.read_all());
        self.emptiness = emptiness;
        outcome
    }

    /// Reads what waits in the socket; whether that was everything.
    fn read_all(&mut self) -> Result<bool, TransportError> {
        let mut more = self.receive_one(false)?;
        let slots = self.inlet.slots.count();
        let mut receptions = 1;
        while more && receptions < self.inlet.most_receptions {
            let next = (self.first + self.count) % slots;
            let most = (slots - self.count).min(DATAGRAMS_AT_ONCE);
            let received = self.inlet.receive(next, most)?;
            self.note_received(received);
            more = received == most;
            receptions += 1;
        }
        Ok(!more)
    }

    /// Waits for a datagram, as long as the socket's timeout says, and reads newer ones if there may be any.
    fn receive_fresh(&mut self) -> Result<(), TransportError> {
        if self.receive_one(true)? && !self.emptiness.lasts() {
            self.drain()?;
        }
        self.fresh = self.count > 0;
        Ok(())
    }
}

impl Receiver for DatagramReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        if !std::mem::take(&mut self.fresh) {
            self.drain()?;
        }
        if self.count == 0 {
            return Ok(false);
        }
        let place = self.first;
        self.first = (self.first + 1) % self.inlet.slots.count();
        self.count -= 1;
        visit(self.inlet.slots.datagram(place).into());
        Ok(true)
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if self.count > 0 {
            return Ok(true);
        }
        if !self.inlet.waits_in_receive(limit)? {
            return self.inlet.wait(limit);
        }
        loop {
            self.receive_fresh()?;
            if self.fresh || limit.is_some() {
                return Ok(self.fresh);
            }
        }
    }

    fn dropped(&self) -> Option<u64> {
        self.inlet.dropped()
    }
}

/// Receives messages of one datagram or of several, and keeps those that are whole.
pub(super) struct FragmentReceiver {
    inlet: DatagramInlet,
    assembly: FragmentAssembly,
    waiting: MessageStore,
}

impl FragmentReceiver {
    pub(super) fn new(socket: UdpSocket, room: usize, topic: &Topic) -> Self {
        let longest = longest_message(topic);
        let history = topic.quality.history as usize;
        let slots = DatagramSlots::new(DATAGRAMS_AT_ONCE, LONGEST_DATAGRAM);
        Self {
            inlet: DatagramInlet::new(NAME, socket, room, slots),
            assembly: FragmentAssembly::new(topic.publishers as usize, longest),
            waiting: MessageStore::new(history, longest),
        }
    }

    fn drain(&mut self) -> Result<(), TransportError> {
        for _ in 0..self.inlet.most_receptions {
            let received = self.inlet.receive(0, DATAGRAMS_AT_ONCE)?;
            for slot in 0..received {
                self.add(slot);
            }
            if received < DATAGRAMS_AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    fn add(&mut self, slot: usize) {
        let datagram = self.inlet.slots.datagram(slot);
        let message = match Fragment::decode(datagram) {
            Some((head, part)) => match self.assembly.add(&head, part) {
                Some(message) => message,
                None => return,
            },
            None => datagram,
        };
        self.waiting.push(message);
    }
}

impl Receiver for FragmentReceiver {
    fn take(&mut self, visit: &mut dyn FnMut(RawMessage<'_>)) -> Result<bool, TransportError> {
        self.drain()?;
        match self.waiting.pop() {
            Some(message) => {
                visit(message.into());
                Ok(true)
            }
            None => Ok(false),
        }
    }

    fn wait(&mut self, limit: Option<Duration>) -> Result<bool, TransportError> {
        if !self.waiting.is_empty() {
            return Ok(true);
        }
        self.inlet.wait(limit)
    }

    fn dropped(&self) -> Option<u64> {
        self.inlet.dropped()
    }
}
