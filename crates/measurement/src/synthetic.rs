//! The synthetic service: it works an exact CPU time per request.
//!
//! One thread does everything, so that one reservation holds all of it. Preemption is its own: a
//! job runs in slices, and between two of them newly come requests are read and the most urgent
//! job is chosen. The kernel's priorities, which a reservation changes, play no part in it.

mod client_set;
mod datagram_clients;
mod ready_queue;
mod request_source;
mod topic_clients;

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use tailbound_linux::clock::thread_cpu_time;
use tailbound_model::Scheduling;
use tailbound_time::Duration;

use crate::endpoint::{MessageCarrier, MessageEndpoint};
use crate::{Endpoint, MeasurementError};
use client_set::{ClientSet, Listener};
use datagram_clients::DatagramClients;
use ready_queue::ReadyQueue;
use request_source::RequestSource;
use topic_clients::TopicClients;

/// How long an idle service sleeps before it looks at `stop` again.
const IDLE_WAIT: Duration = Duration::from_millis(100);

/// How much of its own CPU time the service charges to the first job after an idle time; more than
/// this was not for that job (looking at `stop`, clients that came and went).
pub const MOST_OVERHEAD: Duration = Duration::from_micros(50);

/// How the synthetic service runs.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// Where it listens; a stale Unix socket there is replaced.
    pub endpoint: Endpoint,
    /// The order of jobs. Preemptive ones take the priority from the request; where the earliest
    /// deadline goes first, it is how soon after its coming the job is due, in microseconds.
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
/// The time that a job is asked to work is CPU time of this thread, with all that serving it
/// takes: waking up, reading requests, looking for new ones between slices, writing replies. What
/// comes after a job's work (its reply) is charged to the job after it, so that over many jobs the
/// thread uses what they ask for, and no more, as long as each asks for more than serving takes.
///
/// # Errors
/// The endpoint cannot be bound, or the kernel refuses what every server needs.
pub fn serve(options: &ServeOptions, stop: &AtomicBool) -> Result<(), MeasurementError> {
    let failed = |what: &str, cause| MeasurementError::Host {
        what: format!("{what} {}", options.endpoint),
        cause,
        remedy: "choose an endpoint that is free and that this user may create".into(),
    };
    let mut clients = listen(&options.endpoint).map_err(|cause| failed("listen at", cause))?;
    let outcome = serve_clients(clients.as_mut(), options, stop);
    let outcome = outcome.map_err(|cause| failed("serve", cause));
    if let Endpoint::Unix(path) = &options.endpoint {
        let _gone_already = std::fs::remove_file(path);
    }
    outcome
}

fn listen(endpoint: &Endpoint) -> io::Result<Box<dyn RequestSource>> {
    let listener = match endpoint {
        Endpoint::Database(database) => return listen(&database.address),
        Endpoint::Web(web) => return listen(&web.address),
        Endpoint::Messages(endpoint) => return listen_for_messages(endpoint),
        Endpoint::Tcp(address) => Listener::Tcp(std::net::TcpListener::bind(address)?),
        Endpoint::Unix(path) => {
            remove_stale_socket(path)?;
            Listener::Unix(UnixListener::bind(path)?)
        }
    };
    Ok(Box::new(ClientSet::new(listener)?))
}

fn listen_for_messages(endpoint: &MessageEndpoint) -> io::Result<Box<dyn RequestSource>> {
    Ok(match &endpoint.carrier {
        MessageCarrier::Datagrams(address) => Box::new(DatagramClients::listen(*address)?),
        MessageCarrier::Topics(topics) => Box::new(TopicClients::join(topics, endpoint.size)?),
        MessageCarrier::Echo(_) => {
            let what = "the kernel answers echo requests itself";
            return Err(io::Error::new(io::ErrorKind::Unsupported, what));
        }
    })
}

/// Removes the socket that a dead service left behind; never one that is served, nor a file.
fn remove_stale_socket(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|data| data.file_type().is_socket());
    let refused = |error: &io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
    if is_socket && UnixStream::connect(path).as_ref().is_err_and(refused) {
        std::fs::remove_file(path)?;
    }
    Ok(())
}

fn serve_clients(
    clients: &mut dyn RequestSource,
    options: &ServeOptions,
    stop: &AtomicBool,
) -> io::Result<()> {
    let mut ready = ReadyQueue::new(options.scheduling);
    // CPU time up to here is charged to some job; what was used since goes to the next one.
    let mut charged = thread_cpu_time();
    while !stop.load(Ordering::Relaxed) {
        let Some(mut job) = ready.pop() else {
            clients.receive(IDLE_WAIT, &mut ready)?;
            charged = charged.max(thread_cpu_time().saturating_sub(MOST_OVERHEAD));
            continue;
        };
        let due = charged + job.missing();
        let now = work_until(due.min(charged + options.slice));
        job.worked += now.saturating_sub(charged);
        charged = now;
        if job.missing().is_zero() {
            clients.answer(&job)?;
        } else {
            ready.put_back(job);
            clients.receive(Duration::ZERO, &mut ready)?;
        }
    }
    Ok(())
}

/// Keeps the CPU busy until this thread's CPU time is `target`; returns what it is then.
pub fn work_until(target: Duration) -> Duration {
    loop {
        let now = thread_cpu_time();
        if now >= target {
            return now;
        }
        // About a quarter of a microsecond in user mode between two readings of the clock.
        let mut value = now.as_nanos();
        for _ in 0..200 {
            value = std::hint::black_box(value.wrapping_mul(6_364_136_223_846_793_005) | 1);
        }
    }
}
