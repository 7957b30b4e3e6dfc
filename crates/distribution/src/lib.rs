//! Latency distributions.
//!
//! Prediction, simulation and measurement all return a [`Distribution`]: it knows what kind of
//! evidence it is, of what, from where, and answers every question with a lower and an upper end.

mod distribution;
mod provenance;
mod step;

pub use distribution::{Distribution, Interval, Shape};
pub use provenance::{Evidence, Provenance};
pub use step::{StepCdf, StepCdfError};
