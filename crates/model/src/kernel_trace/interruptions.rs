//! What takes CPUs from threads in a recording: interrupts, softirqs, kernel threads and stalls of the host.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use super::events::{TracedEvent, TracedEventKind, TracedInterrupt, TracedThread};
use crate::inputs::TracedJob;
use crate::interface::Cpu;
use crate::interference::InterferenceKind;

/// The beginnings of the names of kernel threads that do the work of interrupts and of the scheduler.
const KERNEL_THREADS: [&str; 5] = ["irq/", "ksoftirqd/", "migration/", "napi/", "stopper/"];

/// The beginnings of the names of other kernel threads.
const KERNEL_WORKERS: [&str; 4] = ["kworker/", "rcu", "kcompactd", "kswapd"];

/// Whether a thread is the kernel's, by its name.
pub(super) fn is_of_kernel(comm: &str) -> bool {
    let mut names = KERNEL_THREADS.iter().chain(&KERNEL_WORKERS);
    names.any(|name| comm.starts_with(name))
}

/// `RecordedInterference` is a source of interference in a recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedInterference {
    /// The name of the source, such as `irq 24 (virtio0)`.
    pub source: String,
    /// The kind of the source.
    pub kind: InterferenceKind,
    /// The CPU.
    pub cpu: Cpu,
    /// The events: when each began, from the start of the recording, and how long it took without those nested in it.
    pub events: Vec<TracedJob>,
}

/// An interrupt by its number, or else by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct InterruptKey {
    is_soft: bool,
    number: Option<u32>,
    name: String,
}

impl InterruptKey {
    fn of(interrupt: TracedInterrupt<'_>) -> Self {
        let TracedInterrupt {
            is_soft,
            number,
            name,
        } = interrupt;
        let name = name.filter(|_| number.is_none()).unwrap_or_default();
        Self {
            is_soft,
            number,
            name: name.to_owned(),
        }
    }
}

/// Work in progress on a CPU.
#[derive(Clone, Debug)]
struct OpenWork {
    source: String,
    kind: InterferenceKind,
    begin_ns: u64,
    /// The time that work nested in it has taken.
    nested_ns: u64,
    /// The interrupt or softirq; none of a thread.
    key: Option<InterruptKey>,
}

/// `InterruptionReader` finds the interference in events that come in order.
#[derive(Clone, Debug, Default)]
pub(super) struct InterruptionReader {
    /// What goes on in interrupt context on each CPU, the innermost last.
    nested: BTreeMap<u32, Vec<OpenWork>>,
    /// The kernel thread on each CPU.
    threads: BTreeMap<u32, OpenWork>,
    /// What interrupts, softirqs and stalls have taken of each CPU so far.
    taken_ns: BTreeMap<u32, u64>,
    /// Begin and length of each event, by source.
    events: BTreeMap<(u32, InterferenceKind, String), Vec<(u64, u64)>>,
    names: BTreeMap<(bool, u32), String>,
}

impl InterruptionReader {
    pub(super) fn take(&mut self, event: &TracedEvent<'_>) {
        let at_ns = event.at_ns;
        match (event.cpu, &event.kind) {
            (_, TracedEventKind::Lost) => {
                self.nested.clear();
                self.threads.clear();
            }
            (Some(cpu), TracedEventKind::Begin(interrupt)) => self.begin(cpu, at_ns, *interrupt),
            (Some(cpu), TracedEventKind::End(interrupt)) => self.end(cpu, at_ns, *interrupt),
            (Some(cpu), TracedEventKind::Switch { to, .. }) => self.switch(cpu, at_ns, *to),
            (Some(cpu), TracedEventKind::Stall { length_ns }) => {
                let key = (cpu, InterferenceKind::HostStall, "host stall".to_owned());
                self.events
                    .entry(key)
                    .or_default()
                    .push((at_ns, *length_ns));
                self.count(cpu, *length_ns);
            }
            _ => {}
        }
    }

    /// What interrupts, softirqs and stalls have taken of a CPU so far, in nanoseconds.
    pub(super) fn taken_ns(&self, cpu: u32) -> u64 {
        self.taken_ns.get(&cpu).copied().unwrap_or(0)
    }

    fn begin(&mut self, cpu: u32, at_ns: u64, interrupt: TracedInterrupt<'_>) {
        let TracedInterrupt {
            is_soft,
            number,
            name,
        } = interrupt;
        if let (Some(number), Some(name)) = (number, name) {
            let names = self.names.entry((is_soft, number));
            names.or_insert_with(|| name.to_owned());
        }
        let line_name = number.and_then(|number| self.names.get(&(is_soft, number)));
        let source = match (is_soft, number, line_name) {
            (false, Some(number), Some(name)) => format!("irq {number} ({name})"),
            (false, Some(number), None) => format!("irq {number}"),
            (true, Some(_), Some(name)) => format!("softirq {name}"),
            (true, Some(number), None) => format!("softirq {number}"),
            (_, None, _) => name.unwrap_or("interrupt").to_owned(),
        };
        let kind = match is_soft {
            true => InterferenceKind::Softirq,
            false => InterferenceKind::Interrupt,
        };
        self.nested.entry(cpu).or_default().push(OpenWork {
            source,
            kind,
            begin_ns: at_ns,
            nested_ns: 0,
            key: Some(InterruptKey::of(interrupt)),
        });
    }

    fn end(&mut self, cpu: u32, at_ns: u64, interrupt: TracedInterrupt<'_>) {
        let key = InterruptKey::of(interrupt);
        let stack = self.nested.entry(cpu).or_default();
        // An end without its begin says nothing; begins without an end are dropped with the work around them.
        let Some(depth) = stack
            .iter()
            .rposition(|open| open.key.as_ref() == Some(&key))
        else {
            return;
        };
        stack.truncate(depth + 1);
        let Some(open) = stack.pop() else {
            return;
        };
        let whole_ns = at_ns.saturating_sub(open.begin_ns);
        let own_ns = whole_ns.saturating_sub(open.nested_ns);
        match stack.last_mut() {
            Some(outer) => outer.nested_ns += whole_ns,
            None => self.count(cpu, whole_ns),
        }
        self.add(cpu, open, own_ns);
    }

    /// Time in interrupt context, or of the host, is no time of the thread.
    fn count(&mut self, cpu: u32, length_ns: u64) {
        *self.taken_ns.entry(cpu).or_default() += length_ns;
        if let Some(thread) = self.threads.get_mut(&cpu) {
            thread.nested_ns += length_ns;
        }
    }

    fn switch(&mut self, cpu: u32, at_ns: u64, to: TracedThread<'_>) {
        if let Some(open) = self.threads.remove(&cpu) {
            let whole_ns = at_ns.saturating_sub(open.begin_ns);
            let own_ns = whole_ns.saturating_sub(open.nested_ns);
            self.add(cpu, open, own_ns);
        }
        let is_kernel = KERNEL_THREADS.iter().any(|name| to.comm.starts_with(name));
        if is_kernel {
            let open = OpenWork {
                source: to.comm.to_owned(),
                kind: InterferenceKind::KernelThread,
                begin_ns: at_ns,
                nested_ns: 0,
                key: None,
            };
            self.threads.insert(cpu, open);
        }
    }

    fn add(&mut self, cpu: u32, open: OpenWork, own_ns: u64) {
        let key = (cpu, open.kind, open.source);
        self.events
            .entry(key)
            .or_default()
            .push((open.begin_ns, own_ns));
    }

    /// The sources, with times from `first_ns` on.
    pub(super) fn finish(self, first_ns: u64) -> Vec<RecordedInterference> {
        let sources = self
            .events
            .into_iter()
            .map(|((cpu, kind, source), mut events)| {
                events.sort_unstable();
                let event = |(begin_ns, length_ns): (u64, u64)| TracedJob {
                    release: Duration::from_nanos(begin_ns.saturating_sub(first_ns)),
                    execution: Some(Duration::from_nanos(length_ns)),
                };
                RecordedInterference {
                    source,
                    kind,
                    cpu: Cpu(cpu),
                    events: events.into_iter().map(event).collect(),
                }
            });
        sources.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times in nanoseconds on CPU 3; a number opens (positive) or closes (negative) a softirq or, from 10 on, a line.
    fn read(steps: &[(u64, i32)]) -> Vec<(String, Vec<(u64, u64)>)> {
        let mut reader = InterruptionReader::default();
        for (at_ns, step) in steps {
            let number = step.unsigned_abs();
            let name = if number < 10 { "NET_RX" } else { "eth0" };
            let interrupt = TracedInterrupt {
                is_soft: number < 10,
                number: Some(number),
                name: (*step > 0).then_some(name),
            };
            let kind = match *step {
                0 => TracedEventKind::Lost,
                1.. => TracedEventKind::Begin(interrupt),
                _ => TracedEventKind::End(interrupt),
            };
            reader.take(&TracedEvent {
                at_ns: *at_ns,
                cpu: Some(3),
                kind,
            });
        }
        let pair = |event: &TracedJob| {
            let length = event.execution.unwrap_or(Duration::ZERO);
            (event.release.as_nanos(), length.as_nanos())
        };
        let sources = reader.finish(100).into_iter();
        sources
            .map(|one| (one.source, one.events.iter().map(pair).collect()))
            .collect()
    }

    #[test]
    fn nested_work_counts_once() {
        let sources = read(&[
            (100, 3),
            (110, 24),
            (117, -24),
            (130, -3),
            (200, 24),
            (205, -24),
        ]);
        assert_eq!(
            sources,
            [
                ("irq 24 (eth0)".to_owned(), vec![(10, 7), (100, 5)]),
                ("softirq NET_RX".to_owned(), vec![(0, 23)]),
            ]
        );
    }

    #[test]
    fn work_across_a_loss_is_left_out() {
        assert_eq!(read(&[(100, 3), (105, 0), (110, -3), (120, -24)]), []);
        let begun_twice = read(&[(100, 3), (120, 24), (125, -3)]);
        assert_eq!(begun_twice, [("softirq NET_RX".to_owned(), vec![(0, 25)])]);
    }

    #[test]
    fn kernel_threads_and_stalls_are_sources() {
        let mut reader = InterruptionReader::default();
        let thread = |comm| TracedThread { pid: 9, comm };
        let switch = |from, to| TracedEventKind::Switch {
            from: thread(from),
            runnable: true,
            to: thread(to),
        };
        let kinds = [
            (10, switch("web", "ksoftirqd/0")),
            (12, TracedEventKind::Stall { length_ns: 5 }),
            (30, switch("ksoftirqd/0", "web")),
        ];
        for (at_ns, kind) in kinds {
            reader.take(&TracedEvent {
                at_ns,
                cpu: Some(0),
                kind,
            });
        }
        assert_eq!(reader.taken_ns(0), 5);
        let sources = reader.finish(0);
        let lengths = sources
            .iter()
            .map(|one| (one.kind, one.events[0].execution));
        let expected = [
            (
                InterferenceKind::KernelThread,
                Some(Duration::from_nanos(15)),
            ),
            (InterferenceKind::HostStall, Some(Duration::from_nanos(5))),
        ];
        assert_eq!(lengths.collect::<Vec<_>>(), expected);
    }
}
