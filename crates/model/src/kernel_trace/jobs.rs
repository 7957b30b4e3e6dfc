//! From the events of a trace to the jobs of a thread.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use super::events::{SchedulerEvent, TraceLine, TracedThread, event};
use crate::inputs::TracedJob;
use crate::problem::{Problem, Problems, Severity, SourceText};

/// Problems told of one file; the rest would say the same.
const MOST_PROBLEMS: usize = 20;

/// Threads told where none was chosen.
const MOST_THREADS_TOLD: usize = 8;

/// Which threads' jobs are wanted: those with one of the numbers, and those of that name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadSelection {
    /// The kernel's numbers of threads (the `pid` in its events).
    pub pids: Vec<u32>,
    /// The threads' name, as the kernel has it: at most 15 bytes.
    pub comm: Option<String>,
}

impl ThreadSelection {
    fn takes(&self, thread: TracedThread<'_>) -> bool {
        // Number 0 is the idle thread of every CPU.
        let named = self.comm.as_deref() == Some(thread.comm);
        thread.pid != 0 && (named || self.pids.contains(&thread.pid))
    }
}

/// What was recorded of the chosen threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Recorded {
    /// Their jobs in the order of the releases, from the first event of the recording; each has an
    /// execution time.
    pub jobs: Vec<TracedJob>,
    /// The response time of each of them: from the wake-up to when the thread slept again.
    pub response_times: Vec<Duration>,
    /// The threads, with their names.
    pub threads: BTreeMap<u32, String>,
    /// From the first to the last event.
    pub length: Duration,
    /// What was left out, and why.
    pub notes: Vec<Problem>,
}

/// What is known of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RecordedState {
    /// It runs or waits in the middle of a job whose start was not seen.
    Unknown,
    Sleeping,
    Ready {
        release_ns: u64,
        used_ns: u64,
        since_ns: u64,
    },
    Running {
        release_ns: u64,
        used_ns: u64,
        since_ns: u64,
    },
}

/// One whole job.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RecordedJob {
    release_ns: u64,
    used_ns: u64,
    completion_ns: u64,
}

#[derive(Default)]
struct TraceReader<'a> {
    states: BTreeMap<u32, RecordedState>,
    /// Since when each CPU idles, of those that do by the last switch on them.
    idle_since_ns: BTreeMap<u32, u64>,
    threads: BTreeMap<u32, &'a str>,
    seen: BTreeMap<u32, &'a str>,
    jobs: Vec<RecordedJob>,
    cut_off: u64,
    lost: u64,
    lost_sometime: bool,
    inferred: u64,
}

impl<'a> TraceReader<'a> {
    fn take(&mut self, line: TraceLine<'a>, selection: &ThreadSelection) {
        let TraceLine { at_ns, cpu, event } = line;
        match event {
            SchedulerEvent::WakeUp(thread) => {
                if let Some(state) = self.chosen(thread, selection) {
                    let next = match state {
                        RecordedState::Unknown | RecordedState::Sleeping => RecordedState::Ready {
                            release_ns: at_ns,
                            used_ns: 0,
                            since_ns: at_ns,
                        },
                        // Woken again before it slept: the same job goes on.
                        other => other,
                    };
                    self.states.insert(thread.pid, next);
                }
            }
            SchedulerEvent::Switch { from, runnable, to } => {
                if let Some(state) = self.chosen(from, selection) {
                    let state = self.begun_unseen(state, cpu);
                    let next = self.stopped(at_ns, state, runnable);
                    self.states.insert(from.pid, next);
                }
                if let Some(state) = self.chosen(to, selection) {
                    self.states.insert(to.pid, started(at_ns, state));
                }
                let Some(cpu) = cpu else {
                    return;
                };
                match to.pid {
                    0 => self.idle_since_ns.insert(cpu, at_ns),
                    _ => self.idle_since_ns.remove(&cpu),
                };
            }
            SchedulerEvent::Lost => {
                self.lost += 1;
                self.cut_off += self.in_progress();
                self.states.clear();
                self.idle_since_ns.clear();
            }
            SchedulerEvent::LostSometime => self.lost_sometime = true,
        }
    }

    /// The state of a thread that stops on a CPU, if by all that was recorded the CPU idles. Some
    /// kernels do not record the switch away from their idle thread, so the thread began when it was
    /// woken: nothing stood before it.
    fn begun_unseen(&mut self, state: RecordedState, cpu: Option<u32>) -> RecordedState {
        let idle_since_ns = cpu.and_then(|cpu| self.idle_since_ns.get(&cpu).copied());
        match (state, idle_since_ns) {
            (
                RecordedState::Ready {
                    release_ns,
                    used_ns,
                    since_ns,
                },
                Some(idle_since_ns),
            ) => {
                self.inferred += 1;
                RecordedState::Running {
                    release_ns,
                    used_ns,
                    since_ns: since_ns.max(idle_since_ns),
                }
            }
            _ => state,
        }
    }

    /// The state of a thread, if it is one of those wanted.
    fn chosen(
        &mut self,
        thread: TracedThread<'a>,
        selection: &ThreadSelection,
    ) -> Option<RecordedState> {
        self.seen.entry(thread.pid).or_insert(thread.comm);
        if !selection.takes(thread) {
            return None;
        }
        self.threads.entry(thread.pid).or_insert(thread.comm);
        let state = self.states.get(&thread.pid);
        Some(state.copied().unwrap_or(RecordedState::Unknown))
    }

    /// A thread stops to run.
    fn stopped(&mut self, at_ns: u64, state: RecordedState, runnable: bool) -> RecordedState {
        match (state, runnable) {
            (
                RecordedState::Running {
                    release_ns,
                    used_ns,
                    since_ns,
                },
                _,
            ) => {
                let used_ns = used_ns.saturating_add(at_ns.saturating_sub(since_ns));
                if runnable {
                    return RecordedState::Ready {
                        release_ns,
                        used_ns,
                        since_ns: at_ns,
                    };
                }
                self.jobs.push(RecordedJob {
                    release_ns,
                    used_ns,
                    completion_ns: at_ns,
                });
                RecordedState::Sleeping
            }
            // It ran without a wake-up or a switch that was recorded.
            (_, runnable) => {
                self.cut_off += 1;
                match runnable {
                    true => RecordedState::Unknown,
                    false => RecordedState::Sleeping,
                }
            }
        }
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
}

/// The state of a thread that a CPU goes to.
fn started(at_ns: u64, state: RecordedState) -> RecordedState {
    match state {
        RecordedState::Ready {
            release_ns,
            used_ns,
            ..
        } => RecordedState::Running {
            release_ns,
            used_ns,
            since_ns: at_ns,
        },
        // Its wake-up, or its stop, is missing.
        _ => RecordedState::Unknown,
    }
}

/// The jobs of the chosen threads in the text of a trace; `file` names it in problems.
///
/// # Errors
/// Every malformed event, up to twenty of them; events out of order; no job of the chosen threads.
pub fn recorded_jobs(
    text: &str,
    file: &str,
    selection: &ThreadSelection,
) -> Result<Recorded, Problems> {
    let source = SourceText { file, text };
    let mut problems = Vec::new();
    let mut reader = TraceReader::default();
    let (mut first_ns, mut last_ns) = (None, 0);
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let span = begin..begin + line.trim_end().len();
        begin += line.len();
        let fault = match event(line) {
            None => continue,
            Some(Ok(line))
                if matches!(
                    line.event,
                    SchedulerEvent::Lost | SchedulerEvent::LostSometime
                ) =>
            {
                reader.take(line, selection);
                continue;
            }
            Some(Ok(line)) if line.at_ns < last_ns => Some((
                "this event is earlier than the one before it".to_string(),
                "record with one clock for all CPUs (trace_clock mono), and do not sort the lines",
            )),
            Some(Ok(line)) => {
                first_ns.get_or_insert(line.at_ns);
                last_ns = line.at_ns;
                reader.take(line, selection);
                None
            }
            Some(Err(message)) => Some((
                message,
                "take the text of ftrace, `trace-cmd report` or `perf script` as it is",
            )),
        };
        if let Some((message, remedy)) = fault {
            problems.push(source.problem(Severity::Error, span, "", message, remedy));
            if problems.len() == MOST_PROBLEMS {
                break;
            }
        }
    }
    if problems.is_empty() && reader.jobs.is_empty() {
        problems.push(nothing(&reader, &source));
    }
    if !problems.is_empty() {
        return Err(Problems::new(problems));
    }
    Ok(finished(reader, &source, first_ns.unwrap_or(0), last_ns))
}

fn nothing(reader: &TraceReader<'_>, source: &SourceText<'_>) -> Problem {
    let threads = reader.seen.iter().filter(|(pid, _)| **pid != 0);
    let mut names: Vec<String> = threads
        .map(|(pid, comm)| format!("{comm} ({pid})"))
        .take(MOST_THREADS_TOLD + 1)
        .collect();
    if names.len() > MOST_THREADS_TOLD {
        names[MOST_THREADS_TOLD] = "...".into();
    }
    let (message, remedy) = match (reader.threads.is_empty(), names.is_empty()) {
        (_, true) => (
            "there is no event of the scheduler in the file",
            "record sched_switch and sched_wakeup".to_string(),
        ),
        (true, false) => (
            "the file has no event of the chosen threads",
            format!("choose one of: {}", names.join(", ")),
        ),
        (false, false) => (
            "no job of the chosen threads is whole: from a wake-up to the next sleep",
            "record for longer, and sched_wakeup beside sched_switch".to_string(),
        ),
    };
    source.problem(Severity::Error, 0..0, "", message, remedy)
}

fn finished(
    reader: TraceReader<'_>,
    source: &SourceText<'_>,
    first_ns: u64,
    last_ns: u64,
) -> Recorded {
    let cut_off = reader.cut_off + reader.in_progress();
    let mut notes = Vec::new();
    let mut note = |message: String, remedy: &str| {
        notes.push(source.problem(Severity::Note, 0..0, "", message, remedy));
    };
    if reader.lost > 0 {
        note(
            format!("the recorder lost events {} times", reader.lost),
            "record with larger buffers; jobs across a loss are left out",
        );
    }
    if reader.lost_sometime {
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
    if reader.inferred > 0 {
        note(
            format!(
                "{} times a CPU left its idle thread for a chosen one without an event of it",
                reader.inferred
            ),
            "nothing need be done: the thread is taken to have run from its wake-up on, some \
             microseconds too early",
        );
    }
    let mut jobs = reader.jobs;
    jobs.sort_unstable();
    let job = |job: &RecordedJob| TracedJob {
        release: Duration::from_nanos(job.release_ns - first_ns),
        execution: Some(Duration::from_nanos(job.used_ns)),
    };
    let response_time =
        |job: &RecordedJob| Duration::from_nanos(job.completion_ns - job.release_ns);
    let threads = reader.threads.into_iter();
    Recorded {
        jobs: jobs.iter().map(job).collect(),
        response_times: jobs.iter().map(response_time).collect(),
        threads: threads.map(|(pid, comm)| (pid, comm.to_owned())).collect(),
        length: Duration::from_nanos(last_ns - first_ns),
        notes,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    /// Times in microseconds; `>` wakes, `+` starts, `-` sleeps, `!` is preempted.
    fn trace(steps: &[(u64, char, u32)]) -> String {
        let mut text = String::from("# tracer: nop\n#\n");
        for (at_us, what, pid) in steps {
            let head = format!("x-1 [000] d..2 0.{at_us:06}: ");
            let (idle, own) = ("idle:0 [120]", format!("thread-{pid}:{pid} [120]"));
            text += &match what {
                '>' => format!("{head}sched_wakeup: {own} CPU:000\n"),
                '+' => format!("{head}sched_switch: {idle} R ==> {own}\n"),
                '-' => format!("{head}sched_switch: {own} S ==> {idle}\n"),
                '!' => format!("{head}sched_switch: {own} R+ ==> {idle}\n"),
                _ => "CPU:0 [LOST 9 EVENTS]\n".to_string(),
            };
        }
        text
    }

    fn jobs(steps: &[(u64, char, u32)], pids: &[u32]) -> (Vec<(u64, u64)>, usize) {
        let selection = ThreadSelection {
            pids: pids.to_vec(),
            comm: None,
        };
        let recording = recorded_jobs(&trace(steps), "t", &selection).unwrap();
        let pair = |job: &TracedJob| {
            let execution = job.execution.unwrap();
            (job.release.as_nanos() / 1_000, execution.as_nanos() / 1_000)
        };
        (
            recording.jobs.iter().map(pair).collect(),
            recording.notes.len(),
        )
    }

    #[test]
    fn a_job_is_from_wake_up_to_sleep_without_what_others_took() {
        let steps = [
            (100, '>', 7),
            (105, '+', 7),
            (115, '!', 7),
            (120, '>', 7),
            (130, '+', 7),
            (132, '-', 7),
            (200, '>', 7),
            (200, '+', 7),
            (207, '-', 7),
        ];
        assert_eq!(jobs(&steps, &[7]), (vec![(0, 12), (100, 7)], 0));
    }

    #[test]
    fn jobs_that_the_recording_cuts_are_left_out_and_told() {
        let cut_at_both_ends = [
            (100, '-', 7),
            (150, '>', 7),
            (151, '+', 7),
            (155, '-', 7),
            (160, '>', 7),
            (161, '+', 7),
        ];
        assert_eq!(jobs(&cut_at_both_ends, &[7]), (vec![(50, 4)], 1));
        let lost = [
            (100, '>', 7),
            (101, '+', 7),
            (102, '?', 7),
            (110, '-', 7),
            (120, '>', 7),
            (121, '+', 7),
            (122, '-', 7),
        ];
        assert_eq!(jobs(&lost, &[7]), (vec![(20, 1)], 2));
    }

    #[test]
    fn a_switch_away_from_the_idle_thread_may_be_missing() {
        let text = |lines: &[&str]| {
            let line = |line: &&str| format!("x-1 [001] d..2 {line}\n");
            lines.iter().map(line).collect::<String>()
        };
        let selection = ThreadSelection {
            pids: vec![7],
            comm: None,
        };
        let recorded = text(&[
            "0.000100: sched_switch: a:9 [120] S ==> swapper/1:0 [120]",
            "0.000200: sched_wakeup: b:7 [120] CPU:001",
            "0.000230: sched_switch: b:7 [120] R ==> c:8 [90]",
            "0.000240: sched_switch: c:8 [90] S ==> b:7 [120]",
            "0.000250: sched_switch: b:7 [120] S ==> swapper/1:0 [120]",
        ]);
        let recording = recorded_jobs(&recorded, "t", &selection).unwrap();
        assert_eq!(recording.jobs[0].execution, Some(Duration::from_micros(40)));
        assert_eq!(recording.response_times, [Duration::from_micros(50)]);
        assert!(recording.notes[0].message.contains("1 times"));
        // Where another thread had the CPU, something else is missing, and nothing is known.
        let other = recorded.replace("swapper/1:0", "d:4");
        assert!(recorded_jobs(&other, "t", &selection).is_err());
    }

    #[test]
    fn several_threads_make_one_task() {
        let steps = [
            (100, '>', 7),
            (101, '+', 7),
            (103, '>', 8),
            (104, '-', 7),
            (104, '+', 8),
            (109, '-', 8),
        ];
        assert_eq!(jobs(&steps, &[7, 8]), (vec![(0, 3), (3, 5)], 0));
        let named = ThreadSelection {
            pids: Vec::new(),
            comm: Some("thread-8".into()),
        };
        let recording = recorded_jobs(&trace(&steps), "t", &named).unwrap();
        assert_eq!(recording.jobs.len(), 1);
        assert_eq!(recording.length, Duration::from_micros(9));
    }

    #[test]
    fn a_file_without_jobs_says_what_is_there() {
        let one = |pids: &[u32], text: &str| {
            let selection = ThreadSelection {
                pids: pids.to_vec(),
                comm: None,
            };
            recorded_jobs(text, "t", &selection)
                .unwrap_err()
                .to_string()
        };
        let text = trace(&[(100, '>', 7), (101, '+', 7)]);
        assert!(one(&[9], &text).contains("choose one of: thread-7 (7)"));
        assert!(one(&[7], &text).contains("is whole"));
        assert!(one(&[7], "# nothing\n").contains("no event of the scheduler"));
        let back = trace(&[(100, '>', 7), (90, '+', 7)]);
        assert!(one(&[7], &back).contains("t:4:1: error: this event is earlier"));
    }
}
