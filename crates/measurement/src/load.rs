//! The load generator.
//!
//! Open loop: requests go out when the plan says, whether or not earlier ones were answered, and
//! every latency counts from that intended time. A closed loop stops asking just when the
//! service is slow, and leaves out the very latencies that matter (coordinated omission). Users of a service are one all the
//! same, since people do wait; what is left out so is estimated and told ([`OmittedRequests`](crate::OmittedRequests)).

mod generator;
mod spin_allowance;
mod summary;
mod user_load;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;

use tailbound_linux::clock::Monotonic;
use tailbound_time::{Clock, Duration, Instant};

use crate::client_thread::enter_client_thread;
use crate::{LoadPlan, Measurement, MeasurementError, Progress};
use generator::Generator;

/// How often the caller hears of progress.
const PROGRESS_EVERY: std::time::Duration = std::time::Duration::from_millis(100);
/// From being connected to release time zero, so that the first release is not late.
const LEAD: Duration = Duration::from_millis(50);
/// The longest that release time zero may lie ahead: a start on another clock is a mistake.
const FARTHEST_START: Duration = Duration::from_secs(60);

/// What the generator's thread tells the caller's while it runs.
#[derive(Debug, Default)]
struct Gauge {
    started_ns: AtomicU64,
    released: AtomicU64,
    answered: AtomicU64,
    draining: AtomicBool,
}

/// Drives the plan's service and records every latency from the intended send time.
///
/// Runs in a thread of its own, pinned and FIFO as planned; `progress` is called from the calling
/// thread about ten times a second. Once `stop` is true nothing more is released, what is open has
/// half a second to be answered, and the measurement says so in `interrupted`; the same, without
/// the half second, if the service dies.
///
/// # Errors
/// Where nothing can be measured: a plan that contradicts itself, no connection.
pub fn measure(
    plan: &LoadPlan,
    stop: &AtomicBool,
    progress: &mut dyn FnMut(Progress),
) -> Result<Measurement, MeasurementError> {
    check(plan)?;
    let gauge = Gauge::default();
    let (done, outcome) = mpsc::channel();
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("load-generator".into())
            .spawn_scoped(scope, || {
                let _caller_always_waits = done.send(drive(plan, stop, &gauge));
            })
            .map_err(|cause| MeasurementError::Host {
                what: "start the load generator's thread".into(),
                cause,
                remedy: "raise the limit of threads".into(),
            })?;
        loop {
            match outcome.recv_timeout(PROGRESS_EVERY) {
                Ok(measured) => return measured,
                Err(mpsc::RecvTimeoutError::Timeout) => progress(gauge.progress(plan)),
                // The sender goes without a word only if the generator panicked; the scope
                // passes the panic on.
                Err(mpsc::RecvTimeoutError::Disconnected) => return Err(MeasurementError::Stopped),
            }
        }
    })
}

fn drive(
    plan: &LoadPlan,
    stop: &AtomicBool,
    gauge: &Gauge,
) -> Result<Measurement, MeasurementError> {
    let mut remarks = Vec::new();
    let fifo = enter_client_thread(plan.cpu, plan.fifo_priority, &mut remarks)?;
    let generator = Generator::connect(plan, fifo)?;
    let start = match plan.start_at {
        None => Monotonic.now() + LEAD,
        Some(start) if start > Monotonic.now() + FARTHEST_START => {
            return Err(MeasurementError::BadPlan {
                what: format!("the load is to start more than {FARTHEST_START} from now"),
                remedy: "give start_at on CLOCK_MONOTONIC".into(),
            });
        }
        Some(start) => start,
    };
    gauge.started_ns.store(start.as_nanos(), Ordering::Relaxed);
    let finished = generator.run(start, stop, gauge);
    Ok(summary::summarize(plan, start, finished, remarks))
}

fn check(plan: &LoadPlan) -> Result<(), MeasurementError> {
    let bad = |what: &str, remedy: &str| {
        Err(MeasurementError::BadPlan {
            what: what.into(),
            remedy: remedy.into(),
        })
    };
    if plan.releases.is_empty() && plan.service.users.is_none() {
        return bad(
            "the plan releases nothing",
            "make its releases with simulator::workload::releases, over warm-up and duration",
        );
    }
    if !plan.releases.is_sorted_by_key(|release| release.at) {
        return bad("the releases are not in order of time", "sort them");
    }
    if plan.service.max_in_flight == Some(0) {
        return bad("max_in_flight is 0", "allow at least 1, or leave it out");
    }
    Ok(())
}

impl Gauge {
    fn progress(&self, plan: &LoadPlan) -> Progress {
        let started = self.started_ns.load(Ordering::Relaxed);
        let elapsed = match started {
            0 => Duration::ZERO,
            _ => Monotonic
                .now()
                .saturating_since(Instant::from_nanos(started)),
        };
        Progress {
            elapsed,
            total: plan.warm_up.saturating_add(plan.duration),
            released: self.released.load(Ordering::Relaxed),
            answered: self.answered.load(Ordering::Relaxed),
            draining: self.draining.load(Ordering::Relaxed),
        }
    }
}
