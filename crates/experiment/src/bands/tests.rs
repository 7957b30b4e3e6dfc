#![allow(clippy::unwrap_used)]

use tailbound_measurement::{CalibrationPlan, Endpoint, SupplyGap};

use super::*;

fn at(ms: u64) -> Instant {
    Instant::from_nanos(ms * 1_000_000)
}

fn us(length: u64) -> Duration {
    Duration::from_micros(length)
}

/// A round that begins at an instant, with requests of 1.2 ms apart by 100 ms, the second of them stalled.
fn round(begin_ms: u64) -> CalibrationRound {
    let requests = (0..3).map(|index| RoundRequest {
        sent: at(begin_ms + 100 * index),
        round_trip: us(1_200 + 10 * index),
        process: Some(us(1_000)),
        asked: us(900),
        stalled: index == 1,
    });
    CalibrationRound {
        tasks: [("get".to_owned(), requests.collect())].into(),
        process_told: true,
        ..CalibrationRound::default()
    }
}

fn calibration(rounds: &[CalibrationRound]) -> Calibration {
    let text = r#"
        domain = "store"
        protocol = "synthetic"
        endpoint = "unix:/nowhere"
        tasks.get = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "constant", value = "900us" } }
    "#;
    let service: Service = toml_service(text);
    let endpoint = Endpoint::Unix("/nowhere".into());
    Calibration::of_rounds(&CalibrationPlan::new("store", service, endpoint), rounds)
}

fn toml_service(text: &str) -> Service {
    let text = format!(
        "schema_version = 1\nname = \"s\"\n[hosts.here]\ncpus = [0]\n[domains.store]\nkind = \"process\"\n\
         builtin = \"synthetic-service\"\n[services.store]\n{text}"
    );
    let loaded = tailbound_analysis::FORMAT.load_text(text, "store.toml");
    loaded.unwrap().description.services["store"].clone()
}

#[test]
fn a_process_keeps_the_instants_of_rounds_and_leaves_out_stalled_requests() {
    let rounds = [round(5_000), round(7_000)];
    let process = service_process(&calibration(&rounds), &rounds);
    let begins: Vec<Duration> = process.rounds().iter().map(|one| one.begin).collect();
    assert_eq!(begins, [Duration::ZERO, Duration::from_secs(2)]);
    assert_eq!(process.rounds()[0].end, us(201_220));
    let requests = &process.rounds()[0].tasks["get"];
    let time = |busy, beside| RequestTime {
        busy: us(busy),
        beside: us(beside),
        asked: us(900),
    };
    assert_eq!(*requests, [time(1_000, 200), time(1_000, 220)]);
}

#[test]
fn where_requests_go_one_at_a_time_the_whole_trip_keeps_the_service_busy() {
    let rounds = [round(0)];
    let process = service_process(&calibration(&rounds), &rounds).of_whole_trips();
    let requests = &process.rounds()[0].tasks["get"];
    assert_eq!((requests[1].busy, requests[1].beside), (us(1_220), us(0)));
}

#[test]
fn a_supply_counts_from_its_first_look() {
    let trace = SupplyTrace {
        cpu: Cpu(1),
        begin: at(1_000),
        end: at(31_000),
        gaps: vec![SupplyGap {
            due: at(3_000),
            late: us(4_000),
        }],
    };
    let supply = supply_process(&trace);
    assert_eq!(supply.span, Duration::from_secs(30));
    assert_eq!(supply.distance, LOOK_DISTANCE);
    let look = LateLook {
        due: Duration::from_secs(2),
        late: us(4_000),
    };
    assert_eq!(supply.late, [look]);
}
