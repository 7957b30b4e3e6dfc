//! Hosts whose schedules were worked out by hand: `tests/scenarios/NAME.toml` runs as in
//! `NAME.schedule`, which has a line for each CPU and times in milliseconds.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use tailbound_simulator::host::{Growth, HostSimulation, Kept, simulate_host};
use tailbound_time::Duration;

use crate::host::{Recorded, query, recorded};

/// The schedule as text: what is said of each CPU up to `until`.
fn schedule_text(recorded: &Recorded, until: u64) -> String {
    let mut text = String::new();
    for (cpu, pieces) in &recorded.by_cpu {
        let mut parts: Vec<(String, u64, u64)> = Vec::new();
        for piece in pieces.iter().filter(|piece| piece.from < until) {
            let end = piece.until.min(until);
            match parts.last_mut() {
                Some((name, _, last)) if *name == piece.name && *last == piece.from => *last = end,
                _ => parts.push((piece.name.clone(), piece.from, end)),
            }
        }
        let parts: Vec<String> = parts
            .into_iter()
            .map(|(name, from, until)| {
                let ms = |ns: u64| ns as f64 / 1e6;
                format!("{name} {}-{}", ms(from), ms(until))
            })
            .collect();
        let _ = writeln!(text, "CPU {cpu}: {}", parts.join(", "));
    }
    text
}

#[test]
fn hosts_run_as_worked_out_by_hand() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let mut seen = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|ending| ending != "toml") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let description = tailbound_model::parse(&text, &name).unwrap();
        let expected = fs::read_to_string(path.with_extension("schedule")).unwrap();
        let duration = description.experiment.duration;
        let query = query(&description, duration, Kept::Classes);
        let (recorded, simulation) = recorded(&query).unwrap();
        assert_eq!(
            schedule_text(&recorded, duration.as_nanos()),
            expected,
            "{name}"
        );
        let domains = simulation.domains.iter();
        let grows = domains.filter(|(_, domain)| domain.growth.is_some());
        let grows: Vec<&str> = grows.map(|(name, _)| name.as_str()).collect();
        // In that one `low` needs 35% and has 30%; the container gets its 15%.
        let expected: &[&str] = if name == "nested.toml" { &["low"] } else { &[] };
        assert_eq!(grows, expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 11);
}

/// What is simulated of a text for half a minute.
fn simulated(text: &str) -> HostSimulation {
    let description = tailbound_model::parse(text, "inline.toml").unwrap();
    let query = query(&description, Duration::from_secs(30), Kept::Classes);
    simulate_host(&query).unwrap()
}

const BOOSTED: &str = r#"
schema_version = 1
name = "boosted"
[hosts.here]
cpus = [0]
[domains.vm]
kind = "qemu-vm"
reservation = { budget = "3ms", period = "10ms", cpus = [0], priority = 50 }
scheduling = "fixed-priority"
tasks.work = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "2500us" }, priority = 1 }
"#;

#[test]
fn what_is_boosted_needs_no_budget() {
    let agent = r#"tasks.agent = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "2ms" }, priority = 9, boost = "5ms" }"#;
    let text = format!("{BOOSTED}{agent}\n");
    let simulation = simulated(&text);
    // 45% where 30% are reserved, and every job is in time.
    assert_eq!(simulation.domains["vm"].growth, None);
    assert!(
        simulation.domains["vm"]
            .tasks
            .iter()
            .all(|task| task.missed == 0)
    );
    let checked = tailbound_model::check(&text, "inline.toml");
    assert_eq!(checked.problems.to_string(), "");
}

#[test]
fn a_boost_that_takes_the_cpu_is_not_blamed_on_its_own_domain() {
    let rest = r#"tasks.agent = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "7ms" }, priority = 9, boost = "9ms" }
[domains.control]
kind = "qemu-vm"
reservation = { budget = "5ms", period = "10ms", cpus = [0], priority = 80 }
tasks.loop = { arrivals = { kind = "periodic", period = "10ms" }, execution_time = { kind = "constant", value = "4ms" } }
"#;
    let simulation = simulated(&format!("{BOOSTED}{rest}").replace("2500us", "1us"));
    assert!(matches!(
        simulation.domains["control"].growth,
        Some(Growth::Measured { .. })
    ));
    let agent = simulation.domains["vm"].tasks.iter();
    let agent = agent.filter(|task| task.name == "agent");
    assert!(agent.map(|task| task.missed).eq([0]));
}

#[test]
fn a_boost_of_an_overloaded_task_ends() {
    // 300,000 jobs, of which most are never done.
    let agent = r#"tasks.agent = { arrivals = { kind = "periodic", period = "100us" }, execution_time = { kind = "constant", value = "150us" }, priority = 9, boost = "10us" }"#;
    let simulation = simulated(&format!("{BOOSTED}{agent}\n"));
    assert!(simulation.domains["vm"].growth.is_some());
}

#[test]
fn a_guest_elsewhere_does_not_hide_an_overload() {
    let slow = r#"
schema_version = 1
name = "slow"
[hosts.here]
cpus = [0, 1, 2]
speeds = [100, 50, 100]
[domains.slow]
kind = "qemu-vm"
reservation = { budget = "9ms", period = "10ms", cpus = [1], priority = 50 }
tasks.t = { arrivals = { kind = "poisson", rate = "100/s" }, execution_time = { kind = "constant", value = "4510us" } }
"#;
    let guest = r#"
[domains.guest]
kind = "qemu-vm"
reservation = { budget = "1ms", period = "10ms", cpus = [0, 2], priority = 60 }
placement = "global"
tasks.t = { arrivals = { kind = "periodic", period = "100ms" }, execution_time = { kind = "constant", value = "1ms" } }
"#;
    let alone = simulated(slow);
    let both = simulated(&format!("{slow}{guest}"));
    assert!(matches!(
        alone.domains["slow"].growth,
        Some(Growth::Demand { .. })
    ));
    assert_eq!(alone.domains["slow"], both.domains["slow"]);
}
