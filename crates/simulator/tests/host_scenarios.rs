//! Hosts whose schedules were worked out by hand: `tests/scenarios/NAME.toml` runs as in
//! `NAME.schedule`, which has a line for each CPU and times in milliseconds.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod host;

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use host::{Recorded, query, recorded};
use tailbound_simulator::host::Kept;

/// The schedule as text: what is said of each CPU up to `until`.
fn told(recorded: &Recorded, until: u64) -> String {
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
        if path.extension().is_none_or(|found| found != "toml") {
            continue;
        }
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = fs::read_to_string(&path).unwrap();
        let description = tailbound_model::parse(&text, &name).unwrap();
        let expected = fs::read_to_string(path.with_extension("schedule")).unwrap();
        let duration = description.experiment.duration;
        let query = query(&description, duration, Kept::Classes);
        let (recorded, found) = recorded(&query).unwrap();
        assert_eq!(told(&recorded, duration.as_nanos()), expected, "{name}");
        let domains = found.domains.iter();
        let grows = domains.filter(|(_, domain)| domain.growth.is_some());
        let grows: Vec<&str> = grows.map(|(name, _)| name.as_str()).collect();
        // In that one `low` needs 35% and has 30%; the container gets its 15%.
        let expected: &[&str] = if name == "nested.toml" { &["low"] } else { &[] };
        assert_eq!(grows, expected, "{name}");
        seen += 1;
    }
    assert!(seen >= 6);
}
