//! Bounds of chains against job chains that are followed tick by tick.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_model::Window;

use super::*;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// The reads and writes of the jobs of a task, in order.
type JobTimes = Vec<(u64, u64)>;

/// The longest reaction time and the longest data age of jobs, each task reading what the one in front wrote last; causes and
/// measurements within `span` count.
fn by_definition(tasks: &[JobTimes], transports: &[u64], span: std::ops::Range<u64>) -> (u64, u64) {
    // The number of the measuring job in each output, in the order of writing.
    let mut outputs: Vec<(u64, usize)> = Vec::new();
    for (number, (_, write)) in tasks[0].iter().enumerate() {
        outputs.push((*write, number));
    }
    for (jobs, transport) in tasks[1..].iter().zip(transports) {
        let read_at = |at: u64| {
            let come = outputs.iter().filter(|(write, _)| write + transport <= at);
            come.map(|(_, sample)| *sample).max()
        };
        let next = jobs.iter();
        outputs = next
            .filter_map(|(read, write)| Some((*write, read_at(*read)?)))
            .collect();
    }
    let (mut reaction, mut age) = (0, 0);
    for (number, (read, _)) in tasks[0].iter().enumerate() {
        if !span.contains(read) {
            continue;
        }
        let later = outputs.iter().filter(|(_, sample)| *sample > number);
        let Some(first) = later.map(|(write, _)| *write).min() else {
            panic!("the horizon is too short");
        };
        reaction = reaction.max(first - read);
        if outputs.iter().any(|(_, sample)| *sample == number) {
            age = age.max(first - read);
        }
    }
    (reaction, age)
}

#[derive(Clone, Debug)]
struct Clocked {
    period_ns: u64,
    offset: u64,
    response: u64,
}

impl Clocked {
    fn stage(&self, name: usize, transport: u64) -> ChainStage {
        let ns = Duration::from_nanos;
        ChainStage {
            name: format!("t{name}"),
            topic: format!("m{name}"),
            transport: ns(transport),
            response: ns(self.response),
            trigger: StageTrigger::Clocked {
                clock: "host".into(),
                period: ns(self.period_ns),
                spans: JobSpans::periodic(ns(self.period_ns), ns(self.offset), ns(self.response))
                    .unwrap(),
            },
            yields_to_previous: false,
        }
    }

    /// The jobs up to a horizon with a begin and an end for each, drawn within its span.
    fn jobs(&self, horizon: u64, mut draw: impl FnMut(u64) -> (u64, u64)) -> JobTimes {
        let mut arrival = self.offset % self.period_ns;
        let mut jobs = Vec::new();
        let (mut read, mut written) = (0, 0);
        while arrival < horizon {
            let (begin, end) = draw(self.response);
            // JobTimes of a task run in order.
            read = (arrival + begin).max(written).max(read);
            written = (arrival + end).max(read).max(written);
            jobs.push((read, written));
            arrival += self.period_ns;
        }
        jobs
    }
}

fn some_tasks() -> impl Strategy<Value = Vec<Clocked>> {
    let periods = prop::sample::select(vec![2_u64, 3, 4, 5, 6, 8, 10, 12]);
    let task = (periods, 0_u64..12, 1_u64..100).prop_map(|(period_ns, offset, share)| Clocked {
        period_ns,
        offset,
        response: (period_ns * share / 100).max(1),
    });
    prop::collection::vec(task, 1..5)
}

fn stages(tasks: &[Clocked], transports: &[u64]) -> Vec<ChainStage> {
    let before = std::iter::once(&0).chain(transports);
    let each = tasks.iter().zip(before).enumerate();
    each.map(|(index, (task, transport))| task.stage(index, *transport))
        .collect()
}

fn part(kind: PartKind, at: &str, length: Duration) -> ChainPart {
    ChainPart::of(kind, at, length)
}

#[test]
fn two_tasks_by_hand() {
    let sensor = Clocked {
        period_ns: 10,
        offset: 0,
        response: 2,
    };
    let actor = Clocked {
        period_ns: 20,
        offset: 5,
        response: 5,
    };
    let stages = stages(&[sensor, actor], &[1]);
    let answer = bound(&stages).unwrap();
    // A cause right after the read at 0 is read at 10, published at 12, come at 13, read at 25, in effect at 30; one right
    // after the read at 10 is read at 20, come at 23, read at 25, in effect at 30.
    assert_eq!(answer.bound, Duration::from_nanos(30));
    assert_eq!(answer.baseline, Duration::from_nanos(10 + 2 + 1 + 20 + 5));
    assert_eq!(answer.methods, [STEPPED]);
    let ns = Duration::from_nanos;
    let expected = [
        part(PartKind::Wait, "t0", ns(10)),
        part(PartKind::Response, "t0", ns(2)),
        part(PartKind::Transport, "m1", ns(1)),
        part(PartKind::Wait, "t1", ns(12)),
        part(PartKind::Response, "t1", ns(5)),
    ];
    assert_eq!(answer.parts, expected);
}

#[test]
fn released_tasks_wait_for_no_clock_and_hosts_are_cut() {
    let clocked = |clock: &str, period, response| ChainStage {
        name: clock.into(),
        topic: "m".into(),
        transport: ms(1),
        response: ms(response),
        trigger: StageTrigger::Clocked {
            clock: clock.into(),
            period: ms(period),
            spans: JobSpans::periodic(ms(period), ms(0), ms(response)).unwrap(),
        },
        yields_to_previous: false,
    };
    let released = ChainStage {
        trigger: StageTrigger::Released,
        response: ms(3),
        ..clocked("front", 10, 2)
    };
    let mut first = clocked("front", 10, 2);
    first.transport = ms(0);
    let chain = [first, released, clocked("rear", 5, 1)];
    let answer = bound(&chain).unwrap();
    // 10 + 2 + 1 + 3 on the one host, 1 between, 5 + 1 on the other one.
    assert_eq!(answer.bound, ms(23));
    assert_eq!(answer.baseline, ms(23));
    assert_eq!(answer.methods, [STEPPED, CUT]);
    assert_eq!(bound(&chain[1..]), None);
    assert_eq!(bound(&[]), None);
}

#[test]
fn a_reader_below_its_publisher_waits_for_the_response_no_second_time() {
    let spaced = |name: &str, gap, response, yields_to_previous| ChainStage {
        name: name.into(),
        topic: "m".into(),
        transport: ms(0),
        response: ms(response),
        trigger: StageTrigger::Spaced {
            longest_gap: ms(gap),
        },
        yields_to_previous,
    };
    let chain = |yields| [spaced("high", 10, 4, false), spaced("low", 20, 9, yields)];
    assert_eq!(bound(&chain(false)).unwrap().bound, ms(10 + 4 + 20 + 9));
    let answer = bound(&chain(true)).unwrap();
    assert_eq!(answer.bound, ms(10 + 20 + 9));
    assert_eq!(answer.methods, [BY_PRIORITIES]);
}

proptest! {
    /// JobTimes that begin at their arrival and end after their response time reach the stepped bound, in reaction and in age.
    #[test]
    fn the_stepped_bound_is_reached(tasks in some_tasks(), transports in prop::collection::vec(0_u64..4, 4)) {
        let transports = &transports[..tasks.len() - 1];
        let answer = bound(&stages(&tasks, transports)).unwrap();
        let jobs: Vec<JobTimes> = tasks.iter().map(|task| task.jobs(600, |response| (0, response))).collect();
        // The hyperperiod is 120 at most.
        let (reaction, age) = by_definition(&jobs, transports, 150..350);
        prop_assert_eq!(answer.bound.as_nanos(), reaction);
        prop_assert_eq!(age, reaction);
        let parts: Duration = answer.parts.iter().map(|part| part.length).sum();
        prop_assert_eq!(parts, answer.bound);
        prop_assert!(answer.bound <= answer.baseline);
    }

    /// No begin and end of jobs within their spans exceeds the bound.
    #[test]
    fn jobs_within_their_spans_stay_below_the_bound(
        tasks in some_tasks(), transports in prop::collection::vec(0_u64..4, 4), seed in any::<u64>(),
    ) {
        let transports = &transports[..tasks.len() - 1];
        let answer = bound(&stages(&tasks, transports)).unwrap();
        let mut state = seed | 1;
        let mut draw = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % (below + 1)
        };
        let jobs: Vec<JobTimes> = tasks
            .iter()
            .map(|task| {
                task.jobs(600, |response| {
                    let end = draw(response);
                    (draw(end), end)
                })
            })
            .collect();
        let (reaction, age) = by_definition(&jobs, transports, 150..350);
        prop_assert!(reaction <= answer.bound.as_nanos(), "{} > {}", reaction, answer.bound);
        prop_assert!(age <= reaction);
    }

    /// Tasks on clocks of their own stay below the bound in every phase of the clocks to each other.
    #[test]
    fn clocks_in_any_phase_stay_below_the_bound(tasks in some_tasks(), phases in prop::collection::vec(0_u64..12, 4)) {
        let transports = vec![0; tasks.len() - 1];
        let mut chain = stages(&tasks, &transports);
        for (index, stage) in chain.iter_mut().enumerate() {
            if let StageTrigger::Clocked { clock, .. } = &mut stage.trigger {
                *clock = format!("host {index}");
            }
        }
        let answer = bound(&chain).unwrap();
        prop_assert_eq!(answer.bound, answer.baseline);
        let jobs: Vec<JobTimes> = tasks
            .iter()
            .zip(phases)
            .map(|(task, phase)| Clocked { offset: task.offset + phase, ..task.clone() })
            .map(|task| task.jobs(600, |response| (0, response)))
            .collect();
        let (reaction, _) = by_definition(&jobs, &transports, 150..350);
        prop_assert!(reaction <= answer.bound.as_nanos());
    }
}

/// Jobs of a cycle of 12 or 24, at any distances, with a begin and an end for each.
fn some_spans() -> impl Strategy<Value = JobSpans> {
    let cycle = prop::sample::select(vec![12_u64, 24]);
    let jobs = prop::collection::btree_map(0_u64..12, (0_u64..4, 1_u64..9), 1..4);
    (cycle, jobs).prop_filter_map("begins in order", |(cycle, jobs)| {
        let ns = Duration::from_nanos;
        let mut ended = 0;
        let jobs = jobs.into_iter().map(|(arrival, (wait, length))| {
            let begin = arrival + wait;
            // Jobs of a task end in their order.
            ended = (begin + length).max(ended);
            JobSpan {
                arrival: ns(arrival),
                earliest_begin: ns(begin),
                latest_end: ns(ended),
            }
        });
        JobSpans::new(ns(cycle), jobs.collect())
    })
}

proptest! {
    /// Jobs at uneven distances that read as early and publish as late as they can reach the bound.
    #[test]
    fn uneven_jobs_reach_the_bound(all in prop::collection::vec(some_spans(), 1..4)) {
        let each = all.iter().enumerate();
        let stages: Vec<ChainStage> = each
            .map(|(index, spans)| ChainStage {
                name: format!("t{index}"),
                topic: format!("m{index}"),
                transport: Duration::ZERO,
                // The bounds in any phase do not matter here.
                response: ms(1),
                trigger: StageTrigger::Clocked {
                    clock: "host".into(),
                    period: ms(1),
                    spans: spans.clone(),
                },
                yields_to_previous: false,
            })
            .collect();
        let answer = bound(&stages).unwrap();
        let jobs: Vec<JobTimes> = all
            .iter()
            .map(|spans| {
                let cycle = spans.cycle().as_nanos();
                let at = |from: u64| {
                    spans.jobs().iter().map(move |job| {
                        (from + job.earliest_begin.as_nanos(), from + job.latest_end.as_nanos())
                    })
                };
                (0..600 / cycle).flat_map(|number| at(number * cycle)).collect()
            })
            .collect();
        let transports = vec![0; all.len() - 1];
        let (reaction, _) = by_definition(&jobs, &transports, 150..350);
        prop_assert_eq!(answer.bound.as_nanos(), reaction);
    }
}

/// Windows of a frame, and tasks for them.
type Partition = (u64, Vec<(u64, u64)>, Vec<(u64, u64, u64)>);

fn some_partition() -> impl Strategy<Value = Partition> {
    let windows = prop::collection::vec((0_u64..4, 1_u64..5), 1..3);
    let periods = prop::sample::select(vec![6_u64, 8, 12, 24]);
    let tasks = prop::collection::vec((0_u64..4, periods, 0_u64..24), 1..4);
    (windows, 0_u64..4, tasks).prop_map(|(gaps, tail, tasks)| {
        let (mut end, mut windows) = (0, Vec::new());
        for (gap, length) in gaps {
            windows.push((end + gap, length));
            end += gap + length;
        }
        (end + tail, windows, tasks)
    })
}

/// Begin and end of the jobs, tick by tick: of each task, by the number of the job.
fn tick_schedule(
    partition: &Partition,
    until: u64,
    mut work: impl FnMut(u64) -> u64,
) -> Vec<Vec<(u64, u64)>> {
    let (frame, windows, tasks) = partition;
    let mut jobs: Vec<Vec<(u64, u64)>> = vec![Vec::new(); tasks.len()];
    let mut pending: Vec<(usize, usize, u64)> = Vec::new();
    for tick in 0..until {
        for (index, (execution, period, offset)) in tasks.iter().enumerate() {
            if tick % period == offset % period {
                pending.push((index, jobs[index].len(), work(*execution)));
                jobs[index].push((u64::MAX, u64::MAX));
            }
        }
        for (task, number, _) in pending.iter().filter(|(_, _, left)| *left == 0) {
            jobs[*task][*number] = (tick, tick);
        }
        pending.retain(|(_, _, left)| *left > 0);
        let into = tick % frame;
        let is_open = windows
            .iter()
            .any(|(offset, length)| (*offset..offset + length).contains(&into));
        pending.sort_unstable();
        if let Some((task, number, left)) = pending.first_mut().filter(|_| is_open) {
            let job = &mut jobs[*task][*number];
            job.0 = job.0.min(tick);
            *left -= 1;
            if *left == 0 {
                job.1 = tick + 1;
            }
        }
        pending.retain(|(_, _, left)| *left > 0);
    }
    jobs
}

/// The partition with windows that open so much later.
fn opened_later(partition: &Partition, by: u64) -> Partition {
    let (frame, windows, tasks) = partition;
    let later = windows.iter().map(|(offset, length)| {
        let by = by.min(*length);
        (offset + by, length - by)
    });
    (*frame, later.collect(), tasks.clone())
}

fn schedule_of(partition: &Partition, switch: u64) -> Option<Vec<JobSpans>> {
    let ns = Duration::from_nanos;
    let (frame, windows, tasks) = partition;
    let windows: Vec<Window> = windows
        .iter()
        .map(|(offset, length)| Window {
            offset: ns(*offset),
            length: ns(*length),
        })
        .collect();
    let tasks: Vec<PartitionTask> = tasks
        .iter()
        .enumerate()
        .map(|(rank, (execution, period, offset))| PartitionTask {
            execution: ns(*execution),
            period: ns(*period),
            offset: ns(*offset),
            rank: rank as u64,
        })
        .collect();
    partition_schedule(ns(*frame), &windows, ns(switch), &tasks)
}

proptest! {
    /// The latest ends are those of a schedule by ticks at full execution times and switches, and no shorter ones exceed them.
    #[test]
    fn the_schedule_of_windows_is_that_of_ticks(
        partition in some_partition(),
        seed in any::<u64>(),
        switch in 0_u64..3,
    ) {
        let Some(spans) = schedule_of(&partition, switch) else {
            return Ok(());
        };
        let cycle = spans[0].cycle().as_nanos();
        let horizon = 5 * cycle + 200;
        let full = tick_schedule(&opened_later(&partition, switch), horizon, |execution| execution);
        let quick = opened_later(&partition, seed % (switch + 1));
        let mut state = seed | 1;
        let shorter = tick_schedule(&quick, horizon, |execution| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % (execution + 1)
        });
        for (index, spans) in spans.iter().enumerate() {
            let count = spans.jobs().len();
            for (number, span) in spans.jobs().iter().enumerate() {
                // The fourth cycle has settled in both.
                let at = 3 * count + number;
                let from = 3 * cycle;
                let execution = partition.2[index].0;
                if execution > 0 && full[index][at].1 < u64::MAX {
                    prop_assert_eq!(span.latest_end.as_nanos() + from, full[index][at].1);
                }
                let (begin, end) = shorter[index][at];
                if begin < end && end < u64::MAX {
                    prop_assert!(span.earliest_begin.as_nanos() + from <= begin);
                    prop_assert!(end <= span.latest_end.as_nanos() + from);
                }
            }
        }
    }
}

#[test]
fn windows_that_give_too_little_have_no_schedule() {
    assert!(schedule_of(&(10, vec![(0, 2)], vec![(3, 12, 0)]), 0).is_none());
    let spans = schedule_of(&(10, vec![(4, 2)], vec![(3, 20, 7)]), 0).unwrap();
    // Released at 7, it begins at 14 and runs until 16 and from 24 to 25.
    let expected = JobSpan {
        arrival: Duration::from_nanos(7),
        earliest_begin: Duration::from_nanos(14),
        latest_end: Duration::from_nanos(25),
    };
    assert_eq!(spans[0].jobs(), [expected]);
    // A switch may take 1 of each window, or less.
    let spans = schedule_of(&(10, vec![(4, 2)], vec![(3, 40, 7)]), 1).unwrap();
    let expected = JobSpan {
        latest_end: Duration::from_nanos(36),
        ..expected
    };
    assert_eq!(spans[0].jobs(), [expected]);
}
