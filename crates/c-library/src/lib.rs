//! The library for programs in C and C++: `libtailbound`, with the headers in `libraries/c`.
//!
//! Topics, ports and service levels cross the border as bytes and numbers. Of topics and ports, this crate owns the border alone: pointers become references, structures
//! become the types of [`tailbound_pubsub`] and [`tailbound_ports`], errors become numbers with a text for people. The headers are the reference;
//! the tests of this crate hold them against the functions and the layouts here. The controller of a service level lives here, since the
//! other libraries have theirs in their own languages; all of them pass the scenarios of one interface.
//!
//! No panic crosses the border, and no call of a handle that another call uses gets through: the second one is refused, from
//! another thread and from within a callback.
//!
//! This crate has unsafe code, as pointers of C have no other form. Nothing of it speaks to the kernel.
#![allow(unsafe_code)]

mod handle;
mod input;
pub mod layout;
mod ports;
mod publisher;
mod service_level;
mod space;
mod status;
mod subscriber;
#[cfg(test)]
mod tests;
mod topic;

pub use status::Status;
