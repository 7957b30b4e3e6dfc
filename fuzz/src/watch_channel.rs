//! The channel between daemon and watchdog.

use std::io::Write;
use std::os::unix::net::UnixStream;

use tailbound_control::control_frame::ControlProtocol;
use tailbound_daemon::watch_channel::{ChannelError, WatchChannel, WatchOrder, WatchReport};

use crate::stream::stream;

/// Either end reads what it can and ends; a peer that is gone is told as that.
pub fn check(bytes: &[u8]) {
    let sent = stream::<ControlProtocol>(bytes);
    let orders = received::<WatchOrder>(&sent);
    let reports = received::<WatchReport>(&sent);
    assert!(
        orders.is_empty() || reports.is_empty(),
        "no message is both"
    );
    for order in orders {
        let (one, other) = UnixStream::pair().unwrap();
        let sent = WatchChannel::new(one).send(&order, &[]);
        sent.expect("what came can be sent");
        assert_eq!(
            WatchChannel::new(other).receive::<WatchOrder>().unwrap(),
            order
        );
    }
}

fn received<T: serde::de::DeserializeOwned>(sent: &[u8]) -> Vec<T> {
    let (mut peer, ours) = UnixStream::pair().unwrap();
    peer.set_nonblocking(true).unwrap();
    let all = peer.write(sent).unwrap_or(0) == sent.len();
    drop(peer);
    let mut channel = WatchChannel::new(ours);
    let mut messages = Vec::new();
    loop {
        match channel.receive() {
            Ok(message) => messages.push(message),
            Err(ChannelError::Closed) => return messages,
            Err(ChannelError::Frame(_)) => return messages,
            Err(ChannelError::Socket(error)) => {
                assert!(
                    !all || error.kind() == std::io::ErrorKind::ConnectionReset,
                    "{error}"
                );
                return messages;
            }
        }
    }
}
