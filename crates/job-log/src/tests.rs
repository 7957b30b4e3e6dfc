//! Logs are read as they are written, and chains measure what happened.
#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_time::{Duration, Instant};

use crate::{ChainLogError, JobLog, LoggedJob, MessageId, measure_chain};

fn message(sequence: u64) -> MessageId {
    MessageId {
        source: 0xfeed,
        sequence,
    }
}

/// A task whose jobs have these begins and ends; each reads the message in the third place, and publishes one with its own
/// number.
fn log(reads: &[&str], publishes: &[&str], jobs: &[(u64, u64, Option<u64>)]) -> JobLog {
    let names = |topics: &[&str]| topics.iter().map(|topic| (*topic).to_owned()).collect();
    let jobs = jobs
        .iter()
        .zip(0..)
        .map(|((start, end, read), number)| LoggedJob {
            release: Instant::from_nanos(*start),
            start: Instant::from_nanos(*start),
            end: Instant::from_nanos(*end),
            read: reads.iter().map(|_| read.map(message)).collect(),
            published: publishes.iter().map(|_| Some(message(number))).collect(),
        });
    JobLog {
        reads: names(reads),
        publishes: names(publishes),
        jobs: jobs.collect(),
    }
}

fn nanoseconds(times: &[Duration]) -> Vec<u64> {
    times.iter().map(|time| time.as_nanos()).collect()
}

/// A sensor every 10 ns that works for 2, and an actor every 15 ns that works for 3:
///
/// ```text
/// sensor  0-2    10-12     20-22      30-32      40-42
/// actor      5-8(0)     20-23(1)        35-38(3)     50-53(4)
/// ```
#[test]
fn a_chain_by_hand() {
    let sensor = [0, 10, 20, 30, 40].map(|start| (start, start + 2, None));
    let sensor = log(&[], &["speed"], &sensor);
    let actor = [
        (5, 8, Some(0)),
        (20, 23, Some(1)),
        (35, 38, Some(3)),
        (50, 53, Some(4)),
    ];
    let actor = log(&["speed"], &[], &actor);
    let tasks = [("wheel/sense", &sensor), ("brake/act", &actor)];
    let chain = measure_chain("braking", &tasks, &["speed"]).unwrap();
    // Begins 0, 10, 30; replaced at 23, 38, 53. (Job 2 of the sensor is never read.)
    assert_eq!(nanoseconds(chain.data_age.samples()), [23, 23, 28]);
    assert_eq!(
        nanoseconds(chain.data_age_at_output.samples()),
        [8, 8, 13, 13]
    );
    // Causes just after 0, 10, 20 and 30 show at 23, 38, 38 and 53.
    assert_eq!(nanoseconds(chain.reaction_time.samples()), [18, 23, 23, 28]);
    let names: Vec<&str> = chain.hops.iter().map(|hop| hop.name.as_str()).collect();
    assert_eq!(names, ["wheel/sense", "speed", "brake/act"]);
    assert_eq!(nanoseconds(chain.hops[1].time.samples()), [3, 3, 8, 8]);
    assert_eq!((chain.traced, chain.untraced), (4, 0));
}

#[test]
fn outputs_without_a_begin_in_the_logs_are_counted() {
    let sensor = log(&[], &["speed"], &[(0, 2, None)]);
    let actor = log(
        &["speed"],
        &[],
        &[(1, 2, None), (5, 8, Some(0)), (9, 10, Some(7))],
    );
    let tasks = [("s/s", &sensor), ("a/a", &actor)];
    let chain = measure_chain("c", &tasks, &["speed"]).unwrap();
    assert_eq!((chain.traced, chain.untraced), (1, 2));
    assert_eq!(nanoseconds(chain.data_age.samples()), [10]);
    assert_eq!(chain.reaction_time.samples(), []);
    let topic = measure_chain("c", &tasks, &["place"]).unwrap_err();
    assert!(
        topic
            .to_string()
            .contains("`s/s` has no messages of topic `place`")
    );
    let form = measure_chain("c", &tasks, &[]).unwrap_err();
    assert_eq!(
        form,
        ChainLogError::Form {
            tasks: 2,
            topics: 0
        }
    );
}

/// Data of the jobs before the first output's own may be in effect already, by an output before the logs.
#[test]
fn reactions_begin_with_the_data_of_the_first_output() {
    let sensor = log(
        &[],
        &["speed"],
        &[(0, 2, None), (10, 12, None), (20, 22, None)],
    );
    let actor = log(&["speed"], &[], &[(13, 15, Some(1)), (25, 28, Some(2))]);
    let tasks = [("s/s", &sensor), ("a/a", &actor)];
    let chain = measure_chain("c", &tasks, &["speed"]).unwrap();
    // A cause just after 10 shows at 28; nobody knows of one just after 0.
    assert_eq!(nanoseconds(chain.reaction_time.samples()), [18]);
}

/// Messages of another topic have the same numbers.
#[test]
fn a_chain_follows_its_topic_among_several() {
    let sensor = log(&[], &["place", "speed"], &[(0, 2, None), (10, 12, None)]);
    let mut sensor_of_speed = sensor.clone();
    for job in &mut sensor_of_speed.jobs {
        job.published[0] = None;
    }
    let mut actor = log(
        &["place", "speed"],
        &[],
        &[(13, 15, Some(1)), (23, 25, Some(1))],
    );
    for job in &mut actor.jobs {
        job.read[0] = Some(message(0));
    }
    let age = |sensor: &JobLog, topic: &str| {
        let tasks = [("s/s", sensor), ("a/a", &actor)];
        let chain = measure_chain("c", &tasks, &[topic]).unwrap();
        nanoseconds(chain.data_age_at_output.samples())
    };
    assert_eq!(age(&sensor, "speed"), [5, 15]);
    assert_eq!(age(&sensor, "place"), [15, 25]);
    assert_eq!(age(&sensor_of_speed, "speed"), [5, 15]);
    assert!(age(&sensor_of_speed, "place").is_empty());
}

#[test]
fn jobs_may_begin_together_and_take_no_time() {
    let together = log(&[], &["a"], &[(5, 5, None), (5, 7, None)]);
    assert_eq!(JobLog::from_csv(&together.to_csv()), Ok(together));
}

#[test]
fn a_wrong_log_is_refused_with_line_and_column() {
    let refusal = |text: &str| JobLog::from_csv(text).unwrap_err().to_string();
    assert!(refusal("release_ns,start_ns\n").contains("line 1"));
    let head = "release_ns,start_ns,end_ns,read:speed\n";
    let line = refusal(&format!("{head}1,2,3,\n1,x,3,\n"));
    assert!(line.contains("line 3, column start_ns: `x`"), "{line}");
    let line = refusal(&format!("{head}1,2,3,zz\n"));
    assert!(
        line.contains("column read:speed: `zz` is no message"),
        "{line}"
    );
    assert!(refusal(&format!("{head}1,4,3,\n")).contains("ends before it begins"));
    assert!(refusal(&format!("{head}1,4,5,\n1,3,5,\n")).contains("begins before the job"));
    let order = "release_ns,start_ns,end_ns,published:a,read:b\n";
    assert!(refusal(order).contains("read:b"));
}

/// Jobs in the order of their begins.
fn jobs() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
    let job = (1_u64..20, 1_u64..30, prop::option::of(0_u64..12));
    prop::collection::vec(job, 0..12).prop_map(|jobs| {
        let mut at = 0;
        let jobs = jobs.into_iter().map(|(gap, length, read)| {
            at += gap;
            (at, at + length, read)
        });
        jobs.collect()
    })
}

proptest! {
    #[test]
    fn a_log_is_read_as_it_is_written(jobs in jobs()) {
        let log = log(&["a", "b c"], &["d,\"e"], &jobs);
        // Names of topics have no commas; such a log is refused, never misread.
        if let Ok(again) = JobLog::from_csv(&log.to_csv()) {
            prop_assert_eq!(&again.jobs, &log.jobs);
        }
        let plain = JobLog { publishes: vec!["d".to_owned()], ..log };
        prop_assert_eq!(JobLog::from_csv(&plain.to_csv()), Ok(plain));
    }

    #[test]
    fn no_text_breaks_the_reader(text in "(release_ns,start_ns,end_ns(,read:a)?(,published:b)?\n)?[0-9a-f:,\n-]{0,60}") {
        if let Ok(log) = JobLog::from_csv(&text) {
            prop_assert_eq!(JobLog::from_csv(&log.to_csv()), Ok(log));
        }
    }

    /// The parts of every output make up its age, and an age at output is never above the age when replaced.
    #[test]
    fn the_parts_make_up_the_whole(sensor in jobs(), filter in jobs(), actor in jobs()) {
        let logs = [
            log(&[], &["x"], &sensor),
            log(&["x"], &["y"], &filter),
            log(&["y"], &[], &actor),
        ];
        let tasks = [("s/s", &logs[0]), ("f/f", &logs[1]), ("a/a", &logs[2])];
        let chain = measure_chain("c", &tasks, &["x", "y"]).unwrap();
        prop_assert_eq!(chain.traced + chain.untraced, actor.len());
        // Drawn logs read messages before they are published; where none does, times add up.
        let is_causal = |from: &JobLog, to: &JobLog| to.jobs.iter().all(|job| {
            job.read[0].and_then(|id| from.jobs.get(usize::try_from(id.sequence).unwrap())).is_none_or(|from| from.end <= job.start)
        });
        prop_assume!(is_causal(&logs[0], &logs[1]) && is_causal(&logs[1], &logs[2]));
        let total = |times: &[Duration]| times.iter().map(|time| time.as_nanos()).sum::<u64>();
        let parts: u64 = chain.hops.iter().map(|hop| total(hop.time.samples())).sum();
        prop_assert_eq!(parts, total(chain.data_age_at_output.samples()));
    }
}
