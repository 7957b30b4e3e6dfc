//! Both ends of a topic, over each transport: bare, and by the data space.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration as Limit;

use tailbound_linux::clock::Monotonic;
use tailbound_pubsub::messages::{Contract, ExcessRule};
use tailbound_pubsub::{DataSpace, Publisher, Subscriber, Topic, Transport, Udp, UdpRoute};
use tailbound_time::Duration;

/// The sending end of a topic.
pub trait Outlet {
    fn send(&mut self, payload: &[u8]);
}

/// The receiving end of a topic.
pub trait Inlet {
    /// Waits for a message, at most this long; without a limit, for ever. Whether one came.
    fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool;
}

/// Where the messages of one run of the program go.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// A number that no other run on the host has: names, ports and domains are made of it.
    pub run: u32,
    /// The number of subscribers of each topic.
    pub subscribers: u32,
    /// The longest payload, in bytes.
    pub longest: usize,
}

impl Place {
    /// The ports of the topics over UDP begin here; each transport and topic has its own.
    pub fn port(self, topic: &str) -> u16 {
        let offset = match topic {
            "ping" => 0,
            "pong" => 1,
            "bare-ping" => 2,
            "bare-pong" => 3,
            "again-ping" => 4,
            _ => 5,
        };
        let base = 20_000 + self.run % 2_000 * 6;
        u16::try_from(base).unwrap() + offset
    }

    /// The name of a data space.
    // Only some transports have named data spaces.
    #[cfg_attr(not(any(feature = "iceoryx2", feature = "zeromq")), allow(dead_code))]
    pub fn space(self) -> String {
        format!("cost-{}", self.run)
    }

    /// The number of the domain for Cyclone DDS.
    // Only builds with Cyclone DDS have the transport.
    #[cfg_attr(not(feature = "cyclone"), allow(dead_code))]
    pub fn domain(self) -> u32 {
        10 + self.run % 200
    }

    /// Whether messages over UDP go to a group.
    pub fn is_group(self) -> bool {
        self.subscribers > 1
    }
}

/// The names of what is measured: a transport, and the way to use it.
pub const TRANSPORTS: &[&str] = &[
    "udp",
    "rtps",
    #[cfg(feature = "iceoryx2")]
    "shared-memory",
    #[cfg(feature = "zeromq")]
    "zeromq",
    #[cfg(feature = "cyclone")]
    "cyclone",
];

/// A way to use a transport. The bare one is there twice, so that it is compared with itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Bare,
    BareAgain,
    Own,
}

impl Way {
    pub const ALL: [Self; 3] = [Self::Bare, Self::Own, Self::BareAgain];

    pub fn name(self) -> &'static str {
        match self {
            Self::Bare => "bare",
            Self::BareAgain => "bare-again",
            Self::Own => "own",
        }
    }

    pub fn parse(text: &str) -> Self {
        let way = Self::ALL.into_iter().find(|way| way.name() == text);
        way.expect("a way is bare, bare-again or own")
    }

    /// The name of a topic, apart from those of the other ways.
    fn topic(self, topic: &str) -> String {
        match self {
            Self::Bare => format!("bare-{topic}"),
            Self::BareAgain => format!("again-{topic}"),
            Self::Own => topic.to_owned(),
        }
    }
}

pub fn outlet(transport: &str, way: Way, topic: &str, place: Place) -> Box<dyn Outlet> {
    let topic = way.topic(topic);
    if way == Way::Own {
        let space = space(transport, place);
        let publisher = space.publisher(&own_topic(&topic, place)).unwrap();
        return Box::new(OwnOutlet {
            _space: space,
            publisher,
        });
    }
    match transport {
        "udp" => super::bare_udp::outlet(&topic, place),
        "rtps" => super::bare_rtps::outlet(&topic, place),
        #[cfg(feature = "iceoryx2")]
        "shared-memory" => super::bare_middleware::shared_memory_outlet(&topic, place),
        #[cfg(feature = "zeromq")]
        "zeromq" => super::bare_middleware::zero_mq_outlet(&topic, place),
        #[cfg(feature = "cyclone")]
        "cyclone" => super::bare_middleware::cyclone_outlet(&topic, place),
        _ => panic!("there is no transport {transport}, or its feature was not compiled"),
    }
}

pub fn inlet(transport: &str, way: Way, topic: &str, place: Place) -> Box<dyn Inlet> {
    let topic = way.topic(topic);
    if way == Way::Own {
        let space = space(transport, place);
        let subscriber = space.subscriber(&own_topic(&topic, place)).unwrap();
        return Box::new(OwnInlet {
            _space: space,
            subscriber,
        });
    }
    match transport {
        "udp" => super::bare_udp::inlet(&topic, place),
        "rtps" => super::bare_rtps::inlet(&topic, place),
        #[cfg(feature = "iceoryx2")]
        "shared-memory" => super::bare_middleware::shared_memory_inlet(&topic, place),
        #[cfg(feature = "zeromq")]
        "zeromq" => super::bare_middleware::zero_mq_inlet(&topic, place),
        #[cfg(feature = "cyclone")]
        "cyclone" => super::bare_middleware::cyclone_inlet(&topic, place),
        _ => panic!("there is no transport {transport}, or its feature was not compiled"),
    }
}

pub fn own_topic(name: &str, place: Place) -> Topic {
    let mut topic = Topic::new(name, "bytes", place.longest);
    topic.subscribers = place.subscribers;
    topic
}

/// The topic of a neighbour and of a publisher that floods it; each may publish two messages in a millisecond.
pub fn flooded_topic(place: Place) -> Topic {
    let mut topic = own_topic("ping", place);
    topic.publishers = 2;
    topic.quality.history = 64;
    topic.contract = Some(Contract {
        messages: 20,
        bytes: None,
        interval: Duration::from_millis(10),
        least_distance: Duration::ZERO,
        violation: ExcessRule::Drop,
    });
    topic
}

/// The receiving end of [`flooded_topic`].
pub fn flooded_inlet(transport: &str, place: Place) -> Box<dyn Inlet> {
    let space = space(transport, place);
    let subscriber = space.subscriber(&flooded_topic(place)).unwrap();
    Box::new(OwnInlet {
        _space: space,
        subscriber,
    })
}

pub fn space(transport: &str, place: Place) -> DataSpace {
    let transport: Box<dyn Transport> = match transport {
        "udp" if place.is_group() => {
            Box::new(Udp::multicast(Ipv4Addr::LOCALHOST, place.port("ping")))
        }
        "udp" => Box::new(Udp::unicast(routes(place))),
        "rtps" => Box::new(super::bare_rtps::join(place)),
        #[cfg(feature = "iceoryx2")]
        "shared-memory" => Box::new(tailbound_pubsub::SharedMemory::join(&place.space()).unwrap()),
        #[cfg(feature = "zeromq")]
        "zeromq" => Box::new(tailbound_pubsub::ZeroMq::on_host(&place.space()).unwrap()),
        #[cfg(feature = "cyclone")]
        "cyclone" => {
            let joined = tailbound_pubsub::CycloneDds::join(place.domain(), Ipv4Addr::LOCALHOST);
            Box::new(joined.unwrap())
        }
        _ => panic!("there is no transport {transport}, or its feature was not compiled"),
    };
    DataSpace::over(transport, Arc::new(Monotonic))
}

fn routes(place: Place) -> BTreeMap<String, UdpRoute> {
    let route = |topic: &str| {
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, place.port(topic));
        let route = UdpRoute {
            listen: Some(address),
            peers: vec![address],
        };
        (topic.to_owned(), route)
    };
    ["ping", "pong"].map(route).into()
}

struct OwnOutlet {
    _space: DataSpace,
    publisher: Publisher,
}

impl Outlet for OwnOutlet {
    fn send(&mut self, payload: &[u8]) {
        self.publisher.publish(payload).unwrap();
    }
}

struct OwnInlet {
    _space: DataSpace,
    subscriber: Subscriber,
}

impl Inlet for OwnInlet {
    fn receive(&mut self, limit: Option<Limit>, visit: &mut dyn FnMut(&[u8])) -> bool {
        let limit = limit.map(|limit| Duration::from_nanos(limit.as_nanos() as u64));
        loop {
            if !self.subscriber.wait(limit).unwrap() {
                return false;
            }
            if self
                .subscriber
                .take(|message| visit(message.payload))
                .unwrap()
            {
                return true;
            }
            // The first wait ends with the event that a publisher has appeared.
            while self.subscriber.take_event().is_some() {}
        }
    }
}
