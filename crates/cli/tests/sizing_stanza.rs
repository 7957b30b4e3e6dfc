//! A reservation that `size` tells to paste is one that `check` takes and that keeps the promise.

use std::path::Path;
use std::process::{Command, Output};

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/size.in");

fn tailbound(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tailbound"))
        .args(arguments)
        .output()
        .unwrap()
}

fn json(output: &Output) -> serde_json::Value {
    let said = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {said}"))
}

/// The description with `stanza` in place of its table of the same name.
fn pasted(text: &str, stanza: &str) -> String {
    let (table, _) = stanza.split_once('\n').unwrap();
    let (before, rest) = text
        .split_once(table)
        .expect("the description has the table");
    let after = rest.split_once("\n\n").map_or("", |(_, after)| after);
    format!("{before}{stanza}\n{after}")
}

/// Sizes a case, pastes what it says, and checks and predicts that.
fn sized_and_pasted(case: &str, period: &str) -> serde_json::Value {
    let file = Path::new(CASES).join(case);
    let path = file.to_str().unwrap();
    let sized = tailbound(&["size", path, "--period", period, "-q", "--format", "json"]);
    assert!(sized.status.success());
    let answer = json(&sized);
    let stanza = answer["sizings"][0]["stanza"].as_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("pasted.toml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&copy, pasted(&text, stanza)).unwrap();
    let copy = copy.to_str().unwrap();
    let checked = tailbound(&["check", "--elsewhere", "-q", copy]);
    assert!(checked.status.success(), "{checked:?}");
    let predicted = [
        "predict",
        copy,
        "--variant",
        "reserved",
        "-q",
        "--format",
        "json",
    ];
    json(&tailbound(&predicted))
}

#[test]
fn a_poisson_service_keeps_its_promise_on_what_is_pasted() {
    let predicted = sized_and_pasted("poisson.toml", "10ms");
    let quantiles = predicted["answers"][0]["quantiles"].as_array().unwrap();
    let p99 = quantiles
        .iter()
        .find(|one| one["percentile"] == 99.0)
        .unwrap();
    assert!(p99["high_ns"].as_u64().unwrap() <= 50_000_000, "{p99}");
}

#[test]
fn periodic_tasks_run_as_on_a_cpu_of_their_own_on_what_is_pasted() {
    let predicted = sized_and_pasted("periodic.toml", "5ms..40ms");
    let answer = &predicted["answers"][0];
    assert!(answer["refused"].is_null(), "{answer}");
    let method = answer["distribution"]["provenance"]["method"]
        .as_str()
        .unwrap();
    assert!(method.contains("the budget is never used up"), "{method}");
}

/// On the calibrated host of the cases of `predict`, with its first promise alone: the budget keeps the promise in as
/// many runs as `size` says, and a budget less by the resolution in too few, both as `predict` tells it.
#[test]
fn a_budget_for_a_share_of_runs_keeps_the_promise_in_that_share() {
    let cases = Path::new(CASES).with_file_name("predict.in");
    let text = std::fs::read_to_string(cases.join("calibrated.toml")).unwrap();
    let (first, others) = text
        .split_once("[[services.store.slos]]\npercentile = 95")
        .unwrap();
    let (_, experiment) = others.split_once("[experiment]").unwrap();
    let text = format!("{first}[experiment]{experiment}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("one.toml");
    let calibration = cases.join("calibrated");
    let of_host = |verb: &str, text: &str, more: &[&str]| {
        std::fs::write(&file, text).unwrap();
        let mut arguments = vec![
            verb,
            file.to_str().unwrap(),
            "--no-history",
            "--duration",
            "3s",
        ];
        arguments.extend([
            "--calibration",
            calibration.to_str().unwrap(),
            "-q",
            "--format",
            "json",
        ]);
        arguments.extend(more);
        json(&tailbound(&arguments))
    };
    let sized = of_host("size", &text, &["--period", "8ms", "--probability", "0.9"]);
    let best = &sized["sizings"][0]["best"];
    assert_eq!(sized["sizings"][0]["evidence"], "band");
    let (budget, resolution) = (
        best["budget_ns"].as_u64().unwrap(),
        best["resolution_ns"].as_u64().unwrap(),
    );
    assert_eq!(resolution, 8_000, "a thousandth of the period");
    let kept = |budget_ns: u64| {
        let described = "budget = \"6ms\", period = \"10ms\"";
        let sized = format!("budget = \"{budget_ns}ns\", period = \"8ms\"");
        assert!(text.contains(described));
        let text = text.replace(described, &sized);
        let predicted = of_host("predict", &text, &["--variant", "reserved"]);
        let promises = predicted["bands"][0]["band"]["promises"]
            .as_array()
            .unwrap();
        assert_eq!(promises.len(), 1);
        promises[0]["kept"].as_f64().unwrap()
    };
    assert_eq!(Some(kept(budget)), best["kept"].as_f64());
    assert!(kept(budget) >= 0.9);
    assert!(kept(budget - resolution) < 0.9);
}
