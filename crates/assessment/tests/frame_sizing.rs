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
