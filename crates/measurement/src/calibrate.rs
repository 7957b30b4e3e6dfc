//! Execution times, measured one request at a time, in rounds.
//!
//! Machines have good and bad minutes. A calibration is therefore made of short rounds, apart in
//! time, of which those that were disturbed do not count; see [`Calibration::of_rounds`].

mod busy;
mod rounds;
mod session;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

use serde::{Deserialize, Serialize};
use tailbound_distribution::Distribution;
use tailbound_model::{Cpu, ParameterTable, Service};
use tailbound_time::Duration;

use crate::{Endpoint, MeasurementError};
pub use busy::BusyRate;
pub use rounds::{CalibrationRound, RoundRequest, alike, counting, spread_per_cent};
use session::CalibrationSession;

/// One round of a calibration: what to measure, and how long.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    /// The service's name, for labels.
    pub name: String,
    /// The service, as described; set up, with nothing else to answer.
    pub service: Service,
    /// Where it listens.
    pub endpoint: Endpoint,
    /// Its process; with it execution times are its CPU time, without it round trips.
    pub process: Option<u32>,
    /// What the service runs under and beside, in words.
    pub surroundings: String,
    /// The rate of `{busy:...}`, once known; it is the load's, so it is found only once.
    pub busy: Option<BusyRate>,
    /// Counted requests per task, at most.
    pub requests: u32,
    /// Uncounted requests per task before them.
    pub warm_up: u32,
    /// Time for all tasks together, about, shared out evenly.
    pub limit: Duration,
    /// The values of the users' placeholders, if the service has users with parameters.
    pub parameters: Option<ParameterTable>,
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
    /// The usual choices: 40 requests per task after 8 of warm-up, or what 2 s allow.
    pub fn new(name: impl Into<String>, service: Service, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            service,
            endpoint,
            process: None,
            surroundings: "on an idle CPU".into(),
            busy: None,
            requests: 40,
            warm_up: 8,
            limit: Duration::from_secs(2),
            parameters: None,
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

impl ServiceTimeSource {
    /// The execution time of a request; `empty_trip` is the median round trip of one that asks for nothing.
    fn execution(self, request: &RoundRequest, empty_trip: Duration) -> Duration {
        match (self, request.process) {
            (Self::ProcessCpuTime, Some(time)) => time,
            _ => request.round_trip.saturating_sub(empty_trip),
        }
    }
}

/// What a calibration yields.
#[derive(Clone, Debug)]
pub struct Calibration {
    /// Execution time of each task's request.
    pub execution_times: BTreeMap<String, Distribution>,
    /// Round trip of each task's request.
    pub round_trips: BTreeMap<String, Distribution>,
    /// Round trip of a request that asks for no work; `None` for HTTP, which has none.
    pub trivial_round_trip: Option<Distribution>,
    /// Its median; zero for HTTP.
    pub empty_trip: Duration,
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

impl Calibration {
    /// The execution time of a request of this calibration.
    pub fn execution(&self, request: &RoundRequest) -> Duration {
        self.source.execution(request, self.empty_trip)
    }
}

/// Measures one round: every task's request, one at a time.
///
/// # Errors
/// No connection, a refused request, a service that dies, or a stop before the end.
pub fn calibration_round(
    plan: &CalibrationPlan,
    stop: &AtomicBool,
) -> Result<CalibrationRound, MeasurementError> {
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
            .spawn_scoped(scope, || CalibrationSession::open(plan, stop)?.carry_out())
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
