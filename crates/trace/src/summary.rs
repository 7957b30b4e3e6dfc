//! What a recording holds, in sums.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use tailbound_time::{Duration, Instant};

use crate::kernel::{InterruptContext, KernelEvent, KernelEventKind, ThreadName};
use crate::recording::{KernelRecording, KernelRecordingError, PositionedBytes, StreamLoss};

/// What a recording holds, in sums.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingSummary {
    /// From the first event to the last.
    #[serde(rename = "length_ns", with = "tailbound_time::nanoseconds")]
    pub length: Duration,
    /// How many events were decoded, by kind.
    pub events: BTreeMap<String, u64>,
    /// The CPUs.
    pub cpus: Vec<CpuSummary>,
    /// The threads, those with the most CPU time first.
    pub threads: Vec<ThreadSummary>,
    /// Interrupts and softirqs, those with the most CPU time first.
    pub interrupts: Vec<InterruptSummary>,
    /// Waits for locks of the kernel by kind, those with the longest waits together first; empty unless they were
    /// recorded. Locks that were free when they were asked for have no event.
    pub lock_waits: Vec<LockWaitSummary>,
    /// Events that the kernel lost, as far as it counted them.
    pub lost: u64,
    /// Places at which it did not count, or that cannot be read.
    pub gaps: u64,
}

/// The time of a CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuSummary {
    /// The CPU.
    pub cpu: u32,
    /// Time with a thread.
    #[serde(rename = "busy_ns", with = "tailbound_time::nanoseconds")]
    pub busy: Duration,
    /// Time in interrupts and softirqs, which is in that of threads or of idling, too.
    #[serde(rename = "interrupts_ns", with = "tailbound_time::nanoseconds")]
    pub interrupts: Duration,
    /// Switches of threads.
    pub switches: u64,
    /// Late wake-ups of the sampler.
    pub late_samples: u64,
    /// The latest of them.
    #[serde(rename = "latest_sample_ns", with = "tailbound_time::nanoseconds")]
    pub latest_sample: Duration,
}

/// The time of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Its number.
    pub thread: u32,
    /// Its name.
    pub name: String,
    /// Its domain, if it has one.
    pub domain: Option<String>,
    /// Its CPU time.
    #[serde(rename = "cpu_time_ns", with = "tailbound_time::nanoseconds")]
    pub cpu_time: Duration,
    /// How often it came to a CPU.
    pub switches: u64,
}

/// The time of an interrupt on all CPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct InterruptSummary {
    /// Its name.
    pub name: String,
    /// How often it came.
    pub count: u64,
    /// Its CPU time, without interrupts inside of it.
    #[serde(rename = "cpu_time_ns", with = "tailbound_time::nanoseconds")]
    pub cpu_time: Duration,
    /// The longest of them.
    #[serde(rename = "longest_ns", with = "tailbound_time::nanoseconds")]
    pub longest: Duration,
}

/// Waits for locks of the kernel of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LockWaitSummary {
    /// The kind, such as `mutex`.
    pub kind: String,
    /// How many locks there were.
    pub locks: u64,
    /// How many waits.
    pub count: u64,
    /// The waits together.
    #[serde(rename = "waited_ns", with = "tailbound_time::nanoseconds")]
    pub waited: Duration,
    /// The longest of them.
    #[serde(rename = "longest_ns", with = "tailbound_time::nanoseconds")]
    pub longest: Duration,
}

/// The kinds of locks by the bits that the kernel tells (LCB_F_ of trace/events/lock.h), the telling ones first.
const LOCK_KINDS: [(u32, &str); 6] = [
    (1 << 5, "mutex"),
    (1 << 3, "real-time mutex"),
    (1 << 4, "per-CPU lock"),
    (1 << 1, "lock for reading"),
    (1 << 2, "lock for writing"),
    (1 << 0, "spin lock"),
];

/// The kind of a lock.
fn lock_kind(flags: u32) -> &'static str {
    let kind = LOCK_KINDS.iter().find(|(bit, _)| flags & bit != 0);
    kind.map_or("other", |(_, name)| name)
}

/// Waits for locks of the kernel, as events go by.
#[derive(Debug, Default)]
struct LockWaits {
    /// By thread: when it began to wait, and for which kind.
    open: HashMap<u32, (u64, &'static str)>,
    kinds: BTreeMap<&'static str, (BTreeSet<u64>, u64, u64, u64)>,
}

impl LockWaits {
    fn take(&mut self, event: &KernelEvent) {
        let at = event.at.as_nanos();
        match event.kind {
            KernelEventKind::ContentionBegin { flags, .. } => {
                self.open.insert(event.thread, (at, lock_kind(flags)));
            }
            KernelEventKind::ContentionEnd { lock } => {
                if let Some((since, kind)) = self.open.remove(&event.thread) {
                    let (locks, count, waited, longest) = self.kinds.entry(kind).or_default();
                    locks.insert(lock);
                    *count += 1;
                    *waited += at - since;
                    *longest = (*longest).max(at - since);
                }
            }
            _ => {}
        }
    }

    fn finish(self) -> Vec<LockWaitSummary> {
        let kinds = self.kinds.into_iter();
        let summary = kinds.map(|(kind, (locks, count, waited, longest))| LockWaitSummary {
            kind: kind.into(),
            locks: locks.len() as u64,
            count,
            waited: Duration::from_nanos(waited),
            longest: Duration::from_nanos(longest),
        });
        let mut summaries: Vec<LockWaitSummary> = summary.collect();
        summaries.sort_by_key(|one| std::cmp::Reverse(one.waited));
        summaries
    }
}

impl RecordingSummary {
    /// The sums of a recording.
    ///
    /// # Errors
    /// The recording cannot be read.
    pub fn of<B: PositionedBytes>(
        recording: &KernelRecording<B>,
    ) -> Result<Self, KernelRecordingError> {
        let decoder = recording
            .decoder()
            .map_err(|cause| KernelRecordingError::Content {
                offset: 0,
                what: cause.to_string(),
            })?;
        let mut sums = SummarySums::default();
        let mut events = recording.events(&decoder);
        while let Some(event) = events.next_event()? {
            sums.take(&event);
        }
        let mut summary = sums.finish(recording, events.loss());
        for cpu in &mut summary.cpus {
            let delays = recording.sampler_delays(cpu.cpu)?;
            cpu.late_samples = delays.len() as u64;
            let lengths = delays
                .iter()
                .map(|delay| delay.woke.saturating_since(delay.due));
            cpu.latest_sample = lengths.max().unwrap_or(Duration::ZERO);
        }
        Ok(summary)
    }
}

#[derive(Debug, Default)]
struct CpuSums {
    summary: CpuSummary,
    current: u32,
    since: u64,
    /// Interrupts that are under way, with when each went on last and how long it has lasted before.
    interrupts: Vec<(InterruptContext, u64, u64)>,
}

#[derive(Debug, Default)]
struct SummarySums {
    first: Option<Instant>,
    last: Instant,
    events: BTreeMap<&'static str, u64>,
    cpus: BTreeMap<u32, CpuSums>,
    threads: HashMap<u32, (ThreadName, u64, u64)>,
    interrupts: HashMap<InterruptContext, (u64, u64, u64)>,
    locks: LockWaits,
}

impl SummarySums {
    fn take(&mut self, event: &KernelEvent) {
        self.locks.take(event);
        self.first.get_or_insert(event.at);
        self.last = event.at;
        *self.events.entry(event.kind.name()).or_default() += 1;
        let at = event.at.as_nanos();
        let cpu = self.cpus.entry(event.cpu).or_default();
        cpu.summary.cpu = event.cpu;
        match &event.kind {
            KernelEventKind::ThreadSwitch(switch) => {
                let ran = at - std::mem::replace(&mut cpu.since, at);
                cpu.summary.switches += 1;
                if cpu.current != 0 && cpu.current == switch.previous {
                    cpu.summary.busy = cpu.summary.busy.saturating_add(Duration::from_nanos(ran));
                    let thread = self.threads.entry(switch.previous).or_default();
                    (thread.0, thread.1) = (switch.previous_name, thread.1 + ran);
                }
                if switch.next != 0 {
                    let thread = self.threads.entry(switch.next).or_default();
                    (thread.0, thread.2) = (switch.next_name, thread.2 + 1);
                }
                cpu.current = switch.next;
            }
            KernelEventKind::InterruptEntry(interrupt) => {
                if let Some((_, since, before)) = cpu.interrupts.last_mut() {
                    *before += at - *since;
                }
                cpu.interrupts.push((*interrupt, at, 0));
            }
            KernelEventKind::InterruptExit(interrupt) => {
                let place = cpu
                    .interrupts
                    .iter()
                    .rposition(|(one, ..)| one == interrupt);
                if let Some(place) = place {
                    let (_, since, before) = cpu.interrupts[place];
                    cpu.interrupts.truncate(place);
                    let lasted = before + (at - since);
                    let sum = self.interrupts.entry(*interrupt).or_default();
                    *sum = (sum.0 + 1, sum.1 + lasted, sum.2.max(lasted));
                    let interrupts = &mut cpu.summary.interrupts;
                    *interrupts = interrupts.saturating_add(Duration::from_nanos(lasted));
                }
                if let Some((_, since, _)) = cpu.interrupts.last_mut() {
                    *since = at;
                }
            }
            KernelEventKind::Lost { .. } => cpu.interrupts.clear(),
            _ => {}
        }
    }

    fn finish<B>(self, recording: &KernelRecording<B>, loss: StreamLoss) -> RecordingSummary
    where
        B: PositionedBytes,
    {
        let header = recording.header();
        let domain_of = |thread: u32| {
            let process = header
                .processes
                .iter()
                .find(|one| one.threads.iter().any(|own| own.tid == thread));
            // A thread that was born in the recording belongs to a process by its own number at most.
            let process = process.map_or(thread, |process| process.pid);
            let mut domains = header.domains.iter();
            let domain = domains.find(|domain| domain.has(thread, process));
            domain.map(|domain| domain.name.clone())
        };
        let threads = self
            .threads
            .into_iter()
            .map(|(thread, (name, time, switches))| ThreadSummary {
                thread,
                name: name.text(),
                domain: domain_of(thread),
                cpu_time: Duration::from_nanos(time),
                switches,
            });
        let mut threads: Vec<ThreadSummary> = threads.collect();
        threads.sort_by_key(|one| (std::cmp::Reverse(one.cpu_time), one.thread));
        let interrupts = self
            .interrupts
            .into_iter()
            .map(|(interrupt, (count, time, longest))| InterruptSummary {
                name: interrupt.name(|line| header.interrupt_lines.get(&line).cloned()),
                count,
                cpu_time: Duration::from_nanos(time),
                longest: Duration::from_nanos(longest),
            });
        let mut interrupts: Vec<InterruptSummary> = interrupts.collect();
        interrupts
            .sort_by(|one, other| (other.cpu_time, &one.name).cmp(&(one.cpu_time, &other.name)));
        let events = self.events.into_iter();
        RecordingSummary {
            length: self.last.saturating_since(self.first.unwrap_or(self.last)),
            events: events
                .map(|(name, count)| (name.to_string(), count))
                .collect(),
            cpus: self.cpus.into_values().map(|cpu| cpu.summary).collect(),
            threads,
            interrupts,
            lock_waits: self.locks.finish(),
            lost: loss.lost,
            gaps: loss.uncounted + loss.unreadable,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;
    use crate::recording::KernelRecording;
    use crate::synthetic::SyntheticRecording;

    #[test]
    fn waits_for_locks_are_those_of_each_thread() {
        let mut recording = SyntheticRecording::new(2);
        let begin = |lock, flags| KernelEventKind::ContentionBegin { lock, flags };
        let end = |lock| KernelEventKind::ContentionEnd { lock };
        recording.push(100, 0, 7, begin(1, 1 << 5));
        recording.push(120, 1, 8, begin(2, 1));
        recording.push(150, 1, 8, end(2));
        recording.push(400, 0, 7, end(1));
        recording.push(500, 0, 7, begin(3, 1 << 5 | 1));
        recording.push(510, 0, 7, end(3));
        // The wait began before the recording.
        recording.push(600, 0, 9, end(3));
        let bytes = recording.to_bytes();
        let recording = KernelRecording::open(bytes.as_slice()).unwrap();
        let waits = RecordingSummary::of(&recording).unwrap().lock_waits;
        let [mutex, spin] = waits.as_slice() else {
            panic!("{waits:?}");
        };
        assert_eq!(
            (mutex.kind.as_str(), mutex.locks, mutex.count),
            ("mutex", 2, 2)
        );
        assert_eq!(
            (mutex.waited.as_nanos(), mutex.longest.as_nanos()),
            (310, 300)
        );
        assert_eq!(
            (spin.kind.as_str(), spin.waited.as_nanos()),
            ("spin lock", 30)
        );
    }
}
