//! Readers of texts never panic; where they refuse a text, they say where in it and why.

use proptest::prelude::*;
use tailbound_model::{
    Description, Problems, check, kernel_trace, parse_histogram, parse_jobs, parse_samples, rt_app,
    to_toml,
};

use crate::mutation::{mutated, soup};

const GOOD: [&str; 10] = [
    include_str!("good/workloads.toml"),
    include_str!("good/redis.toml"),
    include_str!("good/modes.toml"),
    include_str!("good/derived.toml"),
    include_str!("good/http.toml"),
    include_str!("good/minimal.toml"),
    include_str!("good/host.toml"),
    include_str!("good/soft.toml"),
    include_str!("good/local-modes.toml"),
    include_str!("good/derived-modes.toml"),
];

const RT_APP: [&str; 2] = [
    include_str!("rt_app/mixed.json"),
    include_str!("rt_app/phases.json"),
];

const INPUTS: [&str; 4] = [
    "0ns\n5ms # c\n7ms\n",
    "value_ns,count\n1000,3\n2000,1\n",
    "release_ns,execution_ns\n0,10\n30,20\n",
    "from_ns,to_ns,count\n0,100,3\n100,200,1\n",
];

const KERNEL_TRACES: [&str; 5] = [
    include_str!("kernel_trace/ftrace.txt"),
    include_str!("kernel_trace/trace-cmd.txt"),
    include_str!("kernel_trace/perf-script.txt"),
    include_str!("kernel_trace/trace-cmd-lost.txt"),
    include_str!("kernel_trace/perf-script-lost.txt"),
];

const SCRAPS: [&str; 62] = [
    "\nCPU:0 [LOST 3 EVENTS]\n",
    "\nCPU:0 [EVENTS DROPPED]\n",
    "PERF_RECORD_LOST",
    " next_comm=",
    "prev_state=256",
    "sched_switch: ",
    "sched_wakeup: ",
    " 1.5: ",
    " ==> ",
    "web:7 [120]",
    "prev_comm=web prev_pid=7",
    "[",
    "]",
    "[[",
    "]]",
    "{",
    "}",
    "=",
    ".",
    ",",
    "\"",
    "'",
    "#",
    "\n",
    " ",
    "\"\"\"",
    "\\",
    "\\u00",
    "0",
    "-1",
    "1e999",
    "99999999999999999999",
    "nan",
    "true",
    "2026-01-01",
    "\"5ms\"",
    "\"5\"",
    "hosts",
    "domains",
    "services",
    "tasks",
    "kind",
    "period",
    "\"periodic\"",
    "inside",
    "windows",
    "modes",
    "mode_changes",
    "agent",
    "fallback",
    "triggers",
    "quantum",
    "vcpus",
    "\"global\"",
    "\"time-partitions\"",
    "\"../..\"",
    "é",
    "\u{0}",
    "\u{feff}",
    "/*",
    "\"timer\"",
    ":",
];

fn every_problem_is_in(text: &str, problems: &Problems) -> Result<(), TestCaseError> {
    let lines = text.split('\n').count();
    for problem in problems {
        prop_assert!((1..=lines).contains(&problem.line), "{problem}");
        prop_assert!(problem.column >= 1);
        prop_assert!(problem.span.start <= problem.span.end);
        prop_assert!(text.get(problem.span.clone()).is_some(), "{problem}");
        prop_assert!(!problem.message.is_empty());
        prop_assert!(!problem.remedy.is_empty(), "{problem}");
    }
    Ok(())
}

/// Checks `text`, and that the outcome agrees with what serde says of its shape.
fn check_holds(text: &str) -> Result<(), TestCaseError> {
    let checked = check(text, "fuzz.toml");
    every_problem_is_in(text, &checked.problems)?;
    prop_assert_eq!(checked.description.is_none(), checked.problems.has_errors());
    if let Some(description) = checked.description {
        let by_serde: Description = toml::from_str(text).expect("serde reads what we read");
        prop_assert_eq!(&description, &by_serde);
        let written = to_toml(&description).expect("what was read can be written");
        prop_assert_eq!(check(&written, "again.toml").description, Some(description));
    }
    Ok(())
}

fn import_holds(text: &str) -> Result<(), TestCaseError> {
    match rt_app::import(text, "fuzz.json") {
        Ok(imported) => {
            every_problem_is_in(text, &Problems::new(imported.notes))?;
            check_holds(&to_toml(&imported.description).expect("writable"))?;
            let written = to_toml(&imported.description).expect("writable");
            prop_assert!(!check(&written, "imported.toml").problems.has_errors());
        }
        Err(problems) => {
            prop_assert!(problems.has_errors());
            every_problem_is_in(text, &problems)?;
        }
    }
    Ok(())
}

fn inputs_hold(text: &str) -> Result<(), TestCaseError> {
    match parse_jobs(text, "fuzz.txt") {
        Ok(jobs) => prop_assert!(!jobs.is_empty() && jobs.is_sorted_by_key(|job| job.release)),
        Err(problems) => every_problem_is_in(text, &problems)?,
    }
    match parse_samples(text, "fuzz.csv") {
        Ok(samples) => prop_assert!(!samples.is_empty() && samples.iter().all(|s| s.count > 0)),
        Err(problems) => every_problem_is_in(text, &problems)?,
    }
    match parse_histogram(text, "fuzz.csv") {
        Ok(bins) => {
            prop_assert!(!bins.is_empty());
            prop_assert!(bins.iter().all(|bin| bin.count > 0 && bin.from <= bin.to));
        }
        Err(problems) => every_problem_is_in(text, &problems)?,
    }
    Ok(())
}

fn traces_hold(text: &str) -> Result<(), TestCaseError> {
    let selection = kernel_trace::ThreadSelection {
        pids: vec![7],
        comm: Some("web".into()),
    };
    match kernel_trace::recorded_jobs(text, "fuzz.txt", &selection) {
        Ok(recorded) => {
            every_problem_is_in(text, &Problems::new(recorded.notes.clone()))?;
            let csv = kernel_trace::jobs_csv(&recorded);
            prop_assert_eq!(parse_jobs(&csv, "jobs.csv"), Ok(recorded.jobs.clone()));
            let made = kernel_trace::description(&recorded, "jobs.csv".into());
            check_holds(&to_toml(&made).expect("writable"))?;
        }
        Err(problems) => {
            prop_assert!(problems.has_errors());
            every_problem_is_in(text, &problems)?;
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(2048),
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn arbitrary_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let text = String::from_utf8_lossy(&bytes);
        check_holds(&text)?;
        import_holds(&text)?;
        inputs_hold(&text)?;
        traces_hold(&text)?;
    }

    #[test]
    fn token_soup(text in soup(&SCRAPS)) {
        check_holds(&text)?;
        import_holds(&text)?;
        inputs_hold(&text)?;
        traces_hold(&text)?;
    }

    #[test]
    fn mutated_kernel_traces(text in mutated(&KERNEL_TRACES)) {
        traces_hold(&text)?;
    }

    #[test]
    fn mutated_descriptions(text in mutated(&GOOD)) {
        check_holds(&text)?;
    }

    #[test]
    fn mutated_rt_app(text in mutated(&RT_APP)) {
        import_holds(&text)?;
    }

    #[test]
    fn mutated_inputs(text in mutated(&INPUTS)) {
        inputs_hold(&text)?;
    }
}
