//! The reference documents of the format say what the types say. `UPDATE=1` writes them anew.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value as Json;
use tailbound_analysis::FORMAT;

const BEGIN: &str =
    "<!-- generated from the types by crates/analysis/tests/reference.rs: begin -->\n";
const END: &str = "<!-- generated: end -->\n";

/// The types in the order in which a reader meets them, with the tables of a file they are.
const SECTIONS: [(&str, &str); 61] = [
    ("", "The top of the file"),
    ("Host", "`[hosts.NAME]`"),
    ("HostOverheads", "`[hosts.NAME.overheads]`"),
    ("HostTick", "`tick` of `[hosts.NAME.overheads]`"),
    ("Interference", "`[[hosts.NAME.interference]]`"),
    (
        "InterruptHandling",
        "`[hosts.NAME.interrupts.SOURCE]`, of a network device or an interrupt",
    ),
    ("AgentListeners", "`[hosts.NAME.agents]`"),
    ("TlsListener", "`[hosts.NAME.agents.tls]`"),
    ("Domain", "`[domains.NAME]`"),
    ("Isolation", "`isolation` of a domain"),
    ("Machine", "`[domains.NAME.machine]`"),
    ("Health", "`[domains.NAME.health]`"),
    (
        "Reservation",
        "`[domains.NAME.reservation]`, `[domains.NAME.modes.NAME.reservation]`, \
         `[modes.NAME.reservations.DOMAIN]`",
    ),
    (
        "BackendOptions",
        "`options` of a reservation: `[domains.NAME.reservation.options]`",
    ),
    ("Service", "`[services.NAME]`"),
    ("DatabaseLogin", "`login` of a service"),
    ("ServiceTls", "`tls` of a service"),
    ("Users", "`[services.NAME.users]`"),
    ("ThinkTime", "`think_time` of users"),
    ("UserStep", "`session` of users"),
    ("UserChange", "`changes` of the number of users"),
    (
        "Task",
        "`[services.NAME.tasks.NAME]`, `[domains.NAME.tasks.NAME]`",
    ),
    ("Aperiodic", "`aperiodic` of a domain"),
    ("AperiodicCosts", "`costs` of `aperiodic`"),
    ("CriticalSection", "`sections` of a task"),
    ("Window", "`windows` of a time partition"),
    ("Arrivals", "`arrivals` of a task, or of interference"),
    (
        "PoissonState",
        "`states` of Markov-modulated Poisson arrivals",
    ),
    ("LaterDistance", "`later` of minimum distances"),
    ("Gaps", "`gaps` of bursts"),
    ("ExecutionTime", "`execution_time` of a task"),
    ("Bin", "`bins` of a histogram"),
    (
        "Request",
        "`request` of a task, `ready` and `setup` of a service",
    ),
    ("Slo", "`[[services.NAME.slos]]`"),
    ("LocalMode", "`[domains.NAME.modes.NAME]`"),
    ("Agent", "`[domains.NAME.agent]`"),
    ("TaskProcesses", "`[domains.NAME.agent.tasks.TASK]`"),
    ("AgentLink", "`link` of an agent"),
    ("Mode", "`[modes.NAME]`"),
    ("Trigger", "`[[modes.NAME.triggers]]`"),
    ("ModeChanges", "`[mode_changes]`"),
    ("Topics", "`[topics]`"),
    ("TopicDescription", "`[topics.NAME]`"),
    ("Quality", "`quality` of a topic"),
    ("Liveliness", "`liveliness` of a quality"),
    ("Contract", "`contract` of a topic"),
    ("Delay", "`delay` of a topic"),
    ("Chains", "`[chains]`"),
    ("Chain", "`[chains.NAME]`"),
    ("Routes", "`[routes]`"),
    ("RouteDescription", "`[routes.NAME]`"),
    ("Ports", "`[ports]`"),
    ("PortDescription", "`[ports.NAME]`"),
    ("SamplingCampaign", "`[sampling]`"),
    ("ReportedMetric", "`[sampling.metrics.NAME]`"),
    ("BalanceTable", "`[balance]`"),
    ("BalancedApplication", "`[balance.applications.NAME]`"),
    (
        "SimulatedApplication",
        "`simulated` of a balanced application",
    ),
    ("LoadPhase", "`phases` of a simulated application"),
    ("Experiment", "`[experiment]`"),
    ("Variant", "`[[experiment.variants]]`"),
];

fn reference(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs/reference")
        .join(file)
}

fn line(schema: &Json) -> String {
    schema["description"]
        .as_str()
        .unwrap_or_default()
        .replace('\n', " ")
        .replace('|', "\\|")
}

/// What a key takes, in words.
fn takes(schema: &Json) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = reference.rsplit('/').next().unwrap();
        return match name {
            "Name" => "name".into(),
            "Duration" => "duration".into(),
            "Rate" => "rate".into(),
            "MemorySize" => "size of memory".into(),
            other => format!("[{other}](#{})", other.to_lowercase()),
        };
    }
    match schema["type"].as_str().unwrap_or_default() {
        "array" => format!("array of {}", takes(&schema["items"])),
        "object" => format!(
            "table of {} by name",
            takes(&schema["additionalProperties"])
        ),
        "integer" => "whole number".into(),
        other => other.into(),
    }
}

fn keys(out: &mut String, schema: &Json) {
    let needed: Vec<&str> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Json::as_str)
        .collect();
    let Some(properties) = schema["properties"].as_object() else {
        return; // A table by name: its entries have a section of their own.
    };
    let mut rows: Vec<(bool, &String, &Json)> = properties
        .iter()
        .filter(|(_, property)| property["const"].is_null())
        .map(|(key, property)| (!needed.contains(&key.as_str()), key, property))
        .collect();
    rows.sort_by_key(|(optional, key, _)| (*optional, key.as_str()));
    if rows.is_empty() {
        return;
    }
    out.push_str("\n| key | takes | if left out | meaning |\n| --- | --- | --- | --- |\n");
    for (optional, key, property) in rows {
        let default = match (optional, &property["default"]) {
            (false, _) => "an error".into(),
            (true, Json::Null) => "none".to_owned(),
            (true, Json::Array(_) | Json::Object(_)) => "see the meaning".into(),
            (true, default) => format!("`{default}`"),
        };
        let _ = writeln!(
            out,
            "| `{key}` | {} | {default} | {} |",
            takes(property),
            line(property)
        );
    }
}

fn section(out: &mut String, schema: &Json) {
    let _ = writeln!(out, "\n{}", line(schema));
    let choices = schema["oneOf"].as_array().or(schema["anyOf"].as_array());
    match choices {
        None => keys(out, schema),
        Some(choices) => {
            for choice in choices {
                match choice["properties"]["kind"]["const"].as_str() {
                    Some(kind) => {
                        let _ = writeln!(out, "\n`kind = \"{kind}\"`: {}", line(choice));
                    }
                    None => {
                        let _ = writeln!(out, "\n{}", line(choice));
                    }
                }
                keys(out, choice);
            }
        }
    }
}

fn generated() -> String {
    let schema = FORMAT.schema();
    let mut out = String::new();
    for (name, title) in SECTIONS {
        if name.is_empty() {
            let _ = writeln!(out, "\n## {title}");
            section(&mut out, schema);
        } else {
            let _ = writeln!(out, "\n## {name}\n\n{title}");
            section(&mut out, &schema["$defs"][name]);
        }
    }
    for (name, definition) in schema["$defs"].as_object().unwrap() {
        let Some(choices) = definition["oneOf"].as_array() else {
            continue;
        };
        if choices.iter().any(|choice| choice["const"].is_null()) {
            continue;
        }
        let _ = writeln!(
            out,
            "\n## {name}\n\n{}\n\n| value | meaning |\n| --- | --- |",
            line(definition)
        );
        for choice in choices {
            let _ = writeln!(
                out,
                "| `{}` | {} |",
                choice["const"].as_str().unwrap(),
                line(choice)
            );
        }
    }
    for name in [
        "Priority",
        "Percentile",
        "Percent",
        "PercentagePoints",
        "NiceValue",
        "CpuWeight",
        "Cpu",
    ] {
        let definition = &schema["$defs"][name];
        let _ = writeln!(out, "\n## {name}\n\n{}", line(definition));
    }
    out.push('\n');
    out
}

#[test]
fn the_reference_is_that_of_the_types() {
    let path = reference("description.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("the mark before the generated part");
    let (_, after) = rest
        .split_once(END)
        .expect("the mark after the generated part");
    let fresh = format!("{before}{BEGIN}{}{END}{after}", generated());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &fresh).unwrap();
        return;
    }
    assert!(
        text == fresh,
        "docs/reference/description.md is stale; run with UPDATE=1"
    );
}

#[test]
fn the_reference_names_every_key_and_value() {
    if std::env::var_os("UPDATE").is_some() {
        return; // The file is being written.
    }
    let text = fs::read_to_string(reference("description.md")).unwrap();
    let mut words = Vec::new();
    every_word(FORMAT.schema(), &mut words);
    assert!(words.len() > 60);
    for word in words {
        let named = [format!("`{word}`"), format!("kind = \"{word}\"")];
        assert!(
            named.iter().any(|form| text.contains(form)),
            "`{word}` is not in the reference"
        );
    }
}

fn every_word(schema: &Json, words: &mut Vec<String>) {
    if let Some(properties) = schema["properties"].as_object() {
        words.extend(properties.keys().cloned());
    }
    words.extend(schema["const"].as_str().map(str::to_owned));
    match schema {
        Json::Object(members) => members
            .values()
            .for_each(|member| every_word(member, words)),
        Json::Array(elements) => elements
            .iter()
            .for_each(|element| every_word(element, words)),
        _ => {}
    }
}

#[test]
fn the_schema_is_that_of_the_types() {
    let path = reference("description.schema.json");
    let fresh = format!("{:#}\n", FORMAT.schema());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &fresh).unwrap();
    }
    let text = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        text == fresh,
        "docs/reference/description.schema.json is stale; run with UPDATE=1"
    );
}

/// The examples in the reference are good ones.
#[test]
fn the_examples_are_descriptions() {
    if std::env::var_os("UPDATE").is_some() {
        return; // The file is being written.
    }
    let text = fs::read_to_string(reference("description.md")).unwrap();
    let blocks: Vec<&str> = text
        .split("```toml\n")
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect();
    assert!(!blocks.is_empty());
    for block in blocks {
        let checked = FORMAT.check(block, "description.md");
        assert!(checked.problems.is_empty(), "{}", checked.problems);
    }
}
