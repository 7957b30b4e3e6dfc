//! Bounds on reaction times against jobs that others displace, followed message by message.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;

use super::*;

fn ns(value: u64) -> Duration {
    Duration::from_nanos(value)
}

/// Period, offset and response time of a task.
type ClockedTimes = (u64, u64, u64);

fn spans((period, offset, response): ClockedTimes) -> JobSpans {
    JobSpans::periodic(ns(period), ns(offset), ns(response)).unwrap()
}

fn stages(tasks: &[ClockedTimes], transport: u64) -> Vec<ChainStage> {
    let each = tasks.iter().enumerate();
    each.map(|(index, task)| ChainStage {
        name: format!("t{index}"),
        topic: format!("m{index}"),
        transport: ns(if index == 0 { 0 } else { transport }),
        response: ns(task.2),
        trigger: StageTrigger::Clocked {
            clock: "host".into(),
            period: ns(task.0),
            spans: spans(*task),
        },
        yields_to_previous: false,
    })
    .collect()
}

fn merged(task: ClockedTimes, transport: u64) -> MergedTopic {
    MergedTopic {
        own_least: Duration::ZERO,
        reader_least: Duration::ZERO,
        others: vec![MessageWay {
            clock: "host".into(),
            spans: spans(task),
            least: Duration::ZERO,
            most: ns(transport),
        }],
    }
}

/// Begin and end of jobs, drawn within their spans.
fn jobs(
    (period, offset, response): ClockedTimes,
    horizon: u64,
    draw: &mut impl FnMut(u64) -> u64,
) -> Vec<(u64, u64)> {
    let mut arrival = offset % period;
    let mut jobs = Vec::new();
    let (mut read, mut written) = (0, 0);
    while arrival < horizon {
        let end = draw(response);
        let begin = draw(end);
        read = (arrival + begin).max(written).max(read);
        written = (arrival + end).max(read).max(written);
        jobs.push((read, written));
        arrival += period;
    }
    jobs
}

/// The longest time from the begin of a job of the first task to the first output with data of a later one; `None` where a job
/// has none within the horizon. The reader at `merge` finds the message that arrived last, be it of `other`.
fn longest_reaction(
    tasks: &[Vec<(u64, u64)>],
    transport: u64,
    (merge, other): (usize, &[(u64, u64)]),
    begins: std::ops::Range<u64>,
    draw: &mut impl FnMut(u64) -> u64,
) -> Option<u64> {
    let first = tasks[0].iter().enumerate();
    let mut outputs: Vec<(u64, Option<usize>)> = first
        .map(|(number, (_, end))| (*end, Some(number)))
        .collect();
    for (place, reader) in tasks.iter().enumerate().skip(1) {
        // In the order of a publisher, and of both by their arrival.
        let mut come: Vec<(u64, Option<usize>)> = Vec::new();
        let mut last = 0;
        for (end, source) in &outputs {
            last = last.max(end + draw(transport));
            come.push((last, *source));
        }
        last = 0;
        for (_, end) in other.iter().filter(|_| place == merge) {
            last = last.max(end + draw(transport));
            come.push((last, None));
        }
        come.sort_by_key(|(at, _)| *at);
        outputs = reader
            .iter()
            .map(|(begin, end)| {
                let until = come.partition_point(|(at, _)| at <= begin);
                let newest = until.checked_sub(1).and_then(|last| come[last].1);
                (*end, newest)
            })
            .collect();
    }
    let mut longest = 0;
    for (number, (begin, _)) in tasks[0].iter().enumerate() {
        if begins.contains(begin) {
            let mut later = outputs.iter().filter(|(_, source)| *source > Some(number));
            longest = longest.max(later.next()?.0 - begin);
        }
    }
    Some(longest)
}

fn some_task() -> impl Strategy<Value = ClockedTimes> {
    let periods = prop::sample::select(vec![2_u64, 3, 4, 6, 8, 12]);
    (periods, 0_u64..12, 0_u64..60)
        .prop_map(|(period, offset, share)| (period, offset, (period * share / 100).max(1)))
}

#[test]
fn a_displaced_message_makes_the_next_one_the_first_to_be_read() {
    // The sensor publishes at 1, 11, ...; a job that reads at 5 finds what came at 3 of each second period in its place.
    let chain = stages(&[(10, 0, 1), (10, 5, 1)], 0);
    let reaction =
        |other: ClockedTimes| displaced_reaction(&chain, &[(1, merged(other, 0))].into()).unwrap();
    // A cause right after the read at 0 is read at 10 and by the job at 15.
    assert_eq!(bound(&chain).unwrap().bound, ns(16));
    assert_eq!(
        reaction((20, 7, 1)),
        ns(16),
        "the other comes behind the read"
    );
    assert_eq!(reaction((20, 3, 1)), ns(26));
    let always = [(1, merged((10, 3, 1), 0))].into();
    assert_eq!(displaced_reaction(&chain, &always), None);
    // Without a clock in common nothing says where messages lie to each other; the time until the next data counts.
    let mut elsewhere = merged((20, 3, 1), 0);
    elsewhere.others[0].clock = "another".into();
    assert_eq!(displaced_reaction(&chain, &[(1, elsewhere)].into()), None);
    assert_eq!(lull(&chain, 1), Some(ns(10 + 1 + 10 + 1)));
}

proptest! {
    /// No reaction time exceeds the bound, wherever jobs begin and end within their spans.
    #[test]
    fn displaced_jobs_stay_below_the_bound(
        tasks in prop::collection::vec(some_task(), 2..4),
        other in some_task(),
        place in 1_usize..3,
        transport in 0_u64..3,
        seed in any::<u64>(),
    ) {
        let merge = place.min(tasks.len() - 1);
        let stages = stages(&tasks, transport);
        let Some(most) = displaced_reaction(&stages, &[(merge, merged(other, transport))].into()) else {
            return Ok(());
        };
        let mut state = seed | 1;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % (below + 1)
        };
        let horizon = 400 + most.as_nanos();
        let all: Vec<Vec<(u64, u64)>> = tasks.iter().map(|task| jobs(*task, horizon, &mut draw)).collect();
        let others = jobs(other, horizon, &mut draw);
        let longest = longest_reaction(&all, transport, (merge, &others), 100..250, &mut draw);
        prop_assert!(longest.unwrap() <= most.as_nanos(), "{:?} > {}", longest, most);
    }

    /// Where nobody else publishes, the bound is the stepped one.
    #[test]
    fn without_others_the_bound_is_the_stepped_one(
        tasks in prop::collection::vec(some_task(), 1..4),
        transport in 0_u64..3,
    ) {
        let stages = stages(&tasks, transport);
        let (stepped, _) = job_chains::step(&stages).unwrap();
        prop_assert_eq!(displaced_reaction(&stages, &Default::default()), Some(stepped));
    }

    /// Where two messages of another publisher are further apart than a lull, it is the most that a cause waits longer.
    #[test]
    fn a_lull_is_the_most_that_is_added(
        tasks in prop::collection::vec(some_task(), 2..4),
        phase in 0_u64..500,
        transport in 0_u64..3,
        seed in any::<u64>(),
    ) {
        let stages = stages(&tasks, transport);
        let merge = tasks.len() - 1;
        let added = lull(&stages, merge).unwrap();
        let most = bound(&stages).unwrap().bound + added;
        let period = added.as_nanos() + transport + 2;
        let mut state = seed | 1;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % (below + 1)
        };
        let all: Vec<Vec<(u64, u64)>> = tasks.iter().map(|task| jobs(*task, 900, &mut draw)).collect();
        let others: Vec<(u64, u64)> = (0..).map(|job| phase % period + job * period).take_while(|at| *at < 900)
            .map(|at| (at, at)).collect();
        let longest = longest_reaction(&all, transport, (merge, &others), 150..500, &mut draw);
        prop_assert!(longest.unwrap() <= most.as_nanos(), "{:?} > {}", longest, most);
    }
}
