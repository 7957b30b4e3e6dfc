//! The synthetic service's protocol: frames of 24 bytes, little endian.
//!
//! Request: id (8), execution time in ns (8), priority (4), magic (4).
//! Reply: id (8), CPU time worked in ns (8), status (4), magic (4).
//! Replies carry their request's id because a preemptive service does not answer in order.

use tailbound_time::Duration;

use super::{ProtocolError, Reply};

/// The length of a frame in bytes.
pub const FRAME_BYTES: usize = 24;
/// Ends every frame, "TBSY": tells a peer that speaks something else.
const MAGIC: [u8; 4] = *b"TBSY";
/// The longest execution time that the service takes: a mistaken unit should not occupy it for
/// years.
pub const EXECUTION_LIMIT: Duration = Duration::from_secs(60);
/// Status of a reply: the work was done.
const DONE: u32 = 0;
/// Status of a reply: the request asks for more than [`EXECUTION_LIMIT`].
const TOO_LONG: u32 = 1;

/// A request of the synthetic service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkRequest {
    /// The client's number for it.
    pub id: u64,
    /// How much CPU time to work.
    pub execution: Duration,
    /// Before which others; the higher number runs first. To a service that serves the earliest
    /// deadline first: how soon after its coming the job is due, in microseconds.
    pub priority: u32,
}

/// A reply of the synthetic service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkReply {
    /// The request's number.
    pub id: u64,
    /// How much CPU time was worked.
    pub worked: Duration,
    /// Whether the request was refused for its length.
    pub too_long: bool,
}

fn frame(first: u64, second: u64, third: u32) -> [u8; FRAME_BYTES] {
    let mut bytes = [0; FRAME_BYTES];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..16].copy_from_slice(&second.to_le_bytes());
    bytes[16..20].copy_from_slice(&third.to_le_bytes());
    bytes[20..].copy_from_slice(&MAGIC);
    bytes
}

fn fields(bytes: &[u8; FRAME_BYTES]) -> Result<(u64, u64, u32), ProtocolError> {
    let [a @ .., _, _, _, _] = bytes;
    if bytes[20..] != MAGIC {
        return Err(malformed("a frame does not end with TBSY"));
    }
    let word = |from: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&a[from..from + 8]);
        u64::from_le_bytes(word)
    };
    let third = u32::from_le_bytes([a[16], a[17], a[18], a[19]]);
    Ok((word(0), word(8), third))
}

fn malformed(what: &str) -> ProtocolError {
    ProtocolError::Malformed {
        protocol: "the synthetic service's protocol",
        what: what.into(),
    }
}

impl WorkRequest {
    /// The request as sent.
    pub fn to_bytes(self) -> [u8; FRAME_BYTES] {
        frame(self.id, self.execution.as_nanos(), self.priority)
    }

    /// A request as received.
    ///
    /// # Errors
    /// Where the bytes are no frame.
    pub fn from_bytes(bytes: &[u8; FRAME_BYTES]) -> Result<Self, ProtocolError> {
        let (id, execution_ns, priority) = fields(bytes)?;
        Ok(Self {
            id,
            execution: Duration::from_nanos(execution_ns),
            priority,
        })
    }
}

impl WorkReply {
    /// The reply as sent.
    pub fn to_bytes(self) -> [u8; FRAME_BYTES] {
        let status = if self.too_long { TOO_LONG } else { DONE };
        frame(self.id, self.worked.as_nanos(), status)
    }

    /// A reply as received.
    ///
    /// # Errors
    /// Where the bytes are no frame, or the status is none.
    pub fn from_bytes(bytes: &[u8; FRAME_BYTES]) -> Result<Self, ProtocolError> {
        let (id, worked_ns, status) = fields(bytes)?;
        if status > TOO_LONG {
            return Err(malformed("an unknown status"));
        }
        Ok(Self {
            id,
            worked: Duration::from_nanos(worked_ns),
            too_long: status == TOO_LONG,
        })
    }
}

/// Cuts a stream into frames.
#[derive(Debug, Default)]
pub struct FrameCutter {
    kept: [u8; FRAME_BYTES],
    length: usize,
}

impl FrameCutter {
    /// Calls `take` with every frame that `bytes` completes.
    ///
    /// # Errors
    /// The first that `take` returns; the rest of `bytes` is then dropped.
    pub fn feed<E>(
        &mut self,
        mut bytes: &[u8],
        mut take: impl FnMut(&[u8; FRAME_BYTES]) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let here = (FRAME_BYTES - self.length).min(bytes.len());
            self.kept[self.length..self.length + here].copy_from_slice(&bytes[..here]);
            self.length += here;
            bytes = &bytes[here..];
            if self.length == FRAME_BYTES {
                self.length = 0;
                take(&self.kept)?;
            }
        }
        Ok(())
    }
}

/// Reads the replies of a synthetic service.
#[derive(Debug, Default)]
pub struct ReplyFrameReader {
    cutter: FrameCutter,
}

impl ReplyFrameReader {
    /// See [`super::ReplyReader::feed`].
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        self.cutter.feed(bytes, |frame| {
            let reply = WorkReply::from_bytes(frame)?;
            replies.push(Reply {
                id: Some(reply.id),
                refused: reply.too_long.then(|| {
                    format!("execution time above the synthetic service's {EXECUTION_LIMIT}")
                }),
                at: None,
            });
            Ok(())
        })
    }
}

/// Reads requests that come back as they went, which is how the kernel answers echo requests.
#[derive(Debug, Default)]
pub struct EchoFrameReader {
    cutter: FrameCutter,
}

impl EchoFrameReader {
    /// See [`super::ReplyReader::feed`].
    pub(super) fn feed(
        &mut self,
        bytes: &[u8],
        replies: &mut Vec<Reply>,
    ) -> Result<(), ProtocolError> {
        self.cutter.feed(bytes, |frame| {
            let request = WorkRequest::from_bytes(frame)?;
            replies.push(Reply {
                id: Some(request.id),
                ..Reply::good()
            });
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]

    use proptest::prelude::*;
    use tailbound_model::Protocol;

    use super::super::splitting::{assert_same_however_split, read_all};
    use super::*;

    #[test]
    fn tells_another_protocol_by_its_magic() {
        let outcome = read_all(Protocol::Synthetic, &[b"-ERR unknown command 'TBSY'\r\n"]).1;
        assert!(matches!(outcome, Err(ProtocolError::Malformed { .. })));
    }

    #[test]
    fn a_refused_request_is_an_error_reply() {
        let reply = WorkReply {
            id: 9,
            worked: Duration::ZERO,
            too_long: true,
        };
        let (replies, outcome) = read_all(Protocol::Synthetic, &[&reply.to_bytes()]);
        assert_eq!(outcome, Ok(()));
        assert_eq!(replies[0].id, Some(9));
        assert!(replies[0].refused.is_some());
    }

    proptest! {
        #[test]
        fn frames_round_trip(id: u64, nanoseconds: u64, priority: u32, too_long: bool) {
            let execution = Duration::from_nanos(nanoseconds);
            let request = WorkRequest { id, execution, priority };
            prop_assert_eq!(WorkRequest::from_bytes(&request.to_bytes()), Ok(request));
            let reply = WorkReply { id, worked: execution, too_long };
            prop_assert_eq!(WorkReply::from_bytes(&reply.to_bytes()), Ok(reply));
        }

        #[test]
        fn replies_mean_the_same_however_split(
            ids in prop::collection::vec(any::<u64>(), 0..4),
            at: prop::sample::Index,
            mutation in proptest::option::of(any::<u8>()),
        ) {
            let reply = |id| WorkReply { id, worked: Duration::ZERO, too_long: false };
            let mut bytes: Vec<u8> = ids.iter().flat_map(|id| reply(*id).to_bytes()).collect();
            if let (Some(byte), false) = (mutation, bytes.is_empty()) {
                let place = at.index(bytes.len());
                bytes[place] = byte;
            }
            assert_same_however_split(Protocol::Synthetic, &bytes);
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            assert_same_however_split(Protocol::Synthetic, &bytes);
        }
    }
}
