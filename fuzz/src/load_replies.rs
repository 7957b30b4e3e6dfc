//! Replies of services under load: Redis, HTTP, and the synthetic service's frames.

use tailbound_measurement::protocol::frame::{FrameCutter, WorkReply, WorkRequest};
use tailbound_measurement::protocol::{ProtocolError, Reply, ReplyReader};
use tailbound_model::Protocol;

use crate::stream::parts;

/// However the bytes come apart, the replies are the same, and a breach of the protocol is one for good.
pub fn check(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let (sizes, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    for protocol in [Protocol::Redis, Protocol::Synthetic, Protocol::Http] {
        let whole = read(protocol, &[bytes]);
        let cut = read(protocol, &parts(bytes, sizes));
        assert_eq!(whole, cut, "{protocol:?}");
    }
    let mut cutter = FrameCutter::default();
    let taken = cutter.feed(bytes, |frame| {
        if let Ok(request) = WorkRequest::from_bytes(frame) {
            assert_eq!(WorkRequest::from_bytes(&request.to_bytes()), Ok(request));
        }
        if let Ok(reply) = WorkReply::from_bytes(frame) {
            assert_eq!(WorkReply::from_bytes(&reply.to_bytes()), Ok(reply));
        }
        Ok::<(), ProtocolError>(())
    });
    assert_eq!(taken, Ok(()));
}

fn read(protocol: Protocol, parts: &[&[u8]]) -> (Vec<Reply>, Option<ProtocolError>, Option<Reply>) {
    let mut reader = ReplyReader::new(protocol);
    let mut replies = Vec::new();
    for part in parts {
        if let Err(error) = reader.feed(part, &mut replies) {
            let count = replies.len();
            assert_eq!(reader.feed(b"+OK\r\n", &mut replies), Err(error.clone()));
            assert_eq!(replies.len(), count);
            return (replies, Some(error), None);
        }
    }
    let last = reader.end();
    (replies, None, last)
}
