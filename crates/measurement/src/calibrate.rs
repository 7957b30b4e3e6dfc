//! Execution times, measured on a CPU of the service's own.

mod session;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;
use tailbound_model::{Cpu, Service};
use tailbound_time::Duration;

use crate::{Endpoint, MeasurementError};
use session::Session;

/// How many iterations of the loop in a `{busy:...}` request take how long.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BusyRate {
    /// Iterations per millisecond of the service's CPU time.
    pub iterations_per_millisecond: f64,
}

impl BusyRate {
    /// The iterations that take `length`, to the nearest; at least one.
    pub fn iterations_for(&self, length: Duration) -> u64 {
        let iterations = self.iterations_per_millisecond * length.as_millis_f64();
        (iterations.round() as u64).max(1)
    }
}

/// What to calibrate, and how long.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    /// The service's name, for labels.
    pub name: String,
    /// The service, as described; alone on its CPU, without a reservation, set up.
    pub service: Service,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its process; with it execution times are its CPU time, without it round trips.
    pub process: Option<u32>,
    /// Counted requests per task, at most.
    pub requests: u32,
    /// Uncounted requests per task before them.
    pub warm_up: u32,
    /// Time per task, at most.
    pub limit: Duration,
    /// The seed of `{random}` and of drawn execution times.
    pub seed: u64,
    /// The CPU that the client is pinned to; not the service's.
    pub cpu: Option<Cpu>,
    /// The client's SCHED_FIFO priority, if it is to have one.
    pub fifo_priority: Option<u8>,
    /// The host's fingerprint for the provenance.
    pub host: Option<String>,
}

impl CalibrationPlan {
    /// The usual choices: 200 requests or 3 s per task after 20 of warm-up.
    pub fn new(name: impl Into<String>, service: Service, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            service,
            endpoint,
            process: None,
            requests: 200,
            warm_up: 20,
            limit: Duration::from_secs(3),
            seed: 1,
            cpu: None,
            fifo_priority: Some(92),
            host: None,
        }
    }
}

/// Where execution times come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceTimeSource {
    /// The difference of the service process's CPU time across one request.
    ProcessCpuTime,
    /// The round trip less the median round trip of a trivial request.
    RoundTrip,
}

/// What a calibration yields.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Execution time of each task's request.
    pub execution_times: BTreeMap<String, Distribution>,
    /// Round trip of each task's request, on the idle service.
    pub round_trips: BTreeMap<String, Distribution>,
    /// Round trip of a request that asks for no work; `None` for HTTP, which has none.
    pub trivial_round_trip: Option<Distribution>,
    /// What to add to a response time to get a latency: what round trips have beyond the
    /// execution time (the client's and the kernel's work, and wake-ups).
    pub dispatch_overhead: Distribution,
    /// Where the execution times come from.
    pub source: ServiceTimeSource,
    /// For `{busy:...}`, if a request uses it.
    pub busy: Option<BusyRate>,
    /// What should be known when reading the result.
    pub remarks: Vec<String>,
}

/// Measures the execution time of each task's request: one request at a time, on a service that
/// has its CPU for itself.
///
/// # Errors
/// No connection, a refused request, a service that dies, or a stop before the end.
pub fn calibrate(
    plan: &CalibrationPlan,
    stop: &AtomicBool,
) -> Result<Calibration, MeasurementError> {
    if plan.requests == 0 {
        return Err(MeasurementError::BadPlan {
            what: "a calibration of no requests".into(),
            remedy: "ask for at least one per task".into(),
        });
    }
    // A thread of its own, so that pinning and priority end with it.
    std::thread::scope(|scope| {
        let client = std::thread::Builder::new()
            .name("calibration".into())
            .spawn_scoped(scope, || Session::open(plan, stop)?.carry_out())
            .map_err(|cause| MeasurementError::Host {
                what: "start the calibration's thread".into(),
                cause,
                remedy: "raise the limit of threads".into(),
            })?;
        match client.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}
