//! Latency distributions.
//!
//! Prediction, simulation and measurement all return a [`Distribution`]: it knows what kind of
//! evidence it is, of what, from where, and answers every question with a lower and an upper end.
//!
//! Where a value is not known (a request that was never answered, the tail of a curve beyond its
//! last step) the upper end is `None` or the mass is missing; nothing is ever made up.

mod arrival;
mod combine;
mod confidence;
mod csv;
mod dependence;
mod distance;
mod distribution;
mod hdr;
mod provenance;
mod step;
mod student;

pub use arrival::{Arrival, ArrivalOrder};
pub use combine::{MergeError, merge, mixture};
pub use confidence::{IntervalMethod, LEAST_BEYOND, QuantileInterval, WANTED_WIDTH};
pub use csv::CsvError;
pub use distance::{
    DistanceError, Wasserstein1, kolmogorov_smirnov, wasserstein1, wasserstein1_up_to,
};
pub use distribution::{Distribution, Interval, Shape};
pub use hdr::{HdrError, HdrSeries, read_hdr_log, write_hdr_log};
pub use provenance::{Evidence, Provenance};
pub use step::{StepCdf, StepCdfError};
