#![allow(clippy::unwrap_used, clippy::expect_used)]

use proptest::prelude::*;
use tailbound_distribution::Distribution;
use tailbound_model::{
    Arrivals, Bin, ExecutionTime, Gaps, PoissonState, SampleCount, Task, TracedJob,
};
use tailbound_time::Rate;

use super::*;
use crate::hierarchy::{Job, JobSource};

fn service(tasks: &[(&str, Task)]) -> Service {
    Service::of("d", "unix:s", tasks.iter().cloned())
}

fn ms(value: u64) -> Duration {
    Duration::from_millis(value)
}

fn one_ms() -> ExecutionTime {
    ExecutionTime::Constant { value: ms(1) }
}

fn poisson_task(per_second: f64) -> Task {
    let rate = Rate::per_second(per_second).unwrap();
    let execution = ExecutionTime::Uniform {
        min: ms(1),
        max: ms(2),
    };
    Task::of(Arrivals::Poisson { rate }, execution)
}

fn all(service: &Service, horizon: Duration, seed: u64) -> Vec<Release> {
    releases(service, horizon, seed, &InputFiles::default()).unwrap()
}

#[test]
fn periodic_jobs_start_at_the_offset_and_end_before_the_horizon() {
    let arrivals = Arrivals::Periodic {
        period: ms(10),
        offset: ms(3),
    };
    let jobs = all(&service(&[("p", Task::of(arrivals, one_ms()))]), ms(23), 1);
    let times: Vec<_> = jobs.iter().map(|r| r.at.as_nanos()).collect();
    assert_eq!(times, [3_000_000, 13_000_000]);
    assert!(jobs.iter().all(|r| r.execution == Some(ms(1))));
}

#[test]
fn sporadic_gaps_stay_in_their_range() {
    let arrivals = Arrivals::Sporadic {
        min_gap: ms(5),
        max_gap: ms(9),
        offset: ms(2),
    };
    let jobs = all(
        &service(&[("s", Task::of(arrivals, one_ms()))]),
        Duration::from_secs(50),
        7,
    );
    assert!(jobs.len() > 5_000);
    assert!(jobs[0].at.as_nanos() >= 2_000_000 && jobs[0].at.as_nanos() <= 7_000_000);
    let mut gaps: Vec<_> = jobs
        .windows(2)
        .map(|pair| pair[1].at.saturating_since(pair[0].at))
        .collect();
    gaps.sort_unstable();
    assert!(gaps[0] >= ms(5) && gaps[gaps.len() - 1] <= ms(9));
    // Both ends of the range are reached, within 1% of it.
    assert!(gaps[0] < Duration::from_micros(5_040));
    assert!(gaps[gaps.len() - 1] > Duration::from_micros(8_960));
}

#[test]
fn poisson_counts_have_the_mean_and_variance_of_the_law() {
    let jobs = all(
        &service(&[("p", poisson_task(1_000.0))]),
        Duration::from_secs(200),
        3,
    );
    let mut counts = vec![0.0_f64; 2_000];
    for release in &jobs {
        counts[(release.at.as_nanos() / 100_000_000) as usize] += 1.0;
    }
    let mean = counts.iter().sum::<f64>() / 2_000.0;
    let variance = counts.iter().map(|c| (c - mean).powi(2)).sum::<f64>() / 2_000.0;
    // Standard errors: 0.22 for the mean, 3.2 for the variance; five of each.
    assert!((mean - 100.0).abs() < 1.2, "{mean}");
    assert!((variance - 100.0).abs() < 17.0, "{variance}");
}

/// Jobs of each of many independent processes within a second.
fn modulated_counts(states: &[(Option<f64>, u64)], processes: u32) -> Vec<f64> {
    let states = states.iter().map(|(rate, stay_ms)| PoissonState {
        rate: rate.and_then(Rate::per_second),
        mean_stay: ms(*stay_ms),
    });
    let arrivals = Arrivals::MarkovModulatedPoisson {
        states: states.collect(),
    };
    let mut tides = Task::of(arrivals, one_ms());
    tides.clients = processes;
    let mut counts = vec![0.0; processes as usize];
    for release in all(&service(&[("t", tides)]), Duration::from_secs(1), 11) {
        counts[release.client as usize] += 1.0;
    }
    counts
}

/// Fails unless the mean of the values is as expected, give or take five standard errors.
fn assert_mean(values: &[f64], expected: f64) {
    let number = values.len() as f64;
    let mean = values.iter().sum::<f64>() / number;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    let error = (squares.sum::<f64>() / (number - 1.0) / number).sqrt();
    assert!(
        error < 0.05 * expected,
        "{error} tells nothing of {expected}"
    );
    assert!(
        (mean - expected).abs() < 5.0 * error,
        "{mean} +- {error}, not {expected}"
    );
}

/// The mean count and the index of dispersion (variance over mean) of the law.
fn assert_dispersion(counts: &[f64], mean: f64, dispersion: f64) {
    assert_mean(counts, mean);
    let squares = counts.iter().map(|count| (count - mean).powi(2) / mean);
    assert_mean(&squares.collect::<Vec<_>>(), dispersion);
}

#[test]
fn modulated_counts_of_two_states_have_the_law_s_dispersion() {
    let counts = modulated_counts(&[(Some(20.0), 500), (Some(200.0), 100)], 8_000);
    // With rates a and b, left at rates p and q, in time t (Heffes and Lucantoni 1986, eq. 4):
    let (a, b, p, q, t) = (20.0, 200.0, 2.0, 10.0, 1.0_f64);
    let sum: f64 = p + q;
    let mean = (a * q + b * p) / sum;
    let limit = 2.0 * (a - b).powi(2) * p * q / (sum.powi(2) * (a * q + b * p));
    let dispersion = 1.0 + limit * (1.0 - (1.0 - (-sum * t).exp()) / (sum * t));
    assert_dispersion(&counts, mean * t, dispersion);
}

#[test]
fn modulated_counts_of_three_states_have_the_law_s_dispersion() {
    let counts = modulated_counts(&[(None, 100), (Some(30.0), 100), (Some(90.0), 100)], 8_000);
    // With equal stays s of n states the rate forgets itself at n / ((n - 1) s), and its variance is that of
    // the three rates.
    let (forgetting, mean, variance) = (15.0_f64, 40.0, 1_400.0);
    let correlated = 1.0 / forgetting - (1.0 - (-forgetting).exp()) / forgetting.powi(2);
    assert_dispersion(&counts, mean, 1.0 + 2.0 * variance * correlated / mean);
}

#[test]
fn modulated_arrivals_that_nobody_has_checked_are_refused_or_empty() {
    assert_eq!(modulated_counts(&[(None, 100), (None, 100)], 1), [0.0]);
    assert_eq!(modulated_counts(&[(Some(9.0), 100)], 1), [0.0]);
    let state = PoissonState {
        rate: Rate::per_second(1.0),
        mean_stay: Duration::ZERO,
    };
    let states = vec![state; 2];
    let service = service(&[(
        "t",
        Task::of(Arrivals::MarkovModulatedPoisson { states }, one_ms()),
    )]);
    let refused = releases(&service, ms(1), 1, &InputFiles::default());
    assert!(
        matches!(refused, Err(WorkloadError::ZeroGap { .. })),
        "{refused:?}"
    );
}

#[test]
fn another_task_or_client_changes_no_jobs_but_its_own() {
    let alone = all(&service(&[("a", poisson_task(500.0))]), ms(2_000), 5);
    let mut more_clients = poisson_task(500.0);
    more_clients.clients = 3;
    let both = service(&[("a", more_clients), ("b", poisson_task(900.0))]);
    let kept: Vec<_> = all(&both, ms(2_000), 5)
        .into_iter()
        .filter(|r| r.task == "a" && r.client == 0)
        .collect();
    assert_eq!(alone, kept);
}

#[test]
fn traces_and_samples_come_from_the_inputs() {
    let arrivals = Arrivals::Trace {
        file: "arrivals.txt".into(),
    };
    let execution = ExecutionTime::Samples {
        file: "times.csv".into(),
    };
    let service = service(&[("t", Task::of(arrivals, execution))]);
    assert!(matches!(
        releases(&service, ms(100), 1, &InputFiles::default()),
        Err(WorkloadError::InputMissing { .. })
    ));
    let mut inputs = InputFiles::default();
    let job = |at| TracedJob {
        release: ms(at),
        execution: None,
    };
    inputs.insert_trace("arrivals.txt", [4, 50, 200].map(job).to_vec());
    let counted = |value, count| SampleCount { value, count };
    inputs.insert_samples("times.csv", vec![counted(ms(1), 3), counted(ms(2), 1)]);
    let jobs = releases(&service, ms(100), 1, &inputs).unwrap();
    let times: Vec<_> = jobs.iter().map(|r| r.at.as_nanos()).collect();
    assert_eq!(times, [4_000_000, 50_000_000]);
    assert!(
        jobs.iter()
            .all(|r| [Some(ms(1)), Some(ms(2))].contains(&r.execution))
    );
}

#[test]
fn impossible_tasks_are_named() {
    let periodic = Arrivals::Periodic {
        period: Duration::ZERO,
        offset: Duration::ZERO,
    };
    let overlapping = Arrivals::Bursts {
        jobs: 3,
        spacing: ms(6),
        gaps: Gaps::Uniform {
            min: ms(10),
            max: ms(20),
        },
        offset: Duration::ZERO,
    };
    let reversed = Arrivals::Sporadic {
        min_gap: ms(9),
        max_gap: ms(5),
        offset: Duration::ZERO,
    };
    for (arrivals, text) in [
        (periodic, "period must be above zero"),
        (reversed, "min_gap 9ms is above"),
        (overlapping, "(jobs - 1) x spacing 12ms is above gap 10ms"),
    ] {
        let service = service(&[("x", Task::of(arrivals, one_ms()))]);
        let error = releases(&service, ms(100), 1, &InputFiles::default()).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[test]
fn measured_execution_times_replace_described_ones() {
    use tailbound_distribution::{Evidence, Provenance};
    let mut jobs = all(
        &service(&[("a", poisson_task(500.0)), ("b", poisson_task(500.0))]),
        ms(500),
        5,
    );
    let before = jobs.clone();
    let measured = Distribution::from_samples(
        Provenance::new(Evidence::Sample, "execution time", "test"),
        vec![ms(7), ms(8)],
    );
    draw_execution_times(&mut jobs, &[("a".to_string(), measured)].into(), 5).unwrap();
    for (old, new) in before.iter().zip(&jobs) {
        assert_eq!(old.at, new.at);
        match new.task.as_str() {
            "a" => assert!([Some(ms(7)), Some(ms(8))].contains(&new.execution)),
            _ => assert_eq!(old, new),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn sequences_are_sorted_repeatable_and_grow_with_the_horizon(
        seed: u64, rate in 1.0_f64..2_000.0, short in 1_u64..300, more in 0_u64..300,
    ) {
        let state = |rate, mean_stay| PoissonState { rate, mean_stay };
        let states = vec![state(Rate::per_second(rate), ms(40)), state(None, ms(9))];
        let tides = Task::of(Arrivals::MarkovModulatedPoisson { states }, one_ms());
        let service = service(&[("a", poisson_task(rate)), ("b", tides)]);
        let long = all(&service, ms(short + more), seed);
        prop_assert!(long.is_sorted_by_key(|r| r.at));
        prop_assert_eq!(&long, &all(&service, ms(short + more), seed));
        let start = all(&service, ms(short), seed);
        prop_assert_eq!(&start[..], &long[..start.len()]);
    }
}

#[test]
fn jobs_drawn_one_by_one_are_the_listed_ones() {
    let sporadic = Arrivals::Sporadic {
        min_gap: ms(3),
        max_gap: ms(9),
        offset: ms(2),
    };
    let periodic = Arrivals::Periodic {
        period: ms(5),
        offset: ms(0),
    };
    let mut twice = Task::of(periodic, one_ms());
    twice.clients = 2;
    let service = service(&[
        ("b", poisson_task(200.0)),
        ("a", twice),
        ("c", Task::of(sporadic, one_ms())),
    ]);
    let listed = all(&service, ms(2_000), 7);
    let inputs = InputFiles::default();
    let mut drawn = DrawnJobs::new(&service, ms(2_000), 7, &inputs).unwrap();
    let names: Vec<_> = service.tasks.keys().collect();
    for (number, release) in listed.iter().enumerate() {
        let job = JobSource::take(&mut drawn).unwrap();
        assert_eq!(job.number, number as u64);
        assert_eq!(names[job.task], &release.task);
        assert_eq!(job.release, release.at.as_nanos());
        assert_eq!(Some(job.work), release.execution.map(Duration::as_nanos));
    }
    assert_eq!(JobSource::take(&mut drawn), None);
}

/// Jitter longer than the period: each job is late by its own share of it, none before the one in front of it, and all
/// arrive as without.
#[test]
fn jobs_with_jitter_become_ready_within_it_and_in_order() {
    let periodic = Arrivals::Periodic {
        period: ms(5),
        offset: ms(1),
    };
    let on_time = Task::of(periodic.clone(), one_ms());
    let late = Task {
        jitter: ms(12),
        clients: 2,
        ..Task::of(periodic, one_ms())
    };
    let service = service(&[("late", late), ("on time", on_time)]);
    let inputs = InputFiles::default();
    let drawn = |seed, horizon| {
        let mut source = DrawnJobs::new(&service, ms(horizon), seed, &inputs).unwrap();
        std::iter::from_fn(move || JobSource::take(&mut source)).collect::<Vec<Job>>()
    };
    let jobs = drawn(7, 5_000);
    assert!(jobs.is_sorted_by_key(Job::ready));
    assert!(jobs.iter().all(|job| job.ready() < ms(5_000).as_nanos()));
    let of = |task| jobs.iter().filter(move |job| job.task == task);
    assert!(of(1).all(|job| job.delay_ns == 0));
    assert!(of(0).all(|job| job.delay_ns <= ms(12).as_nanos()));
    let mut arrivals: Vec<u64> = of(0).map(|job| job.release).collect();
    arrivals.sort_unstable();
    let expected = (0..).flat_map(|job| [ms(1 + 5 * job).as_nanos(); 2]);
    assert!(arrivals.len() > 1_980);
    assert!(expected.zip(&arrivals).all(|(at, arrival)| at == *arrival));
    // Where no job waits for the one in front, lateness is even; in order it is later.
    let mean = of(0).map(|job| job.delay_ns as f64).sum::<f64>() / of(0).count() as f64;
    assert!((6.2e6..9e6).contains(&mean), "{mean}");
    assert_eq!(jobs, drawn(7, 5_000));
    assert_ne!(jobs, drawn(8, 5_000));
    let longer = drawn(7, 6_000);
    assert_eq!(jobs, longer[..jobs.len()]);
}

#[test]
fn bursts_have_their_jobs_at_their_distance() {
    let arrivals = Arrivals::Bursts {
        jobs: 3,
        spacing: ms(1),
        gaps: Gaps::Uniform {
            min: ms(10),
            max: ms(20),
        },
        offset: ms(4),
    };
    let described = Task::of(arrivals, one_ms());
    let rate = described.mean_rate().unwrap().as_per_second();
    let jobs = all(&service(&[("b", described)]), Duration::from_secs(300), 5);
    // 20,000 bursts of a mean gap of 15 ms; the deviation of their number is some 27.
    assert!(
        (jobs.len() as f64 / 300.0 - rate).abs() < 1.5,
        "{}",
        jobs.len()
    );
    let bursts: Vec<&[Release]> = jobs.chunks_exact(3).collect();
    assert!(bursts[0][0].at >= Instant::ORIGIN.saturating_add(ms(4)));
    for pair in bursts.windows(2) {
        let at = |burst: &[Release], job: usize| burst[job].at.saturating_since(burst[0].at);
        assert_eq!((at(pair[0], 1), at(pair[0], 2)), (ms(1), ms(2)));
        let gap = pair[1][0].at.saturating_since(pair[0][0].at);
        assert!((ms(10)..=ms(20)).contains(&gap));
    }
}

#[test]
fn exponential_gaps_have_a_shortest_and_a_mean() {
    let arrivals = Arrivals::SporadicExponential {
        min_gap: ms(2),
        mean_gap: ms(5),
        offset: Duration::ZERO,
    };
    let jobs = all(
        &service(&[("e", Task::of(arrivals, one_ms()))]),
        Duration::from_secs(300),
        5,
    );
    let mut rests: Vec<f64> = jobs
        .windows(2)
        .map(|pair| pair[1].at.saturating_since(pair[0].at).as_millis_f64() - 2.0)
        .collect();
    rests.sort_by(f64::total_cmp);
    assert!(rests[0] >= 0.0);
    // The greatest distance from the law that one in a thousand right samplers exceeds.
    let count = rests.len() as f64;
    let law = |rest: f64| 1.0 - (-rest / 3.0).exp();
    let gaps = rests.iter().enumerate();
    let gaps = gaps.map(|(index, rest)| (law(*rest) - (index as f64 + 0.5) / count).abs());
    let farthest = gaps.fold(0.0, f64::max) * count.sqrt();
    assert!(count > 50_000.0 && farthest < 1.95, "{farthest}");
}

#[test]
fn histograms_are_drawn_bin_by_bin() {
    let us = Duration::from_micros;
    let bin = |from, to, count| Bin {
        from: us(from),
        to: us(to),
        count,
    };
    let bins = vec![bin(0, 100, 3), bin(200, 300, 1), bin(500, 600, 0)];
    let arrivals = Arrivals::Periodic {
        period: ms(1),
        offset: Duration::ZERO,
    };
    let inline = ExecutionTime::Histogram {
        bins: bins.clone(),
        file: None,
    };
    let from_file = ExecutionTime::Histogram {
        bins: Vec::new(),
        file: Some("h.csv".into()),
    };
    let mut inputs = InputFiles::default();
    inputs.insert_histogram("h.csv", bins);
    let drawn = |time| {
        let service = service(&[("h", Task::of(arrivals.clone(), time))]);
        releases(&service, Duration::from_secs(40), 3, &inputs).unwrap()
    };
    let jobs = drawn(inline);
    assert_eq!(jobs, drawn(from_file));
    let times: Vec<Duration> = jobs.iter().map(|job| job.execution.unwrap()).collect();
    let within = |from, to| {
        times
            .iter()
            .filter(|time| (us(from)..=us(to)).contains(time))
            .count()
    };
    assert_eq!(within(0, 100) + within(200, 300), 40_000);
    // 30,000 expected, with a deviation of 87; halves of a bin, 15,000 with 97.
    assert!(within(0, 100).abs_diff(30_000) < 400, "{}", within(0, 100));
    assert!(within(0, 50).abs_diff(15_000) < 450, "{}", within(0, 50));
}

#[test]
fn traced_jobs_keep_their_own_execution_times() {
    let arrivals = Arrivals::Trace {
        file: "jobs.csv".into(),
    };
    let service = service(&[("t", Task::of(arrivals, ExecutionTime::Trace {}))]);
    let job = |release, execution| TracedJob {
        release: ms(release),
        execution,
    };
    let mut inputs = InputFiles::default();
    inputs.insert_trace("jobs.csv", vec![job(9, Some(ms(3))), job(4, Some(ms(2)))]);
    let jobs = releases(&service, ms(100), 1, &inputs).unwrap();
    let pairs: Vec<_> = jobs
        .iter()
        .map(|job| (job.at.as_nanos(), job.execution.unwrap()))
        .collect();
    assert_eq!(pairs, [(4_000_000, ms(2)), (9_000_000, ms(3))]);
    inputs.insert_trace("jobs.csv", vec![job(4, Some(ms(2))), job(9, None)]);
    assert!(matches!(
        releases(&service, ms(100), 1, &inputs),
        Err(WorkloadError::ExecutionTimeUnknown { .. })
    ));
}
