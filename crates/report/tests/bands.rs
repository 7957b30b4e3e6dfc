//! Prediction bands in the document and the tables of a run.

use std::collections::BTreeMap;

use serde_json::json;
use tailbound_assessment::band::{
    BAND_COVERAGE, BandQuery, FailedAssumption, ProcessRound, RequestTime, RunRecord, RunSetting,
    ServiceProcess, predict_band,
};
use tailbound_distribution::{Distribution, Evidence, Provenance};
use tailbound_model::{
    Arrivals, Cpu, ExecutionTime, InputFiles, Percentile, ReservationServer, Service, Slo, Task,
};
use tailbound_report::{
    BandsSection, HistoryNote, ReportSection, RunReport, ServiceBand, Table, tables,
};
use tailbound_simulator::workload::releases;
use tailbound_time::Duration;

/// The band of a service that takes about a millisecond, with a promise that is far away.
fn band() -> ServiceBand {
    let task = Task::of(
        Arrivals::Poisson {
            rate: "100/s".parse().unwrap(),
        },
        ExecutionTime::Calibrated { expected: None },
    );
    let service = Service::of("d", "unix:s", BTreeMap::from([("get".to_owned(), task)]));
    let rounds = (0..10_u64).map(|index| ProcessRound {
        begin: Duration::from_secs(index),
        end: Duration::from_millis(1_000 * index + 500),
        tasks: BTreeMap::from([(
            "get".to_owned(),
            vec![
                RequestTime {
                    busy: Duration::from_micros(1_000 + 20 * (index % 3)),
                    beside: Duration::from_micros(50),
                    asked: Duration::ZERO,
                };
                20
            ],
        )]),
    });
    let process = ServiceProcess::new(rounds.collect());
    let planned = releases(&service, Duration::from_secs(5), 7, &InputFiles::default());
    let promises = [Slo {
        percentile: Percentile(99.0),
        latency: Duration::from_secs(1),
        task: None,
    }];
    let query = BandQuery {
        setting: RunSetting {
            name: "store",
            service: &service,
            server: ReservationServer::Deferrable {
                budget: Duration::from_millis(4),
                period: Duration::from_millis(10),
            },
            process: &process,
            supply: None,
            warm_up: Duration::from_secs(1),
            duration: Duration::from_secs(4),
        },
        releases: &planned.unwrap(),
        promises: &promises,
        runs: 60,
        coverage: BAND_COVERAGE,
        seed: 3,
        earlier: &[],
    };
    ServiceBand {
        variant: "reserved".into(),
        service: "store".into(),
        cpu: Some(Cpu(1)),
        band: predict_band(&query).unwrap(),
        runs: Vec::new(),
        history: Some(HistoryNote {
            file: "/var/lib/history.jsonl".into(),
            earlier: 0,
        }),
    }
}

fn measured(latency: impl Fn(u64) -> Duration) -> Distribution {
    let provenance = Provenance::new(Evidence::Sample, "latency", "measured");
    Distribution::from_samples(provenance, (0..400).map(latency).collect())
}

/// A run in the middle of the band, and one whose every request took a second.
fn judged() -> ServiceBand {
    let mut one = band();
    let at = |percentile| one.band.quantile(percentile).unwrap().median;
    let (p50, p90, p95, p99, most) = (at(50.0), at(90.0), at(95.0), at(99.0), at(99.9));
    let middle = measured(|rank| match rank {
        0..=199 => p50,
        200..=359 => p90,
        360..=379 => p95,
        380..=395 => p99,
        _ => most,
    });
    one.judge(&middle, &RunRecord::default());
    let slow = RunRecord {
        level: Some(1.4),
        ..RunRecord::default()
    };
    one.judge(&measured(|_| Duration::from_secs(1)), &slow);
    one
}

#[test]
fn a_run_is_held_against_its_band_and_a_miss_names_what_failed() {
    let one = judged();
    let [inside, outside] = &one.runs[..] else {
        panic!("two runs");
    };
    assert_eq!((inside.repetition, outside.repetition), (1, 2));
    assert!(
        inside
            .quantiles
            .iter()
            .all(|own| own.held && own.failed.is_empty())
    );
    assert!(!outside.quantiles.is_empty());
    for own in &outside.quantiles {
        assert!(!own.held, "p{}", own.percentile);
        assert!(matches!(own.failed[..], [FailedAssumption::Phase { .. }]));
    }
}

#[test]
fn runs_go_into_the_history_with_what_was_predicted() {
    let one = judged();
    let past = one.past();
    assert_eq!(past.len(), 2);
    assert!(past[0].iter().all(|own| own.held()) && !past[1].iter().any(|own| own.held()));
    let p99 = past[1].iter().find(|own| own.percentile == 99.0).unwrap();
    assert_eq!(p99.measured, Duration::from_secs(1));
    assert_eq!(p99.high, one.band.quantile(99.0).unwrap().raw_high);
}

#[test]
fn percentiles_that_a_run_does_not_know_are_not_judged() {
    let mut one = band();
    let provenance = Provenance::new(Evidence::Sample, "latency", "measured");
    let answered = vec![one.band.quantile(50.0).unwrap().median; 300];
    let lost = vec![Duration::from_secs(1); 100];
    one.judge(
        &Distribution::from_censored(provenance, answered, lost),
        &RunRecord::default(),
    );
    let judged = one.runs[0].quantiles.iter().map(|own| own.percentile);
    assert_eq!(judged.collect::<Vec<f64>>(), [50.0]);
}

fn report(bands: &[ServiceBand]) -> RunReport {
    let mut report = RunReport::default();
    BandsSection::put(&mut report, bands).unwrap();
    report
}

#[test]
fn the_document_keeps_bands_and_refuses_what_is_none() {
    let bands = [judged()];
    let text = report(&bands).to_json().unwrap();
    let read = RunReport::from_json(&text).unwrap();
    assert_eq!(BandsSection::bands(&read), bands);
    assert!(BandsSection.check(&read.sections["bands"]).is_ok());
    assert!(BandsSection.check(&json!([{ "variant": "a" }])).is_err());
    assert!(report(&[]).sections.is_empty());
}

#[test]
fn tables_say_what_was_promised_before_the_run_and_why_a_prediction_missed() {
    let all = tables(&report(&[judged()]), &[&BandsSection]);
    let ids: Vec<&str> = all.iter().map(|table| table.id).collect();
    assert_eq!(ids, ["forecasts", "bands", "failed-assumptions"]);
    for table in &all {
        let whole = |row: &Vec<_>| row.len() == table.columns.len();
        assert!(table.rows.iter().all(whole), "{}", table.title);
    }
    let text = |table: &Table, row: usize, column: usize| table.rows[row][column].text.clone();
    assert_eq!(text(&all[0], 0, 2), "p99 within 1.00 s");
    assert_eq!(text(&all[0], 0, 3), "will keep");
    assert_eq!(text(&all[0], 0, 4), "100%");
    let sources: Vec<String> = (0..3).map(|row| text(&all[1], row, 2)).collect();
    assert_eq!(sources, ["predicted", "run 1", "run 2"]);
    let detail = |row: usize| all[1].rows[row][3].detail.clone().unwrap();
    assert_eq!((detail(1), detail(2)), ("inside".into(), "outside".into()));
    let note = &all[1].note;
    assert!(
        note.contains("not corrected: no earlier run of this host"),
        "{note}"
    );
    assert!(note.contains("kept in /var/lib/history.jsonl"), "{note}");
    let why = text(&all[2], 0, 4);
    assert!(why.contains("phase: requests took 1.40 times"), "{why}");
}
