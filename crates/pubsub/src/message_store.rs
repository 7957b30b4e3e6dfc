//! Messages that wait for a subscriber, in memory that is made once.

/// A ring of messages; a newer one takes the place of the oldest.
pub(crate) struct MessageStore {
    messages: Vec<Vec<u8>>,
    longest: usize,
    first: usize,
    count: usize,
}

impl MessageStore {
    /// Room for `history` messages of at most `longest` bytes, header included.
    pub(crate) fn new(history: usize, longest: usize) -> Self {
        let message = || Vec::with_capacity(longest + 1);
        Self {
            messages: (0..history).map(|_| message()).collect(),
            longest,
            first: 0,
            count: 0,
        }
    }

    /// Whether no message waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Keeps a message. Garbage that is longer than a message is cut, and keeps a byte that shows its length as wrong.
    pub(crate) fn push(&mut self, message: &[u8]) {
        let history = self.messages.len();
        let place = (self.first + self.count) % history;
        match self.count == history {
            true => self.first = (self.first + 1) % history,
            false => self.count += 1,
        }
        let kept = &mut self.messages[place];
        kept.clear();
        kept.extend_from_slice(&message[..message.len().min(self.longest + 1)]);
    }

    /// Takes the oldest message; its bytes stay until the next push.
    pub(crate) fn pop(&mut self) -> Option<&[u8]> {
        if self.is_empty() {
            return None;
        }
        let place = self.first;
        self.first = (self.first + 1) % self.messages.len();
        self.count -= 1;
        Some(&self.messages[place])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_messages_wait_in_order() {
        let mut ring = MessageStore::new(2, 3);
        assert_eq!(ring.pop(), None);
        for message in ["a", "bb", "longer"] {
            ring.push(message.as_bytes());
        }
        assert_eq!(ring.pop(), Some(&b"bb"[..]));
        ring.push(b"c");
        assert_eq!(ring.pop(), Some(&b"long"[..]));
        assert_eq!(ring.pop(), Some(&b"c"[..]));
        assert!(ring.is_empty());
    }
}
