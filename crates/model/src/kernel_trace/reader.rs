//! The jobs of threads, and what takes CPUs from them, in events that come one by one.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use super::events::{TracedEvent, TracedEventKind, TracedThread};
use super::interruptions::{InterruptionReader, RecordedInterference, is_of_kernel};
use crate::problem::{Problem, Severity, SourceText};

/// Which threads' jobs are wanted: those with one of the numbers, and those of that name; where neither is given, all but
/// the kernel's own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSelection {
    /// The kernel's numbers of threads (the `pid` in its events).
    pub pids: Vec<u32>,
    /// The threads' name, as the kernel has it: at most 15 bytes.
    pub comm: Option<String>,
}

impl ThreadSelection {
    /// Whether it names no thread.
    pub fn is_empty(&self) -> bool {
        self.pids.is_empty() && self.comm.is_none()
    }

    fn takes(&self, thread: TracedThread<'_>) -> bool {
        if self.is_empty() {
            return thread.pid != 0 && !is_of_kernel(thread.comm);
        }
        // Number 0 is the idle thread of every CPU.
        let named = self.comm.as_deref() == Some(thread.comm);
        thread.pid != 0 && (named || self.pids.contains(&thread.pid))
    }
}

/// One whole job of a recording, in nanoseconds on its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordedJob {
    /// When the thread was woken.
    pub release_ns: u64,
    /// How long it ran, without what interrupts and stalls took meanwhile.
    pub used_ns: u64,
    /// When it slept again.
    pub completion_ns: u64,
    /// When it ran first.
    pub start_ns: u64,
    /// The thread.
    pub pid: u32,
    /// The CPU that it ended on, where the recording says it.
    pub cpu: Option<u32>,
}

/// A job that is not done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct JobInProgress {
    release_ns: u64,
    used_ns: u64,
    start_ns: Option<u64>,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordedState {
    /// It runs or waits in the middle of a job whose start was not seen.
    Unknown,
    Sleeping,
    Ready {
        job: JobInProgress,
        since_ns: u64,
    },
    Running {
        job: JobInProgress,
        since_ns: u64,
        /// What interrupts and stalls had taken of the CPU by then.
        taken_ns: u64,
    },
}

/// `TraceReader` derives jobs and interference from the events of a recording, in order of time. What it keeps grows with
/// the jobs and the interruptions, and not with the other events.
#[derive(Clone, Debug, Default)]
pub struct TraceReader {
    selection: ThreadSelection,
    states: BTreeMap<u32, RecordedState>,
    /// Since when each CPU idles, of those that do by the last switch on them.
    idle_since_ns: BTreeMap<u32, u64>,
    threads: BTreeMap<u32, String>,
    seen: BTreeMap<u32, String>,
    interruptions: InterruptionReader,
    jobs: Vec<RecordedJob>,
    first_ns: Option<u64>,
    last_ns: u64,
    cut_off: u64,
    lost: u64,
    lost_sometime: bool,
    inferred: u64,
}

impl TraceReader {
    /// A reader of the jobs of those threads.
    pub fn of(selection: &ThreadSelection) -> Self {
        Self {
            selection: selection.clone(),
            ..Self::default()
        }
    }

    /// Takes the next event.
    pub fn take(&mut self, event: &TracedEvent<'_>) {
        let TracedEvent { at_ns, cpu, kind } = *event;
        self.interruptions.take(event);
        if !matches!(kind, TracedEventKind::Lost | TracedEventKind::LostSometime) {
            self.first_ns.get_or_insert(at_ns);
            self.last_ns = self.last_ns.max(at_ns);
        }
        match kind {
            TracedEventKind::WakeUp(thread) => {
                if let Some(state) = self.chosen(thread) {
                    self.states.insert(thread.pid, woken(at_ns, state));
                }
            }
            TracedEventKind::Switch { from, runnable, to } => {
                if let Some(state) = self.chosen(from) {
                    let state = self.begun_unseen(state, cpu);
                    let next = self.stopped((at_ns, cpu), from.pid, state, runnable);
                    self.states.insert(from.pid, next);
                }
                if let Some(state) = self.chosen(to) {
                    let taken_ns = self.taken_ns(cpu);
                    self.states.insert(to.pid, started(at_ns, taken_ns, state));
                }
                let Some(cpu) = cpu else {
                    return;
                };
                match to.pid {
                    0 => self.idle_since_ns.insert(cpu, at_ns),
                    _ => self.idle_since_ns.remove(&cpu),
                };
            }
            TracedEventKind::Lost => {
                self.lost += 1;
                self.cut_off += self.in_progress();
                self.states.clear();
                self.idle_since_ns.clear();
            }
            TracedEventKind::LostSometime => self.lost_sometime = true,
            TracedEventKind::Begin(_) | TracedEventKind::End(_) | TracedEventKind::Stall { .. } => {
            }
        }
    }

    /// The time of the last event, in nanoseconds.
    pub(super) fn last_ns(&self) -> u64 {
        self.last_ns
    }

    /// Whether a whole job of a chosen thread has been read.
    pub fn has_jobs(&self) -> bool {
        !self.jobs.is_empty()
    }

    /// Whether a chosen thread has been seen.
    pub(super) fn has_chosen_threads(&self) -> bool {
        !self.threads.is_empty()
    }

    /// The names of the threads that were seen, but for the idle ones.
    pub(super) fn seen(&self) -> impl Iterator<Item = (u32, &str)> {
        let seen = self.seen.iter().filter(|(pid, _)| **pid != 0);
        seen.map(|(pid, comm)| (*pid, comm.as_str()))
    }

    fn taken_ns(&self, cpu: Option<u32>) -> u64 {
        cpu.map_or(0, |cpu| self.interruptions.taken_ns(cpu))
    }

    /// The state of a thread that stops on a CPU, if by all that was recorded the CPU idles. Some
    /// kernels do not record the switch away from their idle thread, so the thread began when it was
    /// woken: nothing stood before it.
    fn begun_unseen(&mut self, state: RecordedState, cpu: Option<u32>) -> RecordedState {
        let idle_since_ns = cpu.and_then(|cpu| self.idle_since_ns.get(&cpu).copied());
        match (state, idle_since_ns) {
            (RecordedState::Ready { job, since_ns }, Some(idle_since_ns)) => {
                self.inferred += 1;
                let since_ns = since_ns.max(idle_since_ns);
                started(
                    since_ns,
                    self.taken_ns(cpu),
                    RecordedState::Ready { job, since_ns },
                )
            }
            _ => state,
        }
    }

    /// The state of a thread, if it is one of those wanted.
    fn chosen(&mut self, thread: TracedThread<'_>) -> Option<RecordedState> {
        let name = || thread.comm.to_owned();
        self.seen.entry(thread.pid).or_insert_with(name);
        if !self.selection.takes(thread) {
            return None;
        }
        self.threads.entry(thread.pid).or_insert_with(name);
        let state = self.states.get(&thread.pid);
        Some(state.copied().unwrap_or(RecordedState::Unknown))
    }

    /// A thread stops to run.
    fn stopped(
        &mut self,
        (at_ns, cpu): (u64, Option<u32>),
        pid: u32,
        state: RecordedState,
        runnable: bool,
    ) -> RecordedState {
        let RecordedState::Running {
            mut job,
            since_ns,
            taken_ns,
        } = state
        else {
            // It ran without a wake-up or a switch that was recorded.
            self.cut_off += 1;
            return match runnable {
                true => RecordedState::Unknown,
                false => RecordedState::Sleeping,
            };
        };
        let taken_ns = self.taken_ns(cpu).saturating_sub(taken_ns);
        let ran_ns = at_ns.saturating_sub(since_ns).saturating_sub(taken_ns);
        job.used_ns = job.used_ns.saturating_add(ran_ns);
        if runnable {
            return RecordedState::Ready {
                job,
                since_ns: at_ns,
            };
        }
        self.jobs.push(RecordedJob {
            release_ns: job.release_ns,
            used_ns: job.used_ns,
            completion_ns: at_ns,
            start_ns: job.start_ns.unwrap_or(job.release_ns),
            pid,
            cpu,
        });
        RecordedState::Sleeping
    }

    fn in_progress(&self) -> u64 {
        let states = self.states.values();
        states
            .filter(|state| {
                matches!(
                    state,
                    RecordedState::Ready { .. } | RecordedState::Running { .. }
                )
            })
            .count() as u64
    }

    /// All that was read; `file` names the recording in notes.
    pub fn finish(mut self, file: &str) -> RecordedTrace {
        let notes = self.notes(&SourceText { file, text: "" });
        self.jobs.sort_unstable();
        let first_ns = self.first_ns.unwrap_or(0);
        RecordedTrace {
            jobs: self.jobs,
            threads: self.threads,
            interference: self.interruptions.finish(first_ns),
            first_ns,
            length: Duration::from_nanos(self.last_ns.saturating_sub(first_ns)),
            notes,
        }
    }

    fn notes(&self, source: &SourceText<'_>) -> Vec<Problem> {
        let cut_off = self.cut_off + self.in_progress();
        let mut notes = Vec::new();
        let mut note = |message: String, remedy: &str| {
            notes.push(source.problem(Severity::Note, 0..0, "", message, remedy));
        };
        if self.lost > 0 {
            note(
                format!("the recorder lost events {} times", self.lost),
                "record with larger buffers; jobs across a loss are left out",
            );
        }
        if self.lost_sometime {
            note(
                "the recorder counted events that it lost, and does not say when".into(),
                "record with larger buffers; where no other line tells of these losses, jobs may be missing \
                 or too long",
            );
        }
        if cut_off > 0 {
            note(
                format!("{cut_off} jobs that were not seen from wake-up to sleep are left out"),
                "nothing need be done if they are few; else record more events or, where the recorder does \
                 not see the idle threads, with ftrace in place of perf",
            );
        }
        if self.inferred > 0 {
            note(
                format!(
                    "{} times a CPU left its idle thread for a chosen one without an event of it",
                    self.inferred
                ),
                "nothing need be done: the thread is taken to have run from its wake-up on, some \
                 microseconds too early",
            );
        }
        notes
    }
}

/// `RecordedTrace` is all that a recording says of chosen threads, and of the interference on every CPU.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedTrace {
    /// The jobs of the chosen threads, in the order of their releases.
    pub jobs: Vec<RecordedJob>,
    /// The chosen threads, with their names.
    pub threads: BTreeMap<u32, String>,
    /// The sources of interference, by CPU.
    pub interference: Vec<RecordedInterference>,
    /// The time of the first event, in nanoseconds.
    pub first_ns: u64,
    /// From the first to the last event.
    pub length: Duration,
    /// What was left out, and why.
    pub notes: Vec<Problem>,
}

/// The state of a thread that is woken.
fn woken(at_ns: u64, state: RecordedState) -> RecordedState {
    match state {
        RecordedState::Unknown | RecordedState::Sleeping => RecordedState::Ready {
            job: JobInProgress {
                release_ns: at_ns,
                used_ns: 0,
                start_ns: None,
            },
            since_ns: at_ns,
        },
        // Woken again before it slept: the same job goes on.
        other => other,
    }
}

/// The state of a thread that a CPU goes to.
fn started(at_ns: u64, taken_ns: u64, state: RecordedState) -> RecordedState {
    match state {
        RecordedState::Ready { mut job, .. } => {
            job.start_ns.get_or_insert(at_ns);
            RecordedState::Running {
                job,
                since_ns: at_ns,
                taken_ns,
            }
        }
        // Its wake-up, or its stop, is missing.
        _ => RecordedState::Unknown,
    }
}
