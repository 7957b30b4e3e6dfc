//! Messages between tasks, by topic.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tailbound_messages::{Contract, Quality};
use tailbound_time::Duration;

/// Messages between the own tasks of domains, by topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Topics(
    #[schemars(extend("propertyNames" = {"$ref": "#/$defs/Name"}))]
    pub  BTreeMap<String, TopicDescription>,
);

/// A topic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TopicDescription {
    /// The tasks that publish a message at the end of each job, as `domain/task`.
    pub publishers: Vec<String>,
    /// The tasks that read the newest message at the beginning of each job, as `domain/task`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub subscribers: Vec<String>,
    /// The tasks of which each message releases a job, as `domain/task`, in place of the clock of the task. The arrivals of
    /// such a task are the promise that its messages keep.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub released: Vec<String>,
    /// The longest message, in bytes.
    #[schemars(range(min = 1, max = 16_777_216))]
    pub size: u32,
    /// The name of the type of the messages; by default the name of the topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub type_name: Option<String>,
    /// What carries the messages.
    #[serde(default)]
    pub transport: TransportKind,
    /// The name in its data space, which is its transport and address; by default the name of the table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The place of the data space. For the transport `udp`, the name or the IPv4 address of the network interface and the port
    /// of the datagrams, as `eth0:7410` or `127.0.0.1:7410`: each topic has a multicast group of its own there; by default 127.0.0.1:7410, which stays
    /// on the host. For `shared-memory` and `zeromq`, the name of the data space on the host, by default `tailbound`. For
    /// `cyclone-dds` and `rtps`, the name or the address of the interface and the number of the domain, by default 127.0.0.1:0. For `zenoh`, an
    /// address with a port for each program, with commas between.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// The qualities of delivery.
    #[serde(default)]
    pub quality: Quality,
    /// The traffic that each publisher may cause.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    /// The place where the contract is enforced for senders that do not keep it.
    #[serde(default, skip_serializing_if = "TopicGuard::is_library")]
    pub guard: TopicGuard,
    /// The time that the transport takes, for analysis and simulation; none if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay: Option<Delay>,
}

/// The time from sending a message to its arrival at a subscriber.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Delay {
    /// The shortest time.
    #[serde(default)]
    pub least: Duration,
    /// The longest time.
    pub most: Duration,
}

/// The place where a contract is enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TopicGuard {
    /// The library of each subscriber, which receives a message before it drops it.
    #[default]
    Library,
    /// The kernel of each subscriber's host, too, on the network interface: what is beyond the contract reaches no socket
    /// (transport `udp`, by nftables). It is in force with the reservations of the description.
    Kernel,
}

impl TopicGuard {
    fn is_library(&self) -> bool {
        *self == Self::Library
    }
}

/// What carries messages.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum TransportKind {
    /// Shared memory on one host (iceoryx2).
    #[default]
    SharedMemory,
    /// Memory of one program, between the tasks of one domain.
    InProcess,
    /// Datagrams, to one host or to a multicast group.
    Udp,
    /// Sockets of ZeroMQ.
    Zeromq,
    /// Zenoh.
    Zenoh,
    /// Cyclone DDS.
    CycloneDds,
    /// RTPS, the wire protocol of DDS, without a library of DDS.
    Rtps,
}

/// The interface and port of datagrams where a topic names none.
const UDP_ADDRESS: &str = "127.0.0.1:7410";
/// The interface and the domain of DDS where a topic names none.
const DDS_ADDRESS: &str = "127.0.0.1:0";
/// The data space on a host where a topic names none.
const SPACE_NAME: &str = "tailbound";
/// The addresses of the programs that speak Zenoh where a topic names none.
const ZENOH_ADDRESSES: &str = "127.0.0.1:7447,127.0.0.1:7448,127.0.0.1:7449,127.0.0.1:7450";

impl TransportKind {
    /// The name in descriptions.
    pub fn name(self) -> &'static str {
        match self {
            Self::SharedMemory => "shared-memory",
            Self::InProcess => "in-process",
            Self::Udp => "udp",
            Self::Zeromq => "zeromq",
            Self::Zenoh => "zenoh",
            Self::CycloneDds => "cyclone-dds",
            Self::Rtps => "rtps",
        }
    }

    /// The address of topics that name none; `None` where a transport has no addresses.
    pub fn default_address(self) -> Option<&'static str> {
        match self {
            Self::Udp => Some(UDP_ADDRESS),
            Self::SharedMemory | Self::Zeromq => Some(SPACE_NAME),
            Self::CycloneDds | Self::Rtps => Some(DDS_ADDRESS),
            Self::Zenoh => Some(ZENOH_ADDRESSES),
            Self::InProcess => None,
        }
    }
}

impl TopicDescription {
    /// The address of the data space; `None` where the transport has no addresses.
    pub fn address(&self) -> Option<&str> {
        self.address.as_deref().or(self.transport.default_address())
    }

    /// The name of the data space, in which topics with one transport and address are: `udp at 127.0.0.1:7410`.
    pub fn data_space(&self) -> String {
        let transport = self.transport.name();
        match self.address() {
            Some(address) => format!("{transport} at {address}"),
            None => transport.to_owned(),
        }
    }
}
