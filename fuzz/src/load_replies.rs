//! Replies of services under load: Redis, HTTP, PostgreSQL and its login, and the synthetic service's frames.

use tailbound_measurement::protocol::frame::{FrameCutter, WorkReply, WorkRequest};
use tailbound_measurement::protocol::postgresql_login::{DatabaseUser, PostgresqlLogin};
use tailbound_measurement::protocol::{ProtocolError, Reply, ReplyReader};
use tailbound_model::Protocol;

use crate::stream::parts;

/// However the bytes come apart, the replies are the same, and a breach of the protocol is one for good.
pub fn check(bytes: &[u8]) {
    let Some((&count, rest)) = bytes.split_first() else {
        return;
    };
    let (sizes, bytes) = rest.split_at(usize::from(count % 8).min(rest.len()));
    let protocols = [
        Protocol::Redis,
        Protocol::Synthetic,
        Protocol::Http,
        Protocol::Postgresql,
    ];
    for protocol in protocols {
        let whole = read(protocol, &[bytes]);
        let cut = read(protocol, &parts(bytes, sizes));
        assert_eq!(whole, cut, "{protocol:?}");
    }
    log_in(&parts(bytes, sizes));
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

/// However a greeting comes apart, the login fails or goes on without a panic.
fn log_in(parts: &[&[u8]]) {
    let user = DatabaseUser {
        user: "bench".into(),
        database: "bench".into(),
        password: Some("secret".into()),
    };
    let Ok((mut login, mut out)) = PostgresqlLogin::begin(&user) else {
        return;
    };
    for part in parts {
        if !matches!(login.feed(part, &mut out), Ok(false)) {
            return;
        }
    }
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
