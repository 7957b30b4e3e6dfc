//! Estimates of chains that can be done by hand.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use tailbound_model::Window;

use super::*;

fn us(value: u64) -> Duration {
    Duration::from_micros(value)
}

fn window(offset_us: u64, length_us: u64) -> Window {
    Window {
        offset: us(offset_us),
        length: us(length_us),
    }
}

fn windows(frame_us: u64, windows: &[(u64, u64)]) -> OpenTime {
    let windows = windows
        .iter()
        .map(|(offset, length)| window(*offset, *length));
    let windows: Vec<Window> = windows.collect();
    OpenTime::windows(us(frame_us), &windows).unwrap()
}

fn constant(value_us: u64) -> DelayLaw {
    DelayLaw::constant(us(value_us))
}

fn periodic(period_us: u64, offset_us: u64, open: OpenTime, work_us: u64) -> EstimatedStage {
    EstimatedStage {
        release: JobRelease::Periodic {
            period: us(period_us),
            offset: us(offset_us),
        },
        jitter: Duration::ZERO,
        open,
        execution: constant(work_us),
        delay: constant(0),
    }
}

/// The steps of a law, in microseconds, with shares but for the rounding of sums.
fn steps(law: &StepCdf) -> Vec<(u64, f64)> {
    let steps = law.steps().iter();
    steps
        .map(|(at, share)| (at.as_nanos() / 1000, (share * 1e9).round() / 1e9))
        .collect()
}

#[test]
fn a_chain_of_constant_times_has_the_times_that_follow_by_hand() {
    // The eye reads at 0, 10, ... and publishes 1 ms later. The arm reads at 2, 12, ... and is done at 3, 13, ...
    let eye = periodic(10_000, 0, windows(10_000, &[(0, 2_000)]), 1_000);
    let arm = periodic(10_000, 0, windows(10_000, &[(2_000, 3_000)]), 1_000);
    let laws = estimate(&[eye.clone(), arm.clone()]).unwrap();
    // A cause right after 0 is read at 10, and in effect at 13; the data of 0 are replaced at 13.
    assert_eq!(steps(&laws.reaction_time), [(13_000, 1.0)]);
    assert_eq!(steps(&laws.data_age), [(13_000, 1.0)]);
    assert_eq!(steps(&laws.data_age_at_output), [(3_000, 1.0)]);
    // In the other order a message waits for the next frame.
    let late = periodic(10_000, 0, windows(10_000, &[(5_000, 2_000)]), 1_000);
    let laws = estimate(&[late, arm.clone()]).unwrap();
    assert_eq!(steps(&laws.reaction_time), [(18_000, 1.0)]);
    // An arm of half the rate: causes after jobs at 0 and 10 come to effect at 23, where the arm reads at 2, 22, ...
    let slow = EstimatedStage {
        release: JobRelease::Periodic {
            period: us(20_000),
            offset: us(0),
        },
        ..arm
    };
    let laws = estimate(&[eye, slow]).unwrap();
    assert_eq!(steps(&laws.reaction_time), [(13_000, 0.5), (23_000, 1.0)]);
    // The output at 3 has the data of 0, and is replaced at 23.
    assert_eq!(steps(&laws.data_age), [(23_000, 1.0)]);
    assert!(!laws.is_sampled);
}

#[test]
fn a_message_that_comes_too_late_in_half_of_all_cases_makes_two_ages() {
    // The sensor takes 1 to 3 ms; the actor reads at 2, 12, ... and takes no time.
    let mut sensor = periodic(10_000, 0, OpenTime::always(), 0);
    sensor.execution = DelayLaw::uniform(us(1_000), us(3_000));
    let actor = periodic(10_000, 2_000, OpenTime::always(), 0);
    let laws = estimate(&[sensor, actor]).unwrap();
    // With the data of 0 or those of -10, until the output at 12.
    assert_eq!(steps(&laws.data_age), [(12_000, 0.5), (22_000, 1.0)]);
    let at_output = steps(&laws.data_age_at_output);
    assert_eq!(at_output, [(2_000, 0.5), (12_000, 1.0)]);
    assert_eq!(steps(&laws.reaction_time), [(12_000, 0.5), (22_000, 1.0)]);
}

#[test]
fn a_released_task_waits_for_its_window_from_an_even_phase() {
    // Requests at any phase, each 4 ms after the last one, are served in the first half of each 2 ms.
    let ask = EstimatedStage {
        release: JobRelease::Sporadic {
            least_gap: us(4_000),
            longest_gap: us(4_000),
        },
        ..periodic(1, 0, OpenTime::always(), 0)
    };
    let serve = EstimatedStage {
        release: JobRelease::Message,
        ..periodic(1, 0, windows(2_000, &[(0, 1_000)]), 100)
    };
    let laws = estimate(&[ask, serve]).unwrap();
    assert_eq!(
        laws.data_age, laws.reaction_time,
        "every request has an output"
    );
    // An output is 0.1 ms after the request in the first 0.9 of 2 ms, and no later than 1.1 ms.
    let answered = |value: u64| laws.data_age_at_output.value(us(value));
    assert!((answered(100) - 0.45).abs() < 1.0 / 256.0);
    assert_eq!((answered(99), answered(1_101)), (0.0, 1.0));
    // 4 ms and 0.1 ms; those of the last 0.1 ms of the window wait for the rest of it, and those behind it up to 1 ms.
    let within = |value: u64| laws.reaction_time.value(us(value));
    assert_eq!(within(4_099), 0.0);
    let width = 1.0 / 256.0;
    assert!((within(4_101) - 0.45).abs() < width, "{}", within(4_101));
    // From 0.9 ms of the frame on, an output comes at 2.1 ms at the latest; half of the wait is over for a quarter of all.
    assert!((within(4_600) - 0.7).abs() < width, "{}", within(4_600));
    assert!((within(5_100) - 1.0).abs() < width, "{}", within(5_100));
}

#[test]
fn a_sporadic_sensor_has_the_age_of_its_last_release() {
    // Gaps of 1 to 3 ms in the mean 2 ms, of which the last one lasts (1 - F(x)) / 2 ms at x.
    let sensor = EstimatedStage {
        release: JobRelease::Sporadic {
            least_gap: us(1_000),
            longest_gap: us(3_000),
        },
        ..periodic(1, 0, OpenTime::always(), 0)
    };
    let actor = periodic(10_000, 0, OpenTime::always(), 0);
    let laws = estimate(&[sensor, actor]).unwrap();
    let older = |value: u64| 1.0 - laws.data_age.value(us(10_000 + value));
    assert!((older(1_000) - 0.5).abs() < 0.01, "{}", older(1_000));
    assert!((older(2_000) - 0.125).abs() < 0.01, "{}", older(2_000));
    assert!(older(3_001) < 1e-9);
}

#[test]
fn work_above_a_task_closes_the_time_in_which_it_runs() {
    let above = PeriodicWork {
        period: us(5_000),
        offset: us(1_000),
        work: us(500),
    };
    let open = windows(10_000, &[(0, 2_000), (7_000, 1_000)]);
    let left = open.behind(&[above]).unwrap();
    // A job at 1 ms runs until 1.5 ms, one at 6 ms from 7 to 7.5 ms.
    let first = |at: u64| left.first_open((at * 1000) as i64) / 1000;
    assert_eq!(
        [0, 1_000, 1_600, 2_000, 7_600].map(first),
        [0, 1_500, 1_600, 7_500, 7_600]
    );
    // 0.5 ms are open from 1.5 ms, and as many from 7.5 ms.
    assert_eq!(left.end(1_000_000, 700_000), 7_700_000);
    assert_eq!(left.end(0, 2_000_000), 8_000_000);
    assert_eq!(left.end(0, 2_000_001), 10_000_001);
    let too_much = PeriodicWork {
        work: us(3_000),
        ..above
    };
    assert_eq!(open.behind(&[too_much]), None);
}

#[test]
fn a_chain_without_a_clock_is_refused() {
    let message = EstimatedStage {
        release: JobRelease::Message,
        ..periodic(1, 0, OpenTime::always(), 1)
    };
    assert_eq!(
        estimate(std::slice::from_ref(&message)),
        Err(EstimateError::NoClock)
    );
    assert_eq!(estimate(&[]), Err(EstimateError::NoClock));
}

#[test]
fn a_sporadic_reader_waits_as_long_as_its_last_job_is_past() {
    // Messages are there at 0, 10, ...; gaps of 1 to 3 ms, in the mean 2 ms, last (1 - F(x)) / 2 ms at x.
    let sensor = periodic(10_000, 0, OpenTime::always(), 0);
    let reader = EstimatedStage {
        release: JobRelease::Sporadic {
            least_gap: us(1_000),
            longest_gap: us(3_000),
        },
        ..periodic(1, 0, OpenTime::always(), 0)
    };
    let laws = estimate(&[sensor, reader]).unwrap();
    let later = |value: u64| 1.0 - laws.reaction_time.value(us(10_000 + value));
    assert!((later(1_000) - 0.5).abs() < 0.02, "{}", later(1_000));
    assert!((later(2_000) - 0.125).abs() < 0.02, "{}", later(2_000));
    assert!(later(3_020) < 1e-9);
    // Outputs come at any time after the newest message.
    let young = |value: u64| laws.data_age_at_output.value(us(value));
    assert!((young(2_500) - 0.25).abs() < 0.01, "{}", young(2_500));
    assert!((young(7_500) - 0.75).abs() < 0.01, "{}", young(7_500));
    // The next output is a gap of its own later, which is above 2 ms in half of all cases.
    let old = |value: u64| laws.data_age.value(us(value));
    assert_eq!((old(999), old(13_001)), (0.0, 1.0));
    assert!((old(7_000) - 0.5).abs() < 0.01, "{}", old(7_000));
}

#[test]
fn a_jitter_delays_each_job_by_a_time_of_its_own() {
    // Jobs at 0, 10, ... are ready up to 4 ms later, and read at once.
    let mut sensor = periodic(10_000, 0, OpenTime::always(), 1_000);
    sensor.jitter = us(4_000);
    let laws = estimate(std::slice::from_ref(&sensor)).unwrap();
    // From one to the next: 10 ms and the difference of two even draws, and the execution.
    let within = |law: &StepCdf, value: u64| law.value(us(value));
    let reaction = &laws.reaction_time;
    assert_eq!(
        (within(reaction, 6_999), within(reaction, 15_001)),
        (0.0, 1.0)
    );
    assert!((within(reaction, 11_000) - 0.5).abs() < 0.02);
    assert!((within(reaction, 9_000) - 0.125).abs() < 0.02);
    // A reader at 2, 12, ... has what was ready by 1 ms: a quarter of all messages; the others are read 10 ms later.
    let reader = periodic(10_000, 2_000, OpenTime::always(), 0);
    let laws = estimate(&[sensor.clone(), reader.clone()]).unwrap();
    let age = &laws.data_age_at_output;
    assert!((within(age, 2_000) - 0.25).abs() < 0.02);
    assert!((within(age, 12_000) - 1.0).abs() < 1e-9);
    assert_eq!(within(age, 7_999), within(age, 2_000));
    // A reader with jitter, and a message at 1 ms: its job at 0 reads that in three quarters of all cases, or else that at 10.
    sensor.jitter = Duration::ZERO;
    let late = EstimatedStage {
        jitter: us(4_000),
        ..periodic(10_000, 0, OpenTime::always(), 0)
    };
    let laws = estimate(&[sensor.clone(), late.clone()]).unwrap();
    let reaction = &laws.reaction_time;
    assert!((within(reaction, 14_000) - 0.75).abs() < 0.02);
    assert!((within(reaction, 24_000) - 1.0).abs() < 1e-9);
    for release in [
        JobRelease::Periodic {
            period: us(3_000),
            offset: us(0),
        },
        JobRelease::Sporadic {
            least_gap: us(5_000),
            longest_gap: us(9_000),
        },
    ] {
        let stage = EstimatedStage {
            release,
            ..late.clone()
        };
        assert_eq!(
            estimate(&[sensor.clone(), stage]),
            Err(EstimateError::Jitter)
        );
    }
}

#[test]
fn drawn_job_chains_have_the_laws_of_point_masses() {
    // Requests at any phase pass a partition of 2 in 5 ms, and are read each 7 ms.
    let ask = EstimatedStage {
        release: JobRelease::Sporadic {
            least_gap: us(9_000),
            longest_gap: us(31_000),
        },
        ..periodic(1, 0, OpenTime::always(), 100)
    };
    let pass = EstimatedStage {
        release: JobRelease::Message,
        execution: DelayLaw::uniform(us(200), us(1_900)),
        delay: DelayLaw::uniform(us(50), us(600)),
        ..periodic(1, 0, windows(5_000, &[(1_000, 2_000)]), 0)
    };
    let act = periodic(7_000, 3_000, windows(5_000, &[(0, 900)]), 300);
    let chain = [ask, pass, act];
    let course = ChainCourse::of(&chain).unwrap();
    let (drawn, followed) = (course.drawn().unwrap(), course.followed().unwrap());
    let pairs = [
        (&drawn.data_age, &followed.data_age),
        (&drawn.data_age_at_output, &followed.data_age_at_output),
        (&drawn.reaction_time, &followed.reaction_time),
    ];
    for (drawn, followed) in pairs {
        for at in (0..80_000).step_by(97) {
            // Point masses lie a phase of 20 us, or a part of the answer, beside the times that they stand for.
            let (least, most) = (
                followed.value(us(at - 60.min(at))),
                followed.value(us(at + 60)),
            );
            let here = drawn.value(us(at));
            let error = DRAWN_ERROR + 1.0 / 96.0;
            assert!(
                least - error < here && here < most + error,
                "{at}: {here} and {least} to {most}"
            );
        }
    }
    assert_eq!(
        drawn,
        course.drawn().unwrap(),
        "the draws are the same each time"
    );
}

fn open_times() -> impl Strategy<Value = OpenTime> {
    (
        5_i64..40,
        proptest::collection::vec((1_i64..6, 1_i64..6), 1..4),
    )
        .prop_map(|(slack, parts)| {
            let mut at = 0;
            let mut stretches = Vec::new();
            for (closed, length) in parts {
                at += closed - 1;
                stretches.push((at * 1000, (at + length) * 1000));
                at += length;
            }
            let windows = stretches.iter().map(|(begin, end)| Window {
                offset: Duration::from_nanos(*begin as u64),
                length: Duration::from_nanos((end - begin) as u64),
            });
            let windows: Vec<Window> = windows.collect();
            let frame = Duration::from_nanos(((at + slack) * 1000) as u64);
            OpenTime::windows(frame, &windows).unwrap()
        })
}

proptest! {
    /// The end of work is the first instant by which so much time was open.
    #[test]
    fn work_ends_when_its_time_was_open(open in open_times(), at in -50_i64..50, work in 1_i64..60) {
        let is_open = |us: i64| open.first_open(us * 1000) == us * 1000;
        let mut left = work;
        let mut now = at;
        while left > 0 {
            left -= i64::from(is_open(now));
            now += 1;
        }
        prop_assert_eq!(open.end(at * 1000, work * 1000), now * 1000);
    }

    /// A job begins no sooner than an instant exactly if it arrives no sooner than the least arrival of that instant.
    #[test]
    fn jobs_from_the_least_arrival_on_begin_late_enough(open in open_times(), at in -50_i64..50) {
        let least = open.least_arrival(at * 1000);
        prop_assert!(open.first_open(least) >= at * 1000);
        prop_assert!(open.first_open(least - 1) < at * 1000);
    }
}
