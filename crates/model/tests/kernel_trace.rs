//! The same schedule in the texts of three recorders yields the same jobs.

use tailbound_model::kernel_trace::{ThreadSelection, description, jobs_csv, recorded_jobs};
use tailbound_model::{check, to_toml};

const TEXTS: [&str; 3] = [
    include_str!("kernel_trace/ftrace.txt"),
    include_str!("kernel_trace/trace-cmd.txt"),
    include_str!("kernel_trace/perf-script.txt"),
];

#[test]
fn three_texts_say_the_same() {
    let by_pid = ThreadSelection {
        pids: vec![7],
        comm: None,
    };
    let by_name = ThreadSelection {
        pids: Vec::new(),
        comm: Some("web".into()),
    };
    for text in TEXTS {
        for selection in [&by_pid, &by_name] {
            let recorded = recorded_jobs(text, "t", selection).unwrap();
            // 28 us and, after it was preempted for 15 us, 6 us more; then 31 us in one piece.
            assert_eq!(
                jobs_csv(&recorded),
                "release_ns,execution_ns,response_ns\n0,34000,51000\n2000000,31000,34000\n"
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

/// Events are lost in the middle of a job, which the next switch would end half a second later.
const LOST: [&str; 2] = [
    include_str!("kernel_trace/trace-cmd-lost.txt"),
    include_str!("kernel_trace/perf-script-lost.txt"),
];

#[test]
fn no_job_reaches_across_a_loss() {
    for text in LOST {
        let recorded = of_thread(text, "web");
        assert_eq!(
            jobs_csv(&recorded),
            "release_ns,execution_ns,response_ns\n600000000,31000,34000\n"
        );
        let notes: Vec<&str> = recorded
            .notes
            .iter()
            .map(|note| note.message.as_str())
            .collect();
        assert_eq!(notes[0], "the recorder lost events 2 times");
        assert!(notes[1].starts_with("2 jobs"), "{notes:?}");
    }
    let counted = format!(
        "a 7 [000] 0.000000: PERF_RECORD_LOST_SAMPLES lost 9\n{}",
        TEXTS[2]
    );
    let recorded = of_thread(&counted, "web");
    assert_eq!(recorded.jobs.len(), 2);
    assert!(recorded.notes[0].message.contains("does not say when"));
}

/// Three FIFO threads on CPU 1 of a virtual machine with Linux 6.18, for 300 ms: every 10 ms 2 ms, every
/// 20 ms 5 ms, and every 50 ms 12 ms. The names of all other threads are replaced.
const RECORDED: [&str; 3] = [
    include_str!("kernel_trace/recorded/ftrace.txt"),
    include_str!("kernel_trace/recorded/trace-cmd.txt"),
    include_str!("kernel_trace/recorded/trace-cmd-raw.txt"),
];

/// The same threads in another recording. There, perf saw nothing of the idle thread of CPU 1.
const BY_PERF: &str = include_str!("kernel_trace/recorded/perf-script.txt");

fn of_thread(text: &str, name: &str) -> tailbound_model::kernel_trace::Recorded {
    let selection = ThreadSelection {
        pids: Vec::new(),
        comm: Some(name.into()),
    };
    recorded_jobs(text, "t", &selection).unwrap()
}

#[test]
fn real_recordings_have_every_job() {
    for (name, jobs, cost_us) in [
        ("tb high:1", 30, 2_000),
        ("tb-mid", 15, 5_000),
        ("tb-low:x", 6, 12_000),
    ] {
        let recordings = RECORDED.map(|text| of_thread(text, name));
        for recorded in &recordings {
            assert_eq!(recorded.jobs.len(), jobs, "{name}");
            let mut executions_us: Vec<u64> = recorded
                .jobs
                .iter()
                .map(|job| job.execution.unwrap().as_nanos() / 1_000)
                .collect();
            executions_us.sort_unstable();
            let median_us = executions_us[jobs / 2];
            assert!(
                (cost_us..cost_us + cost_us / 10).contains(&median_us),
                "{name}: {median_us}"
            );
            let jobs = recorded.jobs.iter().zip(&recorded.response_times);
            assert!(
                jobs.clone()
                    .all(|(job, response)| job.execution.unwrap() <= *response)
            );
        }
        assert_eq!(recordings[1], recordings[2]);
        // ftrace's text cuts times to microseconds.
        for (cut, exact) in recordings[0].jobs.iter().zip(&recordings[1].jobs) {
            let apart = cut.release.as_nanos().abs_diff(exact.release.as_nanos());
            assert!(apart <= 1_000, "{cut:?} {exact:?}");
        }
    }
}

#[test]
fn jobs_that_a_recorder_did_not_see_are_told() {
    for (name, whole, others) in [("tb high:1", 13, 17), ("tb-mid", 15, 0)] {
        let recorded = of_thread(BY_PERF, name);
        assert_eq!(recorded.jobs.len(), whole, "{name}");
        let counts: Vec<&str> = recorded
            .notes
            .iter()
            .map(|note| note.message.split(' ').next().unwrap())
            .collect();
        let expected: Vec<String> = (0..others.min(1)).map(|_| others.to_string()).collect();
        assert_eq!(counts, expected, "{name}");
    }
}
