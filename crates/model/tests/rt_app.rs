//! rt-app workloads in and out.

use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tailbound_model::rt_app::{NotExportable, export, import};
use tailbound_model::{Arrivals, ExecutionTime, Problems, parse, to_toml};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rt_app")
}

/// What the import of `text` yields, in words: the description and the notes, or the problems.
fn rendered(text: &str, file: &str) -> String {
    match import(text, file) {
        Ok(imported) => {
            let toml = to_toml(&imported.description).unwrap();
            let again = parse(&toml, "imported.toml");
            assert_eq!(again.as_ref(), Ok(&imported.description));
            format!("{toml}\n# notes\n{}\n", Problems::new(imported.notes))
        }
        Err(problems) => {
            assert!(problems.has_errors());
            format!("{problems}\n")
        }
    }
}

/// `UPDATE=1` writes the expectations anew, to be read in the diff.
#[test]
fn workloads_are_taken_over_as_expected() {
    let mut wrong = Vec::new();
    let mut files: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    files.sort();
    assert!(files.len() >= 15);
    for path in files {
        let name = path.file_name().unwrap().to_str().unwrap();
        let got = rendered(&fs::read_to_string(&path).unwrap(), name);
        let expected_path = path.with_extension("expected");
        if std::env::var_os("UPDATE").is_some() {
            fs::write(&expected_path, &got).unwrap();
        }
        let expected = fs::read_to_string(&expected_path).unwrap_or_default();
        if got != expected {
            wrong.push(format!("--- {name}\nexpected:\n{expected}got:\n{got}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_workload_comes_back_as_it_went() {
    let text = include_str!("rt_app/mixed.json");
    let once = import(text, "mixed.json").unwrap().description;
    let exported = export(&once).unwrap();
    let twice = import(&exported, "mixed.json").unwrap().description;
    let timing = |description: &tailbound_model::Description| {
        let services = description.services.values();
        let tasks = services.flat_map(|service| service.tasks.values());
        let mut timing: Vec<String> = tasks
            .map(|task| format!("{:?} {:?}", task.arrivals, task.execution_time))
            .collect();
        timing.sort();
        timing
    };
    assert_eq!(timing(&once), timing(&twice), "{exported}");
    let control = |d: &tailbound_model::Description, name: &str| {
        d.domains[name]
            .reservation
            .as_ref()
            .map(|r| (r.budget, r.period, r.cpus.clone()))
    };
    assert_eq!(
        control(&once, "control-loop"),
        control(&twice, "control-loop-job")
    );
}

#[test]
fn what_rt_app_cannot_play_is_told() {
    let read = |text: &str| parse(text, "d.toml").unwrap();
    let http = read(include_str!("good/http.toml"));
    let task = "web.replay".to_owned();
    assert_eq!(export(&http), Err(NotExportable::NotPeriodic { task }));
    let modes = read(include_str!("good/modes.toml"));
    let task = "control.slow".to_owned();
    assert_eq!(export(&modes), Err(NotExportable::NotConstant { task }));
    let mut fine = modes;
    let slow = fine
        .services
        .get_mut("control")
        .unwrap()
        .tasks
        .get_mut("slow")
        .unwrap();
    slow.execution_time = ExecutionTime::Constant {
        value: "1.5us".parse().unwrap(),
    };
    assert!(matches!(
        export(&fine),
        Err(NotExportable::NotMicroseconds { .. })
    ));
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// A thread of one run and one timer is a periodic task of just these times.
    #[test]
    fn a_run_and_a_timer_are_a_periodic_task(
        (period, run) in (1_u64..10_000_000).prop_flat_map(|period| (Just(period), 1..=period)),
        delay in 0_u64..1_000_000,
    ) {
        let text = format!(
            r#"{{"tasks": {{"a": {{"delay": {delay}, "run": {run},
                "timer": {{"ref": "unique", "period": {period}}}}}}}}}"#
        );
        let imported = import(&text, "a.json").map_err(|p| TestCaseError::fail(p.to_string()))?;
        let task = &imported.description.services["a"].tasks["job"];
        let micros = tailbound_time_of;
        let arrivals = Arrivals::Periodic { period: micros(period), offset: micros(delay) };
        prop_assert_eq!(&task.arrivals, &arrivals);
        prop_assert_eq!(&task.execution_time, &ExecutionTime::Constant { value: micros(run) });
    }
}

fn tailbound_time_of(micros: u64) -> tailbound_time::Duration {
    tailbound_time::Duration::from_micros(micros)
}
