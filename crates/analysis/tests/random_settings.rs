//! Random settings in exact nanoseconds, predicted and simulated; `bench/bounds` does hundreds, at higher loads.

use std::collections::BTreeSet;

use rayon::prelude::*;
use tailbound_analysis::response_time::PoissonQueue;
use tailbound_analysis::{AnalysisError, SharpPoints};

use crate::random_queues::{RULES, SettingRanges, compare};

/// How many settings there are, and how many jobs of each.
const SETTINGS: u64 = 40;
const JOBS: usize = 100_000;
/// A contradicted bound is simulated again, with so many times as many jobs and another seed.
const AGAIN: usize = 20;
/// So many settings have an answer, at least.
const ANSWERED: usize = 34;
/// Settings whose predictions take little time.
const QUICK: SettingRanges = SettingRanges {
    seed: 1,
    load: (0.2, 0.65),
    execution: (0.1, 1.5),
};

/// Simulates a setting: `None` where there is no prediction, else what the simulation contradicts, twice, of its
/// bounds.
fn contradictions(number: u64) -> Option<Vec<String>> {
    let queue = QUICK.queue(number);
    let predict = |queue: &PoissonQueue, points: &SharpPoints| queue.predict("queue", points);
    let told = |wrong: &dyn std::fmt::Display| format!("{number}, {queue:?}: {wrong}");
    let found = match compare(&queue, (JOBS, number), predict) {
        Ok(found) => found,
        Err(AnalysisError::NotAnalysed { .. }) => return None,
        Err(error) => return Some(vec![told(&error)]),
    };
    if found.width().is_infinite() {
        return Some(vec![told(&"the 99th percentile has no upper end")]);
    }
    if found.wrong().next().is_none() || !found.is_bound() {
        return Some(Vec::new());
    }
    let again = compare(&queue, (JOBS * AGAIN, SETTINGS + number), predict).unwrap();
    Some(again.wrong().map(|wrong| told(wrong)).collect())
}

#[test]
fn no_simulation_contradicts_a_bound() {
    let found: Vec<Option<Vec<String>>> =
        (0..SETTINGS).into_par_iter().map(contradictions).collect();
    let wrong: Vec<&String> = found.iter().flatten().flatten().collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let answered = (0..SETTINGS).zip(&found).filter(|(_, one)| one.is_some());
    let rules: Vec<u64> = answered
        .map(|(number, _)| number % RULES.len() as u64)
        .collect();
    assert!(rules.len() >= ANSWERED, "{} answers", rules.len());
    let different: BTreeSet<u64> = rules.into_iter().collect();
    assert_eq!(different.len(), RULES.len());
}
