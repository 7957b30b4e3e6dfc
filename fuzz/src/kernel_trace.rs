//! Texts of ftrace, trace-cmd and perf.

use tailbound_model::kernel_trace::{ThreadSelection, jobs_csv, recorded_jobs};
use tailbound_model::{Problems, parse_jobs};

/// The jobs of a recording can be written and read again, and no response time is below its execution
/// time.
pub fn check(bytes: &[u8]) {
    let Some(text) = crate::text(bytes) else {
        return;
    };
    // Names and numbers in the corpus.
    for selection in [
        ThreadSelection {
            pids: (1..32).collect(),
            comm: Some("web".into()),
        },
        ThreadSelection {
            pids: vec![100, 101, 1234],
            comm: None,
        },
    ] {
        match recorded_jobs(text, "trace.txt", &selection) {
            Ok(recorded) => {
                crate::problems_have_places(text, &Problems::new(recorded.notes.clone()));
                assert_eq!(recorded.jobs.len(), recorded.response_times.len());
                for (job, response_time) in recorded.jobs.iter().zip(&recorded.response_times) {
                    assert!(job.execution.is_some_and(|time| time <= *response_time));
                }
                assert!(recorded.jobs.is_sorted_by_key(|job| job.release));
                if !recorded.jobs.is_empty() {
                    let again = parse_jobs(&jobs_csv(&recorded), "jobs.csv").unwrap();
                    assert_eq!(again, recorded.jobs);
                }
            }
            Err(problems) => crate::problems_have_places(text, &problems),
        }
    }
}
