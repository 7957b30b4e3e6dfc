//! Waiting for a service, and preparing its data.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use tailbound_linux::clock::{Monotonic, sleep_until};
use tailbound_model::{Protocol, Service};
use tailbound_time::{Clock, Duration, Instant};

use crate::exchange::Exchange;
use crate::request::{Busy, Filling, RequestTemplate};
use crate::{Endpoint, MeasurementError};

/// How long to wait before trying a service again that is not there yet.
const RETRY_EVERY: Duration = Duration::from_millis(20);
/// How long an answer to one message is waited for before the next is sent.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);

/// Waits until the service accepts connections and answers a trivial request (HTTP: until it
/// accepts).
///
/// # Errors
/// [`MeasurementError::NotReady`] after `limit`, [`MeasurementError::Stopped`] on `stop`,
/// [`MeasurementError::Handshake`] at once.
pub fn await_service(
    endpoint: &Endpoint,
    protocol: Protocol,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), MeasurementError> {
    let asked = RequestTemplate::trivial(protocol);
    await_answer((endpoint, protocol), asked.as_ref(), limit, stop)
}

/// Waits until the service answers its `ready` request well; without one as [`await_service`] does.
///
/// # Errors
/// [`MeasurementError::NotReady`] after `limit`, [`MeasurementError::Stopped`] on `stop`,
/// [`MeasurementError::BadPlan`] for a request that is none.
pub fn await_readiness(
    service: &Service,
    endpoint: &Endpoint,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), MeasurementError> {
    let Some(request) = &service.ready else {
        return await_service(endpoint, service.protocol, limit, stop);
    };
    let template = RequestTemplate::of_request(service, request, None)?;
    if template.needs_busy_rate() {
        return Err(MeasurementError::BadPlan {
            what: "the request `ready` has {busy:...}".into(),
            remedy: "only tasks' requests may be busy; ask for something cheap".into(),
        });
    }
    await_answer((endpoint, service.protocol), Some(&template), limit, stop)
}

/// Asks anew until there is a good answer; without a request, until the service accepts.
fn await_answer(
    (endpoint, protocol): (&Endpoint, Protocol),
    asked: Option<&RequestTemplate>,
    limit: Duration,
    stop: &AtomicBool,
) -> Result<(), MeasurementError> {
    let give_up = Monotonic.now().saturating_add(limit);
    loop {
        if stop.load(Ordering::Relaxed) {
            return Err(MeasurementError::Stopped);
        }
        let last = match try_once((endpoint, protocol), asked, give_up, stop) {
            Ok(()) => return Ok(()),
            Err(error @ (MeasurementError::Stopped | MeasurementError::Handshake { .. })) => {
                return Err(error);
            }
            Err(error) => error,
        };
        let next = Monotonic.now().saturating_add(RETRY_EVERY);
        if next >= give_up {
            return Err(MeasurementError::NotReady {
                endpoint: endpoint.to_string(),
                waited: limit,
                last: last.to_string(),
            });
        }
        let _retries_at_once_if_refused = sleep_until(next);
    }
}

fn try_once(
    (endpoint, protocol): (&Endpoint, Protocol),
    asked: Option<&RequestTemplate>,
    give_up: Instant,
    stop: &AtomicBool,
) -> Result<(), MeasurementError> {
    let mut exchange = Exchange::open(endpoint, protocol, stop)?;
    // A message may be lost while the service comes up; a stream tells that it was.
    let give_up = match endpoint {
        Endpoint::Messages(_) => give_up.min(Monotonic.now().saturating_add(ANSWER_LIMIT)),
        _ => give_up,
    };
    let Some(template) = asked else {
        return Ok(());
    };
    let mut filling = Filling {
        index: 0,
        random: &mut ChaCha8Rng::seed_from_u64(0),
        busy: Busy::Unknown,
        execution: Duration::ZERO,
        parameters: &[],
    };
    exchange
        .request(template, &mut filling, "a first request", give_up)
        .map(|_| ())
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
    if service.setup.is_empty() {
        return Ok(0);
    }
    let give_up = Monotonic.now().saturating_add(limit);
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut exchange = Exchange::open(endpoint, service.protocol, stop)?;
    let mut sent = 0;
    for (number, request) in service.setup.iter().enumerate() {
        let template = RequestTemplate::of_request(service, request, None)?;
        if template.needs_busy_rate() {
            return Err(MeasurementError::BadPlan {
                what: format!("setup request {} has {{busy:...}}", number + 1),
                remedy: "only tasks' requests may be busy; give a fixed count in the setup".into(),
            });
        }
        let step = format!("setup request {}", number + 1);
        for index in 0..u64::from(request.repeat()) {
            let mut filling = Filling {
                index,
                random: &mut random,
                busy: Busy::Unknown,
                execution: Duration::ZERO,
                parameters: &[],
            };
            exchange.pipeline(&template, &mut filling, &step, give_up)?;
            sent += 1;
        }
        exchange.await_replies(&step, give_up)?;
    }
    Ok(sent)
}
