//! The transport over UDP: a message is a datagram, to peers or to the multicast group of its topic.
//!
//! A message that does not fit into one datagram is [cut](fragment) into several. Lost datagrams stay lost.
//!
//! Messages wait in the kernel until the subscriber takes one; then all are read, and the newest are kept as the history
//! says. The kernel drops what comes while its buffer is full, so a subscriber that stays away for longer than the buffer
//! lasts finds the oldest messages in place of the newest, and an event that says how many are missing.

pub mod fragment;
mod receiver;
mod sender;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};

use tailbound_linux::datagrams::bind_shared;
use tailbound_messages::{LONGEST_DATAGRAM, multicast_group};

use crate::data_space::longest_message;
use crate::datagram_inlet::give_room;
use crate::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};

/// The name of the transport in descriptions and errors.
const NAME: &str = "udp";

/// The most memory for messages that wait for one subscriber, in bytes.
const MOST_MEMORY: usize = 256 << 20;

/// Carries messages in datagrams, between programs and between hosts.
///
/// All programs of a data space agree on the interface's network and port, or on the routes. Nothing is authenticated:
/// whoever reaches the port can send, and only what its network keeps away does not arrive.
#[derive(Clone, Debug)]
pub struct Udp {
    form: UdpForm,
    hops: u32,
}

#[derive(Clone, Debug)]
enum UdpForm {
    Multicast { interface: Ipv4Addr, port: u16 },
    Unicast(BTreeMap<String, UdpRoute>),
}

/// The ends of a topic over unicast datagrams, as one program sees them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UdpRoute {
    /// The address at which this program's subscriber receives.
    pub listen: Option<SocketAddrV4>,
    /// The addresses of the subscribers that this program's publisher sends to.
    pub peers: Vec<SocketAddrV4>,
}

impl Udp {
    /// Messages go to a multicast group for each topic, over the interface with this address, and to one port. The group is
    /// one of the 262,144 from 239.192.0.0 on, by a hash of the topic's name; of two topics in one group, each subscriber
    /// refuses the other one's messages. Any number of subscribers receive, also several on one host.
    pub fn multicast(interface: Ipv4Addr, port: u16) -> Self {
        let form = UdpForm::Multicast { interface, port };
        Self { form, hops: 1 }
    }

    /// Messages go to the peers of each topic, by the name of the topic.
    pub fn unicast(routes: BTreeMap<String, UdpRoute>) -> Self {
        Self {
            form: UdpForm::Unicast(routes),
            hops: 1,
        }
    }

    /// Lets multicast messages pass routers of IP: the number of networks that they reach. By default they stay in the first.
    pub fn with_hops(mut self, hops: u32) -> Self {
        self.hops = hops;
        self
    }

    fn route(
        routes: &BTreeMap<String, UdpRoute>,
        topic: &Topic,
    ) -> Result<UdpRoute, TransportError> {
        routes.get(&topic.name).cloned().ok_or_else(|| {
            let attempt = format!("carry topic `{}`", topic.name);
            refused(attempt, "it has no route; give its addresses")
        })
    }

    fn listen(&self, topic: &Topic) -> Result<UdpSocket, TransportError> {
        let attempt = |address| format!("receive topic `{}` at {address}", topic.name);
        match &self.form {
            UdpForm::Multicast { interface, port } => {
                let address = SocketAddrV4::new(group(topic), *port);
                // Bound to the group, the socket gets nothing that was sent to another one.
                let socket =
                    bind_shared(address).map_err(|error| refused(attempt(address), error))?;
                socket
                    .join_multicast_v4(address.ip(), interface)
                    .map_err(|error| refused(attempt(address), error))?;
                Ok(socket)
            }
            UdpForm::Unicast(routes) => {
                let listen = Self::route(routes, topic)?.listen.ok_or_else(|| {
                    let attempt = format!("receive topic `{}`", topic.name);
                    refused(attempt, "its route has no address to listen at")
                })?;
                UdpSocket::bind(listen).map_err(|error| refused(attempt(listen), error))
            }
        }
    }

    /// A connected socket for each destination of a topic.
    fn destinations(&self, topic: &Topic) -> Result<Vec<UdpSocket>, TransportError> {
        let (source, peers) = match &self.form {
            UdpForm::Multicast { interface, port } => {
                // A socket that is bound to the address of an interface sends to groups over that interface.
                (*interface, vec![SocketAddrV4::new(group(topic), *port)])
            }
            UdpForm::Unicast(routes) => (Ipv4Addr::UNSPECIFIED, Self::route(routes, topic)?.peers),
        };
        let connect = |peer: SocketAddrV4| {
            let socket = UdpSocket::bind((source, 0))?;
            socket.set_multicast_ttl_v4(self.hops)?;
            socket.connect(peer)?;
            Ok(socket)
        };
        let attempt = |peer| format!("send topic `{}` to {peer}", topic.name);
        let connected = peers.into_iter().map(|peer| {
            connect(peer).map_err(|error: std::io::Error| refused(attempt(peer), error))
        });
        connected.collect()
    }
}

impl Transport for Udp {
    fn traits(&self) -> TransportTraits {
        TransportTraits {
            name: NAME,
            reliable: false,
            between_hosts: true,
            longest: 1 << 20,
            history: 4_096,
        }
    }

    fn sender(&self, topic: &Topic) -> Result<Box<dyn Sender>, TransportError> {
        let sockets = self.destinations(topic)?;
        Ok(match longest_message(topic) <= LONGEST_DATAGRAM {
            true => Box::new(sender::DatagramSender::new(sockets)),
            false => Box::new(sender::FragmentSender::new(sockets)),
        })
    }

    fn receiver(&self, topic: &Topic) -> Result<Box<dyn Receiver>, TransportError> {
        let memory = longest_message(topic).saturating_mul(topic.quality.history as usize);
        if memory > MOST_MEMORY {
            return Err(TransportError::Lacks {
                transport: NAME,
                quality: format!("{memory} bytes for messages that wait"),
                remedy: format!(
                    "let history times size of topic `{}` be at most {MOST_MEMORY}",
                    topic.name
                ),
            });
        }
        let socket = self.listen(topic)?;
        let room = give_room(NAME, &socket, topic)?;
        Ok(match longest_message(topic) <= LONGEST_DATAGRAM {
            true => Box::new(receiver::DatagramReceiver::new(socket, room, topic)),
            false => Box::new(receiver::FragmentReceiver::new(socket, room, topic)),
        })
    }
}

fn group(topic: &Topic) -> Ipv4Addr {
    multicast_group(&topic.name)
}

fn refused(attempt: String, reason: impl ToString) -> TransportError {
    TransportError::Refused {
        transport: NAME,
        attempt,
        reason: reason.to_string(),
    }
}
