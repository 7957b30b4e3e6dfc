//! The figures of all trials: a row per back end and fault.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use crate::trial::{BackEnd, Fault, Outcome, Trial};

#[derive(Default)]
struct Row {
    trials: u64,
    restored: Vec<Duration>,
    skipped: u64,
    failures: Vec<(u64, Vec<String>)>,
}

pub struct Summary {
    seed: u64,
    kernel: String,
    rows: BTreeMap<(BackEnd, Fault), Row>,
}

fn in_ms(length: Duration) -> f64 {
    length.as_secs_f64() * 1_000.0
}

/// The begin of a text; the JSON has all of it.
pub fn shortened(text: &str) -> String {
    const MOST: usize = 400;
    let mut short: String = text.chars().take(MOST).collect();
    if short.len() < text.len() {
        short.push_str(" ...");
    }
    short
}

impl Row {
    fn median(&self) -> Option<Duration> {
        let mut sorted = self.restored.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied()
    }

    fn cells(&self) -> [String; 6] {
        let or_none = |length: Option<Duration>| {
            length.map_or_else(|| "-".to_owned(), |length| format!("{:.0}", in_ms(length)))
        };
        [
            self.trials.to_string(),
            self.restored.len().to_string(),
            self.skipped.to_string(),
            self.failures.len().to_string(),
            or_none(self.median()),
            or_none(self.restored.iter().max().copied()),
        ]
    }
}

impl Summary {
    pub fn new(seed: u64, kernel: String) -> Self {
        Self {
            seed,
            kernel,
            rows: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, trial: &Trial, outcome: Outcome) {
        let row = self.rows.entry((trial.back_end, trial.fault)).or_default();
        row.trials += 1;
        match outcome {
            Outcome::Restored(after) => row.restored.push(after),
            Outcome::Skipped(_) => row.skipped += 1,
            Outcome::Failed { why } => row.failures.push((trial.number, why)),
        }
    }

    pub fn failures(&self) -> usize {
        self.rows.values().map(|row| row.failures.len()).sum()
    }

    /// As people read it, with each failure below.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let heads = [
            "trials",
            "restored",
            "no fault",
            "failed",
            "median ms",
            "max ms",
        ];
        let _ = write!(out, "{:10} {:17}", "back end", "fault");
        for head in heads {
            let _ = write!(out, " {head:>9}");
        }
        out.push('\n');
        for ((back_end, fault), row) in &self.rows {
            let _ = write!(out, "{back_end:10} {fault:17}");
            for cell in row.cells() {
                let _ = write!(out, " {cell:>9}");
            }
            out.push('\n');
        }
        let trials: u64 = self.rows.values().map(|row| row.trials).sum();
        let _ = writeln!(
            out,
            "{trials} trials, {} failed; seed {}",
            self.failures(),
            self.seed
        );
        for row in self.rows.values() {
            for (number, why) in &row.failures {
                let _ = writeln!(
                    out,
                    "  again with the same options and --seed {} --first {number} --trials 1: {}",
                    self.seed,
                    shortened(&why.join("; "))
                );
            }
        }
        out
    }

    pub fn json(&self) -> Value {
        let rows = self.rows.iter().map(|((back_end, fault), row)| {
            json!({
                "back_end": back_end.to_string(),
                "fault": fault.to_string(),
                "trials": row.trials,
                "restored": row.restored.len(),
                "no_fault": row.skipped,
                "failed": row.failures.len(),
                "median_ns": row.median().map(|length| length.as_nanos() as u64),
                "max_ns": row.restored.iter().max().map(|length| length.as_nanos() as u64),
                "failures": row.failures.iter().map(|(number, why)| json!({ "trial": number, "why": why }))
                    .collect::<Vec<_>>(),
            })
        });
        json!({
            "schema_version": 1,
            "seed": self.seed,
            "kernel": self.kernel,
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}
