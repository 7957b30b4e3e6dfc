//! The modelled controller against the scenarios that all controllers pass, as far as a model without a clock can.

use std::fs;
use std::path::Path;

use serde_json::Value;
use tailbound_balance::LevelController;
use tailbound_time::Duration;

const SECOND_NS: i64 = 1_000_000_000;

#[test]
fn the_modelled_controller_passes_the_scenarios() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference/service-level-scenarios.json");
    let scenarios: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let mut played = 0;
    for scenario in scenarios["scenarios"].as_array().unwrap() {
        if is_playable(scenario) {
            play(scenario);
            played += 1;
        }
    }
    assert!(played >= 12, "{played}");
}

/// Whether a scenario has the usual settings, a clock that goes forwards without long gaps, and no requests that overlap.
fn is_playable(scenario: &Value) -> bool {
    let settings = &scenario["settings"];
    let usual =
        settings["interval_ns"] == SECOND_NS && settings["pole"] == 0.9 && settings["rise"] == 0.1;
    let steps = scenario["steps"].as_array().unwrap();
    let plain = steps
        .iter()
        .all(|step| step.get("begin").is_none() && step["observe_ns"].as_i64().unwrap_or(0) >= 0);
    let times: Vec<i64> = steps
        .iter()
        .map(|step| step["at_ns"].as_i64().unwrap())
        .collect();
    let gaps = times
        .windows(2)
        .all(|pair| (0..=5 * SECOND_NS).contains(&(pair[1] - pair[0])));
    usual && plain && gaps && scenario["start_ns"] == 0
}

fn play(scenario: &Value) {
    let name = &scenario["name"];
    let deadline = Duration::from_nanos(scenario["settings"]["deadline_ns"].as_u64().unwrap());
    let level = scenario["settings"]["initial_level"].as_f64().unwrap();
    let mut controller = LevelController::new(deadline, level);
    let mut next_ns = SECOND_NS;
    for step in scenario["steps"].as_array().unwrap() {
        while step["at_ns"].as_i64().unwrap() >= next_ns {
            controller.end_interval(None);
            next_ns += SECOND_NS;
        }
        if let Some(latency) = step["observe_ns"].as_u64() {
            controller.observe(Duration::from_nanos(latency));
        }
        let Some(expected) = step.get("expect") else {
            continue;
        };
        let level = expected["service_level"].as_f64().unwrap();
        assert!(
            (controller.level() - level).abs() < 1e-9,
            "{name}: {} for {level}",
            controller.level()
        );
        match (
            controller.matching_value(None),
            expected["matching_value"].as_f64(),
        ) {
            (Some(one), Some(other)) => assert!((one - other).abs() < 1e-9, "{name}"),
            (one, other) => assert_eq!(one, other, "{name}"),
        }
    }
}
