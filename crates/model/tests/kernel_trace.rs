//! The same schedule in the texts of three recorders yields the same jobs.
#![allow(clippy::unwrap_used)]

use tailbound_model::kernel_trace::{Selection, description, jobs_csv, recorded_jobs};
use tailbound_model::{check, to_toml};

const TEXTS: [&str; 3] = [
    include_str!("kernel_trace/ftrace.txt"),
    include_str!("kernel_trace/trace-cmd.txt"),
    include_str!("kernel_trace/perf-script.txt"),
];

#[test]
fn three_texts_say_the_same() {
    let by_pid = Selection {
        pids: vec![7],
        comm: None,
    };
    let by_name = Selection {
        pids: Vec::new(),
        comm: Some("web".into()),
    };
    for text in TEXTS {
        for selection in [&by_pid, &by_name] {
            let recorded = recorded_jobs(text, "t", selection).unwrap();
            // 28 us and, after it was preempted for 15 us, 6 us more; then 31 us in one piece.
            assert_eq!(
                jobs_csv(&recorded.jobs),
                "release_ns,execution_ns\n0,34000\n2000000,31000\n"
            );
            assert_eq!(recorded.threads, [(7, "web".to_string())].into());
            assert_eq!(recorded.length.as_nanos(), 2_090_000);
            assert!(recorded.notes.is_empty());
            let made = description(&recorded, "jobs.csv".into());
            let read = check(&to_toml(&made).unwrap(), "web.toml");
            assert!(read.problems.is_empty(), "{}", read.problems);
            assert_eq!(read.description, Some(made));
        }
    }
}
