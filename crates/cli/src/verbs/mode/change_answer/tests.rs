#![allow(clippy::unwrap_used)]

use serde_json::Value;
use tailbound_modes::transition::{Step, StepKind};

use super::example::{completed, given_up};
use super::*;

fn row(cells: [&str; 6]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

#[test]
fn the_parts_of_each_domain_are_told_in_order() {
    let wanted = [
        row(["change", "arm", "send", "10us", "30us", ""]),
        row(["change", "arm", "boost", "12us", "99us", ""]),
        row(["change", "arm", "signal", "40us", "50us", ""]),
        row(["change", "arm", "receive", "90us", "20us", ""]),
        row([
            "change",
            "arm",
            "change",
            "112us",
            "20us",
            "in force after 5ms",
        ]),
        row([
            "change",
            "arm",
            "settled",
            "133us",
            "-",
            "new reservation, new tasks",
        ]),
        row([
            "change",
            "camera",
            "change",
            "134us",
            "30us",
            "in force after 10ms",
        ]),
        row([
            "change",
            "camera",
            "settled",
            "165us",
            "-",
            "new reservation",
        ]),
    ];
    assert_eq!(rows(&completed()), wanted);
}

#[test]
fn people_read_how_it_ended_and_when_it_holds() {
    let said = text(&completed());
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "run -> calibrate: completed");
    assert_eq!(
        lines[1],
        "took 165us; the last reservation is in force 10ms after the request"
    );
    let said = text(&given_up());
    assert!(said.contains("given up: domain \"arm\""), "{said}");
    assert!(said.contains("old reservation, tasks not known"), "{said}");
    assert!(
        said.contains("taken back, calibrate -> run: completed"),
        "{said}"
    );
    assert!(said.ends_with("nothing had to change\n"), "{said}");
}

#[test]
fn what_failed_is_told_with_its_reason() {
    let mut report = given_up();
    report.timeline.steps[1].kind = StepKind::Failed {
        reason: "no such task".into(),
        rolled_back: true,
    };
    let failed = &rows(&report)[0];
    assert_eq!(failed[2..5], ["answer", "10us", "100ms"]);
    assert!(
        failed[5].contains("no such task; its tasks are as before"),
        "{failed:?}"
    );
    report.timeline.steps[1].kind = StepKind::InterfaceRefused {
        reason: "too much".into(),
    };
    let refused = &rows(&report)[0];
    assert_eq!(
        (refused[2].as_str(), refused[5].as_str()),
        ("change", "refused: too much")
    );
}

/// Every number is a whole one whose name ends in `_ns`, and no text is a length of time.
fn check_units(value: &Value, key: &str) {
    match value {
        Value::Object(entries) => entries.iter().for_each(|(key, one)| check_units(one, key)),
        Value::Array(items) => items.iter().for_each(|one| check_units(one, key)),
        Value::Number(number) => {
            assert!(number.is_u64() && key.ends_with("_ns"), "{key}: {number}");
        }
        Value::String(text) if !["message", "remark"].contains(&key) => {
            assert!(text.parse::<Duration>().is_err(), "{key}: {text}");
        }
        _ => {}
    }
}

#[test]
fn json_has_the_whole_timeline_in_nanoseconds() {
    for report in [completed(), given_up()] {
        let json = serde_json::to_value(for_programs(&report)).unwrap();
        check_units(&json, "");
        let steps = json["timeline"]["steps"].as_array().unwrap();
        assert_eq!(steps.len(), report.timeline.steps.len());
        for (step_json, step) in steps.iter().zip(&report.timeline.steps) {
            assert_eq!(step_json["at_ns"], step.at.as_nanos());
            assert_eq!(step_json["domain"], step.domain);
            let read: Step = serde_json::from_value(step_json.clone()).unwrap();
            assert_eq!(read, *step, "the names are those of the wire");
        }
        assert_eq!(json["is_there"], report.is_there());
    }
    let json = serde_json::to_value(for_programs(&given_up())).unwrap();
    assert_eq!(json["causes"][0]["cause"], "no-answer");
    assert_eq!(json["causes"][0]["waited_ns"], 100_000_000);
    assert_eq!(json["rolled_back"]["ending"], "completed");
    let json = serde_json::to_value(for_programs(&completed())).unwrap();
    assert_eq!(
        (&json["latency_ns"], &json["in_force_after_ns"]),
        (&165_000.into(), &10_000_000.into())
    );
    assert_eq!(json["domains"]["arm"]["interface"], "new");
}
