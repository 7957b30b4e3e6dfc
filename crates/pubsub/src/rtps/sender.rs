//! The sending side of a topic over RTPS.

use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex};

use tailbound_linux::clock::Monotonic;
use tailbound_messages::HEADER_LENGTH;
use tailbound_rtps::{EntityId, RtpsWriter};
use tailbound_time::Clock;

use super::membership::{Membership, lock};
use super::{endpoint, is_reliable, refused};
use crate::{Sender, Topic, TransportError};

/// Sends messages to the readers that the thread of the transport finds.
pub(super) struct RtpsSender {
    membership: Arc<Membership>,
    entity: EntityId,
    writer: Arc<Mutex<RtpsWriter>>,
    reliable: bool,
}

impl RtpsSender {
    pub(super) fn open(membership: Arc<Membership>, topic: &Topic) -> Self {
        let entity = EntityId::user_writer(membership.next_number());
        let guid = membership.prefix().with(entity);
        let writer = RtpsWriter::new(guid, topic.quality.history as usize);
        let writer = Arc::new(Mutex::new(writer));
        membership.add_writer(endpoint(&membership, entity, topic), Arc::clone(&writer));
        Self {
            membership,
            entity,
            writer,
            reliable: is_reliable(topic),
        }
    }
}

impl Sender for RtpsSender {
    fn send(&mut self, header: &[u8; HEADER_LENGTH], payload: &[u8]) -> Result<(), TransportError> {
        let mut failure: Option<io::Error> = None;
        let socket = self.membership.socket();
        let mut writer = lock(&self.writer);
        let was_awaited = writer.heartbeat_due().is_some();
        let mut send = |to: SocketAddrV4, datagram: &[u8]| {
            if let Err(error) = socket.send_to(datagram, to) {
                failure = Some(error);
            }
        };
        writer.write(Monotonic.now(), header, payload, &mut send);
        let is_awaited = writer.heartbeat_due().is_some();
        drop(writer);
        if is_awaited && !was_awaited {
            self.membership.alarm();
        }
        match failure {
            // For want of room a datagram is lost, and is sent again.
            Some(error) if self.reliable && error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            Some(error) => Err(refused("send a datagram".to_owned(), error)),
            None => Ok(()),
        }
    }
}

impl Drop for RtpsSender {
    fn drop(&mut self) {
        self.membership.end_writer(self.entity);
    }
}
