//! Bounds of response times on random hosts with interference, against simulations: `interference_bounds SETTINGS SECONDS
//! FIRST` prints a row of JSON for each back end and order of tasks.
#![allow(clippy::unwrap_used)]

#[path = "../tests/interference/settings.rs"]
mod settings;

use std::collections::BTreeMap;

use rayon::prelude::*;
use serde::Serialize;
use tailbound_time::Duration;

use settings::{BoundComparison, compare};

/// `ComparisonRow` is a row of the result.
#[derive(Default, Serialize)]
struct ComparisonRow {
    settings: u64,
    tasks: u64,
    bounded: u64,
    deadlines_met: u64,
    contradicted: u64,
    /// The longest simulated response in multiples of the bound, of each task with a bound.
    #[serde(skip)]
    reached: Vec<f64>,
    reached_median: f64,
    reached_most: f64,
}

impl ComparisonRow {
    fn add(&mut self, comparison: &BoundComparison) {
        self.settings += 1;
        for task in &comparison.tasks {
            self.tasks += 1;
            self.deadlines_met += u64::from(task.is_met);
            if task.is_contradicted() {
                self.contradicted += 1;
                eprintln!("{}: {}\n{}", comparison.kind, task.name, comparison.text);
            }
            if let Some(bound) = task.bound {
                self.bounded += 1;
                let share = task.longest.as_secs_f64() / bound.as_secs_f64();
                self.reached.push(share);
            }
        }
    }

    fn finish(&mut self) {
        self.reached.sort_by(f64::total_cmp);
        self.reached_median = self
            .reached
            .get(self.reached.len() / 2)
            .copied()
            .unwrap_or(0.0);
        self.reached_most = self.reached.last().copied().unwrap_or(0.0);
    }
}

fn main() {
    let numbers: Vec<u64> = std::env::args()
        .skip(1)
        .map(|one| one.parse().unwrap())
        .collect();
    let [settings, seconds, first] = numbers[..] else {
        eprintln!("usage: interference_bounds SETTINGS SECONDS FIRST");
        std::process::exit(1);
    };
    let compared = (first..first + settings).into_par_iter();
    let compared: Vec<BoundComparison> = compared
        .map(|number| compare(number, Duration::from_secs(seconds)))
        .collect();
    let mut rows: BTreeMap<&str, ComparisonRow> = BTreeMap::new();
    for comparison in &compared {
        rows.entry(&comparison.kind).or_default().add(comparison);
    }
    rows.values_mut().for_each(ComparisonRow::finish);
    println!("{}", serde_json::to_string_pretty(&rows).unwrap());
}
