//! Sized frames against every placement of small systems.

use tailbound_analysis::FORMAT;
use tailbound_assessment::analysis::analyze;
use tailbound_assessment::frame_sizing::{
    FrameQuery, FrameSizing, FrameSizingError, MOST_PLACEMENTS, USUAL_SWITCH, size_frame,
};
use tailbound_model::{Cpu, Description, ExecutionTime, InputFiles, Window};
use tailbound_time::Duration;

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

/// Three partitions on a CPU with a chain through them, for an age and periods in milliseconds.
fn system(age_ms: u64, periods: [u64; 3], work_us: u64) -> Description {
    let mut text = String::from(
        "schema_version = 1\nname = \"line\"\n[hosts.line]\ncpus = [0]\nmajor_frame = \"10ms\"\n",
    );
    for (index, (name, period)) in ["a", "b", "c"].into_iter().zip(periods).enumerate() {
        let offset = 3 * index;
        let work_us = if name == "a" { work_us } else { 900 };
        text += &format!(
            "[domains.{name}]\nkind = \"process\"\n\
             reservation = {{ backend = \"time-partitions\", cpus = [0], windows = [{{ offset = \"{offset}ms\", length = \"2ms\" }}] }}\n\
             [domains.{name}.tasks.t]\narrivals = {{ kind = \"periodic\", period = \"{period}ms\" }}\n\
             execution_time = {{ kind = \"constant\", value = \"{work_us}us\" }}\n"
        );
    }
    text += "[topics.ab]\npublishers = [\"c/t\"]\nsubscribers = [\"a/t\"]\nsize = 8\n\
             [topics.bc]\npublishers = [\"a/t\"]\nsubscribers = [\"b/t\"]\nsize = 8\n";
    text +=
        &format!("[chains.line]\npath = [\"c/t\", \"a/t\", \"b/t\"]\ndata_age = \"{age_ms}ms\"\n");
    let checked = FORMAT.check(&text, "line.toml");
    assert!(!checked.problems.has_errors(), "{}", checked.problems);
    checked.description.unwrap()
}

fn sized(description: &Description, most_placements: u64) -> Result<FrameSizing, FrameSizingError> {
    sized_with(description, 1, most_placements)
}

fn sized_with(
    description: &Description,
    most_windows: u64,
    most_placements: u64,
) -> Result<FrameSizing, FrameSizingError> {
    size_frame(&FrameQuery {
        description,
        inputs: &InputFiles::default(),
        host: None,
        grid: ms(1),
        most_windows,
        most_placements,
    })
}

/// Whether windows, in steps of the grid with a switch of 50 us at the begin of each, meet all deadlines; each partition has
/// so many in a frame.
fn is_good(
    description: &Description,
    frame: u64,
    windows: &[(u64, u64)],
    counts: [u64; 3],
) -> bool {
    let mut described = description.clone();
    let host = described.hosts.get_mut("line").unwrap();
    host.major_frame = Some(ms(frame));
    host.overheads.window_switch = Duration::from_micros(50);
    let windows = windows.iter().zip(counts);
    for (domain, ((offset, length), count)) in described.domains.values_mut().zip(windows) {
        let window = |number: u64| Window {
            offset: ms(offset + number * frame / count),
            length: ms(*length),
        };
        domain.reservation.as_mut().unwrap().windows = (0..count).map(window).collect();
    }
    analyze(&described, &InputFiles::default()).is_ok_and(|analysis| analysis.schedulable)
}

/// The least share over all frames and windows, the longest frame first, by trying everything.
fn by_exhaustion(description: &Description, frames: &[u64]) -> Option<(u64, u64)> {
    let mut least: Option<(u64, u64)> = None;
    for frame in frames {
        let places = |length: u64| (0..=frame - length).map(move |offset| (offset, length));
        let all: Vec<(u64, u64)> = (1..=*frame).flat_map(places).collect();
        let apart = |a: (u64, u64), b: (u64, u64)| a.0 + a.1 <= b.0 || b.0 + b.1 <= a.0;
        for a in &all {
            for b in all.iter().filter(|b| apart(*a, **b)) {
                for c in all.iter().filter(|c| apart(*a, **c) && apart(*b, **c)) {
                    let total = a.1 + b.1 + c.1;
                    let is_less =
                        least.is_none_or(|(least, of)| (total * of, of) < (least * frame, *frame));
                    if is_less && is_good(description, *frame, &[*a, *b, *c], [1; 3]) {
                        least = Some((total, *frame));
                    }
                }
            }
        }
    }
    least
}

#[test]
fn the_answer_is_the_least_of_all_placements() {
    let mut met = 0;
    for (age, periods, work_us) in [
        (11, [6, 6, 6], 900),
        (5, [6, 6, 6], 900),
        // A second step for the window of `a`, so that its jobs end within one frame.
        (16, [5, 10, 5], 1_800),
        (30, [5, 10, 5], 1_800),
        (19, [4, 8, 8], 1_800),
        // A job that a window of one step holds, and not with its switch.
        (30, [6, 6, 6], 980),
    ] {
        let description = system(age, periods, work_us);
        let longest = *periods.iter().max().unwrap();
        // The longest period is a multiple of the others here, and so the hyperperiod.
        let frames: Vec<u64> = (2..=longest)
            .filter(|frame| longest.is_multiple_of(*frame))
            .collect();
        let expected = by_exhaustion(&description, &frames);
        let answer = sized(&description, MOST_PLACEMENTS);
        match (expected, answer) {
            (Some((total, frame)), Ok(answer)) => {
                assert!(answer.is_least);
                assert_eq!(answer.frame, ms(frame), "{age} {periods:?} {answer:?}");
                let lengths: Duration = answer.windows.iter().map(|window| window.length).sum();
                assert_eq!(lengths, ms(total), "{age} {periods:?} {answer:?}");
                met += 1;
            }
            (None, Err(FrameSizingError::Infeasible { .. })) => {}
            (expected, answer) => panic!("{age} {periods:?}: {expected:?}, and {answer:?}"),
        }
    }
    assert!((2..6).contains(&met), "{met} have an answer");
}

/// The least share of up to two windows for each partition in frames, by trying everything.
fn least_of_two(description: &Description, frames: &[u64]) -> Option<f64> {
    let mut least: Option<f64> = None;
    for frame in frames {
        for choice in 0..8_u64 {
            let counts = [0, 1, 2].map(|place| 1 + (choice >> place & 1));
            if counts.iter().any(|count| !frame.is_multiple_of(*count)) {
                continue;
            }
            let all = counts.map(|count| {
                let apart = frame / count;
                let places = (1..=apart).flat_map(move |length| {
                    (0..=apart - length).map(move |offset| (offset, length))
                });
                places.collect::<Vec<(u64, u64)>>()
            });
            for (a, b, c) in all[0].iter().flat_map(|a| {
                let others = all[1].iter();
                others.flat_map(|b| all[2].iter().map(|c| (*a, *b, *c)))
            }) {
                let windows = [a, b, c];
                let total: u64 = windows
                    .iter()
                    .zip(counts)
                    .map(|(one, count)| one.1 * count)
                    .sum();
                let share = total as f64 / *frame as f64;
                // Overlapping windows are refused by the admission.
                if least.is_none_or(|least| share < least)
                    && is_good(description, *frame, &windows, counts)
                {
                    least = Some(share);
                }
            }
        }
    }
    least
}

/// One partition has to be quick, and the others have little to do: two windows of one in each window of the others.
#[test]
fn a_second_window_is_given_where_it_saves_time() {
    let mut description = system(40, [4, 8, 8], 900);
    let once = sized_with(&description, 1, MOST_PLACEMENTS).unwrap();
    let twice = sized_with(&description, 2, MOST_PLACEMENTS).unwrap();
    let of_a = twice.windows.iter().filter(|window| window.domain == "a");
    assert_eq!(of_a.count(), 2, "{twice:?}");
    assert!(
        twice.is_least && twice.share < once.share,
        "{once:?} {twice:?}"
    );
    assert_eq!(Some(twice.share), least_of_two(&description, &[2, 4, 8]));
    assert!(twice.to_toml().contains("length = \"1ms\" }, { offset"));
    // The answer is a description that `analyze` accepts.
    for domain in description.domains.values_mut() {
        domain.reservation.as_mut().unwrap().windows.clear();
    }
    let host = description.hosts.get_mut("line").unwrap();
    host.major_frame = Some(twice.frame);
    host.overheads.window_switch = twice.switch;
    for window in &twice.windows {
        let domain = description.domains.get_mut(&window.domain).unwrap();
        domain.reservation.as_mut().unwrap().windows.push(Window {
            offset: window.offset,
            length: window.length,
        });
    }
    assert!(
        analyze(&description, &InputFiles::default())
            .unwrap()
            .schedulable
    );
}

/// Two partitions on a CPU with a chain from one to the other, and what else there is.
fn pair(
    age_ms: u64,
    periods: [u64; 2],
    (offsets, works_us): ([u64; 2], [u64; 2]),
    more: &str,
) -> Description {
    let mut text = String::from(
        "schema_version = 1\nname = \"line\"\n[hosts.line]\ncpus = [0]\nmajor_frame = \"10ms\"\n",
    );
    for (index, name) in ["a", "b"].into_iter().enumerate() {
        let (period, offset, work_us) = (periods[index], offsets[index], works_us[index]);
        text += &format!(
            "[domains.{name}]\nkind = \"process\"\nscheduling = \"deadline-monotonic\"\n\
             reservation = {{ backend = \"time-partitions\", cpus = [0], windows = [{{ offset = \"{}ms\", length = \"2ms\" }}] }}\n\
             [domains.{name}.tasks.t]\narrivals = {{ kind = \"periodic\", period = \"{period}ms\", offset = \"{offset}ms\" }}\n\
             execution_time = {{ kind = \"constant\", value = \"{work_us}us\" }}\n",
            3 * index
        );
    }
    text += "[topics.ab]\npublishers = [\"a/t\"]\nsubscribers = [\"b/t\"]\nsize = 8\n";
    text += &format!("[chains.line]\npath = [\"a/t\", \"b/t\"]\ndata_age = \"{age_ms}ms\"\n");
    text += more;
    let checked = FORMAT.check(&text, "line.toml");
    assert!(!checked.problems.has_errors(), "{}", checked.problems);
    checked.description.unwrap()
}

/// Begin and length of each window of a partition.
type Windows = Vec<(u64, u64)>;

/// Every way to have one or two windows in a frame that do not touch.
fn one_or_two_windows(frame: u64) -> Vec<Windows> {
    let places =
        (1..=frame).flat_map(|length| (0..=frame - length).map(move |begin| (begin, length)));
    let single: Vec<(u64, u64)> = places.collect();
    let mut all: Vec<Windows> = single.iter().map(|one| vec![*one]).collect();
    for first in &single {
        let behind = single.iter().filter(|second| second.0 > first.0 + first.1);
        all.extend(behind.map(|second| vec![*first, *second]));
    }
    all
}

/// Whether these windows of both partitions, in steps of the grid, meet all deadlines.
fn is_good_for_both(description: &Description, frame: u64, windows: [&Windows; 2]) -> bool {
    let mut described = description.clone();
    let host = described.hosts.get_mut("line").unwrap();
    host.major_frame = Some(ms(frame));
    host.overheads.window_switch = USUAL_SWITCH;
    for (domain, windows) in described.domains.values_mut().zip(windows) {
        let windows = windows.iter().map(|(begin, length)| Window {
            offset: ms(*begin),
            length: ms(*length),
        });
        domain.reservation.as_mut().unwrap().windows = windows.collect();
    }
    analyze(&described, &InputFiles::default()).is_ok_and(|analysis| analysis.schedulable)
}

/// The least share of one or two windows of each partition, by trying everything.
fn least_of_uneven(description: &Description, frames: &[u64]) -> Option<f64> {
    let mut least: Option<f64> = None;
    for frame in frames {
        let all = one_or_two_windows(*frame);
        let sum = |windows: &Windows| windows.iter().map(|one| one.1).sum::<u64>();
        let apart = |one: &Windows, other: &Windows| {
            let mut pairs = one
                .iter()
                .flat_map(|one| other.iter().map(move |other| (one, other)));
            pairs.all(|(one, other)| one.0 + one.1 <= other.0 || other.0 + other.1 <= one.0)
        };
        for a in &all {
            for b in all.iter().filter(|b| apart(a, b)) {
                let share = (sum(a) + sum(b)) as f64 / *frame as f64;
                if least.is_none_or(|least| share < least)
                    && is_good_for_both(description, *frame, [a, b])
                {
                    least = Some(share);
                }
            }
        }
    }
    least
}

/// The search over windows of different lengths at any distances against every placement, and against even windows.
#[test]
fn uneven_windows_are_the_least_of_all_placements() {
    let mut answers = 0;
    let mut state = 7_u64;
    let mut draw = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % below
    };
    for _ in 0..24 {
        let periods = [[3, 6], [6, 3], [6, 6], [4, 8], [6, 2]][draw(5) as usize];
        let longest = periods[0].max(periods[1]);
        let offsets = periods.map(&mut draw);
        let works_us = periods.map(|period| 200 + draw(period * 300));
        let description = pair(3 + draw(16), periods, (offsets, works_us), "");
        let frames: Vec<u64> = (2..=longest)
            .filter(|frame| longest.is_multiple_of(*frame))
            .collect();
        let expected = least_of_uneven(&description, &frames);
        let answer = sized_with(&description, 2, MOST_PLACEMENTS);
        match (expected, answer) {
            (Some(share), Ok(answer)) => {
                assert!(answer.is_least, "{answer:?}");
                assert!(
                    (answer.share - share).abs() < 1e-9,
                    "{share}, and {answer:?}"
                );
                answers += 1;
            }
            (None, Err(FrameSizingError::Infeasible { .. })) => {}
            (expected, answer) => panic!("{periods:?}: {expected:?}, and {answer:?}"),
        }
    }
    assert!(answers > 5, "{answers} answers");
}

/// A task has to wait for less than one window leaves closed, and two of one length are more than all tasks need.
#[test]
fn a_long_and_a_short_window_take_less_than_two_of_one_length() {
    let quick = "[domains.a.tasks.q]\narrivals = { kind = \"periodic\", period = \"8ms\" }\ndeadline = \"5ms\"\n\
                 execution_time = { kind = \"constant\", value = \"500us\" }\n";
    let description = pair(60, [8, 8], ([0, 0], [2_200, 200]), quick);
    assert_eq!(least_of_even(&description, &[2, 4, 8]), Some(5.0 / 8.0));
    let answer = sized_with(&description, 2, MOST_PLACEMENTS).unwrap();
    assert!(answer.is_least, "{answer:?}");
    assert_eq!(
        (answer.frame, answer.share),
        (ms(8), 4.0 / 8.0),
        "{answer:?}"
    );
    let of_a = answer.windows.iter().filter(|window| window.domain == "a");
    let mut lengths: Vec<Duration> = of_a.map(|window| window.length).collect();
    lengths.sort_unstable();
    assert_eq!(lengths, [ms(1), ms(2)], "{answer:?}");
    // After two placements it is the even answer, and says what is possible.
    match sized_with(&description, 2, 2) {
        Ok(answer) => assert!(answer.least_share <= answer.share, "{answer:?}"),
        Err(FrameSizingError::Exhausted { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}

/// The least share of one or two windows of each partition that have one length and lie evenly apart.
fn least_of_even(description: &Description, frames: &[u64]) -> Option<f64> {
    let mut least: Option<f64> = None;
    for frame in frames {
        let all =
            one_or_two_windows(*frame)
                .into_iter()
                .filter(|windows| match windows.as_slice() {
                    [first, second] => first.1 == second.1 && 2 * (second.0 - first.0) == *frame,
                    _ => true,
                });
        let all: Vec<Windows> = all.collect();
        for a in &all {
            for b in &all {
                let sum: u64 = a.iter().chain(b).map(|one| one.1).sum();
                let share = sum as f64 / *frame as f64;
                if least.is_none_or(|least| share < least)
                    && is_good_for_both(description, *frame, [a, b])
                {
                    least = Some(share);
                }
            }
        }
    }
    least
}

#[test]
fn too_many_choices_of_windows_are_refused() {
    let description = system(5_000, [2_520, 2_520, 2_520], 900);
    assert!(matches!(
        sized_with(&description, 32, MOST_PLACEMENTS),
        Err(FrameSizingError::Choices { windows: 32, .. })
    ));
}

#[test]
fn the_order_of_the_windows_follows_the_data() {
    let answer = sized(&system(11, [6, 6, 6], 900), MOST_PLACEMENTS).unwrap();
    let order: Vec<&str> = answer
        .windows
        .iter()
        .map(|window| window.domain.as_str())
        .collect();
    assert_eq!(order, ["c", "a", "b"]);
    let toml = answer.to_toml();
    assert!(
        toml.contains("[hosts.line]\nmajor_frame = \"6ms\""),
        "{toml}"
    );
    assert!(
        toml.contains("[domains.c.reservation]\nwindows = [{ offset = \"0ns\""),
        "{toml}"
    );
}

/// Three jobs of 3.5 ms in a frame of 6 ms.
#[test]
fn windows_on_different_cpus_may_be_open_together() {
    let mut description = system(60, [6, 6, 6], 3_500);
    assert!(matches!(
        sized(&with_work(&description, 3_500), MOST_PLACEMENTS),
        Err(FrameSizingError::Infeasible { .. })
    ));
    description.hosts.get_mut("line").unwrap().cpus = [Cpu(0), Cpu(1), Cpu(2)].into();
    for (domain, cpu) in description.domains.values_mut().zip(0..) {
        domain.reservation.as_mut().unwrap().cpus = [Cpu(cpu)].into();
    }
    let answer = sized(&with_work(&description, 3_500), MOST_PLACEMENTS).unwrap();
    assert_eq!(answer.frame, ms(6));
    let lengths: Vec<Duration> = answer.windows.iter().map(|window| window.length).collect();
    assert_eq!(lengths, [ms(4); 3], "{answer:?}");
}

/// The system with jobs of this length in all partitions.
fn with_work(description: &Description, work_us: u64) -> Description {
    let mut description = description.clone();
    for domain in description.domains.values_mut() {
        for task in domain.tasks.values_mut() {
            let value = Duration::from_micros(work_us);
            task.execution_time = ExecutionTime::Constant { value };
        }
    }
    description
}

#[test]
fn the_switch_of_a_window_is_that_of_the_hosts_overheads() {
    let mut description = system(60, [12, 12, 12], 900);
    assert_eq!(
        sized(&description, MOST_PLACEMENTS).unwrap().switch,
        USUAL_SWITCH
    );
    let overheads = &mut description.hosts.get_mut("line").unwrap().overheads;
    overheads.context_switch = Duration::from_micros(70);
    overheads.scheduler_invocation = Duration::from_micros(40);
    let answer = sized(&description, MOST_PLACEMENTS).unwrap();
    assert_eq!(answer.switch, Duration::from_micros(110));
    // 0.9 ms of work and 0.11 ms of switch need a second step.
    assert!(answer.windows.iter().all(|window| window.length >= ms(2)));
}

#[test]
fn a_search_that_is_cut_off_says_so() {
    let description = system(11, [6, 6, 6], 900);
    match sized(&description, 2) {
        Ok(answer) => assert!(
            !answer.is_least && answer.least_share <= answer.share,
            "{answer:?}"
        ),
        Err(FrameSizingError::Exhausted { .. }) => {}
        Err(other) => panic!("{other}"),
    }
}
