//! Durations, instants, rates, and shares of time.
//!
//! Everything inside Tailbound that is a time is an integer count of nanoseconds in one of these
//! types; a bare number never is. This crate also holds the only parser of texts such as `5ms`
//! and `200/s`.

mod duration;
mod fraction;
mod instant;
pub mod nanoseconds;
mod rate;

pub use duration::{Duration, ParseDurationError};
pub use fraction::Fraction;
pub use instant::{Clock, ClockId, Instant, VirtualClock};
pub use rate::{ParseRateError, Rate};
