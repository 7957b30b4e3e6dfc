//! Waiting for a service, and preparing its data.

use std::sync::atomic::AtomicBool;

use tailbound_model::{Protocol, Service};
use tailbound_time::Duration;

use crate::{Endpoint, MeasurementError};

/// Waits until the service accepts connections and answers a trivial request (HTTP: until it
/// accepts).
///
/// # Errors
/// [`MeasurementError::NotReady`] after `limit`, [`MeasurementError::Stopped`] on `stop`.
pub fn await_service(
    endpoint: &Endpoint,
    protocol: Protocol,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), MeasurementError> {
    let _ = (endpoint, protocol, limit, stop);
    Err(MeasurementError::Stopped)
}

/// Sends the service's `setup` requests, in order, each `repeat` times, pipelined; returns how
/// many were sent. To be called once after every start of the service.
///
/// # Errors
/// The first error reply, a broken connection, or `limit` passing.
pub fn run_setup(
    service: &Service,
    endpoint: &Endpoint,
    seed: u64,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<u64, MeasurementError> {
    let _ = (service, endpoint, seed, limit, stop);
    Err(MeasurementError::Stopped)
}
