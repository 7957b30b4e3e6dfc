//! Publish and subscribe over swappable transports.
//!
//! A program makes a data space over a transport, and in it publishers and subscribers of topics. The qualities of
//! delivery and the contracts of publishers are those of the description ([`tailbound_messages`]); what a transport cannot
//! do, it refuses.

pub mod routing;
mod transport;

pub use transport::{Receiver, Sender, Topic, Transport, TransportError, TransportTraits};
