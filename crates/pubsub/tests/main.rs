//! Topics over every transport, against one suite; and what holds whatever the transport.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod allocations;
mod conformance;
mod interruption;
mod space;

#[cfg(feature = "cdr")]
mod typed_topic;
mod unicast;
