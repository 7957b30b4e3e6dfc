//! RTPS by the ends of the transport, without a data space.

use std::net::Ipv4Addr;
use std::time::Duration as Limit;

use tailbound_pubsub::messages::HEADER_LENGTH;
use tailbound_pubsub::{Receiver, Rtps, Sender, Transport};
use tailbound_time::Duration;

use super::link::{Inlet, Outlet, Place, own_topic};

/// Joins a domain that is none of those of Cyclone DDS, whose topics have the same names and the same type.
pub fn join(place: Place) -> Rtps {
    let domain = u16::try_from(1 + place.run % 9).unwrap();
    Rtps::join(domain, Ipv4Addr::LOCALHOST).unwrap()
}

pub fn outlet(topic: &str, place: Place) -> Box<dyn Outlet> {
    let sender = join(place).sender(&own_topic(topic, place)).unwrap();
    Box::new(SenderOutlet(sender))
}

pub fn inlet(topic: &str, place: Place) -> Box<dyn Inlet> {
    let receiver = join(place).receiver(&own_topic(topic, place)).unwrap();
    Box::new(ReceiverInlet(receiver))
}

struct SenderOutlet(Box<dyn Sender>);

impl Outlet for SenderOutlet {
    fn send(&mut self, payload: &[u8]) {
        self.0.send(&[0; HEADER_LENGTH], payload).unwrap();
    }
}

struct ReceiverInlet(Box<dyn Receiver>);

impl Inlet for ReceiverInlet {
    fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
        let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos() as u64));
        self.0.wait(limit).unwrap() && self.0.take(&mut |message| visit(message.payload)).unwrap()
    }
}
