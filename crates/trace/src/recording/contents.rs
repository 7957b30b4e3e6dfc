//! What the chunks of a recording hold.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, Instant};

/// The first chunk: the recorded machine, and what was there at the beginning.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingHeader {
    /// When the recording began, RFC 3339 in UTC.
    pub started_at: String,
    /// When the recording began, on CLOCK_MONOTONIC, as all instants in it.
    #[serde(rename = "started_ns")]
    pub started: Instant,
    /// The host: kernel, CPUs, clock source.
    pub host: BTreeMap<String, String>,
    /// The CPUs that were recorded.
    pub cpus: Vec<u32>,
    /// The layouts of the kernel's events, as tracefs describes them.
    pub formats: Vec<String>,
    /// The numbers of recorded system calls, with their names.
    pub calls: BTreeMap<u64, String>,
    /// The numbers of interrupt lines, with their names.
    pub interrupt_lines: BTreeMap<u32, String>,
    /// Addresses of timers' functions that give budgets back, with their names.
    pub timer_functions: BTreeMap<u64, String>,
    /// The kernel's functions and variables by their addresses, where its locks are recorded.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub symbols: BTreeMap<u64, String>,
    /// Every process at the beginning.
    pub processes: Vec<RecordedProcess>,
    /// The domains that were enforced.
    pub domains: Vec<RecordedDomain>,
    /// The distance between the looks of the sampler of stalls, where there was one.
    #[serde(
        rename = "looks_apart_ns",
        with = "tailbound_time::nanoseconds::optional",
        default
    )]
    pub looks_apart: Option<Duration>,
    /// What this host or this user could not record, and why.
    pub missing: Vec<String>,
}

/// A process at the beginning of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedProcess {
    /// Its number.
    pub pid: u32,
    /// Its cgroup of version 2, as the kernel names it: below the hierarchy's root. Empty where it is not known.
    pub cgroup: String,
    /// Its threads.
    pub threads: Vec<RecordedThread>,
}

impl RecordedProcess {
    /// The numbers of its threads, with their names.
    pub fn named_threads(&self) -> impl Iterator<Item = (u32, &str)> {
        let threads = self.threads.iter();
        threads.map(|thread| (thread.tid, thread.name.as_str()))
    }
}

/// A thread at the beginning of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedThread {
    /// Its number.
    pub tid: u32,
    /// Its name.
    pub name: String,
    /// Its cgroup, where that is another than its process's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cgroup: Option<String>,
}

/// A domain that was enforced while it was recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedDomain {
    /// Its name.
    pub name: String,
    /// Its processes.
    pub pids: Vec<u32>,
    /// Its threads, where it is of single threads.
    pub threads: Vec<u32>,
    /// Its budget in each period, where it has one.
    pub interface: Option<RecordedInterface>,
    /// Whether its cgroup is frozen while the budget is used up; else the kernel keeps its
    /// threads from the CPU without an event.
    pub frozen: bool,
    /// Whether it is a time partition: its cgroup is frozen outside of its windows, whatever it has used. Recordings of
    /// versions without the field have `false`.
    #[serde(default)]
    pub has_windows: bool,
    /// The timer function of the kernel that gives its budget back, where one does.
    pub replenished_by: Option<String>,
}

impl RecordedDomain {
    /// Whether a thread of a process belongs to the domain.
    pub fn has(&self, thread: u32, process: u32) -> bool {
        self.pids.contains(&process) || self.threads.contains(&thread)
    }
}

/// A budget in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedInterface {
    /// The budget.
    #[serde(rename = "budget_ns", with = "tailbound_time::nanoseconds")]
    pub budget: Duration,
    /// The period.
    #[serde(rename = "period_ns", with = "tailbound_time::nanoseconds")]
    pub period: Duration,
}

/// A look of a sampler of stalls that came late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerDelay {
    /// The CPU.
    pub cpu: u32,
    /// When it was due.
    pub due: Instant,
    /// When it came.
    pub woke: Instant,
}

impl SamplerDelay {
    /// Bytes of one in a chunk.
    pub(crate) const BYTES: usize = 16;

    /// The two instants as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[..8].copy_from_slice(&self.due.as_nanos().to_le_bytes());
        bytes[8..].copy_from_slice(&self.woke.as_nanos().to_le_bytes());
        bytes
    }

    pub(crate) fn of_bytes(cpu: u32, bytes: &[u8]) -> Option<Self> {
        let instant = |at: usize| {
            let bytes = bytes.get(at..at + 8)?.try_into().ok()?;
            Some(Instant::from_nanos(u64::from_le_bytes(bytes)))
        };
        let (due, woke) = (instant(0)?, instant(8)?);
        Some(Self { cpu, due, woke })
    }
}

/// The sockets of some processes at one instant.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SocketSnapshot {
    /// When.
    #[serde(rename = "at_ns")]
    pub at: Instant,
    /// The sockets.
    pub sockets: Vec<RecordedSocket>,
}

/// A connected socket of a process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedSocket {
    /// The process.
    pub pid: u32,
    /// The descriptor.
    pub descriptor: u32,
    /// The other end, as [`RecordedLoad::connections`] writes it: `tcp:ADDRESS:PORT` or `unix:INODE`.
    pub peer: String,
}

/// The load on a service, whose requests follow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedLoad {
    /// The service.
    pub service: String,
    /// Its domain.
    pub domain: String,
    /// The variant and the repetition that it was measured in.
    pub run: String,
    /// The names of the tasks.
    pub tasks: Vec<String>,
    /// Our end of each connection, by task and client; empty where it is not known.
    pub connections: Vec<RecordedConnection>,
    /// The thread of the load generator.
    pub generator: Option<u32>,
    /// The mean execution time of a request by the calibration, where there is one.
    #[serde(
        rename = "calibrated_ns",
        with = "tailbound_time::nanoseconds::optional",
        default
    )]
    pub calibrated: Option<Duration>,
    /// How many requests follow.
    pub requests: u64,
}

/// A connection of the load generator.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedConnection {
    /// Index of the task.
    pub task: u32,
    /// The client of the task.
    pub client: u32,
    /// Our end: `tcp:ADDRESS:PORT` or `unix:INODE`.
    pub end: String,
}

/// A request of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Index of the task.
    pub task: u32,
    /// The client of the task.
    pub client: u32,
    /// When it should have been sent.
    pub intended: Instant,
    /// When the generator took it up.
    pub taken_up: Instant,
    /// When it was sent; `None` if it never was.
    pub sent: Option<Instant>,
    /// When its reply was read, or waiting for it ended.
    pub replied: Instant,
    /// Whether it was answered well.
    pub answered: bool,
    /// Whether it belongs to the warm-up.
    pub warm_up: bool,
}

impl RequestRow {
    /// Bytes of one in a chunk.
    pub(crate) const BYTES: usize = 48;

    /// From the intended send time to the reply.
    pub fn latency(&self) -> Duration {
        self.replied.saturating_since(self.intended)
    }

    /// The row as bytes; a request that was not sent has all bits set in the place of the instant.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let sent = self.sent.map_or(u64::MAX, Instant::as_nanos);
        let instants = [
            self.intended.as_nanos(),
            self.taken_up.as_nanos(),
            sent,
            self.replied.as_nanos(),
        ];
        bytes[..4].copy_from_slice(&self.task.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.client.to_le_bytes());
        for (place, instant) in instants.into_iter().enumerate() {
            let at = 8 + 8 * place;
            bytes[at..at + 8].copy_from_slice(&instant.to_le_bytes());
        }
        bytes[40] = u8::from(self.answered);
        bytes[41] = u8::from(self.warm_up);
        bytes
    }

    /// The row of bytes; `None` for too few.
    pub fn of_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |at: usize| Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let nanos = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let instant = |at: usize| nanos(at).map(Instant::from_nanos);
        Some(Self {
            task: word(0)?,
            client: word(4)?,
            intended: instant(8)?,
            taken_up: instant(16)?,
            sent: Some(nanos(24)?)
                .filter(|nanos| *nanos != u64::MAX)
                .map(Instant::from_nanos),
            replied: instant(32)?,
            answered: *bytes.get(40)? != 0,
            warm_up: *bytes.get(41)? != 0,
        })
    }
}

/// The error of the recording's clock: how well instants of programs and of the kernel compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockError {
    /// Pairs of readings that were taken.
    pub samples: u64,
    /// The widest gap between the reading of a program before an event of the kernel and the one
    /// after it: the error is at most this.
    #[serde(rename = "bound_ns", with = "tailbound_time::nanoseconds")]
    pub bound: Duration,
    /// How often an event of the kernel lay outside of its two readings.
    pub outside: u64,
}

/// The last chunk; a recording without it ended early.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RecordingEnd {
    /// When the recording ended.
    #[serde(rename = "ended_ns")]
    pub ended: Instant,
    /// Events that the kernel recorded.
    pub events: u64,
    /// Events that the kernel lost, since nobody took them in time.
    pub lost: u64,
    /// Events that the kernel dropped, since its buffer was full before anybody read.
    pub dropped: u64,
    /// The error of the clock.
    pub clock_error: Option<ClockError>,
    /// CPU time that the recorder's threads took.
    #[serde(rename = "recorder_ns", with = "tailbound_time::nanoseconds")]
    pub recorder: Duration,
    /// The measured cost of one event of the kernel.
    #[serde(
        rename = "event_cost_ns",
        with = "tailbound_time::nanoseconds::optional",
        default
    )]
    pub event_cost: Option<Duration>,
    /// What did not work while it was recorded.
    pub remarks: Vec<String>,
    /// Every process at the end that was not there at the beginning.
    pub processes: Vec<RecordedProcess>,
}
