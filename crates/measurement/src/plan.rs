//! What one measurement is to do.

use tailbound_model::{Cpu, InputFiles, Service};
use tailbound_time::{Duration, Instant};

use crate::{BusyRate, Endpoint};

pub use tailbound_simulator::workload::Release;

/// Everything that [`crate::measure`] needs to drive one service.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    /// The service's name, for labels.
    pub name: String,
    /// The service, as described.
    pub service: Service,
    /// Where it listens, resolved with [`Endpoint::resolve`].
    pub endpoint: Endpoint,
    /// The releases, sorted by time, over the warm-up and the duration. Requests of users are not among them, since those
    /// depend on the replies.
    pub releases: Vec<Release>,
    /// What is released before this counts for nothing.
    pub warm_up: Duration,
    /// How long releases count after the warm-up.
    pub duration: Duration,
    /// How long answers are waited for after the last release; the rest counts as failed, with
    /// the time waited until then as a lower bound of its latency.
    pub drain: Duration,
    /// The files that the users of the service take values from; empty where there are none.
    pub inputs: InputFiles,
    /// The seed of `{random}` and, for the record, of the releases.
    pub seed: u64,
    /// The CPU that the generator is pinned to; not the service's.
    pub cpu: Option<Cpu>,
    /// The generator's SCHED_FIFO priority, if it is to have one (1 to 97). Where the kernel
    /// refuses it, the load runs without and the measurement says so.
    pub fifo_priority: Option<u8>,
    /// How long before a release the generator stops sleeping and spins.
    pub spin: Duration,
    /// How many loop iterations `{busy:...}` stands for; from [`crate::calibrate`].
    pub busy: Option<BusyRate>,
    /// The host's fingerprint for the provenance; from [`crate::fingerprint_line`].
    pub host: Option<String>,
    /// When release time zero is, on CLOCK_MONOTONIC; 50 ms after everything is connected if left
    /// out.
    pub start_at: Option<Instant>,
}

impl LoadPlan {
    /// A plan with the usual choices: 5 s of drain, FIFO 92, 80 us of spinning, no pinning.
    pub fn new(name: impl Into<String>, service: Service, endpoint: Endpoint) -> Self {
        Self {
            name: name.into(),
            service,
            endpoint,
            releases: Vec::new(),
            warm_up: Duration::ZERO,
            duration: Duration::ZERO,
            drain: Duration::from_secs(5),
            inputs: InputFiles::default(),
            seed: 1,
            cpu: None,
            fifo_priority: Some(92),
            spin: Duration::from_micros(80),
            busy: None,
            host: None,
            start_at: None,
        }
    }
}
