//! Prediction bands, their corrections, and intervals of measured quantiles.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use tailbound_analysis::{ServiceQuery, SharpPoints, predict_at};
use tailbound_assessment::band::{
    BAND_COVERAGE, BandCorrection, BandError, BandQuery, FailedAssumption, Forecast, IntervalQuery,
    LateLook, PastQuantile, PredictionBand, ProcessRound, RequestTime, RunRecord, RunSetting,
    ServiceProcess, SupplyProcess, failed_assumptions, kept_share, measured_intervals,
    predict_band,
};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{
    Arrivals, ExecutionTime, InputFiles, Percentile, ReservationServer, Service, Slo, Task,
};
use tailbound_simulator::workload::{Release, releases};
use tailbound_time::{Duration, Instant};

const SERVER: ReservationServer = ReservationServer::Deferrable {
    budget: Duration::from_millis(14),
    period: Duration::from_millis(20),
};

fn service() -> Service {
    let task = Task::of(
        Arrivals::Poisson {
            rate: "80/s".parse().unwrap(),
        },
        ExecutionTime::Calibrated { expected: None },
    );
    Service::of("d", "unix:s", BTreeMap::from([("work".to_owned(), task)]))
}

fn request(busy_us: u64) -> RequestTime {
    RequestTime {
        busy: Duration::from_micros(busy_us),
        beside: Duration::from_micros(100),
        asked: Duration::ZERO,
    }
}

/// Rounds of 20 requests two seconds apart, each with requests of one length.
fn process(busy_us: &[u64]) -> ServiceProcess {
    let rounds = busy_us.iter().enumerate().map(|(index, &busy)| {
        let begin = Duration::from_secs(2 * index as u64);
        ProcessRound {
            begin,
            end: begin.saturating_add(Duration::from_secs(1)),
            tasks: BTreeMap::from([("work".to_owned(), vec![request(busy); 20])]),
        }
    });
    ServiceProcess::new(rounds.collect())
}

fn setting<'a>(
    service: &'a Service,
    process: &'a ServiceProcess,
    supply: Option<&'a SupplyProcess>,
) -> RunSetting<'a> {
    RunSetting {
        name: "service",
        service,
        server: SERVER,
        process,
        supply,
        warm_up: Duration::from_secs(1),
        duration: Duration::from_secs(20),
    }
}

fn planned(service: &Service, seconds: u64) -> Vec<Release> {
    releases(
        service,
        Duration::from_secs(seconds),
        7,
        &InputFiles::default(),
    )
    .unwrap()
}

fn query<'a>(setting: RunSetting<'a>, releases: &'a [Release]) -> BandQuery<'a> {
    BandQuery {
        setting,
        releases,
        promises: &[],
        runs: 60,
        coverage: BAND_COVERAGE,
        seed: 3,
        earlier: &[],
    }
}

fn band(process: &ServiceProcess, supply: Option<&SupplyProcess>) -> PredictionBand {
    let service = service();
    let releases = planned(&service, 21);
    predict_band(&query(setting(&service, process, supply), &releases)).unwrap()
}

/// On a host without phases and stalls the band of a long run closes around the exact answer.
#[test]
fn without_phases_and_stalls_the_band_holds_the_exact_answer() {
    let (service, process) = (service(), process(&[4_200; 10]));
    let releases = planned(&service, 401);
    let long = RunSetting {
        duration: Duration::from_secs(400),
        ..setting(&service, &process, None)
    };
    let band = predict_band(&BandQuery {
        runs: 20,
        ..query(long, &releases)
    })
    .unwrap();
    let times = Distribution::from_samples(
        Provenance::new(Evidence::Estimate, "execution time", "constant"),
        vec![Duration::from_micros(4_200)],
    );
    let exact = predict_at(
        &ServiceQuery {
            name: "service",
            service: &service,
            server: SERVER,
            execution_times: BTreeMap::from([("work".to_owned(), times)]),
            dispatch_overhead: Duration::from_micros(100),
        },
        &SharpPoints::default(),
    )
    .unwrap();
    for percentile in [50.0, 90.0, 95.0] {
        let exact = exact.overall.quantile(percentile / 100.0).unwrap();
        let exact = exact.high.unwrap().as_secs_f64();
        let median = band.quantile(percentile).unwrap().median.as_secs_f64();
        // One draw of the arrivals: 32,000 requests, whose p95 scatters by some 5% from draw to draw.
        assert!(
            (median / exact - 1.0).abs() < 0.1,
            "p{percentile}: {median} {exact}"
        );
    }
    assert_eq!(band.distribution.provenance.evidence, Evidence::Band);
}

/// The arrivals are those of the run, the same for each draw: without phases and stalls only the phase of
/// the budget's grid is left to scatter.
#[test]
fn phases_and_stalls_widen_a_band_and_are_named() {
    let calm = band(&process(&[4_200; 15]), None);
    let levels: Vec<u64> = (0..15).map(|round| 3_900 + 300 * (round % 3)).collect();
    let phases = band(&process(&levels), None);
    let late = (0..30).map(|index| LateLook {
        due: Duration::from_millis(1_000 * index + 500),
        late: Duration::from_millis(20),
    });
    let supply = SupplyProcess {
        span: Duration::from_secs(30),
        distance: Duration::from_millis(2),
        late: late.collect(),
    };
    let stalls = band(&process(&[4_200; 15]), Some(&supply));
    for percentile in [90.0, 95.0, 99.0] {
        let at = |band: &PredictionBand| band.quantile(percentile).unwrap().clone();
        let width =
            |band: &PredictionBand| at(band).high.as_secs_f64() / at(band).low.as_secs_f64();
        assert!(width(&phases) > width(&calm), "p{percentile}");
        assert!(at(&stalls).median > at(&calm).median);
        assert_eq!(at(&calm).stalls_add_ns, 0);
        assert!(at(&stalls).stalls_add_ns > 0);
    }
    // A look of 20 ms stands for a stall of 21 ms: it began within the 2 ms before.
    assert!((supply.lost_share() - 0.021).abs() < 1e-9);
    // Nothing lost is no negative share, which tables would show with its sign.
    let calm = SupplyProcess {
        late: Vec::new(),
        ..supply
    };
    assert!(calm.lost_share().is_sign_positive());
    let (least, most) = stalls.lost_share;
    assert!(least < 0.021 && 0.021 < most, "{least} {most}");
}

#[test]
fn looks_stand_for_as_much_lost_time_as_there_was() {
    // Stalls of 1 ms are seen at every second look of 2 ms, late by 0.5 ms on average.
    let late = (0..500).map(|index| LateLook {
        due: Duration::from_millis(20 * index),
        late: Duration::from_micros(500),
    });
    let supply = SupplyProcess {
        span: Duration::from_secs(10),
        distance: Duration::from_millis(2),
        late: late.collect(),
    };
    // 1,000 stalls of 1 ms in 10 s.
    assert!(
        (supply.lost_share() - 0.1).abs() < 1e-9,
        "{}",
        supply.lost_share()
    );
    assert!(supply.lost_between(Duration::from_millis(20), Duration::from_millis(21)));
    assert!(!supply.lost_between(Duration::from_millis(21), Duration::from_millis(39)));
}

fn past(measured_us: u64) -> PastQuantile {
    PastQuantile {
        percentile: 99.0,
        low: Duration::from_micros(8_000),
        median: Duration::from_micros(10_000),
        high: Duration::from_micros(12_500),
        measured: Duration::from_micros(measured_us),
    }
}

/// The factor is the conformal quantile of the host's scores and of ten that a host as the band takes it would have,
/// the largest of which is ln 39 / ln 19.
#[test]
fn a_correction_is_the_conformal_quantile_of_earlier_scores() {
    assert_eq!(BandCorrection::of(&[], 99.0, 0.9), None);
    let expected = 39_f64.ln() / 19_f64.ln();
    let factor = |earlier: &[PastQuantile]| {
        let correction = BandCorrection::of(earlier, 99.0, 0.9).unwrap();
        assert_eq!(correction.earlier, earlier.len());
        correction.factor
    };
    // Of eleven scores the largest counts: (11 + 1) 0.9 = 10.8.
    assert!((factor(&[past(10_000)]) - expected).abs() < 1e-6);
    // 15.625 ms lies twice as far from the median as the upper end, by the logarithm.
    assert!((factor(&[past(15_625)]) - 2.0).abs() < 1e-6);
    // One bad run of ten: of twenty scores the second largest counts, (20 + 1) 0.9 = 18.9.
    let mut earlier = vec![past(10_000); 9];
    earlier.push(past(1_000_000));
    assert!((factor(&earlier) - expected).abs() < 1e-6);
    let correction = BandCorrection::of(&earlier, 99.0, 0.9).unwrap();
    assert!((correction.held - 0.9).abs() < 1e-9, "{correction:?}");
    assert_eq!(BandCorrection::of(&earlier, 95.0, 0.9), None);
    // Three of them are no accident.
    earlier.extend(vec![past(15_625); 3]);
    assert!((factor(&earlier) - 2.0).abs() < 1e-6);
}

#[test]
fn a_band_with_a_history_is_stretched_and_says_so() {
    let service = service();
    let releases = planned(&service, 21);
    let process = process(&[4_000, 4_200, 4_400, 4_100, 4_300]);
    let plain = query(setting(&service, &process, None), &releases);
    let earlier = vec![past(15_625); 9];
    let corrected = predict_band(&BandQuery {
        earlier: &earlier,
        ..plain
    })
    .unwrap();
    let p99 = corrected.quantile(99.0).unwrap();
    assert!(p99.low < p99.raw_low && p99.high > p99.raw_high);
    assert_eq!(p99.correction.unwrap().held, 0.0);
    let said = corrected.distribution.provenance.assumptions.join("\n");
    assert!(
        said.contains("corrected by 9 earlier runs of this host"),
        "{said}"
    );
    let plain = predict_band(&plain).unwrap();
    let said = plain.distribution.provenance.assumptions.join("\n");
    assert!(said.contains("not corrected"), "{said}");
    assert_eq!(plain.quantile(99.0).unwrap().high, p99.raw_high);
}

#[test]
fn promises_have_a_probability_and_a_forecast() {
    let (service, process) = (service(), process(&[4_000, 4_200, 4_400, 4_100, 4_300]));
    let releases = planned(&service, 21);
    let plain = query(setting(&service, &process, None), &releases);
    let p99 = predict_band(&plain)
        .unwrap()
        .quantile(99.0)
        .unwrap()
        .clone();
    let promise = |latency| Slo {
        percentile: Percentile(99.0),
        latency,
        task: None,
    };
    let promises = [
        promise(p99.low / 2),
        promise(p99.median),
        promise(p99.high * 2),
    ];
    let band = predict_band(&BandQuery {
        promises: &promises,
        ..plain
    })
    .unwrap();
    let forecasts: Vec<Forecast> = band.promises.iter().map(|one| one.forecast).collect();
    assert_eq!(
        forecasts,
        [Forecast::WillMiss, Forecast::TooClose, Forecast::WillKeep]
    );
    assert!(band.promises[1].kept > 0.4 && band.promises[1].kept < 0.7);
}

/// One promise has the share that the band tells of it; several together have no more than the least of theirs, and
/// no less than what is left if each is missed in runs of its own.
#[test]
fn the_share_of_runs_that_keep_all_promises_is_that_of_the_band() {
    let (service, process) = (service(), process(&[4_000, 4_200, 4_400, 4_100, 4_300]));
    let releases = planned(&service, 21);
    let earlier = vec![past(15_625); 9];
    let plain = BandQuery {
        earlier: &earlier,
        ..query(setting(&service, &process, None), &releases)
    };
    let band = predict_band(&plain).unwrap();
    let slo = |percentile: f64| Slo {
        percentile: Percentile(percentile),
        latency: band.quantile(percentile).unwrap().median,
        task: None,
    };
    let promises = [slo(50.0), slo(99.0)];
    let shares: Vec<f64> = promises
        .iter()
        .map(|slo| {
            let promises = [slo.clone()];
            let query = BandQuery {
                promises: &promises,
                ..plain
            };
            let kept = predict_band(&query).unwrap().promises[0].kept;
            assert_eq!(kept_share(&query), Ok(kept));
            kept
        })
        .collect();
    let together = kept_share(&BandQuery {
        promises: &promises,
        ..plain
    });
    let together = together.unwrap();
    assert!(
        together < shares[0].min(shares[1]),
        "{together} of {shares:?}"
    );
    assert!(
        together >= shares[0] + shares[1] - 1.0,
        "{together} of {shares:?}"
    );
}

#[test]
fn a_task_that_nobody_has_measured_is_named() {
    let service = service();
    let releases = planned(&service, 21);
    let nothing = ServiceProcess::default();
    let error = predict_band(&query(setting(&service, &nothing, None), &releases)).unwrap_err();
    assert!(matches!(error, BandError::NotCalibrated { .. }), "{error}");
    let process = process(&[4_200; 5]);
    let error = predict_band(&query(setting(&service, &process, None), &[])).unwrap_err();
    assert!(error.to_string().contains("lengthen the run"), "{error}");
}

#[test]
fn a_missed_prediction_names_the_assumption_that_failed() {
    let band = band(&process(&[4_000, 4_200, 4_400, 4_100, 4_300]), None);
    let p99 = band.quantile(99.0).unwrap();
    let above = p99.high * 2;
    let none = RunRecord::default();
    assert!(failed_assumptions(&band, p99, p99.median, &none).is_empty());
    let all = |record| failed_assumptions(&band, p99, above, &record);
    assert_eq!(all(none), [FailedAssumption::Unexplained]);
    let slow = all(RunRecord {
        level: Some(1.3),
        ..none
    });
    assert!(
        matches!(slow[..], [FailedAssumption::Phase { .. }]),
        "{slow:?}"
    );
    assert!(
        slow[0].words().contains("1.30 times as long"),
        "{}",
        slow[0].words()
    );
    let supply = SupplyProcess {
        span: Duration::from_secs(20),
        distance: Duration::from_millis(2),
        late: vec![LateLook {
            due: Duration::from_secs(5),
            late: Duration::from_millis(300),
        }],
    };
    let stalled = all(RunRecord {
        supply: Some(&supply),
        ..none
    });
    assert!(
        matches!(stalled[..], [FailedAssumption::Stall { .. }]),
        "{stalled:?}"
    );
    let late = all(RunRecord {
        lateness: Some(above / 2),
        ..none
    });
    assert!(
        matches!(late[..], [FailedAssumption::GeneratorLate { .. }]),
        "{late:?}"
    );
    let overrun = all(RunRecord {
        overrun: Some(Duration::from_millis(3)),
        budget: Some(Duration::from_millis(14)),
        ..none
    });
    assert!(
        matches!(overrun[..], [FailedAssumption::Overrun { .. }]),
        "{overrun:?}"
    );
}

/// The first-come queue of a run, on a CPU of its own: Lindley's recursion, shared with nothing.
fn measured(seed: u64, seconds: u64) -> Distribution {
    let service = service();
    let releases = releases(
        &service,
        Duration::from_secs(seconds),
        seed,
        &InputFiles::default(),
    )
    .unwrap();
    let mut free = Instant::ORIGIN;
    let latencies = releases.iter().map(|release| {
        free = free
            .max(release.at)
            .saturating_add(Duration::from_micros(8_000));
        free.saturating_since(release.at)
    });
    let provenance = Provenance::new(Evidence::Sample, "latency", "Lindley");
    Distribution::from_samples(provenance, latencies.collect())
}

/// The question for intervals of a run of so many seconds on a CPU of its own.
fn interval_query<'a>(
    service: &'a Service,
    process: &'a ServiceProcess,
    (measured, seconds): (&'a Distribution, u64),
) -> IntervalQuery<'a> {
    static NO_FILES: LazyLock<InputFiles> = LazyLock::new(InputFiles::default);
    IntervalQuery {
        setting: RunSetting {
            server: ReservationServer::Dedicated,
            duration: Duration::from_secs(seconds),
            ..setting(service, process, None)
        },
        inputs: &NO_FILES,
        measured,
        tasks: &[],
        percentiles: &[],
        confidence: 0.95,
        runs: 60,
        seed: 1,
    }
}

/// Order statistics take latencies for independent: their intervals are too narrow for a queue. Those that
/// are assisted by the queue hold the quantile of a run a hundred times as long.
#[test]
fn intervals_of_measured_quantiles_hold_where_order_statistics_do_not() {
    let (service, process) = (service(), process(&[8_000; 10]));
    let truth = measured(1_000, 4_000);
    let (mut held, mut plain_held, mut all) = (0, 0, 0);
    for seed in 0..12 {
        let run = measured(seed, 40);
        let query = IntervalQuery {
            percentiles: &[90.0, 95.0],
            runs: 100,
            seed,
            ..interval_query(&service, &process, (&run, 39))
        };
        for interval in measured_intervals(&query).unwrap() {
            let probability = interval.percentile / 100.0;
            let value = truth.quantile(probability).unwrap().low;
            held +=
                u32::from(interval.low <= value && interval.high.is_none_or(|high| value <= high));
            let plain = run.quantile_interval(probability, 0.95).unwrap().ends();
            plain_held +=
                u32::from(plain.low <= value && plain.high.is_none_or(|high| value <= high));
            all += 1;
        }
    }
    assert!(
        held > all * 8 / 10 && held > plain_held,
        "{held} {plain_held} of {all}"
    );
}

#[test]
fn a_run_that_is_too_short_says_so_and_how_long_it_should_be() {
    let (service, process) = (service(), process(&[8_000; 10]));
    let run = measured(1, 5);
    let query = IntervalQuery {
        percentiles: &[50.0, 99.9],
        runs: 40,
        seed: 1,
        ..interval_query(&service, &process, (&run, 4))
    };
    let intervals = measured_intervals(&query).unwrap();
    assert!(intervals[1].too_short && intervals[1].high.is_none());
    assert!(
        intervals[1].needed > Duration::from_secs(60),
        "{:?}",
        intervals[1]
    );
}

/// On a host where some runs are much longer than the others, what lies between all runs may lie beyond this one.
#[test]
fn an_interval_holds_what_was_measured_and_no_impossible_latency() {
    let mut lengths = vec![7_000; 10];
    lengths[9] = 16_000;
    let (service, process) = (service(), process(&lengths));
    let run = measured(1, 40);
    let query = IntervalQuery {
        percentiles: &[50.0, 90.0, 95.0, 99.0],
        runs: 60,
        seed: 1,
        ..interval_query(&service, &process, (&run, 39))
    };
    for interval in measured_intervals(&query).unwrap() {
        let value = run.quantile(interval.percentile / 100.0).unwrap().low;
        assert!(interval.low <= value && interval.high.is_none_or(|high| value <= high));
        assert!(interval.low >= run.min().unwrap().low, "{interval:?}");
    }
}

/// An interval of a task is of its own latencies, and repetitions with the same arrivals make none narrower.
#[test]
fn intervals_are_of_one_run_however_often_it_was_repeated() {
    let (service, process) = (service(), process(&[8_000; 10]));
    let run = measured(1, 40);
    let twice = tailbound_distribution::merge(&[&run, &run]).unwrap();
    let intervals = |measured: &Distribution| {
        measured_intervals(&IntervalQuery {
            percentiles: &[95.0],
            runs: 60,
            tasks: &[("work", measured)],
            seed: 1,
            ..interval_query(&service, &process, (measured, 39))
        })
        .unwrap()
    };
    let once = intervals(&run);
    assert_eq!(once, intervals(&twice));
    let tasks: Vec<Option<&str>> = once.iter().map(|one| one.task.as_deref()).collect();
    assert_eq!(tasks, [None, Some("work")]);
    // The service has no other task.
    assert_eq!(once[0].ends(), once[1].ends());
}

#[test]
fn a_run_of_another_queue_has_no_interval() {
    let (service, process) = (service(), process(&[2_000; 10]));
    let run = measured(1, 40);
    let query = IntervalQuery {
        percentiles: &[90.0],
        runs: 20,
        seed: 1,
        ..interval_query(&service, &process, (&run, 39))
    };
    let error = measured_intervals(&query).unwrap_err();
    assert_eq!(error, BandError::OtherQueue { factor: 1.5 });
}
