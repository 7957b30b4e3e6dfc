//! Messages between simulated jobs, by hand.
#![allow(clippy::unwrap_used)]

use super::*;

fn topic(keys: &str) -> TopicDescription {
    let text = format!("publishers = [\"a/a\"]\nsubscribers = [\"b/b\"]\nsize = 8\n{keys}");
    toml::from_str(&text).unwrap()
}

/// A message, sent and arrived at these times.
fn arrival(sequence: u64, sent_ns: u64, at_ns: u64) -> MessageArrival {
    MessageArrival {
        at: instant(at_ns),
        sent: instant(sent_ns),
        message: MessageId {
            source: 1,
            sequence,
        },
    }
}

/// The log of a task whose jobs begin at these times and take 1 ns.
fn log(begins_ns: &[u64]) -> JobLog {
    let times = begins_ns.iter().map(|begin_ns| JobTime {
        release_ns: *begin_ns,
        begin_ns: *begin_ns,
        end_ns: begin_ns + 1,
    });
    JobLog {
        jobs: times.map(|job| logged_job(&job)).collect(),
        ..JobLog::default()
    }
}

/// The numbers of the messages that jobs with these begins read, and how many messages were read.
fn read(begins_ns: &[u64], arrivals: &[MessageArrival], keys: &str) -> (Vec<Option<u64>>, u64) {
    let mut log = log(begins_ns);
    let count = read_newest(&mut log, arrivals, &topic(keys));
    let numbers = log.jobs.iter();
    let numbers = numbers.map(|job| job.read[0].map(|message| message.sequence));
    (numbers.collect(), count)
}

#[test]
fn a_job_reads_the_message_that_was_sent_last() {
    // The second message overtakes the first one, and the third comes as a job begins.
    let arrivals = [arrival(1, 20, 25), arrival(0, 10, 30), arrival(2, 30, 40)];
    let (numbers, count) = read(&[24, 25, 35, 40, 50], &arrivals, "");
    assert_eq!(numbers, [None, Some(1), Some(1), Some(2), Some(2)]);
    assert_eq!(count, 2, "the first message was never the newest one");
}

#[test]
fn a_message_is_read_until_the_end_of_its_lifespan() {
    let arrivals = [arrival(0, 10, 12)];
    let keys = "quality = { lifespan = \"20ns\" }";
    let (numbers, count) = read(&[11, 12, 30, 31], &arrivals, keys);
    assert_eq!(numbers, [None, Some(0), Some(0), None]);
    assert_eq!(count, 1);
}

/// Messages at 0 to 4 ns, of which a contract admits one in 100 ns; the history has room for two.
#[test]
fn newer_messages_take_the_places_of_older_ones_that_are_held_back() {
    let admitted = |violation: &str| {
        let contract = "messages = 1, interval = \"100ns\"";
        let keys = format!(
            "quality = {{ history = 2 }}\ncontract = {{ {contract}, violation = \"{violation}\" }}"
        );
        let sent = (0..5).map(|number| arrival(number, number, number));
        let mut count = SimulatedTopic::of("t", "b/b");
        let admitted = regulated(sent.collect(), &topic(&keys), &mut count);
        let messages = admitted.iter();
        let messages = messages.map(|one| (one.message.sequence, one.at.as_nanos()));
        let messages: Vec<(u64, u64)> = messages.collect();
        (messages, count.dropped, count.held_back)
    };
    let held = vec![(0, 0), (3, 100), (4, 200)];
    assert_eq!(admitted("hold-back"), (held, 2, 2));
    assert_eq!(admitted("drop"), (vec![(0, 0)], 4, 0));
}

/// Jobs that end at 1, 11, 21 and 31 ns, with a warm-up of 11 ns and 10 ns that count.
#[test]
fn outputs_count_after_the_warm_up_and_their_causes_from_the_begin_on() {
    let span = CountedSpan {
        seed: 1,
        warm_up: Duration::from_nanos(11),
        duration: Duration::from_nanos(10),
    };
    let log = log(&[0, 10, 20, 30]);
    let begins = |is_last| -> Vec<u64> {
        let jobs = cut(&log, span, is_last).jobs;
        jobs.iter().map(|job| job.start.as_nanos()).collect()
    };
    assert_eq!(begins(true), [10, 20]);
    assert_eq!(begins(false), [0, 10, 20]);
}

#[test]
fn each_way_of_a_topic_has_delays_of_its_own() {
    let publisher = log(&[0, 1_000, 2_000, 3_000]);
    let logs = BTreeMap::from([("a/a".to_owned(), publisher)]);
    let numbers = BTreeMap::from([("a/a".to_owned(), 1)]);
    let exchange = MessageExchange { logs, numbers };
    let topic = topic("delay = { least = \"100ns\", most = \"900ns\" }");
    let arrivals = |name: &str, subscriber: &str, seed| -> Vec<u64> {
        let mut count = SimulatedTopic::of(name, subscriber);
        let arrivals = exchange.arrivals(&topic, seed, &mut count);
        assert_eq!(count.published, 4);
        arrivals.iter().map(|one| one.at.as_nanos()).collect()
    };
    let one = arrivals("t", "b/b", 1);
    let delays = one.iter().zip([1, 1_001, 2_001, 3_001]);
    assert!(
        delays
            .clone()
            .all(|(at, sent)| (sent + 100..=sent + 900).contains(at))
    );
    assert_eq!(one, arrivals("t", "b/b", 1));
    for other in [
        arrivals("t", "c/c", 1),
        arrivals("u", "b/b", 1),
        arrivals("t", "b/b", 2),
    ] {
        assert_ne!(one, other);
    }
}
