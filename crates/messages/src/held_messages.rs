//! Messages that wait until the contract of their publisher admits them.

use crate::MessageHeader;

/// A ring of messages with memory for a fixed number of them; a newer one takes the place of the oldest.
#[derive(Debug)]
pub(crate) struct HeldMessages {
    slots: Vec<(Option<MessageHeader>, Vec<u8>)>,
    first: usize,
    count: usize,
}

impl HeldMessages {
    /// Memory for `capacity` messages of at most `longest` bytes.
    pub(crate) fn new(capacity: usize, longest: usize) -> Self {
        Self {
            slots: (0..capacity)
                .map(|_| (None, Vec::with_capacity(longest)))
                .collect(),
            first: 0,
            count: 0,
        }
    }

    /// Keeps a message; whether the oldest one had to go for it, or the message itself where there is no memory.
    pub(crate) fn push(&mut self, header: &MessageHeader, payload: &[u8]) -> bool {
        if self.slots.is_empty() {
            return true;
        }
        let full = self.count == self.slots.len();
        let place = (self.first + self.count) % self.slots.len();
        match full {
            true => self.first = (self.first + 1) % self.slots.len(),
            false => self.count += 1,
        }
        let (kept, bytes) = &mut self.slots[place];
        *kept = Some(*header);
        bytes.clear();
        bytes.extend_from_slice(payload);
        full
    }

    /// The header of the oldest message, and the length of its payload.
    pub(crate) fn front(&self) -> Option<(&MessageHeader, usize)> {
        let (header, bytes) = self.slots.get(self.first).filter(|_| self.count > 0)?;
        Some((header.as_ref()?, bytes.len()))
    }

    /// Takes the oldest message; its bytes stay until the next push.
    pub(crate) fn pop(&mut self) -> Option<(MessageHeader, &[u8])> {
        if self.count == 0 {
            return None;
        }
        let place = self.first;
        self.first = (self.first + 1) % self.slots.len();
        self.count -= 1;
        let (header, bytes) = &mut self.slots[place];
        header.take().map(|header| (header, bytes.as_slice()))
    }

    /// Forgets all messages; how many there were.
    pub(crate) fn clear(&mut self) -> usize {
        self.first = 0;
        std::mem::take(&mut self.count)
    }
}
