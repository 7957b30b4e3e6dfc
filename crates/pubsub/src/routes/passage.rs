//! The decision of a route: which messages pass.

use tailbound_messages::{MessageHeader, MessageKind};

/// The number of routers that a message passes at most.
pub(crate) const MOST_HOPS: u8 = 16;

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassageVerdict {
    /// It passes, with this header.
    Pass(MessageHeader),
    /// It does not.
    Refuse(PassageRefusal),
}

/// Why a message does not pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassageRefusal {
    /// The route has passed this message, or a later one of its source: it came on two ways, or out of order.
    Repeated,
    /// The message has passed as many routers as a message may.
    Hops,
    /// The message is of another topic.
    Topic,
}

/// The numbers of messages that a route passed and refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PassageCounters {
    /// Messages that went on.
    pub passed: u64,
    /// Messages that came a second time.
    pub repeated: u64,
    /// Messages that had passed too many routers.
    pub hops: u64,
    /// Bytes that are no message, or one of another topic.
    pub garbage: u64,
    /// Messages beyond the contract.
    pub violations: u64,
    /// Messages that the transport of the other side did not take.
    pub failures: u64,
    /// Messages or datagrams that the kernel or the middleware dropped because the queue of the route was full, where it counts
    /// them.
    pub lost: u64,
}

/// The state of a route: the newest message of each source. Its memory does not grow: where more sources come than there is
/// room for, the one that was silent the longest is forgotten.
///
/// Two properties follow, whatever routes other hosts have: a message passes a route at most once as long as its source
/// is remembered, and no message passes more than 16 routers.
#[derive(Clone, Debug)]
pub struct Passage {
    from: u64,
    to: u64,
    sources: Vec<RoutedSource>,
    room: usize,
    /// The number of messages that have been judged, which orders the sources by their last message.
    judged: u64,
}

#[derive(Clone, Copy, Debug)]
struct RoutedSource {
    source: u64,
    newest: MessageRank,
    last: u64,
}

/// The order of the messages of a source: by number, then a sign of life before the data that has the number next, and the
/// farewell last; signs of life of one number by time.
type MessageRank = (u64, u8, u64);

impl Passage {
    /// The state of a route from one topic to another (their numbers in headers), with room for this many sources.
    pub fn new(from: u64, to: u64, sources: usize) -> Self {
        let room = sources.max(1);
        Self {
            from,
            to,
            sources: Vec::with_capacity(room),
            room,
            judged: 0,
        }
    }

    /// Judges a message by its header.
    pub fn judge(&mut self, header: &MessageHeader) -> PassageVerdict {
        if header.topic != self.from {
            return PassageVerdict::Refuse(PassageRefusal::Topic);
        }
        let Some(hops_left) = header.hops_left.min(MOST_HOPS).checked_sub(1) else {
            return PassageVerdict::Refuse(PassageRefusal::Hops);
        };
        if !self.is_newer(header) {
            return PassageVerdict::Refuse(PassageRefusal::Repeated);
        }
        PassageVerdict::Pass(MessageHeader {
            hops_left,
            topic: self.to,
            ..*header
        })
    }

    /// Whether the message is newer than all of its source before; if so, it is the newest from now on.
    fn is_newer(&mut self, header: &MessageHeader) -> bool {
        self.judged += 1;
        let last = self.judged;
        let rank = rank(header);
        let source = header.source;
        if let Some(entry) = self.sources.iter_mut().find(|entry| entry.source == source) {
            entry.last = last;
            let is_newer = rank > entry.newest;
            entry.newest = entry.newest.max(rank);
            return is_newer;
        }
        let entry = RoutedSource {
            source,
            newest: rank,
            last,
        };
        if self.sources.len() < self.room {
            self.sources.push(entry);
        } else if let Some(silent) = self.sources.iter_mut().min_by_key(|entry| entry.last) {
            *silent = entry;
        }
        true
    }
}

fn rank(header: &MessageHeader) -> MessageRank {
    let time = header.source_time.as_nanos();
    match header.kind {
        MessageKind::Alive => (header.sequence, 0, time),
        MessageKind::Data | MessageKind::Dispose => (header.sequence, 1, 0),
        MessageKind::Farewell => (header.sequence, 2, 0),
    }
}
