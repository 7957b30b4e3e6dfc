//! Publish and subscribe over swappable transports.
//!
//! A program makes a [data space](DataSpace) over a [transport](Transport), and in it [publishers](Publisher) and
//! [subscribers](Subscriber) of [topics](Topic). The qualities of delivery and the contracts of publishers are those of the
//! description ([`tailbound_messages`]); a transport refuses a topic whose qualities it does not have.
//!
//! ```
//! use std::sync::Arc;
//! use tailbound_linux::clock::Monotonic;
//! use tailbound_pubsub::{DataSpace, InProcess, Topic};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let space = DataSpace::over(Box::new(InProcess::default()), Arc::new(Monotonic));
//! let topic = Topic::new("people", "Positions", 1024);
//! let mut subscriber = space.subscriber(&topic)?;
//! let mut publisher = space.publisher(&topic)?;
//!
//! publisher.publish(b"two at the door")?;
//! subscriber.wait(None)?;
//! subscriber.take(|message| {
//!     assert_eq!(message.payload, b"two at the door");
//!     println!("{} old", message.data_age());
//! })?;
//! # Ok(())
//! # }
//! ```
//!
//! After they are made, publishers and subscribers allocate nothing, and make no system calls but those of the transport;
//! the clock is read once or twice a message, without a system call. (iceoryx2, Cyclone DDS and Zenoh allocate themselves.)
//!
//! The transports: [`InProcess`], [`Udp`], [`Rtps`], and with the feature `iceoryx2` `SharedMemory`, which needs libclang to compile,
//! with the feature `zeromq` `ZeroMq`, which compiles libzmq from its source, with the feature `cyclone` `CycloneDds`, which
//! compiles Cyclone DDS from its source, and with the feature `zenoh` `ZenohMesh`.
//! With the feature `cdr`, `TypedPublisher` and `TypedSubscriber` carry values of any type of serde.

#[cfg(feature = "cyclone")]
mod cyclone;
mod data_space;
mod datagram_inlet;
mod emptiness;
mod in_process;
mod message_store;
mod named_transport;
mod publisher;
pub mod routes;
mod rtps;
#[cfg(feature = "iceoryx2")]
mod shared_memory;
mod subscriber;
mod transport;
#[cfg(feature = "cdr")]
mod typed_topic;
pub mod udp;
mod wall_clock;
#[cfg(feature = "zenoh")]
mod zenoh_mesh;
#[cfg(feature = "zeromq")]
mod zero_mq;

#[cfg(feature = "cyclone")]
pub use cyclone::CycloneDds;
pub use data_space::{DataSpace, SharedClock};
pub use in_process::InProcess;
pub use named_transport::{named_transport, transport_feature};
pub use publisher::{DataOrigin, PublishError, Publisher};
pub use rtps::Rtps;
#[cfg(feature = "iceoryx2")]
pub use shared_memory::SharedMemory;
pub use subscriber::{IncomingMessage, Subscriber, SubscriberThread};
pub use tailbound_messages as messages;
pub use transport::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};
#[cfg(feature = "cdr")]
pub use typed_topic::{CdrError, Decoded, TypedPublisher, TypedSubscriber};
pub use udp::{Udp, UdpRoute};
pub use wall_clock::WallClock;
#[cfg(feature = "zenoh")]
pub use zenoh_mesh::ZenohMesh;
#[cfg(feature = "zeromq")]
pub use zero_mq::{ZeroMq, ZeroMqRoute};
