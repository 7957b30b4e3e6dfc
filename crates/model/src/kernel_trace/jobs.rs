//! From the text of a trace to the jobs of chosen threads.

use std::collections::BTreeMap;

use tailbound_time::Duration;

use super::events::{TracedEventKind, event};
use super::reader::{RecordedTrace, ThreadSelection, TraceReader};
use crate::inputs::TracedJob;
use crate::problem::{Problem, Problems, Severity, SourceText};

/// Problems told of one file; the rest would say the same.
const MOST_PROBLEMS: usize = 20;

/// Threads told where none was chosen.
const MOST_THREADS_TOLD: usize = 8;

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

/// The jobs of the chosen threads in the text of a trace; `file` names it in problems.
///
/// # Errors
/// Every malformed event, up to twenty of them; events out of order; no job of the chosen threads.
pub fn recorded_jobs(
    text: &str,
    file: &str,
    selection: &ThreadSelection,
) -> Result<Recorded, Problems> {
    let reader = read_events(text, file, selection)?;
    if !reader.has_jobs() {
        let source = SourceText { file, text };
        return Err(Problems::new(vec![nothing(&reader, &source)]));
    }
    Ok(Recorded::of(reader.finish(file)))
}

/// All that the text of a trace says of the chosen threads and of interference; `file` names it in problems.
///
/// # Errors
/// Every malformed event, up to twenty of them; events out of order; neither a job nor interference.
pub fn recorded_trace(
    text: &str,
    file: &str,
    selection: &ThreadSelection,
) -> Result<RecordedTrace, Problems> {
    let reader = read_events(text, file, selection)?;
    let source = SourceText { file, text };
    let lacks_jobs = !reader.has_jobs() && !selection.is_empty();
    let problem = nothing(&reader, &source);
    let trace = reader.finish(file);
    match lacks_jobs || trace.jobs.is_empty() && trace.interference.is_empty() {
        true => Err(Problems::new(vec![problem])),
        false => Ok(trace),
    }
}

/// Reads every line.
fn read_events(
    text: &str,
    file: &str,
    selection: &ThreadSelection,
) -> Result<TraceReader, Problems> {
    let source = SourceText { file, text };
    let mut problems = Vec::new();
    let mut reader = TraceReader::of(selection);
    let mut begin = 0;
    for line in text.split_inclusive('\n') {
        let span = begin..begin + line.trim_end().len();
        begin += line.len();
        let fault = match event(line) {
            None => continue,
            Some(Ok(line)) => {
                let has_time = !matches!(
                    line.kind,
                    TracedEventKind::Lost | TracedEventKind::LostSometime
                );
                match has_time && line.at_ns < reader.last_ns() {
                    true => Some((
                        "this event is earlier than the one before it".to_string(),
                        "record with one clock for all CPUs (trace_clock mono), and do not sort the lines",
                    )),
                    false => {
                        reader.take(&line);
                        None
                    }
                }
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
    match problems.is_empty() {
        true => Ok(reader),
        false => Err(Problems::new(problems)),
    }
}

fn nothing(reader: &TraceReader, source: &SourceText<'_>) -> Problem {
    let mut names: Vec<String> = reader
        .seen()
        .map(|(pid, comm)| format!("{comm} ({pid})"))
        .take(MOST_THREADS_TOLD + 1)
        .collect();
    if names.len() > MOST_THREADS_TOLD {
        names[MOST_THREADS_TOLD] = "...".into();
    }
    let (message, remedy) = match (!reader.has_chosen_threads(), names.is_empty()) {
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

impl Recorded {
    fn of(trace: RecordedTrace) -> Self {
        let jobs = trace.jobs.iter();
        let response = |release_ns: u64, end_ns: u64| Duration::from_nanos(end_ns - release_ns);
        Self {
            response_times: jobs
                .clone()
                .map(|job| response(job.release_ns, job.completion_ns))
                .collect(),
            jobs: jobs
                .map(|job| TracedJob {
                    release: Duration::from_nanos(job.release_ns - trace.first_ns),
                    execution: Some(Duration::from_nanos(job.used_ns)),
                })
                .collect(),
            threads: trace.threads,
            length: trace.length,
            notes: trace.notes,
        }
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
