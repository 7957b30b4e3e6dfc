//! What a measurement yields.

use std::collections::BTreeMap;
use std::fmt;
use std::io;

use serde::{Deserialize, Serialize};
use tailbound_distribution::{Arrival, Distribution};
use tailbound_time::{ClockId, Duration, Instant};

use crate::OmittedRequests;

/// How many requests there were, after the warm-up, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Releases that fell due.
    pub released: u64,
    /// Those that were sent; the others waited for a place in flight until the end.
    pub sent: u64,
    /// Those that were answered well.
    pub answered: u64,
    /// Those answered with an error.
    pub refused: u64,
    /// Those without an answer at the end, sent or not.
    pub unanswered: u64,
}

impl Counts {
    /// Refused and unanswered together.
    pub fn failed(&self) -> u64 {
        self.refused + self.unanswered
    }
}

/// What became of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordOutcome {
    /// Answered well.
    Answered,
    /// Answered with an error.
    Refused,
    /// Not answered by the end; `replied` is when waiting for it ended.
    Unanswered,
}

/// One request: the raw record. Instants are on [`Measurement::clock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRecord {
    /// Index into [`Measurement::tasks`].
    pub task: u32,
    /// Which of the task's clients.
    pub client: u32,
    /// When it should have been sent.
    pub intended: Instant,
    /// When the generator took it up; later than `intended` by the generator's own lateness.
    pub taken_up: Instant,
    /// When it was sent; later than `taken_up` where it waited for a place in flight. `None` if it
    /// never was.
    pub sent: Option<Instant>,
    /// When its reply was read, or waiting for it ended.
    pub replied: Instant,
    /// What became of it.
    pub outcome: RecordOutcome,
    /// Whether it belongs to the warm-up.
    pub warm_up: bool,
}

impl RequestRecord {
    /// From the intended send time to the reply; a lower bound if it is unanswered.
    pub fn latency(&self) -> Duration {
        self.replied.saturating_since(self.intended)
    }

    /// The latency as a value of a distribution; `None` for an error, whose latency is none.
    pub fn arrival(&self) -> Option<Arrival> {
        match self.outcome {
            RecordOutcome::Answered => Some(Arrival::Known(self.latency())),
            RecordOutcome::Unanswered => Some(Arrival::AtLeast(self.latency())),
            RecordOutcome::Refused => None,
        }
    }
}

/// The connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadConnection {
    /// Index into [`Measurement::tasks`].
    pub task: u32,
    /// Which of the task's clients.
    pub client: u32,
    /// Our end, as the kernel's tables name it ([`tailbound_linux::sockets`]).
    pub end: String,
}

/// How many connections a load had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionCounts {
    /// Connections that were there when the load started.
    pub at_start: u64,
    /// Connections that were opened later in place of others: the service had closed those, or took no more requests on
    /// them.
    pub replacements: u64,
    /// The most streams of HTTP/2 that were open at once on one connection; `None` where no streams are spoken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams_at_once: Option<u64>,
}

impl fmt::Display for ConnectionCounts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at the start", self.at_start)?;
        if self.replacements > 0 {
            write!(out, ", {} later in place of others", self.replacements)?;
        }
        match self.streams_at_once {
            None => Ok(()),
            Some(streams) => write!(out, "; at most {streams} streams at once on one of them"),
        }
    }
}

/// How far a measurement is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Since the start of the load.
    pub elapsed: Duration,
    /// Warm-up and duration together.
    pub total: Duration,
    /// Requests released so far, the warm-up's included.
    pub released: u64,
    /// Requests answered so far, well or not.
    pub answered: u64,
    /// Whether only answers are still waited for.
    pub draining: bool,
}

/// What was measured. In machine output, the distributions and the counts.
#[derive(Clone, Debug, Serialize)]
pub struct Measurement {
    /// The service.
    pub service: String,
    /// The counts after the warm-up.
    pub counts: Counts,
    /// The connections.
    #[serde(rename = "connections")]
    pub connection_counts: ConnectionCounts,
    /// Why it ended early, if it did.
    pub interrupted: Option<String>,
    /// The latencies of all tasks together, from the intended send time.
    #[serde(rename = "latency")]
    pub overall: Distribution,
    /// An estimate of the requests that users left out while they waited for replies; `None` without users.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub omitted: Option<OmittedRequests>,
    /// How late the generator itself was: from the intended send time to when it took the request
    /// up; waiting for a place in flight is not in it.
    pub lateness: Distribution,
    /// The latencies by task.
    #[serde(skip)]
    pub per_task: BTreeMap<String, Distribution>,
    /// The counts of the warm-up.
    #[serde(skip)]
    pub warm_up_counts: Counts,
    /// The texts of error replies and broken connections, with how often each came.
    #[serde(skip)]
    pub failures: BTreeMap<String, u64>,
    /// What should be known when reading the result, such as FIFO having been refused.
    #[serde(skip)]
    pub remarks: Vec<String>,
    /// The clock of every instant here.
    #[serde(skip)]
    pub clock: ClockId,
    /// When release time zero was.
    #[serde(skip)]
    pub started_at: Instant,
    /// The tasks' names.
    #[serde(skip)]
    pub tasks: Vec<String>,
    /// Every request, the warm-up's included, in the order of the intended times.
    #[serde(skip)]
    pub records: Vec<RequestRecord>,
    /// The connections that the requests went over.
    #[serde(skip)]
    pub connections: Vec<LoadConnection>,
    /// The thread of the load generator.
    #[serde(skip)]
    pub generator_thread: Option<u32>,
}

impl Measurement {
    /// From the first request after the warm-up that was due to the last.
    pub fn span(&self) -> Duration {
        let mut counted = self.records.iter().filter(|record| !record.warm_up);
        let first = counted.next().map(|record| record.intended);
        let last = counted.next_back().map(|record| record.intended);
        first
            .zip(last)
            .map_or(Duration::ZERO, |(first, last)| last.saturating_since(first))
    }

    /// The latencies of those requests after the warm-up that were due at certain instants: `subject`
    /// tells which.
    pub fn of_instants(&self, subject: &str, due: impl Fn(Instant) -> bool) -> Distribution {
        let counted = self.records.iter().filter(|record| !record.warm_up);
        let due = counted.filter(|record| due(record.intended));
        let arrivals = due.filter_map(RequestRecord::arrival);
        let mut provenance = self.overall.provenance.clone();
        provenance.subject = format!("{}, {subject}", provenance.subject);
        Distribution::from_arrivals(provenance, arrivals.collect())
    }

    /// Writes the raw records as CSV: `task,client,intended_ns,taken_up_ns,sent_ns,replied_ns,
    /// latency_ns,outcome,warm_up`, instants counted from the start of the load.
    ///
    /// # Errors
    /// What `out` says.
    pub fn write_csv(&self, mut out: impl io::Write) -> io::Result<()> {
        writeln!(
            out,
            "task,client,intended_ns,taken_up_ns,sent_ns,replied_ns,latency_ns,outcome,warm_up"
        )?;
        let since = |instant: Instant| instant.saturating_since(self.started_at).as_nanos();
        for record in &self.records {
            let task = self.tasks.get(record.task as usize).map_or("", |name| name);
            let sent = record.sent.map(|at| since(at).to_string());
            let outcome = match record.outcome {
                RecordOutcome::Answered => "answered",
                RecordOutcome::Refused => "refused",
                RecordOutcome::Unanswered => "unanswered",
            };
            writeln!(
                out,
                "{task},{},{},{},{},{},{},{outcome},{}",
                record.client,
                since(record.intended),
                since(record.taken_up),
                sent.unwrap_or_default(),
                since(record.replied),
                record.latency().as_nanos(),
                record.warm_up,
            )?;
        }
        Ok(())
    }
}
