//! UDP by the sockets of the standard library.

use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::time::Duration as Limit;

use tailbound_linux::datagrams::bind_shared;

use super::link::{Inlet, Outlet, Place};

/// The group of messages to several subscribers.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 192, 77, 77);

fn address(topic: &str, place: Place) -> SocketAddrV4 {
    let ip = match place.is_group() {
        true => GROUP,
        false => Ipv4Addr::LOCALHOST,
    };
    SocketAddrV4::new(ip, place.port(topic))
}

pub fn outlet(topic: &str, place: Place) -> Box<dyn Outlet> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(address(topic, place)).unwrap();
    Box::new(SocketOutlet(socket))
}

pub fn inlet(topic: &str, place: Place) -> Box<dyn Inlet> {
    let address = address(topic, place);
    let socket = bind_shared(address).unwrap();
    if place.is_group() {
        socket
            .join_multicast_v4(&GROUP, &Ipv4Addr::LOCALHOST)
            .unwrap();
    }
    Box::new(SocketInlet {
        socket,
        limit: None,
        buffer: vec![0; place.longest],
    })
}

struct SocketOutlet(UdpSocket);

impl Outlet for SocketOutlet {
    fn send(&mut self, payload: &[u8]) {
        // The kernel reports a peer that was not there yet in place of sending; the next message finds it.
        let _ = self.0.send(payload);
    }
}

struct SocketInlet {
    socket: UdpSocket,
    limit: Option<Limit>,
    buffer: Vec<u8>,
}

impl Inlet for SocketInlet {
    fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
        if self.limit != limit {
            self.socket.set_read_timeout(limit).unwrap();
            self.limit = limit;
        }
        match self.socket.recv(&mut self.buffer) {
            Ok(length) => {
                visit(&self.buffer[..length]);
                true
            }
            Err(_) => false,
        }
    }
}
